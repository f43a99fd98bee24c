"""`HiveCatalogStore`: a catalog store in a Hive metastore, shared with Java's HiveCatalog, PyIceberg, Trino and Hive itself.

A commit takes the metastore's exclusive lock of the table (`hive_lock.py`), compares the metadata location, changes the table, and releases the lock. Each
change also contains the expected location, which a metastore of Hive 4 compares itself. If locks are disabled, that is the only protection. `hive_objects.py`
defines the content of the metastore's tables. Spec: Metastore Tables.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.errors import (
    IcefloeError,
    InvalidIdentifierError,
    InvalidInputError,
    NoSuchTableError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import HIVE_LOCK_ENABLED
from icefloe.spec.metadata.table_updates import RemoveProperties
from icefloe.spec.ports import FileIO
from icefloe.stores import hive_objects
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.hive_lock import LockError, MetastoreLock
from icefloe.stores.hive_metastore import MetastoreError, MetastoreSession, check_settings, hive_types
from icefloe.stores.hive_objects import NAMESPACE_LOCATION, metadata_location_of
from icefloe.stores.metastore_store import LOCATION, PREVIOUS_LOCATION, MetastoreStore, folder_of_database
from icefloe.stores.name_errors import namespace_exists, namespace_missing, namespace_not_empty, table_exists, table_missing

_MISSING = "NoSuchObjectException"
_EXISTS = "AlreadyExistsException"
# Names that every metastore accepts unchanged: upper case would be changed, and other characters are refused in databases. Origin: Hive's
# `MetaStoreUtils.validateName`.
_DATABASE_NAME = re.compile(r"[a-z0-9_]+")
_TABLE_NAME = re.compile(r"[a-z0-9_\-$ #%&+:;=@!~,]+")
_ENCRYPTION_KEY = "encryption.key-id"
# The number of tables that one request returns.
_PAGE = 300
# Text in the error of Hive 4 for a change whose expected parameter does not match.
_MODIFIED = "The table has been modified"


class HiveCatalogStore(MetastoreStore):
    """A catalog store for the databases and tables of a Hive metastore. It holds only settings, so that it can be pickled; each operation opens a connection.

    Args of the constructor: `properties` are the catalog properties; `io` reads metadata files, whose content is copied to the metastore's tables.

    Raises of the constructor: `InvalidInputError` for an invalid address, `UnsupportedFeatureError` for a metastore with Kerberos.
    """

    service = "Hive"

    def __init__(self, name: str, properties: Mapping[str, str], io: FileIO) -> None:
        check_settings(properties)
        super().__init__(name, io)
        self._properties = dict(properties)

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        """List the databases, which are the namespaces; they do not nest. See `CatalogStore.list_namespaces`."""
        with self._session(f"catalog {self.name!r} could not be listed") as session:
            if parent:
                self._database(session, parent)
                return []
            return sorted((str(name),) for name in session.call("get_all_databases"))

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        with self._session(f"namespace {dotted(namespace)!r} could not be loaded") as session:
            return hive_objects.namespace_properties(self._database(session, namespace))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        """Create a namespace. See `CatalogStore.create_namespace`.

        Raises:
            UnsupportedFeatureError: the name has several levels.
            InvalidIdentifierError: the metastore would change or refuse the name.
        """
        if len(namespace) != 1:
            raise self._nesting_error(namespace)
        _check_name(namespace[0], _DATABASE_NAME)
        # Without a warehouse, the metastore chooses a folder in its own warehouse.
        database = hive_types().Database(name=namespace[0], locationUri=folder_of_database(self._properties, namespace[0]))
        hive_objects.set_namespace_properties(database, properties, self._properties)
        with self._session(f"namespace {namespace[0]!r} was not created") as session:
            try:
                session.call("create_database", database)
            except MetastoreError as error:
                if error.kind == _EXISTS:
                    raise namespace_exists(self.name, namespace) from error
                raise

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drop a namespace. See `CatalogStore.drop_namespace`. Tables of other formats count as content too. The folder of the database is not deleted."""
        with self._session(f"namespace {dotted(namespace)!r} was not dropped") as session:
            self._database(session, namespace)
            if tables := session.call("get_all_tables", namespace[0]):
                raise namespace_not_empty(namespace, tables)
            session.call("drop_database", namespace[0], False, False)

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        if NAMESPACE_LOCATION in removals:
            raise InvalidInputError(
                f"namespace {dotted(namespace)!r} cannot be without a location: each database of Hive has one",
                next_step="set another location instead",
            )
        with self._session(f"namespace {dotted(namespace)!r} was not changed") as session:
            database = self._database(session, namespace)
            properties = {key: text for key, text in hive_objects.namespace_properties(database).items() if key not in removals}
            hive_objects.set_namespace_properties(database, {**properties, **updates}, self._properties)
            session.call("alter_database", namespace[0], database)

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        """List the Iceberg tables of a namespace. See `CatalogStore.list_tables`. Raises `InvalidIdentifierError` for a name that no database can have."""
        _check_name(namespace[0], _DATABASE_NAME)
        with self._session(f"catalog {self.name!r} could not be listed") as session:
            return self._tables(session, namespace)

    def load(self, identifier: Identifier) -> TableLocation:
        """Load a table. See `CatalogStore.load`. Raises `NoSuchTableError` also for a table in another format."""
        with self._session(f"table {dotted(identifier)!r} could not be loaded") as session:
            table = self._table(session, identifier)
        return TableLocation(
            identifier=identifier,
            metadata_location=metadata_location_of(table),
            previous_metadata_location=(table.parameters or {}).get(PREVIOUS_LOCATION),
            lookup=lambda: f"get_table of the Hive metastore, database {identifier[0]}, table {identifier[-1]}",
        )

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:  # noqa: ARG002  it may be anywhere
        """Check that the namespace exists and that the metastore accepts the name. Raises `NoSuchNamespaceError`, `InvalidIdentifierError`."""
        _check_name(identifier[-1], _TABLE_NAME)
        with self._session(f"table {dotted(identifier)!r} was not created") as session:
            self._database(session, identifier[:-1])

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        _check_name(identifier[-1], _TABLE_NAME)
        with self._session(f"table {dotted(identifier)!r} was not created") as session:
            self._database(session, identifier[:-1])
            metadata = read_table_metadata(self._io.read(metadata_location), metadata_location)
            table = hive_objects.new_table(identifier, metadata_location, metadata, self._properties)
            try:
                session.call("create_table", table)
            except MetastoreError as error:
                if error.kind == _EXISTS:
                    raise table_exists(self.name, identifier) from error
                if error.is_denial or (error.kind and self._location(session, identifier) is None):
                    raise
                raise self._creation_unknown(identifier, metadata_location, error) from error
        return metadata_location

    def _swap(self, request: CommitRequest) -> Outcome:
        """Change a table's metadata location under the table's lock. No change is sent before the location was compared under the lock."""
        failure = f"the commit to {dotted(request.identifier)!r} failed"
        with MetastoreSession(self._properties) as session:
            try:
                table = self._table(session, request.identifier)
                with self._lock(session, table) as lock:
                    return self._swap_locked(session, lock, request)
            except NoSuchTableError:
                return Conflicted(current_location=None, reason="the table was dropped")
            except LockError as error:
                return Conflicted(current_location=request.expected, reason=str(error))
            except MetastoreError as error:
                return Refused(error=error.as_icefloe_error(failure))
            except IcefloeError as error:
                return Refused(error=error)

    def _swap_locked(self, session: MetastoreSession, lock: MetastoreLock | None, request: CommitRequest) -> Outcome:
        """Compare the location and change it. Raises `MetastoreError` and `LockError` only for failures before the change was sent."""
        table = self._table(session, request.identifier)
        if (current := metadata_location_of(table)) != request.expected:
            return Conflicted(current_location=current)
        if _ENCRYPTION_KEY in (
            table.parameters or {}
        ):  # read from the metastore, which is trusted with this decision, and not from the metadata file, which may lack the property
            raise UnsupportedFeatureError(
                f"table {dotted(request.identifier)!r} is encrypted: its metastore has {_ENCRYPTION_KEY}",
                next_step="write it with Java's Iceberg",
            )
        metadata = read_table_metadata(self._io.read(request.new), request.new)
        removed = {name for update in request.updates if isinstance(update, RemoveProperties) for name in update.removals}
        hive_objects.update_table(table, request.new, metadata, self._properties, removed)
        if lock is not None:
            lock.require_held()
        try:
            self._alter(session, request.identifier, table, expected=current)
            if lock is not None:
                lock.require_held()
        except MetastoreError as error:
            if _MODIFIED in str(error):
                return Conflicted(current_location=None, reason="another writer committed without the lock")
            if error.kind == _MISSING:
                return Conflicted(current_location=None, reason="the table was dropped")
            # With a response the call has ended, so that the current location decides. Without a response it may still be running.
            if error.is_denial or (error.kind and self._location(session, request.identifier) == request.expected):
                return Refused(error=error.as_icefloe_error(f"the commit to {dotted(request.identifier)!r} failed"))
            return Unknown(reason=str(error))
        except LockError as error:
            return Unknown(reason=str(error))
        return Committed()

    @staticmethod
    def _alter(session: MetastoreSession, identifier: Identifier, table: Any, *, expected: str) -> None:
        conditions = {"DO_NOT_UPDATE_STATS": "true", "expected_parameter_key": LOCATION, "expected_parameter_value": expected}
        context = hive_types().EnvironmentContext(properties=conditions)
        session.call("alter_table_with_environment_context", identifier[0], identifier[-1], table, context)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Rename a table while holding the lock of its old name. See `CatalogStore.rename`."""
        _check_name(target[-1], _TABLE_NAME)
        with self._session(f"table {dotted(source)!r} was not renamed") as session:
            self._database(session, target[:-1])
            table = self._table(session, source)
            with self._lock(session, table):
                table = self._table(session, source)
                table.dbName, table.tableName = target
                try:
                    self._alter(session, source, table, expected=metadata_location_of(table))
                except MetastoreError as error:
                    if error.is_denial and target[-1] in session.call("get_all_tables", target[0]):
                        raise table_exists(self.name, target) from error
                    raise

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Drop a table. See `CatalogStore.drop`. The location is compared under the table's lock."""
        with self._session(f"table {dotted(identifier)!r} was not dropped") as session:
            table = self._table(session, identifier)
            with self._lock(session, table):
                if expected is not None and metadata_location_of(self._table(session, identifier)) != expected:
                    return False
                try:
                    session.call("drop_table", identifier[0], identifier[-1], False)
                except MetastoreError as error:
                    if error.kind == _MISSING:
                        raise self._missing(session, identifier) from error
                    raise
        return True

    @contextmanager
    def _session(self, failure: str) -> Iterator[MetastoreSession]:
        """Connect to the metastore for the block. Errors that the block does not handle are raised as errors of Icefloe that begin with `failure`."""
        with MetastoreSession(self._properties) as session:
            try:
                yield session
            except MetastoreError as error:
                raise error.as_icefloe_error(failure) from error
            except LockError as error:
                raise StorageUnavailableError(f"{failure}: {error}", next_step="try again") from error

    def _lock(self, session: MetastoreSession, table: Any) -> AbstractContextManager[MetastoreLock | None]:
        if not hive_objects.is_enabled(HIVE_LOCK_ENABLED.name, table.parameters or {}, self._properties, default=True):
            return nullcontext()
        return MetastoreLock(session, self._properties, (table.dbName, table.tableName))

    def _database(self, session: MetastoreSession, namespace: Identifier) -> Any:
        """Return the database of a namespace. Raises `NoSuchNamespaceError`."""
        missing = namespace_missing(self.name, namespace)
        if len(namespace) != 1:
            raise missing
        try:
            database = session.call("get_database", namespace[0])
        except MetastoreError as error:
            if error.kind == _MISSING:
                raise missing from error
            raise
        if database.name != namespace[0]:  # Hive ignores the case of names
            raise missing
        return database

    def _tables(self, session: MetastoreSession, namespace: Identifier) -> list[Identifier]:
        self._database(session, namespace)
        names = sorted(session.call("get_all_tables", namespace[0]))
        identifiers = []
        for first in range(0, len(names), _PAGE):
            request = hive_types().GetTablesRequest(dbName=namespace[0], tblNames=names[first : first + _PAGE])
            tables = session.call("get_table_objects_by_name_req", request).tables or ()
            identifiers += [(*namespace, str(table.tableName)) for table in tables if hive_objects.is_iceberg(table)]
        return sorted(identifiers)

    def _table(self, session: MetastoreSession, identifier: Identifier) -> Any:
        """Return the metastore's table of an Iceberg table. Raises `NoSuchTableError`."""
        if len(identifier) != 2:
            raise self._missing(session, identifier)
        try:
            table = session.call("get_table_req", hive_types().GetTableRequest(dbName=identifier[0], tblName=identifier[1])).table
        except MetastoreError as error:
            if error.kind == _MISSING:
                raise self._missing(session, identifier) from error
            raise
        if (table.dbName, table.tableName) != identifier:
            raise self._missing(session, identifier)
        if not hive_objects.is_iceberg(table) or not metadata_location_of(table):
            raise self._other_format(identifier)
        return table

    def _location(self, session: MetastoreSession, identifier: Identifier) -> str | None:
        """Return the metadata location of a table; None if there is no such table. Raises `MetastoreError`."""
        try:
            return metadata_location_of(self._table(session, identifier))
        except NoSuchTableError:
            return None

    def _missing(self, session: MetastoreSession, identifier: Identifier) -> NoSuchTableError:
        return table_missing(self.name, identifier, partial(self._tables, session))


def _check_name(name: str, allowed: re.Pattern[str]) -> None:
    """Refuse a name that a metastore would change or refuse. Raises `InvalidIdentifierError`."""
    if name != name.lower():
        raise InvalidIdentifierError(
            f"{name!r} cannot be a name in a Hive metastore, which keeps names in lower case", next_step=f"write it as {name.lower()!r}"
        )
    if allowed.fullmatch(name) is None:
        raise InvalidIdentifierError(
            f"{name!r} cannot be a name in a Hive metastore", next_step="use lower-case letters without accents, digits and '_'"
        )
