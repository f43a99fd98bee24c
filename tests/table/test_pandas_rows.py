"""pandas frames that are written: the index, the types of the table, frames that a scan returned, and what is refused."""

import inspect
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from icefloe import SqlCatalog, Table
from icefloe.errors import SchemaMismatchError
from icefloe.operations.pandas_rows import arrow_of_frame
from icefloe.spec.schema.arrow_schema import to_schema
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.types import NestedField, StringType

ROWS = pd.DataFrame({"day": ["mon", "mon", "tue"], "kind": ["x", "x", "y"], "n": [1, 2, 3]})
COLUMNS = pa.schema([("day", pa.string()), ("kind", pa.string()), ("n", pa.int64())])
NUMBERS = count()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> SqlCatalog:
    folder: Path = tmp_path_factory.mktemp("frames")
    found = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    found.create_namespace("db")
    return found


def make(catalog: SqlCatalog, schema: pa.Schema) -> Table:
    nanos = "timestamp[ns" in str(schema)
    return catalog.create_table(f"db.t{next(NUMBERS)}", schema, properties={"format-version": "3" if nanos else "2"})


def stored(table: Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


WRITES: list[Callable[[Table, pd.DataFrame], Any]] = [
    lambda table, frame: table.append(frame),
    lambda table, frame: table.overwrite(frame),
    lambda table, frame: table.upsert(frame, ["day"]),
]


@pytest.mark.parametrize("write", WRITES, ids=["append", "overwrite", "upsert"])
def test_the_levels_of_an_index_are_columns(catalog: SqlCatalog, write: Callable[[Table, pd.DataFrame], Any]) -> None:
    table = make(catalog, COLUMNS)
    write(table, ROWS.groupby(["day", "kind"]).sum())
    assert stored(table) == [{"day": "mon", "kind": "x", "n": 3}, {"day": "tue", "kind": "y", "n": 3}]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (ROWS.set_index("day", drop=False), ["mon", "mon", "tue"]),  # the column again
        (ROWS.set_index("day").sort_values("n", ascending=False), ["tue", "mon", "mon"]),
        (ROWS.set_index(pd.Index([7, 8, 9])), ["mon", "mon", "tue"]),  # no name
        (ROWS.set_index(["day", pd.Index([7, 8, 9])]), ["mon", "mon", "tue"]),  # one level with a name
        (ROWS.set_index("day")[:0], []),
        (ROWS[["day"]].set_index("day"), ["mon", "mon", "tue"]),  # no column
        (ROWS.astype({"day": "category"}).set_index("day"), ["mon", "mon", "tue"]),
    ],
)
def test_an_index_that_repeats_a_column_or_has_no_name(catalog: SqlCatalog, frame: pd.DataFrame, expected: list[str]) -> None:
    table = make(catalog, COLUMNS)
    table.append(frame)
    assert [row["day"] for row in stored(table)] == expected


@pytest.mark.parametrize("frame", [ROWS[[]], pd.DataFrame(index=range(3)), ROWS.set_index(pd.Index([7, 8, 9]))[[]]])
def test_rows_of_a_frame_without_columns_are_rows_of_nulls(catalog: SqlCatalog, frame: pd.DataFrame) -> None:
    table = make(catalog, COLUMNS)
    table.append(frame)
    table.overwrite(frame)
    assert stored(table) == [{"day": None, "kind": None, "n": None}] * 3


def test_a_time_series_has_its_times_in_the_index(catalog: SqlCatalog) -> None:
    table = make(catalog, pa.schema([("at", pa.timestamp("us")), ("n", pa.float64())]))
    times = pd.date_range("2024-01-01", periods=3, freq="12h", name="at")
    table.append(pd.DataFrame({"n": [1, 2, 3]}, index=times).resample("D").sum())
    assert stored(table) == [{"at": datetime(2024, 1, 1), "n": 3.0}, {"at": datetime(2024, 1, 2), "n": 3.0}]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (ROWS.set_index(pd.Index([7, 8, 9], name="row")), "row: is the index of the frame, and not a column of the table"),
        (
            ROWS.set_index(pd.Index(["mon", "tue", "tue"], name="day")),
            "day: is the name of a column and of the index of the frame, whose values",
        ),
        (ROWS.rename(columns={"kind": "day"}), "day: is the name of two columns of the rows"),
        (ROWS.rename(columns={"kind": 7}), "7: is not a column of the table"),
        (ROWS.assign(n=pd.period_range("2024-01", periods=3, freq="M")), "n: has periods; to_timestamp makes times of them"),
        (ROWS.set_index(pd.period_range("2024-01", periods=3, freq="M", name="n"))[["day"]], "n: has periods"),
    ],
)
def test_names_that_are_ambiguous_or_of_no_column_are_refused(catalog: SqlCatalog, frame: pd.DataFrame, message: str) -> None:
    table = make(catalog, COLUMNS)
    with pytest.raises(SchemaMismatchError, match=message):
        table.append(frame)
    assert table.current_snapshot() is None


def test_sparse_columns_are_written_with_every_value(catalog: SqlCatalog) -> None:
    table = make(catalog, pa.schema([("n", pa.int64()), ("f", pa.float64())]))
    table.append(pd.DataFrame({"n": pd.arrays.SparseArray([0, 0, 7]), "f": pd.arrays.SparseArray([np.nan, 0.0, 1.5])}))
    assert stored(table) == [{"n": 0, "f": None}, {"n": 0, "f": 0.0}, {"n": 7, "f": 1.5}]


def test_keys_may_be_in_the_index_and_other_columns_are_not_read(catalog: SqlCatalog) -> None:
    table = make(catalog, COLUMNS)
    table.append(ROWS)
    keys = pd.DataFrame({"n": [3.0], "other": [object()]}, index=pd.MultiIndex.from_tuples([("tue", 5)], names=["day", "row"]))
    assert table.delete_keys(keys, ["day", "n"]).deleted_keys == 1
    assert [row["n"] for row in stored(table)] == [1, 2]


# Arrow type, values.
STORED: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, None]),
    (pa.int32(), [1, None, -(2**31)]),
    (pa.int64(), [2**53 + 1, -(2**63)]),
    (pa.int64(), [None, None]),
    (pa.float32(), [1.5, None, float("inf")]),
    (pa.float64(), [0.1, None, float("-inf")]),
    (pa.decimal128(38, 10), [Decimal("1.5"), None, Decimal("9999999999999999999999999999.0000000001")]),
    (pa.date32(), [date(1, 1, 1), None, date(9999, 12, 31)]),
    (pa.time64("us"), [time(23, 59, 59, 999999), None]),
    (pa.timestamp("us"), [datetime(1, 1, 1), None, datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, 0, 0, 0, 1).astimezone(), None]),
    (pa.timestamp("ns"), [np.datetime64("2024-01-01T00:00:00.000000001"), None]),
    (pa.string(), ["", None, "é"]),
    (pa.string(), [None, None]),
    (pa.binary(), [b"", None, b"\xff"]),
    (pa.binary(3), [b"abc", None]),
    (pa.list_(pa.int32()), [[1, None], None, [], [None]]),
    (pa.list_(pa.list_(pa.int64())), [[[2**60, None], None, []], None]),
    (pa.list_(pa.string()), [["a", None], []]),
    (pa.list_(pa.timestamp("us")), [[datetime(1, 1, 1), None], [datetime(9999, 1, 1)]]),
    (pa.list_(pa.timestamp("ns")), [[np.datetime64("2024-01-01T00:00:00.000000001")]]),
    (pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.decimal128(9, 2)))])), [[{"x": None, "y": [Decimal("1.10")]}, None], []]),
    (pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.float32())]))]), [{"x": 1, "y": None}, None, {"x": None, "y": {"z": 1.5}}]),
    (pa.struct([("x", pa.timestamp("ns"))]), [{"x": np.datetime64("2024-01-01T00:00:00.000000001")}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)], None, []]),
    (pa.map_(pa.int32(), pa.map_(pa.int32(), pa.list_(pa.int32()))), [[(1, [(2, [3, None])]), (2, None)], []]),
    (pa.map_(pa.struct([("k", pa.int32())]), pa.struct([("v", pa.binary(2))])), [[({"k": 1}, {"v": b"ab"}), ({"k": 2}, None)]]),
]


def filled(values: list[Any], kind: pa.DataType, rows: int) -> pa.Array:
    return pa.array([*values, *[values[0]] * (rows - len(values))], kind)


@pytest.mark.parametrize("options", [{}, {"types_mapper": pd.ArrowDtype}], ids=["numpy", "arrow"])
def test_a_frame_of_a_scan_can_be_written_again(catalog: SqlCatalog, options: dict[str, Any]) -> None:
    longest = max(len(values) for _, values in STORED)
    rows = pa.table({f"c{place}": filled(values, kind, longest) for place, (kind, values) in enumerate(STORED)})
    table = make(catalog, rows.schema)
    table.append(rows)
    before = table.scan().to_arrow()
    assert before.to_pydict() == rows.to_pydict()
    table.overwrite(table.scan().to_pandas(**options))
    assert table.scan().to_arrow().equals(before)


def cast(frame: pd.DataFrame, kind: pa.DataType) -> pa.Table:
    """Return the rows as they are written into a table whose only column is of this type."""
    schema = to_schema(pa.schema([("a", kind)]))
    return cast_to_schema(arrow_of_frame(frame, schema), schema)


# Arrow type of the table, what the frame has, what the table has then.
FITTING: list[tuple[pa.DataType, Any, list[Any]]] = [
    (pa.decimal128(10, 2), [Decimal("5"), 7, None, Decimal("1.1000")], [Decimal("5.00"), Decimal("7.00"), None, Decimal("1.10")]),
    (pa.decimal128(10, 2), np.array([5, 7], np.uint8), [Decimal("5.00"), Decimal("7.00")]),
    (pa.decimal128(38, 37), [1, 2], [Decimal("1." + "0" * 37), Decimal("2." + "0" * 37)]),
    (pa.decimal128(38, 0), [2**100], [Decimal(2**100)]),
    (pa.int32(), [1, None], [1, None]),
    (pa.int32(), pd.array([1, None], "Int8"), [1, None]),
    (pa.int64(), np.array([2**63 - 1], np.uint64), [2**63 - 1]),
    (pa.float32(), [0.1, 2], [float(np.float32(0.1)), 2.0]),
    (pa.float64(), [1, 2**53], [1.0, 2.0**53]),
    (pa.float64(), ["x"][:0], []),
    (pa.string(), [np.nan, np.nan], [None, None]),
    (pa.string(), ["a", pd.NA], ["a", None]),
    (pa.date32(), pd.to_datetime(["2024-02-29", None]), [date(2024, 2, 29), None]),
    (pa.timestamp("us"), [date(2024, 2, 29)], [datetime(2024, 2, 29)]),
    (pa.map_(pa.string(), pa.int32()), [{"a": 1.0, "b": None}, np.nan], [[("a", 1), ("b", None)], None]),
    (pa.list_(pa.float32()), [(1, 2.5), [], np.array([1, 2])], [[1.0, 2.5], [], [1.0, 2.0]]),
    (pa.list_(pa.int64()), [np.array([1, 2]), [3], np.array([], np.int64), None], [[1, 2], [3], [], None]),
    (pa.list_(pa.float64()), [np.array([1.5]), np.array([], np.int64)], [[1.5], []]),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), [{"x": 1}, {"y": "b"}, {}], [{"x": 1, "y": None}, {"x": None, "y": "b"}, {"x": None, "y": None}]),
    (pa.uuid(), [uuid.UUID(int=5), None], [uuid.UUID(int=5).bytes, None]),
    (pa.uuid(), [uuid.UUID(int=5).bytes], [uuid.UUID(int=5).bytes]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "expected"), FITTING)
def test_values_that_fit_the_tables_type_are_converted(kind: pa.DataType, values: Any, expected: list[Any]) -> None:
    assert cast(pd.DataFrame({"a": values}), kind)["a"].to_pylist() == expected


REFUSED: list[tuple[pa.DataType, Any, str]] = [
    (pa.int32(), [1.5, 2.0], r"a: has values that do not fit int: .*1\.5"),
    (pa.int32(), [2**31], r"a: has values that do not fit int: .*2147483648"),
    (pa.int64(), [2.0**63], r"a: has values that do not fit long"),
    (pa.int64(), [2**64], r"a: has values of no single type"),
    (pa.int64(), [True, False], r"a: is bool in the rows, which does not fit long"),
    (pa.int64(), ["1"], r"a: is string in the rows, which does not fit long"),
    (pa.int64(), [Decimal(1)], r"a: is decimal128\(1, 0\) in the rows, which does not fit long"),
    (pa.bool_(), [1, 0], r"a: is int64 in the rows, which does not fit boolean"),
    (pa.float32(), [1e39], r"a: has values that do not fit float: 1e\+39 is beyond"),
    (pa.float64(), [2**53 + 1], r"a: has values that do not fit double"),
    (pa.decimal128(10, 2), [Decimal("1.111")], r"a: has values that do not fit decimal\(10, 2\)"),
    (pa.decimal128(10, 2), [10**8], r"a: has values that do not fit decimal\(10, 2\)"),
    (pa.decimal128(10, 2), [1.1], r"a: is double in the rows, which does not fit decimal\(10, 2\)"),
    (pa.string(), [1], r"a: is int64 in the rows, which does not fit string"),
    (pa.string(), [b"x"], r"a: is binary in the rows, which does not fit string"),
    (pa.string(), ["x", 1], r"a: has values of no single type"),
    (pa.binary(3), [b"abcd"], r"a: has values that do not fit fixed\[3\]"),
    (pa.date32(), pd.to_datetime(["2024-02-29 12:00"]), r"a: has values that do not fit date: 2024-02-29 12:00:00\S* is not midnight"),
    (pa.date32(), [20000], r"a: is int64 in the rows, which does not fit date"),
    (pa.timestamp("us"), pd.to_datetime(["2024-02-29"]).tz_localize("UTC"), r"a: is timestamp\[ns, tz=UTC\] in the rows, which does not fit timestamp"),
    (pa.timestamp("us"), pd.Series([pd.Timestamp(1), None], dtype=object), r"a: has values that do not fit timestamp"),
    (pa.list_(pa.int32()), [[1, 2.5]], r"a\.element: has values that do not fit int: .*2\.5"),
    (pa.list_(pa.int32()), ["ab"], r"a: has values that do not fit a list: 'ab' is not a list"),
    (pa.struct([("x", pa.int32())]), [{"x": 1, "z": 2}], r"a\.z: is not a column of the table"),
    (pa.struct([("x", pa.int32())]), [5], r"a: is int64 in the rows, which does not fit struct"),
    (pa.struct([("x", pa.int32())]), [{"x": 5}, 5], r"a: has values that do not fit a struct: 5 is not a dictionary"),
    (pa.map_(pa.string(), pa.int32()), [{"a": "b"}], r"a\.value: is string in the rows, which does not fit int"),
    (pa.map_(pa.string(), pa.int32()), [[("a", 1, 2)]], r"a: has values that do not fit a map"),
    (pa.map_(pa.string(), pa.int32()), [[(None, 1)]], r"a: has values that do not fit a map: .*key"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "message"), REFUSED)
def test_values_that_would_change_are_refused_with_their_column(kind: pa.DataType, values: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        cast(pd.DataFrame({"a": values}), kind)


def test_every_column_that_does_not_fit_is_listed() -> None:
    schema = to_schema(pa.schema([("a", pa.int32()), ("b", pa.list_(pa.int32()))]))
    with pytest.raises(SchemaMismatchError) as caught:
        arrow_of_frame(pd.DataFrame({"a": [1.5], "b": [[2.5]]}), schema)
    assert [problem.where for problem in caught.value.problems] == ["a", "b.element"]


@pytest.mark.parametrize(
    ("kept", "kind", "values"),
    [
        (pa.list_(pa.int64()), pa.list_(pa.int32()), [[1, None], None, []]),
        (pa.large_list(pa.decimal128(3, 1)), pa.list_(pa.decimal128(9, 2)), [[Decimal("1.5")], None]),
        (pa.struct([("x", pa.int64())]), pa.struct([("x", pa.int32())]), [{"x": 1}, None, {"x": None}]),
        (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int32()), [[("a", 1)], None, []]),
        (pa.list_(pa.struct([("x", pa.float64())])), pa.list_(pa.struct([("x", pa.float32())])), [[{"x": 1.5}, None], None]),
    ],
)
def test_nested_values_that_arrow_keeps_are_converted(kept: pa.DataType, kind: pa.DataType, values: list[Any]) -> None:
    schema = to_schema(pa.schema([("c", kind)]))
    frame = pd.DataFrame({"c": pd.Series([values[0], *values], dtype=pd.ArrowDtype(kept))})[1:]
    assert cast_to_schema(arrow_of_frame(frame, schema), schema)["c"].to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (
            pa.list_(pa.int32()),
            pd.Series([[2**40]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
            "c.element: has values that do not fit int",
        ),
        (pa.date32(), [date(2020, 1, 1), datetime(2020, 1, 1, 5)], "c: has dates and times: 2020-01-01 05:00:00 is not a date"),
        (pa.list_(pa.date32()), [[date(2020, 1, 1), datetime(2020, 1, 1, 5)]], "c.element: has dates and times"),
        (pa.timestamp("us"), [datetime(2020, 1, 1), datetime(2020, 1, 1).astimezone()], "c: has times with and without a zone"),
    ],
)
def test_values_of_which_arrow_would_drop_a_part_are_refused(kind: pa.DataType, values: Any, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        arrow_of_frame(
            pd.DataFrame({"c": values}, dtype=None if isinstance(values, pd.Series) else object), to_schema(pa.schema([("c", kind)]))
        )


ZONE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("kind", "values", "where"),
    [
        (pa.time64("us"), [time(10, tzinfo=ZONE)], "c"),
        (pa.time64("us"), [None, time(10), time(0, tzinfo=UTC)], "c"),
        (pa.struct([("t", pa.time64("us"))]), [{"t": time(10, tzinfo=ZONE)}], "c.t"),
        (pa.list_(pa.time64("us")), [[time(10)], [time(10, tzinfo=ZONE)]], "c.element"),
        (pa.map_(pa.string(), pa.time64("us")), [{"k": time(10, tzinfo=ZONE)}], "c.value"),
    ],
)
def test_a_time_of_day_with_a_zone_is_refused(kind: pa.DataType, values: list[Any], where: str) -> None:
    schema = to_schema(pa.schema([("c", kind)]))
    for frame in (
        pd.DataFrame({"c": pd.Series(values, dtype=object)}),
        pd.DataFrame({"x": values}, index=pd.Index(values, name="c", dtype=object)),
    ):
        with pytest.raises(SchemaMismatchError) as refused:
            arrow_of_frame(frame, schema, ("c",))
        assert refused.value.problems[0].where == where
        assert "has times of day with a zone" in refused.value.problems[0].what
    if where == "c":
        with pytest.raises(SchemaMismatchError, match="has times of day with a zone"):
            arrow_of_frame(pd.DataFrame({"c": values}))


NO_VALUES: list[Any] = [
    [pd.NaT, pd.NaT],
    pd.Series([pd.NaT, pd.NaT], dtype="datetime64[ns, Europe/Berlin]"),
    pd.Series([pd.NaT, pd.NaT], dtype="timedelta64[ns]"),
    pd.Series([np.datetime64("NaT"), None], dtype=object),
    pd.Series([pd.NaT, float("nan")], dtype=object),
    pd.Series([pd.NA, pd.NA], dtype="Int64"),
    pd.Series([pd.NA, pd.NA], dtype="string"),
    pd.Series([None, None], dtype="category"),
]


@pytest.mark.parametrize("values", NO_VALUES, ids=lambda values: str(getattr(values, "dtype", "list")))
def test_a_column_without_values_is_null_whatever_type_pandas_gave_it(values: Any) -> None:
    inner = [
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.binary(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.decimal128(9, 2),
        pa.uuid(),
    ]
    kinds = [
        *inner,
        pa.list_(pa.string()),
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("a", pa.string())]),
        pa.list_(pa.list_(pa.int64())),
    ]
    schema = to_schema(pa.schema([(f"c{number}", kind) for number, kind in enumerate(kinds)]))
    frame = pd.DataFrame({field.name: values for field in schema.fields})
    rows = cast_to_schema(arrow_of_frame(frame, schema), schema)
    assert [column.null_count for column in rows.columns] == [2] * len(kinds)
    required = Schema(NestedField(1, "a", StringType(), required=True))
    with pytest.raises(SchemaMismatchError, match="a: has 2 nulls, and is required"):
        cast_to_schema(arrow_of_frame(pd.DataFrame({"a": values}), required), required)


def test_a_table_shows_its_members_without_datafusion(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "datafusion", raising=False)
    table = make(catalog, COLUMNS)
    assert not getattr(table, "_inner")  # noqa: B009  as other libraries look for it
    assert "append" in dict(inspect.getmembers(table))
