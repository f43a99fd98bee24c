"""Spark reads and writes nothing of a table whose catalog restricts what may be read."""

import pytest
from pyspark.sql import SparkSession
from tests.security.test_read_restrictions import SECRET, stored
from tests.stores.rest.conftest import server
from tests.stores.rest.rest_double import OneTable, RestDouble

import icefloe.spark
from icefloe.catalog.rest_catalog import RestCatalog

__all__ = ["server", "stored"]  # fixtures

pytestmark = pytest.mark.spark
STATEMENTS = [
    "SELECT * FROM restricted.db.t",
    "SELECT max(n) FROM restricted.db.t",
    "SELECT * FROM restricted.db.t.files",
    "SELECT * FROM restricted.db.t.branch_main",
    "SELECT * FROM restricted.db.t VERSION AS OF 1",
    "SELECT * FROM restricted.db.t TIMESTAMP AS OF '2030-01-01'",
    "SELECT * FROM (VALUES 1) v(n) WHERE n IN (SELECT n FROM restricted.db.t)",
    "DESCRIBE EXTENDED restricted.db.t",
    "SHOW CREATE TABLE restricted.db.t",
    "DELETE FROM restricted.db.t WHERE n = 1",
    "UPDATE restricted.db.t SET n = n + 1",
    "MERGE INTO restricted.db.t t USING (SELECT 1 AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE",
    "INSERT INTO restricted.db.t VALUES (1)",
    "INSERT OVERWRITE restricted.db.t VALUES (1)",
    "CREATE OR REPLACE TABLE restricted.db.t AS SELECT 1 AS n",
    "CALL restricted.system.rewrite_data_files(table => 'db.t')",
]


def test_no_statement_reads_or_writes_a_restricted_table(spark: SparkSession, server: RestDouble, stored: OneTable) -> None:
    icefloe.spark.attach(spark, "restricted", RestCatalog("restricted", uri=server.uri))
    commits = stored.commits
    for statement in STATEMENTS:
        with pytest.raises(Exception, match=r"restricts what may be read of table") as refused:
            spark.sql(statement).collect()
        assert SECRET not in str(refused.value), statement
    with pytest.raises(Exception, match=r"restricts what may be read of table"):
        spark.read.option("snapshot-id", 1).table("restricted.db.t").collect()
    assert stored.commits == commits
