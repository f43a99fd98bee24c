"""The endpoints of the REST catalog protocol: their names in a server's configuration, and their paths.

Spec: REST catalog, CatalogConfig (`endpoints`); REST catalog, Namespace.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote, unquote

from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.identifier import Identifier

_NAMESPACES = "/v1/{prefix}/namespaces"
_NAMESPACE = f"{_NAMESPACES}/{{namespace}}"
_TABLES, _VIEWS = f"{_NAMESPACE}/tables", f"{_NAMESPACE}/views"
_TABLE, _VIEW = f"{_TABLES}/{{table}}", f"{_VIEWS}/{{view}}"
DEFAULT_SEPARATOR = "%1F"
# Path parameters that are the last level of a name.
_NAMES = ("{table}", "{view}", "{function}")


class Endpoint(StrEnum):
    """An operation, by its name in a server's configuration."""

    LIST_NAMESPACES = f"GET {_NAMESPACES}"
    CREATE_NAMESPACE = f"POST {_NAMESPACES}"
    LOAD_NAMESPACE = f"GET {_NAMESPACE}"
    NAMESPACE_EXISTS = f"HEAD {_NAMESPACE}"
    DROP_NAMESPACE = f"DELETE {_NAMESPACE}"
    UPDATE_NAMESPACE = f"POST {_NAMESPACE}/properties"
    LIST_TABLES = f"GET {_TABLES}"
    CREATE_TABLE = f"POST {_TABLES}"
    LOAD_TABLE = f"GET {_TABLE}"
    COMMIT_TABLE = f"POST {_TABLE}"
    DROP_TABLE = f"DELETE {_TABLE}"
    TABLE_EXISTS = f"HEAD {_TABLE}"
    REGISTER_TABLE = f"POST {_NAMESPACE}/register"
    UNREGISTER_TABLE = f"POST {_TABLE}/unregister"
    LOAD_CREDENTIALS = f"GET {_TABLE}/credentials"
    SIGN = f"POST {_TABLE}/sign"
    PLAN = f"POST {_TABLE}/plan"
    FETCH_PLAN = f"GET {_TABLE}/plan/{{plan-id}}"
    CANCEL_PLAN = f"DELETE {_TABLE}/plan/{{plan-id}}"
    FETCH_TASKS = f"POST {_TABLE}/tasks"
    REPORT_METRICS = f"POST {_TABLE}/metrics"
    RENAME_TABLE = "POST /v1/{prefix}/tables/rename"
    COMMIT_TRANSACTION = "POST /v1/{prefix}/transactions/commit"
    LIST_VIEWS = f"GET {_VIEWS}"
    CREATE_VIEW = f"POST {_VIEWS}"
    LOAD_VIEW = f"GET {_VIEW}"
    REPLACE_VIEW = f"POST {_VIEW}"
    DROP_VIEW = f"DELETE {_VIEW}"
    VIEW_EXISTS = f"HEAD {_VIEW}"
    RENAME_VIEW = "POST /v1/{prefix}/views/rename"
    REGISTER_VIEW = f"POST {_NAMESPACE}/register-view"
    LIST_FUNCTIONS = f"GET {_NAMESPACE}/functions"
    LOAD_FUNCTION = f"GET {_NAMESPACE}/functions/{{function}}"

    @property
    def verb(self) -> str:
        """The HTTP method of the operation."""
        return self.value.partition(" ")[0]


# The endpoints of a server that sends no list of endpoints, and those that it also has if it supports views.
DEFAULT_ENDPOINTS = frozenset(
    {
        Endpoint.LIST_NAMESPACES,
        Endpoint.CREATE_NAMESPACE,
        Endpoint.LOAD_NAMESPACE,
        Endpoint.DROP_NAMESPACE,
        Endpoint.UPDATE_NAMESPACE,
        Endpoint.LIST_TABLES,
        Endpoint.CREATE_TABLE,
        Endpoint.LOAD_TABLE,
        Endpoint.COMMIT_TABLE,
        Endpoint.DROP_TABLE,
        Endpoint.REGISTER_TABLE,
        Endpoint.REPORT_METRICS,
        Endpoint.RENAME_TABLE,
        Endpoint.COMMIT_TRANSACTION,
    }
)
VIEW_ENDPOINTS = frozenset(
    {
        Endpoint.LIST_VIEWS,
        Endpoint.CREATE_VIEW,
        Endpoint.LOAD_VIEW,
        Endpoint.REPLACE_VIEW,
        Endpoint.DROP_VIEW,
        Endpoint.RENAME_VIEW,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestPaths:
    """The endpoints of a server, and the paths of its names.

    Attributes:
        catalog: The name of the catalog, for messages.
        endpoints: The operations that the server supports; unknown operations in its list are ignored.
        prefix: The path segments after `/v1`, from the server, already percent-encoded.
        separator: The percent-encoded text between the levels of a namespace.
    """

    catalog: str
    endpoints: Collection[str]
    prefix: str = ""
    separator: str = DEFAULT_SEPARATOR

    def has(self, endpoint: Endpoint) -> bool:
        """Return whether the server supports an operation."""
        return endpoint in self.endpoints

    def path(self, endpoint: Endpoint, identifier: Identifier = (), *, plan_id: str = "") -> str:
        """Return the path of an operation below the catalog's address.

        Args:
            endpoint: The operation.
            identifier: The namespace, or the table, view or function.
            plan_id: The id of a scan's plan.

        Raises:
            UnsupportedFeatureError: the server does not have the operation.
        """
        if endpoint not in self.endpoints:
            raise UnsupportedFeatureError(
                f"the server of catalog {self.catalog!r} does not have the operation {endpoint.value}",
                next_step="use another catalog for it, or a newer version of the server",
            )
        template = endpoint.value.partition(" /")[2]
        template = template.replace("{prefix}/", f"{self.prefix}/" if self.prefix else "")
        is_of_namespace = not any(name in template for name in _NAMES)
        namespace = identifier if is_of_namespace else identifier[:-1]
        name = _segment(quote(identifier[-1], safe="")) if identifier else ""
        template = template.replace("{namespace}", _segment(self.separator.join(quote(level, safe="") for level in namespace)))
        for parameter in _NAMES:
            template = template.replace(parameter, name)
        return template.replace("{plan-id}", _segment(quote(plan_id, safe="")))

    def join_namespace(self, namespace: Identifier) -> str:
        """Return a namespace as the value of a query parameter, before it is encoded."""
        return unquote(self.separator).join(namespace)


def _segment(encoded: str) -> str:
    """Check a path segment. HTTP clients drop a segment `..` together with the segment before it, so that dropping a table could drop its namespace."""
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded
