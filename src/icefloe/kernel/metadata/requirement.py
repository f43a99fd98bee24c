"""What must be true of a table for an update of it to be right, checked against the version that the update would replace.

Spec: REST catalog, TableRequirement (names and meaning); Optimistic Concurrency.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from icefloe.errors import CommitConflictError, Problem
from icefloe.kernel.metadata.table_metadata import TableMetadata

REFRESH = "a retry makes sense on the newer table: refresh it, look whether the change is still right, and make it again"
ANOTHER_TABLE = "a retry will fail again: this is another table under the same name; load it anew"


@dataclass(frozen=True, slots=True)
class AssertCreate:
    """The table is not there yet."""

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where the table is there."""
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
    """The table is still the same one. None is a v1 table that has no uuid."""

    uuid: str | None

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where it is another table, or gone."""
        wanted = None if self.uuid is None else self.uuid.lower()  # a uuid is a number, however its digits are written
        _compare(metadata, "table uuid", wanted, _uuid, ANOTHER_TABLE)


@dataclass(frozen=True, slots=True)
class AssertRefSnapshotId:
    """A branch or tag still names this snapshot; None: it is not there."""

    ref: str
    snapshot_id: int | None

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where it names another, was made or was removed."""

        def head(table: TableMetadata) -> int | None:
            found = table.refs.get(self.ref)
            return None if found is None else found.snapshot_id

        _compare(metadata, f"snapshot of {self.ref}", self.snapshot_id, head)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedFieldId:
    """No column was given an id since."""

    last_assigned_field_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where one was."""
        _compare(metadata, "last column id", self.last_assigned_field_id, lambda table: table.last_column_id)


@dataclass(frozen=True, slots=True)
class AssertCurrentSchemaId:
    """The current schema is still this one."""

    current_schema_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where it is another."""
        _compare(metadata, "current schema", self.current_schema_id, lambda table: table.current_schema_id)


@dataclass(frozen=True, slots=True)
class AssertLastAssignedPartitionId:
    """No partition field was given an id since."""

    last_assigned_partition_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where one was."""
        _compare(metadata, "last partition field id", self.last_assigned_partition_id, lambda table: table.last_partition_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSpecId:
    """The default partition spec is still this one."""

    default_spec_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where it is another."""
        _compare(metadata, "default partition spec", self.default_spec_id, lambda table: table.default_spec_id)


@dataclass(frozen=True, slots=True)
class AssertDefaultSortOrderId:
    """The default sort order is still this one."""

    default_sort_order_id: int

    def check(self, metadata: TableMetadata | None) -> None:
        """Raises `CommitConflictError` where it is another."""
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
    """Checks each against the newest version of the table; None where there is no table. Raises `CommitConflictError` at the first that fails."""
    for requirement in requirements:
        requirement.check(metadata)


def _compare(
    metadata: TableMetadata | None,
    what: str,
    expected: str | int | None,
    found: Callable[[TableMetadata], str | int | None],
    next_step: str = REFRESH,
) -> None:
    if metadata is None:
        raise CommitConflictError(
            "the table is gone: another writer dropped or renamed it",
            problems=(
                Problem(where="expected", what=f"a table whose {what} is {_told(expected)}"),
                Problem(where="found", what="no table"),
            ),
            next_step="a retry will fail again while the name is free: check it",
        )
    actual = found(metadata)
    if actual == expected:
        return
    newest = metadata.current_snapshot()
    by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
    raise CommitConflictError(
        f"the {what} was to be {_told(expected)}, and is {_told(actual)}: another writer changed the table",
        snapshot_id=None if newest is None else newest.snapshot_id,
        problems=(
            Problem(where="expected", what=f"{what}: {_told(expected)}"),
            Problem(where="found", what=f"{what}: {_told(actual)}{by}"),
        ),
        next_step=next_step,
    )


def _uuid(table: TableMetadata) -> str | None:
    return None if table.table_uuid is None else table.table_uuid.lower()


def _told(value: str | int | None) -> str | int:
    return "none" if value is None else value
