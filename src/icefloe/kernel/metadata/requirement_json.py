"""Requirements as the JSON of a REST catalog's commit, both ways. What each asks is in `requirement.py`.

Spec: REST catalog, TableRequirement.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.metadata.requirement import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    Requirement,
)
from icefloe.kernel.metadata.update_json import JsonForm, named_from_json, named_to_json
from icefloe.kernel.schema.json_shape import Key, a_long, a_string, an_int


def requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    """A requirement as a JSON object with its `type`. Raises `InvalidInputError` for `AssertTableUUID(None)`, which JSON has no form for."""
    if requirement == AssertTableUUID(None):
        raise InvalidInputError("a table without a uuid cannot be asked for in JSON", next_step="assign it a uuid")
    return named_to_json(requirement, "type", REQUIREMENT_FORMS)


def requirement_from_json(value: object, path: str = "$") -> Requirement:
    """The requirement that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, named by JSON path from `path` on.
        UnsupportedFeatureError: a type that is not known; lists those that are.
    """
    requirement: Requirement = named_from_json(value, path, "type", REQUIREMENT_FORMS, "the requirement")
    return requirement


def _number(kind: type, key: str) -> JsonForm:
    """The form of a requirement of one id, whose key is the field's name."""
    attribute = key.replace("-", "_")
    return JsonForm(kind, (Key(key, an_int),), lambda value, _: kind(value[key]), lambda made: {key: getattr(made, attribute)})


REQUIREMENT_FORMS: Mapping[str, JsonForm] = {
    "assert-create": JsonForm(AssertCreate, (), lambda *_: AssertCreate(), lambda _: {}),
    "assert-table-uuid": JsonForm(
        AssertTableUUID, (Key("uuid", a_string),), lambda value, _: AssertTableUUID(value["uuid"]), lambda made: {"uuid": made.uuid}
    ),
    # A null snapshot id, or none, is a name that must not be there.
    "assert-ref-snapshot-id": JsonForm(
        AssertRefSnapshotId,
        (Key("ref", a_string), Key("snapshot-id", a_long, required=False)),
        lambda value, _: AssertRefSnapshotId(value["ref"], value.get("snapshot-id")),
        lambda made: {"ref": made.ref, "snapshot-id": made.snapshot_id},
    ),
    "assert-last-assigned-field-id": _number(AssertLastAssignedFieldId, "last-assigned-field-id"),
    "assert-current-schema-id": _number(AssertCurrentSchemaId, "current-schema-id"),
    "assert-last-assigned-partition-id": _number(AssertLastAssignedPartitionId, "last-assigned-partition-id"),
    "assert-default-spec-id": _number(AssertDefaultSpecId, "default-spec-id"),
    "assert-default-sort-order-id": _number(AssertDefaultSortOrderId, "default-sort-order-id"),
}
