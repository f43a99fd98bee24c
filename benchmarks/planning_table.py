"""The table of the planning benchmarks: 100,000 data files in 100 manifests, statistics on 20 columns, 2 partition fields, random values.

Only its metadata exists. Fastavro writes the manifests in blocks of 64,000 bytes with deflate, as Java does, so that neither engine reads manifests that it
wrote. Files are spread over the manifests at random, so that a filter can skip files but no manifest.
"""

import json
import random
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

from benchmarks.measure import child

MANIFESTS, FILES_PER_MANIFEST = 100, 1_000
SEED = 20_240_301
BYTES_OF_A_BLOCK = 64_000
SNAPSHOT_ID, SEQUENCE_NUMBER = 5_100_200_300_400_500_600, 100
FIRST_DAY, DAYS = 19_358, 1_000  # 2023-01-01; a thousand days: one day has 0.1 % of the files
MICROS_OF_A_DAY = 86_400_000_000
MOMENT_MS = 1_709_251_200_000  # of the snapshot
IDS, IDS_OF_A_FILE = 1_000_000_000, 1_000_000  # each file spans 0.1 % of the ids

KINDS = ["long"] * 7 + ["double"] * 4 + ["string"] * 4 + ["int"] * 3 + ["timestamp", "date"]
COLUMNS = [(field_id, f"c{field_id:02}", kind) for field_id, kind in enumerate(KINDS, 1)]
ID, BUCKETED, MOMENT = 1, 2, 19  # filtered by ID and MOMENT, partitioned by bucket[16](c02) and day(c19)

DAY_FILTER = "c19 >= '2024-03-01T00:00:00' and c19 < '2024-03-02T00:00:00'"  # decided by partition values
ID_FILTER = "c01 = 500000000"  # decided by column bounds
FEW_FILTER = "c01 < 200000"  # decided by column bounds: 0.02 % of the files


def metadata_path(folder: Path) -> Path:
    """Build the table if it does not exist yet; return the path of its metadata file."""
    metadata = folder / "metadata"
    path = metadata / "00001-table.metadata.json"
    if path.exists():
        return path
    metadata.mkdir(parents=True, exist_ok=True)
    chance = random.Random(SEED)
    manifests = []
    for number in range(MANIFESTS):
        manifest = metadata / f"{uuid.UUID(int=number)}-m{number}.avro"
        entries = list(entries_of(chance, str(folder)))
        write_avro(manifest, manifest_schema(), entries, manifest_properties())
        manifests.append(manifest_list_record(manifest, entries))
    manifest_list = metadata / f"snap-{SNAPSHOT_ID}-1-{uuid.UUID(int=0)}.avro"
    write_avro(manifest_list, MANIFEST_LIST_SCHEMA, manifests, {"format-version": "2", "snapshot-id": str(SNAPSHOT_ID)})
    path.write_text(json.dumps(table_metadata(folder, manifest_list)))
    return path


def rewritten_by_pyiceberg(metadata: str, folder: Path) -> str:
    """Build the same table with manifests that PyIceberg wrote, if it does not exist yet; return the path of its metadata file."""
    if not folder.exists():
        child("pyiceberg", "planning_rewritten_child.py", metadata, str(folder))
    return str(folder / "metadata" / Path(metadata).name)


def write_avro(path: Path, schema: dict[str, Any], records: list[dict[str, Any]], properties: dict[str, str]) -> None:
    """Write one Avro file with the block size of Java."""
    with path.open("wb") as file:
        fastavro.writer(
            file, schema, records, codec="deflate", sync_interval=BYTES_OF_A_BLOCK, metadata=properties, codec_compression_level=6
        )


def bounds(chance: random.Random, field_id: int, kind: str, day: int) -> tuple[bytes, bytes]:
    """Return a lower and an upper bound in single-value serialization."""
    if field_id == ID:
        low = chance.randrange(IDS - IDS_OF_A_FILE)
        return struct.pack("<q", low), struct.pack("<q", low + IDS_OF_A_FILE)
    if field_id == MOMENT:
        start = day * MICROS_OF_A_DAY
        return struct.pack("<q", start + chance.randrange(10**9)), struct.pack("<q", start + MICROS_OF_A_DAY - 1 - chance.randrange(10**9))
    if kind == "string":
        low_text, high_text = sorted(f"{chance.getrandbits(64):016x}" for _ in range(2))
        return low_text.encode(), high_text.encode()
    if kind == "double":
        low_number, high_number = sorted(chance.uniform(-1e6, 1e6) for _ in range(2))
        return struct.pack("<d", low_number), struct.pack("<d", high_number)
    first, last = sorted(chance.randrange(2**31) for _ in range(2))
    form = "<q" if kind == "long" else "<i"
    return struct.pack(form, first), struct.pack(form, last)


def entries_of(chance: random.Random, location: str) -> Iterator[dict[str, Any]]:
    """Return the entries of one manifest as Java writes them in the commit that adds the files."""
    for number in range(FILES_PER_MANIFEST):
        day, bucket, rows = FIRST_DAY + chance.randrange(DAYS), chance.randrange(16), chance.randrange(10_000, 1_000_000)
        limits = {field_id: bounds(chance, field_id, kind, day) for field_id, _, kind in COLUMNS}
        name = f"{number:05}-{chance.randrange(9999)}-{uuid.UUID(int=chance.getrandbits(128))}-00001.parquet"
        yield {
            "status": 1,
            "snapshot_id": SNAPSHOT_ID,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "content": 0,
                "file_path": f"{location}/data/c02_bucket={bucket}/c19_day={day}/{name}",
                "file_format": "PARQUET",
                "partition": {"c02_bucket": bucket, "c19_day": day},
                "record_count": rows,
                "file_size_in_bytes": rows * 50,
                "column_sizes": pairs({field_id: chance.randrange(10**7) for field_id, _, _ in COLUMNS}),
                "value_counts": pairs({field_id: rows for field_id, _, _ in COLUMNS}),
                "null_value_counts": pairs({field_id: chance.randrange(100) for field_id, _, _ in COLUMNS}),
                "nan_value_counts": pairs({field_id: 0 for field_id, _, kind in COLUMNS if kind == "double"}),
                "lower_bounds": pairs({field_id: low for field_id, (low, _) in limits.items()}),
                "upper_bounds": pairs({field_id: high for field_id, (_, high) in limits.items()}),
                "key_metadata": None,
                "split_offsets": [4, rows * 25],
                "equality_ids": None,
                "sort_order_id": 0,
            },
        }


def pairs(numbers: dict[int, Any]) -> list[dict[str, Any]]:
    """Return a map as an Avro array of key and value."""
    return [{"key": key, "value": value} for key, value in numbers.items()]


def manifest_list_record(manifest: Path, entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the manifest list record of a manifest, with the summaries of its two partition fields."""
    files = [entry["data_file"] for entry in entries]
    summaries = []
    for name in ("c02_bucket", "c19_day"):
        values = [file["partition"][name] for file in files]
        low, high = (struct.pack("<i", pick(values)) for pick in (min, max))
        summaries.append({"contains_null": False, "contains_nan": False, "lower_bound": low, "upper_bound": high})
    return {
        "manifest_path": str(manifest),
        "manifest_length": manifest.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": SEQUENCE_NUMBER,
        "min_sequence_number": SEQUENCE_NUMBER,
        "added_snapshot_id": SNAPSHOT_ID,
        "added_files_count": len(entries),
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": sum(file["record_count"] for file in files),
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": summaries,
    }


def field(name: str, field_id: int, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    """Return an Avro field with its Iceberg field id."""
    return (
        {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
        if optional
        else {"name": name, "type": kind, "field-id": field_id}
    )


def map_field(name: str, field_id: int, key_id: int, value: str) -> dict[str, Any]:
    """Return the type of a map with integer keys, which Avro has only as an array of records."""
    record = {
        "type": "record",
        "name": f"k{key_id}_v{key_id + 1}",
        "fields": [field("key", key_id, "int"), field("value", key_id + 1, value)],
    }
    return field(name, field_id, {"type": "array", "items": record, "logicalType": "map"}, optional=True)


def list_field(name: str, field_id: int, element_id: int, element: Any, *, optional: bool = True) -> dict[str, Any]:
    """Return the type of a list with the field id of its element."""
    return field(name, field_id, {"type": "array", "items": element, "element-id": element_id}, optional=optional)


def manifest_schema() -> dict[str, Any]:
    """Return the schema `manifest_entry` of format version 2 for the partition spec of this table."""
    partition = [
        field("c02_bucket", 1000, "int", optional=True),
        field("c19_day", 1001, {"type": "int", "logicalType": "date"}, optional=True),
    ]
    data_file = [
        field("content", 134, "int"),
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
        map_field("column_sizes", 108, 117, "long"),
        map_field("value_counts", 109, 119, "long"),
        map_field("null_value_counts", 110, 121, "long"),
        map_field("nan_value_counts", 137, 138, "long"),
        map_field("lower_bounds", 125, 126, "bytes"),
        map_field("upper_bounds", 128, 129, "bytes"),
        field("key_metadata", 131, "bytes", optional=True),
        list_field("split_offsets", 132, 133, "long"),
        list_field("equality_ids", 135, 136, "int"),
        field("sort_order_id", 140, "int", optional=True),
    ]
    entry = [
        field("status", 0, "int"),
        field("snapshot_id", 1, "long", optional=True),
        field("sequence_number", 3, "long", optional=True),
        field("file_sequence_number", 4, "long", optional=True),
        field("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


SUMMARY_FIELDS = [
    field("contains_null", 509, "boolean"),
    field("contains_nan", 518, "boolean", optional=True),
    field("lower_bound", 510, "bytes", optional=True),
    field("upper_bound", 511, "bytes", optional=True),
]
MANIFEST_LIST_SCHEMA = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        field("manifest_path", 500, "string"),
        field("manifest_length", 501, "long"),
        field("partition_spec_id", 502, "int"),
        field("content", 517, "int"),
        field("sequence_number", 515, "long"),
        field("min_sequence_number", 516, "long"),
        field("added_snapshot_id", 503, "long"),
        field("added_files_count", 504, "int"),
        field("existing_files_count", 505, "int"),
        field("deleted_files_count", 506, "int"),
        field("added_rows_count", 512, "long"),
        field("existing_rows_count", 513, "long"),
        field("deleted_rows_count", 514, "long"),
        list_field("partitions", 507, 508, {"type": "record", "name": "r508", "fields": SUMMARY_FIELDS}),
    ],
}
SPEC_FIELDS = [
    {"name": "c02_bucket", "transform": "bucket[16]", "source-id": BUCKETED, "field-id": 1000},
    {"name": "c19_day", "transform": "day", "source-id": MOMENT, "field-id": 1001},
]


def schema_json(columns: Sequence[tuple[int, str, str]] = COLUMNS) -> dict[str, Any]:
    """Return a schema of optional columns, by default that of the table."""
    fields = [{"id": field_id, "name": name, "required": False, "type": kind} for field_id, name, kind in columns]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def manifest_properties() -> dict[str, str]:
    """Return the key-value metadata of a manifest."""
    return {
        "schema": json.dumps(schema_json()),
        "schema-id": "0",
        "partition-spec": json.dumps(SPEC_FIELDS),
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }


def table_metadata(folder: Path, manifest_list: Path) -> dict[str, Any]:
    """Return the table metadata."""
    snapshot = snapshot_json(SNAPSHOT_ID, SEQUENCE_NUMBER, manifest_list, {})
    return metadata_of_one_snapshot(folder, snapshot, schema_json(), SPEC_FIELDS, uuid.UUID(int=1))


def snapshot_json(snapshot_id: int, sequence_number: int, manifest_list: Path, totals: Mapping[str, int]) -> dict[str, Any]:
    """Return a snapshot that appends everything; `totals` are fields of its summary."""
    return {
        "snapshot-id": snapshot_id,
        "sequence-number": sequence_number,
        "timestamp-ms": MOMENT_MS,
        "manifest-list": str(manifest_list),
        "summary": {"operation": "append", **{name: str(total) for name, total in totals.items()}},
        "schema-id": 0,
    }


def metadata_of_one_snapshot(
    folder: Path, snapshot: dict[str, Any], schema: dict[str, Any], spec_fields: list[dict[str, Any]], table_uuid: uuid.UUID
) -> dict[str, Any]:
    """Return table metadata of format version 2 with one snapshot, one schema and one partition spec."""
    return {
        "format-version": 2,
        "table-uuid": str(table_uuid),
        "location": str(folder),
        "last-sequence-number": snapshot["sequence-number"],
        "last-updated-ms": MOMENT_MS,
        "last-column-id": len(schema["fields"]),
        "schemas": [schema],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": spec_fields}],
        "default-spec-id": 0,
        "last-partition-id": max(spec_field["field-id"] for spec_field in spec_fields),
        "properties": {},
        "current-snapshot-id": snapshot["snapshot-id"],
        "snapshots": [snapshot],
        "snapshot-log": [{"timestamp-ms": MOMENT_MS, "snapshot-id": snapshot["snapshot-id"]}],
        "metadata-log": [],
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": snapshot["snapshot-id"], "type": "branch"}},
        "statistics": [],
        "partition-statistics": [],
    }
