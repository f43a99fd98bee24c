"""Positions of rows and deleted rows in Spark's own scan: of whole and split files, with row groups and pages left out, they are those of a plain model."""

import logging
import random
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType
from tests.combinations import repetitions
from tests.spark.comparing import in_order, plain, plan_of, same_rows
from tests.spark.merge_on_read import delete_keys, delete_positions

from icefloe import SqlCatalog
from icefloe.spark.bridge import java_compiler as compiled
from icefloe.spark.bridge.gateway import class_folder, executors_have_classes, gateway_of, new_object
from icefloe.spark.scan import native_scan, read_strategy
from icefloe.spark.scan.metadata_column_values import DELETED_ROWS_COLUMN, POSITION_COLUMN
from icefloe.spark.scan.position_deletes import NUMBER_COLUMN
from icefloe.table import Table

pytestmark = pytest.mark.spark

ROWS = 12_500


def sources_of(frame: DataFrame) -> list[str]:
    """Return the classes of the file formats of a frame's scans."""
    leaves = frame._jdf.queryExecution().optimizedPlan().collectLeaves()
    scans = [leaf for place in range(leaves.size()) if (leaf := leaves.apply(place)).nodeName() == "LogicalRelation"]
    return [scan.relation().fileFormat().getClass().getSimpleName() for scan in scans]


@pytest.fixture(params=repetitions(["2", "3"], "3"))
def table(lake: SqlCatalog, request: pytest.FixtureRequest) -> Table:
    """Files of several row groups and pages, some with deleted rows, among them the first and the last of a file."""
    properties = {"format-version": request.param, "write.parquet.row-group-size-bytes": "65536", "write.parquet.page-row-limit": "1000"}
    numbers = pa.array(range(ROWS), pa.int64())
    nested = pa.array(
        [{"a": number % 7, "b": [number]} for number in range(ROWS)], pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))])
    )
    rows = pa.table({"id": numbers, "text": pa.array([f"text {number}" for number in range(ROWS)]), "s": nested})
    made = lake.create_table("db.t", rows.schema, properties=properties)
    for start, length in ((0, 9_000), (9_000, 3_000), (12_000, 500)):
        made.append(rows.slice(start, length))
    tasks = sorted(made.scan().plan_files(), key=lambda task: -task.file.record_count)
    delete_positions(made, {tasks[0].file.file_path: [0, 1, 4095, 4096, 6_345, 8_999], tasks[1].file.file_path: [*range(0, 3_000, 3)]})
    return made


COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
SETTINGS = {
    "whole": COMPILED,
    "split": {**COMPILED, "spark.sql.files.maxPartitionBytes": "20000"},
    "row by row": {**COMPILED, "spark.sql.parquet.enableVectorizedReader": "false"},
    "interpreted": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "off the heap": {**COMPILED, "spark.sql.columnVector.offheap.enabled": "true"},
    "small batches": {**COMPILED, "spark.sql.parquet.columnarReaderBatchSize": "7", "spark.sql.files.maxPartitionBytes": "50000"},
}
IN_THE_DEFAULT_RUN = ("split", "row by row", "small batches")


@contextmanager
def set_to(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Set settings of the session for a block."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


@pytest.mark.parametrize(
    "settings",
    [pytest.param(value, id=name, marks=() if name in IN_THE_DEFAULT_RUN else pytest.mark.slow) for name, value in SETTINGS.items()],
)
def test_rows_and_positions_are_those_of_a_plain_reader(table: Table, settings: dict[str, str], spark: SparkSession) -> None:
    with set_to(spark, settings):
        frame = same_rows(table, "TRUE", "id", "_file", "_pos", "s.b")
        same_rows(table, "id > 5000 AND id < 6500", "_pos", "id")
        same_rows(table, "text = 'text 10000'", "_pos")
        same_rows(table, "TRUE", "_pos")
        same_rows(table, "TRUE", "_pos", "_deleted", "id")
        same_rows(table, "id > 8500", "_deleted")
        same_rows(table)
        assert set(sources_of(frame)) == {"CountedParquet"}


INNER = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string())), ("c", pa.struct([("d", pa.decimal128(30, 3))]))])
COLUMNS = {
    "flag": (pa.bool_(), lambda number: number % 3 == 0),
    "small": (pa.int32(), lambda number: number),
    "few": (pa.int32(), lambda number: number % 5),
    "big": (pa.int64(), lambda number: number << 33),
    "low": (pa.float32(), lambda number: number / 4),
    "high": (pa.float64(), lambda number: number / 3),
    "d9": (pa.decimal128(9, 2), lambda number: Decimal(number).scaleb(-2)),
    "d18": (pa.decimal128(18, 2), lambda number: Decimal(number << 20).scaleb(-2)),
    "d38": (pa.decimal128(38, 2), lambda number: Decimal(number << 70).scaleb(-2)),
    "day": (pa.date32(), lambda number: date(2000, 1, 1) + timedelta(days=number)),
    "at": (pa.timestamp("us"), lambda number: datetime(2000, 1, 1) + timedelta(seconds=number)),
    "text": (pa.string(), lambda number: "x" * (number % 40) + str(number)),
    "kind": (pa.string(), lambda number: "abc"[number % 3]),
    "bytes": (pa.binary(), lambda number: bytes([number % 256] * (number % 3))),
    "fixed": (pa.binary(2), lambda number: bytes([number % 256, 7])),
    "s": (INNER, lambda number: {"a": number, "b": [str(number)] * (number % 3), "c": {"d": Decimal(number).scaleb(-3)}}),
    "list": (pa.list_(INNER), lambda number: [{"a": number, "b": None, "c": None}] * (number % 3)),
    "map": (pa.map_(pa.string(), pa.int64()), lambda number: [(str(key), number) for key in range(number % 3)]),
}


@pytest.mark.parametrize("nulls", repetitions([0, 7, 1], 7))
def test_values_of_every_type_stay_with_their_rows(lake: SqlCatalog, spark: SparkSession, nulls: int) -> None:
    """Each seventh value is null, with another start in each column, or none or each; rows are deleted one by one, in runs, and in whole batches."""
    schema = pa.schema([("id", pa.int64()), *((name, kind) for name, (kind, _) in COLUMNS.items())])
    table = lake.create_table("db.t", schema, properties={"format-version": "3", "write.parquet.row-group-size-bytes": "400000"})
    count, chosen = 6_000, random.Random(nulls)
    values = {
        name: [None if nulls and (number + place) % nulls == 0 else value(number) for number in range(count)]
        for place, (name, (_, value)) in enumerate(COLUMNS.items())
    }
    table.append(pa.table({"id": range(count), **values}, schema))
    runs = [*range(100, 250), *range(2_000, 2_003), *range(4_300, 4_800), count - 1]
    positions = sorted({*runs, *chosen.sample(range(count), 60), *chosen.sample(range(3_000, 4_000), 500)})
    delete_positions(table, {table.scan().plan_files()[0].file.file_path: positions})
    columns = ("id", "_pos", *COLUMNS)
    rows_left = table.scan(selected_fields=columns).to_arrow().to_pylist()
    expected = in_order([{**row, "map": None if row["map"] is None else dict(row["map"])} for row in rows_left])
    for vectors in ("false", "true"):
        with set_to(spark, {"spark.sql.columnVector.offheap.enabled": vectors, "spark.sql.parquet.columnarReaderBatchSize": "500"}):
            found = table.scan(selected_fields=columns).to_spark().collect()
            assert in_order([plain(row.asDict(recursive=True)) for row in found]) == expected
    rows = table.scan(selected_fields=("id", "d9", "s")).to_spark().where("d9 > 20").select("id", "s.c.d")
    filtered = table.scan("d9 > 20", selected_fields=("id", "s")).to_arrow().to_pylist()
    assert in_order([tuple(row) for row in rows.collect()]) == in_order([(row["id"], _inside(row["s"])) for row in filtered])
    assert table.scan().to_spark().count() == count - len(positions)


def _inside(struct: dict[str, Any] | None) -> Any:
    return struct["c"]["d"] if struct and struct["c"] else None


def test_a_reader_of_another_library_cannot_return_deleted_rows(table: Table, spark: SparkSession) -> None:
    """Where columnar rules are loaded that may replace Spark's reader, the plan tests a column that only Icefloe's reader fills."""
    state = spark._jsparkSession.sessionState()
    rules = state.getClass().getDeclaredField("columnarRules")
    rules.setAccessible(True)
    before = rules.get(state)
    assert "assertnotnull" not in plan_of(table.scan(selected_fields=("id",)).to_spark()).lower()
    rule = spark._jvm.org.apache.spark.sql.execution.ColumnarRule()
    rules.set(state, before.prepended(rule))
    try:
        frame = same_rows(table, "TRUE", "id")
        assert f"assertnotnull({DELETED_ROWS_COLUMN}" in plan_of(frame).lower()
        same_rows(table, "id > 5", "_deleted", "id")
    finally:
        rules.set(state, before)


@pytest.mark.parametrize("name", repetitions(["split", "row by row", "interpreted", "small batches"], "split"))
def test_without_access_to_row_groups_positions_are_sparks(
    table: Table, name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(session: SparkSession, name: str, data: StructType, deleted: native_scan.DeletedRows | None, _: object) -> object:
        positions = None if deleted is None else deleted.positions(session)
        names = (POSITION_COLUMN, DELETED_ROWS_COLUMN, NUMBER_COLUMN)
        return new_object(session, "CountedParquet", name, *names, positions, DELETED_ROWS_COLUMN in data.names, False)

    monkeypatch.setattr(native_scan, "_format", unknown)
    with set_to(spark, SETTINGS[name]):
        same_rows(table, "id > 5000 AND id < 6500", "_pos", "id")
        same_rows(table, "TRUE", "_deleted", "_pos", "id")
        same_rows(table)


def expected_ids(files: Sequence[range], deleted: Sequence[set[int]], keys: set[int]) -> list[tuple[int, int]]:
    """Return the ids that are left in files whose ids are consecutive, each with its position."""
    return [
        (number, position)
        for ids, positions in zip(files, deleted, strict=True)
        for position, number in enumerate(ids)
        if position not in positions and number not in keys
    ]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_random_deletes_leave_the_rows_of_a_plain_model(lake: SqlCatalog, spark: SparkSession, seed: int) -> None:
    chosen = random.Random(seed)
    version = "2" if seed % 2 else "3"
    properties = {
        "format-version": version,
        "write.parquet.row-group-size-bytes": str(chosen.choice([20_000, 65_536, 2**27])),
        "write.parquet.page-row-limit": str(chosen.choice([100, 1000])),
    }
    made = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("odd", pa.bool_()), ("text", pa.string())]), properties=properties)
    files: list[range] = []
    paths: list[str] = []
    for start in range(0, 80_000, 20_000):
        numbers = range(start, start + chosen.choice([1, 4096, 4097, 20_000]))
        ids = pa.array(numbers, pa.int64())
        made.append(pa.table({"id": ids, "odd": [bool(number % 2) for number in numbers], "text": [f"t{number}" for number in numbers]}))
        files.append(numbers)
        paths += {task.file.file_path for task in made.scan().plan_files()} - set(paths)
    deleted: list[set[int]] = [set() for _ in files]
    for _ in range(2):
        for path, ids, known in zip(paths, files, deleted, strict=True):
            chosen_positions = {
                0: set(),
                1: set(chosen.sample(range(len(ids)), len(ids) // 20)),
                2: set(range(len(ids) // 3, len(ids) // 2)),
                3: {0, len(ids) - 1},
            }[chosen.randrange(4)]
            fresh = chosen_positions - known
            if fresh:
                delete_positions(made, {path: sorted(fresh)})
                known.update(fresh)
    keys = set(chosen.sample(range(80_000), 50)) if seed >= 2 else set()
    if keys:
        delete_keys(made, pa.table({"id": pa.array(sorted(keys), pa.int64())}), ["id"])
    rows = expected_ids(files, deleted, keys)
    low = chosen.randrange(70_000)
    tests = {
        "id >= 0": lambda number: True,
        f"id BETWEEN {low} AND {low + 3000}": lambda number: low <= number <= low + 3000,
        f"id IN ({low}, {low + 7}, 20000, 41000)": lambda number: number in (low, low + 7, 20_000, 41_000),
        "odd AND text LIKE 't1%'": lambda number: number % 2 == 1 and str(number).startswith("1"),
        f"text = 't{low}' OR id < 150": lambda number: number == low or number < 150,
    }
    for settings in ({}, SETTINGS["split"], {**SETTINGS["small batches"], "spark.sql.files.maxPartitionBytes": "9000"}):
        with set_to(spark, settings):
            frames = [
                made.scan(selected_fields=("id", "odd", "text", "_pos"))
                .to_spark()
                .where(text)
                .select(f.lit(text).alias("filter"), "id", "_pos")
                for text in tests
            ]
            found = reduce(DataFrame.unionAll, frames).collect()
            counts = reduce(DataFrame.unionAll, [made.scan(text).to_spark().agg(f.lit(text), f.count("*")) for text in tests]).collect()
            for text, keeps in tests.items():
                expected = sorted(row for row in rows if keeps(row[0]))
                assert sorted((row["id"], row["_pos"]) for row in found if row["filter"] == text) == expected, (settings, text)
                assert dict(map(tuple, counts))[text] == len(expected), (settings, text)


def test_row_groups_and_pages_are_left_out_of_split_files_with_deletes(table: Table, spark: SparkSession) -> None:
    with set_to(spark, {**SETTINGS["split"], "spark.sql.adaptive.enabled": "false"}):
        frame = table.scan().to_spark().where("id BETWEEN 6340 AND 6350")
        plan = frame._jdf.queryExecution().executedPlan()
        plan.executeCollect()
        leaves = plan.collectLeaves()
        scans = [leaves.apply(place) for place in range(leaves.size())]
        assert sum(scan.inputRDDs().apply(0).getNumPartitions() for scan in scans) > 3
        assert sum(scan.metrics().apply("numOutputRows").value() for scan in scans) <= 2000
        assert sorted(row["id"] for row in frame.collect()) == [number for number in range(6_340, 6_351) if number != 6_345]


def test_a_kept_query_does_not_have_the_rows_of_other_deletes(table: Table, spark: SparkSession) -> None:
    frame = table.scan().to_spark().select("id").persist()
    try:
        assert frame.count() == ROWS - 1_006
        path = max(table.scan().plan_files(), key=lambda task: task.file.record_count).file.file_path
        delete_positions(table, {path: [77]})
        assert table.scan().to_spark().select("id").count() == ROWS - 1_007
    finally:
        frame.unpersist()


def test_filters_and_counts_of_a_query_keep_positions(table: Table) -> None:
    expected = [
        row for row in table.scan(selected_fields=("id", "s", "_pos")).to_arrow().to_pylist() if row["s"]["a"] == 3 and row["id"] % 5
    ]
    frame = table.scan(selected_fields=("id", "s", "_pos")).to_spark()
    found = frame.where("s.a = 3 AND id % 5 > 0 AND id IS NOT NULL").collect()
    assert in_order([row.asDict(recursive=True) for row in found]) == in_order(expected)
    assert table.scan().to_spark().count() == ROWS - 1_006
    counts = Counter(table.scan(selected_fields=("_pos",)).to_arrow()["_pos"].to_pylist())
    assert frame.alias("l").join(frame.alias("r"), "_pos").count() == sum(count * count for count in counts.values())


def test_files_with_deletes_are_read_by_python_where_executors_lack_the_class(
    table: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert executors_have_classes(spark)
    for module in (native_scan, read_strategy):
        monkeypatch.setattr(module, "executors_have_classes", lambda spark: False)
    with caplog.at_level(logging.WARNING, "icefloe.spark"):
        same_rows(table, "TRUE", "id", "_pos")
    assert "executors have not received the classes" in caplog.text
    table.append(pa.table({"id": [ROWS]}))
    # A subclass of Spark's format, so that no accelerator takes the scan over, and read by Spark's class.
    assert sources_of(same_rows(table, "TRUE", "id", "_pos"))[-1] == "ParquetById"


def test_the_jar_for_executors_has_the_classes_that_run_there(spark: SparkSession) -> None:
    folder = class_folder(gateway_of(spark), spark.version)
    names = zipfile.ZipFile(folder / "executors.jar").namelist()
    assert {Path(name).stem.split("$")[0] for name in names} == set(compiled.FOR_EXECUTORS)
    assert len(names) > len(set(compiled.FOR_EXECUTORS))  # with the classes inside them
