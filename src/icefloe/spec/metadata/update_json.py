"""Conversion of metadata updates to and from the JSON of a REST catalog's commit.

The updates are defined in `table_updates.py`, `layout_updates.py`, `snapshot_updates.py` and `statistics_updates.py`.
Spec: REST catalog, TableUpdate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from icefloe.errors import Problem, UnsupportedFeatureError
from icefloe.spec.metadata.encrypted_key import encrypted_key_from_json, encrypted_key_to_json
from icefloe.spec.metadata.layout_updates import (
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
)
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.snapshot import snapshot_from_json, snapshot_to_json
from icefloe.spec.metadata.snapshot_ref import snapshot_ref_from_json, snapshot_ref_to_json
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.spec.metadata.statistics_file import (
    partition_statistics_file_from_json,
    partition_statistics_file_to_json,
    statistics_file_from_json,
    statistics_file_to_json,
)
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_updates import (
    AddEncryptionKey,
    AssignUUID,
    RemoveEncryptionKey,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icefloe.spec.partitioning.partition_spec import spec_from_json, spec_to_json
from icefloe.spec.partitioning.sort_order import sort_order_from_json, sort_order_to_json
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_int, an_object, array_of, object_problems, refuse, strings_by_name
from icefloe.spec.schema.schema_json import schema_from_json, schema_to_json

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JsonForm:
    """The conversion of one kind of update or requirement to JSON and back.

    Attributes:
        kind: The class of the value.
        keys: The keys of the JSON object, without the key for the name of the kind.
        read: Takes a JSON object whose keys have been checked, and its JSON path; returns the value.
        write: Returns the JSON object of a value, without the name of the kind.
    """

    kind: type
    keys: tuple[Key, ...]
    read: Callable[[Object, str], Any]
    write: Callable[[Any], dict[str, Any]]


def update_to_json(update: Update) -> dict[str, Any]:
    """Return an update as a JSON object with its `action`. Spec: REST catalog, TableUpdate."""
    return named_to_json(update, "action", UPDATE_FORMS)


def update_from_json(value: object, path: str = "$") -> Update:
    """Return the update that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
        UnsupportedFeatureError: the action is unknown; the error lists the known actions.

    Spec: REST catalog, TableUpdate.
    """
    update: Update = named_from_json(value, path, "action", UPDATE_FORMS, "the update")
    return update


def named_to_json(value: object, name_key: str, forms: Mapping[str, JsonForm]) -> dict[str, Any]:
    """Return a value as the JSON object that `forms` defines for its class. Its first key, `name_key`, has the name of the form."""
    name = next(name for name, form in forms.items() if form.kind is type(value))
    return {name_key: name, **forms[name].write(value)}


def named_from_json(value: object, path: str, name_key: str, forms: Mapping[str, JsonForm], what: str) -> Any:
    """Return the value of a JSON object whose kind is under `name_key`.

    Args:
        value: The parsed JSON.
        path: JSON path of the object.
        name_key: Key whose value is the name of the kind.
        forms: The JSON form of each kind, by name.
        what: The object in a message, such as `the update`.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
        UnsupportedFeatureError: the kind is unknown; the error lists the known kinds.
    """
    refuse(list(object_problems(value, path, (Key(name_key, a_string),))), what)
    assert isinstance(value, Mapping)  # noqa: S101  # the line above refused anything else
    name = value[name_key]
    form = forms.get(name.lower())
    if form is None:
        raise UnsupportedFeatureError(
            f"{what} {name!r} is not known; known are {', '.join(forms)}",
            problems=[Problem(where=f"{path}.{name_key}", what=f"{name!r} is not known")],
        )
    refuse(list(object_problems(value, path, form.keys)), f"{what} {name}")
    return form.read(value, path)


def _single(kind: type, key: str, check: Callable[[Any], str | None], attribute: str) -> JsonForm:
    """Return the form of a class with one attribute, whose value is stored unchanged under `key`."""
    return JsonForm(kind, (Key(key, check),), lambda value, _: kind(value[key]), lambda update: {key: getattr(update, attribute)})


def _several(kind: type, key: str, check: Callable[[Any], str | None], attribute: str) -> JsonForm:
    """Return the form of a class with one attribute, a tuple, which is stored as an array under `key`."""
    return JsonForm(
        kind,
        (Key(key, array_of(check)),),
        lambda value, _: kind(tuple(value[key])),
        lambda update: {key: list(getattr(update, attribute))},
    )


def _nested_form(kind: type, key: str, read: Callable[[Any, str], Any], write: Callable[[Any], Any], attribute: str) -> JsonForm:
    """Return the form of a class with one attribute, which the functions `read` and `write` convert from and to the value under `key`."""
    return JsonForm(
        kind,
        (Key(key, an_object),),
        lambda value, path: kind(read(value[key], f"{path}.{key}")),
        lambda update: {key: write(getattr(update, attribute))},
    )


def _add_schema(value: Object, path: str) -> AddSchema:
    return AddSchema(schema_from_json(value["schema"], f"{path}.schema"), value.get("last-column-id"))


def _add_schema_json(update: AddSchema) -> dict[str, Any]:
    update_json = {"schema": schema_to_json(update.schema)}
    return update_json if update.last_column_id is None else {**update_json, "last-column-id": update.last_column_id}


def _spec(value: Object, path: str) -> Any:
    return spec_from_json({"spec-id": 0, **value}, where=path)  # the catalog assigns the id, so clients need not send it


def _sort_order(value: Object, path: str) -> Any:
    return sort_order_from_json({"order-id": 1 if value.get("fields") else 0, **value}, where=path)


def _set_snapshot_ref(value: Object, path: str) -> SetSnapshotRef:
    # Unknown keys belong to the update, so the reference does not keep them.
    return SetSnapshotRef(value["ref-name"], replace(snapshot_ref_from_json(value, path), unknown={}))


def _set_snapshot_ref_json(update: SetSnapshotRef) -> dict[str, Any]:
    return {"ref-name": update.name, **snapshot_ref_to_json(update.ref)}


def _set_statistics(value: Object, path: str) -> SetStatistics:
    file = statistics_file_from_json(value["statistics"], f"{path}.statistics")
    snapshot_id = value.get("snapshot-id")
    if snapshot_id is not None and snapshot_id != file.snapshot_id:
        refuse(
            [Problem(where=f"{path}.snapshot-id", what=f"is {snapshot_id}, and the file is of snapshot {file.snapshot_id}")],
            "the update set-statistics",
        )
    return SetStatistics(file)


def _set_statistics_json(update: SetStatistics) -> dict[str, Any]:
    # The snapshot id next to the file is deprecated, but older catalogs require it.
    return {"snapshot-id": update.file.snapshot_id, "statistics": statistics_file_to_json(update.file)}


def _set_properties(value: Object, path: str) -> SetProperties:
    return SetProperties(dict(_by_either_key(value, path, "updates", "updated", strings_by_name)))


def _remove_properties(value: Object, path: str) -> RemoveProperties:
    return RemoveProperties(tuple(_by_either_key(value, path, "removals", "removed", array_of(a_string))))


def _by_either_key(value: Object, path: str, key: str, older_key: str, check: Callable[[Any], str | None]) -> Any:
    """Return the value of `key`, or of `older_key`, which older clients send. JAVA: MetadataUpdateParser reads both names."""
    used_key = key if value.get(key) is not None or value.get(older_key) is None else older_key
    refuse(list(object_problems(value, path, (Key(used_key, check),))), "the update")
    return value[used_key]


UPDATE_FORMS: Mapping[str, JsonForm] = {
    "assign-uuid": _single(AssignUUID, "uuid", a_string, "uuid"),
    "upgrade-format-version": _single(UpgradeFormatVersion, "format-version", an_int, "format_version"),
    "add-schema": JsonForm(
        AddSchema, (Key("schema", an_object), Key("last-column-id", an_int, required=False)), _add_schema, _add_schema_json
    ),
    "set-current-schema": _single(SetCurrentSchema, "schema-id", an_int, "schema_id"),
    "add-spec": _nested_form(AddPartitionSpec, "spec", _spec, spec_to_json, "spec"),
    "set-default-spec": _single(SetDefaultSpec, "spec-id", an_int, "spec_id"),
    "add-sort-order": _nested_form(AddSortOrder, "sort-order", _sort_order, sort_order_to_json, "sort_order"),
    "set-default-sort-order": _single(SetDefaultSortOrder, "sort-order-id", an_int, "sort_order_id"),
    "add-snapshot": _nested_form(AddSnapshot, "snapshot", snapshot_from_json, snapshot_to_json, "snapshot"),
    "set-snapshot-ref": JsonForm(SetSnapshotRef, (Key("ref-name", a_string),), _set_snapshot_ref, _set_snapshot_ref_json),
    "remove-snapshots": _several(RemoveSnapshots, "snapshot-ids", a_long, "snapshot_ids"),
    "remove-snapshot-ref": _single(RemoveSnapshotRef, "ref-name", a_string, "name"),
    "set-location": _single(SetLocation, "location", a_string, "location"),
    "set-properties": JsonForm(SetProperties, (), _set_properties, lambda update: {"updates": dict(update.updates)}),
    "remove-properties": JsonForm(RemoveProperties, (), _remove_properties, lambda update: {"removals": list(update.removals)}),
    "set-statistics": JsonForm(
        SetStatistics, (Key("statistics", an_object), Key("snapshot-id", a_long, required=False)), _set_statistics, _set_statistics_json
    ),
    "remove-statistics": _single(RemoveStatistics, "snapshot-id", a_long, "snapshot_id"),
    "set-partition-statistics": _nested_form(
        SetPartitionStatistics,
        "partition-statistics",
        partition_statistics_file_from_json,
        partition_statistics_file_to_json,
        "file",
    ),
    "remove-partition-statistics": _single(RemovePartitionStatistics, "snapshot-id", a_long, "snapshot_id"),
    "remove-partition-specs": _several(RemovePartitionSpecs, "spec-ids", an_int, "spec_ids"),
    "remove-schemas": _several(RemoveSchemas, "schema-ids", an_int, "schema_ids"),
    "add-encryption-key": _nested_form(AddEncryptionKey, "encryption-key", encrypted_key_from_json, encrypted_key_to_json, "key"),
    "remove-encryption-key": _single(RemoveEncryptionKey, "key-id", a_string, "key_id"),
}
