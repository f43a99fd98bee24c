"""The operations on namespaces. Spec: REST catalog, /v1/{prefix}/namespaces."""

from collections.abc import Mapping

from icefloe.server.error_response import unprocessable
from icefloe.server.request import NO_CONTENT, Answer, Call, levels, namespace_of, page_of
from icefloe.server.rest_operations import Role
from icefloe.server.served_catalog import ServedCatalog
from icefloe.server.served_locations import NAMESPACE_LOCATION, ServedLocations
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.schema.json_shape import Key, a_string, array_of, strings_by_name


def list_namespaces(served: ServedCatalog, call: Call) -> Answer:
    """List the namespaces one level below a parent, or those of the top level. Spec: REST catalog, listNamespaces."""
    text = call.query.get("parent")
    parent = namespace_of(text) if text else ()
    readable = [name for name in served.catalog.list_namespaces(parent) if call.access.may_see(name)]
    page = page_of(readable, call)
    return Answer(content={"next-page-token": page.next_token, "namespaces": [list(name) for name in page.items]})


def create_namespace(served: ServedCatalog, call: Call) -> Answer:
    """Create a namespace. Spec: REST catalog, createNamespace."""
    content = call.json_object(Key("namespace", levels), Key("properties", strings_by_name, required=False))
    name = served.catalog.identifier_to_tuple(content["namespace"])
    properties = content.get("properties") or {}
    _check_location(served, call, name, properties)
    served.catalog.create_namespace(name, properties)
    return Answer(content={"namespace": list(name), "properties": served.catalog.load_namespace_properties(name)})


def namespace_exists(served: ServedCatalog, call: Call) -> Answer:
    """Check that a namespace exists. Spec: REST catalog, namespaceExists."""
    served.catalog.load_namespace_properties(call.namespace())
    return NO_CONTENT


def load_namespace(served: ServedCatalog, call: Call) -> Answer:
    """Return a namespace with its properties. Spec: REST catalog, loadNamespaceMetadata."""
    name = call.namespace()
    return Answer(content={"namespace": list(name), "properties": served.catalog.load_namespace_properties(name)})


def drop_namespace(served: ServedCatalog, call: Call) -> Answer:
    """Drop an empty namespace. Spec: REST catalog, dropNamespace."""
    served.catalog.drop_namespace(call.namespace())
    return NO_CONTENT


def update_properties(served: ServedCatalog, call: Call) -> Answer:
    """Set and remove properties of a namespace. Spec: REST catalog, updateProperties."""
    name = call.namespace()
    content = call.json_object(Key("removals", array_of(a_string), required=False), Key("updates", strings_by_name, required=False))
    removals, updates = content.get("removals") or [], content.get("updates") or {}
    twice = sorted(set(removals) & updates.keys())
    if twice:
        raise unprocessable(f"{', '.join(twice)}: both removed and updated; a property is in one of them")
    _check_location(served, call, name, updates)
    change = served.catalog.update_namespace_properties(name, removals, updates)
    return Answer(content={"updated": change.updated, "removed": change.removed, "missing": change.missing})


def _check_location(served: ServedCatalog, call: Call, name: Identifier, properties: Mapping[str, str]) -> None:
    """Refuse a property `location` that the user may not set for a namespace.

    Raises:
        LocationNotAllowedError: The user may not use the location.
    """
    location = properties.get(NAMESPACE_LOCATION)
    if not location:
        return
    is_admin = call.access.role_in(()) >= Role.ADMIN
    folder = served.catalog.warehouse_folder(name)
    locations = ServedLocations.of_catalog(served.policy) if is_admin else ServedLocations.of_namespace(folder, None)
    locations.check_folder(location, f"the location of namespace {dotted(name)}")
