"""Writing metadata: the keys of each version, unknown keys kept, and unchanged entries written as they were read."""

import json
from dataclasses import replace
from typing import Any

import pytest

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata.encrypted_key import EncryptedKey
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.spec.metadata.table_updates import UpgradeFormatVersion
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField

SCHEMA = Schema(NestedField(1, "a", LongType()))
SPEC = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "a"))


def table(version: int) -> Any:
    return new_table_metadata(location="memory://t", schema=SCHEMA, spec=SPEC, format_version=version, table_uuid="u-1", now_ms=1000)


def written(metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_table_metadata(metadata))
    return found


def test_v2_is_written_with_every_key_it_requires_and_none_of_v1() -> None:
    assert written(table(2)) == {
        "format-version": 2,
        "table-uuid": "u-1",
        "location": "memory://t",
        "last-sequence-number": 0,
        "last-updated-ms": 1000,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "long"}]}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "transform": "identity", "name": "a"}]}],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def test_v3_is_written_with_next_row_id_and_null_for_no_snapshot() -> None:
    found = written(table(3))
    assert {key: found.pop(key) for key in ("next-row-id", "current-snapshot-id")} == {"next-row-id": 0, "current-snapshot-id": None}
    assert found == {**written(table(2)), "format-version": 3}


def test_row_ids_and_keys_of_v3_are_written() -> None:
    key = EncryptedKey(key_id="k1", encrypted_key_metadata="aWNlYmVyZwo=", encrypted_by_id="k0", properties={"a": "b"})
    snapshot = Snapshot(
        snapshot_id=5,
        sequence_number=1,
        timestamp_ms=2000,
        manifest_list="l",
        summary={"operation": "append"},
        first_row_id=0,
        added_rows=0,
        key_id="k1",
    )
    found = written(apply_updates(replace(table(3), encryption_keys=(key,)), [AddSnapshot(snapshot)], now_ms=2000))
    assert found["encryption-keys"] == [
        {"key-id": "k1", "encrypted-key-metadata": "aWNlYmVyZwo=", "encrypted-by-id": "k0", "properties": {"a": "b"}}
    ]
    assert found["snapshots"][0] == {
        "sequence-number": 1,
        "snapshot-id": 5,
        "timestamp-ms": 2000,
        "summary": {"operation": "append"},
        "manifest-list": "l",
        "first-row-id": 0,
        "added-rows": 0,
        "key-id": "k1",
    }


def test_v1_is_written_with_both_old_and_new_keys_and_minus_one_for_no_snapshot() -> None:
    found = written(table(1))
    assert found["schema"] == found["schemas"][0]
    assert found["partition-spec"] == found["partition-specs"][0]["fields"]
    assert found["current-snapshot-id"] == -1
    assert "last-sequence-number" not in found


def test_v1_snapshots_have_no_sequence_number() -> None:
    snapshot = Snapshot(snapshot_id=5, timestamp_ms=2000, manifest_list="memory://t/l.avro", summary={"operation": "append"})
    changed = apply_updates(table(1), [AddSnapshot(snapshot), SetSnapshotRef("main", SnapshotRef(snapshot_id=5))], now_ms=2000)
    found = written(changed)
    assert found["snapshots"] == [
        {"snapshot-id": 5, "timestamp-ms": 2000, "summary": {"operation": "append"}, "manifest-list": "memory://t/l.avro"}
    ]
    assert found["current-snapshot-id"] == 5


def test_a_v2_table_without_a_uuid_is_not_written() -> None:
    document = written(table(1))
    del document["table-uuid"]
    metadata = read_table_metadata(json.dumps(document).encode(), "x")
    assert metadata.table_uuid is None
    write_table_metadata(metadata)
    with pytest.raises(InvalidInputError, match="uuid"):
        write_table_metadata(UpgradeFormatVersion(2).apply(metadata, 2000))


def test_keys_that_are_not_known_are_kept_at_every_level() -> None:
    document = written(table(2))
    document["unheard-of"] = {"deep": [1, 2.5, None]}
    document["schemas"][0]["fields"][0]["colour"] = "red"
    document["partition-specs"][0]["colour"] = "green"
    document["sort-orders"][0]["colour"] = "blue"
    document["refs"] = {"main": {"snapshot-id": 5, "type": "branch", "colour": "grey"}}
    document["snapshots"] = [
        {
            "snapshot-id": 5,
            "timestamp-ms": 2000,
            "sequence-number": 1,
            "manifest-list": "l",
            "summary": {"operation": "append"},
            "first-row-id": 7,
        }
    ]
    document["current-snapshot-id"] = 5
    document["statistics"] = [{"snapshot-id": 5, "statistics-path": "s", "blob-metadata": []}]
    metadata = read_table_metadata(json.dumps(document).encode(), "x")
    second = Snapshot(
        snapshot_id=6, parent_snapshot_id=5, sequence_number=2, timestamp_ms=3000, manifest_list="m", summary={"operation": "append"}
    )
    found = written(apply_updates(metadata, [AddSnapshot(second)], now_ms=3000))
    document["snapshots"].append(found["snapshots"][1])
    assert found == {**document, "last-updated-ms": 3000, "last-sequence-number": 2}


def test_gzip_gives_the_same_bytes_for_the_same_metadata_and_is_read_back() -> None:
    metadata = table(2)
    packed = write_table_metadata(metadata, gzip=True)
    assert packed.startswith(b"\x1f\x8b")
    assert packed == write_table_metadata(metadata, gzip=True)
    assert read_table_metadata(packed, "x") == metadata


def test_text_beyond_ascii_survives() -> None:
    schema = Schema(NestedField(1, "größe\U0001f9ca", LongType(), doc='quote " and \\ and \n'))
    metadata = new_table_metadata(location="memory://ü", schema=schema, table_uuid="u", now_ms=1)
    again = read_table_metadata(write_table_metadata(metadata), "x")
    assert again == metadata
    assert again.schema().fields == schema.fields
