"""Places on a curve that Spark computes are those of Arrow, for every type; and rows are written in their order."""

import datetime as dt
import decimal
import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, stored

from icefloe import SqlCatalog
from icefloe.spark.write.curve_key import with_place
from icefloe.spark.write.distribution import SourceColumns
from icefloe.spec.partitioning.curve_cells import CurveOrder, cell_scale, cells_of
from icefloe.spec.partitioning.space_filling_curve import CurveName, curve_places
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.table.table import Table

pytestmark = pytest.mark.spark

DAY = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("long", pa.int64()),
        ("wide", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("money", pa.decimal128(38, 4)),
        ("day", pa.date32()),
        ("local", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("link", pa.string()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
    ]
)


def some_rows(count: int) -> pa.Table:
    numbers = random.Random(5)
    floats = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e30, -1e-30]

    def row() -> list[object]:
        second = numbers.randrange(-(10**9), 10**9)
        return [
            numbers.random() < 0.5,
            numbers.randrange(-(2**31), 2**31),
            numbers.randrange(1000),
            numbers.choice([-(2**63), 2**63 - 1, numbers.randrange(-(2**63), 2**63)]),
            numbers.choice([*floats, numbers.gauss(0, 1)]),
            numbers.choice([*floats, 1.7e308, -1.7e308, numbers.gauss(0, 1)]),
            decimal.Decimal(numbers.randrange(-(10**9), 10**9)).scaleb(-4),
            (DAY + dt.timedelta(seconds=second)).date(),
            (DAY + dt.timedelta(seconds=second, microseconds=7)).replace(tzinfo=None),
            DAY + dt.timedelta(seconds=second, microseconds=7),
            f"https://www.example.org/{second}",
            numbers.choice(["", "a", "ä", "\U0001f600", "zz", "a\0"]),
            numbers.randbytes(numbers.randrange(20)),
        ]

    columns = zip(*([None if numbers.random() < 0.1 else value for value in row()] for _ in range(count)), strict=True)
    return pa.table([list(column) for column in columns], schema=SCHEMA)


@pytest.mark.parametrize(
    ("name", "columns"),
    repetitions(
        [
            ("zorder", [*SCHEMA.names]),
            ("hilbert", ["long", "double"]),
            ("hilbert", ["day", "link", "bytes"]),
            ("hilbert", ["flag", "wide", "local", "money"]),
            ("hilbert", ["instant", "small", "float", "text", "money", "day"]),
            ("zorder", ["wide", "text"]),
        ],
        ("zorder", [*SCHEMA.names]),
    ),
)
def test_places_are_those_of_arrow(spark: SparkSession, name: str, columns: list[str]) -> None:
    rows = some_rows(500)
    schema = schema_from_arrow(SCHEMA, keep_ids=False)
    curve = CurveOrder(CurveName(name), tuple(schema.find_field(column).field_id for column in columns), text_bytes=8)
    frame = spark.createDataFrame(rows)
    found = SourceColumns(frame, schema)
    placed = with_place(frame, curve, [found.curve_source(field_id) for field_id in curve.source_ids], found.transforms, "the place")
    assert placed.columns == [*SCHEMA.names, "the place"]
    cells = [cells_of(column, cell_scale(column, curve.bits, 8), 8) for column in (rows[one].combine_chunks() for one in columns)]
    expected = curve_places(curve.name, cells, curve.bits).tolist()
    assert placed.select("the place").toArrow()["the place"].to_pylist() == expected
    assert len(set(expected)) > 100


def many_files(table: Table, files: int, rows: int) -> None:
    numbers = random.Random(3)
    for _ in range(files):
        x, y = ([numbers.randrange(1_000_000) for _ in range(rows)] for _ in range(2))
        table.append(pa.table({"x": x, "y": y, "odd name.": [str(value) for value in x]}))


def sorted_rows(table: Table) -> pa.Table:
    return table.scan().select("x", "y", "_row_id", "_last_updated_sequence_number").to_arrow().sort_by("_row_id")


@pytest.mark.parametrize("curve", repetitions(["zorder", "hilbert"], "hilbert"))
def test_call_orders_rows_along_a_curve_and_then_has_nothing_to_do(sql: Run, lake: SqlCatalog, tmp_path: Path, curve: str) -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("odd name.", pa.string())])
    table = lake.create_table("db.curved", schema, properties={"format-version": "3"})
    many_files(table, 16, 3000)
    before = sorted_rows(table)
    size = max(task.file.file_size_in_bytes for task in table.scan().plan_files())
    options = f"map('target-file-size-bytes', '{size}', 'min-file-size-bytes', '{size // 2}', 'max-file-size-bytes', '{size * 3}')"
    call = f"CALL lake.system.rewrite_data_files(table => 'db.curved', strategy => 'sort', sort_order => '{curve}(x, y)', options => {options})"
    ((rewritten, added, *_),) = sql(call)
    assert rewritten == 16
    assert 10 <= added <= 20
    assert sorted_rows(table.refresh()) == before
    opened = len(table.scan("x < 200000 and y < 200000").plan_files())
    assert opened <= 5  # 16 before
    assert sql(call)[0][0] == 0


def test_uuids_and_fixed_bytes_have_a_place(sql: Run, lake: SqlCatalog) -> None:
    schema = pa.schema([("key", pa.uuid()), ("code", pa.binary(4))])
    table = lake.create_table("db.odd", schema)
    numbers = random.Random(2)
    for _ in range(6):
        keys = [numbers.randbytes(16) for _ in range(200)]
        columns = [pa.array(keys, pa.binary(16)).cast(pa.uuid()), [key[:4] for key in keys]]
        table.append(pa.table(columns, schema=schema))
    before = sorted(map(str, table.scan().to_arrow().to_pylist()))
    for order in ("zorder(key, code)", "hilbert(key, code)"):
        sort = f"strategy => 'sort', sort_order => '{order}', options => map('rewrite-all', 'true')"
        assert sql(f"CALL lake.system.rewrite_data_files(table => 'db.odd', {sort})")[0][1] == 1
        table.refresh()
        assert sorted(map(str, table.scan().to_arrow().to_pylist())) == before
    keys = [value.bytes[0] for value in table.scan().to_arrow()["key"].to_pylist()]
    assert max(keys[:200]) - min(keys[:200]) < 200  # a sixth of the curve


@pytest.mark.slow
def test_a_sort_makes_as_many_files_as_fit_the_target(sql: Run, lake: SqlCatalog) -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64()), ("odd name.", pa.string())])
    table = lake.create_table("db.parts", schema)
    many_files(table, 6, 1000)
    before = stored(lake, "x", "y", "odd name.", name="db.parts")
    size = sum(task.file.file_size_in_bytes for task in table.scan().plan_files()) // 3
    options = f"map('target-file-size-bytes', '{size}', 'rewrite-all', 'true', 'shuffle-partitions-per-file', '4')"
    call = f"CALL lake.system.rewrite_data_files(table => 'db.parts', strategy => 'sort', sort_order => 'x', options => {options})"
    assert sql(call)[0][:2] == (6, 3)
    assert stored(lake, "x", "y", "odd name.", name="db.parts") == before
    table.refresh()
    assert len(table.scan("x between 500000 and 500010").plan_files()) == 1
