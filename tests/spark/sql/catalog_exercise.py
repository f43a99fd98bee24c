"""Statements of every kind on an empty catalog that is known to Spark by its settings alone, with their results."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession


def exercise(spark: SparkSession, catalog: str, *, has_views: bool, whole: bool = True) -> None:
    """Run DDL, DML, time travel, metadata tables, procedures and views on a catalog, and assert their results.

    Args:
        spark: A session that has the catalog.
        catalog: The name of the catalog in SQL; it is the current one afterwards.
        has_views: Whether the catalog keeps views.
        whole: Whether all statements run, or one of each kind that a catalog takes part in.
    """

    def sql(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text).collect()]

    sql(f"USE {catalog}")
    sql("CREATE NAMESPACE db")
    sql("""CREATE TABLE db.t (id BIGINT NOT NULL, kind STRING, price DECIMAL(9, 2)) USING iceberg PARTITIONED BY (kind)
        TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')""")
    if whole:
        _change_rows(sql, catalog)
        _read_history(sql, catalog)
        _change_table(sql, catalog)
    else:
        _touch(sql, catalog)
    if has_views:
        sql(f"CREATE VIEW {catalog}.db.v (n) AS SELECT count(*) FROM db.t WHERE kind = 'k1'")
        assert sql("SELECT n FROM db.v") == [(3,)]
        assert [row[1] for row in sql("SHOW VIEWS IN db")] == ["v"]
        sql("DROP VIEW db.v")
    sql("DROP TABLE db.copied")
    sql("DROP TABLE db.t PURGE")
    assert sql("SHOW TABLES IN db") == []
    sql("DROP NAMESPACE db")


def _touch(sql: Callable[[str], list[tuple[Any, ...]]], catalog: str) -> None:
    """Write and change rows, create a table of a query, change the table, and call a procedure."""
    sql("INSERT INTO db.t VALUES (1, 'k1', 1.5), (2, 'k1', 3), (3, 'k1', 4.5), (4, 'k0', 6)")
    sql("DELETE FROM db.t WHERE id = 4")
    sql(f"CREATE TABLE {catalog}.db.copied USING iceberg AS SELECT id, kind FROM {catalog}.db.t WHERE id < 3")
    sql("ALTER TABLE db.t ADD COLUMN note STRING")
    assert sql(f"SELECT t.id, t.note FROM {catalog}.db.t t JOIN db.copied c USING (id) ORDER BY id") == [(1, None), (2, None)]
    (first,), (last,) = sql("SELECT snapshot_id FROM db.t.snapshots ORDER BY committed_at")
    assert sql(f"CALL {catalog}.system.rollback_to_snapshot('db.t', {first})") == [(last, first)]
    assert sql("SELECT count(*), max(price) FROM db.t") == [(4, 6)]
    assert {row[1] for row in sql("SHOW TABLES IN db")} == {"t", "copied"}


def _change_rows(sql: Callable[[str], list[tuple[Any, ...]]], catalog: str) -> None:
    """Write two snapshots of ten rows, then change some by DELETE, UPDATE and MERGE."""
    sql("INSERT INTO db.t SELECT id, concat('k', id % 2), id * 1.5 FROM range(10)")
    sql(f"CREATE TABLE {catalog}.db.copied USING iceberg AS SELECT id, kind FROM {catalog}.db.t WHERE id < 4")
    sql("DELETE FROM db.t WHERE id = 9")
    sql("UPDATE db.t SET price = 0 WHERE id = 8")
    sql("""MERGE INTO db.t t USING (SELECT id, 'new' AS kind, 7.5 AS price FROM range(7, 12)) s ON t.id = s.id
        WHEN MATCHED AND s.id = 7 THEN DELETE
        WHEN MATCHED THEN UPDATE SET kind = s.kind
        WHEN NOT MATCHED THEN INSERT *""")
    assert sql("SELECT kind, count(*), CAST(sum(price) AS STRING) FROM db.t GROUP BY kind ORDER BY kind") == [
        ("k0", 4, "18.00"),
        ("k1", 3, "13.50"),
        ("new", 4, "22.50"),
    ]
    assert sql(f"SELECT t.id FROM {catalog}.db.t t JOIN db.copied c USING (id) WHERE c.kind = 'k1' ORDER BY id") == [(1,), (3,)]


def _read_history(sql: Callable[[str], list[tuple[Any, ...]]], catalog: str) -> None:
    """Read the table as of its first snapshot by id, time and tag, its metadata tables, and its state before a rollback."""
    snapshots = sql("SELECT snapshot_id, CAST(committed_at AS STRING), operation FROM db.t.snapshots ORDER BY committed_at")
    assert [operation for _, _, operation in snapshots] == ["append", "delete", "overwrite", "overwrite"]
    first, first_at, _ = snapshots[0]
    assert sql(f"SELECT count(*), max(id) FROM db.t VERSION AS OF {first}") == [(10, 9)]
    assert sql(f"SELECT count(*) FROM {catalog}.db.t TIMESTAMP AS OF '{first_at}'") == [(10,)]
    sql(f"ALTER TABLE db.t CREATE TAG loaded AS OF VERSION {first}")
    assert sql("SELECT max(id) FROM db.t VERSION AS OF 'loaded'") == [(9,)]
    assert sql("SELECT sum(record_count) FROM db.t.data_files")[0][0] >= 11
    assert {name for (name,) in sql("SELECT name FROM db.t.refs")} == {"main", "loaded"}
    last = snapshots[-1][0]
    assert sql(f"CALL {catalog}.system.rollback_to_snapshot('db.t', {first})") == [(last, first)]
    assert sql("SELECT count(*) FROM db.t") == [(10,)]
    sql(f"CALL {catalog}.system.set_current_snapshot('db.t', {last})")


def _change_table(sql: Callable[[str], list[tuple[Any, ...]]], catalog: str) -> None:
    """Change the schema and the properties, write a branch, and run procedures of maintenance."""
    sql("ALTER TABLE db.t ADD COLUMN note STRING")
    sql("ALTER TABLE db.t SET TBLPROPERTIES ('my_own' = '1')")
    assert ("my_own", "1") in sql("SHOW TBLPROPERTIES db.t")
    sql("ALTER TABLE db.t CREATE BRANCH staged")
    sql("INSERT INTO db.t.branch_staged VALUES (99, 'k1', 1, 'here alone')")
    assert sql("SELECT note FROM db.t VERSION AS OF 'staged' WHERE id = 99") == [("here alone",)]
    assert sql("SELECT count(*) FROM db.t") == [(11,)]
    sql(f"CALL {catalog}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    assert sql("SELECT count(*), count(note), max(id) FROM db.t") == [(11, 0, 11)]
    assert {row[1] for row in sql("SHOW TABLES IN db")} == {"t", "copied"}
    sql(f"CALL {catalog}.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2020-01-01 00:00:00')")
