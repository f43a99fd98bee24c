"""Any updates in any order: each is applied or refused with an error of Icefloe; the result keeps every invariant and survives its JSON."""

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
from hypothesis import event, given, settings
from tests.repetitions import examples
from tests.spec.metadata.made_up_tables import ID, NAME, START, snapshot, table

from icefloe.errors import IcefloeError
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.invariants import BETWEEN_VERSIONS, every_problem_of
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
from icefloe.spec.metadata.metadata_reader import check_table_metadata, read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates, with_metadata_log
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
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
from icefloe.spec.metadata.update_json import update_from_json, update_to_json
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.sort_order import SortField, SortOrder
from icefloe.spec.partitioning.transforms import BucketTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

FEW = st.integers(-1, 4)
IDS = st.integers(1, 5)
NAMES = st.sampled_from(["main", "b", "gold"])
WIDER = st.integers(2, 4).map(lambda last: Schema(ID, NAME, *(NestedField(n, f"c{n}", LongType()) for n in range(3, last + 1))))


def statistics_file(snapshot_id: int) -> StatisticsFile:
    return StatisticsFile(snapshot_id=snapshot_id, statistics_path="s", file_size_in_bytes=9, file_footer_size_in_bytes=5)


def partition_statistics_file(snapshot_id: int) -> PartitionStatisticsFile:
    return PartitionStatisticsFile(snapshot_id=snapshot_id, statistics_path="p", file_size_in_bytes=9)


@st.composite
def added_snapshots(draw: st.DrawFn, base: TableMetadata, at_ms: int) -> AddSnapshot:
    """Return a snapshot that mostly follows the table; sometimes one number is slightly wrong."""
    off = draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
    numbered = {"first_row_id": base.next_row_id + off, "added_rows": draw(st.integers(0, 100))} if base.format_version > 2 else {}
    added_snapshot = snapshot(
        draw(IDS), 0, key_id=draw(st.sampled_from([None, None, "k1"])) if base.format_version > 2 else None, **numbered
    )
    return AddSnapshot(replace(added_snapshot, sequence_number=max(0, base.next_sequence_number + off), timestamp_ms=at_ms))


@st.composite
def any_update(draw: st.DrawFn, base: TableMetadata, at_ms: int) -> Any:
    spec = PartitionSpec(PartitionField(draw(st.integers(1, 3)), 1000, BucketTransform(draw(st.integers(1, 3))), "p"))
    return draw(
        st.one_of(
            added_snapshots(base, at_ms),
            added_snapshots(base, at_ms),
            st.builds(SetSnapshotRef, NAMES, st.builds(SnapshotRef, snapshot_id=IDS, type=st.sampled_from(["branch", "branch", "tag"]))),
            st.builds(RemoveSnapshots, st.lists(IDS, max_size=2).map(tuple)),
            st.builds(RemoveSnapshotRef, NAMES),
            st.builds(SetStatistics, IDS.map(statistics_file)),
            st.builds(SetPartitionStatistics, IDS.map(partition_statistics_file)),
            st.builds(RemoveStatistics, IDS),
            st.builds(RemovePartitionStatistics, IDS),
            st.builds(AddSchema, WIDER, st.none() | st.integers(1, 6)),
            st.builds(SetCurrentSchema, FEW),
            st.just(AddPartitionSpec(spec)),
            st.builds(SetDefaultSpec, FEW),
            st.builds(AddSortOrder, st.integers(1, 3).map(lambda source: SortOrder(SortField(source)))),
            st.builds(SetDefaultSortOrder, FEW),
            st.builds(RemovePartitionSpecs, st.lists(FEW, max_size=2).map(tuple)),
            st.builds(RemoveSchemas, st.lists(FEW, max_size=2).map(tuple)),
            st.builds(UpgradeFormatVersion, st.integers(1, 4)),
            st.builds(AssignUUID, st.sampled_from(["u-1", "u-2"])),
            st.builds(SetLocation, st.sampled_from(["memory://t", "memory://u/"])),
            st.builds(SetProperties, st.dictionaries(st.sampled_from("ab"), st.text(max_size=2), max_size=2)),
            st.builds(RemoveProperties, st.lists(st.sampled_from("ab"), max_size=2).map(tuple)),
            st.builds(
                AddEncryptionKey, st.builds(EncryptedKey, key_id=st.sampled_from(["k1", "k2"]), encrypted_key_metadata=st.just("QQ=="))
            ),
            st.builds(RemoveEncryptionKey, st.sampled_from(["k1", "k2"])),
        )
    )


@settings(max_examples=examples(60))
@given(st.sampled_from([1, 2, 3]), st.data())
def test_any_sequence_of_updates_keeps_the_invariants(version: int, data: st.DataObject) -> None:
    metadata = table(version)
    for step in range(data.draw(st.integers(1, 8))):
        at_ms = START + step
        asked = [data.draw(any_update(metadata, at_ms)) for _ in range(data.draw(st.integers(1, 3)))]
        before = write_table_metadata(metadata)
        try:
            changed = apply_updates(metadata, asked, at_ms)
        except IcefloeError:
            assert write_table_metadata(metadata) == before
            event("refused")
            continue
        event("made")
        assert apply_updates(metadata, [update_from_json(update_to_json(update)) for update in asked], at_ms) == changed
        changed = with_metadata_log(changed, f"memory://t/{step}.metadata.json", metadata.last_updated_ms)
        assert write_table_metadata(metadata) == before
        assert [problem for rule in BETWEEN_VERSIONS for problem in rule(metadata, changed)] == []
        keys = {snapshot.key_id for snapshot in changed.snapshots if snapshot.key_id} - {key.key_id for key in changed.encryption_keys}
        assert every_problem_of(changed) == [] or keys
        content = write_table_metadata(changed)
        assert check_table_metadata(content, "t") == [] or keys
        assert read_table_metadata(content, "t") == changed
        metadata = changed
