"""A REST catalog in Spark SQL, by configuration alone: its server is `icefloe serve`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.stores.rest.own_server import own_server

from icefloe.spark.attach_catalog import attach

pytestmark = pytest.mark.spark


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The catalog `prod` in a configuration file of the working folder."""
    monkeypatch.chdir(tmp_path)
    with own_server(tmp_path) as address:
        (tmp_path / "icefloe.yaml").write_text(f"catalog:\n  prod:\n    type: rest\n    uri: {address}\n    auth:\n      type: noop\n")
        yield


def test_a_catalog_of_the_configuration_is_attached_by_its_name_alone(spark: SparkSession, configured: None) -> None:
    attach(spark, "prod")
    spark.sql("CREATE NAMESPACE prod.db")
    spark.sql("CREATE TABLE prod.db.t USING iceberg AS SELECT 1L AS id")
    spark.sql("UPDATE prod.db.t SET id = 2")
    assert spark.table("prod.db.t").collect() == [(2,)]


@pytest.mark.slow
def test_statements_run_on_a_rest_catalog(spark: SparkSession, configured: None) -> None:
    """Those of `test_catalogs_by_settings.py` run on a REST catalog too, in the default run one of each kind."""
    attach(spark, "prod")

    def rows(text: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(text).collect()]

    rows("CREATE NAMESPACE prod.db")
    rows("CREATE TABLE prod.db.t (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind)")
    rows("INSERT INTO prod.db.t VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    rows("UPDATE prod.db.t SET kind = 'c' WHERE id = 2")
    rows(
        "MERGE INTO prod.db.t t USING (SELECT 3L AS id, 'd' AS kind UNION ALL SELECT 4L, 'e') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows("SELECT * FROM prod.db.t ORDER BY id") == [(1, "a"), (2, "c"), (3, "d"), (4, "e")]
    first = rows("SELECT snapshot_id FROM prod.db.t.snapshots ORDER BY committed_at LIMIT 1")[0][0]
    assert rows(f"SELECT count(*) FROM prod.db.t VERSION AS OF {first}") == [(3,)]
    rows("ALTER TABLE prod.db.t ADD COLUMN note STRING")
    rows("CALL prod.system.rewrite_data_files(table => 'db.t')")
    rows("CREATE TABLE prod.db.copied USING iceberg AS SELECT * FROM prod.db.t WHERE id > 2")
    assert rows("SELECT id, kind, note FROM prod.db.copied ORDER BY id") == [(3, "d", None), (4, "e", None)]
    rows("CREATE VIEW prod.db.v AS SELECT kind FROM prod.db.t WHERE id = 1")
    assert rows("SELECT * FROM prod.db.v") == [("a",)]
    rows("DROP VIEW prod.db.v")
    rows("DROP TABLE prod.db.copied PURGE")
    assert rows("SHOW TABLES IN prod.db") == [("db", "t", False)]
