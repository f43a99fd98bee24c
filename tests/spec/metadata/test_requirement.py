"""Requirements: what must still be true of a table when a commit replaces its metadata."""

from typing import Any

import pytest

from icefloe.errors import CommitConflictError
from icefloe.spec.metadata import requirement as r
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

TABLE = new_table_metadata(location="memory://t", schema=Schema(NestedField(1, "a", LongType())), table_uuid="u-1", now_ms=1)


@pytest.mark.parametrize(
    ("held", "failed"),
    [
        (r.AssertTableUUID("u-1"), r.AssertTableUUID("u-2")),
        (r.AssertTableUUID("U-1"), r.AssertTableUUID(None)),
        (r.AssertRefSnapshotId("main", None), r.AssertRefSnapshotId("main", 5)),
        (r.AssertLastAssignedFieldId(1), r.AssertLastAssignedFieldId(2)),
        (r.AssertCurrentSchemaId(0), r.AssertCurrentSchemaId(1)),
        (r.AssertLastAssignedPartitionId(999), r.AssertLastAssignedPartitionId(1000)),
        (r.AssertDefaultSpecId(0), r.AssertDefaultSpecId(1)),
        (r.AssertDefaultSortOrderId(0), r.AssertDefaultSortOrderId(1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_requirement_holds_or_names_what_changed(held: Any, failed: Any) -> None:
    held.check(TABLE)
    with pytest.raises(CommitConflictError, match="another writer changed the table") as error:
        failed.check(TABLE)
    assert [problem.where for problem in error.value.problems] == ["expected", "found"]
    is_another = isinstance(failed, r.AssertTableUUID)
    assert (error.value.next_step or "").startswith("a retry will fail again" if is_another else "a retry makes sense")
    with pytest.raises(CommitConflictError, match="the table does not exist any more"):
        held.check(None)


def test_a_table_to_be_created_must_not_exist() -> None:
    r.AssertCreate().check(None)
    with pytest.raises(CommitConflictError, match="created by another writer"):
        r.AssertCreate().check(TABLE)


def test_all_requirements_are_checked() -> None:
    r.check_requirements([r.AssertTableUUID("u-1"), r.AssertDefaultSpecId(0)], TABLE)
    with pytest.raises(CommitConflictError, match="default partition spec must be 3, and is 0"):
        r.check_requirements([r.AssertTableUUID("u-1"), r.AssertDefaultSpecId(3)], TABLE)
