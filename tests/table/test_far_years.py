"""Dates and timestamps of years that Python's classes do not have, and at the ends of 64 bits: written, found, deleted and shown."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from icefloe import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, NotEqualTo, SqlCatalog, Table
from icefloe.cli.application import app
from icefloe.errors import InvalidInputError, SchemaMismatchError
from icefloe.spec.temporal_arrays import python_list, text_list

FAR_DAYS = [6_660_000, -735_600, 0, None]  # +20204-06-18, -0045-12-31
FAR_MICROS = [2**62, -(2**62), 0, None]
DATES = pa.array(FAR_DAYS, pa.int32()).cast(pa.date32())
TIMES = pa.array(FAR_MICROS, pa.timestamp("us"))
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "d": DATES,
        "t": TIMES,
        "z": TIMES.cast(pa.timestamp("us", "UTC")),
        "n": pa.StructArray.from_arrays([DATES, pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), TIMES)], names=["d", "ts"]),
    }
)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    found.create_namespace("db")
    return found


def make(catalog: SqlCatalog, *spec: str) -> Table:
    return catalog.create_table("db.t", ROWS.schema, partition_spec=spec)


def ids(table: Table, where: Any = "true") -> list[int]:
    return sorted(table.scan(where).to_arrow()["id"].to_pylist())


@pytest.mark.parametrize("field", ["d", "t", "z", "day(d)", "day(t)", "day(z)", "month(d)", "year(z)", "hour(t)", "n.d"])
def test_far_years_are_partition_values(catalog: SqlCatalog, field: str) -> None:
    table = make(catalog, field)
    assert table.append(ROWS).added_files == 4
    table.dynamic_partition_overwrite(ROWS.slice(0, 2))
    assert ids(table) == [1, 2, 3, 4]
    assert ids(table, "d > DATE '+12345-01-01'") == [1]
    assert ids(table, "t < TIMESTAMP '-0044-03-15 00:00:00'") == [2]
    table.delete("d < DATE '-0043-01-01'")
    assert ids(table) == [1, 3, 4]


@pytest.mark.parametrize("key", ["d", "t", "z"])
def test_far_years_are_keys(catalog: SqlCatalog, key: str) -> None:
    table = make(catalog)
    table.append(ROWS)
    keyed = ROWS.slice(0, 3)
    assert table.upsert(keyed.set_column(0, "id", pa.array([10, 20, 30], pa.int64())), [key]).rows_updated == 3
    assert ids(table) == [4, 10, 20, 30]
    with pytest.raises(InvalidInputError, match=r"more than once: '\+"):
        table.upsert(pa.concat_tables([keyed, keyed.slice(0, 1)]), [key])
    assert table.delete_keys(keyed, [key]).deleted_keys == 3
    assert ids(table) == [4]


def test_far_years_are_shown(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = make(catalog, "d")
    table.append(ROWS)
    options = ["--uri", f"sqlite:///{tmp_path}/catalog.db", "--warehouse", str(tmp_path)]
    shown = CliRunner().invoke(app, ["head", "db.t", "--json", *options])
    rows = {row["id"]: row for row in json.loads(shown.output)["rows"]}
    assert rows[1] == {
        "id": 1,
        "d": "+20204-06-18",
        "t": "+148108-07-06 14:00:27.387904",
        "z": "+148108-07-06 14:00:27.387904Z",
        "n": {"d": "+20204-06-18", "ts": ["+148108-07-06 14:00:27.387904"]},
    }
    assert rows[2]["z"] == "-144169-06-28 09:59:32.612096Z"
    table.overwrite(table.scan().select("id", "d", "t").to_pandas())
    back = table.scan().to_arrow().sort_by("id")
    assert back["d"].cast(pa.int32()).to_pylist() == FAR_DAYS
    assert back["t"].cast(pa.int64()).to_pylist() == FAR_MICROS


ZONED = ROWS["z"].combine_chunks()
NESTED = pa.table(
    {
        "dates": pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), DATES),
        "times": pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), TIMES),
        "n": ROWS["n"].combine_chunks()[:2],
        "m": pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), DATES[:2], ZONED[:2]),
        "near": pa.array([{"at": date(2024, 2, 29)}, None], pa.struct([("at", pa.date32())])),
        "ls": pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.StructArray.from_arrays([ZONED[:2]], ["z"])),
        "last": pa.array(["a", None]),
    }
)


@pytest.mark.parametrize("options", [{}, {"date_as_object": False}], ids=["default", "pandas dates"])
def test_far_years_inside_columns_are_values_of_pandas(catalog: SqlCatalog, options: dict[str, Any]) -> None:
    table = catalog.create_table("db.nested", NESTED.schema)
    table.append(NESTED)
    frame = table.scan().to_pandas(**options)
    assert list(frame.columns) == NESTED.column_names
    day, moment = pd.Timestamp(np.datetime64(6_660_000, "D")), pd.Timestamp(np.datetime64(2**62, "us"))
    assert frame["n"][0] == {"d": day, "ts": [moment]}
    assert frame["m"][0] == [(day, moment.tz_localize("UTC"))]
    assert frame["ls"][0] == [{"z": moment.tz_localize("UTC")}]
    assert frame["dates"][0][0] == np.datetime64(6_660_000, "D")
    assert frame["times"][0][1] == np.datetime64(-(2**62), "us")
    assert (frame["last"][0], frame["near"][1]) == ("a", None)
    table.overwrite(frame)
    assert table.scan().to_arrow().cast(NESTED.schema).equals(NESTED)


def test_timestamps_of_pandas_in_far_years_keep_their_year(catalog: SqlCatalog) -> None:
    """Arrow takes the year of such an object from Python's part of it, which is another one."""
    moment, ancient = pd.Timestamp(np.datetime64(2**62, "us")), pd.Timestamp(np.datetime64("-0044-03-15", "s"))
    times = pd.Series([moment, ancient, pd.NaT, pd.Timestamp("2024-02-29")], dtype=object)
    zoned = pd.Series([time.tz_localize("UTC") for time in times], dtype=object)
    days = pd.Series([pd.Timestamp(np.datetime64(day, "D")) for day in (6_660_000, -735_600, 0)] + [None], dtype=object)
    table = make(catalog)
    table.append(pd.DataFrame({"id": [1, 2, 3, 4], "d": days, "t": times, "z": zoned}))
    rows = table.scan().to_arrow()
    micros = [2**62, -63_549_360_000_000_000, None, 1_709_164_800_000_000]
    assert [rows[name].cast(pa.int64()).to_pylist() for name in "tz"] == [micros, micros]
    assert rows["d"].cast(pa.int32()).to_pylist() == [6_660_000, -735_600, 0, None]
    with pytest.raises(SchemaMismatchError, match="t: has times beyond 64 bits of microseconds: 292278"):
        table.append(pd.DataFrame({"id": [5], "t": pd.Series([pd.Timestamp(np.datetime64("2922780-01-01", "s"))], dtype=object)}))


def test_values_of_arrays() -> None:
    assert python_list(ROWS["d"])[:2] == ["+20204-06-18", "-0045-12-31"]
    assert python_list(ROWS["d"].slice(2)) == ROWS["d"].slice(2).to_pylist()
    assert python_list(ROWS["n"])[1] == {"d": "-0045-12-31", "ts": ["-144169-06-28 09:59:32.612096"]}
    for lists, numbers in ((pa.list_, pa.list_(pa.int32())), (pa.large_list, pa.large_list(pa.int32()))):
        assert python_list(pa.array([[7_000_000, None], None], numbers).cast(lists(pa.date32()))) == [["+21135-05-09", None], None]
    assert python_list(pa.array([[7_000_000, 0]], pa.list_(pa.int32(), 2)).cast(pa.list_(pa.date32(), 2))) == [
        ["+21135-05-09", date(1970, 1, 1)]
    ]
    assert text_list(pa.array([0, None], pa.timestamp("ns", "UTC"))) == ["1970-01-01 00:00:00Z", None]
    pairs = pa.MapArray.from_arrays(pa.array([0, 2], pa.int32()), DATES[:2], DATES[2:])
    assert text_list(pairs) == [[("+20204-06-18", "1970-01-01"), ("-0045-12-31", None)]]


HOUR = 3_600_000_000
ENDS = [
    2**63 - 1,
    -(2**63),
    2**31 * HOUR,
    2**31 * HOUR - 1,
    -(2**31) * HOUR,
    -(2**31) * HOUR - 1,
    -1,
    0,
    -1_732_919_509 * HOUR,
    1_732_919_507 * HOUR,
]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_hours_beyond_32_bits_wrap_and_lose_no_row(catalog: SqlCatalog, zone: str | None) -> None:
    rows = pa.table({"ts": pa.array(ENDS, pa.timestamp("us", zone))})
    table = catalog.create_table("db.hours", rows.schema, partition_spec=["hour(ts)"])
    table.append(rows)

    def found(where: Any) -> list[int]:
        return sorted(table.scan(where).to_arrow()["ts"].cast(pa.int64()).to_pylist())

    for value in ENDS:
        assert found(LessThan("ts", value)) == sorted(end for end in ENDS if end < value)
        assert found(GreaterThanOrEqual("ts", value)) == sorted(end for end in ENDS if end >= value)
        assert found(In("ts", [value, 0])) == sorted({value, 0})
        assert table.scan(LessThanOrEqual("ts", value)).count() == sum(end <= value for end in ENDS)
        assert table.scan(NotEqualTo("ts", value)).count() == len(ENDS) - 1
    assert found(EqualTo("ts", ENDS[0])) == ENDS[:1]
    table.delete(GreaterThan("ts", 0))
    assert found("true") == sorted(end for end in ENDS if end <= 0)
