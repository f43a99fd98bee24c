"""`CALL system.migrate` of tables of Spark's session catalog: the rows stay, and dropping the backup deletes no file of the new table."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.combinations import repetitions

from icefloe import SqlCatalog
from icefloe.migration import migrate_table as module
from icefloe.spark.attach_catalog import attach
from icefloe.spark.catalog.source_tables import SessionCatalogTable

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession, lake: SqlCatalog, tmp_path: Path) -> Iterator[SparkSession]:
    """A session with a database in a temporary folder, so that its tables are managed ones there, and the catalog `lake`."""
    attach(spark, "lake", lake)
    spark.sql(f"CREATE DATABASE moving LOCATION '{tmp_path}/moving'")
    yield spark
    spark.sql("DROP DATABASE moving CASCADE")


def made(session: SparkSession, name: str, more: str = "") -> list[Any]:
    session.sql(
        f"CREATE TABLE moving.{name} (id BIGINT, price DECIMAL(9, 2), kind STRING) USING parquet {more} TBLPROPERTIES ('team' = 'x')"
    )
    session.sql(f"INSERT INTO moving.{name} VALUES (1, 1.5, 'a'), (2, NULL, 'b c'), (3, 2.5, NULL)")
    before = rows(session, f"moving.{name}")
    assert len(before) == 3
    return before


def rows(session: SparkSession, name: str) -> list[Any]:
    return sorted(map(tuple, session.sql(f"SELECT id, price, kind FROM {name}").collect()))


def kind_of(session: SparkSession, name: str) -> str:
    found = session.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Type'").head()
    return "" if found is None else str(found[1])


def files(folder: Path) -> set[str]:
    return {os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".parquet")}


@pytest.mark.parametrize("more", repetitions(["", "PARTITIONED BY (kind)"], "PARTITIONED BY (kind)"))
def test_a_managed_table_is_migrated_and_dropping_the_backup_leaves_its_files(
    session: SparkSession, lake: SqlCatalog, tmp_path: Path, more: str
) -> None:
    before, folder = made(session, "t", more), tmp_path / "moving/t"
    stored = files(folder)
    assert kind_of(session, "moving.t") == "MANAGED"
    assert session.sql("CALL lake.system.migrate('moving.t', dry_run => true)").collect()[0][0] == len(stored)
    assert kind_of(session, "moving.t") == "MANAGED"
    counted = session.sql("CALL lake.system.migrate('spark_catalog.moving.t', map('a', 'b'))").collect()
    assert [tuple(row) for row in counted] == [(len(stored),)]
    table = lake.load_table("moving.t")
    assert (table.properties["team"], table.properties["a"], table.properties["migrated"]) == ("x", "b", "true")
    assert table.location().removeprefix("file:") == str(folder)
    assert rows(session, "lake.moving.t") == before
    assert not session.catalog.tableExists("moving.t")
    assert kind_of(session, "moving.t_BACKUP_") == "EXTERNAL"
    assert rows(session, "moving.t_BACKUP_") == before
    session.sql("DROP TABLE moving.t_BACKUP_ PURGE")
    assert files(folder) == stored
    session.sql("DELETE FROM lake.moving.t WHERE id = 1")
    session.sql("INSERT INTO lake.moving.t VALUES (4, 1.0, 'z')")
    assert [row[0] for row in rows(session, "lake.moving.t")] == [2, 3, 4]
    with pytest.raises(PySparkException, match="Iceberg table already"):
        session.sql("CALL lake.system.migrate('moving.t')")


def test_the_session_catalog_has_the_new_table_under_the_old_name(session: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    before = made(session, "s")
    own = session.newSession()
    attach(own, "spark_catalog", lake)
    own.sql("CALL spark_catalog.system.migrate(table => 'moving.s', drop_backup => true, backup_table_name => 'old')")
    assert own.sql("SELECT count(*) FROM moving.s.snapshots").collect()[0][0] == 1
    assert rows(own, "moving.s") == before
    assert [row.tableName for row in own.sql("SHOW TABLES IN moving").collect()] == ["s"]
    own.sql("DELETE FROM moving.s WHERE id = 1")
    assert len(rows(own, "moving.s")) == 2
    own.sql("DROP TABLE moving.s")


def test_a_migration_that_fails_gives_the_source_its_name_and_type_back(
    session: SparkSession, lake: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, stored = made(session, "t", "PARTITIONED BY (kind)"), files(tmp_path / "moving/t")
    seen: list[str] = []

    def refused(*_: object) -> None:
        seen.append(kind_of(session, "moving.t_BACKUP_"))
        raise module.EngineError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(module, "commit_files", refused)
        with pytest.raises(PySparkException, match="refused"):
            session.sql("CALL lake.system.migrate('moving.t')")
    assert seen == ["EXTERNAL"]
    assert kind_of(session, "moving.t") == "MANAGED"
    assert not session.catalog.tableExists("moving.t_BACKUP_")
    assert rows(session, "moving.t") == before
    assert files(tmp_path / "moving/t") == stored
    assert lake.list_namespaces() == [("db",)]
    session.sql("CALL lake.system.migrate('moving.t', new_table => 'lake.db.other')")
    assert rows(session, "lake.db.other") == before


def test_a_migration_that_was_killed_names_the_table_with_the_rows(
    session: SparkSession, lake: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made(session, "t")

    def killed(*_: object, **__: object) -> None:
        raise module.EngineError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(module, "commit_files", killed)
        patch.setattr(SessionCatalogTable, "restore", killed)
        with pytest.raises(PySparkException, match="killed"):
            session.sql("CALL lake.system.migrate('moving.t')")
    with pytest.raises(PySparkException, match=r"a migration was killed.*\n.*ALTER TABLE moving.t_BACKUP_ RENAME TO moving.t"):
        session.sql("CALL lake.system.migrate('moving.t')")
    session.sql("ALTER TABLE moving.t_BACKUP_ RENAME TO moving.t")
    assert rows(session, "moving.t") == before
    session.sql("CALL lake.system.migrate('moving.t')")
    assert rows(session, "lake.moving.t") == before


def test_names_that_are_taken_and_sources_of_other_kinds_are_refused(session: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    made(session, "t")
    session.sql("CREATE TABLE moving.t_BACKUP_ (id BIGINT) USING parquet")
    session.sql("CREATE TABLE moving.lines (line STRING) USING text")
    session.sql("CREATE VIEW moving.v AS SELECT 1 AS id")
    session.sql("CREATE TABLE moving.acid (id BIGINT) USING parquet TBLPROPERTIES ('transactional' = 'true')")
    for source, message in (
        ("moving.t", "t_BACKUP_ exists"),
        ("moving.lines", "format is text"),
        ("moving.v", "not Parquet or ORC"),
        ("moving.acid", "transactional table of Hive"),
        ("moving.nothing", "no table of Spark"),
    ):
        with pytest.raises(PySparkException, match=f"(?i){message}"):
            session.sql(f"CALL lake.system.migrate('{source}')")
    assert kind_of(session, "moving.t") == "MANAGED"
    assert lake.list_tables("db") == []


def test_hive_does_not_purge_the_files_of_a_backup(session: SparkSession, lake: SqlCatalog, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE moving.e (id BIGINT) USING parquet LOCATION '{tmp_path}/e' TBLPROPERTIES ('external.table.purge' = 'TRUE')")
    session.sql("INSERT INTO moving.e VALUES (1)")
    session.sql("CALL lake.system.migrate('moving.e')")
    properties = dict(session.sql("SHOW TBLPROPERTIES moving.e_BACKUP_").collect())
    assert properties["external.table.purge"] == "false"
    assert "external.table.purge" not in lake.load_table("moving.e").properties
