"""`CatalogStore`: which namespaces and tables exist, and the one metadata location each table's name points to.

The whole atomicity of Iceberg rests on `swap`: it changes a pointer from one location to another in one step, or not at all. What the location holds is
not known here. Spec: Optimistic Concurrency; Metastore Tables.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from icefloe.catalog_store.identifier import Identifier
from icefloe.kernel.commit.outcome import Outcome
from icefloe.kernel.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A table's or view's row in its catalog. `lookup` is how it was found, for people who trace a query."""

    identifier: Identifier
    metadata_location: str
    previous_metadata_location: str | None
    lookup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationChange:
    """One table's part of a commit: its name is to point to `new` where it points to `expected` now; None where there must be no such table yet."""

    identifier: Identifier
    expected: str | None
    new: str


class CatalogStore(Protocol):
    """Names to locations. Every method may raise a `StorageError` where the store is away, full or read-only."""

    name: str
    drops_files: bool  # whether the folder of a dropped table goes with its name

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

    def load(self, identifier: Identifier) -> TableLocation:
        """Raises `NoSuchTableError`."""

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """The pointers of several tables as they were at one moment, in the order asked for. Raises `NoSuchTableError`."""

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Looks whether the name can point to this metadata, before it is written to `location`. Raises `InvalidInputError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Makes a name for a metadata file; where the file lies now, which is another place where the store publishes it under a name of its own.

        Raises:
            NoSuchNamespaceError, TableAlreadyExistsError: there is no new name.
            CommitUnknownError: the store's answer was lost.
        """

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """Points the name from `expected` to `new` in one step. Never raises for a lost race or a lost reply: see `Outcome`."""

    def swap_together(self, changes: Sequence[LocationChange]) -> Outcome:
        """`swap` for several tables, all or none. Raises `UnsupportedFeatureError` where the store cannot."""

    def commit_status(self, changes: Sequence[LocationChange]) -> Outcome:
        """Looks how a swap ended whose outcome was unknown.

        `Committed` where a name points to its `new`; `Conflicted` where that swap cannot land any more, or the names were moved on by another writer, who may
        have built on it; `Unknown` as long as it cannot be told.
        """

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchTableError`, `NoSuchNamespaceError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Removes the name; with `expected` only where it points there, in one step; whether it did. Raises `NoSuchTableError`.

        Files stay, unless `drops_files`.
        """


class ViewStore(Protocol):
    """Names of views to locations, beside the tables of a store: a name is one or the other. May raise `StorageError` like the store."""

    name: str  # of the catalog

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TableLocation:
        """Raises `NoSuchViewError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Raises `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `CatalogStore.swap`."""

    def commit_status(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore.commit_status`."""

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Raises `NoSuchViewError`, `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier) -> None:
        """Raises `NoSuchViewError`. Files stay."""


@runtime_checkable
class ListsOtherTables(Protocol):
    """A store that lists the pointers of all its tables at once; of one without this, each namespace is listed."""

    def other_tables(self, identifier: Identifier, naming: str = "") -> Iterable[TableLocation]:
        """Return the pointers of all tables but this one whose metadata location holds the text `naming`."""


@runtime_checkable
class KeepsFolders(Protocol):
    """A store in which the folder of a table is its name, whatever its metadata says."""

    def table_location(self, identifier: Identifier) -> str:
        """Return the folder of a table."""


@runtime_checkable
class KeepsViews(Protocol):
    """A store that keeps views too; one without this keeps tables alone."""

    def views(self) -> ViewStore:
        """Raises `UnsupportedFeatureError` where it could, and is not set up to."""


def other_tables(store: CatalogStore, identifier: Identifier, naming: str = "") -> list[TableLocation]:
    """Return the pointers of all tables but this one whose metadata location holds the text `naming`. Raises `StorageError`."""
    if isinstance(store, ListsOtherTables):
        return list(store.other_tables(identifier, naming))
    return [found for found in _every_pointer(store, ()) if found.identifier != identifier and naming in found.metadata_location]


def _every_pointer(store: CatalogStore, namespace: Identifier) -> Iterator[TableLocation]:
    for inner in store.list_namespaces(namespace):
        yield from store.load_all(store.list_tables(inner))
        yield from _every_pointer(store, inner)
