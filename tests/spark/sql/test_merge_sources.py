"""The sources of MERGE: a source of any kind is read once, and the result is that of the statement's definition.

Clauses are in `test_row_level.py`. Expected rows are written by hand, and are the same for a source that is too large to be read first.
"""

import math
import secrets
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import IllegalArgumentException, SparkRuntimeException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.functions import expr
from pyspark.sql.types import LongType, StructField, StructType
from tests.combinations import repetitions
from tests.spark.sql.conftest import Run, append, create, stored

from icefloe import SqlCatalog
from icefloe.io.locations import local_path
from icefloe.spark.row_level import broadcast_source, large_source, merge_planner

pytestmark = pytest.mark.spark

LONGS = StructType([StructField("id", LongType()), StructField("v", LongType())])
MODES = ("copy-on-write", "merge-on-read")


@pytest.fixture(
    params=[
        "read first",
        pytest.param("keys alone", marks=pytest.mark.slow),
        pytest.param("read twice", marks=pytest.mark.slow),
        pytest.param("too large", marks=pytest.mark.slow),
    ]
)
def reading(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How sources are read: all in the first read, more rows than the first read takes, only their keys, or not before the join."""
    if request.param == "read twice":
        monkeypatch.setattr(broadcast_source, "_FIRST_ROWS", 1)
    if request.param in ("too large", "keys alone"):
        monkeypatch.setattr(broadcast_source, "MOST_SOURCE_BYTES", 0)
    if request.param == "keys alone":
        monkeypatch.setattr(large_source, "LEAST_TARGET_BYTES", 0)
        monkeypatch.setattr(large_source, "is_known", lambda _: False)
    return str(request.param)


def made(lake: SqlCatalog, columns: str, rows: Iterable[tuple[Any, ...]], mode: str = "merge-on-read") -> None:
    create(lake, columns, format_version="3", **{"write.merge.mode": mode})
    append(lake, rows)


def ids(lake: SqlCatalog) -> list[tuple[Any, ...]]:
    return stored(lake, "id", "v")


def by_number(row: tuple[float, int]) -> tuple[float, int]:
    """Return by what Spark sorts a number and an integer: NaN is larger than every number."""
    return (2**70 if math.isnan(row[0]) else min(row[0], 2**69)), row[1]


TAKE_ALL = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"


@pytest.mark.parametrize("mode", repetitions(MODES, "merge-on-read"))
def test_a_source_with_random_rows_is_read_once(spark: SparkSession, sql: Run, lake: SqlCatalog, reading: str, mode: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(200)], mode)
    # One id of each pair, at random: a second read finds other ids. Spark cannot see that these are.
    by_chance = spark.sparkContext.parallelize(range(150), 2).map(lambda pair: (2 * pair + secrets.randbelow(2), -1))
    spark.createDataFrame(by_chance, LONGS).createOrReplaceTempView("by_chance")
    sql(f"MERGE INTO lake.db.t t USING by_chance s ON t.id = s.id {TAKE_ALL}")
    found = ids(lake)
    assert len({one for one, _ in found}) == len(found) == 250
    taken = [one for one, v in found if v == -1]
    assert sorted(one // 2 for one in taken) == list(range(150))
    assert [one for one, v in found if v == 0] == sorted(set(range(200)) - set(taken))


def test_a_target_row_that_several_source_rows_match_is_refused(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, number) for number in range(5)])
    before = lake.load_table("db.t").metadata_location
    twice = "(SELECT id % 4 AS id, id AS v FROM range(1, 7))"
    with pytest.raises(SparkRuntimeException, match="MERGE_CARDINALITY_VIOLATION"):
        sql(f"MERGE INTO lake.db.t t USING {twice} s ON t.id = s.id {TAKE_ALL}")
    assert lake.load_table("db.t").metadata_location == before
    # Several source rows may delete a row, and the condition may distinguish them; each row without a match is inserted.
    sql(f"MERGE INTO lake.db.t t USING {twice} s ON t.id = s.id AND t.v = s.v {TAKE_ALL}")
    assert ids(lake) == [(0, 0), (0, 4), (1, 1), (1, 5), (2, 2), (2, 6), (3, 3), (4, 4)]
    sql(f"MERGE INTO lake.db.t t USING {twice} s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert ids(lake) == [(4, 4)]


def test_nulls_match_only_by_null_safe_equality(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(None, 1), (2, 2), (3, 3)])
    source = "(SELECT * FROM VALUES (CAST(NULL AS BIGINT), -1L), (2L, -2L) AS (id, v))"
    sql(f"MERGE INTO lake.db.t t USING {source} s ON t.id <=> s.id {TAKE_ALL}")
    assert ids(lake) == [(None, -1), (2, -2), (3, 3)]
    sql(f"MERGE INTO lake.db.t t USING {source.replace('-2', '-7')} s ON s.id = t.id {TAKE_ALL}")
    assert ids(lake) == [(None, -1), (None, -1), (2, -7), (3, 3)]
    nothing_but_null = "(SELECT CAST(NULL AS BIGINT) AS id, -9L AS v)"
    sql(f"MERGE INTO lake.db.t t USING {nothing_but_null} s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert len(ids(lake)) == 4


def test_numbers_match_as_in_spark(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id DOUBLE, v BIGINT", [(math.nan, 1), (-0.0, 2), (math.inf, 3), (1.5, 4)])
    source = "(SELECT * FROM VALUES (double('NaN'), -1L), (0.0D, -2L), (2.5D, -4L) AS (id, v))"
    sql(f"MERGE INTO lake.db.t t USING {source} s ON t.id = s.id {TAKE_ALL}")
    assert [(v,) for _, v in sorted(ids(lake), key=by_number)] == [(-2,), (4,), (-4,), (3,), (-1,)]
    sql("MERGE INTO lake.db.t t USING (SELECT double('NaN') AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert [(v,) for _, v in sorted(ids(lake), key=by_number)] == [(-2,), (4,), (-4,), (3,)]


def test_conditions_name_columns_of_both_sides(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, number * 10) for number in range(6)])
    source = "(SELECT id, 25L AS v, if(id = 5, 'x', 'y') AS kind FROM range(1, 8))"
    sql(f"""MERGE INTO lake.db.t t USING {source} s ON t.id + 1 = s.id AND t.v < s.v AND t.id > 0 AND s.kind = 'y'
            WHEN MATCHED AND t.v + s.id = 13 THEN DELETE
            WHEN MATCHED THEN UPDATE SET v = t.v + s.v
            WHEN NOT MATCHED AND s.kind = 'x' THEN INSERT (id, v) VALUES (s.id + 100, NULL)
            WHEN NOT MATCHED AND s.id > 6 THEN INSERT (id, v) VALUES (s.id, s.v)""")
    # 1 matches 2 and is updated to 10 + 25; 2 matches 3 and is updated to 20 + 25; 0, 3, 4 and 5 match nothing.
    assert ids(lake) == [(0, 0), (1, 35), (2, 45), (3, 30), (4, 40), (5, 50), (7, 25), (105, None)]
    sql(f"MERGE INTO lake.db.t t USING {source} s ON t.id + 1 = s.id AND t.v = 35 WHEN MATCHED AND t.v - s.id = 33 THEN DELETE")
    assert (1, 35) not in ids(lake)


def test_a_condition_without_an_equality_works(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(4)])
    sql("MERGE INTO lake.db.t t USING (SELECT 1 AS low, 2 AS high) s ON t.id BETWEEN s.low AND s.high WHEN MATCHED THEN UPDATE SET v = 1")
    sql("MERGE INTO lake.db.t t USING (SELECT 9L AS id, 9L AS v) s ON false WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *")
    assert ids(lake) == [(0, 0), (1, 1), (2, 1), (3, 0), (9, 9)]


@pytest.mark.parametrize("mode", repetitions(MODES, "copy-on-write"))
def test_the_target_can_be_its_own_source(sql: Run, lake: SqlCatalog, reading: str, mode: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, number) for number in range(4)], mode)
    sql(f"MERGE INTO lake.db.t t USING lake.db.t s ON t.id = s.id + 1 {TAKE_ALL}")
    # 1, 2 and 3 take the values of 0, 1 and 2; the source row 3 matches no row and is inserted.
    assert ids(lake) == [(0, 0), (1, 0), (2, 1), (3, 2), (3, 3)]
    sql(
        "MERGE INTO lake.db.t t USING (SELECT id, max(v) AS v FROM lake.db.t GROUP BY id) s ON t.id = s.id AND t.v < s.v WHEN MATCHED THEN DELETE"
    )
    assert ids(lake) == [(0, 0), (1, 0), (2, 1), (3, 3)]


def test_a_source_without_rows_changes_nothing(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, number) for number in range(4)])
    before = lake.load_table("db.t").metadata_location
    sql(f"MERGE INTO lake.db.t t USING (SELECT * FROM lake.db.t WHERE v > 100) s ON t.id = s.id {TAKE_ALL}")
    sql("MERGE INTO lake.db.t t USING (SELECT id FROM range(0)) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert lake.load_table("db.t").metadata_location == before
    sql("MERGE INTO lake.db.t t USING (SELECT id FROM range(0)) s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id > 1 THEN DELETE")
    assert ids(lake) == [(0, 0), (1, 1)]


@pytest.mark.slow
def test_rows_from_python_are_a_source_of_unknown_size(spark: SparkSession, sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(100)])
    spark.createDataFrame(
        spark.sparkContext.parallelize([(50 + number, number) for number in range(60)], 3), LONGS
    ).createOrReplaceTempView("given")
    sql(f"MERGE INTO lake.db.t t USING given s ON t.id = s.id {TAKE_ALL}")
    assert ids(lake) == [(number, max(number - 50, 0)) for number in range(110)]


ONLY_INSERTS = {
    "one clause": "WHEN NOT MATCHED THEN INSERT *",
    "two clauses": "WHEN NOT MATCHED AND s.id % 2 = 0 THEN INSERT * WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
}


@pytest.mark.parametrize("clauses", repetitions(list(ONLY_INSERTS), "two clauses"))
def test_a_merge_that_only_inserts_reads_its_source_once(
    spark: SparkSession, sql: Run, lake: SqlCatalog, reading: str, clauses: str
) -> None:
    made(lake, "id BIGINT, v BIGINT", [(None, 1), (2, 2), (3, 3)])
    given = spark.sparkContext.parallelize([(None, -1), (2, -2), (4, -4), (4, -4), (7, -7)], 2)
    spark.createDataFrame(given, LONGS).createOrReplaceTempView("given")
    statement = f"MERGE INTO lake.db.t t USING given s ON t.id = s.id {ONLY_INSERTS[clauses]}"
    before = lake.load_table("db.t").metadata_location
    sql(f"EXPLAIN {statement}")
    assert lake.load_table("db.t").metadata_location == before
    sql(statement)
    assert ids(lake) == [(None, -1), (None, 1), (2, 2), (3, 3), (4, -4), (4, -4), (7, -7)]
    sql("INSERT INTO lake.db.t SELECT id + 1, v FROM given g WHERE NOT EXISTS (SELECT 1 FROM lake.db.t WHERE id = g.id + 1)")
    by_id = [row for row in ids(lake) if row[0] is not None]
    assert by_id == [(2, 2), (3, 3), (4, -4), (4, -4), (5, -4), (5, -4), (7, -7), (8, -7)]
    assert len(ids(lake)) - len(by_id) == 3  # a null is equal to nothing


@pytest.mark.slow
def test_rows_without_a_match_are_appended_for_any_condition(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(4)])
    sql("INSERT INTO lake.db.t SELECT id, -1 FROM range(10) s WHERE NOT EXISTS (SELECT 1 FROM lake.db.t WHERE id > s.id - 3)")
    assert [one for one, v in ids(lake) if v == -1] == [6, 7, 8, 9]
    sql("INSERT INTO lake.db.t SELECT id, -2 FROM range(12) WHERE id NOT IN (SELECT id FROM lake.db.t)")
    assert [one for one, v in ids(lake) if v == -2] == [4, 5, 10, 11]
    sql("MERGE INTO lake.db.t t USING (SELECT id, -3L AS v FROM range(9, 14)) s ON t.id >= s.id WHEN NOT MATCHED THEN INSERT *")
    assert [one for one, v in ids(lake) if v == -3] == [12, 13]


KINDS = {
    "INT": "id",
    "STRING": "concat('n', lpad(id, 3, '0'))",
    "DECIMAL(10, 2)": "id + 0.25BD",
    "DATE": "date_add(DATE '2024-01-01', int(id))",
    "TIMESTAMP": "TIMESTAMP '2024-01-01 00:00:00' + make_dt_interval(id)",
    "TIMESTAMP_NTZ": "TIMESTAMP_NTZ '1969-12-01 00:00:00' + make_dt_interval(id)",
    "BINARY": "encode(lpad(id, 3, '0'), 'utf-8')",
    "FLOAT": "id / 7",
    "BOOLEAN": "id > 20",
    "STRUCT<a: INT>": "named_struct('a', int(id))",
}


@pytest.fixture(scope="module")
def keys(spark: SparkSession) -> pa.Table:
    """The keys of each kind for the ids 0 to 39, as Spark computes them."""
    return spark.sql(f"SELECT {', '.join(f'CAST({text} AS {kind}) AS `{kind}`' for kind, text in KINDS.items())} FROM range(40)").toArrow()


@pytest.mark.parametrize(
    ("kind", "reading"),
    repetitions(
        list(product(KINDS, ["read first", "keys alone"])),
        *product(["INT", "DECIMAL(10, 2)", "BINARY", "BOOLEAN", "TIMESTAMP"], ["read first"]),
        *product(["STRING", "DATE", "TIMESTAMP_NTZ", "FLOAT", "STRUCT<a: INT>"], ["keys alone"]),
    ),
    indirect=["reading"],
)
def test_keys_of_every_type_match_their_rows_and_prune_files(sql: Run, lake: SqlCatalog, reading: str, kind: str, keys: pa.Table) -> None:
    key = f"CAST({KINDS[kind]} AS {kind})"
    made(lake, f"k {kind}, id BIGINT, v BIGINT", [(keys[kind][number].as_py(), number, 0) for number in range(10)])
    append(lake, [(keys[kind][number].as_py(), number, 0) for number in range(30, 40)])
    paths = [Path(local_path(task.file.file_path)) for task in lake.load_table("db.t").scan("id >= 30").plan_files()]
    assert len(paths) == 1
    hidden = paths[0].with_suffix(".hidden")
    if kind not in (
        "STRUCT<a: INT>",
        "FLOAT",
    ):  # files have no bounds of the one, and Spark makes all NaN the same before it compares the other
        paths[0].rename(hidden)
    some = "id > 20 AND id < 22" if kind == "BOOLEAN" else "id BETWEEN 3 AND 5"
    clauses = "WHEN MATCHED THEN UPDATE SET v = 1 WHEN NOT MATCHED THEN INSERT (k, id, v) VALUES (s.k, s.id, 2)"
    if kind == "BOOLEAN":
        hidden.rename(paths[0])  # true is in the second file alone
        sql(f"MERGE INTO lake.db.t t USING (SELECT {key} AS k, id FROM range(50) WHERE {some}) s ON t.k = s.k {clauses}")
        assert ids(lake) == [*((number, 0) for number in range(10)), *((number, 1) for number in range(30, 40))]
        return
    sql(f"MERGE INTO lake.db.t t USING (SELECT {key} AS k, id FROM range(50) WHERE {some} OR id = 10) s ON t.k = s.k {clauses}")
    if hidden.exists():
        hidden.rename(paths[0])
    assert ids(lake) == [*((number, int(3 <= number <= 5)) for number in range(10)), (10, 2), *((number, 0) for number in range(30, 40))]


@pytest.mark.parametrize(
    ("size", "width", "first"),
    [(1_000, 20, 10_000), (broadcast_source.MOST_SOURCE_BYTES + 1, 20, 0), (1_000, 2**20, 64), (2**63 - 1, 20, 10_000)],
)
def test_the_first_rows_of_a_source_are_limited_by_its_estimated_size(size: int, width: int, first: int) -> None:
    assert broadcast_source.first_rows(size, width) == first


@pytest.mark.parametrize("mode", repetitions(MODES, "copy-on-write"))
def test_a_source_with_rand_and_uuid_is_computed_once(sql: Run, lake: SqlCatalog, reading: str, mode: str) -> None:
    made(lake, "id BIGINT, v STRING", [(number, "old") for number in range(200)], mode)
    # One id of each pair, at random, with a text of the same draw: a second evaluation would update other rows than it inserts, or mix two draws.
    draws = "SELECT id, CAST(2 * rand() AS INT) AS draw, uuid() AS token FROM range(150)"
    source = f"SELECT 2 * id + draw AS id, concat(2 * id + draw, ' ', token) AS v FROM ({draws})"
    (counts,) = sql(
        f"MERGE INTO lake.db.t t USING ({source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert counts[:4] == (150, 50, 100, 0)
    rows = ids(lake)
    assert len({one for one, _ in rows}) == len(rows) == 250
    drawn = [(one, v) for one, v in rows if v != "old"]
    assert sorted(one // 2 for one, _ in drawn) == list(range(150))
    assert all(v.startswith(f"{one} ") for one, v in drawn)
    assert len({v.partition(" ")[2] for _, v in drawn}) == 150


def test_a_random_source_is_computed_once_for_every_clause(sql: Run, lake: SqlCatalog, reading: str) -> None:
    made(lake, "id BIGINT, v STRING", [(number, "old") for number in range(10)])
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    sql(f"MERGE INTO lake.db.t t USING (SELECT CAST(rand() * 20 AS BIGINT) AS id, uuid() AS v FROM range(1)) s ON t.id = s.id {clauses}")
    ((_, value),) = ids(lake)
    assert len(value) == 36


def test_a_computed_source_is_released_after_its_statement(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, "id BIGINT, v STRING", [(number, "old") for number in range(10)])
    before = kept_rdds(spark)
    sql(
        "MERGE INTO lake.db.t t USING (SELECT id, uuid() AS v FROM range(20)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    # Spark's cleaner may release those of other tests meanwhile.
    assert kept_rdds(spark) <= before


def kept_rdds(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[union-attr]


def test_a_merge_of_a_dataframe_may_have_a_random_source(spark: SparkSession, sql: Run, lake: SqlCatalog) -> None:
    made(lake, "id BIGINT, v STRING", [(number, "old") for number in range(10)])
    source = spark.range(5, 15).selectExpr("id", "uuid() AS v").alias("s")
    source.mergeInto("lake.db.t", expr("lake.db.t.id = s.id")).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    rows = ids(lake)
    assert [one for one, _ in rows] == list(range(15))
    assert len({v for _, v in rows}) == 11


def test_a_random_clause_is_refused_with_the_way_out(sql: Run, lake: SqlCatalog) -> None:
    made(lake, "id BIGINT, v STRING", [(number, "old") for number in range(10)])
    with pytest.raises(IllegalArgumentException, match=r"(?s)random.*Next: compute it in the source: USING \(SELECT \*, uuid\(\) AS token"):
        sql("MERGE INTO lake.db.t t USING (SELECT id FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = uuid()")


class Rows(DataSource):
    """A source outside the session, which may return other rows each time."""

    @classmethod
    def name(cls) -> str:
        return "rows"

    def schema(self) -> str:
        return "id BIGINT, v BIGINT"

    def reader(self, schema: StructType) -> DataSourceReader:
        class Reader(DataSourceReader):
            def read(self, partition: Any) -> Any:
                yield (1, 2)

        return Reader()


def test_only_files_and_snapshots_without_random_functions_are_read_again(
    spark: SparkSession, sql: Run, lake: SqlCatalog, tmp_path: Path
) -> None:
    made(lake, "id BIGINT, v BIGINT", [(number, number) for number in range(4)])
    spark.range(9).selectExpr("id", "id AS v").write.parquet(str(tmp_path / "files"))
    files, table = spark.read.parquet(str(tmp_path / "files")), spark.table("lake.db.t")
    spark.dataSource.register(Rows)
    files.createOrReplaceTempView("files")
    spark.read.format("rows").load().createOrReplaceTempView("others")
    given = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2)]), LONGS)
    again = {
        "files": files,
        "filtered files": files.where("v > 3").selectExpr("id + 1 AS id", "v"),
        "table": table.where("id > 1"),
        "random": files.selectExpr("CAST(rand() * 9 AS BIGINT) AS id", "v"),
        "rows of Python": given,
        "join": files.join(table, "id"),
        "another source": spark.read.format("rows").load(),
        "filtered by a subquery": spark.sql("SELECT * FROM files WHERE v < (SELECT max(v) FROM others)"),
    }
    found = {name: large_source._can_be_read_again(spark, rows._jdf.queryExecution().optimizedPlan()) for name, rows in again.items()}
    assert found == {name: name in ("files", "filtered files", "table") for name in again}


def test_a_large_source_of_files_is_not_kept_and_prunes_the_files_of_the_table(
    spark: SparkSession, sql: Run, lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast_source, "MOST_SOURCE_BYTES", 0)
    monkeypatch.setattr(large_source, "LEAST_TARGET_BYTES", 0)
    jobs: list[str] = []
    original = large_source.run_job
    monkeypatch.setattr(large_source, "run_job", lambda session, text, action: (jobs.append(text), original(session, text, action))[1])
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(100)])
    append(lake, [(number, 0) for number in range(1000, 1100)])
    spark.range(1050, 1200).selectExpr("id", "id AS v").write.parquet(str(tmp_path / "source"))
    spark.read.parquet(str(tmp_path / "source")).createOrReplaceTempView("source")
    (task,) = lake.load_table("db.t").scan("id < 100").plan_files()
    file = Path(local_path(task.file.file_path))
    file.rename(file.with_suffix(".hidden"))  # a job that reads it fails
    sql(f"MERGE INTO lake.db.t t USING source s ON t.id = s.id {TAKE_ALL}")
    file.with_suffix(".hidden").rename(file)
    assert jobs == ["read the keys of a MERGE"]
    expected = [*((number, 0) for number in (*range(100), *range(1000, 1050))), *((number, number) for number in range(1050, 1200))]
    assert ids(lake) == expected


@pytest.mark.parametrize(
    "clause", ["", pytest.param("WHEN NOT MATCHED THEN INSERT (kind, text, v) VALUES ('new', 'x', s.v)", marks=pytest.mark.slow)]
)
def test_a_key_is_not_computed_of_rows_that_the_condition_leaves_out(sql: Run, lake: SqlCatalog, reading: str, clause: str) -> None:
    made(lake, "kind STRING, text STRING, v BIGINT", [("number", "1", 0), ("number", "2", 0), ("word", "a", 0)])
    source = "(SELECT id, id * 10 AS v FROM range(1, 2))"
    sql(f"""MERGE INTO lake.db.t t USING {source} s ON t.kind = 'number' AND CAST(t.text AS BIGINT) = s.id
            WHEN MATCHED THEN UPDATE SET v = s.v {clause}""")
    assert sorted(sql("SELECT text, v FROM lake.db.t")) == [("1", 10), ("2", 0), ("a", 0)]


@pytest.mark.parametrize("reading", ["keys alone"], indirect=True)
def test_the_plan_does_not_spell_the_bloom_filter_out(sql: Run, lake: SqlCatalog, reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    original = merge_planner.rows_of

    def rows_of(*arguments: Any) -> Any:
        rows = original(*arguments)
        texts.append(rows._jdf.queryExecution().toString())
        return rows

    monkeypatch.setattr(merge_planner, "rows_of", rows_of)
    made(lake, "id BIGINT, v BIGINT", [(number, 0) for number in range(9)])
    sql(f"MERGE INTO lake.db.t t USING (SELECT id, id AS v FROM range(100000)) s ON t.id = s.id {TAKE_ALL}")
    assert any("mightContainLong" in text for text in texts)
    assert all(len(text) < 100_000 for text in texts)
