"""Copy-on-write deletes: the data file that replaces another without its deleted rows."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.datafile.tables import read, same, target, task_of, write
from tests.repetitions import examples

from icefloe.datafile.copy_data_file import RewrittenFile, rewrite_task
from icefloe.datafile.live_rows import live_rows
from icefloe.datafile.parquet import parquet_rows as read_module
from icefloe.datafile.write_target import WritingTask
from icefloe.errors import DataFileFormatError
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec, partition_spec_from_text
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, LongType, NestedField, StringType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "type", StringType()), NestedField(3, "x", DoubleType()))
ROWS: list[dict[str, Any]] = [
    {"id": 1, "type": "a", "x": 1.0},
    {"id": None, "type": "b", "x": float("nan")},
    {"id": 3, "type": None, "x": None},
]


def _rewrite(folder: Any, file: DataFile, where: str, schema: Schema = SCHEMA, spec: PartitionSpec = UNPARTITIONED_SPEC) -> RewrittenFile:
    """Rewrite a file with a target of another spec; the file's spec must be used."""
    other = target(folder, schema)
    reader = live_rows(replace(other, operation_uuid="again"), schema, {spec.spec_id: spec, 99: UNPARTITIONED_SPEC})
    return rewrite_task(reader, bind(parse_filter(where), schema), task_of(file), WritingTask(partition_id=4, task_id=2))


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id = 1", [1, 2]),
        ("id != 1", [0, 1]),
        ("type = 'b' OR x = 1.0", [2]),
        ("isnan(x)", [0, 2]),
        ("type IS NULL", [0, 1]),
        ("id > 0", [1]),
    ],
)
def test_a_row_is_deleted_only_where_the_filter_is_true(tmp_path, where: str, kept: list[int]) -> None:
    (file,) = write(target(tmp_path, SCHEMA), ROWS)
    done = _rewrite(tmp_path, file, where)
    assert (done.kept_rows, done.deleted_rows) == (len(kept), 3 - len(kept))
    assert same(read(done.added, SCHEMA).to_pylist(), [ROWS[index] for index in kept])
    assert done.added[0].file_path == f"{tmp_path}/data/00004-2-again-00001.parquet"
    assert done.source == file
    assert read([file], SCHEMA).num_rows == 3, "the source is left for older snapshots"


def test_a_file_without_deleted_rows_is_not_rewritten(tmp_path) -> None:
    (file,) = write(target(tmp_path, SCHEMA), ROWS)
    done = _rewrite(tmp_path, file, "id = 99")
    assert done == RewrittenFile(source=file, added=(), kept_rows=3, deleted_rows=0)
    assert done.is_unchanged
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_a_file_with_only_deleted_rows_is_not_copied(tmp_path) -> None:
    (file,) = write(target(tmp_path, SCHEMA), ROWS)
    done = _rewrite(tmp_path, file, "id IS NULL OR id > 0")
    assert done == RewrittenFile(source=file, added=(), kept_rows=0, deleted_rows=3)
    assert not done.is_unchanged
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_the_copy_has_the_partition_and_spec_of_its_source(tmp_path) -> None:
    spec = PartitionSpec(*partition_spec_from_text(SCHEMA, ["truncate(1, type)"]).fields, spec_id=7)
    files = write(target(tmp_path, SCHEMA, spec), [{"id": 1, "type": "ab", "x": None}, {"id": 2, "type": "ac", "x": None}])
    file = replace(files[0], sort_order_id=3)
    (copy,) = _rewrite(tmp_path, file, "id = 1", spec=spec).added
    assert (copy.partition, copy.spec_id, copy.sort_order_id) == (("a",), 7, 3)
    assert copy.file_path.startswith(f"{tmp_path}/data/type_trunc=a/00004-2-again-")


def test_the_copy_has_the_columns_of_the_current_schema(tmp_path) -> None:
    (file,) = write(target(tmp_path, SCHEMA), ROWS)
    today = Schema(NestedField(4, "new", LongType()), NestedField(1, "number", LongType()))
    done = _rewrite(tmp_path, file, "number = 1", schema=today)
    assert read(done.added, today).to_pylist() == [{"new": None, "number": None}, {"new": None, "number": 3}]


def test_a_failure_leaves_no_copy(tmp_path) -> None:
    where = target(tmp_path, SCHEMA, write__parquet__row_group_size_bytes="2000")
    (file,) = write(where, pa.table({"id": pa.array(range(1000)), "type": ["t"] * 1000, "x": pa.nulls(1000, pa.float64())}))
    # The column that the filter reads is intact, and another is damaged.
    damaged = bytearray((tmp_path / "data" / "00000-0-op-00001.parquet").read_bytes())
    start = file.split_offsets[-1] + 200
    damaged[start : start + 300] = bytes(300)
    (tmp_path / "data" / "00000-0-op-00001.parquet").write_bytes(damaged)
    with pytest.raises(DataFileFormatError):
        _rewrite(tmp_path, file, "id = 1")
    assert len(list((tmp_path / "data").iterdir())) == 1


_MANY = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(0, 4),
            "type": st.none() | st.sampled_from("abc"),
            "x": st.none() | st.sampled_from([0.0, 1.0, float("nan")]),
        }
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow])
@given(_MANY)
def test_kept_and_deleted_rows_add_up_to_all_rows(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_module, "BATCH_ROWS", 7)
        (file,) = write(target(folder, SCHEMA, write__parquet__row_group_size_bytes="200"), rows)
        whole = read([file], SCHEMA)
        filters = ("id = 1", "id != 1", "type IN ('a', 'b')", "x > 0.5", "NOT (x > 0.5)", "id = 1 AND type = 'a'", "x IS NULL")
        for number, where in enumerate(filters):
            done = _rewrite(Path(folder, str(number)), file, where)
            deleted = arrow_mask(bind(parse_filter(where), SCHEMA), whole)
            kept = [row for row, gone in zip(whole.to_pylist(), deleted.to_pylist(), strict=True) if not gone]
            assert (done.kept_rows, done.deleted_rows) == (len(kept), len(rows) - len(kept)), where
            if not done.is_unchanged:
                assert same(read(done.added, SCHEMA).to_pylist(), kept), where
