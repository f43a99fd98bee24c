"""Written rows are read back, over random schemas; and the properties of the written files."""

import json
import os
import pickle
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from tests.datafile.tables import read, same, tables, target, write
from tests.repetitions import examples

from icefloe.errors import InvalidPropertyError, SchemaMismatchError
from icefloe.spec.manifest.data_file import FileFormat
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import BinaryType, BooleanType, DecimalType, LongType, NestedField, StringType, TimestamptzType, UUIDType

TWO = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_written_rows_are_read_back(drawn: tuple[Schema, pa.Table]) -> None:
    schema, rows = drawn
    with tempfile.TemporaryDirectory() as folder:
        files = write(target(folder, schema), rows)
        assert sum(file.record_count for file in files) == rows.num_rows
        found = read(files, schema)
        assert found.schema.equals(schema_to_arrow(schema), check_metadata=True)
        assert same(found.to_pylist(), rows.to_pylist())


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_only_the_rows_of_a_sliced_batch_are_written(drawn: tuple[Schema, pa.Table]) -> None:
    schema, rows = drawn
    with tempfile.TemporaryDirectory() as folder:
        part = rows.slice(1, 5)
        assert same(read(write(target(folder, schema), part), schema).to_pylist(), part.to_pylist())


def test_no_file_is_written_without_rows(tmp_path) -> None:
    assert write(target(tmp_path, TWO), []) == []
    assert not (tmp_path / "data").exists()


def test_a_file_is_named_by_partition_task_operation_and_count(tmp_path) -> None:
    (file,) = write(target(tmp_path, TWO), [{"id": 1, "name": "a"}])
    assert file.file_path == f"{tmp_path}/data/00000-0-op-00001.parquet"
    assert file.file_format is FileFormat.PARQUET
    assert file.file_size_in_bytes == os.path.getsize(file.file_path)


def test_every_column_has_its_field_id_and_the_footer_contains_the_table_schema(tmp_path) -> None:
    (file,) = write(target(tmp_path, TWO), [{"id": 1, "name": "a"}])
    footer = pq.ParquetFile(file.file_path)
    assert [field.metadata[b"PARQUET:field_id"] for field in footer.schema_arrow] == [b"1", b"2"]
    assert json.loads(footer.metadata.metadata[b"iceberg.schema"])["fields"][1]["name"] == "name"
    assert b"ARROW:schema" not in footer.metadata.metadata


def test_decimals_times_and_uuids_are_stored_as_the_format_requires(tmp_path) -> None:
    schema = Schema(
        NestedField(1, "small", DecimalType(9, 2)),
        NestedField(2, "medium", DecimalType(18, 2)),
        NestedField(3, "large", DecimalType(38, 2)),
        NestedField(4, "at", TimestamptzType()),
        NestedField(5, "u", UUIDType()),
    )
    (file,) = write(target(tmp_path, schema), [dict.fromkeys(schema.names)])
    columns = [pq.ParquetFile(file.file_path).schema.column(i) for i in range(5)]
    assert [column.physical_type for column in columns] == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(columns[3].logical_type)
    assert str(columns[4].logical_type) == "UUID"


@pytest.mark.parametrize(
    ("codec", "stored"), [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("gzip", "GZIP"), ("lz4", "LZ4"), ("uncompressed", "UNCOMPRESSED")]
)
def test_the_codec_is_that_of_the_table_property(tmp_path, codec: str, stored: str) -> None:
    (file,) = write(target(tmp_path, TWO, write__parquet__compression_codec=codec), [{"id": 1, "name": "a"}])
    assert pq.ParquetFile(file.file_path).metadata.row_group(0).column(0).compression == stored


def test_zstd_is_the_default(tmp_path) -> None:
    (file,) = write(target(tmp_path, TWO), [{"id": 1, "name": "a"}])
    assert pq.ParquetFile(file.file_path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_compression_level_that_the_codec_lacks_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidPropertyError, match="levels"):
        write(target(tmp_path, TWO, write__parquet__compression_level="99"), [{"id": 1, "name": "a"}])


def test_an_unknown_file_format_is_refused(tmp_path) -> None:
    with pytest.raises(InvalidPropertyError, match=r"write\.format\.default"):
        write(target(tmp_path, TWO, write__format__default="csv"), [{"id": 1, "name": "a"}])


def test_files_roll_at_the_target_size(tmp_path) -> None:
    schema = Schema(NestedField(1, "noise", BinaryType()))
    rows = pa.table({"noise": pa.array([os.urandom(1000) for _ in range(2000)], pa.binary())})
    files = write(target(tmp_path, schema, write__target_file_size_bytes="500000"), rows)
    assert 3 <= len(files) <= 5
    assert [file.file_path[-13:-8] for file in files] == [f"{number:05d}" for number in range(1, len(files) + 1)]
    assert all(file.file_size_in_bytes < 1_000_000 for file in files)
    assert read(files, schema).to_pylist() == rows.to_pylist()


def test_small_batches_are_written_into_one_row_group(tmp_path) -> None:
    rows = pa.table({"id": pa.array(range(1000)), "name": pa.nulls(1000, pa.string())})
    batches = pa.Table.from_batches(rows.to_batches(max_chunksize=10))
    (file,) = write(target(tmp_path, TWO), batches)
    assert pq.ParquetFile(file.file_path).num_row_groups == 1


def test_a_batch_larger_than_a_row_group_is_split(tmp_path) -> None:
    rows = pa.table({"id": pa.array(range(10_000)), "name": pa.nulls(10_000, pa.string())})
    (file,) = write(target(tmp_path, TWO, write__parquet__row_group_size_bytes="20000"), rows)
    footer = pq.ParquetFile(file.file_path).metadata
    assert footer.num_row_groups > 3
    assert len(file.split_offsets) == footer.num_row_groups
    assert read([file], TWO).num_rows == 10_000


def test_distinct_values_are_written_without_a_dictionary_and_repeated_ones_with(tmp_path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "same", LongType()), NestedField(3, "flag", BooleanType()))
    count = 50_000
    rows = pa.table({"id": pa.array(range(count)), "same": pa.array([i % 9 for i in range(count)]), "flag": pa.array([True] * count)})
    (file,) = write(target(tmp_path, schema), rows)
    row_group = pq.ParquetFile(file.file_path).metadata.row_group(0)
    assert [row_group.column(i).has_dictionary_page for i in range(3)] == [False, True, False]


def test_values_that_repeat_only_in_a_large_sample_are_written_with_a_dictionary(tmp_path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    numbers = np.random.default_rng(7).integers(0, 100_000, 270_000)
    assert len(set(numbers[:2048].tolist())) > 2048 * 0.95  # in a small sample they seem distinct
    (file,) = write(target(tmp_path, schema), pa.table({"id": numbers}))
    assert pq.ParquetFile(file.file_path).metadata.row_group(0).column(0).has_dictionary_page


def test_a_null_in_a_required_column_is_refused_and_leaves_no_file(tmp_path) -> None:
    with pytest.raises(SchemaMismatchError, match="id"):
        write(target(tmp_path, TWO), pa.table({"id": pa.array([1, None], pa.int64()), "name": ["a", "b"]}))
    assert not (tmp_path / "data").exists()


def test_a_write_target_can_be_pickled(tmp_path) -> None:
    where = target(tmp_path, TWO)
    files = write(pickle.loads(pickle.dumps(where)), [{"id": 1, "name": "a"}])
    assert len(files) == 1
