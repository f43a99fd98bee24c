"""Catalogs that are attached to sessions: by a call, by session settings, several of them, in several sessions and threads."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.repetitions import ALL
from tests.spark.sql.conftest import Run

import icefloe.spark
from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError

pytestmark = pytest.mark.spark


def other_catalog(folder: Path, name: str) -> SqlCatalog:
    folder.mkdir()
    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def test_several_catalogs_in_one_query(sql: Run, spark: SparkSession, tmp_path: Path) -> None:
    icefloe.spark.session(catalogs={"pond": other_catalog(tmp_path / "pond", "pond")})
    sql("CREATE TABLE lake.db.t AS SELECT id FROM range(4)")
    sql("CREATE TABLE pond.db.t AS SELECT id + 2 AS id FROM lake.db.t")
    assert sorted(sql("SELECT id FROM lake.db.t JOIN pond.db.t USING (id)")) == [(2,), (3,)]


def test_settings_alone_attach_catalogs(spark: SparkSession, tmp_path: Path) -> None:
    other_catalog(tmp_path / "one", "set_one")
    fresh = spark.newSession()
    for name, value in {
        "": "icefloe",
        ".uri": f"sqlite:///{tmp_path}/one/catalog.db",
        ".warehouse": str(tmp_path / "one" / "warehouse"),
    }.items():
        fresh.conf.set(f"spark.sql.catalog.set_one{name}", value)
    assert list(icefloe.spark.attach(fresh)) == ["set_one"]
    assert icefloe.spark.attach(fresh) == {}
    fresh.sql("CREATE TABLE set_one.db.t AS SELECT 1 AS x")
    assert [tuple(row) for row in fresh.table("set_one.db.t").collect()] == [(1,)]
    assert (tmp_path / "one" / "warehouse" / "db" / "t").is_dir()


@pytest.mark.parametrize("value", ["icefloe", "org.apache.iceberg.spark.SparkCatalog"])
def test_settings_of_the_jar_attach_catalogs_with_one_value_changed_or_none(spark: SparkSession, tmp_path: Path, value: str) -> None:
    name = f"jar_{value.rpartition('.')[2].lower()}"
    SqlCatalog(name, uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).create_namespace("db")
    fresh = spark.newSession()
    for key, text in {
        "": value,
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        ".warehouse": f"file:{tmp_path}/warehouse",
        ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        ".cache-enabled": "false",
        ".jdbc.schema-version": "V1",
    }.items():
        fresh.conf.set(f"spark.sql.catalog.{name}{key}", text)
    assert list(icefloe.spark.attach(fresh)) == [name]
    fresh.sql(f"CREATE TABLE {name}.db.t AS SELECT 1 AS x")
    assert [tuple(row) for row in fresh.table(f"{name}.db.t").collect()] == [(1,)]


def test_sessions_have_catalogs_of_their_own(sql: Run, spark: SparkSession, tmp_path: Path) -> None:
    sql("CREATE TABLE lake.db.t AS SELECT 1 AS x")
    fresh = spark.newSession()
    with pytest.raises(AnalysisException):
        fresh.sql("SELECT * FROM lake.db.t")
    icefloe.spark.attach(fresh, "lake", other_catalog(tmp_path / "pond", "pond"))
    fresh.sql("CREATE TABLE lake.db.only_here AS SELECT 2 AS x")
    fresh.sql("ALTER TABLE lake.db.only_here WRITE ORDERED BY x")
    assert [row[1] for row in sql("SHOW TABLES IN lake.db")] == ["t"]


def test_threads_write_and_read_at_the_same_time(sql: Run, spark: SparkSession) -> None:
    def work(number: int) -> int:
        spark.sql(f"CREATE TABLE lake.db.t{number} AS SELECT id FROM range({number + 1})")
        spark.sql(f"ALTER TABLE lake.db.t{number} CREATE TAG done")
        return int(spark.sql(f"SELECT count(*) FROM lake.db.t{number} VERSION AS OF 'done'").collect()[0][0])

    with ThreadPoolExecutor(4) as threads:
        count = 6 if ALL else 3
        assert list(threads.map(work, range(count))) == list(range(1, count + 1))


def test_an_invalid_catalog_name_is_refused(spark: SparkSession, lake: SqlCatalog) -> None:
    with pytest.raises(InvalidInputError, match="cannot be the name of a catalog"):
        icefloe.spark.attach(spark, "not a name", lake)
    spark.conf.set("spark.sql.catalog.taken", "com.example.Catalog")
    with pytest.raises(InvalidInputError, match="another catalog"):
        icefloe.spark.attach(spark, "taken", lake)
    spark.conf.unset("spark.sql.catalog.taken")


@pytest.mark.slow
def test_a_new_process_attaches_catalogs_by_settings_and_logs_nothing(tmp_path: Path) -> None:
    other_catalog(tmp_path / "one", "lake").create_table("db.two", pa.table({"id": [0, 1]}).schema).append(pa.table({"id": [0, 1]}))
    program = f"""
import json
import icefloe.spark
from icefloe import SqlCatalog
spark = icefloe.spark.session({{"spark.sql.catalog.lake": "icefloe", "spark.sql.catalog.lake.uri": "sqlite:///{tmp_path}/one/catalog.db",
    "spark.sql.catalog.lake.warehouse": "{tmp_path}/one/warehouse"}}, master="local[1]")
registered = spark.newSession()
icefloe.spark.register(registered, pond=SqlCatalog("lake", uri="sqlite:///{tmp_path}/one/catalog.db"))
print(json.dumps(registered.read.format("icefloe").load("pond.db.two").count()))
print(json.dumps(sorted(icefloe.spark.attach(spark))))
for form in ("icefloe", "iceberg"):
    print(json.dumps([one.read.format(form).load(name + ".db.two").where("id > 0").count() for one, name in ((registered, "pond"), (spark, "lake"))]))
spark.sql("CREATE TABLE lake.db.t AS SELECT 7 AS x")
print(json.dumps([row.x for row in spark.table("lake.db.t").collect()]))
try:
    spark.sql("SELECT nothing FROM lake.db.t")
except Exception as error:
    print(json.dumps(type(error).__name__))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [2, [], [1, 1], [1, 1], [7], "AnalysisException"]
    assert "SQLQueryContextLogger" not in done.stderr
