"""Requirements as the JSON of a REST catalog's commit, both ways. Their meaning is in `requirement.py`.

Spec: REST catalog, TableRequirement.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata.requirement import (
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
from icefloe.spec.metadata.update_json import JsonForm, named_from_json, named_to_json
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_int


def requirement_to_json(requirement: Requirement) -> dict[str, Any]:
    """Return a requirement as a JSON object with its `type`.

    Raises:
        InvalidInputError: the requirement is `AssertTableUUID(None)`, which has no JSON form.
    """
    if requirement == AssertTableUUID(None):
        raise InvalidInputError("JSON has no requirement for a table without a uuid", next_step="assign it a uuid")
    return named_to_json(requirement, "type", REQUIREMENT_FORMS)


def requirement_from_json(value: object, path: str = "$") -> Requirement:
    """Return the requirement that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
        UnsupportedFeatureError: the type is unknown; lists the known ones.
    """
    requirement: Requirement = named_from_json(value, path, "type", REQUIREMENT_FORMS, "the requirement")
    return requirement


def _number(kind: type, key: str) -> JsonForm:
    """Return the form of a requirement on one id, whose key is the field's name with hyphens."""
    attribute = key.replace("-", "_")
    return JsonForm(kind, (Key(key, an_int),), lambda value, _: kind(value[key]), lambda assertion: {key: getattr(assertion, attribute)})


REQUIREMENT_FORMS: Mapping[str, JsonForm] = {
    "assert-create": JsonForm(AssertCreate, (), lambda *_: AssertCreate(), lambda _: {}),
    "assert-table-uuid": JsonForm(
        AssertTableUUID,
        (Key("uuid", a_string),),
        lambda value, _: AssertTableUUID(value["uuid"]),
        lambda assertion: {"uuid": assertion.uuid},
    ),
    # A null or missing snapshot id requires that the reference does not exist.
    "assert-ref-snapshot-id": JsonForm(
        AssertRefSnapshotId,
        (Key("ref", a_string), Key("snapshot-id", a_long, required=False)),
        lambda value, _: AssertRefSnapshotId(value["ref"], value.get("snapshot-id")),
        lambda assertion: {"ref": assertion.ref, "snapshot-id": assertion.snapshot_id},
    ),
    "assert-last-assigned-field-id": _number(AssertLastAssignedFieldId, "last-assigned-field-id"),
    "assert-current-schema-id": _number(AssertCurrentSchemaId, "current-schema-id"),
    "assert-last-assigned-partition-id": _number(AssertLastAssignedPartitionId, "last-assigned-partition-id"),
    "assert-default-spec-id": _number(AssertDefaultSpecId, "default-spec-id"),
    "assert-default-sort-order-id": _number(AssertDefaultSortOrderId, "default-sort-order-id"),
}
