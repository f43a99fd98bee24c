"""The requirements of a commit: conditions on the current version of a table under which the commit's updates are valid.

Their JSON form is that of a REST catalog's commit. Spec: REST catalog, TableRequirement (names and meaning); Optimistic Concurrency.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from icefloe.errors import CommitConflictError, InvalidInputError, Problem
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.update_json import JsonForm, named_from_json, named_to_json
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_int

REFRESH = "a retry makes sense: refresh the table, check whether the change is still valid on the newer version, and commit again"
ANOTHER_TABLE = "a retry will fail again: this is another table under the same name; load it again"


@dataclass(frozen=True, slots=True)
class AssertCreate:
    """A requirement that the table does not exist yet."""

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the table exists.

        Raises:
            CommitConflictError: the table exists.
        """
        if metadata is not None:
            raise CommitConflictError(
                "the table was created by another writer",
                problems=(
                    Problem(where="expected", what="no table"),
                    Problem(where="found", what=f"a table with uuid {metadata.table_uuid}"),
                ),
                next_step="a retry will fail again: load the table",
            )


@dataclass(frozen=True, slots=True)
class AssertTableUUID:
    """A requirement that the table still has this uuid. None is for a version 1 table without a uuid."""

    uuid: str | None

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the table has a different uuid, or does not exist.

        Raises:
            CommitConflictError: the table was dropped, or is a different table.
        """
        expected = None if self.uuid is None else self.uuid.lower()  # compared without regard to the letter case of hex digits
        _compare(metadata, "table uuid", expected, _uuid, ANOTHER_TABLE)


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """A requirement that a branch or tag still refers to this snapshot; or, with None, that it does not exist."""

    ref: str
    snapshot_id: int | None

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the reference was moved, created or removed.

        Raises:
            CommitConflictError: the reference refers to a different snapshot, was created or was removed.
        """

        def head(table: TableMetadata) -> int | None:
            ref = table.refs.get(self.ref)
            return None if ref is None else ref.snapshot_id

        _compare(metadata, f"snapshot of {self.ref}", self.snapshot_id, head)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId:
    """A requirement that no column id has been assigned since the commit was planned."""

    last_assigned_field_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if a column id has been assigned since.

        Raises:
            CommitConflictError: the last column id has changed.
        """
        _compare(metadata, "last column id", self.last_assigned_field_id, lambda table: table.last_column_id)


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """A requirement that the current schema still has this id."""

    current_schema_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the current schema has changed.

        Raises:
            CommitConflictError: the current schema has a different id.
        """
        _compare(metadata, "current schema", self.current_schema_id, lambda table: table.current_schema_id)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId:
    """A requirement that no partition field id has been assigned since the commit was planned."""

    last_assigned_partition_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if another writer has assigned a partition field id since the commit was planned.

        Raises:
            CommitConflictError: the last partition field id has changed.
        """
        _compare(metadata, "last partition field id", self.last_assigned_partition_id, lambda table: table.last_partition_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """A requirement that the default partition spec still has this id."""

    default_spec_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the default partition spec has changed.

        Raises:
            CommitConflictError: the default partition spec has a different id.
        """
        _compare(metadata, "default partition spec", self.default_spec_id, lambda table: table.default_spec_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId:
    """A requirement that the default sort order still has this id."""

    default_sort_order_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raise an error if the default sort order has changed.

        Raises:
            CommitConflictError: the default sort order has a different id.
        """
        _compare(metadata, "default sort order", self.default_sort_order_id, lambda table: table.default_sort_order_id)


Requirement = (
    AssertCreate
    | AssertTableUUID
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


def check_requirements(requirements: Iterable[Requirement], metadata: TableMetadata | None) -> None:
    """Check each requirement against the newest version of the table.

    Args:
        requirements: The requirements.
        metadata: The newest version; None if the table does not exist.

    Raises:
        CommitConflictError: a requirement is not met; the error names the first one.
    """
    for requirement in requirements:
        requirement.check(metadata)


def _compare(
    metadata: TableMetadata | None,
    what: str,
    expected: str | int | None,
    read_actual: Callable[[TableMetadata], str | int | None],
    next_step: str = REFRESH,
) -> None:
    if metadata is None:
        raise CommitConflictError(
            "the table does not exist any more: another writer dropped or renamed it",
            problems=(
                Problem(where="expected", what=f"a table whose {what} is {_format_value(expected)}"),
                Problem(where="found", what="no table"),
            ),
            next_step="a retry will fail again while there is no table of this name: check the name",
        )
    actual = read_actual(metadata)
    if actual == expected:
        return
    newest = metadata.current_snapshot()
    by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
    raise CommitConflictError(
        f"the {what} must be {_format_value(expected)}, and is {_format_value(actual)}: another writer changed the table",
        snapshot_id=None if newest is None else newest.snapshot_id,
        problems=(
            Problem(where="expected", what=f"{what}: {_format_value(expected)}"),
            Problem(where="found", what=f"{what}: {_format_value(actual)}{by}"),
        ),
        next_step=next_step,
    )


def _uuid(table: TableMetadata) -> str | None:
    return None if table.table_uuid is None else table.table_uuid.lower()


def _format_value(value: str | int | None) -> str | int:
    return "none" if value is None else value


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
        UnsupportedFeatureError: the type is unknown; the error lists the known types.
    """
    requirement: Requirement = named_from_json(value, path, "type", REQUIREMENT_FORMS, "the requirement")
    return requirement


def _number(kind: type, key: str) -> JsonForm:
    """Return the JSON form of a requirement class whose only attribute is an id. Its JSON key is the name of the attribute with hyphens."""
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
