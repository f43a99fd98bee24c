"""Manifests of delete files in v2 and v3: written, read back in both forms and by another Avro library, or refused."""

import io
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import (
    BY_NAME,
    EVERY_PARTITION,
    NO_PARTITION,
    SNAPSHOT_ID,
    added,
    committed,
    data_file,
    entries,
    written,
)

from icefloe.errors import InvalidInputError
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import DELETE_FIELDS, ENTRY_FIELDS, every_statistic, statistic_column
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.types import StructType

DELETES = ManifestContent.DELETES
FILE_PATH_ID = 2147483546
VECTOR = data_file(
    "dv.puffin",
    file_format=FileFormat.PUFFIN,
    content=FileContent.POSITION_DELETES,
    referenced_data_file="data.parquet",
    content_offset=4,
    content_size_in_bytes=50,
)
POSITION_DELETES = data_file("pos.parquet", content=FileContent.POSITION_DELETES)
EQUALITY_DELETES = data_file("eq.parquet", content=FileContent.EQUALITY_DELETES, equality_ids=(1, 2))


def inherited(entry: ManifestEntry, number: int) -> ManifestEntry:
    if entry.status == ManifestEntryStatus.ADDED:
        entry = replace(entry, sequence_number=entry.sequence_number or number, file_sequence_number=number)
    return replace(entry, snapshot_id=SNAPSHOT_ID if entry.snapshot_id is None else entry.snapshot_id)


@pytest.mark.parametrize("version", [2, 3])
def test_written_manifests_are_read_back_in_both_forms_and_by_another_library(version: int) -> None:
    @settings(max_examples=examples(40))
    @given(entries(EVERY_PARTITION, version, DELETES))
    def check(rows: list[ManifestEntry]) -> None:
        content, manifest = written(rows, EVERY_PARTITION, format_version=version, content=DELETES)
        manifest = committed(manifest, 9, first_row_id=5)
        assert read_entries(content, manifest, EVERY_PARTITION) == [inherited(entry, 9) for entry in rows]
        columns = read_columns(content, manifest, EVERY_PARTITION).entries
        assert columns.column_names[: len(ENTRY_FIELDS) + len(DELETE_FIELDS)] == [*ENTRY_FIELDS.names, *DELETE_FIELDS.names]
        fastavro_rows = fastavro.reader(io.BytesIO(content))
        for row, entry, other in zip(columns.to_pylist(), rows, fastavro_rows, strict=True):
            file = entry.data_file
            for name in ("content", "file_path", "referenced_data_file", "content_offset", "content_size_in_bytes", "sort_order_id"):
                assert row[name] == getattr(file, name)
                assert other["data_file"].get(name) == getattr(file, name)
            equality_ids = None if file.equality_ids is None else list(file.equality_ids)
            assert row["equality_ids"] == other["data_file"]["equality_ids"] == equality_ids
            assert row["first_row_id"] is None
            assert other["data_file"].get("first_row_id") is None

    check()


def test_data_manifests_have_no_columns_of_deletes() -> None:
    content, manifest = written([added(data_file())], format_version=3)
    assert read_columns(content, manifest, NO_PARTITION).entries.column_names == ENTRY_FIELDS.names


def test_path_bounds_of_position_deletes_are_read_like_other_statistics() -> None:
    file = replace(POSITION_DELETES, lower_bounds={FILE_PATH_ID: b"a.parquet"}, upper_bounds={FILE_PATH_ID: b"b.parquet"})
    content, manifest = written([added(file)], content=DELETES)
    columns = read_columns(content, committed(manifest, 2), NO_PARTITION, statistics=every_statistic([FILE_PATH_ID])).entries
    assert columns[statistic_column("lower_bound", FILE_PATH_ID)].to_pylist() == [b"a.parquet"]
    assert columns[statistic_column("upper_bound", FILE_PATH_ID)].to_pylist() == [b"b.parquet"]


@pytest.mark.parametrize("written_as", ["puffin", "PUFFIN", "Puffin"])
def test_the_format_of_a_deletion_vector_is_read_in_any_case(written_as: str) -> None:
    content, manifest = written([added(VECTOR)], format_version=3, content=DELETES, codec="null")
    changed = content.replace(b"PUFFIN", written_as.encode())
    (entry,) = read_entries(changed, committed(manifest, 2), NO_PARTITION)
    assert entry.data_file == replace(VECTOR, spec_id=4)
    assert read_columns(changed, committed(manifest, 2), NO_PARTITION).entries["file_format"].to_pylist() == ["PUFFIN"]


def test_position_deletes_are_written_without_a_sort_order() -> None:
    content, manifest = written([added(replace(POSITION_DELETES, sort_order_id=1))], content=DELETES)
    assert read_entries(content, committed(manifest, 2), NO_PARTITION)[0].data_file.sort_order_id is None


REFUSED: list[tuple[int, DataFile, str]] = [
    (1, EQUALITY_DELETES, "a table of format version 1 has no delete files"),
    (2, VECTOR, r"dv\.puffin cannot be added: a table of format version 2 has no deletion vectors"),
    (3, POSITION_DELETES, r"pos\.parquet cannot be added: from format version 3 on no position delete files are added"),
    (3, replace(VECTOR, referenced_data_file=None), r"dv\.puffin.*must have referenced_data_file"),
    (3, replace(VECTOR, content_offset=None, content_size_in_bytes=None), r"dv\.puffin.*must have content_offset, content_size_in_bytes"),
    (3, replace(EQUALITY_DELETES, equality_ids=None), r"eq\.parquet.*equality_ids"),
    (2, replace(EQUALITY_DELETES, equality_ids=()), r"eq\.parquet.*equality_ids"),
    (3, replace(EQUALITY_DELETES, file_format=FileFormat.PUFFIN), "equality deletes are rows in Parquet, ORC or Avro"),
]


@pytest.mark.parametrize(("version", "file", "rule"), REFUSED)
def test_files_that_a_version_does_not_allow_are_refused_with_file_and_rule(version: int, file: DataFile, rule: str) -> None:
    with pytest.raises(InvalidInputError, match=rule):
        written([added(file)], format_version=version, content=DELETES)


def test_a_puffin_file_of_rows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"d\.puffin cannot be added: a data file is Parquet, ORC or Avro"):
        written([added(data_file("d.puffin", file_format=FileFormat.PUFFIN))])


@pytest.mark.parametrize("status", [ManifestEntryStatus.EXISTING, ManifestEntryStatus.DELETED])
@pytest.mark.parametrize(
    "file", [POSITION_DELETES, replace(POSITION_DELETES, referenced_data_file="data.parquet"), VECTOR, EQUALITY_DELETES]
)
def test_existing_delete_files_are_kept_in_v3(status: ManifestEntryStatus, file: DataFile) -> None:
    entry = ManifestEntry(status, 1, 2, 3, replace(file, spec_id=4))
    content, manifest = written([entry], format_version=3, content=DELETES)
    assert read_entries(content, committed(manifest, 9), NO_PARTITION) == [entry]


def foreign(fields: list[tuple[str, Any, int, Any]], status: int) -> bytes:
    record = {"type": "record", "name": "d", "fields": [{"name": name, "type": kind, "field-id": i} for name, kind, i, _ in fields]}
    schema = {
        "type": "record",
        "name": "e",
        "fields": [{"name": "s", "type": "int", "field-id": 0}, {"name": "f", "type": record, "field-id": 2}],
    }
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"s": status, "f": {name: value for name, _, _, value in fields}}])
    return file.getvalue()


def test_a_deletion_vector_written_with_other_names_order_and_types_is_read() -> None:
    fields: list[tuple[str, Any, int, Any]] = [
        ("size", "int", 145, 50),
        ("target", "string", 143, "data.parquet"),
        ("start", ["long", "null"], 144, 4),
        ("what", "int", 134, 1),
        ("ids", ["null", {"type": "array", "items": "int", "element-id": 136}], 135, None),
        ("path", "string", 100, "dv.puffin"),
        ("form", "string", 101, "puffin"),
        ("n", "long", 103, 10),
        ("bytes", "long", 104, 1000),
        ("row", ["null", "long"], 142, 17),
    ]
    content = foreign(fields, 1)
    manifest = committed(written([], format_version=3, content=DELETES)[1], 6)
    manifest = replace(manifest, manifest_length=len(content), added_files_count=1)
    (entry,) = read_entries(content, manifest, BY_NAME)
    assert entry == ManifestEntry(ManifestEntryStatus.ADDED, SNAPSHOT_ID, 6, 6, replace(VECTOR, partition=(None,), spec_id=4))
    (row,) = read_columns(content, manifest, StructType()).entries.to_pylist()
    assert (row["referenced_data_file"], row["content_offset"], row["content_size_in_bytes"]) == ("data.parquet", 4, 50)
    assert (row["equality_ids"], row["first_row_id"], row["content"]) == (None, None, 1)


@settings(max_examples=examples(20))
@given(st.data())
def test_position_deletes_of_v2_keep_their_target_in_both_forms(data: st.DataObject) -> None:
    target = data.draw(st.none() | st.text(max_size=30))
    content, manifest = written([added(replace(POSITION_DELETES, referenced_data_file=target))], content=DELETES)
    manifest = committed(manifest, 3)
    assert read_columns(content, manifest, NO_PARTITION).entries["referenced_data_file"].to_pylist() == [target]
    assert read_entries(content, manifest, NO_PARTITION)[0].data_file.referenced_data_file == target
