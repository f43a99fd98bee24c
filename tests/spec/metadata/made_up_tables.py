"""Metadata of small tables for the tests of this package."""

from dataclasses import replace
from typing import Any

from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField, StringType

ID, NAME = NestedField(1, "id", LongType()), NestedField(2, "name", StringType())
START = 1_000_000


def table(version: int = 2) -> TableMetadata:
    return new_table_metadata(location="memory://t", schema=Schema(ID, NAME), format_version=version, table_uuid="u-1", now_ms=START)


def snapshot(snapshot_id: int, number: int, **changes: Any) -> Snapshot:
    made = Snapshot(
        snapshot_id=snapshot_id,
        sequence_number=number,
        timestamp_ms=START + number * 10,
        manifest_list=f"memory://t/{snapshot_id}.avro",
        summary={"operation": "append"},
        schema_id=0,
    )
    return replace(made, **changes)


def with_snapshots(count: int, version: int = 2) -> TableMetadata:
    """Return a table of snapshots 1, 2, ... each made current when it was added; in v3 each assigns ten row ids."""
    metadata = table(version)
    for number in range(1, count + 1):
        parent = number - 1 if number > 1 else None
        updates = [
            AddSnapshot(snapshot(number, number if version > 1 else 0, parent_snapshot_id=parent, **row_ids(number, version))),
            SetSnapshotRef("main", SnapshotRef(snapshot_id=number)),
        ]
        metadata = apply_updates(metadata, updates, START + number * 10)
    return metadata


def row_ids(number: int, version: int) -> dict[str, int]:
    """Return ten row ids for the snapshot of this number, where the version has row ids."""
    return {"first_row_id": 10 * (number - 1), "added_rows": 10} if version > 2 else {}
