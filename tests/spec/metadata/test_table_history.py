"""A table's history: ancestors, time travel by the log, the metadata log and its length."""

from dataclasses import replace

from icefloe.spec.metadata.metadata_updates import dropped_metadata_files, with_metadata_log
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_history import (
    MetadataLogEntry,
    SnapshotLogEntry,
    ancestors,
    reachable_ids,
    schemas_of_files,
    snapshot_as_of,
)
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField


def table(snapshots: dict[int, int | None], log: list[tuple[int, int]]) -> TableMetadata:
    """Return a table; `snapshots` are ids and parents, `log` are times and ids."""
    base = new_table_metadata(location="memory://t", schema=Schema(NestedField(1, "a", LongType())), table_uuid="u", now_ms=0)
    made = [Snapshot(snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=number) for number, parent in snapshots.items()]
    return replace(base, snapshots=tuple(made), snapshot_log=tuple(SnapshotLogEntry(*entry) for entry in log))


def test_ancestors_end_where_a_snapshot_has_expired() -> None:
    metadata = table({2: 1, 3: 2, 4: 2}, [])
    assert [found.snapshot_id for found in ancestors(metadata, 4)] == [4, 2]
    assert list(ancestors(metadata, None)) == []
    assert list(ancestors(metadata, 99)) == []


def test_files_were_written_with_the_schemas_of_the_ancestors() -> None:
    base = table({1: None, 2: 1, 3: 2, 4: None, 5: 9, 6: 2}, [])
    schemas = tuple(Schema(*base.schemas[0].fields, schema_id=number) for number in range(5))
    ids = {1: 0, 2: 2, 3: 2, 4: 3, 5: 3, 6: None}
    picked = {7: {"operation": "append", "source-snapshot-id": "8"}}
    made = [replace(snapshot, schema_id=ids[snapshot.snapshot_id]) for snapshot in base.snapshots]
    made += [
        Snapshot(snapshot_id=number, parent_snapshot_id=1, timestamp_ms=0, schema_id=4, summary=summary)
        for number, summary in picked.items()
    ]
    metadata = replace(base, schemas=schemas, snapshots=tuple(made))

    def found(snapshot_id: int) -> list[int]:
        return [schema.schema_id for schema in schemas_of_files(metadata, metadata.snapshot_by_id(snapshot_id))]

    assert [found(number) for number in (1, 3, 4)] == [[0], [0, 2], [3]]
    every = [0, 1, 2, 3, 4]
    assert found(5) == every  # its parent was expired
    assert found(6) == every  # it has no schema id
    assert found(7) == every  # its files came with another snapshot
    assert list(schemas_of_files(metadata, None)) == []


def test_a_circle_of_parents_ends() -> None:
    assert [found.snapshot_id for found in ancestors(table({1: 2, 2: 1}, []), 1)] == [1, 2]


def test_the_reachable_snapshots_are_all_ancestors_of_the_heads() -> None:
    metadata = table({1: None, 2: 1, 3: 2, 4: 2, 5: 9, 6: 7, 7: 6}, [])
    for heads in ([4], [3, 4], [5, 1], [6], [99], []):
        assert reachable_ids(metadata, heads) == {found.snapshot_id for head in heads for found in ancestors(metadata, head)}


def test_time_travel_follows_the_log_and_not_the_parents() -> None:
    metadata = table({1: None, 2: 1, 3: 1}, [(100, 1), (200, 2), (300, 1), (400, 3)])
    found = [snapshot_as_of(metadata, moment) for moment in (99, 100, 250, 399, 400, 9999)]
    assert [snapshot and snapshot.snapshot_id for snapshot in found] == [None, 1, 2, 1, 3, 3]


def test_time_travel_to_an_expired_snapshot_finds_none() -> None:
    assert snapshot_as_of(table({2: 1}, [(100, 1), (200, 2)]), 150) is None


def test_the_metadata_log_names_the_file_before_with_its_time() -> None:
    metadata = with_metadata_log(table({}, []), "memory://t/0.json", 77)
    assert list(metadata.metadata_log) == [MetadataLogEntry(77, "memory://t/0.json")]
    assert with_metadata_log(metadata, None, 0) is metadata


def test_the_metadata_log_is_cut_to_the_property_and_lists_dropped_files() -> None:
    metadata = replace(table({}, []), properties={"write.metadata.previous-versions-max": "3"})
    for number in range(5):
        before, metadata = metadata, with_metadata_log(metadata, f"{number}.json", number)
    assert [entry.metadata_file for entry in metadata.metadata_log] == ["2.json", "3.json", "4.json"]
    assert dropped_metadata_files(before, metadata) == ("1.json",)


def test_the_metadata_log_never_loses_the_file_before() -> None:
    metadata = replace(table({}, []), properties={"write.metadata.previous-versions-max": "0"})
    for number in range(3):
        metadata = with_metadata_log(metadata, f"{number}.json", number)
    assert [entry.metadata_file for entry in metadata.metadata_log] == ["2.json"]
