"""Files of Spark, Hive and Impala that are added to tables: INT96 timestamps, local timestamps of ORC, the calendar of Spark 2, and columns of nulls alone."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from tests.table.test_add_files import live, make

from icefloe import SqlCatalog
from icefloe.errors import InvalidSchemaError, SchemaMismatchError, UnsupportedFeatureError
from icefloe.procedures import call

# Microseconds: a fraction, null, before 1970, before 1900, year 1 and the last microsecond of year 9999.
MICROS = [1_704_085_200_123_456, None, -1, -3_000_000_000_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999]
LOCAL, INSTANT = pa.timestamp("us"), pa.timestamp("us", "UTC")


def nested(kind: pa.DataType) -> pa.Schema:
    return pa.schema(
        [("id", pa.int64()), ("ts", kind), ("l", pa.list_(kind)), ("m", pa.map_(pa.string(), kind)), ("s", pa.struct([("x", kind)]))]
    )


def rows_of(kind: pa.DataType, micros: list[int | None]) -> pa.Table:
    values = pa.array(micros, pa.int64()).cast(kind)
    texts = [None if value is None else [("k", value)] for value in values]
    return pa.table(
        {
            "id": range(len(micros)),
            "ts": values,
            "l": pa.array([[value] for value in values], pa.list_(kind)),
            "m": pa.array(texts, pa.map_(pa.string(), kind)),
            "s": pa.StructArray.from_arrays([values], ["x"]),
        },
        schema=nested(kind),
    )


def numbers(rows: pa.Table) -> list[list[int | None]]:
    """Return the microseconds of every timestamp column, nested ones too."""
    columns = [
        rows["ts"],
        rows["l"].combine_chunks().flatten(),
        rows["m"].combine_chunks().items,
        rows["s"].combine_chunks().field("x"),
    ]
    return [column.cast(pa.int64()).to_pylist() for column in columns]


def stored(path: Path, rows: pa.Table, **metadata: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, rows.schema, use_deprecated_int96_timestamps=True, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(metadata)
    assert "INT96" in {pq.ParquetFile(path).schema.column(place).physical_type for place in range(6)}
    return str(path)


@pytest.mark.parametrize("kind", [LOCAL, INSTANT], ids=["timestamp", "timestamptz"])
def test_int96_is_read_as_microseconds_in_columns_with_a_time_zone_and_without(tmp_path: Path, kind: pa.DataType) -> None:
    table = make(tmp_path, schema=nested(kind))
    table.add_files([stored(tmp_path / "in/1.parquet", rows_of(LOCAL, MICROS))])
    file = live(table)[0]
    assert not {2, 6, 8, 9} & {*(file.lower_bounds or {}), *(file.upper_bounds or {})}
    rows = table.scan().to_arrow()
    assert rows.schema.field("ts").type == kind
    assert numbers(rows) == [MICROS] * 4
    zone = "+00:00" if kind is INSTANT else ""
    for where, found in (
        (f"ts = '2024-01-01T05:00:00.123456{zone}'", [0]),
        ("ts IS NULL", [1]),
        (f"ts < '1900-01-01T00:00:00{zone}'", [3, 4]),
        (f"ts > '9999-12-31T00:00:00{zone}'", [5]),
    ):
        assert table.scan(where).to_arrow()["id"].to_pylist() == found
    assert table.inspect.validate(values=True).findings == ()


def test_nanoseconds_of_int96_are_rounded_down_and_refused_for_a_column_of_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    rows = pa.table({"ts": pa.array([1_704_085_200_123_456_789], pa.timestamp("ns"))})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=True)
    table = make(tmp_path, schema=pa.schema([("ts", INSTANT)]))
    table.add_files([str(path)])
    assert table.scan().to_arrow()["ts"].cast(pa.int64()).to_pylist() == [1_704_085_200_123_456]
    (tmp_path / "nanos").mkdir()
    nanos = make(tmp_path / "nanos", version=3, schema=pa.schema([("ts", pa.timestamp("ns"))]))
    with pytest.raises(SchemaMismatchError, match="is stored as INT96, of which microseconds are read, and is timestamp_ns in the table"):
        nanos.add_files([str(path)])


@pytest.mark.parametrize(
    ("metadata", "is_refused"),
    [
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "3.0.3"}, True),
        ({"org.apache.spark.version": "4.1.0", "org.apache.spark.legacyINT96": ""}, True),
        ({"org.apache.spark.version": "4.1.0"}, False),
        ({}, False),
    ],
)
def test_times_before_1900_in_the_calendar_of_spark_2_are_refused(tmp_path: Path, metadata: dict[str, str], is_refused: bool) -> None:
    table = make(tmp_path, schema=nested(INSTANT))
    table.add_files([stored(tmp_path / "in/1.parquet", rows_of(LOCAL, MICROS[:3]), **metadata)])
    assert numbers(table.scan().to_arrow())[0] == MICROS[:3]
    table.add_files([stored(tmp_path / "in/2.parquet", rows_of(LOCAL, MICROS), **metadata)])
    for column in ("ts", "l", "m", "s"):
        scan = table.scan().select(column)
        if is_refused:
            with pytest.raises(UnsupportedFeatureError, match="has a value before 1900 in the calendar of Spark 2"):
                scan.to_arrow()
        else:
            assert scan.to_arrow().num_rows == len(MICROS) + 3
    assert {finding.rule for finding in table.inspect.validate(values=True).findings} == ({"not-checked"} if is_refused else set())


def test_columns_of_a_file_of_spark_2_that_have_no_calendar_are_read_whatever_their_values(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "name": pa.array(["a"]),
            "local": pa.array([dt.datetime(1850, 1, 1)], LOCAL),
            "n": pa.array([-(2**40)]),
            "d": pa.array([dt.date(1999, 1, 1)]),
        }
    )
    table = make(tmp_path, schema=rows.schema)
    pq.write_table(rows.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), tmp_path / "1.parquet")
    table.add_files([str(tmp_path / "1.parquet")])
    assert table.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_dates_of_spark_2_have_bounds_from_1900_on_alone(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.date32()), ("ts", INSTANT), ("local", LOCAL)])
    table = make(tmp_path, schema=schema)
    days = {"new": dt.date(1999, 1, 1), "old": dt.date(1500, 1, 1)}
    for name, day in days.items():
        time = dt.datetime.combine(day, dt.time(), dt.UTC)
        rows = pa.table({"d": [day], "ts": [time], "local": [time.replace(tzinfo=None)]}, schema=schema)
        path = tmp_path / f"{name}.parquet"
        pq.write_table(rows.replace_schema_metadata({"org.apache.spark.version": "2.4.0"}), path)
        table.add_files([str(path)])
    bounds = {Path(file.file_path).stem: set(file.lower_bounds or {}) for file in live(table)}
    assert bounds == {"new": {1, 2, 3}, "old": {3}}
    # The filter of another day must not skip the file: its row is refused.
    for where in ("d = '1500-01-10'", "ts < '1600-01-01T00:00:00+00:00'"):
        with pytest.raises(UnsupportedFeatureError, match="before 1900"):
            table.scan(where).to_arrow()
    assert table.scan("local < '1600-01-01T00:00:00'").select("local").to_arrow().num_rows == 1


@pytest.mark.parametrize("unit", ["ms", "us"])
def test_timestamps_of_spark_2_are_refused_in_both_of_its_units(tmp_path: Path, unit: str) -> None:
    first = -2_208_988_800  # 1900-01-01 in seconds
    factor = {"ms": 1_000, "us": 1_000_000}[unit]
    table = make(tmp_path, schema=pa.schema([("ts", INSTANT)]))
    for name, number in (("new", first * factor), ("old", first * factor - 1)):
        rows = pa.table({"ts": pa.array([number], pa.timestamp(unit, "UTC"))})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(rows.replace_schema_metadata({"org.apache.spark.legacyDateTime": ""}), path)
        if name == "old":
            assert table.scan().to_arrow()["ts"].cast(pa.int64()).to_pylist() == [first * 1_000_000]
        table.add_files([str(path)])
    with pytest.raises(UnsupportedFeatureError, match="before 1900"):
        table.scan().to_arrow()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "zstd", "snappy"])
def test_local_timestamps_of_orc_are_instants_where_they_were_written_in_utc(tmp_path: Path, compression: str) -> None:
    micros = [number for number in MICROS if number is not None and number > -9_000_000_000_000_000 and number < 9_000_000_000_000_000]
    rows = rows_of(pa.timestamp("ns"), []) if not micros else rows_of(LOCAL, micros)
    path = tmp_path / "in/1.orc"
    path.parent.mkdir()
    orc.write_table(rows, path, compression=compression)
    table = make(tmp_path, schema=nested(INSTANT))
    table.add_files([str(path)])
    assert numbers(table.scan().to_arrow()) == [micros] * 4
    assert table.inspect.validate(values=True).findings == ()


def test_local_timestamps_of_orc_of_another_time_zone_are_refused_as_instants_and_read_as_local_ones(tmp_path: Path) -> None:
    rows = rows_of(LOCAL, MICROS[:1])
    path = tmp_path / "1.orc"
    orc.write_table(rows, path, compression="uncompressed")
    data = path.read_bytes()
    assert data.count(b"\x1a\x03GMT") == 1
    path.write_bytes(data.replace(b"\x1a\x03GMT", b"\x1a\x03CET"))
    table = make(tmp_path, schema=nested(INSTANT))
    with pytest.raises(SchemaMismatchError, match="it was written in the time zone CET, and only that of UTC can be read") as refused:
        table.add_files([str(path)])
    assert [problem.where for problem in refused.value.problems] == ["ts", "l.element", "m.value", "s.x"]
    (tmp_path / "local").mkdir()
    local = make(tmp_path / "local", schema=nested(LOCAL))
    local.add_files([str(path)])
    assert local.scan().to_arrow()["ts"].to_pylist() == [dt.datetime(2024, 1, 1, 5, 0, 0, 123_456)]  # the wall clock of the writer


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_a_table_over_existing_files_has_columns_of_microseconds(tmp_path: Path, suffix: str) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"{tmp_path}/lake")
    catalog.create_namespace("db")
    rows = rows_of(LOCAL, MICROS[:4])
    path = tmp_path / f"in/1.{suffix}"
    if suffix == "orc":
        path.parent.mkdir()
        orc.write_table(rows, path)
    else:
        stored(path, rows)
    call(catalog, "snapshot", source_table=str(path.parent), table="db.t")
    table = catalog.load_table("db.t")
    kind = "timestamptz" if suffix == "parquet" else "timestamp"
    assert [str(table.schema().find_type(name)) for name in ("ts", "l.element", "m.value", "s.x")] == [kind] * 4
    assert numbers(table.scan().to_arrow())[0] == MICROS[:4]


def test_a_column_of_nulls_alone_is_read_as_any_type(tmp_path: Path) -> None:
    nothing = pa.null()
    rows = pa.table(
        {
            "id": [1, 2],
            "s": pa.nulls(2),
            "d": pa.nulls(2),
            "l": pa.array([[None], []], pa.list_(nothing)),
            "st": pa.array([{"a": None}, None], pa.struct([("a", nothing)])),
            "whole": pa.nulls(2),
        }
    )
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("s", pa.string()),
            ("d", pa.date32()),
            ("l", pa.list_(pa.float64())),
            ("st", pa.struct([("a", INSTANT)])),
            ("whole", pa.struct([("x", pa.int32())])),
        ]
    )
    path = tmp_path / "in/1.parquet"
    path.parent.mkdir()
    pq.write_table(rows, path)
    table = make(tmp_path, ("bucket(4, s)", "d"), schema=schema)
    table.add_files([str(path)])
    assert live(table)[0].partition == (None, None)
    expected: list[dict[str, Any]] = [
        {"id": 1, "s": None, "d": None, "l": [None], "st": {"a": None}, "whole": None},
        {"id": 2, "s": None, "d": None, "l": [], "st": None, "whole": None},
    ]
    read = table.scan().to_arrow()
    assert read.to_pylist() == expected
    assert read.schema.field("whole").type == schema.field("whole").type
    assert (table.scan("s IS NULL AND whole IS NULL").count(), table.scan("d IS NOT NULL").count()) == (2, 0)
    assert table.inspect.validate(values=True).findings == ()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    for version in ("2", "3"):
        arguments = {"source_table": str(path.parent), "table": f"db.v{version}", "properties": {"format-version": version}}
        if version == "2":
            with pytest.raises(InvalidSchemaError, match="use format version 3"):
                call(catalog, "snapshot", **arguments)
        else:
            call(catalog, "snapshot", **arguments)
            assert catalog.load_table("db.v3").scan().to_arrow().to_pylist() == expected
    # Another file of the folder has the type of a column.
    pq.write_table(pa.table({"id": [3], "s": ["x"]}), path.with_name("2.parquet"))
    pq.write_table(rows.select(["id", "s"]), path)
    call(catalog, "snapshot", source_table=str(path.parent), table="db.typed")
    assert sorted(map(str, catalog.load_table("db.typed").scan().to_arrow()["s"].to_pylist())) == ["None", "None", "x"]
