"""The operations of the REST catalog protocol: method, path, required role, and whether an operation accepts an idempotency key.

This table decides which operations the server has, which ones `GET /v1/config` lists, and what a token allows; `application.py` makes the routes from it.
Spec: REST catalog, paths.
"""

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """The rights of a token in a namespace and in the namespaces below it. A higher role includes the lower ones."""

    NONE = 0  # the operation needs no token
    ANY = 1  # any valid token
    READ = 2
    WRITE = 3
    ADMIN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOperation:
    """One operation of the protocol.

    Attributes:
        name: The `operationId` of the specification.
        method: The HTTP method.
        path: The path, with the names of its parameters in braces.
        role: The role that a token needs in the namespace of the path; if the body names tables, in the namespace of each table.
        takes_key: Whether the operation accepts an `Idempotency-Key`.
        commits: Whether a client that gets no response must assume that the outcome is unknown.
        is_listed: Whether `GET /v1/config` lists the operation, as it does except for configuration and tokens.
    """

    name: str
    method: str
    path: str
    role: Role
    takes_key: bool = False
    commits: bool = False
    is_listed: bool = True

    @property
    def endpoint(self) -> str:
        """The operation in the form in which `GET /v1/config` lists it."""
        return f"{self.method} {self.path.replace('/v1/', '/v1/{prefix}/', 1)}"


_NAMESPACES = "/v1/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"
_PLAN = f"{_TABLE}/plan/{{plan-id}}"


def _change(name: str, method: str, path: str, role: Role, *, commits: bool = False) -> RestOperation:
    """Return an operation that changes the catalog and accepts an idempotency key."""
    return RestOperation(name=name, method=method, path=path, role=role, takes_key=True, commits=commits)


def _look(name: str, method: str, path: str, role: Role = Role.READ) -> RestOperation:
    """Return an operation that changes nothing."""
    return RestOperation(name=name, method=method, path=path, role=role)


OPERATIONS: tuple[RestOperation, ...] = (
    RestOperation(name="getConfig", method="GET", path="/v1/config", role=Role.ANY, is_listed=False),
    RestOperation(name="getToken", method="POST", path="/v1/oauth/tokens", role=Role.NONE, is_listed=False),
    _look("listNamespaces", "GET", _NAMESPACES),
    _change("createNamespace", "POST", _NAMESPACES, Role.ADMIN),
    _look("namespaceExists", "HEAD", _NAMESPACE),
    _look("loadNamespaceMetadata", "GET", _NAMESPACE),
    _change("dropNamespace", "DELETE", _NAMESPACE, Role.ADMIN),
    _change("updateProperties", "POST", f"{_NAMESPACE}/properties", Role.ADMIN),
    _look("listTables", "GET", f"{_NAMESPACE}/tables"),
    _change("createTable", "POST", f"{_NAMESPACE}/tables", Role.WRITE),
    _change("registerTable", "POST", f"{_NAMESPACE}/register", Role.ADMIN),
    _look("tableExists", "HEAD", _TABLE),
    _look("loadTable", "GET", _TABLE),
    _change("updateTable", "POST", _TABLE, Role.WRITE, commits=True),
    _change("dropTable", "DELETE", _TABLE, Role.WRITE),
    _change("unregisterTable", "POST", f"{_TABLE}/unregister", Role.ADMIN),
    _look("loadCredentials", "GET", f"{_TABLE}/credentials"),
    _look("signRequest", "POST", f"{_TABLE}/sign"),
    _look("reportMetrics", "POST", f"{_TABLE}/metrics"),
    # Plans change nothing and their responses are long. For a retry they are made again, so that they accept no idempotency key.
    _look("planTableScan", "POST", f"{_TABLE}/plan"),
    _look("fetchPlanningResult", "GET", _PLAN),
    _look("cancelPlanning", "DELETE", _PLAN),
    _look("fetchScanTasks", "POST", f"{_TABLE}/tasks"),
    _change("renameTable", "POST", "/v1/tables/rename", Role.WRITE),
    _change("commitTransaction", "POST", "/v1/transactions/commit", Role.WRITE, commits=True),
    _look("listViews", "GET", f"{_NAMESPACE}/views"),
    RestOperation(name="createView", method="POST", path=f"{_NAMESPACE}/views", role=Role.WRITE, commits=True),
    _look("viewExists", "HEAD", _VIEW),
    _look("loadView", "GET", _VIEW),
    _change("replaceView", "POST", _VIEW, Role.WRITE, commits=True),
    _change("dropView", "DELETE", _VIEW, Role.WRITE),
    _change("renameView", "POST", "/v1/views/rename", Role.WRITE),
    _change("registerView", "POST", f"{_NAMESPACE}/register-view", Role.ADMIN),
    _look("listFunctions", "GET", f"{_NAMESPACE}/functions"),
    _look("loadFunction", "GET", f"{_NAMESPACE}/functions/{{function}}"),
)
