"""`RestCatalogStore`: a catalog store that uses the REST catalog protocol; views are in `rest_views.py`.

The server applies updates and writes metadata files. If the reply to a commit was lost, the table is searched for the commit's snapshots or effects. If they
are not there and the requirements are still met, the commit is sent again with the same idempotency key. Only one of both requests can have an effect: the
first one that succeeds violates the requirements of the other, or leaves its updates without effect. Spec: REST catalog; Optimistic Concurrency.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Stored, Unknown
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    FormatError,
    IcefloeError,
    InvalidInputError,
    MetadataFormatError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotFoundError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
    ViewAlreadyExistsError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.requirement import AssertTableUUID, Requirement, requirement_to_json
from icefloe.spec.metadata.snapshot_updates import AddSnapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import AssignUUID
from icefloe.spec.metadata.update_json import update_to_json
from icefloe.spec.partitioning.partition_spec import spec_to_json
from icefloe.spec.partitioning.sort_order import sort_order_to_json
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.namespace_tree import namespaces_below
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_reply import CONFLICT, LOOK, NOT_FOUND, Reply
from icefloe.stores.rest.load_result import check_unrestricted, texts
from icefloe.stores.rest.metrics_sender import RestMetricsReporter
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.rest_views import RestViews
from icefloe.stores.rest.table_loader import TableLoader

LOG = logging.getLogger(__name__)
# The maximum of names in the next step of an error, and the number of times that several tables are loaded to find a moment at which none of them changed.
_SHOWN_NAMES, _LOADS_TOGETHER = 10, 20
# The maximum of tables in a catalog; with more, the server's listing counts as endless.
_MOST_TABLES = 1_000_000
# The number of threads that load the other tables of a catalog.
_THREADS = 8


class _Namespaces(msgspec.Struct):
    namespaces: list[list[str]] | None = None


class _Namespace(msgspec.Struct):
    properties: dict[str, Any] | None = None


class _Name(msgspec.Struct):
    namespace: list[str]
    name: str


class _Names(msgspec.Struct):
    identifiers: list[_Name] | None = None


class _CommitTableResponse(msgspec.Struct, rename="kebab"):
    metadata: msgspec.Raw
    metadata_location: str | None = None


class RestCatalogStore:
    """A catalog store for a REST catalog. Any number of threads may use it. After pickling it connects again in the other process.

    Args:
        name: The name of the catalog.
        properties: The user's own properties.
    """

    drops_files = False
    writes_metadata = True

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.connection = RestConnection(name, properties)
        self._loader = TableLoader(self.connection)

    def views(self) -> RestViews:
        """Return the store of the views. Raises `UnsupportedFeatureError` if the server does not support views."""
        self.connection.paths.path(Endpoint.LIST_VIEWS, ("any",))
        return RestViews(self.connection)

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        names: list[Identifier] = []
        query = {"parent": self.connection.paths.join_namespace(parent)} if parent else None
        for reply in self.connection.pages(Endpoint.LIST_NAMESPACES, query=query):
            if reply.status == NOT_FOUND and parent:
                raise self._no_namespace(parent)
            self._require(reply, f"the namespaces of catalog {self.name!r} could not be listed")
            names += map(tuple, reply.parse(_Namespaces).namespaces or ())
        return sorted(name for name in names if len(name) == len(parent) + 1 and name[: len(parent)] == parent)

    def namespace_exists(self, namespace: Identifier) -> bool:
        """Return whether a namespace exists, by a HEAD request if the server supports it."""
        if not self.connection.paths.has(Endpoint.NAMESPACE_EXISTS):
            try:
                self.namespace_properties(namespace)
            except NoSuchNamespaceError:
                return False
            return True
        reply = self.connection.request(Endpoint.NAMESPACE_EXISTS, namespace)
        if reply.status != NOT_FOUND:
            self._require(reply, f"the namespace {dotted(namespace)!r} could not be looked up")
        return reply.is_success

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        reply = self._of_namespace(Endpoint.LOAD_NAMESPACE, namespace, "could not be loaded")
        return texts(reply.parse(_Namespace).properties)

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        body = {"namespace": list(namespace), "properties": dict(properties)}
        reply = self.connection.request(Endpoint.CREATE_NAMESPACE, body=body)
        self._require_known(reply, f"namespace {dotted(namespace)!r}", "created")
        if reply.status == CONFLICT:
            raise NamespaceAlreadyExistsError(f"namespace {dotted(namespace)!r} already exists in catalog {self.name!r}")
        if reply.status == NOT_FOUND:
            raise self._no_namespace(namespace[:-1])
        self._require(reply, f"the namespace {dotted(namespace)!r} was not created in catalog {self.name!r}")

    def drop_namespace(self, namespace: Identifier) -> None:
        reply = self.connection.request(Endpoint.DROP_NAMESPACE, namespace)
        self._require_known(reply, f"namespace {dotted(namespace)!r}", "dropped")
        if reply.status == CONFLICT or reply.kind.startswith("NamespaceNotEmpty"):
            content = ", ".join(map(dotted, self._content(namespace)[:_SHOWN_NAMES])) or reply.message
            raise NamespaceNotEmptyError(f"namespace {dotted(namespace)!r} is not empty: it holds {content}", next_step="drop these first")
        if reply.status == NOT_FOUND:
            raise self._no_namespace(namespace)
        self._require(reply, f"the namespace {dotted(namespace)!r} was not dropped")

    def _content(self, namespace: Identifier) -> list[Identifier]:
        """Return the tables, views and namespaces in a namespace, for a message, without those that cannot be listed."""
        names: list[Identifier] = []
        for listing in (self.list_tables, self.list_namespaces, lambda level: self.views().names(level)):
            with suppress(IcefloeError):
                names += listing(namespace)
        return names

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        body = {"removals": sorted(removals), "updates": dict(updates)}
        self._of_namespace(Endpoint.UPDATE_NAMESPACE, namespace, "was not changed", body)

    def _of_namespace(self, endpoint: Endpoint, namespace: Identifier, failure: str, body: object = None) -> Reply:
        reply = self.connection.request(endpoint, namespace, body=body)
        if reply.status == NOT_FOUND:
            raise self._no_namespace(namespace)
        self._require(reply, f"the namespace {dotted(namespace)!r} of catalog {self.name!r} {failure}")
        return reply

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        names: list[Identifier] = []
        for reply in self.connection.pages(Endpoint.LIST_TABLES, namespace):
            if reply.status == NOT_FOUND:
                raise self._no_namespace(namespace)
            self._require(reply, f"the tables of {dotted(namespace)!r} could not be listed")
            names += [(*table.namespace, table.name) for table in reply.parse(_Names).identifiers or ()]
        return sorted(names)

    def table_exists(self, identifier: Identifier) -> bool:
        """Return whether a table exists, by a HEAD request if the server supports it."""
        has_endpoint = self.connection.paths.has(Endpoint.TABLE_EXISTS)
        reply = self.connection.request(
            Endpoint.TABLE_EXISTS if has_endpoint else Endpoint.LOAD_TABLE,
            identifier,
            query=None if has_endpoint else {"snapshots": settings.REFS},
        )
        if reply.status != NOT_FOUND:
            self._require(reply, f"the table {dotted(identifier)!r} could not be looked up")
        return reply.is_success

    def load(self, identifier: Identifier) -> TableLocation:
        """Load a table. See `CatalogStore.load`. The result has the metadata, and the access to files that the server provides."""
        return _with_own_values(self._load(identifier, settings.snapshot_mode(self.connection.properties)))

    def _load(self, identifier: Identifier, mode: str) -> TableLocation:
        table = self._loader.load(identifier, mode)
        if table is None:
            raise self._no_table(identifier)
        return table

    def reporter(self, identifier: Identifier) -> RestMetricsReporter | None:
        connection = self.connection
        if not connection.paths.has(Endpoint.REPORT_METRICS) or not settings.is_on(
            connection.properties, settings.METRICS_REPORTING, default=True
        ):
            return None
        return RestMetricsReporter(connection, identifier, self._loader.token(identifier))

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Load several tables. See `CatalogStore.load_all`. The protocol loads one table at a time, so tables are loaded again until none changes meanwhile."""
        tables = [self.load(identifier) for identifier in identifiers]
        for _ in range(_LOADS_TOGETHER if len(tables) > 1 else 0):
            again = [self.load(identifier) for identifier in identifiers]
            # Compared by metadata, which is the same object if the server sent it only once. Locations may not change: a server may use the same one for all
            # versions.
            if [table.metadata for table in again] == [table.metadata for table in tables]:
                return again
            tables = again
        return tables

    def other_tables(self, identifier: Identifier, naming: str = "") -> list[TableLocation]:
        """Return the locations of other tables. See `ListsOtherTables`. For a table whose metadata cannot be read, the result has the folder."""

        def location(other: Identifier) -> TableLocation | None:
            return self._loader.load(other, settings.REFS, is_folder_enough=True)

        with ThreadPoolExecutor(_THREADS) as threads:
            tables = threads.map(location, [name for name in self._all_tables() if name != identifier])
            return [table for table in tables if table is not None and naming in table.metadata_location]

    def _all_tables(self) -> list[Identifier]:
        names: list[Identifier] = []
        for namespace in namespaces_below(self.list_namespaces):
            names += self.list_tables(namespace)
            if len(names) > _MOST_TABLES:
                raise MetadataFormatError(
                    f"the server of catalog {self.name!r} lists more than {_MOST_TABLES:,} tables",
                    next_step="report it to the server's maintainers",
                )
        return names

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Do nothing, because the server chooses the location of a metadata file."""

    def create_table(
        self, identifier: Identifier, metadata: TableMetadata, properties: Mapping[str, str], *, location: str | None, is_staged: bool
    ) -> TableLocation:
        """Create a table; with `is_staged`, let the server prepare a table that its first commit creates.

        Args:
            identifier: The name of the table.
            metadata: Its first metadata, whose schema, partition spec and sort order are sent.
            properties: Its properties, including the reserved property `format-version`.
            location: Its folder; None if the server chooses it.
            is_staged: Whether the table is only prepared.

        Returns:
            The created or prepared table.

        Raises:
            TableAlreadyExistsError, ViewAlreadyExistsError, NoSuchNamespaceError: the table was not created.
            CommitUnknownError: the reply was lost.
        """
        body: dict[str, Any] = {
            "name": identifier[-1],
            "schema": schema_to_json(metadata.schema()),
            "partition-spec": spec_to_json(metadata.spec()),
            "write-order": sort_order_to_json(metadata.sort_order()),
            "stage-create": is_staged,
            "properties": dict(properties),
        }
        if location is not None:
            body["location"] = location
        reply = self.connection.request(Endpoint.CREATE_TABLE, identifier[:-1], body=body, headers=self.connection.delegation)
        if is_staged:  # staging changes nothing, so that a lost reply leaves nothing unknown
            self._raise_for_new_name(reply, identifier, "prepared")
            return _with_own_values(self._loader.table(identifier, reply))
        self._loader.drop(identifier)
        return self._new_table(reply, identifier, "created", location)

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a table name by registering its metadata file. See `CatalogStore.create`."""
        return self.register(identifier, metadata_location).metadata_location

    def register(self, identifier: Identifier, metadata_location: str, *, overwrite: bool = False) -> TableLocation:
        """Register a metadata file under a new name; with `overwrite`, also under the name of an existing table. Raises the errors of `create_table`."""
        body: dict[str, Any] = {"name": identifier[-1], "metadata-location": metadata_location}
        if overwrite:
            body["overwrite"] = True
        reply = self.connection.request(Endpoint.REGISTER_TABLE, identifier[:-1], body=body, headers=self.connection.delegation)
        self._loader.drop(identifier)
        return self._new_table(reply, identifier, "registered", metadata_location)

    def unregister(self, identifier: Identifier) -> str:
        """Remove a name and return the location of its last metadata file; files are not deleted. Raises `NoSuchTableError`, `CommitUnknownError`."""
        reply = self.connection.request(Endpoint.UNREGISTER_TABLE, identifier)
        self._loader.drop(identifier)
        self._require_known(reply, f"table {dotted(identifier)!r}", "unregistered")
        self._require_table(reply, identifier, "was not unregistered")
        return reply.parse(_CommitTableResponse).metadata_location or ""

    def _new_table(self, reply: Reply, identifier: Identifier, done: str, location: str | None) -> TableLocation:
        """Return the table that a request has created, or raise the error. `location` is its folder or metadata file; None if the server chooses it."""
        what = f"table {dotted(identifier)!r}"
        self._require_known(reply, what, done, location)
        self._raise_for_new_name(reply, identifier, done)
        try:
            return _with_own_values(self._loader.table(identifier, reply))
        except FormatError as error:  # the catalog shows whether the server created the table, or the response came from a proxy
            raise CommitUnknownError(
                f"{what} may or may not have been {done} in catalog {self.name!r}: {error.message}", path=location, next_step=LOOK
            ) from error

    def _require_known(self, reply: Reply, what: str, done: str, location: str | None = None) -> None:
        """Raise `CommitUnknownError` if the outcome of the change is unknown."""
        if reply.is_unknown:
            raise reply.unknown_error(f"{what} may or may not have been {done} in catalog {self.name!r}", path=location)

    def _raise_for_new_name(self, reply: Reply, identifier: Identifier, done: str) -> None:
        """Raise the error for a table that was not created."""
        what = f"table {dotted(identifier)!r}"
        if reply.is_success:
            return
        if reply.status == CONFLICT:
            raise self._name_in_use(identifier)
        if reply.status == NOT_FOUND and reply.kind.startswith("NotFound"):
            raise NoSuchFileError(
                f"{what} was not {done} in catalog {self.name!r}: {reply.message}", next_step="check the location of the metadata file"
            )
        if reply.status == NOT_FOUND:
            raise self._no_namespace(identifier[:-1])
        raise reply.error(f"{what} was not {done} in catalog {self.name!r}")

    def _name_in_use(self, identifier: Identifier) -> TableAlreadyExistsError | ViewAlreadyExistsError:
        kind, noun = (ViewAlreadyExistsError, "view") if self._is_view(identifier) else (TableAlreadyExistsError, "table")
        return kind(
            f"{noun} {dotted(identifier)!r} already exists in catalog {self.name!r}", next_step="load it, drop it, or choose another name"
        )

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        reply = self._send(requests)
        for request in requests:
            if not reply.is_success:
                self._loader.drop(request.identifier)
        if reply.is_success:
            return self._outcome_of_commit(requests, reply)
        if reply.is_unknown:
            return Unknown(reason=reply.failure)
        first, creates = requests[0], [request for request in requests if request.expected is None]
        names = ", ".join(dotted(request.identifier) for request in requests)
        match reply.status:
            case 409:
                taken = next((request for request in creates if len(requests) == 1 or self.table_exists(request.identifier)), None)
                if taken is not None:
                    return Refused(error=self._name_in_use(taken.identifier))
                return Conflicted(current_location=first.expected, table=dotted(first.identifier) if len(requests) == 1 else None)
            case 404:
                return self._missing_in_commit(requests, reply)
            case 429:
                return Refused(error=reply.error(f"the commit to {names} was refused for the server's load"))
        if reply.status == 0:
            return Refused(error=reply.error(f"the commit to {names} was not sent"))
        return Refused(error=reply.error(f"the server refused the commit to {names}"))

    def _send(self, requests: Sequence[CommitRequest]) -> Reply:
        changes = [_to_json(request) for request in requests]
        if len(requests) == 1:
            request = requests[0]
            return self.connection.request(
                Endpoint.COMMIT_TABLE,
                request.identifier,
                body=changes[0],
                key=request.key,
                token=self._loader.token(request.identifier),
            )
        if not self.connection.paths.has(Endpoint.COMMIT_TRANSACTION):
            raise UnsupportedFeatureError(
                f"the server of catalog {self.name!r} cannot commit several tables at once",
                next_step="use one transaction for each table",
            )
        return self.connection.request(Endpoint.COMMIT_TRANSACTION, body={"table-changes": changes}, key=requests[0].key)

    def _outcome_of_commit(self, requests: Sequence[CommitRequest], reply: Reply) -> Outcome:
        """Return the outcome of a commit to which the server replied with success.

        Returns:
            `Committed`, with the new state of the tables unless they cannot be loaded. `Unknown` if the reply cannot be read, because a proxy may have sent it.
        """
        if len(requests) == 1 and reply.content:
            name = requests[0].identifier
            try:
                check_unrestricted(reply.parse(dict[str, msgspec.Raw]), "table", name, self.name)
                response = reply.parse(_CommitTableResponse)
                location = response.metadata_location or ""
                metadata = read_table_metadata(bytes(response.metadata), location or f"the metadata of {dotted(name)}")
            except UnsupportedFeatureError as error:
                LOG.warning("a commit happened, and the table cannot be read any longer: %s", error)
                self._loader.drop(name)
                return Committed()
            except IcefloeError as error:  # the table shows whether the server committed, or the response came from a proxy
                self._loader.drop(name)
                return Unknown(reason=f"the server's response cannot be read: {error.message}")
            self._loader.keep_committed(name, location, metadata, reply.etag)
            return Committed(stored=(Stored(location=location, metadata=metadata),))
        for request in requests:
            self._loader.drop(request.identifier)
        try:
            tables = [self.load(request.identifier) for request in requests]
        except IcefloeError as error:
            LOG.warning("a commit happened, and the tables could not be loaded afterwards: %s", error)
            return Committed()
        return Committed(stored=tuple(Stored(location=table.metadata_location, metadata=table.metadata) for table in tables))

    def _missing_in_commit(self, requests: Sequence[CommitRequest], reply: Reply) -> Outcome:
        created = next((request for request in requests if request.expected is None), None)
        if created is not None and (len(requests) == 1 or "Namespace" in reply.kind):
            return Refused(error=self._no_namespace(created.identifier[:-1]))
        gone = next((request for request in requests if request.expected is not None and not self.table_exists(request.identifier)), None)
        if created is not None and gone is None:
            return Refused(
                error=UnsupportedFeatureError(
                    f"the server of catalog {self.name!r} cannot create {dotted(created.identifier)!r} in one commit with other tables",
                    next_step="create the table before the transaction",
                )
            )
        return Conflicted(current_location=None, table=dotted((gone or requests[0]).identifier))

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Search the tables for the commit. If it is missing and its requirements are still met, send it again. See `CatalogStore.commit_status`."""
        status = self._looked_up(requests)
        if status is not None:
            return status
        outcome = self.commit(requests)
        if isinstance(outcome, Committed | Unknown):
            return outcome
        # The first request may have arrived between the search and the second request.
        return self._looked_up(requests) or (replace(outcome, is_reply_lost=True) if isinstance(outcome, Conflicted) else outcome)

    def _looked_up(self, requests: Sequence[CommitRequest]) -> Outcome | None:
        """Return how a commit ended, according to its tables; None if it has not happened but still can. Raises `StorageError`."""
        tables = {request.identifier: self._now(request.identifier) for request in requests}
        if any(_has(tables[request.identifier], request) for request in requests):
            states = [tables[request.identifier] for request in requests]
            stored = [Stored(location=table.metadata_location, metadata=table.metadata) for table in states if table is not None]
            return Committed(stored=tuple(stored) if len(stored) == len(requests) else ())
        for request in requests:
            table = tables[request.identifier]
            if not _is_met(request, table):
                location = table.metadata_location if table is not None else None
                return Conflicted(current_location=location, table=dotted(request.identifier), is_reply_lost=True)
        return None

    def _now(self, identifier: Identifier) -> TableLocation | None:
        self._loader.drop(identifier)
        try:
            return _with_own_values(self._load(identifier, settings.ALL))
        except NoSuchTableError:
            return None

    def rename(self, source: Identifier, target: Identifier) -> None:
        reply = self.connection.request(Endpoint.RENAME_TABLE, body={"source": _name(source), "destination": _name(target)})
        self._loader.drop(source)
        self._loader.drop(target)
        self._require_known(reply, f"table {dotted(source)!r}", f"renamed to {dotted(target)!r}")
        if reply.status == CONFLICT:
            raise self._name_in_use(target)
        if reply.status == NOT_FOUND and ("Namespace" in reply.kind or (not reply.kind and self.table_exists(source))):
            raise self._no_namespace(target[:-1])
        self._require_table(reply, source, "was not renamed")

    def drop(self, identifier: Identifier, *, expected: str | None = None, purge: bool = False) -> bool:
        """Drop a table. See `CatalogStore.drop`. With `purge` the server deletes the files. `expected` is compared before the drop, not within it."""
        if expected is not None and self.load(identifier).metadata_location != expected:
            return False
        reply = self.connection.request(Endpoint.DROP_TABLE, identifier, query={"purgeRequested": "true" if purge else "false"})
        self._loader.drop(identifier)
        self._require_known(reply, f"table {dotted(identifier)!r}", "dropped")
        self._require_table(reply, identifier, "was not dropped")
        return True

    def _require(self, reply: Reply, failure: str) -> None:
        if not reply.is_success:
            raise reply.error(failure)

    def _require_table(self, reply: Reply, identifier: Identifier, failure: str) -> None:
        if reply.status == NOT_FOUND:
            raise self._no_table(identifier)
        self._require(reply, f"the table {dotted(identifier)!r} {failure}")

    def _no_namespace(self, namespace: Identifier) -> NoSuchNamespaceError:
        try:
            namespaces = ", ".join(map(dotted, self.list_namespaces()[:_SHOWN_NAMES]))
        except IcefloeError:
            namespaces = "unknown"
        return NoSuchNamespaceError(
            f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
            next_step=f"create it with create_namespace({dotted(namespace)!r}); there are: {namespaces or 'none yet'}",
        )

    def _no_table(self, identifier: Identifier) -> NotFoundError:
        message = f"table {dotted(identifier)!r} does not exist in catalog {self.name!r}"
        if self._is_view(identifier):
            return NoSuchTableError(f"{message}: that name is a view", next_step="load it with load_view")
        try:
            names = [dotted(name) for name in self.list_tables(identifier[:-1])[:_SHOWN_NAMES]]
            hint = f"the namespace holds {', '.join(names) or 'no table'}"
        except IcefloeError as error:
            hint = error.next_step or "check the name"
        return NoSuchTableError(message, next_step=hint)

    def _is_view(self, identifier: Identifier) -> bool:
        """Return whether a name is a view; False if that cannot be determined."""
        paths = self.connection.paths
        endpoint = Endpoint.VIEW_EXISTS if paths.has(Endpoint.VIEW_EXISTS) else Endpoint.LOAD_VIEW
        return paths.has(endpoint) and self.connection.request(endpoint, identifier).is_success


def _name(identifier: Identifier) -> dict[str, Any]:
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def _to_json(request: CommitRequest) -> dict[str, Any]:
    requirements = [requirement_to_json(requirement) for requirement in request.requirements if requirement != AssertTableUUID(None)]  # type: ignore[arg-type]
    return {
        "identifier": _name(request.identifier),
        "requirements": requirements,
        "updates": [update_to_json(update) for update in request.updates],  # type: ignore[arg-type]
    }


def _with_own_values(table: TableLocation) -> TableLocation:
    """Return the table with copies of the metadata's mutable values, so that callers cannot change the cached table."""
    return replace(table, metadata=table.metadata.for_caller()) if isinstance(table.metadata, TableMetadata) else table


def _has(table: TableLocation | None, request: CommitRequest) -> bool:
    """Return whether a table contains the change of a commit: its snapshots, its uuid, or the effects of all updates."""
    if table is None or not isinstance(table.metadata, TableMetadata):
        return False
    metadata = table.metadata
    if request.expected is None:
        return any(isinstance(update, AssignUUID) and update.uuid == metadata.table_uuid for update in request.updates)
    added = [update.snapshot.snapshot_id for update in request.updates if isinstance(update, AddSnapshot)]
    if added:
        return all(metadata.snapshots.position(snapshot_id) is not None for snapshot_id in added)
    try:
        changed = apply_updates(metadata, request.updates, metadata.last_updated_ms)  # type: ignore[arg-type]
    except (InvalidInputError, CommitConflictError):
        return False
    return changed == metadata


def _is_met(request: CommitRequest, table: TableLocation | None) -> bool:
    """Return whether the requirements of a commit are met now."""
    metadata = table.metadata if table is not None and isinstance(table.metadata, TableMetadata) else None
    if request.expected is not None and metadata is None:
        return False
    try:
        for requirement in request.requirements:
            if isinstance(requirement, Requirement):
                requirement.check(metadata)
    except CommitConflictError:
        return False
    return True
