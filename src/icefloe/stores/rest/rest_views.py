"""`RestViews`: the views of a REST catalog. Spec: REST catalog, createView, loadView, replaceView; View spec, Metadata Location."""

from collections.abc import Sequence
from typing import Any

import msgspec

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Stored, Unknown
from icefloe.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CommitUnknownError,
    FormatError,
    IcefloeError,
    InvalidInputError,
    NoSuchNamespaceError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_metadata_json import read_view_metadata
from icefloe.spec.view.view_updates import AssertViewUUID, apply_view_updates, view_requirement_to_json, view_update_to_json
from icefloe.spec.view.view_version import view_version_to_json
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.rest.http_reply import CONFLICT, LOOK, NOT_FOUND, Reply
from icefloe.stores.rest.load_result import load_result
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint

_SHOWN_NAMES = 10


class _Name(msgspec.Struct):
    namespace: list[str]
    name: str


class _Names(msgspec.Struct):
    identifiers: list[_Name] | None = None


class RestViews:
    """The views of a REST catalog. See `ViewStore`."""

    writes_metadata = True

    def __init__(self, connection: RestConnection) -> None:
        self.name = connection.name
        self._connection = connection

    def names(self, namespace: Identifier) -> list[Identifier]:
        names: list[Identifier] = []
        for reply in self._connection.pages(Endpoint.LIST_VIEWS, namespace):
            if reply.status == NOT_FOUND:
                raise self._no_namespace(namespace)
            if not reply.is_success:
                raise reply.error(f"the views of {dotted(namespace)!r} could not be listed")
            names += [(*view.namespace, view.name) for view in reply.parse(_Names).identifiers or ()]
        return sorted(names)

    def view_exists(self, identifier: Identifier) -> bool:
        """Return whether a view exists, by a HEAD request if the server supports it."""
        if not self._connection.paths.has(Endpoint.VIEW_EXISTS):
            reply = self._connection.request(Endpoint.LOAD_VIEW, identifier)
        else:
            reply = self._connection.request(Endpoint.VIEW_EXISTS, identifier)
        if not reply.is_success and reply.status != NOT_FOUND:
            raise reply.error(f"the view {dotted(identifier)!r} could not be looked up")
        return reply.is_success

    def load(self, identifier: Identifier) -> TableLocation:
        """Load a view. See `ViewStore.load`. The result has the metadata."""
        reply = self._connection.request(Endpoint.LOAD_VIEW, identifier)
        self._require_view(reply, identifier, "could not be loaded")
        return self._view(identifier, reply)

    def _view(self, identifier: Identifier, reply: Reply) -> TableLocation:
        result = load_result(reply, identifier, self.name, noun="view")
        location = result.metadata_location
        return TableLocation(
            identifier=identifier,
            metadata_location=location,
            previous_metadata_location=None,
            lookup=lambda: reply.request,
            metadata=read_view_metadata(result.metadata, location or f"the metadata of {dotted(identifier)}"),
        )

    def create_view(self, identifier: Identifier, metadata: ViewMetadata, *, location: str | None) -> TableLocation:
        """Create a view.

        Args:
            identifier: The name of the view.
            metadata: Its first metadata, whose schema, version and properties are sent.
            location: Its folder; None if the server chooses it.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError, NoSuchNamespaceError: the view was not created.
            CommitUnknownError: the reply was lost.
        """
        body: dict[str, Any] = {
            "name": identifier[-1],
            "schema": schema_to_json(metadata.schema()),
            "view-version": view_version_to_json(metadata.version()),
            "properties": dict(metadata.properties),
        }
        if location is not None:
            body["location"] = location
        reply = self._connection.request(Endpoint.CREATE_VIEW, identifier[:-1], body=body)
        return self._new_view(reply, identifier, location)

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        """Create a view name by registering its metadata file. See `ViewStore.create`."""
        body = {"name": identifier[-1], "metadata-location": metadata_location}
        reply = self._connection.request(Endpoint.REGISTER_VIEW, identifier[:-1], body=body)
        return self._new_view(reply, identifier, metadata_location).metadata_location

    def _new_view(self, reply: Reply, identifier: Identifier, location: str | None) -> TableLocation:
        """Return the view that a request has created, or raise the error. `location` is its folder or metadata file; None if the server chooses it."""
        self._require_known(reply, identifier, "created", location)
        if reply.status == CONFLICT:
            raise self._name_in_use(identifier)
        if reply.status == NOT_FOUND and not reply.kind.startswith("NotFound"):
            raise self._no_namespace(identifier[:-1])
        if not reply.is_success:
            raise reply.error(f"view {dotted(identifier)!r} was not created in catalog {self.name!r}")
        try:
            return self._view(identifier, reply)
        except FormatError as error:  # the catalog shows whether the server created the view, or the response came from a proxy
            raise CommitUnknownError(
                f"view {dotted(identifier)!r} may or may not have been created in catalog {self.name!r}: {error.message}",
                path=location,
                next_step=LOOK,
            ) from error

    def _require_known(self, reply: Reply, identifier: Identifier, done: str, location: str | None = None) -> None:
        """Raise `CommitUnknownError` if the outcome of the change is unknown."""
        if reply.is_unknown:
            raise reply.unknown_error(
                f"view {dotted(identifier)!r} may or may not have been {done} in catalog {self.name!r}", path=location
            )

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        (request,) = requests
        body = {
            "identifier": {"namespace": list(request.identifier[:-1]), "name": request.identifier[-1]},
            "requirements": [
                view_requirement_to_json(requirement) for requirement in request.requirements if isinstance(requirement, AssertViewUUID)
            ],
            "updates": [view_update_to_json(update) for update in request.updates],  # type: ignore[arg-type]
        }
        reply = self._connection.request(Endpoint.REPLACE_VIEW, request.identifier, body=body, key=request.key)
        if reply.is_unknown:
            return Unknown(reason=reply.failure)
        if reply.is_success:
            try:
                view = self._view(request.identifier, reply)
            except FormatError as error:  # the view shows whether the server committed, or the response came from a proxy
                return Unknown(reason=f"the server's response cannot be read: {error.message}")
            return Committed(stored=(Stored(location=view.metadata_location, metadata=view.metadata),))
        if reply.status == CONFLICT:
            return Conflicted(current_location=request.expected)
        if reply.status == NOT_FOUND:
            return Conflicted(current_location=None)
        return Refused(error=reply.error(f"the server refused the change of view {dotted(request.identifier)!r}"))

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Search the view for the change. If it is missing, send it again. See `CatalogStore.commit_status`."""
        (request,) = requests
        try:
            view = self.load(request.identifier)
        except NoSuchViewError:
            return Conflicted(current_location=None, is_reply_lost=True)
        if _has(view, request):
            return Committed(stored=(Stored(location=view.metadata_location, metadata=view.metadata),))
        if view.metadata_location != request.expected:
            return Conflicted(current_location=view.metadata_location, is_reply_lost=True)
        outcome = self.commit(requests)
        return Conflicted(current_location=outcome.current_location, is_reply_lost=True) if isinstance(outcome, Conflicted) else outcome

    def rename(self, source: Identifier, target: Identifier) -> None:
        body = {
            "source": {"namespace": list(source[:-1]), "name": source[-1]},
            "destination": {"namespace": list(target[:-1]), "name": target[-1]},
        }
        reply = self._connection.request(Endpoint.RENAME_VIEW, body=body)
        self._require_known(reply, source, f"renamed to {dotted(target)!r}")
        if reply.status == CONFLICT:
            raise self._name_in_use(target)
        if reply.status == NOT_FOUND and ("Namespace" in reply.kind or (not reply.kind and self.view_exists(source))):
            raise self._no_namespace(target[:-1])
        self._require_view(reply, source, "was not renamed")

    def drop(self, identifier: Identifier) -> None:
        reply = self._connection.request(Endpoint.DROP_VIEW, identifier)
        self._require_known(reply, identifier, "dropped")
        self._require_view(reply, identifier, "was not dropped")

    def _require_view(self, reply: Reply, identifier: Identifier, failure: str) -> None:
        if reply.status == NOT_FOUND:
            raise self._no_view(identifier)
        if not reply.is_success:
            raise reply.error(f"the view {dotted(identifier)!r} {failure}")

    def _name_in_use(self, identifier: Identifier) -> AlreadyExistsError:
        is_table = self._is_table(identifier)
        kind, noun = (TableAlreadyExistsError, "table") if is_table else (ViewAlreadyExistsError, "view")
        return kind(
            f"{noun} {dotted(identifier)!r} already exists in catalog {self.name!r}", next_step="load it, drop it, or choose another name"
        )

    def _is_table(self, identifier: Identifier) -> bool:
        paths = self._connection.paths
        endpoint = Endpoint.TABLE_EXISTS if paths.has(Endpoint.TABLE_EXISTS) else Endpoint.LOAD_TABLE
        return self._connection.request(endpoint, identifier).is_success

    def _no_namespace(self, namespace: Identifier) -> NoSuchNamespaceError:
        return NoSuchNamespaceError(
            f"namespace {dotted(namespace)!r} does not exist in catalog {self.name!r}",
            next_step=f"create it with create_namespace({dotted(namespace)!r})",
        )

    def _no_view(self, identifier: Identifier) -> NoSuchViewError:
        message = f"view {dotted(identifier)!r} does not exist in catalog {self.name!r}"
        try:
            if self._is_table(identifier):
                return NoSuchViewError(f"{message}: that name is a table", next_step="load it with load_table")
            names = [dotted(name) for name in self.names(identifier[:-1])[:_SHOWN_NAMES]]
        except IcefloeError as error:
            return NoSuchViewError(message, next_step=error.next_step)
        return NoSuchViewError(message, next_step=f"the namespace holds {', '.join(names) or 'no view'}")


def _has(view: TableLocation, request: CommitRequest) -> bool:
    """Return whether a view has the effects of all updates of a commit."""
    if not isinstance(view.metadata, ViewMetadata):
        return False
    log = view.metadata.version_log
    try:
        changed = apply_view_updates(view.metadata, request.updates, log[-1].timestamp_ms if log else 0)  # type: ignore[arg-type]
    except (InvalidInputError, CommitConflictError):
        return False
    return changed == view.metadata
