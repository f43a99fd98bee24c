"""The operations on the catalog as a whole: its configuration, and functions, which Icefloe's catalogs do not have.

Spec: REST catalog, /v1/config, /v1/{prefix}/namespaces/{namespace}/functions.
"""

from icefloe.io.locations import place_of_folder
from icefloe.server.error_response import NOT_FOUND, RefusedRequest
from icefloe.server.idempotency_store import LIFETIME_S
from icefloe.server.request import Answer, Call, decode_segment
from icefloe.server.rest_operations import OPERATIONS
from icefloe.server.served_catalog import ServedCatalog
from icefloe.spec.identifier import dotted

_VIEW_OPERATIONS = frozenset({"listViews", "createView", "viewExists", "loadView", "replaceView", "dropView", "renameView", "registerView"})


def get_config(served: ServedCatalog, call: Call) -> Answer:
    """Return the configuration for clients. Spec: REST catalog, getConfig."""
    requested = call.query.get("warehouse")
    warehouse = served.catalog.properties.get("warehouse")
    if requested and requested != served.catalog.name and not (warehouse and place_of_folder(requested) == place_of_folder(warehouse)):
        raise RefusedRequest(
            NOT_FOUND, "NoSuchWarehouseException", f"Warehouse does not exist: {requested}; the server has {served.catalog.name}"
        )
    has_views = served.catalog.keeps_views
    endpoints = [
        operation.endpoint for operation in OPERATIONS if operation.is_listed and (has_views or operation.name not in _VIEW_OPERATIONS)
    ]
    return Answer(
        content={
            "defaults": {},
            "overrides": {},
            "endpoints": endpoints,
            "idempotency-key-lifetime": f"PT{LIFETIME_S // 60}M",
        }
    )


def list_functions(served: ServedCatalog, call: Call) -> Answer:
    """Return an empty list, because a namespace has no functions. Spec: REST catalog, listFunctions."""
    served.catalog.load_namespace_properties(call.namespace())
    return Answer(content={"next-page-token": None, "identifiers": []})


def load_function(served: ServedCatalog, call: Call) -> Answer:
    """Refuse to load a function, because there are no functions. Spec: REST catalog, loadFunction."""
    name = call.namespace()
    served.catalog.load_namespace_properties(name)
    raise RefusedRequest(
        NOT_FOUND, "NoSuchFunctionException", f"Function does not exist: {dotted(name)}.{decode_segment(call.path['function'])}"
    )
