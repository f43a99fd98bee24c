"""Writes by Spark: the engine that a snapshot's summary names, and writes staged by settings of the session."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from icefloe import InvalidInputError, SqlCatalog
from icefloe.table import Table

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), properties={"write.wap.enabled": "true"})
    made.append(pa.table({"id": [0]}))
    return made


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    yield spark
    spark.conf.unset("spark.wap.id")
    spark.conf.unset("spark.wap.branch")


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().to_spark().collect())


def test_a_snapshot_of_spark_names_it_its_version_and_its_application(spark: SparkSession, table: Table) -> None:
    table.append(spark.range(1, 3))
    table.delete("id = 1")
    for snapshot in table.snapshots()[1:]:
        found = {key: snapshot.summary[key] for key in ("engine-name", "engine-version", "app-id", "app-name")}
        application = {"app-id": spark.sparkContext.applicationId, "app-name": spark.sparkContext.appName}
        assert found == {"engine-name": "spark", "engine-version": spark.version, **application}
    assert table.snapshots()[0].summary["engine-name"] == "icefloe"


def test_the_session_s_wap_id_stages_and_its_wap_branch_takes_writes(settings: SparkSession, table: Table) -> None:
    settings.conf.set("spark.wap.id", "w1")
    table.append(settings.range(1, 2))
    assert ids(table) == [0]
    assert table.snapshots()[-1].summary["wap.id"] == "w1"
    settings.conf.set("spark.wap.branch", "audit")
    with pytest.raises(InvalidInputError, match="both are set: the wap id 'w1' and the branch 'audit'"):
        table.append(settings.range(2, 3))
    settings.conf.unset("spark.wap.id")
    table.append(settings.range(3, 4))
    table.delete("id = 0")
    assert ids(table) == [3]
    settings.conf.unset("spark.wap.branch")
    assert ids(table) == [0]
    table.manage_snapshots().publish_changes("w1").fast_forward("copy", "audit").commit()
    assert (ids(table), sorted(table.refs())) == ([0, 1], ["audit", "copy", "main"])


def test_a_table_without_staged_writes_ignores_the_settings_of_the_session(settings: SparkSession, table: Table) -> None:
    table.set_properties({"write.wap.enabled": "false"})
    settings.conf.set("spark.wap.branch", "audit")
    table.append(settings.range(1, 2))
    assert (ids(table), list(table.refs())) == ([0, 1], ["main"])
