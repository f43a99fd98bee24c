"""The ASGI application of one worker of the server, with the routes of all operations and of the health check."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.server import catalog_operations, namespace_operations, scan_operations, storage_operations, table_operations, view_operations
from icefloe.server.error_response import NOT_ALLOWED, ErrorModel
from icefloe.server.health import Health
from icefloe.server.idempotency_store import IdempotencyStore, MemoryIdempotencyStore
from icefloe.server.request import NO_CONTENT, Answer, Call
from icefloe.server.request_handler import JSON, RequestHandler
from icefloe.server.rest_operations import OPERATIONS, RestOperation, Role
from icefloe.server.served_catalog import Handler, ServedCatalog
from icefloe.server.server_settings import ServerSettings
from icefloe.server.sql_idempotency_store import SqlIdempotencyStore


def show_reports(served: ServedCatalog, call: Call) -> Answer:
    """Return the metrics reports that clients last sent to this process, for tables that the user may read."""
    return Answer(content={"reports": served.reports.list_reports(call)})


def report_metrics(served: ServedCatalog, call: Call) -> Answer:
    """Store a metrics report. Spec: REST catalog, reportMetrics."""
    name = call.table()
    served.catalog.store.load(name)
    served.reports.add(name, call)
    return NO_CONTENT


# An operation of this server that the protocol does not have.
SHOW_REPORTS = RestOperation(name="showReports", method="GET", path="/reports", role=Role.ANY, is_listed=False)

HANDLERS: Mapping[str, Handler] = {
    "getConfig": catalog_operations.get_config,
    "listFunctions": catalog_operations.list_functions,
    "loadFunction": catalog_operations.load_function,
    "listNamespaces": namespace_operations.list_namespaces,
    "createNamespace": namespace_operations.create_namespace,
    "namespaceExists": namespace_operations.namespace_exists,
    "loadNamespaceMetadata": namespace_operations.load_namespace,
    "dropNamespace": namespace_operations.drop_namespace,
    "updateProperties": namespace_operations.update_properties,
    "listTables": table_operations.list_tables,
    "createTable": table_operations.create_table,
    "registerTable": table_operations.register_table,
    "tableExists": table_operations.table_exists,
    "loadTable": table_operations.load_table,
    "updateTable": table_operations.update_table,
    "dropTable": table_operations.drop_table,
    "unregisterTable": table_operations.unregister_table,
    "planTableScan": scan_operations.plan_table_scan,
    "fetchPlanningResult": scan_operations.fetch_planning_result,
    "cancelPlanning": scan_operations.cancel_planning,
    "fetchScanTasks": scan_operations.fetch_scan_tasks,
    "renameTable": table_operations.rename_table,
    "commitTransaction": table_operations.commit_transaction,
    "reportMetrics": report_metrics,
    "showReports": show_reports,
    "loadCredentials": storage_operations.load_credentials,
    "signRequest": storage_operations.sign_request,
    "listViews": view_operations.list_views,
    "createView": view_operations.create_view,
    "viewExists": view_operations.view_exists,
    "loadView": view_operations.load_view,
    "replaceView": view_operations.replace_view,
    "dropView": view_operations.drop_view,
    "renameView": view_operations.rename_view,
    "registerView": view_operations.register_view,
}


@dataclass(frozen=True, slots=True)
class ApplicationFactory:
    """Creates the application of a worker. It is pickled for the worker's process.

    Attributes:
        settings: The settings of the server.
    """

    settings: ServerSettings

    def __call__(self) -> ASGIApp:
        """Return the application."""
        return application(self.settings)


class EncodedPaths:
    """Middleware that passes paths on percent-encoded, so that an encoded slash does not end a segment. Each operation decodes the names in its path itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        raw_path = scope.get("raw_path") if scope["type"] == "http" else None
        if raw_path is not None:
            scope = {**scope, "path": raw_path.decode("latin-1")}
        await self._app(scope, receive, send)


def application(settings: ServerSettings) -> ASGIApp:
    """Return the ASGI application of a server.

    Args:
        settings: The settings of the server: its catalog, users and limits.
    """
    served = ServedCatalog.of(settings)
    handler = RequestHandler(settings, served, HANDLERS, _idempotency_store(settings))
    routes = [_route(operation, handler) for operation in OPERATIONS]
    routes.append(_route(SHOW_REPORTS, handler))
    routes.append(Route("/health", Health(served.catalog.list_namespaces).respond, methods=["GET"]))
    errors: Any = {HTTPException: _http_error}
    app = Starlette(routes=routes, exception_handlers=errors)
    app.router.redirect_slashes = False
    return EncodedPaths(app)


def _idempotency_store(settings: ServerSettings) -> IdempotencyStore:
    """Return the store of the responses to idempotency keys: the database that workers share, or the memory of this process."""
    catalog = settings.catalog
    if isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "postgresql":
        return SqlIdempotencyStore(catalog.engine, catalog.name)
    return MemoryIdempotencyStore()


def _route(operation: RestOperation, handler: RequestHandler) -> Route:
    async def endpoint(request: Request) -> Response:
        return await handler.respond(operation, request)

    # The routes of HEAD come first in the table of operations, because a route of GET would match HEAD requests too.
    return Route(operation.path.replace("plan-id", "plan_id"), endpoint, methods=[operation.method], name=operation.name)


async def _http_error(_: Request, error: Exception) -> Response:
    """Return the response to a path or method that no operation has."""
    assert isinstance(error, HTTPException)  # noqa: S101  the handler is registered only for this class
    kind = "UnsupportedOperationException" if error.status_code == NOT_ALLOWED else "BadRequestException"
    model = ErrorModel(code=error.status_code, kind=kind, message=f"the protocol has no such operation: {error.detail}")
    return Response(msgspec.json.encode(model.as_json()), error.status_code, dict(error.headers or {}), media_type=JSON)
