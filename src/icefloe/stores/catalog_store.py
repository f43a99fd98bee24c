"""`CatalogStore`: the contract of a store of namespaces and tables, and of the one metadata location of each table.

Iceberg's atomicity depends on `commit`: it applies the updates of one or several tables if their requirements are met, either all or none. There are two kinds
of stores. Most keep a metadata location: the caller applies the updates and writes the next metadata file, and the store compares and swaps the location in one
step, without reading the file. A store that `writes_metadata`, such as a REST catalog, receives the updates and the requirements, and writes the file itself.
Spec: Optimistic Concurrency; Metastore Tables; REST catalog, CommitTableRequest.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from icefloe.commit.outcome import Outcome
from icefloe.errors import IcefloeError, NoSuchTableError, NoSuchViewError, UnsupportedFeatureError
from icefloe.scan.server_plan import ServerPlanner
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import StorageAccess
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_updates import AssertViewUUID, ViewUpdate
from icefloe.stores.namespace_tree import namespaces_below

# The property that lets a SQL catalog add the column which views need. Origin: Java's JDBC catalog.
SCHEMA_VERSION = "jdbc.schema-version"


def only_in_this_process(catalog: str) -> UnsupportedFeatureError:
    """Return the error for pickling a catalog, or one of its tables, that other processes cannot open."""
    return UnsupportedFeatureError(
        f"catalog {catalog!r} is in the memory of this process: neither it nor a table of it can be pickled for another one",
        next_step="pass a scan of the table or its rows, or keep the catalog in a database file, on a server or in a folder",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLocation:
    """The entry of a table or view in its catalog.

    Attributes:
        identifier: the name of the table or view.
        metadata_location: the location of its metadata file.
        previous_metadata_location: the location of the metadata file before; None if the catalog does not keep it.
        lookup: returns the text of the query that found the entry, for users who trace a load.
        metadata: the metadata, if the store returns it with the location; else None, and the file has to be read.
        access: the credentials, or the signer of requests, for the table's files, if the store provides them.
        planner: plans the scans of the table on a server; None if scans are planned in this process.
        folder: the table's folder, if the store sent metadata that Icefloe cannot read; else empty. Only listings of all tables return such entries.
        unreadable: the reason why the metadata cannot be read; None for every table that a caller loads by its name.
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
    """The change of one table or view in a commit.

    Attributes:
        identifier: the name of the table or view.
        expected: the metadata location that the commit is based on; None for a name that must not exist yet.
        new: the location of the metadata file that the caller has written; empty for a store that writes metadata itself.
        requirements: the conditions on the current metadata; a store that swaps locations need not check them, since `expected` implies them.
        updates: the changes to the metadata; for a name that must not exist yet, all updates that make up its first metadata.
        key: the idempotency key of the request, for a store that writes metadata itself; empty for other stores.
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
        """Return the locations of several tables at the same moment, in the order of the names. Raises `NoSuchTableError`."""

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Check, before metadata is written to `location`, that the name can have that metadata location. Raises `InvalidInputError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a table name with the location of its metadata file.

        Returns:
            The location of the file. It differs from the argument if the store publishes the file under a name of its own.

        Raises:
            NoSuchNamespaceError, TableAlreadyExistsError: the name was not created.
            CommitUnknownError: the store's reply was lost.
        """

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the changes of one or several tables, all or none. A lost race or a lost reply is returned as an `Outcome`, not raised.

        Raises:
            UnsupportedFeatureError: the store cannot commit several tables together.
        """

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended whose outcome was unknown.

        Returns:
            `Committed` if any of the tables has its change, because all tables change or none. `Conflicted` if the commit cannot happen any more; also if
            another writer has changed the tables since, because the commit may be hidden below that change. `Unknown` if the outcome cannot be determined yet.
        """

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a table. Raises `NoSuchTableError`, `NoSuchNamespaceError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Remove a name; with `expected` only if it has that metadata location, in one step. Files are not deleted, unless `drops_files` is true.

        Returns:
            Whether the name was removed.

        Raises:
            NoSuchTableError: there is no such name.
        """


class ViewStore(Protocol):
    """The names of views and their metadata locations; no table of the store has the name of a view. Methods may raise `StorageError`."""

    name: str  # the name of the catalog
    writes_metadata: bool  # as in `CatalogStore`

    def names(self, namespace: Identifier) -> list[Identifier]:
        """Return the views of a namespace, sorted. Raises `NoSuchNamespaceError`."""

    def load(self, identifier: Identifier) -> TableLocation:
        """Return the location of a view. Raises `NoSuchViewError`."""

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a view name with its metadata location. Raises `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the change of one view. See `CatalogStore.commit`."""

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Return whether the change of one view is committed. See `CatalogStore.commit_status`."""

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a view. Raises `NoSuchViewError`, `NoSuchNamespaceError`, `ViewAlreadyExistsError`, `TableAlreadyExistsError`."""

    def drop(self, identifier: Identifier) -> None:
        """Remove a name. Files are not deleted. Raises `NoSuchViewError`."""


@runtime_checkable
class ListsOtherTables(Protocol):
    """A store that can list all its tables at once; the tables of other stores are listed namespace by namespace."""

    def other_tables(self, identifier: Identifier, naming: str = "") -> Iterable[TableLocation]:
        """Return the entries of all tables except `identifier` whose metadata location contains the text `naming`."""


@runtime_checkable
class ChecksNames(Protocol):
    """A store in which the check of a name is cheaper than the error about a missing one, which lists the names that exist."""

    def exists(self, identifier: Identifier) -> bool:
        """Return whether a name exists."""


@runtime_checkable
class KeepsFolders(Protocol):
    """A store in which the name of a table determines its folder, whatever its metadata contains."""

    def table_location(self, identifier: Identifier) -> str:
        """Return the folder of the table with this name, whether or not the table exists."""


@runtime_checkable
class CreatesViews(Protocol):
    """A store of views that writes the first metadata file of a view itself."""

    def create_view(self, identifier: Identifier, metadata: ViewMetadata, *, location: str | None) -> TableLocation:
        """Create a view from its first metadata, in the given folder, or in a folder that the store chooses. Raises the errors of `ViewStore.create`."""


@runtime_checkable
class KeepsViews(Protocol):
    """A store that also has views; a store without this method has only tables."""

    def views(self) -> ViewStore:
        """Return the store of the views. Raises `UnsupportedFeatureError` if the backend supports views but is not set up for them."""


def other_tables(store: CatalogStore, identifier: Identifier, naming: str = "") -> list[TableLocation]:
    """Return the entries of all tables except `identifier` whose metadata location contains the text `naming`. Raises `StorageError`."""
    if isinstance(store, ListsOtherTables):
        return list(store.other_tables(identifier, naming))
    return [
        location
        for namespace in namespaces_below(store.list_namespaces)
        for location in store.load_all(store.list_tables(namespace))
        if location.identifier != identifier and naming in location.metadata_location
    ]


def name_exists(store: CatalogStore | ViewStore, identifier: Identifier) -> bool:
    """Return whether a store of tables, or of views, has a name."""
    if isinstance(store, ChecksNames):
        return store.exists(identifier)
    try:
        store.load(identifier)
    except (NoSuchTableError, NoSuchViewError):
        return False
    return True
