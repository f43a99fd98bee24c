"""Reading manifests of other writers, of v1, and damaged ones."""

import io
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.spec.manifest.made_up_entries import BY_NAME, NO_PARTITION, SNAPSHOT_ID, added, committed, data_file, written

from icefloe.errors import AvroFormatError, ManifestFormatError
from icefloe.spec.avro.avro_container import open_container, raw_blocks
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.inheritance import Origin, inherit_sequence_numbers, inherited_sequence_number
from icefloe.spec.manifest.manifest_reader import fill_counts, read_columns, read_entries, read_manifest_header, read_many_columns
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.types import DateType, IntegerType, LongType, NestedField, StringType, StructType

EXISTING, ADDED, DELETED = ManifestEntryStatus


def manifest_of(content: bytes, **others: Any) -> ManifestFile:
    return ManifestFile(manifest_path="dir/m0.avro", manifest_length=len(content), partition_spec_id=0, added_snapshot_id=55, **others)


def field(name: str, kind: Any, field_id: int | None) -> dict[str, Any]:
    return {"name": name, "type": kind} | ({} if field_id is None else {"field-id": field_id})


def foreign(file_fields: list[tuple[dict[str, Any], Any]], head: list[tuple[dict[str, Any], Any]], *, ids: bool = True) -> bytes:
    """Return a manifest of one entry, written by another library with exactly these fields in this order."""
    record = {"type": "record", "name": "other_name", "fields": [schema for schema, _ in file_fields]}
    schema = {"type": "record", "name": "entry", "fields": [*(s for s, _ in head), field("data_file", record, 2 if ids else None)]}
    row = {s["name"]: value for s, value in head} | {"data_file": {s["name"]: value for s, value in file_fields}}
    file = io.BytesIO()
    fastavro.writer(file, schema, [row])
    return file.getvalue()


FILE_FIELDS = [
    (field("bytes_of_file", "long", 104), 1000),
    (field("unknown", {"type": "array", "items": "string", "element-id": 901}, 900), ["x", "y"]),
    (field("rows", "int", 103), 10),
    (field("format_of_file", "string", 101), "parquet"),
    (field("tuple", {"type": "record", "name": "p", "fields": [field("p", ["int", "null"], 1000)]}, 102), {"p": 7}),
    (field("where", "string", 100), "f.parquet"),
]


def test_fields_are_found_by_id_regardless_of_name_and_order() -> None:
    content = foreign(FILE_FIELDS, [(field("s", "int", 0), 1), (field("n", ["null", "long"], 1), None)])
    partition_type = StructType(NestedField(1000, "p", LongType()), NestedField(1001, "added_later", StringType()))
    (entry,) = read_entries(content, manifest_of(content, sequence_number=3), partition_type)
    assert entry == ManifestEntry(ADDED, 55, 3, 3, data_file(partition=(7, None)))
    (row,) = read_columns(content, manifest_of(content, sequence_number=3), partition_type).entries.to_pylist()
    assert (row["file_path"], row["file_format"], row["partition.1000"], row["partition.1001"]) == ("f.parquet", "PARQUET", 7, None)
    assert (row["content"], row["split_offsets"], row["sequence_number"]) == (0, None, 3)


def test_a_day_that_is_written_as_a_plain_int_is_a_date() -> None:
    partition = {"type": "record", "name": "r102", "fields": [field("day", ["null", "int"], 1000)]}
    fields = [(field("part", partition, 102), {"day": 17_486}) if s["field-id"] == 102 else (s, v) for s, v in FILE_FIELDS]
    content = foreign(fields, [(field("s", "int", 0), 1)])
    partition_type = StructType(NestedField(1000, "day", DateType()))
    (entry,) = read_entries(content, manifest_of(content, sequence_number=3), partition_type)
    assert entry.data_file.partition == (17_486,)
    columns = read_columns(content, manifest_of(content, sequence_number=3), partition_type)
    assert columns.entries.column("partition.1000").to_pylist() == [17_486]


def test_fields_of_a_writer_without_ids_are_found_by_name() -> None:
    fields = [("file_path", "string", "f.parquet"), ("file_format", "string", "PARQUET"), ("record_count", "long", 10)]
    fields += [("file_size_in_bytes", "long", 1000)]
    content = foreign([(field(name, kind, None), value) for name, kind, value in fields], [(field("status", "int", None), 0)], ids=False)
    (entry,) = read_entries(content, manifest_of(content), NO_PARTITION)
    assert entry == ManifestEntry(EXISTING, 55, 0, 0, data_file())


def test_a_missing_required_field_is_an_error_that_names_it() -> None:
    content = foreign(FILE_FIELDS[:-1], [(field("s", "int", 0), 1)])
    with pytest.raises(AvroFormatError, match=r"dir/m0\.avro.*lacks field 100 \(file_path\)"):
        read_columns(content, manifest_of(content), NO_PARTITION)


def both(content: bytes, manifest: ManifestFile, partition_type: StructType = NO_PARTITION) -> list[Any]:
    return [lambda: read_columns(content, manifest, partition_type), lambda: read_entries(content, manifest, partition_type)]


def test_a_null_in_a_required_field_is_an_error_that_names_it() -> None:
    fields = [
        (s if s["name"] != "where" else field("where", ["null", "string"], 100), None if s["name"] == "where" else v)
        for s, v in FILE_FIELDS
    ]
    content = foreign(fields, [(field("s", "int", 0), 1)])
    for read in both(content, manifest_of(content)):
        with pytest.raises(ManifestFormatError, match=r"file_path: is null"):
            read()


def test_an_unknown_status_is_refused() -> None:
    content = foreign(FILE_FIELDS, [(field("s", "int", 0), 3)])
    with pytest.raises(ManifestFormatError, match=r"dir/m0\.avro.*\n.*status: is 3"):
        read_columns(content, manifest_of(content), NO_PARTITION)
    with pytest.raises(ManifestFormatError):
        read_entries(content, manifest_of(content), NO_PARTITION)


def test_a_partition_value_of_another_type_is_refused() -> None:
    content = foreign(FILE_FIELDS, [(field("s", "int", 0), 1)])
    for read in both(content, manifest_of(content), StructType(NestedField(1000, "p", StringType()))):
        with pytest.raises(ManifestFormatError, match=r"dir/m0\.avro"):
            read()


def test_a_partition_value_beyond_its_type_is_refused() -> None:
    content, manifest = written([added(data_file(partition=(2**40,)))], StructType(NestedField(1000, "p", LongType())))
    with pytest.raises(ManifestFormatError, match=r"partition\.1000: a value does not fit int32"):
        read_columns(content, manifest, StructType(NestedField(1000, "p", IntegerType())))


@pytest.mark.parametrize("field_name", ["added_files_count", "existing_files_count", "deleted_files_count"])
def test_another_number_of_entries_than_in_the_manifest_list_is_an_error(field_name: str) -> None:
    content, manifest = written([added(data_file()), added(data_file("g.parquet"))])
    for read in both(content, replace(manifest, **{field_name: 1})):
        with pytest.raises(ManifestFormatError, match="the manifest list counts 1"):
            read()


def test_a_file_cut_at_the_end_of_a_block_is_an_error_even_where_the_list_has_no_counts() -> None:
    content, manifest = written([added(data_file(f"{n}.parquet")) for n in range(5_000)])
    unknown = replace(manifest, added_files_count=None, existing_files_count=None, deleted_files_count=None)
    cut = content[: next(raw_blocks(open_container(content, "f"))).end + 16]
    for read in both(cut, unknown):
        with pytest.raises(AvroFormatError, match=rf"cut short: it has {len(cut)} bytes, its manifest list states {len(content)}"):
            read()


def test_every_prefix_of_a_manifest_is_refused() -> None:
    content, manifest = written([added(data_file(lower_bounds={1: b"x"}))])
    for length in range(0, len(content), 7):
        for read in both(content[:length], replace(manifest, manifest_length=0)):
            with pytest.raises((AvroFormatError, ManifestFormatError), match=r"made-up-m0\.avro"):
                read()


def test_numbers_are_inherited_by_added_entries_only() -> None:
    statuses = pa.array([0, 1, 1, 2], pa.int32())
    numbers = pa.array([None, None, 4, None], pa.int64())
    manifest = manifest_of(b"", sequence_number=9)
    assert inherit_sequence_numbers(statuses, numbers, Origin([manifest], [4])).to_pylist() == [None, 9, 4, None]
    pairs = zip(statuses.to_pylist(), numbers.to_pylist(), strict=True)
    assert [inherited_sequence_number(status, number, manifest) for status, number in pairs] == [None, 9, 4, None]


def test_entries_of_v1_manifests_have_sequence_number_0() -> None:
    statuses = pa.array([0, 1, 2], pa.int32())
    numbers = pa.nulls(3, pa.int64())
    assert inherit_sequence_numbers(statuses, numbers, Origin([manifest_of(b"")], [3])).to_pylist() == [0, 0, 0]
    assert [inherited_sequence_number(status, None, manifest_of(b"")) for status in range(3)] == [0, 0, 0]


def test_an_explicit_older_sequence_number_of_an_added_file_stays() -> None:
    content, manifest = written([added(data_file(), sequence_number=2)])
    (entry,) = read_entries(content, committed(manifest, 8), NO_PARTITION)
    assert (entry.sequence_number, entry.file_sequence_number) == (2, 8)


def test_counts_that_a_v1_list_left_out_are_counted() -> None:
    rows = [
        added(data_file()),
        ManifestEntry(EXISTING, 1, 1, 1, data_file("g", record_count=5)),
        ManifestEntry(DELETED, 1, 1, 1, data_file("h")),
    ]
    content, manifest = written(rows)
    counts = (
        "added_files_count",
        "existing_files_count",
        "deleted_files_count",
        "added_rows_count",
        "existing_rows_count",
        "deleted_rows_count",
    )
    unknown = replace(manifest, **dict.fromkeys(counts))
    assert fill_counts(content, unknown) == manifest
    assert fill_counts(b"not even looked at", manifest) is manifest


def test_the_header_has_the_keys_that_the_spec_requires() -> None:
    content, _ = written([added(data_file(partition=("a",)))], BY_NAME)
    header = read_manifest_header(content, "f")
    assert {key: header[key] for key in header if key != "avro.schema"} == {
        "schema": '{"type":"struct","schema-id":3,"fields":[]}',
        "schema-id": "3",
        "partition-spec": "[]",
        "partition-spec-id": "4",
        "format-version": "2",
        "content": "data",
        "avro.codec": "deflate",
    }


def test_the_snapshot_id_of_the_commit_is_written_where_an_entry_has_none() -> None:
    content, _ = written([added(data_file())])
    (found,) = fastavro.reader(io.BytesIO(content))
    assert (found["snapshot_id"], found["sequence_number"], found["file_sequence_number"]) == (SNAPSHOT_ID, None, None)


def test_the_damaged_manifest_among_many_is_named() -> None:
    content, manifest = written([added(data_file())])
    wrong_count = replace(committed(manifest, 3), manifest_path="b.avro", added_files_count=2)
    torn = {"a.avro": content, "b.avro": content, "c.avro": content[:-20] + bytes(4) + content[-16:]}
    for path, bad in (("b.avro", wrong_count), ("c.avro", replace(committed(manifest, 3), manifest_path="c.avro"))):
        manifests = [replace(committed(manifest, 3), manifest_path="a.avro"), bad]
        with pytest.raises((AvroFormatError, ManifestFormatError), match=path):
            read_many_columns(manifests, torn.__getitem__, NO_PARTITION)


def test_the_manifest_with_a_wrong_value_among_many_is_named() -> None:
    contents, manifests = {}, []
    for path, value in (("a.avro", 1), ("b.avro", 2**40), ("c.avro", 2)):
        contents[path], manifest = written([added(data_file(partition=(value,)))], StructType(NestedField(1000, "p", LongType())))
        manifests.append(replace(committed(manifest, 3), manifest_path=path))
    with pytest.raises(ManifestFormatError, match=r"the manifest b\.avro violates") as caught:
        read_many_columns(manifests, contents.__getitem__, StructType(NestedField(1000, "p", IntegerType())))
    assert caught.value.path == "b.avro"


def test_limits_exceeded_only_by_the_sum_of_manifests_are_no_error() -> None:
    files = [
        written([added(data_file(record_count=2**62))], format_version=3),
        written([added(data_file(record_count=2**62))], format_version=3),
    ]
    manifests = [replace(committed(line, 3), manifest_path=str(place), first_row_id=place) for place, (_, line) in enumerate(files)]
    found, counts = read_many_columns(manifests, lambda path: files[int(path)][0], NO_PARTITION)
    assert (found.entries["first_row_id"].to_pylist(), list(counts)) == ([0, 1], [1, 1])
