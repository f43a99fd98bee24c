"""The tables of a statement: one call of Python loads them as they are at one moment, and no statement sees tables that were loaded for another one."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

from icefloe import SqlCatalog
from icefloe.errors import StorageUnavailableError
from icefloe.spark.attach_catalog import attach
from icefloe.spark.bridge.callback import PythonCallback

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{row}" for row in range(10)]})
JOIN = "SELECT count(*), max(a.name) FROM lake.db.a a JOIN lake.db.b b ON a.id = b.id"


@pytest.fixture
def tables(spark: SparkSession, lake: SqlCatalog) -> SqlCatalog:
    attach(spark, "lake", lake)
    for name in "abc":
        lake.create_table(f"db.{name}", ROWS.schema).append(ROWS)
    return lake


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tables: SqlCatalog) -> list[str]:
    """The calls that load tables."""
    methods: list[str] = []
    apply = PythonCallback.apply

    def counted(self: PythonCallback, method: str, message: Any) -> Any:
        if method.startswith("load_table"):
            methods.append(method.partition(" ")[0])
        return apply(self, method, message)

    monkeypatch.setattr(PythonCallback, "apply", counted)
    return methods


@pytest.fixture
def in_namespace(spark: SparkSession, tables: SqlCatalog) -> Iterator[SqlCatalog]:
    spark.sql("USE lake.db")
    yield tables
    spark.sql("USE spark_catalog.default")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM lake.db.a JOIN lake.db.b USING (id) JOIN lake.db.c USING (id)", 10),
        ("SELECT count(*) FROM lake.db.a WHERE EXISTS (SELECT 1 FROM lake.db.b WHERE b.id = a.id AND b.id > 3)", 6),
        ("SELECT count(*) FROM lake.db.a WHERE id = (SELECT max(id) FROM lake.db.c)", 1),
        ("WITH x AS (SELECT * FROM lake.db.b WHERE id < 5) SELECT count(*) FROM lake.db.a JOIN x USING (id)", 5),
        ("SELECT count(*) FROM (SELECT * FROM lake.db.a UNION ALL SELECT * FROM lake.db.b)", 20),
    ],
)
def test_the_tables_of_a_statement_are_loaded_by_one_call(sql: Run, loads: list[str], query: str, expected: int) -> None:
    assert sql(query) == [(expected,)]
    assert loads == ["load_tables"]


def test_names_in_the_current_namespace_are_loaded_by_one_call(in_namespace: SqlCatalog, sql: Run, loads: list[str]) -> None:
    assert sql("SELECT count(*) FROM a JOIN b USING (id) JOIN c USING (id)") == [(10,)]
    assert loads == ["load_tables"]


def test_a_session_that_runs_before_a_catalog_is_attached_loads_by_one_call_too(
    spark: SparkSession, tables: SqlCatalog, loads: list[str]
) -> None:
    session = spark.newSession()
    attach(session, "lake", tables)
    assert [tuple(row) for row in session.sql(JOIN).collect()] == [(10, "n9")]
    attach(session, "lake", tables)
    assert [tuple(row) for row in session.sql(JOIN).collect()] == [(10, "n9")]
    assert loads == ["load_tables"] * 2


def test_a_statement_sees_a_commit_to_two_tables_whole(tables: SqlCatalog, sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    load_all = tables.store.load_all

    def load_then_commit(names: Any) -> Any:
        located = load_all(names)
        monkeypatch.setattr(tables.store, "load_all", load_all)
        with tables.transaction() as transaction:
            transaction.load_table("db.a").append(ROWS)
            transaction.load_table("db.b").append(ROWS)
        return located

    monkeypatch.setattr(tables.store, "load_all", load_then_commit)
    assert sql("SELECT (SELECT count(*) FROM lake.db.a), (SELECT count(*) FROM lake.db.b)") == [(10, 10)]
    assert sql("SELECT (SELECT count(*) FROM lake.db.a), (SELECT count(*) FROM lake.db.b)") == [(20, 20)]


def test_the_next_statement_sees_what_another_process_did(tables: SqlCatalog, sql: Run) -> None:
    assert sql(JOIN) == [(10, "n9")]
    other = SqlCatalog("lake", uri=tables.properties["uri"], warehouse=tables.properties["warehouse"])
    other.load_table("db.a").append(ROWS.slice(0, 3))
    assert sql(JOIN) == [(13, "n9")]
    other.load_table("db.a").delete("id > 7")
    assert sql(JOIN) == [(11, "n7")]
    other.drop_table("db.b")
    other.create_table("db.b", ROWS.schema).append(ROWS.slice(0, 2))
    assert sql(JOIN) == [(4, "n1")]
    other.drop_table("db.b")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(JOIN)


def test_a_table_that_was_loaded_and_not_used_is_not_used_by_a_later_statement(spark: SparkSession, tables: SqlCatalog, sql: Run) -> None:
    with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_COLUMN"):
        sql("SELECT missing_column FROM lake.db.a, no_such_view, lake.db.b")
    tables.load_table("db.b").append(ROWS)
    assert sql("SELECT count(*) FROM lake.db.b") == [(20,)]
    assert spark.table("lake.db.b").count() == 20
    assert sql("SELECT count(id) FROM lake.db.b VERSION AS OF 'main'") == [(20,)]


def test_a_plan_that_is_only_parsed_loads_nothing(spark: SparkSession, tables: SqlCatalog, sql: Run, loads: list[str]) -> None:
    spark._jsparkSession.sessionState().sqlParser().parsePlan(JOIN)
    assert loads == []
    tables.load_table("db.a").append(ROWS)
    assert sql("SELECT count(*) FROM lake.db.a") == [(20,)]


def test_a_temporary_view_hides_a_table_of_its_name(in_namespace: SqlCatalog, spark: SparkSession, sql: Run) -> None:
    spark.range(3).createOrReplaceTempView("b")
    try:
        assert sql("SELECT count(*) FROM a JOIN b USING (id) JOIN c USING (id)") == [(3,)]
        in_namespace.load_table("db.c").delete("id = 1")
        assert sql("SELECT count(*) FROM a JOIN b USING (id) JOIN c USING (id)") == [(2,)]
    finally:
        spark.catalog.dropTempView("b")


def test_views_branches_snapshots_and_metadata_tables_are_loaded_beside_tables(tables: SqlCatalog, sql: Run) -> None:
    first = tables.load_table("db.a").current_snapshot()
    assert first is not None
    tables.load_table("db.a").append(ROWS.slice(0, 5))
    sql("ALTER TABLE lake.db.b CREATE BRANCH old")
    tables.load_table("db.b").append(ROWS)
    sql("CREATE VIEW lake.db.v AS SELECT id FROM lake.db.a WHERE id < 4")
    assert sql("SELECT count(*) FROM lake.db.v JOIN lake.db.c USING (id)") == [(8,)]
    assert sql("SELECT (SELECT count(*) FROM lake.db.b), (SELECT count(*) FROM lake.db.b.branch_old)") == [(20, 10)]
    assert sql("SELECT (SELECT count(*) FROM lake.db.c), (SELECT count(*) FROM lake.db.a.files)") == [(10, 2)]
    both = f"SELECT (SELECT count(*) FROM lake.db.a), (SELECT count(*) FROM lake.db.a VERSION AS OF {first.snapshot_id}), (SELECT count(*) FROM lake.db.c)"
    assert sql(both) == [(15, 10, 10)]


def test_statements_that_change_rows_read_and_write_the_newest_tables(tables: SqlCatalog, sql: Run) -> None:
    for factor in (1, 2):
        sql("INSERT INTO lake.db.a SELECT b.id, c.name FROM lake.db.b JOIN lake.db.c USING (id)")
        assert sql("SELECT count(*) FROM lake.db.a") == [(10 + 10 * factor,)]
    sql(
        "MERGE INTO lake.db.a t USING (SELECT b.id, 'm' AS name FROM lake.db.b JOIN lake.db.c USING (id) WHERE b.id < 2) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    assert sql("SELECT count(*) FROM lake.db.a WHERE name = 'm'") == [(6,)]
    sql("DELETE FROM lake.db.a WHERE id IN (SELECT id FROM lake.db.b WHERE id < 3) AND id IN (SELECT id FROM lake.db.c WHERE id > 0)")
    assert sql("SELECT count(*) FROM lake.db.a") == [(24,)]
    sql("CREATE TABLE lake.db.d AS SELECT a.id FROM lake.db.a JOIN lake.db.b USING (id)")
    assert sql("SELECT count(*) FROM lake.db.d") == [(24,)]


def test_a_table_that_cannot_be_loaded_is_named_by_the_error(tables: SqlCatalog, sql: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    load_all = tables.store.load_all

    def unavailable(names: Any) -> Any:
        if any(name[-1] == "b" for name in names):
            raise StorageUnavailableError("the database is away", next_step="repeat")
        return load_all(names)

    monkeypatch.setattr(tables.store, "load_all", unavailable)
    assert sql("SELECT count(*) FROM lake.db.a JOIN lake.db.c USING (id)") == [(10,)]
    with pytest.raises(Exception, match="the database is away"):
        sql(JOIN)


def test_a_session_has_the_rule_once_however_often_catalogs_are_attached(spark: SparkSession, tables: SqlCatalog) -> None:
    attach(spark, "lake", tables)
    session = spark._jsparkSession
    rules = session.sessionState().analyzer().hintResolutionRules()
    names = [rules.apply(place).getClass().getSimpleName() for place in range(rules.size())]
    assert names.count("StatementTables") == 1
