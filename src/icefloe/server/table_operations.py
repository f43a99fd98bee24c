"""The operations on tables and on several tables together. Spec: REST catalog, /v1/{prefix}/namespaces/{namespace}/tables, /v1/{prefix}/transactions."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from icefloe.errors import CommitConflictError, FormatError, IcefloeError, NoSuchFileError, Problem, StorageUnavailableError
from icefloe.io.file_io_by_scheme import file_version
from icefloe.io.locations import local_path, scheme_of
from icefloe.operations.metadata_cache import LoadedMetadata, has_no_file, load_metadata, read_metadata_at
from icefloe.operations.table_handle import TableHandle, data_folder, metadata_folder
from icefloe.server.commit_request import commit_requested, requested_commit
from icefloe.server.error_response import bad_request
from icefloe.server.load_table_result import SnapshotMode, entity_tag, is_current, kept_table_answer, table_answer
from icefloe.server.request import NO_CONTENT, Answer, Call, identifier_json, identifier_of, page_of, text_value
from icefloe.server.served_catalog import ServedCatalog
from icefloe.spec.identifier import Identifier, dotted, to_table_identifier
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, spec_from_json
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder, sort_order_from_json
from icefloe.spec.schema.json_shape import Key, a_boolean, a_string, an_array, an_object, strings_by_name
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import schema_from_json

# The number of tries to unregister a table while other writers commit to it.
TRIES = 20


def list_tables(served: ServedCatalog, call: Call) -> Answer:
    """List the tables of a namespace. Spec: REST catalog, listTables."""
    page = page_of(served.catalog.list_tables(call.namespace()), call)
    return Answer(content={"next-page-token": page.next_token, "identifiers": [identifier_json(name) for name in page.items]})


def create_table(served: ServedCatalog, call: Call) -> Answer:
    """Create a table; or return the metadata of a staged table, which is committed later. Spec: REST catalog, createTable."""
    content = call.json_object(
        Key("name", text_value),
        Key("schema", an_object),
        Key("location", a_string, required=False),
        Key("partition-spec", an_object, required=False),
        Key("write-order", an_object, required=False),
        Key("stage-create", a_boolean, required=False),
        Key("properties", strings_by_name, required=False),
    )
    name = to_table_identifier((*call.namespace(), content["name"]))
    served.catalog.load_namespace_properties(name[:-1])
    schema, spec, order = _definition(content)
    properties = content.get("properties") or {}
    locations, location = served.locations(call, name[:-1]), content.get("location")
    if location:
        locations.check_folder(location, f"the location of {dotted(name)}")
    _, metadata = served.catalog.new_table(name, schema, location, spec, order, properties)
    locations.check_folder(metadata.location, f"the location of {dotted(name)}")
    locations.check_properties(metadata.properties, dotted(name), [metadata.location])
    if content.get("stage-create"):
        _prepare_folders(metadata)
        return table_answer(
            served.bodies, LoadedMetadata(location="", metadata=metadata), extra=served.access_to(metadata.location, name, call)
        )
    table = served.catalog.create_table(name, schema, metadata.location, spec, order, properties)
    return _made_answer(served, table.handle, LoadedMetadata(location=table.metadata_location, metadata=table.metadata), call)


def _prepare_folders(metadata: TableMetadata) -> None:
    """Create the local folders of a staged table, because some clients, such as DuckDB, write files without creating their folders.

    Raises:
        StorageUnavailableError: A folder cannot be created.
    """
    for folder in (metadata_folder(metadata), data_folder(metadata)):
        if scheme_of(folder) == "file":
            try:
                os.makedirs(local_path(folder), exist_ok=True)
            except OSError as error:
                raise StorageUnavailableError(f"the folder of the staged table cannot be made: {error.strerror}", path=folder) from error


def _definition(content: Mapping[str, Any]) -> tuple[Schema, PartitionSpec, SortOrder]:
    """Return the schema, the partition spec and the sort order in a body.

    Raises:
        RefusedRequest: One of them has a wrong form.
    """
    spec, order = content.get("partition-spec"), content.get("write-order")
    try:
        return (
            schema_from_json({"schema-id": 0, **content["schema"]}, "$.schema"),
            spec_from_json({"spec-id": 0, **spec}, where="$.partition-spec") if spec else UNPARTITIONED_SPEC,
            sort_order_from_json({"order-id": 1, **order}, where="$.write-order") if order and order.get("fields") else UNSORTED_SORT_ORDER,
        )
    except FormatError as error:
        raise bad_request(str(error)) from error


def register_table(served: ServedCatalog, call: Call) -> Answer:
    """Add a table by its metadata file. Spec: REST catalog, registerTable."""
    content = call.json_object(Key("name", text_value), Key("metadata-location", text_value), Key("overwrite", a_boolean, required=False))
    name = to_table_identifier((*call.namespace(), content["name"]))
    location = content["metadata-location"]
    served.catalog.load_namespace_properties(name[:-1])
    locations = served.locations(call, name[:-1])
    locations.check_file(location, "the metadata file")
    handle = served.catalog.new_handle(name, location)
    try:
        metadata = read_metadata_at(handle.io, location).metadata
    except FormatError as error:
        raise bad_request(str(error)) from error
    # A forged metadata file could claim the folder of another table.
    locations.check_folder(metadata.location, f"the location in {location}")
    locations.check_properties(metadata.properties, location, [metadata.location])
    table = served.catalog.register_table(name, location, overwrite=bool(content.get("overwrite")))
    return _made_answer(served, table.handle, LoadedMetadata(location=table.metadata_location, metadata=table.metadata), call)


def table_exists(served: ServedCatalog, call: Call) -> Answer:
    """Check that a table exists, without reading its metadata file. Spec: REST catalog, tableExists."""
    served.catalog.store.load(call.table())
    return NO_CONTENT


def load_table(served: ServedCatalog, call: Call) -> Answer:
    """Return a table's metadata, or status 304 if the client has it already. Spec: REST catalog, loadTable."""
    text = call.query.get("snapshots", SnapshotMode.ALL).lower()
    if text not in set(SnapshotMode):
        raise bad_request(f"the parameter snapshots is {text!r}; it is all or refs")
    mode = SnapshotMode(text)
    handle, location = served.catalog.handle_of(call.table())
    if has_no_file(location):  # the catalog is another server, which sent the metadata without a location that identifies its version
        loaded = load_metadata(handle)
        return table_answer(served.bodies, loaded, mode=mode, extra=served.access_to(loaded.metadata.location, handle.identifier, call))
    version = file_version(handle.io, location)
    tag = entity_tag(location, mode, version)
    if is_current(call, tag):
        return Answer(status=304, headers={"ETag": tag})
    body = served.bodies.get(tag)
    if body is None:
        loaded = read_metadata_at(handle.io, location)
        extra = served.access_to(loaded.metadata.location, handle.identifier, call)
        return table_answer(served.bodies, loaded, mode=mode, version=version, extra=extra)
    return kept_table_answer(body, location, tag, served.access_to(body.folder, handle.identifier, call))


def update_table(served: ServedCatalog, call: Call) -> Answer:
    """Commit updates to a table, or create the table that was staged. Spec: REST catalog, updateTable."""
    name = call.table()
    requested = requested_commit(name, call.content)
    if requested.creates:
        served.catalog.load_namespace_properties(name[:-1])
    (loaded,) = commit_requested(served.catalog, lambda namespace: served.locations(call, namespace), [requested])
    return table_answer(served.bodies, loaded, version=_version_of(lambda: served.catalog.new_handle(name, loaded.location), loaded))


def commit_transaction(served: ServedCatalog, call: Call) -> Answer:
    """Commit to several tables, all or none. Spec: REST catalog, commitTransaction."""
    content = call.json_object(Key("table-changes", an_array))
    commits = [
        requested_commit(identifier_of(body.get("identifier") if isinstance(body, dict) else None, f"{where}.identifier"), body, where)
        for where, body in ((f"$.table-changes[{at}]", body) for at, body in enumerate(content["table-changes"]))
    ]
    if not commits:
        raise bad_request("there is nothing to commit: table-changes is empty")
    twice = sorted(dotted(name) for name, times in Counter(requested.identifier for requested in commits).items() if times > 1)
    if twice:
        raise bad_request(f"{', '.join(twice)}: a table is in a transaction once, with all of its updates")
    commit_requested(served.catalog, lambda namespace: served.locations(call, namespace), commits)
    return NO_CONTENT


def drop_table(served: ServedCatalog, call: Call) -> Answer:
    """Drop a table, and delete its files if the client requests it. Spec: REST catalog, dropTable."""
    name = call.table()
    if call.is_true("purgeRequested"):
        try:
            served.catalog.purge_table(name)
        except NoSuchFileError:
            # If the metadata file is missing, its files cannot be purged. The name is dropped nevertheless, because it could never be dropped otherwise.
            served.catalog.drop_table(name)
    else:
        served.catalog.drop_table(name)
    return NO_CONTENT


def unregister_table(served: ServedCatalog, call: Call) -> Answer:
    """Drop a table from the catalog without deleting files, and return its last metadata. Spec: REST catalog, unregisterTable."""
    name = call.table()
    store = served.catalog.store
    for _ in range(TRIES):
        handle, location = served.catalog.handle_of(name)
        loaded = read_metadata_at(handle.io, location)
        if store.drops_files:
            raise bad_request("this catalog deletes a table's files with its name, so that no table can be unregistered")
        if store.drop(name, expected=location):
            content = msgspec.Raw(write_table_metadata(loaded.metadata))
            return Answer(content={"metadata-location": location, "metadata": content})
    raise CommitConflictError(
        f"other writers committed to {dotted(name)} again and again; it is still registered",
        table=dotted(name),
        problems=(
            Problem(
                where="expected", what=f"the same metadata file when it was read and when its name was dropped, in one of {TRIES} tries"
            ),
            Problem(where="found", what=f"another one each time, last after {location}"),
        ),
        next_step="a retry makes sense when fewer writers commit",
    )


def rename_table(served: ServedCatalog, call: Call) -> Answer:
    """Rename a table. Spec: REST catalog, renameTable."""
    source, target = read_rename(call)
    served.catalog.store.load(source)
    served.catalog.load_namespace_properties(target[:-1])
    served.catalog.store.rename(source, target)
    return NO_CONTENT


def read_rename(call: Call) -> tuple[Identifier, Identifier]:
    """Return the old and the new name in the body of a rename. Spec: REST catalog, RenameTableRequest."""
    content = call.json_object(Key("source", an_object), Key("destination", an_object))
    return identifier_of(content["source"], "$.source"), identifier_of(content["destination"], "$.destination")


def _made_answer(served: ServedCatalog, handle: TableHandle, loaded: LoadedMetadata, call: Call) -> Answer:
    """Return the response with a table that this request has created or committed."""
    extra = served.access_to(loaded.metadata.location, handle.identifier, call)
    return table_answer(served.bodies, loaded, version=_version_of(lambda: handle, loaded), extra=extra)


def _version_of(handle: Callable[[], TableHandle], loaded: LoadedMetadata) -> object:
    """Return the version of a metadata file that this request has committed, for the ETag; None if it is unknown.

    The version cannot be read if later commits have deleted the file, or if another server behind this one keeps the file to itself. This must not become an
    error: the commit succeeded, and after an error the client would delete the files that the table has now.
    """
    try:
        return None if has_no_file(loaded.location) else file_version(handle().io, loaded.location)
    except IcefloeError:
        return None
