"""Manifest lists: read from any writer, written, and appended to without decoding the old list."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import AvroFormatError, InvalidInputError, ManifestFormatError, UnsupportedFormatVersionError
from icefloe.spec.avro.avro_container import open_container, raw_blocks
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.manifest_list.manifest_list_reader import read_manifest_list
from icefloe.spec.manifest_list.manifest_list_writer import append_to_manifest_list, write_manifest_list

LONGS = st.integers(0, 2**63 - 1)
COUNTS = st.integers(0, 2**31 - 1)
SUMMARIES = st.builds(
    PartitionFieldSummary, st.booleans(), st.none() | st.booleans(), st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=20)
)


def manifests(version: int) -> st.SearchStrategy[list[ManifestFile]]:
    since_v2 = {"content": st.sampled_from(ManifestContent), "sequence_number": LONGS, "min_sequence_number": LONGS} if version > 1 else {}
    count = COUNTS if version > 1 else st.none() | COUNTS

    def with_row_id(manifest: ManifestFile, row_id: int) -> ManifestFile:
        return replace(manifest, first_row_id=row_id) if version > 2 and manifest.content == ManifestContent.DATA else manifest

    manifests = st.builds(
        ManifestFile,
        manifest_path=st.text(max_size=90),
        manifest_length=LONGS,
        partition_spec_id=st.integers(0, 9),
        added_snapshot_id=LONGS,
        added_files_count=count,
        existing_files_count=count,
        deleted_files_count=count,
        added_rows_count=count,
        existing_rows_count=count,
        deleted_rows_count=count,
        partitions=st.none() | st.lists(SUMMARIES, max_size=3).map(tuple),
        key_metadata=st.none() | st.binary(max_size=9),
        **since_v2,  # type: ignore[arg-type]
    )
    return st.lists(st.builds(with_row_id, manifests, LONGS), max_size=4)


def manifest(number: int, **changes: Any) -> ManifestFile:
    template = ManifestFile(
        manifest_path=f"s3://bucket/table/metadata/0b9f8a52-0000-4000-8000-{number:012d}-m0.avro",
        manifest_length=5_000 + number,
        partition_spec_id=0,
        sequence_number=number,
        min_sequence_number=number,
        added_snapshot_id=10**18 + number,
        added_files_count=1,
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=10,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=(PartitionFieldSummary(False, False, b"\x01\x00\x00\x00", b"\x02\x00\x00\x00"),),
    )
    return replace(template, **changes)


def written(rows: list[ManifestFile], version: int = 2, **others: Any) -> bytes:
    head = {"snapshot_id": 77, "parent_snapshot_id": None, "sequence_number": 9, "first_row_id": 40} | others
    return write_manifest_list(rows, format_version=version, **head)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_manifests_survive_writing_and_another_library_reads_the_same(version: int) -> None:
    @settings(max_examples=examples(40))
    @given(manifests(version))
    def check(rows: list[ManifestFile]) -> None:
        content = written(rows, version)
        assert read_manifest_list(content, "f") == rows
        for row, other in zip(rows, fastavro.reader(io.BytesIO(content)), strict=True):
            partitions = other.pop("partitions")
            assert other == {name: getattr(row, name) for name in other}
            icefloe_summaries = (
                None
                if row.partitions is None
                else [(s.contains_null, s.contains_nan, s.lower_bound, s.upper_bound) for s in row.partitions]
            )
            assert (None if partitions is None else [tuple(summary.values()) for summary in partitions]) == icefloe_summaries

    check()


@pytest.mark.parametrize(("version", "last"), [(2, []), (3, [(520, "first_row_id")])])
def test_the_schema_has_the_names_ids_and_order_of_the_spec(version: int, last: list[tuple[int, str]]) -> None:
    schema = json.loads(open_container(written([], version), "f").schema_text)
    assert schema["name"] == "manifest_file"
    ids = [field["field-id"] for field in schema["fields"]]
    assert ids == [500, 501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514, 507, 519, *(field_id for field_id, _ in last)]
    assert [field["name"] for field in schema["fields"]][6:13] == [
        "added_snapshot_id", "added_files_count", "existing_files_count", "deleted_files_count", "added_rows_count", "existing_rows_count",
        "deleted_rows_count",
    ]  # fmt: skip
    optional = [field["name"] for field in schema["fields"] if isinstance(field["type"], list)]
    assert optional == ["partitions", "key_metadata", *(name for _, name in last)]
    partitions = schema["fields"][13]["type"][1]
    assert (partitions["element-id"], partitions["items"]["name"]) == (508, "r508")
    assert [(field["field-id"], field["name"]) for field in partitions["items"]["fields"]] == [
        (509, "contains_null"), (518, "contains_nan"), (510, "lower_bound"), (511, "upper_bound"),
    ]  # fmt: skip


def test_the_schema_of_version_1_has_no_content_and_no_sequence_numbers_and_optional_counts() -> None:
    schema = json.loads(open_container(written([], 1), "f").schema_text)
    assert [field["field-id"] for field in schema["fields"]] == [500, 501, 502, 503, 504, 505, 506, 512, 513, 514, 507, 519]
    assert [isinstance(field["type"], list) for field in schema["fields"]] == [False] * 4 + [True] * 8


@pytest.mark.parametrize(("version", "more"), [(1, {}), (2, {"sequence-number": "9"}), (3, {"sequence-number": "9", "first-row-id": "40"})])
@pytest.mark.parametrize(("parent", "text"), [(None, "null"), (5, "5")])
def test_the_header_contains_the_snapshot(version: int, more: dict[str, str], parent: int | None, text: str) -> None:
    metadata = open_container(written([], version, parent_snapshot_id=parent), "f").metadata
    header = {key: value.decode() for key, value in metadata.items() if not key.startswith("avro.")}
    assert header == {"snapshot-id": "77", "parent-snapshot-id": text, "format-version": str(version), **more}


def test_the_sequence_number_of_the_commit_replaces_unassigned_ones() -> None:
    new = manifest(1, sequence_number=UNASSIGNED_SEQ, min_sequence_number=UNASSIGNED_SEQ, added_snapshot_id=77)
    with_old_rows = replace(new, min_sequence_number=3)
    manifests = read_manifest_list(written([new, with_old_rows, manifest(2)]), "f")
    assert [(m.sequence_number, m.min_sequence_number) for m in manifests] == [(9, 9), (9, 3), (2, 2)]


def test_an_unassigned_number_of_another_snapshot_s_manifest_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="snapshot 5 added it, not 77"):
        written([manifest(1, sequence_number=UNASSIGNED_SEQ, added_snapshot_id=5)])


def test_values_that_a_format_version_lacks_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="unknown counts"):
        written([manifest(1, added_rows_count=None)])
    with pytest.raises(InvalidInputError, match="format version 1"):
        written([manifest(1, content=ManifestContent.DELETES)], 1)
    with pytest.raises(UnsupportedFormatVersionError):
        written([], 4)


def foreign(fields: list[tuple[str, Any, int | None, Any]]) -> bytes:
    schema = [{"name": name, "type": kind} | ({} if i is None else {"field-id": i}) for name, kind, i, _ in fields]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "m", "fields": schema}, [{name: value for name, _, _, value in fields}])
    return file.getvalue()


OLD_NAMES: list[tuple[str, Any, int | None, Any]] = [
    ("deleted_data_files_count", ["null", "int"], 506, 3),
    ("manifest_path", "string", 500, "m.avro"),
    ("first_row_id", ["null", "long"], 520, 5),
    ("added_data_files_count", ["null", "int"], 504, 1),
    ("manifest_length", "long", 501, 10),
    ("partition_spec_id", "int", 502, 0),
    ("added_snapshot_id", ["null", "long"], 503, 8),
    ("existing_data_files_count", ["int", "null"], 505, 2),
]


@pytest.mark.parametrize("with_ids", [True, False])
def test_old_names_of_v1_lists_are_read_with_and_without_field_ids(with_ids: bool) -> None:
    content = foreign([(name, kind, i if with_ids else None, value) for name, kind, i, value in OLD_NAMES])
    assert read_manifest_list(content, "f") == [
        ManifestFile(
            manifest_path="m.avro",
            manifest_length=10,
            partition_spec_id=0,
            added_snapshot_id=8,
            added_files_count=1,
            existing_files_count=2,
            deleted_files_count=3,
            first_row_id=5,
        )
    ]


def test_an_unknown_count_means_that_files_may_exist() -> None:
    unknown = manifest(1, added_files_count=None, existing_files_count=0, deleted_files_count=None)
    assert (unknown.has_added_files, unknown.has_existing_files, unknown.has_deleted_files, unknown.has_live_files) == (
        True,
        False,
        True,
        True,
    )
    assert not replace(unknown, added_files_count=0).has_live_files


def test_an_invalid_value_is_listed_with_the_position_of_its_manifest() -> None:
    null_id = [field if field[2] != 503 else (*field[:3], None) for field in OLD_NAMES]
    with pytest.raises(ManifestFormatError, match=r"dir/snap\.avro.*\n.*manifest 0: added_snapshot_id is null"):
        read_manifest_list(foreign(null_id), "dir/snap.avro")
    with pytest.raises(ManifestFormatError, match="content is 2"):
        read_manifest_list(foreign([*OLD_NAMES, ("content", "int", 517, 2)]), "dir/snap.avro")


def test_every_prefix_of_a_list_is_refused() -> None:
    content = written([manifest(number) for number in range(3)])
    whole = open_container(content, "f").body_start
    for length in set(range(0, len(content), 3)) - {whole}:
        with pytest.raises(AvroFormatError, match=r"dir/snap\.avro"):
            read_manifest_list(content[:length], "dir/snap.avro")


def appended(content: bytes, new: list[ManifestFile], version: int = 2, codec: str = "deflate") -> bytes:
    return append_to_manifest_list(
        content, "old.avro", new, format_version=version, snapshot_id=77, parent_snapshot_id=76, sequence_number=9, codec=codec
    )


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("codec", ["deflate", "null", "zstd", "snappy"])
def test_appending_puts_the_new_manifests_first_and_keeps_the_old(version: int, codec: str) -> None:
    rows = [manifest(number, **({"sequence_number": 0, "min_sequence_number": 0} if version == 1 else {})) for number in range(700)]
    content = appended(written(rows[1:], version, codec=codec), rows[:1], version, codec)
    assert read_manifest_list(content, "f") == rows
    assert open_container(content, "f").metadata["parent-snapshot-id"] == b"76"


def test_a_thousand_appends_leave_few_blocks_and_every_manifest() -> None:
    content = written([])
    for number in range(1_000):
        content = appended(content, [manifest(number)])
    assert read_manifest_list(content, "f") == [manifest(number) for number in reversed(range(1_000))]
    assert len(list(raw_blocks(open_container(content, "f")))) <= 12


@pytest.mark.parametrize(("version", "codec"), [(2, "zstd"), (1, "deflate")])
def test_appending_to_a_list_of_another_codec_or_version_rewrites_it(version: int, codec: str) -> None:
    old = manifest(0, sequence_number=0, min_sequence_number=0)
    content = appended(written([old], version, codec=codec), [manifest(1)])
    assert read_manifest_list(content, "f") == [manifest(1), old]
    assert open_container(content, "f").metadata["format-version"] == b"2"


def test_old_blocks_of_a_writer_with_other_names_and_docs_are_copied() -> None:
    content = written([manifest(number) for number in range(600)])
    schema = json.loads(open_container(content, "f").schema_text)
    schema["fields"][7] |= {"name": "added_data_files_count", "doc": "an older name"}
    file = io.BytesIO()
    fastavro.writer(
        file,
        schema,
        [dict(zip([f["name"] for f in schema["fields"]], row.values(), strict=True)) for row in fastavro.reader(io.BytesIO(content))],
    )
    old = open_container(file.getvalue(), "f")
    first = next(raw_blocks(open_container(recoded := appended_null(file.getvalue()), "f")))
    assert read_manifest_list(recoded, "f") == [manifest(number) for number in range(600)]
    assert recoded[first.start : first.end] in old.content


def appended_null(content: bytes) -> bytes:
    return append_to_manifest_list(
        content, "old.avro", [], format_version=2, snapshot_id=77, parent_snapshot_id=76, sequence_number=9, codec="null"
    )


def test_appending_to_a_damaged_list_is_refused() -> None:
    content = written([manifest(number) for number in range(5)])
    with pytest.raises(AvroFormatError, match=r"old\.avro"):
        appended(content[:-1], [manifest(7)])
