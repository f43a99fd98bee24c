"""`CatalogStore`: the contract of a store of namespaces and tables, and of the one metadata location of each table.

Iceberg's atomicity rests on `commit`: the updates of one or several tables under their requirements, all or none. There are two kinds of stores. Most keep a
metadata location: the caller applies the updates and writes the next metadata file, and the store compares and swaps the location in one step; it reads no
metadata file. A store that `writes_metadata`, such as a REST catalog, receives the updates and the requirements, and writes the file itself.
Spec: Optimistic Concurrency; Metastore Tables; REST catalog, CommitTableRequest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from icefloe.commit.outcome import Outcome
from icefloe.errors import IcefloeError, UnsupportedFeatureError
from icefloe.scan.server_plan import ServerPlanner
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import StorageAccess
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_updates import AssertViewUUID, ViewUpdate
from icefloe.stores.namespace_tree import namespaces_below

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
    """A table's or view's row in its catalog.

    Attributes:
        identifier: its name.
        metadata_location: its metadata file.
        previous_metadata_location: the one before, where the catalog keeps it.
        lookup: returns the text of the query that found it, for users who trace a load.
        metadata: the metadata, of a store that returns it with the location; else None, and the file has to be read.
        access: the access to the table's files, of a store that gives it.
        planner: plans the scans of the table; None for a table whose scans are planned here.
        folder: its location, where its metadata was sent and is not used; else empty.
        unreadable: why its metadata is not used; None for every table that a caller loads by its name.
    """

    identifier: Identifier
    metadata_location: str
    previous_metadata_location: str | None
    lookup: Callable[[], str] = field(compare=False, repr=False)
    metadata: TableMetadata | ViewMetadata | None = field(default=None, compare=False, repr=False)
    access: StorageAccess | None = field(default=None, compare=False, repr=False)
    planner: ServerPlanner | None = field(default=None, compare=False, repr=False)
    folder: str = field(default="", compare=False, repr=False)
    unreadable: IcefloeError | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """One table or view in a commit.

    Attributes:
        identifier: its name.
        expected: the metadata location that the commit is based on; None for a name that must not exist yet.
        new: the metadata file that the caller has written, to swap the location to; empty for a store that writes metadata itself.
        requirements: what must be true of the metadata; a store that swaps locations need not read them, since `expected` implies them.
        updates: the changes to the metadata; of a name that must not exist yet, all that make up its first metadata.
        key: identifies the request where it is sent again to a store that writes metadata itself; empty for other stores.
    """

    identifier: Identifier
    expected: str | None
    new: str
    requirements: tuple[Requirement | AssertViewUUID, ...] = ()
    updates: tuple[Update | ViewUpdate, ...] = ()
    key: str = field(default="", compare=False)


class CatalogStore(Protocol):
    """A store of namespaces, tables and their metadata locations. Every method may raise a `StorageError` if the store is unavailable, full or read-only."""

    name: str
    drops_files: bool  # whether dropping a table deletes its folder
    writes_metadata: bool  # whether the store applies updates and writes metadata files itself

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

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the changes of one or several tables, all or none. Never raises for a lost race or a lost reply: see `Outcome`.

        Raises:
            UnsupportedFeatureError: the store cannot commit several tables together.
        """

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Return how a commit ended whose outcome was unknown.

        Returns:
            `Committed` if a table has its change; `Conflicted` if the commit cannot happen any more, or another writer changed the tables since, who may
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
    writes_metadata: bool  # as in `CatalogStore`

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Return the views of a namespace, sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the location of a view. Raises `NoSuchViewError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a name with the location of its metadata file. Raises `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the change of one view. See `CatalogStore.commit`."""

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Return whether the change of one view is committed. See `CatalogStore.commit_status`."""

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
class CreatesViews(Protocol):
    """A store of views that writes their first metadata file itself."""

    def create_view(self, identifier: Identifier, metadata: ViewMetadata, *, location: str | None) -> TableLocation:
        """Create a view from its first metadata, in a folder or where the store puts it. Raises as `ViewStore.create`."""


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
        location
        for namespace in namespaces_below(store.list_namespaces)
        for location in store.load_all(store.list_tables(namespace))
        if location.identifier != identifier and naming in location.metadata_location
    ]
