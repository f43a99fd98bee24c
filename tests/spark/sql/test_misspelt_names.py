"""A misspelt option, property or setting of Spark SQL and DataFrames is refused, or warned of where Spark takes any name."""

import logging

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.sql.conftest import Run

import icefloe.spark
from icefloe import InvalidInputError
from icefloe.operations import warnings_once
from icefloe.spark.scan.read_options import ACTED_ON_SETTINGS, PLANNING_SETTING, SESSION_PREFIX, UNUSED_SETTINGS, similar_setting
from icefloe.spark.write.write_options import SETTINGS

pytestmark = pytest.mark.spark


def test_table_properties_are_refused_by_sql(sql: Run) -> None:
    with pytest.raises(PySparkException, match=r"(?s)write\.merge\.mod\b.*Next: write write\.merge\.mode"):
        sql("CREATE TABLE lake.db.t (id BIGINT) TBLPROPERTIES ('write.merge.mod' = 'merge-on-read')")
    sql("CREATE TABLE lake.db.t (id BIGINT) TBLPROPERTIES ('our.team' = 'me')")
    with pytest.raises(PySparkException, match=r"(?s)write\.merge\.mode"):
        sql("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.merge.mod' = 'merge-on-read')")


def test_options_of_reads_and_writes_are_refused(spark: SparkSession, sql: Run) -> None:
    sql("CREATE TABLE lake.db.t (id BIGINT)")
    sql("INSERT INTO lake.db.t VALUES (1)")
    for read in (
        lambda: spark.read.option("snapshotid", "1").table("lake.db.t"),
        lambda: spark.sql("SELECT * FROM lake.db.t WITH ('as_of_timestamp' = '1')"),
        lambda: spark.read.format("icefloe").option("snapshot_id", "1").load("lake.db.t"),
    ):
        with pytest.raises(PySparkException, match=r"(?s)there is no (read )?option.*Next: write '(snapshot-id|as-of-timestamp)'"):
            read().collect()
    with pytest.raises(PySparkException, match=r"(?s)there is no write option.*Next: write 'write-format'"):
        spark.range(1).writeTo("lake.db.t").option("write_fromat", "orc").append()
    for name in ("snapshot-propertie.job", "snapshot-propety.job"):
        with pytest.raises(PySparkException, match=r"(?s)there is no write option.*Next: write 'snapshot-property.job'"):
            spark.range(1).writeTo("lake.db.t").option(name, "x").append()
    assert (
        spark.read.option("header", "true")
        .option("snapshot-id", str(sql("SELECT snapshot_id FROM lake.db.t.snapshots")[0][0]))
        .table("lake.db.t")
        .count()
        == 1
    )


def test_a_setting_of_a_running_session_is_warned_of_once(
    spark: SparkSession, sql: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warnings_once, "_WARNED", set())
    sql("CREATE TABLE lake.db.t (id BIGINT)")
    name = "spark.sql.iceberg.distributon-mode"
    spark.conf.set(name, "none")
    try:
        with caplog.at_level(logging.WARNING):
            sql("INSERT INTO lake.db.t VALUES (1)")
            sql("INSERT INTO lake.db.t VALUES (1)")
    finally:
        spark.conf.unset(name)
    assert [text for text in caplog.messages if name in text] == [
        f"the setting {name} has no effect: it is unknown, and seems to mean spark.sql.iceberg.distribution-mode"
    ]


def test_a_setting_of_a_new_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match=r"(?s)spark.icefloe.planing.mode.*Next: write spark.icefloe.planning.mode"):
        icefloe.spark.session({"spark.icefloe.planing.mode": "local"})
    with pytest.raises(InvalidInputError, match=r"Next: write spark.sql.iceberg.vectorization.enabled"):
        icefloe.spark.session(**{"spark.sql.iceberg.vectorisation.enabled": "false"})


def test_no_setting_that_has_an_effect_counts_as_misspelt() -> None:
    for name in (*ACTED_ON_SETTINGS, *UNUSED_SETTINGS, *SETTINGS):
        assert similar_setting(SESSION_PREFIX + name) is None, name
    assert similar_setting(PLANNING_SETTING) is None
    assert similar_setting("spark.sql.shufle.partitions") is None
