"""Written manifests are read back in both forms and by another Avro library."""

import io
import uuid
from dataclasses import replace
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.manifest.made_up_entries import (
    EVERY_PARTITION,
    NO_PARTITION,
    ONE_OF_EACH,
    SNAPSHOT_ID,
    added,
    committed,
    data_file,
    entries,
    written,
)

from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS, STATISTICS, every_statistic, partition_column, statistic_column
from icefloe.spec.manifest.manifest_reader import read_columns, read_entries, read_many_columns
from icefloe.spec.manifest.partition_values import avro_name


def inherited(entry: ManifestEntry, number: int) -> ManifestEntry:
    if entry.status == ManifestEntryStatus.ADDED:
        entry = replace(entry, sequence_number=number, file_sequence_number=number)
    return replace(entry, snapshot_id=SNAPSHOT_ID if entry.snapshot_id is None else entry.snapshot_id)


@pytest.mark.parametrize("codec", ["deflate", "null", "zstd", "snappy"])
@settings(max_examples=10)
@given(entries(EVERY_PARTITION))
def test_entries_are_read_with_inherited_numbers(codec: str, rows: list[ManifestEntry]) -> None:
    content, manifest = written(rows, EVERY_PARTITION, codec=codec)
    assert read_entries(content, committed(manifest, 9), EVERY_PARTITION) == [inherited(entry, 9) for entry in rows]


@settings(max_examples=examples(25))
@given(entries(EVERY_PARTITION))
def test_entries_of_version_1_are_read_without_sequence_numbers(rows: list[ManifestEntry]) -> None:
    content, manifest = written(rows, EVERY_PARTITION, format_version=1)
    found = read_entries(content, replace(manifest, sequence_number=0), EVERY_PARTITION)
    assert found == [replace(inherited(entry, 0), sequence_number=0, file_sequence_number=0) for entry in rows]


@settings(max_examples=examples(25))
@given(entries(EVERY_PARTITION), st.sets(st.integers(1, 200), max_size=3), st.sampled_from([1, 2]))
def test_columns_and_entries_have_the_same_values(rows: list[ManifestEntry], asked: set[int], version: int) -> None:
    asked |= {field_id for entry in rows for field_id in list(entry.data_file.lower_bounds or {})[:1]}
    content, manifest = written(rows, EVERY_PARTITION, format_version=version)
    manifest = committed(manifest, 5 if version == 2 else 0)
    columns = read_columns(content, manifest, EVERY_PARTITION, statistics=every_statistic(asked))
    assert len(columns) == len(rows)
    statistics = [statistic_column(name, field_id) for field_id in sorted(asked) for name in STATISTICS.values()]
    partitions = [partition_column(field.field_id) for field in EVERY_PARTITION.fields]
    assert columns.entries.column_names == [*ENTRY_FIELDS.names, *partitions, *statistics]
    for row, entry in zip(columns.entries.to_pylist(), read_entries(content, manifest, EVERY_PARTITION), strict=True):
        file = entry.data_file
        assert (row["status"], row["snapshot_id"], row["content"]) == (entry.status, entry.snapshot_id, file.content)
        assert (row["sequence_number"], row["file_sequence_number"]) == (entry.sequence_number, entry.file_sequence_number)
        for name in ("file_path", "file_format", "record_count", "file_size_in_bytes", "sort_order_id"):
            assert row[name] == getattr(file, name)
        assert row["split_offsets"] == (None if file.split_offsets is None else list(file.split_offsets))
        assert tuple(row[name] for name in partitions) == tuple(v.bytes if isinstance(v, uuid.UUID) else v for v in file.partition)
        for plural, single in STATISTICS.items():
            for field_id in asked:
                assert row[statistic_column(single, field_id)] == (getattr(file, plural) or {}).get(field_id)


@settings(max_examples=examples(25))
@given(entries(EVERY_PARTITION))
def test_another_library_reads_the_entries(rows: list[ManifestEntry]) -> None:
    content, _ = written(rows, EVERY_PARTITION)
    found = list(fastavro.reader(io.BytesIO(content), return_record_name=False))
    for entry, other in zip(rows, found, strict=True):
        file, fastavro_file = entry.data_file, other["data_file"]
        assert (other["status"], other["sequence_number"], other["file_sequence_number"]) == (
            entry.status, entry.sequence_number, entry.file_sequence_number,
        )  # fmt: skip
        for name in ("file_path", "file_format", "record_count", "file_size_in_bytes", "sort_order_id", "key_metadata"):
            assert fastavro_file[name] == getattr(file, name)
        for name in (*STATISTICS, "column_sizes"):
            icefloe_value = getattr(file, name)
            assert (None if fastavro_file[name] is None else {pair["key"]: pair["value"] for pair in fastavro_file[name]}) == icefloe_value
        for field, value in zip(EVERY_PARTITION.fields, file.partition, strict=True):
            assert (fastavro_file["partition"][avro_name(field.name)] is None) == (value is None)


def test_another_library_reads_every_kind_of_partition_value() -> None:
    content, _ = written([added(data_file(partition=ONE_OF_EACH))], EVERY_PARTITION)
    (found,) = fastavro.reader(io.BytesIO(content))
    values = list(found["data_file"]["partition"].values())
    assert values[:5] == [True, 34, 2**40, 1.5, -2.25]
    assert values[5].isoformat() == "2017-11-16"
    assert values[6].isoformat() == "22:31:08"
    assert values[7].isoformat() == "2017-11-16T22:31:08+00:00"
    assert values[8].isoformat() == "1969-12-31T23:59:59.999999+00:00"
    assert values[9:12] == ["iceberg", b"\x00\xff", b"fixed"]
    assert values[12].hex() == "f79c3e09677c4bbda4793f349cb785e7"
    assert values[13] == ONE_OF_EACH[13]
    assert values[14:16] == [1_510_871_468_000_001_001, -1]
    assert values[16:] == list(ONE_OF_EACH[16:])


def test_a_manifest_without_entries_has_columns_of_no_rows() -> None:
    content, manifest = written([], EVERY_PARTITION)
    columns = read_columns(content, manifest, EVERY_PARTITION, statistics=every_statistic([1]))
    assert len(columns) == 0
    assert "lower_bound.1" in columns.entries.column_names
    assert read_entries(content, manifest, EVERY_PARTITION) == []


def test_a_manifest_of_many_blocks_and_batches_keeps_its_order() -> None:
    rows = [added(data_file(f"s3://b/t/data/{n:05d}.parquet", lower_bounds={2: str(n).encode()})) for n in range(20_000)]
    content, manifest = written(rows)
    columns = read_columns(content, manifest, NO_PARTITION, statistics=every_statistic([2])).entries
    assert columns["file_path"].to_pylist() == [entry.data_file.file_path for entry in rows]
    assert columns["lower_bound.2"].to_pylist() == [str(n).encode() for n in range(20_000)]


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(entries(EVERY_PARTITION), st.sampled_from([1, 2, 3]), st.integers(1, 9)), min_size=1, max_size=4), st.booleans())
def test_many_manifests_read_at_once_equal_those_read_one_by_one(given_rows: list[Any], with_row_ids: bool) -> None:
    contents, manifests = {}, []
    for number, (rows, version, sequence_number) in enumerate(given_rows):
        content, manifest = written(rows, EVERY_PARTITION, format_version=version)
        contents[f"m{number}"] = content
        first_row_id = 1_000 * number if with_row_ids and number % 2 == 0 else None
        numbers = {"sequence_number": 0 if version == 1 else sequence_number, "first_row_id": first_row_id}
        manifests.append(replace(manifest, manifest_path=f"m{number}", added_snapshot_id=7 + number, **numbers))
    statistics = every_statistic([1, 2])
    singly = [read_columns(contents[one.manifest_path], one, EVERY_PARTITION, statistics=statistics).entries for one in manifests]
    found, counts = read_many_columns(manifests, contents.__getitem__, EVERY_PARTITION, statistics=statistics)
    assert found.entries.to_pylist() == [row for table in singly for row in table.to_pylist()]
    assert found.entries.schema == singly[0].schema
    assert list(counts) == [table.num_rows for table in singly]
