"""Writing manifests: schema, summaries, counts, and refused entries."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from tests.spec.manifest.made_up_entries import BY_NAME, EVERY_PARTITION, NO_PARTITION, SNAPSHOT_ID, added, committed, data_file, written

from icefloe.errors import InvalidInputError, InvalidPropertyError, UnsupportedFormatVersionError
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_entries, read_manifest_header
from icefloe.spec.manifest.partition_summary import summarise
from icefloe.spec.manifest.partition_values import avro_name, decimal_width
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, PartitionFieldSummary
from icefloe.spec.types import DoubleType, IntegerType, NestedField, StringType, StructType, UUIDType
from icefloe.spec.values import to_bytes

EXISTING, ADDED, DELETED = ManifestEntryStatus


def avro_schema(format_version: int, partition_type: StructType = BY_NAME) -> dict[str, Any]:
    content, _ = written([], partition_type, format_version=format_version)
    schema: dict[str, Any] = json.loads(read_manifest_header(content, "f")["avro.schema"])
    return schema


def outline(record: dict[str, Any]) -> list[tuple[int, str, bool]]:
    """Field id, name, required."""
    return [(field["field-id"], field["name"], not isinstance(field["type"], list)) for field in record["fields"]]


FIELDS_OF_V2 = [
    (134, "content", True), (100, "file_path", True), (101, "file_format", True), (102, "partition", True), (103, "record_count", True),
    (104, "file_size_in_bytes", True), (108, "column_sizes", False), (109, "value_counts", False), (110, "null_value_counts", False),
    (137, "nan_value_counts", False), (125, "lower_bounds", False), (128, "upper_bounds", False), (131, "key_metadata", False),
    (132, "split_offsets", False), (135, "equality_ids", False), (140, "sort_order_id", False),
]  # fmt: skip
REFERENCED = (143, "referenced_data_file", False)
IN_PUFFIN = [(144, "content_offset", False), (145, "content_size_in_bytes", False)]


@pytest.mark.parametrize(
    ("version", "fields"), [(2, [*FIELDS_OF_V2, REFERENCED]), (3, [*FIELDS_OF_V2, (142, "first_row_id", False), REFERENCED, *IN_PUFFIN])]
)
def test_the_schema_has_the_names_ids_and_order_of_the_spec(version: int, fields: list[tuple[int, str, bool]]) -> None:
    schema = avro_schema(version)
    assert schema["name"] == "manifest_entry"
    assert outline(schema) == [
        (0, "status", True), (1, "snapshot_id", False), (3, "sequence_number", False), (4, "file_sequence_number", False), (2, "data_file", True),
    ]  # fmt: skip
    data_file_record = schema["fields"][-1]["type"]
    assert data_file_record["name"] == "r2"
    assert outline(data_file_record) == fields


def test_the_schema_of_version_1_has_a_block_size_and_no_sequence_numbers() -> None:
    schema = avro_schema(1)
    assert outline(schema) == [(0, "status", True), (1, "snapshot_id", True), (2, "data_file", True)]
    assert [field_id for field_id, _, _ in outline(schema["fields"][-1]["type"])] == [
        100, 101, 102, 103, 104, 105, 108, 109, 110, 137, 125, 128, 131, 132, 140,
    ]  # fmt: skip


def test_maps_and_lists_have_the_ids_of_their_elements() -> None:
    types = {field["name"]: field["type"] for field in avro_schema(2)["fields"][-1]["type"]["fields"]}
    parts = {}
    for name in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert types[name][1]["logicalType"] == "map"
        record = types[name][1]["items"]
        parts[record["name"]] = [(field["name"], field["type"], field["field-id"]) for field in record["fields"]]
    assert parts["k117_v118"] == [("key", "int", 117), ("value", "long", 118)]
    assert parts["k129_v130"] == [("key", "int", 129), ("value", "bytes", 130)]
    assert sorted(parts) == ["k117_v118", "k119_v120", "k121_v122", "k126_v127", "k129_v130", "k138_v139"]
    assert types["split_offsets"][1] == {"type": "array", "items": "long", "element-id": 133}
    assert types["equality_ids"][1] == {"type": "array", "items": "int", "element-id": 136}


def test_partition_values_have_the_avro_types_of_the_spec() -> None:
    record = next(
        field["type"] for field in avro_schema(2, EVERY_PARTITION)["fields"][-1]["type"]["fields"] if field["name"] == "partition"
    )
    assert record["name"] == "r102"
    typed = [field for field in record["fields"] if field["type"] != "null"]
    assert [field["name"] for field in record["fields"] if field not in typed] == ["part_x2016"]  # of type unknown
    assert all(field["type"][0] == "null" and field["default"] is None for field in typed)
    kinds = [field["type"][1] for field in typed]
    assert kinds[:5] == ["boolean", "int", "long", "float", "double"]
    assert kinds[5] == {"type": "int", "logicalType": "date"}
    assert kinds[6] == {"type": "long", "logicalType": "time-micros"}
    assert [kind["adjust-to-utc"] for kind in kinds[7:9]] == [False, True]
    assert kinds[9:11] == ["string", "bytes"]
    assert [(kind["name"], kind["size"]) for kind in kinds[11:] if "name" in kind] == [
        ("fixed_5", 5), ("uuid_fixed", 16), ("decimal_9_2", 4), ("decimal_38_10", 16),
    ]  # fmt: skip
    assert kinds[14:16] == [{"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": zone} for zone in (False, True)]
    assert (record["fields"][0]["name"], record["fields"][0]["iceberg-field-name"]) == ("part_x200", "part 0")


def test_two_partition_fields_of_one_named_type_make_a_schema_that_avro_accepts() -> None:
    twice = StructType(NestedField(1000, "a", UUIDType()), NestedField(1001, "b", UUIDType()))
    content, manifest = written([], twice)
    assert json.loads(read_manifest_header(content, "f")["avro.schema"])["name"] == "manifest_entry"
    assert read_entries(content, manifest, twice) == []


@pytest.mark.parametrize(("size", "precision"), [(1, 2), (2, 4), (4, 9), (5, 10), (8, 18), (9, 19), (16, 38)])
def test_decimals_are_written_in_the_fewest_bytes(size: int, precision: int) -> None:
    assert decimal_width(precision) == size


@pytest.mark.parametrize(
    ("name", "sanitised"),
    [
        ("day", "day"),
        ("_x", "_x"),
        ("9lives", "_9lives"),
        ("a b", "a_x20b"),
        ("a.b-c", "a_x2Eb_x2Dc"),
        ("1é", "_1_xE9"),
        ("😎", "_xD83D_xDE0E"),
    ],
)
def test_names_are_sanitised_as_java_does(name: str, sanitised: str) -> None:
    assert avro_name(name) == sanitised


def test_the_manifest_list_gets_counts_rows_and_the_least_sequence_number_of_live_entries() -> None:
    rows = [
        added(data_file("a", record_count=1)),
        added(data_file("b", record_count=2), sequence_number=6),
        ManifestEntry(EXISTING, 1, 4, 5, data_file("c", record_count=3)),
        ManifestEntry(DELETED, 1, 2, 2, data_file("d", record_count=4)),
    ]
    content, manifest = written(rows)
    assert manifest.manifest_length == len(content)
    assert (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count) == (2, 1, 1)
    assert (manifest.added_rows_count, manifest.existing_rows_count, manifest.deleted_rows_count) == (3, 3, 4)
    assert (manifest.sequence_number, manifest.min_sequence_number) == (UNASSIGNED_SEQ, 4)
    assert (manifest.partition_spec_id, manifest.added_snapshot_id, manifest.partitions) == (4, SNAPSHOT_ID, ())


@pytest.mark.parametrize("rows", [[added(data_file())], [ManifestEntry(DELETED, 1, 2, 2, data_file())], []])
def test_without_explicit_numbers_the_least_sequence_number_is_the_commits(rows: list[ManifestEntry]) -> None:
    assert written(rows)[1].min_sequence_number == UNASSIGNED_SEQ


def test_summaries_have_nulls_and_bounds_of_every_tuple() -> None:
    kind = StructType(NestedField(1000, "a", IntegerType()), NestedField(1001, "b", StringType()), NestedField(1002, "c", StringType()))
    summary = summarise(kind, {(3, "x", None), (-300, None, None), (7, "abc", None)})
    assert summary == (
        PartitionFieldSummary(False, False, to_bytes(IntegerType(), -300), to_bytes(IntegerType(), 7)),
        PartitionFieldSummary(True, False, b"abc", b"x"),
        PartitionFieldSummary(True, False, None, None),
    )


def test_summaries_leave_nan_out_of_the_bounds_and_take_the_wider_zero() -> None:
    kind = StructType(NestedField(1000, "a", DoubleType()))
    d = DoubleType()
    assert summarise(kind, [(math.nan,), (1.0,), (None,)]) == (PartitionFieldSummary(True, True, to_bytes(d, 1.0), to_bytes(d, 1.0)),)
    assert summarise(kind, [(math.nan,)]) == (PartitionFieldSummary(False, True, None, None),)
    assert summarise(kind, [(0.0,)]) == (PartitionFieldSummary(False, False, to_bytes(d, -0.0), to_bytes(d, 0.0)),)


def refused(entry: ManifestEntry, match: str, **others: Any) -> None:
    with pytest.raises(InvalidInputError, match=match):
        written([entry], **others)


def test_an_added_entry_may_not_have_a_file_sequence_number() -> None:
    refused(replace(added(data_file()), file_sequence_number=3), "f.parquet is ADDED with the file sequence number 3")


@pytest.mark.parametrize("status", [EXISTING, DELETED])
@pytest.mark.parametrize("missing", ["snapshot_id", "sequence_number", "file_sequence_number"])
def test_other_entries_must_have_all_their_numbers(status: ManifestEntryStatus, missing: str) -> None:
    entry = ManifestEntry(status, 1, 1, 1, data_file())
    refused(replace(entry, **{missing: None}), f"f.parquet is {status.name} and must carry")


def test_values_that_do_not_fit_name_the_file() -> None:
    refused(added(data_file(partition=("a", "b"))), "f.parquet", partition_type=BY_NAME)
    refused(added(data_file(partition=(5,))), "f.parquet", partition_type=BY_NAME)
    refused(added(data_file(record_count=2**70)), "f.parquet")


def test_data_and_deletes_do_not_mix() -> None:
    refused(added(data_file()), "either data or deletes", content=ManifestContent.DELETES)
    refused(added(data_file(content=FileContent.EQUALITY_DELETES, equality_ids=(1,))), "either data or deletes")


def test_a_delete_manifest_has_its_content_and_keeps_the_equality_ids() -> None:
    file = data_file(content=FileContent.EQUALITY_DELETES, equality_ids=(1, 2), spec_id=4)
    content, manifest = written([added(file)], content=ManifestContent.DELETES)
    assert (manifest.content, read_manifest_header(content, "f")["content"]) == (ManifestContent.DELETES, "deletes")
    assert read_entries(content, committed(manifest, 1), NO_PARTITION)[0].data_file == file


def test_versions_and_codecs_that_cannot_be_written_are_refused() -> None:
    with pytest.raises(UnsupportedFormatVersionError):
        written([], format_version=4)
    with pytest.raises(InvalidInputError, match="format version 1"):
        written([], format_version=1, content=ManifestContent.DELETES)
    with pytest.raises(InvalidPropertyError):
        written([], codec="lzma")
