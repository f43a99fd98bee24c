"""Metadata columns, and the row lineage of rows in copied files."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datafile.delete_files import equality_deletes, position_deletes, vectors
from tests.datafile.tables import IO, target, task_of, write
from tests.repetitions import examples

from icefloe.datafile.copy_data_file import rewrite_task
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.live_rows import live_rows
from icefloe.datafile.write_target import WritingTask
from icefloe.errors import InvalidInputError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, partition_spec_from_text
from icefloe.spec.schema import metadata_columns as columns
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IntegerType, LongType, NestedField, StringType, StructType

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "s", StringType()))
SPECS = {0: UNPARTITIONED_SPEC}
LINEAGE = Schema(SCHEMA.fields[0], *columns.LINEAGE_COLUMNS)


def rows_of(task: FileScanTask, projection: Schema, schema: Schema = SCHEMA, specs: Any = None) -> list[dict[str, Any]]:
    batches = read_task(IO, task, schema=schema, projection=projection, specs=specs or SPECS)
    return pa.Table.from_batches(batches, schema=schema_to_arrow(projection)).to_pylist()


def lineage_of(file: DataFile, sequence_number: int, *deletes: DataFile) -> list[tuple[Any, ...]]:
    task = replace(task_of(file), sequence_number=sequence_number, delete_files=deletes)
    return [tuple(row.values()) for row in rows_of(task, LINEAGE)]


def test_every_metadata_column_has_the_value_of_the_spec(tmp_path: Path) -> None:
    spec = partition_spec_from_text(SCHEMA, ["s", "bucket(4, id)"])
    (file,) = write(target(tmp_path, SCHEMA, spec), [{"id": 7, "s": "a"}, {"id": 7, "s": "a"}])
    union = StructType(NestedField(1000, "s", StringType()), NestedField(1001, "b", IntegerType()), NestedField(1002, "later", LongType()))
    projection = Schema(
        columns.POS,
        SCHEMA.fields[1],
        columns.FILE,
        columns.SPEC_ID,
        columns.DELETED,
        columns.partition_column(union),
        *columns.LINEAGE_COLUMNS,
    )
    task = replace(task_of(replace(file, first_row_id=100)), sequence_number=3)
    bucket = file.partition[1]
    assert rows_of(task, projection, specs={0: spec}) == [
        {
            "_pos": pos,
            "s": "a",
            "_file": file.file_path,
            "_spec_id": 0,
            "_deleted": False,
            "_partition": {"s": "a", "b": bucket, "later": None},
            "_row_id": 100 + pos,
            "_last_updated_sequence_number": 3,
        }
        for pos in range(2)
    ]
    assert rows_of(task, Schema(columns.partition_column(StructType())), specs={0: spec}) == [{"_partition": None}] * 2
    # Without a first row id rows have no lineage, whatever the sequence number is.
    assert (
        rows_of(replace(task_of(file), sequence_number=3), Schema(*columns.LINEAGE_COLUMNS), specs={0: spec})
        == [{"_row_id": None, "_last_updated_sequence_number": None}] * 2
    )


def test_a_table_column_with_the_name_of_a_metadata_column_is_read(tmp_path: Path) -> None:
    mine = Schema(NestedField(1, "_row_id", StringType()))
    (file,) = write(target(tmp_path, mine), [{"_row_id": "x"}, {"_row_id": "y"}])
    task = replace(task_of(replace(file, first_row_id=5)), sequence_number=2)
    reader = live_rows(replace(target(tmp_path, mine), operation_uuid="again"), mine, SPECS)
    done = rewrite_task(reader, bind(parse_filter("_row_id = 'x'"), mine), task, WritingTask(0))
    (copy,) = done.added
    kept = replace(task_of(replace(copy, first_row_id=50)), sequence_number=9)
    assert rows_of(kept, mine, mine) == [{"_row_id": "y"}]
    assert rows_of(kept, Schema(columns.ROW_ID), mine) == [{"_row_id": 6}]


def test_changelog_columns_are_refused_in_scans_of_rows(tmp_path: Path) -> None:
    (file,) = write(target(tmp_path, SCHEMA), [{"id": 1, "s": "a"}])
    with pytest.raises(InvalidInputError, match="_change_type"):
        rows_of(task_of(file), Schema(columns.CHANGE_TYPE))


@settings(max_examples=examples(40))
@given(st.data())
def test_copies_keep_the_lineage_of_every_row_through_deletes_and_copies_of_copies(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = data.draw(st.integers(1, 20))
        size = data.draw(st.sampled_from(["100", "1000000"]))
        where = target(folder, SCHEMA, write__parquet__row_group_size_bytes=size)
        (file,) = write(where, [{"id": n, "s": str(n)} for n in range(count)])
        file = replace(file, first_row_id=1000)
        model = {n: (1000 + n, 4) for n in range(count)}
        assert lineage_of(file, 4) == [(n, *model[n]) for n in range(count)]
        for turn in range(3):
            live = sorted(model)
            deleted = data.draw(st.sets(st.integers(0, file.record_count - 1)))
            at = [row[0] for row in lineage_of(file, 4)]
            deletes = {
                "vector": lambda gone, file=file, turn=turn: vectors(folder / f"{turn}.puffin", {file.file_path: sorted(gone)}),
                "positions": lambda gone, file=file, turn=turn: [
                    position_deletes(folder / f"{turn}.parquet", [(file.file_path, n) for n in gone], referenced_data_file=file.file_path)
                ],
                "keys": lambda gone, at=at, turn=turn: [
                    equality_deletes(folder / f"{turn}e.parquet", SCHEMA.select("id"), [1], [{"id": at[n]} for n in gone])
                ],
            }
            kind = data.draw(st.sampled_from(sorted(deletes)))
            files = deletes[kind](deleted)
            model = {n: found for n, found in model.items() if n not in {at[pos] for pos in deleted}}
            task = replace(task_of(file), sequence_number=4 + turn, delete_files=tuple(files))
            border = data.draw(st.sampled_from(live))
            reader = live_rows(replace(where, operation_uuid=f"copy{turn}"), SCHEMA, SPECS)
            done = rewrite_task(reader, bind(parse_filter(f"id = {border}"), SCHEMA), task, WritingTask(0))
            assert done.deleted_rows == (border in model)
            model.pop(border, None)
            assert done.kept_rows == len(model)
            if done.is_unchanged:
                assert (done.added, done.dangling_deletes) == ((), ())
                return
            assert list(done.dangling_deletes) == ([] if kind == "keys" else files)
            if not model:
                assert done.added == ()
                return
            (file,) = done.added
            assert file.first_row_id is None
            # The commit assigns a first row id and a sequence number to the copy; its rows keep the ones that are stored in it.
            file = replace(file, first_row_id=2000 + turn * 100)
            assert lineage_of(file, 90 + turn) == [(n, *found) for n, found in sorted(model.items())]
