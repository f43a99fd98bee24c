"""`PointerStore`: which namespaces and tables exist, and the one metadata location each table's name points to.

The whole atomicity of Iceberg rests on `swap`: it changes a pointer from one location to another in one step, or not at all. What the location holds is
not known here. Floor: pointer. Spec: Optimistic Concurrency; Metastore Tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from icefloe.kernel.commit.outcome import Outcome
from icefloe.pointer.identifier import Identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePointer:
    """A table's or view's row in its catalog. `lookup` is how it was found, for people who trace a query."""

    identifier: Identifier
    metadata_location: str
    previous_metadata_location: str | None
    lookup: str


class PointerStore(Protocol):
    """Names to locations. Every method may raise a `StorageError` where the store is away, full or read-only."""

    name: str

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """The namespaces one level below `parent`, sorted."""

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Raises `NoSuchNamespaceError`."""

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Raises `NamespaceAlreadyExistsError`."""

    def drop_namespace(self, namespace: Identifier) -> None:
        """Raises `NoSuchNamespaceError`, `NamespaceNotEmptyError`."""

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        """Raises `NoSuchNamespaceError`."""

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TablePointer:
        """Raises `NoSuchTableError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> None:
        """Raises `NoSuchNamespaceError`, `TableAlreadyExistsError`."""

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """Points the name from `expected` to `new` in one step. Never raises for a lost race or a lost reply: see `Outcome`."""

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchTableError`, `NoSuchNamespaceError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier) -> None:
        """Raises `NoSuchTableError`. Files stay."""


class ViewPointers(Protocol):
    """Names of views to locations, beside the tables of a store: a name is one or the other. May raise `StorageError` like the store."""

    name: str  # of the catalog

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TablePointer:
        """Raises `NoSuchViewError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> None:
        """Raises `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `PointerStore.swap`."""

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchViewError`, `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier) -> None:
        """Raises `NoSuchViewError`. Files stay."""


@runtime_checkable
class KeepsViews(Protocol):
    """A store that keeps views too; one without this keeps tables alone."""

    def views(self) -> ViewPointers:
        """Raises `UnsupportedFeatureError` where it could, and is not set up to."""
