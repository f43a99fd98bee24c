"""`TableLoader`: load tables from a REST server, with their metadata, the access to their files and their scan planner; and cache the last ones by ETag.

Spec: REST catalog, loadTable, LoadTableResult, ETag.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock

from icefloe.bounded_cache import BoundedCache
from icefloe.errors import (
    FormatError,
    IcefloeError,
    InvalidInputError,
    InvalidPropertyError,
    NoSuchTableError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.raw_entries import PartialEntries, RawEntries
from icefloe.spec.metadata.snapshot import SNAPSHOTS, Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import TableLocation
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_reply import NOT_FOUND, NOT_MODIFIED, Reply
from icefloe.stores.rest.load_result import folder_and_file, load_result
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.server_planned_scans import RestScanPlanner
from icefloe.stores.rest.table_access import TableAccess

# The number of tables whose tokens are kept.
_KEPT_TOKENS = 1_000


def _unreadable(identifier: Identifier, reply: Reply, folder: str, file: str, error: IcefloeError) -> TableLocation:
    return TableLocation(
        identifier=identifier,
        metadata_location=file,
        previous_metadata_location=None,
        lookup=lambda: reply.request,
        folder=folder,
        unreadable=error,
    )


class _LoadedOnce:
    """A list that is loaded at its first use; any number of threads may use it.

    Args:
        load: A function that returns the list.
    """

    def __init__(self, load: Callable[[], RawEntries[Snapshot]]) -> None:
        self._load = load
        self._lock = Lock()
        self._entries: RawEntries[Snapshot] | None = None

    def __call__(self) -> RawEntries[Snapshot]:
        """Return the list. Raises the errors of `load`."""
        with self._lock:
            if self._entries is None:
                self._entries = self._load()
            return self._entries


class TableLoader:
    """Loads tables from a REST server, and caches the last ones by ETag. Any number of threads may use it.

    Args:
        connection: The connection to the catalog.
    """

    def __init__(self, connection: RestConnection) -> None:
        self._connection = connection
        own = connection.own_properties
        self._cache: BoundedCache[tuple[Identifier, str], tuple[str, TableLocation]] = BoundedCache(  # ETag and table, by name and mode
            settings.number(own, settings.CACHE_ENTRIES, 100), expiry_s=settings.number(own, settings.CACHE_EXPIRY_MS, 300_000) / 1000
        )
        self._tokens: dict[Identifier, str] = {}

    def load(self, identifier: Identifier, mode: str, *, is_folder_enough: bool = False) -> TableLocation | None:
        """Return a table, from the cache if the server has no newer version; None if it does not exist.

        Args:
            identifier: The name of the table.
            mode: `all` loads all snapshots; `refs` loads those of branches and tags, and all when another snapshot is needed.
            is_folder_enough: Whether a table with unreadable metadata is returned without metadata; its folder is enough to keep other tables out of it.

        Raises:
            IcefloeError: the table cannot be loaded.
        """
        etag_and_table = self._cache.get((identifier, mode))
        headers = {**self._connection.delegation, **({"If-None-Match": etag_and_table[0]} if etag_and_table else {})}
        reply = self._connection.request(Endpoint.LOAD_TABLE, identifier, query={"snapshots": mode}, headers=headers)
        if reply.status == NOT_MODIFIED and etag_and_table is not None:
            return etag_and_table[1]
        if reply.status == NOT_FOUND:
            self.drop(identifier)
            return None
        if not reply.is_success:
            raise reply.error(f"the table {dotted(identifier)!r} could not be loaded from catalog {self._connection.name!r}")
        try:
            table = self.table(identifier, reply)
        except (UnsupportedError, FormatError, InvalidInputError) as error:
            folder_and_metadata = folder_and_file(reply) if is_folder_enough else None
            if folder_and_metadata is None:
                raise
            return _unreadable(identifier, reply, *folder_and_metadata, error)
        if mode == settings.REFS and isinstance(table.metadata, TableMetadata):
            whole = _LoadedOnce(partial(self._history, identifier, table.metadata, table.metadata_location))
            table = replace(table, metadata=replace(table.metadata, snapshots=PartialEntries(table.metadata.snapshots, whole)))
        self._keep(identifier, mode, reply.etag, table)
        return table

    def drop(self, identifier: Identifier) -> None:
        """Remove a table from the cache."""
        for mode in (settings.ALL, settings.REFS):
            self._cache.pop((identifier, mode))

    def _keep(self, identifier: Identifier, mode: str, etag: str | None, table: TableLocation) -> None:
        """Put a loaded table into the cache. A table without an ETag only removes the older version."""
        if etag:
            self._cache.put((identifier, mode), (etag, table))
        else:
            self._cache.pop((identifier, mode))

    def keep_committed(self, name: Identifier, location: str, metadata: TableMetadata, etag: str | None) -> None:
        """Put the version from a commit into the cache, so that the next load gets the status 304."""
        etag_and_table = self._cache.get((name, settings.ALL))
        self.drop(name)
        if etag_and_table is not None:
            self._keep(name, settings.ALL, etag, replace(etag_and_table[1], metadata_location=location, metadata=metadata))

    def token(self, identifier: Identifier) -> str | None:
        """Return the bearer token that the server sent with a table, for requests about this table."""
        return self._tokens.get(identifier)

    def table(self, identifier: Identifier, reply: Reply) -> TableLocation:
        """Return the table from a server's response to a load or a creation.

        Args:
            identifier: The name of the table.
            reply: The response.

        Raises:
            UnsupportedFeatureError: the catalog restricts reading the table.
            MetadataFormatError: the response does not follow the protocol.
        """
        result, request = load_result(reply, identifier, self._connection.name), reply.request
        location = result.metadata_location
        access = TableAccess.of(self._connection, identifier, result)
        self._keep_token(identifier, access.token)
        return TableLocation(
            identifier=identifier,
            metadata_location=location,
            previous_metadata_location=None,
            lookup=lambda: request,
            metadata=read_table_metadata(result.metadata, location or f"the metadata of {dotted(identifier)}"),
            access=access,
            planner=self._planner(identifier, access),
        )

    def _keep_token(self, identifier: Identifier, token: str | None) -> None:
        self._tokens.pop(identifier, None)
        if token:
            self._tokens[identifier] = token
            if len(self._tokens) > _KEPT_TOKENS:
                self._tokens.pop(next(iter(self._tokens)), None)

    def _planner(self, identifier: Identifier, access: TableAccess) -> RestScanPlanner | None:
        """Return the planner for server-side planning; None if scans are planned here. The server's properties for the table override the catalog's properties.

        Raises:
            InvalidPropertyError: the user's planning mode contradicts the mode that the server requires.
            UnsupportedFeatureError: the planning mode is `server`, but the server does not support planning.
        """
        table, catalog = dotted(identifier), self._connection.name
        own = settings.planning_mode(self._connection.properties.get(settings.SCAN_PLANNING_MODE), f"catalog {catalog!r}")
        required = settings.planning_mode(access.config.get(settings.SCAN_PLANNING_MODE), f"table {table!r}")
        if own and required and own != required:
            raise InvalidPropertyError(
                f"the server of catalog {catalog!r} requires that the {required} plans the scans of table {table!r}, "
                f"and the catalog property {settings.SCAN_PLANNING_MODE} is {own}",
                next_step=f"leave {settings.SCAN_PLANNING_MODE} out of the catalog's properties, so that the server decides for each table",
            )
        if (required or own) != settings.SERVER:
            return None
        if not self._connection.paths.has(Endpoint.PLAN):
            raise UnsupportedFeatureError(
                f"the server of catalog {catalog!r} is to plan the scans of table {table!r}, and does not have that operation",
                table=table,
                next_step=f"set the catalog property {settings.SCAN_PLANNING_MODE} to {settings.CLIENT}",
            )
        return RestScanPlanner(self._connection, identifier, access)

    def _history(self, identifier: Identifier, part: TableMetadata, location: str) -> RawEntries[Snapshot]:
        """Return all snapshots of a table that was loaded with only those of its branches and tags, without snapshots that were committed since.

        Raises:
            NoSuchTableError: the table was dropped, or a different table has its name now.
        """
        table = self.load(identifier, settings.ALL)
        whole = None if table is None else table.metadata
        if table is None or not isinstance(whole, TableMetadata) or whole.table_uuid != part.table_uuid:
            raise NoSuchTableError(
                f"table {dotted(identifier)!r} of catalog {self._connection.name!r} was dropped or replaced since it was loaded",
                table=dotted(identifier),
                next_step="load the table by its name again",
            )
        if location and table.metadata_location == location and whole.last_updated_ms == part.last_updated_ms:
            return whole.snapshots

        def is_old(snapshot: Snapshot) -> bool:
            sequence_number = snapshot.sequence_number or 0
            return sequence_number <= part.last_sequence_number and (sequence_number > 0 or snapshot.timestamp_ms <= part.last_updated_ms)

        old = whole.snapshots.where(is_old)
        expired = [snapshot for snapshot in part.snapshots if old.position(snapshot.snapshot_id) is None]
        return RawEntries.of(SNAPSHOTS, (*expired, *old)) if expired else old
