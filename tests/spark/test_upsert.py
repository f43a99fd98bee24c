"""Upserts of Spark DataFrames: joined by Spark's tasks, or in this process where all is small; the same rows, counts and row ids as of Arrow rows;
footers of added files in a job.
"""

import datetime as dt
import gc
import time
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.combinations import combinations, repetitions
from tests.spark.comparing import same_rows

from icefloe import SqlCatalog, Table
from icefloe.errors import DataFileFormatError, EngineError, InvalidInputError, SchemaMismatchError
from icefloe.operations.available_engines import IN_PROCESS, EngineChoice, choosing_engines
from icefloe.operations.rows import add_files
from icefloe.operations.rows import upsert as upsert_action
from icefloe.spark import spark_engine
from icefloe.spark.row_level import upsert_rows_source
from icefloe.spark.spark_engine import SparkEngine

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("value", pa.float64()),
        ("tags", pa.map_(pa.string(), pa.float64())),
        ("inner", pa.struct([("l", pa.list_(pa.float32())), ("d", pa.decimal128(9, 2))])),
        ("raw", pa.binary()),
        ("u", pa.uuid()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
COLUMNS = "id int, part string, value float, tags map<string, double>, inner struct<d: decimal(5, 2), l: array<float>>, raw binary, u string, at timestamp"


HERE, CACHED_HERE, KEYS_HERE, ALL_HERE = (
    "in this process",
    "in this process, of a cache",
    "by Spark, of a cache, keys in this process",
    "by Spark, of rows that were read",
)


JOINS = [HERE, CACHED_HERE, ALL_HERE, "by Spark"]


@pytest.fixture(params=repetitions(JOINS, HERE, "by Spark"))
def joined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Join rows in this process or by Spark, return the name of the engine, and check after the test that the join ran there."""
    joins: list[object] = []
    original = spark_engine.upsert_rows
    monkeypatch.setattr(spark_engine, "upsert_rows", lambda request: (joins.append(None), original(request))[1])
    is_here = request.param in (HERE, CACHED_HERE)
    if not is_here:
        monkeypatch.setattr(upsert_action, "MOST_BYTES_HERE", -1)
    if request.param == "by Spark":
        monkeypatch.setattr(upsert_rows_source, "MOST_BYTES_HERE", -1)
    if request.param in (HERE, ALL_HERE):
        # Spark has no estimate of the rows that `frame` returns.
        monkeypatch.setattr(upsert_rows_source, "_size", lambda _: 0)
    yield "in-process" if is_here else "spark"
    assert bool(joins) != is_here


def row(number: int, *, other: int = 0) -> dict[str, Any]:
    nan = float("nan")
    return {
        "id": number,
        "part": "ab"[number % 2],
        "value": nan if number % 3 == 0 else 0.5 * number,
        "tags": [("k", nan), ("n", 1.0 + other)] if number % 5 else None,
        "inner": {"l": [0.5, nan, None], "d": Decimal(number)} if number % 7 else None,
        "raw": bytes([number % 256]),
        "u": uuid.UUID(int=number).bytes,
        "at": dt.datetime(2024, 2, 29, tzinfo=dt.UTC) + dt.timedelta(hours=number),
    }


def arrow(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def frame(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    """Return the rows with narrower types, and the members of the struct in another order."""
    found = [
        {
            **one,
            "tags": None if one["tags"] is None else dict(one["tags"]),
            "inner": one["inner"] and {"d": one["inner"]["d"], "l": one["inner"]["l"]},
            "u": str(uuid.UUID(bytes=one["u"])).upper(),
            "raw": bytearray(one["raw"]),
        }
        for one in rows
    ]
    return spark.createDataFrame(found, COLUMNS)


def make(lake: SqlCatalog, name: str, version: int, mode: str, spec: tuple[str, ...] = ()) -> Table:
    settings = {"format-version": str(version), "write.merge.mode": mode, "write.delete.mode": "merge-on-read"}
    return lake.create_table(name, SCHEMA, partition_spec=spec, properties=settings)


def contents(table: Table) -> list[str]:
    """Return the rows with the entries of maps sorted by key, because Spark does not keep their order."""
    return sorted(repr({**found, "tags": sorted(found["tags"] or ())}) for found in table.scan().to_arrow().to_pylist())


LAYOUTS: list[tuple[int, str, tuple[str, ...]]] = [
    (1, "copy-on-write", ("part", "bucket(2, id)")),
    (2, "merge-on-read", ()),
    (3, "copy-on-write", ()),
    (3, "merge-on-read", ("part", "day(at)")),
]


@pytest.mark.parametrize(
    ("joined", "version", "mode", "spec"),
    repetitions(
        [(joined, *layout) for joined in JOINS for layout in LAYOUTS], (HERE, *LAYOUTS[3]), *(("by Spark", *layout) for layout in LAYOUTS)
    ),
    indirect=["joined"],
)
def test_upserts_by_spark_and_in_this_process_have_the_same_result(
    spark: SparkSession, lake: SqlCatalog, joined: str, version: int, mode: str, spec: tuple[str, ...]
) -> None:
    by_spark, here = (make(lake, name, version, mode, spec) for name in ("db.s", "db.h"))
    first = [row(number) for number in range(60)]
    changed = [row(number, other=number % 2) for number in range(40, 80)]
    for table in (by_spark, here):
        table.append(arrow(*first[:30]))
        table.append(arrow(*first[30:]))
        table.delete("id in (3, 41, 42)") if version > 1 else None
    results = (
        by_spark.upsert(frame(spark, *changed), ["id"]),
        here.upsert(arrow(*changed), ["id"]),
    )
    assert [result.engine for result in results] == [joined, "in-process"]
    counts = [(result.rows_updated, result.rows_inserted, result.rows_unchanged) for result in results]
    assert counts[0] == counts[1]
    assert counts[0][0] > 5
    columns = ("_row_id", "_last_updated_sequence_number") if version == 3 else ()
    same_rows(by_spark, "TRUE", "id", "part", "raw", *columns)
    assert contents(by_spark) == contents(here)
    if version == 3:
        ids, wanted = (
            {
                one["id"]: one["_row_id"]
                for one in table.scan("id < 60").select("id", "_row_id").to_arrow().to_pylist()
                if one["id"] not in (41, 42)
            }
            for table in (by_spark, here)
        )
        assert ids == wanted


BOTH, INSERTS, UPDATES = (True, True), (False, True), (True, False)


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    ("joined", "key", "changes"),
    repetitions(
        [
            (joined, key, changes)
            for joined in JOINS
            for key in ("id", "u", "at", "raw", "inner.d", "part")
            for changes in (BOTH, INSERTS, UPDATES)
        ],
        *((HERE, "u", BOTH), ("by Spark", "u", BOTH), ("by Spark", "u", INSERTS), ("by Spark", "u", UPDATES)),
        *(("by Spark", "inner.d", BOTH), ("by Spark", "part", BOTH)),
    ),
    indirect=["joined"],
)
def test_keys_of_any_type_match_the_same_rows(spark: SparkSession, lake: SqlCatalog, key: str, changes: tuple[bool, bool]) -> None:
    by_spark, here = (make(lake, f"db.{name}", 2, "merge-on-read") for name in ("s", "h"))
    rows = [row(number) for number in range(1, 7 if key != "part" else 3)]
    for table in (by_spark, here):
        table.append(arrow(*rows[::2]))
    changed = [{**one, "value": 8.5} for one in rows]
    results = [table.upsert(source, [key], *changes) for table, source in ((by_spark, frame(spark, *changed)), (here, arrow(*changed)))]
    (counts,) = {(one.rows_updated, one.rows_inserted, one.rows_unchanged) for one in results}
    assert [bool(count) for count in counts[:2]] == list(changes)
    assert contents(by_spark) == contents(here)


@pytest.mark.parametrize("joined", [HERE, CACHED_HERE, "by Spark", KEYS_HERE, ALL_HERE], indirect=True)
@pytest.mark.usefixtures("joined")
def test_nulls_equal_no_key_and_nan_does(spark: SparkSession, lake: SqlCatalog) -> None:
    schema = pa.schema([("k", pa.float64()), ("v", pa.int32())])
    table = lake.create_table("db.n", schema)
    nan = float("nan")
    table.append(pa.table({"k": [None, nan, -0.0], "v": [1, 2, 3]}, schema=schema))
    result = table.upsert(spark.createDataFrame([(None, 4), (None, 4), (nan, 5), (0.0, 6)], "k double, v int"), ["k"])
    assert (result.rows_updated, result.rows_inserted, result.rows_unchanged) == (2, 2, 0)
    assert sorted(table.scan().to_arrow()["v"].to_pylist()) == [1, 4, 4, 5, 6]


@pytest.mark.usefixtures("joined")
def test_refusals_name_keys_and_columns_and_leave_no_file(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = make(lake, "db.t", 2, "copy-on-write")
    table.append(arrow(row(7), row(8)))
    table.append(arrow(row(7)))
    before = set(tmp_path.rglob("*.parquet"))
    kept = set(spark.sparkContext._jsc.getPersistentRDDs())
    with pytest.raises(InvalidInputError, match=r"1 key .id. more than once: 1"):
        table.upsert(frame(spark, row(1), row(1), row(2)), ["id"])
    with pytest.raises(InvalidInputError, match=r"match several rows of lake\.db\.t: 7"):
        table.upsert(frame(spark, row(7, other=1), row(2)), ["id"])
    with pytest.raises(SchemaMismatchError, match="raw"):
        table.upsert(frame(spark, row(1)).drop("raw"), ["id"])
    assert set(tmp_path.rglob("*.parquet")) == before
    assert table.upsert(frame(spark, row(8)).limit(0), ["id"]).snapshot_id is None
    gc.collect()  # the tracebacks above refer to the frames
    ends_by = time.monotonic() + 60
    while set(spark.sparkContext._jsc.getPersistentRDDs()) - kept and time.monotonic() < ends_by:
        time.sleep(0.1)  # another thread unpersists them
    assert not set(spark.sparkContext._jsc.getPersistentRDDs()) - kept


@pytest.mark.usefixtures("joined")
def test_a_dataframe_is_computed_once_also_after_a_lost_race(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(lake, "db.t", 2, "copy-on-write")
    table.append(arrow(*(row(number) for number in range(10))))
    computed = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    source = frame(spark, *(row(number, other=1) for number in range(5, 15)))
    store, original, won = table.handle.store, table.handle.store.commit, []

    def commit(*given: Any, **named: Any) -> Any:
        if not won:
            won.append(True)
            lake.load_table("db.t").append(arrow(row(12)))
        return original(*given, **named)

    monkeypatch.setattr(store, "commit", commit)
    result = table.upsert(source.mapInArrow(count, source.schema), ["id"])
    assert (result.attempts, result.rows_updated + result.rows_unchanged, result.rows_inserted) == (2, 6, 4)
    assert computed.value == 10
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(15))


def test_a_dataframe_that_was_cached_after_its_first_use_is_read_from_the_cache(spark: SparkSession, lake: SqlCatalog) -> None:
    computed = spark.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    source = spark.range(5).mapInArrow(count, "id long")
    assert len(source.collect()) == 5
    source.persist().count()
    assert computed.value == 10
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    result = table.upsert(source, ["id"])
    source.unpersist()
    assert (result.engine, result.rows_inserted, computed.value) == ("in-process", 5, 10)


TYPES = """id int, b boolean, i int, l bigint, f float, d double, n decimal(7, 3), dt date, ts timestamp, tn timestamp_ntz, s string, x binary,
    a array<array<int>>, m map<string, struct<t: timestamp, n: array<string>>>, st struct<u: string, e: array<decimal(30, 10)>>"""


@pytest.mark.parametrize(
    ("zone", "joined"), combinations(["UTC", "America/New_York"], [HERE, CACHED_HERE, "by Spark", ALL_HERE]), indirect=["joined"]
)
@pytest.mark.usefixtures("joined")
def test_rows_of_every_type_are_the_same_whether_they_were_read_first(spark: SparkSession, lake: SqlCatalog, zone: str) -> None:
    zone_before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        source = spark.sql(
            """SELECT CAST(id AS INT) AS id, id % 2 = 0, CAST(id AS INT), id * 1000000007, CAST(id / 7 AS FLOAT), double('NaN'), CAST(id / 8 AS DECIMAL(7, 3)),
            date_add(DATE'1969-12-20', CAST(id AS INT)), timestamp_micros(id * 86400000001 - 5), CAST(timestamp_micros(id - 5) AS TIMESTAMP_NTZ),
            repeat('ä', CAST(id AS INT)), CAST(repeat('x', CAST(id AS INT)) AS BINARY), array(array(CAST(id AS INT), NULL), array()),
            map(string(id), named_struct('t', timestamp_micros(-id), 'n', IF(id % 3 = 0, array(), array('a', NULL)))),
            named_struct('u', IF(id % 2 = 0, NULL, 'u'), 'e', array(CAST(id / 3 AS DECIMAL(30, 10)), NULL)) FROM range(40)
            UNION ALL SELECT 40, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"""
        )
        table = lake.create_table("db.every", spark.createDataFrame([], TYPES).toArrow().schema)
        rows = source.toDF(*(field.name for field in table.schema().fields))
        table.append(rows.where("id < 20"))
        result = table.upsert(rows, ["id"])
        assert (result.rows_updated, result.rows_inserted, result.rows_unchanged) == (0, 21, 20)
        plain = lake.create_table("db.plain", table.schema())
        plain.append(rows)
        stored, expected = (sorted(map(repr, each.scan().to_arrow().to_pylist())) for each in (table, plain))
        assert stored == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone_before)


@pytest.mark.parametrize(
    ("source", "rows_of_a_task", "inserted"),
    [
        # Spark estimates 5 rows of 8 bytes; a row takes 16.
        (
            lambda spark: spark.range(0, 5, 1, 1).selectExpr(
                "explode(sequence(id * 20000, id * 20000 + 19999)) AS id", "CAST(NULL AS STRING) AS s"
            ),
            8_333,
            100_000,
        ),
        # Spark estimates 20 bytes a text.
        (lambda spark: spark.range(0, 1_000, 1, 1).selectExpr("id", "repeat('x', 5000) AS s"), 39, 1_000),
        (lambda spark: spark.range(0, 1_000, 1, 4).selectExpr("id", "IF(id < 250, repeat('x', 5000), '') AS s"), 9 + 3 * 250, 1_000),
        # The task of a shuffle that adaptive execution plans.
        (lambda spark: spark.range(1_000).selectExpr("id", "repeat('x', 5000) AS s").distinct().coalesce(1), 39, 1_000),
    ],
    ids=["many", "wide", "wide in one of four tasks", "after a shuffle"],
)
def test_rows_that_are_few_by_estimate_alone_are_joined_by_spark(
    spark: SparkSession,
    lake: SqlCatalog,
    monkeypatch: pytest.MonkeyPatch,
    source: Callable[[SparkSession], DataFrame],
    rows_of_a_task: int,
    inserted: int,
) -> None:
    """Each task returns its share of the bytes that the driver takes, and no more."""
    monkeypatch.setattr(upsert_rows_source, "MOST_BYTES_HERE", 200_000)
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("s", pa.string())]))
    read: list[int] = []
    original = upsert_rows_source._read
    monkeypatch.setattr(upsert_rows_source, "_read", lambda rows: (read.append((found := original(rows)).num_rows), found)[1])
    rows = source(spark)
    assert upsert_rows_source._size(rows) < 200_000
    result = table.upsert(rows, ["id"])
    assert (result.engine, result.rows_inserted, read) == ("spark", inserted, [rows_of_a_task])


def test_rows_above_sparks_limit_of_results_are_joined_by_spark(
    spark: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Job aborted: Total size of serialized results of 2 tasks is bigger than spark.driver.maxResultSize (1024.0 MiB)"
    original = upsert_rows_source.run_job

    def run_job(session: SparkSession, description: str, action: Any) -> Any:
        if description == "read the few rows to upsert":
            raise EngineError(text)
        return original(session, description, action)

    monkeypatch.setattr(upsert_rows_source, "run_job", run_job)
    table = lake.create_table("db.t", pa.schema([("id", pa.int64())]))
    result = table.upsert(spark.range(7), ["id"])
    assert (result.engine, result.rows_inserted) == ("spark", 7)
    text = "a task failed"
    with pytest.raises(EngineError, match="a task failed"):
        table.upsert(spark.range(7), ["id"])


def test_spark_and_this_process_read_the_same_footers(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    table = make(lake, "db.t", 2, "copy-on-write", ("part",))
    paths = []
    for number in range(20):
        folder = tmp_path / "in" / f"part={'ab'[number % 2]}"
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(arrow(row(number)), paths[-1])
    by_spark, here = (
        add_files.read_footers(engine, table.handle, table.metadata, paths, table.spec()) for engine in (SparkEngine(), IN_PROCESS)
    )
    assert by_spark == here
    assert len(here) == len(paths)
    with choosing_engines(EngineChoice(footers=10)):
        result = table.add_files(str(tmp_path / "in"))
    assert (result.engine, result.added_files) == ("spark", 20)
    same_rows(table, "id > 4", "id", "part", "raw")
    bad = tmp_path / "in/part=a/bad.parquet"
    bad.write_bytes(b"PAR1 and no more")
    with choosing_engines(EngineChoice(footers=10)), pytest.raises(DataFileFormatError, match=r"bad\.parquet has no valid footer"):
        table.add_files(str(tmp_path / "in"), check_duplicate_files=False)
