"""Spark's queries on tables whose scans the server of a REST catalog plans: the same rows, with deletes of every kind, and no manifest read here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.merge_on_read import delete_keys_everywhere
from tests.stores.rest.own_server import own_server

import icefloe.spark
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.operations.data_scan import DataScan
from icefloe.scan.scan_plan import ScanPlan

pytestmark = pytest.mark.spark
QUERIES = [
    "SELECT * FROM {}.db.t",
    "SELECT count(*), sum(id) FROM {}.db.t WHERE kind = 'k1'",
    "SELECT count(*) FROM {}.db.t",
    "SELECT max(id), min(id) FROM {}.db.t",
    "SELECT id FROM {}.db.t WHERE id BETWEEN 15 AND 42 AND kind <> 'k0'",
    "SELECT id, _pos, _partition, _spec_id FROM {}.db.t WHERE id < 12",
    "SELECT a.id FROM {0}.db.t a JOIN {0}.db.t b ON a.id = b.id + 1 WHERE b.kind = 'k2'",
    "SELECT * FROM {}.db.t.tag_first",
    "SELECT id FROM {}.db.t LIMIT 3",
    "SELECT id FROM {}.db.t ORDER BY id DESC LIMIT 3",
    "SELECT id FROM {}.db.t WHERE id IN (SELECT id FROM {}.db.t WHERE id > 90)",
]


@pytest.fixture(scope="module")
def catalogs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, RestCatalog]]:
    """The names of the catalog whose scans the server plans and of the same one whose scans are planned here, and the latter."""
    folder: Path = tmp_path_factory.mktemp("planned")
    with own_server(folder, files_of_page=4) as address:
        names = ("by_server", "by_client")
        for name in names:
            mode = {"scan-planning-mode": name.removeprefix("by_")}
            catalog = RestCatalog(name, uri=address, warehouse=str(folder / "lake"), **mode)
            icefloe.spark.attach(spark, name, catalog)
        fill(spark, catalog)
        yield (*names, catalog)


def fill(spark: SparkSession, catalog: RestCatalog) -> None:
    spark.sql("CREATE NAMESPACE by_server.db")
    properties = "'write.delete.mode'='merge-on-read', 'write.update.mode'='copy-on-write', 'write.merge.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE by_server.db.t (id BIGINT, kind STRING) PARTITIONED BY (kind) TBLPROPERTIES ({properties})")
    table = catalog.load_table("db.t")
    for start in range(0, 100, 20):
        table.append(pa.table({"id": range(start, start + 20), "kind": [f"k{number % 3}" for number in range(start, start + 20)]}))
    spark.sql("ALTER TABLE by_server.db.t CREATE TAG first")
    spark.sql("DELETE FROM by_server.db.t WHERE id % 10 = 3")
    spark.sql("UPDATE by_server.db.t SET kind = 'new' WHERE id = 50")
    spark.sql("""MERGE INTO by_server.db.t t USING (SELECT id, 'merged' AS kind FROM range(97, 103)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET kind = s.kind WHEN NOT MATCHED THEN INSERT *""")


def found(spark: SparkSession, query: str, name: str) -> list[Any]:
    return sorted(map(repr, spark.sql(query.replace("{0}", name).replace("{}", name)).collect()))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_the_rows_of_local_planning(
    spark: SparkSession, catalogs: tuple[str, str, RestCatalog], query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_server, by_client, _ = catalogs
    here = found(spark, query, by_client)
    planned: list[ScanPlan] = []
    plan = DataScan.plan

    def recorded(scan: DataScan, **options: Any) -> ScanPlan:
        made = plan(scan, **options)
        if scan.planner is not None:  # the server, which is in this process too, plans for itself
            planned.append(made)
        return made

    with monkeypatch.context() as patched:
        patched.setattr(DataScan, "plan", recorded)
        there = found(spark, query, by_server)
    assert all(one.is_planned_by_server for one in planned)
    assert len(there) == len(here)
    if "LIMIT" not in query or "ORDER BY" in query:
        assert there == here


def test_explain_shows_who_planned(spark: SparkSession, catalogs: tuple[str, str, RestCatalog]) -> None:
    plans = [spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {name}.db.t WHERE id > 5").collect()[0][0] for name in catalogs[:2]]
    assert ["planned by the server" in plan for plan in plans] == [True, False]


def test_equality_deletes_are_applied(spark: SparkSession, catalogs: tuple[str, str, RestCatalog]) -> None:
    spark.sql("CREATE TABLE by_server.db.e (id BIGINT, v STRING) TBLPROPERTIES ('format-version'='2')")
    table = catalogs[2].load_table("db.e")
    for start in (0, 50):
        table.append(pa.table({"id": range(start, start + 50), "v": ["x"] * 50}))
        delete_keys_everywhere(table, pa.table({"id": pa.array([start + 1, 7], pa.int64())}), ["id"])
    table.append(pa.table({"id": [7], "v": ["again"]}))
    assert found(spark, "SELECT id FROM {}.db.e WHERE id < 10", "by_server") == found(
        spark, "SELECT id FROM {}.db.e WHERE id < 10", "by_client"
    )
    assert spark.sql("SELECT * FROM by_server.db.e WHERE id = 7").collect()[0][1] == "again"
    assert spark.sql("SELECT count(*) FROM by_server.db.e").collect()[0][0] == 98


def test_row_lineage_is_planned_here_where_it_needs_sequence_numbers(spark: SparkSession, catalogs: tuple[str, str, RestCatalog]) -> None:
    spark.sql("CREATE TABLE by_server.db.l (id BIGINT) TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')")
    for number in range(2):
        catalogs[2].load_table("db.l").append(pa.table({"id": range(10 * number, 10 * number + 10)}))
    spark.sql("DELETE FROM by_server.db.l WHERE id = 4")
    query = "SELECT id, _row_id, _last_updated_sequence_number FROM {}.db.l"
    assert found(spark, query, "by_server") == found(spark, query, "by_client")
    assert found(spark, "SELECT id, _row_id FROM {}.db.l", "by_server") == found(spark, "SELECT id, _row_id FROM {}.db.l", "by_client")
