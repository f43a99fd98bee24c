"""The operations on views. Spec: REST catalog, /v1/{prefix}/namespaces/{namespace}/views."""

from collections.abc import Sequence
from typing import Any

from icefloe.errors import FormatError, UnsupportedFeatureError
from icefloe.server.error_response import BAD_REQUEST, RefusedRequest, bad_request
from icefloe.server.request import NO_CONTENT, Answer, Call, identifier_json, page_of, text_value
from icefloe.server.served_catalog import ServedCatalog
from icefloe.server.table_operations import read_rename
from icefloe.spec.identifier import dotted, to_table_identifier
from icefloe.spec.metadata.table_updates import SetLocation, SetProperties
from icefloe.spec.schema.json_shape import Key, a_string, an_array, an_object, strings_by_name
from icefloe.spec.schema.schema_json import schema_from_json
from icefloe.spec.view.view_metadata import ViewMetadata, dialect_problems
from icefloe.spec.view.view_metadata_json import read_view_metadata, view_to_json
from icefloe.spec.view.view_updates import AssertViewUUID, ViewUpdate, view_requirement_from_json, view_update_from_json
from icefloe.spec.view.view_version import SQLViewRepresentation, view_version_from_json
from icefloe.view.view_commit import commit_view
from icefloe.view.view_handle import LoadedView


def list_views(served: ServedCatalog, call: Call) -> Answer:
    """List the views of a namespace. Spec: REST catalog, listViews."""
    page = page_of(served.catalog.list_views(call.namespace()), call)
    return Answer(content={"next-page-token": page.next_token, "identifiers": [identifier_json(name) for name in page.items]})


def create_view(served: ServedCatalog, call: Call) -> Answer:
    """Create a view. Spec: REST catalog, createView."""
    content = call.json_object(
        Key("name", text_value),
        Key("schema", an_object),
        Key("view-version", an_object),
        Key("properties", strings_by_name, required=False),
        Key("location", a_string, required=False),
    )
    name = to_table_identifier((*call.namespace(), content["name"]))
    served.catalog.load_namespace_properties(name[:-1])
    try:
        schema = schema_from_json({"schema-id": 0, **content["schema"]}, "$.schema")
        version = view_version_from_json(content["view-version"], "$.view-version")
    except FormatError as error:
        raise bad_request(str(error)) from error
    others = sorted({item.type for item in version.representations if not isinstance(item, SQLViewRepresentation)})
    if others:
        raise bad_request(f"the view has representations of the types {', '.join(others)}; a view is created with SQL alone")
    if any(dialect_problems(version, "view-version")):
        dialects = sorted({dialect for dialect in version.dialects if version.dialects.count(dialect) > 1})
        raise RefusedRequest(
            BAD_REQUEST, "IllegalArgumentException", f"Invalid view version: Cannot add multiple queries for dialect {', '.join(dialects)}"
        )
    folder, properties = served.catalog.view_location(name, content.get("location")), content.get("properties") or {}
    locations = served.locations(call, name[:-1])
    locations.check_folder(folder, f"the location of view {dotted(name)}")
    locations.check_properties(properties, f"view {dotted(name)}", [folder])
    view = served.catalog.create_view(
        name,
        view_version=version,
        schema=schema,
        default_namespace=version.default_namespace,  # even if it is empty
        properties=properties,
        location=folder,
    )
    return _answer(view.loaded)


def register_view(served: ServedCatalog, call: Call) -> Answer:
    """Add a view by its metadata file. Spec: REST catalog, registerView."""
    content = call.json_object(Key("name", text_value), Key("metadata-location", text_value))
    name = to_table_identifier((*call.namespace(), content["name"]))
    location = content["metadata-location"]
    served.catalog.load_namespace_properties(name[:-1])
    locations = served.locations(call, name[:-1])
    locations.check_file(location, "the metadata file")
    handle = served.catalog.new_handle(name, location)
    try:
        metadata = read_view_metadata(handle.io.read(location), location)
    except FormatError as error:
        raise bad_request(str(error)) from error
    locations.check_folder(metadata.location, f"the location in {location}")
    locations.check_properties(metadata.properties, location, [metadata.location])
    return _answer(served.catalog.register_view(name, location).loaded)


def view_exists(served: ServedCatalog, call: Call) -> Answer:
    """Check that a view exists. Spec: REST catalog, viewExists."""
    served.catalog.load_view(call.view())
    return NO_CONTENT


def load_view(served: ServedCatalog, call: Call) -> Answer:
    """Return a view's metadata. Spec: REST catalog, loadView."""
    return _answer(served.catalog.load_view(call.view()).loaded)


def replace_view(served: ServedCatalog, call: Call) -> Answer:
    """Commit updates to a view. Spec: REST catalog, replaceView."""
    content = call.json_object(Key("requirements", an_array, required=False), Key("updates", an_array))
    requirements, updates = _parse(content.get("requirements") or [], content["updates"])
    view, what = served.catalog.load_view(call.view()), f"view {dotted(call.view())}"
    locations, own = served.locations(call, call.view()[:-1]), [view.metadata.location]
    for update in updates:
        match update:
            case SetLocation(location) if location.rstrip("/") != view.metadata.location:
                locations.check_folder(location, f"the location of {what}")
                own.append(location)
            case SetProperties(properties):
                locations.check_properties(properties, what, own)

    def change(base: ViewMetadata, _: int) -> Sequence[ViewUpdate]:
        for requirement in requirements:
            requirement.check(base)
        return updates

    return _answer(commit_view(view.handle, change, view.loaded))


def rename_view(served: ServedCatalog, call: Call) -> Answer:
    """Rename a view. Spec: REST catalog, renameView."""
    source, target = read_rename(call)
    served.catalog.load_view(source)
    served.catalog.load_namespace_properties(target[:-1])
    served.catalog.rename_view(source, target)
    return NO_CONTENT


def drop_view(served: ServedCatalog, call: Call) -> Answer:
    """Drop a view; its files stay. Spec: REST catalog, dropView."""
    served.catalog.drop_view(call.view())
    return NO_CONTENT


def _parse(requirements: Sequence[Any], updates: Sequence[Any]) -> tuple[list[AssertViewUUID], list[ViewUpdate]]:
    try:
        return (
            [view_requirement_from_json(value, f"$.requirements[{at}]") for at, value in enumerate(requirements)],
            [view_update_from_json(value, f"$.updates[{at}]") for at, value in enumerate(updates)],
        )
    except (FormatError, UnsupportedFeatureError) as error:
        raise bad_request(str(error)) from error


def _answer(loaded: LoadedView) -> Answer:
    return Answer(content={"metadata-location": loaded.location, "metadata": view_to_json(loaded.metadata), "config": {}})
