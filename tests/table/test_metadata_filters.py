"""Filters on metadata columns select the rows with the matching values."""

from dataclasses import replace

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.datafile.data_file_reader import read_task
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.schema.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from icefloe.spec.schema.schema import Schema
from icefloe.table import Table

COLUMNS = ("a", "_file", "_pos", "_spec_id")


@pytest.fixture
def table(tmp_path) -> Table:
    """Return a table with two files of three rows."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=pa.schema([("a", pa.int64())]))
    for rows in ([1, 2, 3], [4, None, 6]):
        table.append(pa.table({"a": pa.array(rows, pa.int64())}))
    return table


def test_a_filter_on_file_position_and_spec_selects_the_rows_with_those_values(table):
    rows = table.scan().select(*COLUMNS).to_arrow().to_pylist()
    assert len(rows) == 6
    path = rows[0]["_file"]
    for text, holds in (
        (f"_file = '{path}'", lambda row: row["_file"] == path),
        (f"_file != '{path}' AND a > 4", lambda row: row["_file"] != path and (row["a"] or 0) > 4),
        (f"_file = '{path}' OR _pos = 1", lambda row: row["_file"] == path or row["_pos"] == 1),
        ("_pos >= 1 AND _pos < 2", lambda row: row["_pos"] == 1),
        ("_pos = 2 OR a = 1", lambda row: row["_pos"] == 2 or row["a"] == 1),
        ("NOT _pos IN (0, 1)", lambda row: row["_pos"] == 2),
        ("_spec_id = 0", lambda row: True),
        ("_spec_id > 0", lambda row: False),
        ("_pos IS NULL", lambda row: False),
    ):
        expected = [row for row in rows if holds(row)]
        assert table.scan(text).select(*COLUMNS).to_arrow().to_pylist() == expected, text
        assert table.scan(text).count() == len(expected)


def test_only_the_file_of_a_filter_on_file_is_planned(table):
    first, second = (task.file.file_path for task in table.scan().plan_files())
    (task,) = table.scan(f"_file = '{first}' AND a > 4").plan_files()
    assert (task.file.file_path, str(task.residual)) == (first, "a > 4")
    assert table.scan(f"_file = '{first}' AND _file = '{second}'").plan_files() == []


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("_row_id = 101", [101]),
        ("_row_id > 100 AND a >= 3", [102]),
        ("_row_id IS NULL", []),
        ("_last_updated_sequence_number = 7", [100, 101, 102]),
        ("_last_updated_sequence_number < 7 OR _row_id = 100", [100]),
    ],
)
def test_a_filter_on_row_ids_uses_the_inherited_row_ids(table, text, ids):
    task = next(iter(table.scan("a < 4").plan_files()))
    numbered = replace(task, file=replace(task.file, first_row_id=100), residual=AlwaysTrue(), sequence_number=7)
    specs = {spec.spec_id: spec for spec in table.metadata.partition_specs}
    projection = Schema(*table.schema().fields, ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER)
    bound = bind(parse_filter(text), table.schema())
    for columns in (projection, Schema(ROW_ID)):
        batches = read_task(table.io, numbered, schema=table.schema(), projection=columns, specs=specs, row_filter=bound)
        assert [row["_row_id"] for batch in batches for row in batch.to_pylist()] == ids
    without = read_task(
        table.io,
        task,
        schema=table.schema(),
        projection=projection,
        specs=specs,
        row_filter=bind(parse_filter("_row_id IS NULL"), table.schema()),
    )
    assert sum(batch.num_rows for batch in without) == 3
