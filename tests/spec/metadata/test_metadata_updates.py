"""Updates of metadata: each returns a new version, keeps the rules of the logs and ids, and refuses what would violate them."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.spec.metadata.made_up_tables import ID, NAME, START, row_ids, snapshot, table, with_snapshots

from icefloe.errors import (
    InvalidInputError,
    InvalidPartitionSpecError,
    InvalidPropertyError,
    NoSuchSnapshotError,
    UnsupportedFormatVersionError,
)
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.invariants import check_change
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
from icefloe.spec.metadata.metadata_updates import apply_updates, numbered_updates
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_history import SnapshotLogEntry, snapshot_as_of
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import (
    AddEncryptionKey,
    AssignUUID,
    RemoveEncryptionKey,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import BucketTransform, IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, NestedField


def test_a_commit_adds_a_snapshot_and_moves_main() -> None:
    before = with_snapshots(1)
    after = with_snapshots(2)
    assert after.current_snapshot_id == 2
    assert after.refs["main"].snapshot_id == 2
    assert after.last_sequence_number == 2
    assert after.last_updated_ms == START + 20
    assert list(after.snapshot_log) == [SnapshotLogEntry(START + 10, 1), SnapshotLogEntry(START + 20, 2)]
    assert before.current_snapshot_id == 1
    assert len(before.snapshots) == 1


def test_a_snapshot_added_alone_does_not_become_the_current_one() -> None:
    metadata = AddSnapshot(snapshot(9, 3)).apply(with_snapshots(2), START + 30)
    assert metadata.current_snapshot_id == 2
    assert len(metadata.snapshot_log) == 2
    assert metadata.last_sequence_number == 3


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (snapshot(2, 3), "already has a snapshot 2"),
        (snapshot(9, 2, parent_snapshot_id=2), "sequence number 2, and 2 is already given"),
        (snapshot(9, 1, parent_snapshot_id=1), "older version of the table"),
        (snapshot(9, 3, timestamp_ms=START - 60_000), "more than a minute before"),
        (snapshot(9, 3, timestamp_ms=START + 10_000_000), "and now is"),
        (snapshot(9, 3, manifest_list=None, manifest_paths=("m",)), "no manifest list"),
    ],
)
def test_a_snapshot_that_does_not_follow_the_last_one_is_refused(made: Snapshot, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        AddSnapshot(made).apply(with_snapshots(2), START + 30)


def test_a_replacement_of_all_rows_may_have_a_number_that_was_given_meanwhile() -> None:
    after = AddSnapshot(snapshot(9, 2)).apply(with_snapshots(2), START + 30)
    assert after.last_sequence_number == 2


def test_a_clock_that_is_a_little_behind_does_not_make_the_table_older() -> None:
    before = with_snapshots(2)
    after = AddSnapshot(snapshot(3, 3, timestamp_ms=START - 1000)).apply(before, START - 1000)
    assert after.last_updated_ms == before.last_updated_ms
    assert SetLocation("memory://u").apply(before, 5).last_updated_ms == before.last_updated_ms


def test_v1_snapshots_have_no_sequence_number() -> None:
    metadata = table(1)
    assert AddSnapshot(snapshot(1, 0)).apply(metadata, START + 10).last_sequence_number == 0
    with pytest.raises(InvalidInputError, match="no sequence number"):
        AddSnapshot(snapshot(1, 1)).apply(metadata, START + 10)


def test_a_rollback_is_logged_with_the_time_of_the_change() -> None:
    metadata = apply_updates(with_snapshots(3), [SetSnapshotRef("main", SnapshotRef(snapshot_id=1))], START + 500)
    assert metadata.current_snapshot_id == 1
    assert metadata.snapshot_log[-1] == SnapshotLogEntry(START + 500, 1)


def test_a_snapshot_that_was_current_only_within_a_commit_is_not_logged() -> None:
    updates = [
        AddSnapshot(snapshot(4, 3)),
        SetSnapshotRef("main", SnapshotRef(snapshot_id=4)),
        AddSnapshot(snapshot(5, 4)),
        SetSnapshotRef("main", SnapshotRef(snapshot_id=5)),
    ]
    metadata = apply_updates(with_snapshots(2), updates, START + 40)
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [1, 2, 5]


def test_a_snapshot_is_current_from_its_own_time_on_where_a_server_commits_it_later() -> None:
    updates = [AddSnapshot(snapshot(3, 3, timestamp_ms=START + 100)), SetSnapshotRef("main", SnapshotRef(snapshot_id=3))]
    metadata = apply_updates(with_snapshots(2), updates, START + 700)
    assert metadata.snapshot_log[-1] == SnapshotLogEntry(START + 100, 3)
    assert metadata.last_updated_ms == START + 100
    assert snapshot_as_of(metadata, metadata.snapshots[-1].timestamp_ms) == metadata.snapshots[-1]
    earlier = [AddSnapshot(snapshot(3, 3, timestamp_ms=START - 1000)), SetSnapshotRef("main", SnapshotRef(snapshot_id=3))]
    assert apply_updates(with_snapshots(2), earlier, START + 700).snapshot_log[-1] == SnapshotLogEntry(START + 20, 3)  # the log is in order
    staged = apply_updates(with_snapshots(2), updates[:1], START + 200)
    assert apply_updates(staged, updates[1:], START + 700).snapshot_log[-1] == SnapshotLogEntry(START + 700, 3)


def test_setting_main_to_its_own_snapshot_changes_nothing() -> None:
    metadata = with_snapshots(2)
    assert SetSnapshotRef("main", metadata.refs["main"]).apply(metadata, START + 900) is metadata


def test_a_tag_does_not_change_the_snapshot_log() -> None:
    metadata = SetSnapshotRef("gold", SnapshotRef(snapshot_id=1, type="tag")).apply(with_snapshots(2), START + 30)
    found = metadata.snapshot_by_name("gold")
    assert found is not None
    assert found.snapshot_id == 1
    assert metadata.current_snapshot_id == 2
    assert len(metadata.snapshot_log) == 2


def test_references_to_unknown_snapshots_and_changes_of_their_type_are_refused() -> None:
    metadata = SetSnapshotRef("gold", SnapshotRef(snapshot_id=1, type="tag")).apply(with_snapshots(2), START + 30)
    with pytest.raises(NoSuchSnapshotError, match="snapshot 99"):
        SetSnapshotRef("x", SnapshotRef(snapshot_id=99)).apply(metadata, START)
    with pytest.raises(InvalidInputError, match="gold is a tag"):
        SetSnapshotRef("gold", SnapshotRef(snapshot_id=2)).apply(metadata, START)
    with pytest.raises(InvalidInputError, match="main is a branch"):
        SetSnapshotRef("main", SnapshotRef(snapshot_id=1, type="tag")).apply(metadata, START)


def test_removing_a_snapshot_removes_the_log_up_to_it() -> None:
    metadata = RemoveSnapshots((2,)).apply(with_snapshots(4), START + 50)
    assert [found.snapshot_id for found in metadata.snapshots] == [1, 3, 4]
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [3, 4]


def test_removing_a_snapshot_removes_its_statistics() -> None:
    files = [
        StatisticsFile(snapshot_id=number, statistics_path=f"s{number}", file_size_in_bytes=9, file_footer_size_in_bytes=5)
        for number in (1, 2, 1)
    ]
    partitions = [PartitionStatisticsFile(snapshot_id=number, statistics_path=f"p{number}", file_size_in_bytes=9) for number in (1, 2)]
    before = replace(with_snapshots(2), statistics=files, partition_statistics=partitions)
    metadata = RemoveSnapshots((1,)).apply(before, START + 50)
    assert [file.statistics_path for file in metadata.statistics] == ["s2"]
    assert [file.statistics_path for file in metadata.partition_statistics] == ["p2"]


def test_removing_a_snapshot_removes_its_branches_and_tags() -> None:
    tagged = SetSnapshotRef("gold", SnapshotRef(snapshot_id=1, type="tag")).apply(with_snapshots(3), START + 30)
    metadata = apply_updates(tagged, [RemoveSnapshots((1,))], START + 40)
    assert list(metadata.refs) == ["main"]
    assert metadata.current_snapshot_id == 3
    emptied = apply_updates(metadata, [RemoveSnapshots((2, 3, 99))], START + 50)
    assert (len(emptied.snapshots), emptied.refs, emptied.current_snapshot_id, len(emptied.snapshot_log)) == (0, {}, None, 0)
    assert RemoveSnapshots((99,)).apply(metadata, START + 60) is metadata


def test_removing_main_leaves_a_table_without_a_current_snapshot() -> None:
    metadata = apply_updates(with_snapshots(2), [RemoveSnapshotRef("main")], START + 30)
    assert metadata.current_snapshot_id is None
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [1, 2]
    assert len(metadata.snapshots) == 2
    assert RemoveSnapshotRef("nothing").apply(metadata, START + 99) is metadata


def test_a_new_schema_gets_the_next_id_and_minus_one_chooses_it() -> None:
    wider = Schema(ID, NAME, NestedField(3, "size", DoubleType()))
    metadata = apply_updates(table(), [AddSchema(wider), SetCurrentSchema(-1)], START + 10)
    assert metadata.current_schema_id == 1
    assert metadata.schema().names == ["id", "name", "size"]
    assert metadata.last_column_id == 3


def test_an_equal_schema_is_not_added_again_and_ids_never_decrease() -> None:
    wider = Schema(ID, NAME, NestedField(3, "size", DoubleType()))
    metadata = apply_updates(table(), [AddSchema(wider), SetCurrentSchema(-1)], START + 10)
    back = apply_updates(metadata, [AddSchema(Schema(ID, NAME, schema_id=7)), SetCurrentSchema(-1)], START + 20)
    assert back.current_schema_id == 0
    assert len(back.schemas) == 2
    assert back.last_column_id == 3


def numbered(base: TableMetadata, *updates: Any) -> list[Any]:
    return list(numbered_updates(updates, base, apply_updates(base, updates, START + 50)))


def test_updates_for_a_catalog_have_the_ids_that_they_give() -> None:
    wider = Schema(ID, NAME, NestedField(3, "size", DoubleType()))
    by_name, order = PartitionSpec(PartitionField(2, 5, IdentityTransform(), "name")), SortOrder(SortField(1))
    updates = (
        *(AddSchema(wider), SetCurrentSchema(-1)),
        *(AddPartitionSpec(by_name), SetDefaultSpec(-1)),
        *(AddSortOrder(order), SetDefaultSortOrder(-1)),
        SetProperties({"a": "1"}),
    )
    schema, set_schema, spec, set_spec, added_order, set_order, properties = numbered(table(), *updates)
    assert (schema.schema.schema_id, schema.schema, schema.last_column_id) == (1, wider, 3)
    assert (spec.spec.spec_id, [field.field_id for field in spec.spec.fields]) == (1, [1000])
    assert (added_order.sort_order.order_id, added_order.sort_order.fields) == (1, order.fields)
    assert (set_schema, set_spec, set_order) == (SetCurrentSchema(-1), SetDefaultSpec(-1), SetDefaultSortOrder(-1))
    assert properties is updates[-1]
    base = apply_updates(table(), updates, START + 10)
    back = (AddSchema(Schema(ID, NAME)), SetCurrentSchema(-1), AddPartitionSpec(PartitionSpec()), SetDefaultSpec(-1))
    back = (*back, AddSortOrder(SortOrder()), SetDefaultSortOrder(-1))
    assert numbered(base, *back) == [SetCurrentSchema(0), SetDefaultSpec(0), SetDefaultSortOrder(0)]


def test_updates_for_a_catalog_have_the_same_effect() -> None:
    wider, other = Schema(ID, NAME, NestedField(3, "size", DoubleType())), Schema(ID)
    base = apply_updates(table(), [AddSchema(wider, 9), SetCurrentSchema(-1)], START + 10)
    for updates in (
        [AddSchema(other), SetCurrentSchema(-1), AddSchema(wider), SetCurrentSchema(-1)],
        [AddSchema(wider), SetCurrentSchema(-1), AddSchema(other), SetCurrentSchema(-1)],
        [AddSchema(wider, 12), SetCurrentSchema(-1)],
        [AddSchema(other), SetCurrentSchema(-1), RemoveSchemas((0,))],
    ):
        assert apply_updates(base, numbered(base, *updates), START + 20) == apply_updates(base, updates, START + 20)


def test_minus_one_without_an_addition_is_refused() -> None:
    for update in (SetCurrentSchema(-1), SetDefaultSpec(-1), SetDefaultSortOrder(-1)):
        with pytest.raises(InvalidInputError, match="last added by the same commit"):
            apply_updates(table(), [update], START)


@pytest.mark.parametrize("update", [SetCurrentSchema(9), SetDefaultSpec(9), SetDefaultSortOrder(9)])
def test_an_unknown_id_is_refused(update: Any) -> None:
    with pytest.raises(InvalidInputError, match="9"):
        update.apply(table(), START)


def test_a_new_spec_takes_fresh_field_ids_and_an_equal_one_is_reused() -> None:
    by_name = PartitionSpec(PartitionField(2, 5, IdentityTransform(), "name"))
    by_bucket = PartitionSpec(PartitionField(1, 5, BucketTransform(4), "id_bucket"))
    metadata = apply_updates(table(), [AddPartitionSpec(by_name), SetDefaultSpec(-1)], START + 10)
    assert [(field.field_id, field.name) for field in metadata.spec().fields] == [(1000, "name")]
    metadata = apply_updates(metadata, [AddPartitionSpec(by_bucket), SetDefaultSpec(-1)], START + 20)
    assert metadata.default_spec_id == 2
    assert [(field.field_id, field.name) for field in metadata.spec().fields] == [(1001, "id_bucket")]
    assert metadata.last_partition_id == 1001
    again = apply_updates(metadata, [AddPartitionSpec(by_name), SetDefaultSpec(-1)], START + 30)
    assert again.default_spec_id == 1
    assert len(again.partition_specs) == 3


def test_a_spec_that_v1_readers_would_misread_is_refused() -> None:
    metadata = apply_updates(table(1), [AddPartitionSpec(PartitionSpec(PartitionField(2, 5, IdentityTransform(), "name")))], START)
    with pytest.raises(InvalidInputError, match="format version 1"):
        AddPartitionSpec(PartitionSpec(PartitionField(1, 5, IdentityTransform(), "id"))).apply(metadata, START)


def test_a_schema_without_a_partition_source_cannot_become_the_current_one() -> None:
    by_name = PartitionSpec(PartitionField(2, 5, IdentityTransform(), "name"))
    metadata = apply_updates(table(), [AddPartitionSpec(by_name), SetDefaultSpec(-1), AddSchema(Schema(ID))], START)
    with pytest.raises(InvalidPartitionSpecError, match="field id 2"):
        SetCurrentSchema(1).apply(metadata, START)


def test_a_sort_order_is_added_once() -> None:
    order = SortOrder(SortField(1))
    metadata = apply_updates(table(), [AddSortOrder(order), SetDefaultSortOrder(-1)], START)
    assert metadata.default_sort_order_id == 1
    again = apply_updates(metadata, [AddSortOrder(order), SetDefaultSortOrder(-1)], START)
    assert (again.default_sort_order_id, len(again.sort_orders)) == (1, 2)
    unsorted = apply_updates(again, [AddSortOrder(SortOrder()), SetDefaultSortOrder(-1)], START)
    assert (unsorted.default_sort_order_id, len(unsorted.sort_orders)) == (0, 2)


def test_properties_are_set_and_removed() -> None:
    metadata = SetProperties({"a": "1", "b": "2"}).apply(table(), START + 5)
    assert RemoveProperties(("a", "z")).apply(metadata, START + 6).properties == {"b": "2"}
    with pytest.raises(InvalidPropertyError, match=r"commit\.retry\.num-retries"):
        SetProperties({"commit.retry.num-retries": "many"}).apply(metadata, START)


def test_the_format_version_can_be_raised_but_not_lowered() -> None:
    upgraded = apply_updates(table(1), [UpgradeFormatVersion(2)], START)
    assert upgraded.format_version == 2
    assert upgraded.next_sequence_number == 1
    with pytest.raises(InvalidInputError, match="cannot go back"):
        UpgradeFormatVersion(1).apply(upgraded, START)
    with pytest.raises(UnsupportedFormatVersionError):
        UpgradeFormatVersion(4).apply(upgraded, START)


def test_an_upgrade_to_v3_assigns_no_row_ids_yet() -> None:
    before = replace(with_snapshots(1), unknown={"next-row-id": msgspec.Raw(b"70"), "mine": msgspec.Raw(b"1")})
    upgraded = apply_updates(before, [UpgradeFormatVersion(3)], START + 50)
    assert (upgraded.format_version, upgraded.next_row_id, list(upgraded.unknown)) == (3, 0, ["mine"])
    assert upgraded.snapshots is before.snapshots
    again = apply_updates(replace(upgraded, next_row_id=9), [UpgradeFormatVersion(3)], START + 60)
    assert again.next_row_id == 9


def test_a_snapshot_of_v3_moves_the_next_row_id_whatever_branch_it_is_for() -> None:
    metadata = apply_updates(table(3), [AddSnapshot(snapshot(1, 1, first_row_id=0, added_rows=1000))], START + 10)
    assert (metadata.next_row_id, metadata.current_snapshot_id) == (1000, None)
    # 375 rows, as in the worked example of the spec.
    metadata = apply_updates(metadata, [AddSnapshot(snapshot(2, 2, first_row_id=1000, added_rows=375))], START + 20)
    assert metadata.next_row_id == 1375
    # A first id beyond the next one leaves a gap, and no id is assigned twice.
    assert AddSnapshot(snapshot(3, 3, first_row_id=2000, added_rows=5)).apply(metadata, START + 30).next_row_id == 2005
    assert AddSnapshot(snapshot(3, 3, first_row_id=1375, added_rows=0)).apply(metadata, START + 30).next_row_id == 1375


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"first_row_id": 99, "added_rows": 5}, "those below 100 are already given"),
        ({"first_row_id": 100}, "no added-rows"),
        ({"added_rows": 5}, "no first-row-id"),
        ({"first_row_id": 100, "added_rows": -1}, "adds -1 rows"),
    ],
)
def test_row_ids_that_do_not_follow_the_last_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        AddSnapshot(snapshot(1, 1, **changes)).apply(replace(table(3), next_row_id=100), START + 10)


def test_row_ids_are_refused_before_v3() -> None:
    with pytest.raises(InvalidInputError, match="format version 2 does not support"):
        AddSnapshot(snapshot(1, 1, first_row_id=0, added_rows=1)).apply(table(), START + 10)


def test_a_table_keeps_its_uuid() -> None:
    assert AssignUUID("u-1").apply(table(), START).table_uuid == "u-1"
    with pytest.raises(InvalidInputError, match="u-1"):
        AssignUUID("u-2").apply(table(), START)


def test_the_last_column_id_can_be_set_but_not_decrease() -> None:
    wider = Schema(ID, NAME, NestedField(3, "size", DoubleType()))
    assert AddSchema(wider, 7).apply(table(), START).last_column_id == 7
    assert AddSchema(Schema(ID, NAME), 7).apply(table(), START).last_column_id == 7
    for last in (1, 2):
        with pytest.raises(InvalidInputError, match=f"cannot be {last}: 3 is given already"):
            AddSchema(wider, last).apply(table(), START)


def test_specs_are_removed_but_for_the_default_one() -> None:
    by_name = PartitionSpec(PartitionField(2, 5, IdentityTransform(), "name"))
    metadata = apply_updates(table(), [AddPartitionSpec(by_name), SetDefaultSpec(-1)], START)
    removed = apply_updates(metadata, [RemovePartitionSpecs((0, 9))], START + 10)
    assert [spec.spec_id for spec in removed.partition_specs] == [1]
    assert removed.last_partition_id == 1000
    assert RemovePartitionSpecs((9,)).apply(metadata, START) is metadata
    with pytest.raises(InvalidInputError, match="1 is the default one"):
        RemovePartitionSpecs((0, 1)).apply(metadata, START)


def test_schemas_are_removed_but_for_those_in_use() -> None:
    wider = Schema(ID, NAME, NestedField(3, "size", DoubleType()))
    widest = Schema(*wider.fields, NestedField(4, "more", DoubleType()))
    metadata = apply_updates(with_snapshots(1), [AddSchema(wider), AddSchema(widest), SetCurrentSchema(-1)], START + 20)
    assert RemoveSchemas((9,)).apply(metadata, START) is metadata
    removed = apply_updates(metadata, [RemoveSchemas((1,))], START + 30)
    assert [schema.schema_id for schema in removed.schemas] == [0, 2]
    assert removed.last_column_id == 4
    with pytest.raises(InvalidInputError, match="2 is the current one"):
        RemoveSchemas((2,)).apply(metadata, START)
    with pytest.raises(InvalidInputError, match="snapshot 1 is read with it"):
        RemoveSchemas((0, 1)).apply(metadata, START)


def test_a_snapshot_has_one_statistics_file_of_each_kind() -> None:
    def file(snapshot_id: int, path: str) -> StatisticsFile:
        return StatisticsFile(snapshot_id=snapshot_id, statistics_path=path, file_size_in_bytes=9, file_footer_size_in_bytes=5)

    def partition_file(snapshot_id: int, path: str) -> PartitionStatisticsFile:
        return PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path=path, file_size_in_bytes=9)

    updates = [SetStatistics(file(1, "a")), SetStatistics(file(2, "b")), SetStatistics(file(1, "c"))]
    more = [SetPartitionStatistics(partition_file(1, "d")), SetPartitionStatistics(partition_file(1, "e"))]
    metadata = apply_updates(with_snapshots(2), [*updates, *more], START + 30)
    assert [statistics_file.statistics_path for statistics_file in metadata.statistics] == ["b", "c"]
    assert [statistics_file.statistics_path for statistics_file in metadata.partition_statistics] == ["e"]
    removed = apply_updates(metadata, [RemoveStatistics(2), RemovePartitionStatistics(1)], START + 40)
    assert [statistics_file.statistics_path for statistics_file in removed.statistics] == ["c"]
    assert len(removed.partition_statistics) == 0
    assert RemoveStatistics(2).apply(removed, START) is removed
    assert RemovePartitionStatistics(2).apply(removed, START) is removed
    for update in (SetStatistics(file(9, "x")), SetPartitionStatistics(partition_file(9, "x"))):
        with pytest.raises(NoSuchSnapshotError, match="snapshot 9"):
            update.apply(metadata, START)


def test_encryption_keys_are_added_once_and_kept_while_needed() -> None:
    outer = EncryptedKey(key_id="k0", encrypted_key_metadata="QQ==")
    inner = EncryptedKey(key_id="k1", encrypted_key_metadata="Qg==", encrypted_by_id="k0")
    updates = [AddEncryptionKey(outer), AddEncryptionKey(inner), AddSnapshot(snapshot(1, 1, key_id="k1", **row_ids(1, 3)))]
    metadata = apply_updates(table(3), updates, START + 10)
    assert [key.key_id for key in metadata.encryption_keys] == ["k0", "k1"]
    assert AddEncryptionKey(outer).apply(metadata, START) is metadata
    assert RemoveEncryptionKey("k9").apply(metadata, START) is metadata
    for update, reason in (
        (AddEncryptionKey(replace(outer, encrypted_key_metadata="Qw==")), "another encryption key k0"),
        (RemoveEncryptionKey("k0"), "key k1 could not"),
        (RemoveEncryptionKey("k1"), "snapshot 1 could not"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            update.apply(metadata, START)
    emptied = apply_updates(metadata, [RemoveSnapshots((1,)), RemoveEncryptionKey("k1"), RemoveEncryptionKey("k0")], START + 20)
    assert len(emptied.encryption_keys) == 0
    with pytest.raises(InvalidInputError, match="format version 2 has no encryption keys"):
        AddEncryptionKey(outer).apply(table(2), START)


def test_a_location_loses_its_last_slash() -> None:
    assert SetLocation("memory://elsewhere/").apply(table(), START).location == "memory://elsewhere"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"last_sequence_number": 1}, "$.last-sequence-number"),
        ({"last_column_id": 1}, "$.last-column-id"),
        ({"format_version": 1}, "$.format-version"),
        ({"table_uuid": "other"}, "$.table-uuid"),
        ({"current_schema_id": 4}, "$.current-schema-id"),
        ({"current_snapshot_id": 1}, "$.refs.main"),
        ({"refs": {}}, "$.refs"),
    ],
)
def test_a_step_that_breaks_an_invariant_is_refused(changes: dict[str, Any], where: str) -> None:
    before = with_snapshots(2)
    with pytest.raises(InvalidInputError) as caught:
        check_change(before, replace(before, **changes))
    assert where in [problem.where for problem in caught.value.problems]


def test_updates_share_what_they_do_not_change() -> None:
    before = with_snapshots(3)
    after = SetProperties({"a": "1"}).apply(before, START + 50)
    assert after.snapshots is before.snapshots
    assert after.schemas is before.schemas
