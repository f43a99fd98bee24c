"""Sound files and documents to be damaged: written by this project's own writers, the same every time, and golden files of others where they are installed.

The golden data is kept beside the project. It takes part in the draw of seeds, so the same case number gives another input with golden data than without.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from tests.spec.manifest.made_up_entries import (
    EVERY_PARTITION,
    ONE_OF_EACH,
    SNAPSHOT_ID,
    added,
    committed,
    data_file,
    written,
)
from tests.spec.metadata.made_up_tables import with_snapshots
from tests.spec.puffin.test_theta_sketch import NOTHING, ONE, TWO, TWO_COMPRESSED

from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_equality_deletes, write_position_deletes
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.manifest_list.manifest_list_writer import write_manifest_list
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.puffin.deletion_vector import deletion_vector_blob, deletion_vector_from_positions, encode_deletion_vector
from icefloe.spec.puffin.puffin_file import Blob, write_puffin
from icefloe.spec.puffin.theta_hash import theta_hashes
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
DATA_FILE = "s3://b/t/data/f.parquet"


def golden(pattern: str, most_bytes: int = 60_000) -> list[bytes]:
    """Files of others, the small ones, in the order of their names; none where the golden data is not beside the checkout."""
    return [path.read_bytes() for path in sorted(GOLDEN.glob(pattern)) if path.stat().st_size <= most_bytes]


# ---- JSON ----

SCHEMA_JSON: dict[str, Any] = {
    "type": "struct",
    "schema-id": 1,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "a number"},
        {"id": 2, "name": "at", "required": False, "type": "timestamptz_ns", "initial-default": "2017-11-16T22:31:08.123456789+00:00"},
        {"id": 3, "name": "price", "required": True, "type": "decimal(9, 2)", "initial-default": "14.20", "write-default": "0.00"},
        {
            "id": 4,
            "name": "tags",
            "required": False,
            "type": {"type": "list", "element-id": 5, "element-required": True, "element": "string"},
        },
        {
            "id": 6,
            "name": "places",
            "required": False,
            "type": {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value-required": False, "value": "geometry(EPSG:4326)"},
        },
        {
            "id": 9,
            "name": "point",
            "required": False,
            "type": {"type": "struct", "fields": [{"id": 10, "name": "x", "required": False, "type": "double", "initial-default": 0.5}]},
            "initial-default": {},
            "write-default": {},
        },
        {"id": 11, "name": "any", "required": False, "type": "variant"},
        {"id": 12, "name": "nothing", "required": False, "type": "unknown"},
        {"id": 13, "name": "code", "required": False, "type": "fixed[4]", "write-default": "000102ff"},
        {"id": 14, "name": "globe", "required": False, "type": "geography(OGC:CRS84, karney)"},
        {"id": 15, "name": "key", "required": False, "type": "uuid", "write-default": "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
        {"id": 17, "name": "text", "required": False, "type": "string"},
        {"id": 18, "name": "flag", "required": False, "type": "boolean"},
        {"id": 16, "name": "day", "required": False, "type": "date", "initial-default": "2017-11-16"},
    ],
}
MAPPING_JSON = [
    {"field-id": 1, "names": ["id", "record_id"]},
    {"names": ["unmapped"]},
    {"field-id": 3, "names": ["location"], "fields": [{"field-id": 4, "names": ["lat", "a.b"]}, {"field-id": 5, "names": []}]},
    {"field-id": 6, "names": ["list"], "fields": [{"field-id": 7, "names": ["element"]}]},
]
EXPRESSIONS_JSON: list[Any] = [
    True,
    {"type": "and", "left": {"type": "eq", "term": "id", "value": 5}, "right": {"type": "not", "child": {"type": "is-null", "term": "at"}}},
    {
        "type": "or",
        "left": {"type": "in", "term": "text", "values": ["a", "b"]},
        "right": {"type": "starts-with", "term": "text", "value": "x"},
    },
    {"type": "gt", "term": {"type": "reference", "name": "price"}, "value": "14.20"},
    {"type": "lt-eq", "term": "at", "value": "2017-11-16T22:31:08.123456789+00:00"},
    {"type": "not-in", "term": "id", "values": [1, 2, 3]},
    {"type": "is-nan", "term": "point.x"},
]
FILTERS = [
    b"text = 'c8y_Event' AND at >= TIMESTAMP '2024-03-01 10:00:00+00:00'",
    b"id IN (1, 2, 3) OR NOT (price BETWEEN 1.5 AND 2e3)",
    b"\"code\" = X'00FF0102' AND point.x IS NOT NAN",
    b"text NOT LIKE 'x%' AND day <=> NULL OR flag IS NOT TRUE",
    b"CAST('NaN' AS DOUBLE) < point.x AND `id` != -5",
]
VIEW_JSON: dict[str, Any] = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://bucket/v",
    "current-version-id": 2,
    "properties": {"comment": "counts", "version.history.num-entries": "5"},
    "versions": [
        {
            "version-id": number,
            "timestamp-ms": 1573518431292 + number,
            "schema-id": 1,
            "default-catalog": "prod",
            "default-namespace": ["default", "a"],
            "summary": {"engine-name": "Spark"},
            "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}, {"type": "other", "x": [1]}],
        }
        for number in (1, 2)
    ],
    "schemas": [SCHEMA_JSON],
    "version-log": [{"timestamp-ms": 1573518431293, "version-id": 1}, {"timestamp-ms": 1573518431294, "version-id": 2}],
    "later": {"key": [None]},
}


def encoded(*documents: Any) -> list[bytes]:
    """Documents as JSON."""
    return [json.dumps(document).encode() for document in documents]


def _rich_metadata() -> dict[str, Any]:
    """A v3 table that has every key there is."""
    document: dict[str, Any] = json.loads(write_table_metadata(with_snapshots(3, 3)))
    partitions = [
        {"source-id": 2, "field-id": 1000, "name": "at_day", "transform": "day"},
        {"source-id": 1, "field-id": 1001, "name": "id_bucket", "transform": "bucket[16]"},
        {"source-ids": [1, 3], "field-id": 1002, "name": "both", "transform": "zorder[2]"},
    ]
    keys = [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}]
    statistics = {"snapshot-id": 3, "statistics-path": "memory://t/s.puffin", "file-size-in-bytes": 100, "file-footer-size-in-bytes": 40}
    blob = {"type": "apache-datasketches-theta-v1", "snapshot-id": 3, "sequence-number": 3, "fields": [1], "properties": {"ndv": "3"}}
    return document | {
        "schemas": [*document["schemas"], SCHEMA_JSON],
        "current-schema-id": 1,
        "last-column-id": 18,
        "partition-specs": [*document["partition-specs"], {"spec-id": 1, "fields": partitions}],
        "last-partition-id": 1002,
        "sort-orders": [*document["sort-orders"], {"order-id": 1, "fields": keys}],
        "properties": {"write.format.default": "orc", "schema.name-mapping.default": json.dumps(MAPPING_JSON)},
        "refs": document["refs"] | {"gold": {"snapshot-id": 2, "type": "tag", "max-ref-age-ms": 10}},
        "statistics": [statistics | {"blob-metadata": [blob]}],
        "partition-statistics": [{"snapshot-id": 3, "statistics-path": "memory://t/p.parquet", "file-size-in-bytes": 9}],
        "encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "aWNlYmVyZwo=", "encrypted-by-id": "m", "properties": {"a": "b"}}],
        "later": [1, {"x": None}],
    }


def metadata_files() -> list[bytes]:
    """Table metadata of every version, and of others."""
    own = [write_table_metadata(with_snapshots(count, version)) for version in (1, 2, 3) for count in (0, 2)]
    return [*own, *encoded(_rich_metadata()), *golden("table-metadata/*.json")]


def updates() -> list[bytes]:
    """Updates and requirements of the REST catalog."""
    return encoded(
        {"action": "add-schema", "schema": SCHEMA_JSON, "last-column-id": 20},
        {"action": "add-spec", "spec": _rich_metadata()["partition-specs"][1]},
        {"action": "add-sort-order", "sort-order": _rich_metadata()["sort-orders"][1]},
        {"action": "add-snapshot", "snapshot": _rich_metadata()["snapshots"][0]},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5, "min-snapshots-to-keep": 2},
        {"action": "set-properties", "updates": {"a": "b"}},
        {"action": "set-statistics", "statistics": _rich_metadata()["statistics"][0]},
        {"action": "add-encryption-key", "encryption-key": _rich_metadata()["encryption-keys"][0]},
        {"action": "remove-snapshots", "snapshot-ids": [1, 2]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
        {"type": "assert-table-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    )


# ---- Avro ----


def _files(content: ManifestContent, version: int) -> Iterator[ManifestEntry]:
    """A few entries of each status, with every kind of partition value and statistics."""
    measured = data_file(
        partition=ONE_OF_EACH,
        column_sizes={1: 40, 2: 50},
        value_counts={1: 10, 2: 10},
        null_value_counts={1: 0, 2: 3},
        nan_value_counts={1: 0},
        lower_bounds={1: b"\x01" + b"\x00" * 7, 2: b"a"},
        upper_bounds={1: b"\x09" + b"\x00" * 7, 2: b"z" * 16},
        split_offsets=(4, 2**33),
        key_metadata=None,
        sort_order_id=0,
        spec_id=4,
    )
    nulls = replace(measured, file_path="s3://b/t/data/g.orc", file_format=FileFormat.ORC, partition=(None,) * len(ONE_OF_EACH))
    if content is ManifestContent.DELETES:
        keys = replace(measured, content=FileContent.EQUALITY_DELETES, equality_ids=(1, 2))
        by_place = replace(nulls, content=FileContent.POSITION_DELETES, referenced_data_file=DATA_FILE, sort_order_id=None)
        place = {"file_format": FileFormat.PUFFIN, "content_offset": 4, "content_size_in_bytes": 50}
        bits = replace(by_place, **place) if version > 2 else by_place
        measured, nulls = keys, bits
    yield added(measured)
    yield added(nulls, None if version == 1 else 3)
    numbers = (SNAPSHOT_ID, 2, 2) if version > 1 else (SNAPSHOT_ID, None, None)
    for status in (ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED):
        for name in ("h", "i"):
            yield ManifestEntry(status, *numbers, replace(measured, file_path=f"s3://b/t/data/{name}.parquet"))


@cache
def manifests() -> tuple[tuple[bytes, ManifestFile], ...]:
    """Manifests of every version, content and codec, each as its list has it but without the counts and the length that damage would contradict."""
    kinds = [(1, ManifestContent.DATA), *((version, content) for version in (2, 3) for content in ManifestContent)]
    made = [
        written(list(_files(content, version)), EVERY_PARTITION, format_version=version, content=content, codec=codec)
        for version, content in kinds
        for codec in (("null", "deflate", "snappy", "zstandard") if version == 3 else ("null",))
    ]
    return tuple((content, committed(manifest, 7, first_row_id=100 if manifest.content == 0 else None)) for content, manifest in made)


def manifest_lists() -> list[bytes]:
    """Return manifest lists of every version and codec, and golden ones of other writers."""
    summaries = (PartitionFieldSummary(True, False, b"\x01\x00\x00\x00", b"\x09\x00\x00\x00"), PartitionFieldSummary(False))
    contents = []
    for version in (1, 2, 3):
        listed = []
        for _, manifest in manifests()[:2] if version == 1 else manifests()[1:6]:
            row_id = 100 if version == 3 and manifest.content is ManifestContent.DATA else None
            listed.append(replace(manifest, partitions=summaries, key_metadata=b"k" if version == 2 else None, first_row_id=row_id))
        if version == 1:
            listed = [replace(manifest, sequence_number=0, min_sequence_number=0, content=ManifestContent.DATA) for manifest in listed]
        for codec in ("null", "deflate", "snappy", "zstandard"):
            row_id = 100 if version == 3 else None
            context: dict[str, Any] = {"format_version": version, "snapshot_id": 9, "parent_snapshot_id": 8, "first_row_id": row_id}
            contents.append(write_manifest_list(listed, sequence_number=0 if version == 1 else 7, codec=codec, **context))
    return contents + golden("manifest-lists/*")


# ---- Puffin ----

_POSITIONS = [[], [1, 3, 5, 7, 9], list(range(5000)), list(range(0, 40_000, 7)), [0, 2**32 + 5, 2**40, 2**62], list(range(70_000))]


def vectors() -> list[bytes]:
    """Deletion vectors of arrays, bitsets, runs and several keys."""
    return [encode_deletion_vector(deletion_vector_from_positions(positions)) for positions in _POSITIONS]


def puffin_files() -> list[bytes]:
    """Puffin files with plain footers: of vectors, and of blobs of each codec."""
    bits = [deletion_vector_blob(deletion_vector_from_positions(positions), DATA_FILE) for positions in _POSITIONS[1:3]]
    others = [
        Blob(
            type="apache-datasketches-theta-v1",
            fields=(1, 2),
            snapshot_id=5,
            sequence_number=1,
            data=bytes(range(200)) * 9,
            compression_codec=codec,
        )
        for codec in (None, "lz4", "zstd")
    ]
    files = [write_puffin(blobs, properties={"created-by": "fuzz"})[0] for blobs in ([], bits, others, [*bits, *others])]
    return files + golden("puffin/**/*uncompressed*.bin")


def sketches() -> list[bytes]:
    """Theta sketches as written here, and as Apache DataSketches writes them, plain and compressed."""
    numbers = np.arange(9000, dtype="<i8").view(np.uint8).reshape(-1, 8)
    own = [EMPTY_SKETCH.with_hashes(theta_hashes(numbers[:count])).to_bytes() for count in (3, 9000)]
    return [*own, *(bytes.fromhex(text) for text in (NOTHING, ONE, TWO, TWO_COMPRESSED))]


def packed_puffin_files() -> list[bytes]:
    """Puffin files whose footers are compressed, whose damage is damage of LZ4 frames."""
    bits = [deletion_vector_blob(deletion_vector_from_positions(positions), DATA_FILE) for positions in _POSITIONS[:4]]
    return [write_puffin(bits, properties={"created-by": "fuzz"}, compress_footer=True)[0]]


# ---- data files ----

ROWS_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "tags", ListType(element_id=5, element=StringType(), element_required=False)),
    NestedField(6, "places", MapType(key_id=7, key_type=StringType(), value_id=8, value_type=DoubleType(), value_required=False)),
    NestedField(9, "point", StructType(NestedField(10, "x", DoubleType()), NestedField(11, "flag", BooleanType()))),
    NestedField(12, "at", TimestamptzType()),
    NestedField(13, "day", DateType()),
    NestedField(14, "key", UUIDType()),
    NestedField(15, "code", FixedType(4)),
    NestedField(16, "small", IntegerType()),
)


def _rows() -> Any:
    rows = [
        {
            "id": number,
            "name": None if number % 3 == 0 else f"row {number}",
            "price": Decimal(number).scaleb(-2),
            "tags": ["a", None][: number % 3],
            "places": [("home", 0.5)] if number % 2 else None,
            "point": {"x": float("nan"), "flag": True} if number % 4 else None,
            "at": 10**15 + number,
            "day": number,
            "key": UUID(int=number).bytes,
            "code": number.to_bytes(4, "big"),
            "small": -number,
        }
        for number in range(60)
    ]
    return pa.Table.from_pylist(rows, schema=schema_to_arrow(ROWS_SCHEMA))


@cache
def rows_files() -> tuple[tuple[bytes, DataFile], ...]:
    """Return the bytes and the manifest entry of a data file in each format, an equality delete file and a position delete file."""
    files = []
    with tempfile.TemporaryDirectory() as folder:
        target = WriteTarget(table_name="t", schema=ROWS_SCHEMA, data_location=folder, io=LocalFileIO(), operation_uuid="fuzz")
        for name, codec in (("parquet", "uncompressed"), ("parquet", "zstd"), ("orc", "none"), ("avro", "uncompressed"), ("avro", "zstd")):
            key = f"write.{name}.compression-codec"
            with_codec = replace(target, properties={"write.format.default": name, key: codec}, operation_uuid=f"fuzz-{codec}")
            files += write_batches(with_codec, _rows().to_batches(), partition_id=0, task_id=0)
        keys = _rows().select(["id", "name"]).slice(3, 9).to_batches()
        files += write_equality_deletes(target, keys, [1, 2], partition_id=1, task_id=0).added
        rows_to_delete = RowsToDelete(file=files[0], positions=deletion_vector_from_positions([1, 5, 9]).positions())
        specs = {UNPARTITIONED_SPEC.spec_id: UNPARTITIONED_SPEC}
        files += write_position_deletes(target, [rows_to_delete], specs=specs, partition_id=2, task_id=0, file_scoped=False).added
        return tuple((Path(file.file_path).read_bytes(), file) for file in files)
