"""`CatalogStore`: the contract of a store of namespaces and tables, and of the one metadata location of each table.

Iceberg's atomicity rests on `swap`: a compare-and-swap that changes a metadata location in one step, or not at all. The store does not read metadata files.
Spec: Optimistic Concurrency; Metastore Tables.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from icefloe.catalog_store.identifier import Identifier
from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.commit.outcome import Outcome
from icefloe.kernel.metadata.table_metadata import TableMetadata

# The property by which a SQL catalog adds the column that views need. Origin: Java's JDBC catalog.
SCHEMA_VERSION = "jdbc.schema-version"


def only_in_this_process(catalog: str) -> UnsupportedFeatureError:
    """Return the error for pickling a catalog, or a table of it, that no other process can open."""
    return UnsupportedFeatureError(
        f"catalog {catalog!r} is in the memory of this process: neither it nor a table of it can be pickled for another one",
        next_step="pass a scan of the table or its rows, or keep the catalog in a database file, on a server or in a folder",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """A table's or view's row in its catalog. `lookup` returns the text of the query that found it, for users who trace a load."""

    identifier: Identifier
    metadata_location: str
    previous_metadata_location: str | None
    lookup: Callable[[], str] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationChange:
    """The change of one table's metadata location in a commit: from `expected` to `new`; `expected` is None for a table that must not exist yet."""

    identifier: Identifier
    expected: str | None
    new: str


class CatalogStore(Protocol):
    """A store of namespaces, tables and their metadata locations. Every method may raise a `StorageError` if the store is unavailable, full or read-only."""

    name: str
    drops_files: bool  # whether dropping a table deletes its folder

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """Return the namespaces one level below `parent`, sorted."""

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        """Return a namespace's properties. Raises `NoSuchNamespaceError`."""

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Create a namespace. Raises `NamespaceAlreadyExistsError`."""

    def drop_namespace(self, namespace: Identifier) -> None:
        """Remove an empty namespace. Raises `NoSuchNamespaceError`, `NamespaceNotEmptyError`."""

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        """Remove and set properties of a namespace. Raises `NoSuchNamespaceError`."""

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """Return the tables of a namespace, sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the location of a table. Raises `NoSuchTableError`."""

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Return the locations of several tables as they were at one moment, in the order of the names. Raises `NoSuchTableError`."""

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Check that the name can have this metadata at `location`, before it is written there. Raises `InvalidInputError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a name with the location of its metadata file.

        Returns:
            The location of the file, which is another one if the store publishes it under a name of its own.

        Raises:
            NoSuchNamespaceError, TableAlreadyExistsError: the name was not created.
            CommitUnknownError: the store's reply was lost.
        """

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """Change the location from `expected` to `new` in one step. Never raises for a lost race or a lost reply: see `Outcome`."""

    def swap_together(self, changes: Sequence[LocationChange]) -> Outcome:
        """Change the locations of several tables, all or none. Raises `UnsupportedFeatureError` if the store cannot."""

    def commit_status(self, changes: Sequence[LocationChange]) -> Outcome:
        """Return how a swap ended whose outcome was unknown.

        Returns:
            `Committed` if a name has its `new` location; `Conflicted` if the swap cannot happen any more, or another writer changed the names since, who may
            have built on it; `Unknown` as long as it cannot be determined.
        """

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a table. Raises `NoSuchTableError`, `NoSuchNamespaceError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Remove a name; with `expected` only if it has that location, in one step. Files stay, unless `drops_files`.

        Returns:
            Whether the name was removed.

        Raises:
            NoSuchTableError: there is no such name.
        """


class ViewStore(Protocol):
    """Names of views and their metadata locations, beside the tables of a store: a name is a table's or a view's. May raise `StorageError` like the store."""

    name: str  # of the catalog

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Return the views of a namespace, sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the location of a view. Raises `NoSuchViewError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a name with the location of its metadata file. Raises `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def swap(self, identifier: Identifier, *, expected: str, new: str) -> Outcome:
        """See `CatalogStore.swap`."""

    def commit_status(self, changes: Sequence[LocationChange]) -> Outcome:
        """See `CatalogStore.commit_status`."""

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a view. Raises `NoSuchViewError`, `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier) -> None:
        """Remove a name. Files stay. Raises `NoSuchViewError`."""


@runtime_checkable
class ListsOtherTables(Protocol):
    """A store that lists the locations of all its tables at once; a store without this method is listed namespace by namespace."""

    def other_tables(self, identifier: Identifier, naming: str = "") -> Iterable[TableLocation]:
        """Return the locations of all other tables whose metadata location contains the text `naming`."""


@runtime_checkable
class KeepsFolders(Protocol):
    """A store in which a table's name determines its folder, whatever its metadata contains."""

    def table_location(self, identifier: Identifier) -> str:
        """Return the folder of a table."""


@runtime_checkable
class KeepsViews(Protocol):
    """A store that keeps views too; one without this keeps tables alone."""

    def views(self) -> ViewStore:
        """Return the store's views. Raises `UnsupportedFeatureError` if the store could have views and is not set up for them."""


def other_tables(store: CatalogStore, identifier: Identifier, naming: str = "") -> list[TableLocation]:
    """Return the locations of all other tables whose metadata location contains the text `naming`. Raises `StorageError`."""
    if isinstance(store, ListsOtherTables):
        return list(store.other_tables(identifier, naming))
    return [
        location for location in _all_locations(store, ()) if location.identifier != identifier and naming in location.metadata_location
    ]


def _all_locations(store: CatalogStore, namespace: Identifier) -> Iterator[TableLocation]:
    for inner in store.list_namespaces(namespace):
        yield from store.load_all(store.list_tables(inner))
        yield from _all_locations(store, inner)
