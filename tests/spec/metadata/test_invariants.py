"""Every invariant of metadata, violated once: it is reported, and a table that keeps it has no problem."""

from dataclasses import replace
from typing import Any

import pytest
from tests.spec.metadata.made_up_tables import START, snapshot, with_snapshots

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata import invariants
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.invariants import check_change, every_problem_of, problems_of
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshots
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.statistics_updates import SetStatistics
from icefloe.spec.metadata.table_history import MetadataLogEntry, SnapshotLogEntry
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import UpgradeFormatVersion

TABLE = with_snapshots(3, version=3)


def file(snapshot_id: int) -> StatisticsFile:
    return StatisticsFile(snapshot_id=snapshot_id, statistics_path="s", file_size_in_bytes=9, file_footer_size_in_bytes=5)


def partition_file(snapshot_id: int) -> PartitionStatisticsFile:
    return PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path="p", file_size_in_bytes=9)


def third(**changes: Any) -> dict[str, Any]:
    """Return the table's snapshots with the last one changed."""
    return {"snapshots": (*TABLE.snapshots[:2], replace(TABLE.snapshots[2], **changes))}


ONE_VERSION: list[tuple[str, dict[str, Any], str]] = [
    ("current_schema_is_there", {"current_schema_id": 7}, "$.current-schema-id"),
    ("default_spec_is_there", {"default_spec_id": 7}, "$.default-spec-id"),
    ("default_sort_order_is_there", {"default_sort_order_id": 7}, "$.default-sort-order-id"),
    ("last_column_id_covers_the_schema", {"last_column_id": 1}, "$.last-column-id"),
    ("current_snapshot_is_there", {"current_snapshot_id": 9}, "$.current-snapshot-id"),
    ("main_is_the_current_snapshot", {"current_snapshot_id": 2}, "$.refs.main"),
    ("main_is_the_current_snapshot", {"refs": {}}, "$.refs"),
    ("main_is_the_current_snapshot", {"refs": {"main": SnapshotRef(snapshot_id=3, type="tag")}}, "$.refs.main"),
    ("references_name_snapshots", {"refs": {**TABLE.refs, "x": SnapshotRef(snapshot_id=9)}}, "$.refs.x"),
    ("version_2_has_a_uuid", {"table_uuid": None}, "$.table-uuid"),
    ("row_ids_are_below_the_next", {"next_row_id": 29}, "$.next-row-id"),
    ("row_ids_are_below_the_next", third(first_row_id=-1, added_rows=1), "$.next-row-id"),
    ("last_sequence_number_covers_the_current_snapshot", {"last_sequence_number": 2}, "$.last-sequence-number"),
    ("the_logs_end_in_order", {"last_updated_ms": START - 100_000}, "$.snapshot-log"),
    ("the_logs_end_in_order", {"metadata_log": (MetadataLogEntry(START + 90_000, "m"), MetadataLogEntry(START, "n"))}, "$.metadata-log"),
    ("no_snapshot_has_two_statistics_files", {"statistics": (file(1), file(1))}, "$.statistics"),
    (
        "no_snapshot_has_two_statistics_files",
        {"partition_statistics": (partition_file(1), partition_file(2), partition_file(1))},
        "$.partition-statistics",
    ),
    ("every_snapshot_was_numbered_by_the_table", {"last_sequence_number": 2}, "$.snapshots[2]"),
    ("every_snapshot_was_numbered_by_the_table", {"next_row_id": 25}, "$.snapshots[2]"),
    ("every_snapshot_was_numbered_by_the_table", third(added_rows=None), "$.snapshots[2]"),
    ("every_snapshot_was_numbered_by_the_table", third(manifest_list=None), "$.snapshots[2]"),
    (
        "the_snapshot_log_is_in_order",
        {"snapshot_log": (SnapshotLogEntry(START + 90_000, 1), SnapshotLogEntry(START, 2), SnapshotLogEntry(START + 30, 3))},
        "$.snapshot-log",
    ),
    ("statistics_are_of_known_snapshots", {"statistics": (file(9),)}, "$.statistics"),
    ("statistics_are_of_known_snapshots", {"partition_statistics": (partition_file(9),)}, "$.partition-statistics"),
    ("key_ids_are_known", third(key_id="k1"), "$.snapshots[2].key-id"),
]
TWO_VERSIONS: list[tuple[str, dict[str, Any], str]] = [
    ("numbers_only_grow", {"format_version": 2}, "$.format-version"),
    ("numbers_only_grow", {"last_sequence_number": 2}, "$.last-sequence-number"),
    ("numbers_only_grow", {"last_column_id": 1}, "$.last-column-id"),
    ("numbers_only_grow", {"last_partition_id": 998}, "$.last-partition-id"),
    ("numbers_only_grow", {"next_row_id": 29}, "$.next-row-id"),
    ("the_uuid_stays", {"table_uuid": "other"}, "$.table-uuid"),
    *(
        ("new_snapshots_are_numbered_on", {"snapshots": (*TABLE.snapshots, snapshot(9, **changes)), **counters}, "$.snapshots (snapshot 9)")
        for changes, counters in (
            ({"number": 3, "parent_snapshot_id": 3, "first_row_id": 30, "added_rows": 0}, {}),
            ({"number": 4, "first_row_id": 30, "added_rows": 0}, {}),
            ({"number": 4, "first_row_id": 29, "added_rows": 0}, {"last_sequence_number": 4}),
            ({"number": 4, "first_row_id": 30, "added_rows": 1}, {"last_sequence_number": 4}),
            ({"number": 4}, {"last_sequence_number": 4}),
        )
    ),
    ("snapshots_never_change", third(timestamp_ms=5), "$.snapshots[2]"),
    ("statistics_go_with_their_snapshots", {"statistics": (file(9),)}, "$.statistics"),
    ("statistics_go_with_their_snapshots", {"partition_statistics": (partition_file(9),)}, "$.partition-statistics"),
]


def names(table: list[tuple[str, dict[str, Any], str]]) -> list[str]:
    return [f"{name}-{number}" for number, (name, _, _) in enumerate(table)]


def test_every_invariant_has_a_case() -> None:
    told = (*invariants.ALWAYS, *invariants.WHEN_WRITTEN, *invariants.IN_FULL)
    assert {rule.__name__ for rule in told} == {name for name, _, _ in ONE_VERSION}
    assert {rule.__name__ for rule in invariants.BETWEEN_VERSIONS} == {name for name, _, _ in TWO_VERSIONS}


@pytest.mark.parametrize(("rule", "changes", "where"), ONE_VERSION, ids=names(ONE_VERSION))
def test_a_violated_invariant_of_one_version_is_reported(rule: str, changes: dict[str, Any], where: str) -> None:
    broken = replace(TABLE, **changes)
    assert list(getattr(invariants, rule)(TABLE)) == []
    assert where in [problem.where for problem in getattr(invariants, rule)(broken)]
    assert where in [problem.where for problem in every_problem_of(broken)]


@pytest.mark.parametrize(("rule", "changes", "where"), TWO_VERSIONS, ids=names(TWO_VERSIONS))
def test_a_violated_invariant_between_versions_is_reported(rule: str, changes: dict[str, Any], where: str) -> None:
    broken = replace(TABLE, **changes)
    assert list(getattr(invariants, rule)(TABLE, TABLE)) == []
    assert where in [problem.where for problem in getattr(invariants, rule)(TABLE, broken)]
    with pytest.raises(InvalidInputError) as refused:
        check_change(TABLE, broken)
    assert where in [problem.where for problem in refused.value.problems]


def test_a_statistics_file_does_not_outlive_its_snapshot() -> None:
    before = apply_updates(TABLE, [SetStatistics(file(1))], START + 40)
    after = replace(RemoveSnapshots((1,)).apply(before, START + 50), statistics=before.statistics)
    with pytest.raises(InvalidInputError) as refused:
        check_change(before, after)
    assert [problem.where for problem in refused.value.problems] == ["$.statistics"]


@pytest.mark.parametrize(("version", "upgraded"), [(1, 2), (1, 3), (2, 3)])
def test_a_snapshot_is_numbered_by_its_version_if_the_same_commit_upgrades_the_table(version: int, upgraded: int) -> None:
    before = with_snapshots(2, version)
    added = AddSnapshot(snapshot(9, before.next_sequence_number))
    after = apply_updates(before, [added, UpgradeFormatVersion(upgraded)], START + 50)
    assert (after.format_version, after.snapshot_by_id(9)) == (upgraded, added.snapshot)
    check_change(before, after)


@pytest.mark.parametrize(("version", "upgraded", "number"), [(1, 2, 0), (1, 3, 0), (1, 3, 1), (2, 3, 2), (2, 3, 3)])
def test_a_snapshot_after_the_upgrade_in_the_same_commit_is_numbered_by_the_new_version(version: int, upgraded: int, number: int) -> None:
    with pytest.raises(InvalidInputError, match=r"sequence number|row"):
        apply_updates(
            with_snapshots(2, version), [UpgradeFormatVersion(upgraded), AddSnapshot(snapshot(9, number, parent_snapshot_id=2))], START + 50
        )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_valid_tables_have_no_problem(version: int) -> None:
    metadata = with_snapshots(4, version)
    assert every_problem_of(metadata) == []
    assert every_problem_of(replace(metadata, encryption_keys=(EncryptedKey(key_id="k", encrypted_key_metadata=""),))) == []
    check_change(None, metadata)
    check_change(metadata, metadata)


def test_violations_that_are_only_refused_on_write_can_be_read() -> None:
    for name, changes, _ in ONE_VERSION:
        if name in {rule.__name__ for rule in (*invariants.WHEN_WRITTEN, *invariants.IN_FULL)}:
            broken: TableMetadata = replace(TABLE, **changes)
            assert problems_of(broken) == []
