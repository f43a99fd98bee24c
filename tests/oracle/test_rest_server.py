"""Other engines through `icefloe serve`: PyIceberg, DuckDB, and Java's Iceberg on Spark, each while Icefloe reads and writes the same tables."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest
from tests.maven_jars import maven_jars
from tests.oracle.conftest import ORACLES, run
from tests.served_address import served_address

from icefloe.catalog import load_catalog
from icefloe.server.access_control import Grant
from icefloe.server.users_file import add_user

pytestmark = pytest.mark.oracle

ROOT = Path(__file__).parents[2]
# PySpark for which Java's Iceberg 1.11 is built, in an environment of its own: the project's PySpark is newer than any Java's Iceberg supports.
SPARK_4_1 = ROOT / ".venvs" / "spark-4.1" / "bin" / "python"
ICEFLOE = str(Path(sys.executable).with_name("icefloe"))

PYICEBERG = """
import sys
import pyarrow as pa
import pyarrow.compute
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.types import LongType

uri, credential = sys.argv[1:]
catalog = load_catalog("lake", type="rest", uri=uri, credential=credential)
catalog.create_namespace("py", {"owner": "me"})
assert catalog.load_namespace_properties("py")["owner"] == "me"
rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
table = catalog.create_table("py.t", rows.schema)
table.append(rows)
with table.transaction() as transaction:
    with transaction.update_schema() as update:
        update.add_column("more", LongType())
    transaction.set_properties(by="pyiceberg")
table.delete(EqualTo("id", 2))
with catalog.create_table_transaction("py.staged", rows.schema) as staged:
    with staged.update_snapshot().fast_append() as _:
        pass
assert sorted(catalog.list_tables("py")) == [("py", "staged"), ("py", "t")], catalog.list_tables("py")
catalog.rename_table("py.staged", "py.renamed")
assert catalog.table_exists("py.renamed") and not catalog.table_exists("py.staged")
catalog.drop_table("py.renamed")
assert catalog.load_table("py.t").scan().to_arrow().sort_by("id")["id"].to_pylist() == [1, 3]
print("done")
"""

PYICEBERG_AGAIN = """
import sys
from pyiceberg.catalog import load_catalog
catalog = load_catalog("lake", type="rest", uri=sys.argv[1], credential=sys.argv[2])
print(sorted(catalog.load_table("py.t").scan().to_arrow()["id"].to_pylist()))
"""

DUCKDB = """
import sys
import duckdb
import duckdb_extension_httpfs
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from duckdb_rows import connect

connection = connect()
folder = Path(duckdb_extension_httpfs.__file__).parent
connection.execute(f"LOAD '{next(folder.glob('extensions/*/*.duckdb_extension'))}'")
connection.execute("CREATE SECRET (TYPE iceberg, TOKEN '" + sys.argv[2] + "')")
connection.execute("ATTACH 'lake' AS r (TYPE iceberg, ENDPOINT '" + sys.argv[1] + "')")
connection.execute("CREATE SCHEMA r.duck")
connection.execute("CREATE TABLE r.duck.t (id BIGINT, name VARCHAR)")
connection.execute("INSERT INTO r.duck.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
connection.execute("DELETE FROM r.duck.t WHERE id = 2")
connection.execute("UPDATE r.duck.t SET name = 'z' WHERE id = 3")
print(connection.execute("SELECT id, name FROM r.duck.t ORDER BY id").fetchall())
connection.execute("BEGIN; CREATE TABLE r.duck.u (id BIGINT); INSERT INTO r.duck.u VALUES (7); COMMIT")
print(connection.execute("SELECT id FROM r.duck.u").fetchall())
connection.execute("DROP TABLE r.duck.u")
print([row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'r'").fetchall()])
"""

JAVA = """
import sys
sys.path.insert(0, sys.argv[1])
from java_session import session
uri, token = sys.argv[2:4]
spark = session(sys.argv[4], **{
    "spark.sql.catalog.r": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.r.type": "rest",
    "spark.sql.catalog.r.uri": uri,
    "spark.sql.catalog.r.token": token,
    "spark.sql.catalog.r.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
})
"""

JAVA_1_11 = """
import json, sys
from pyspark.sql import SparkSession
jar, uri, token, settings = sys.argv[1:]
builder = SparkSession.builder.master("local[2]")
for name, value in {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.jars": jar,
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.r": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.r.type": "rest",
    "spark.sql.catalog.r.uri": uri,
    "spark.sql.catalog.r.token": token,
    "spark.sql.catalog.r.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    **json.loads(settings),
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
print("ICEBERG", spark._jvm.org.apache.iceberg.IcebergBuild.version(), "SPARK", spark.version)
"""
RunsSpark = Callable[..., str]


@pytest.fixture(params=["Iceberg 1.10 on Spark 3.5", "Iceberg 1.11 on Spark 4.1"])
def java(request: pytest.FixtureRequest, server: tuple[str, str, Path], tmp_path: Path) -> RunsSpark:
    """Return a function that runs statements in a new session `spark` of Java's Iceberg, whose catalog `r` is the server."""
    address, token, _ = server
    if request.param == "Iceberg 1.10 on Spark 3.5":
        return lambda script: run("java", "-c", JAVA + script, str(ORACLES), address, token, str(tmp_path / "unused"))
    return java_1_11(address, token)


def java_1_11(address: str, token: str) -> RunsSpark:
    """Return a function that runs statements in a new session of Java's Iceberg 1.11 on Spark 4.1, with more settings if given."""
    if not SPARK_4_1.exists():
        pytest.skip("no PySpark 4.1. Next: python3 scripts/setup spark 4.1")
    jars = maven_jars(Path(__file__).parent / "spark_fixture" / "pom.xml", ROOT / ".spark-fixture", "Java's Iceberg for Spark 4.1")
    jar = next(jars.glob("iceberg-spark-runtime-4.1_2.13-*.jar"))

    def run_script(script: str, settings: dict[str, str] | None = None) -> str:
        command = [str(SPARK_4_1), "-c", JAVA_1_11 + script, str(jar), address, token, json.dumps(settings or {})]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYSPARK_PYTHON": str(SPARK_4_1)})
        assert done.returncode == 0, done.stderr[-3000:]
        assert "ICEBERG 1.11.0 SPARK 4.1." in done.stdout, done.stdout
        return done.stdout

    return run_script


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str, Path]]:
    """Start a server with one user, and return its address, the token and the warehouse."""
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    users = tmp_path / "users.yaml"
    token = add_user(str(users), "engine", (Grant.of("admin"),))
    load_catalog("lake", warehouse=str(warehouse)).close()
    command = [
        ICEFLOE,
        "serve",
        "--catalog",
        "lake",
        "--warehouse",
        str(warehouse),
        "--port",
        "0",
        "--users",
        str(users),
        "--rate-limit",
        "0",
    ]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield served_address(process, tmp_path / "log"), token, warehouse
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(os.environ, "no_proxy", "*")


def test_pyiceberg_creates_changes_and_reads_tables(server: tuple[str, str, Path], pyiceberg: Callable[..., str]) -> None:
    address, token, warehouse = server
    assert pyiceberg(PYICEBERG, address, f"engine:{token}").endswith("done\n")
    table = load_catalog("lake", warehouse=str(warehouse)).load_table("py.t")
    assert (table.properties["by"], sorted(table.scan().to_arrow()["id"].to_pylist())) == ("pyiceberg", [1, 3])
    table.append(pa.table({"id": pa.array([9], pa.int64())}))
    assert pyiceberg(PYICEBERG_AGAIN, address, f"engine:{token}") == "[1, 3, 9]\n"


def test_duckdb_attaches_and_does_ddl_and_dml(server: tuple[str, str, Path]) -> None:
    address, token, warehouse = server
    printed = run("duckdb", "-c", DUCKDB, address, token, str(ORACLES)).splitlines()
    assert printed == ["[(1, 'a'), (3, 'z')]", "[(7,)]", "['t']"]
    table = load_catalog("lake", warehouse=str(warehouse)).load_table("duck.t")
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [{"id": 1, "name": "a"}, {"id": 3, "name": "z"}]


def test_java_on_spark_reads_and_writes_while_icefloe_does_too(server: tuple[str, str, Path], java: RunsSpark) -> None:
    _, _, warehouse = server
    catalog = load_catalog("lake", warehouse=str(warehouse))
    script = (
        "spark.sql('CREATE NAMESPACE r.java')\n"
        "spark.sql('CREATE TABLE r.java.t (id BIGINT, day INT) USING iceberg PARTITIONED BY (day)')\n"
        "spark.sql('INSERT INTO r.java.t VALUES (1, 1), (2, 2), (3, 2)')\n"
        "spark.sql('CREATE TABLE r.java.made USING iceberg AS SELECT id FROM r.java.t WHERE day = 2')\n"
        "spark.sql('ALTER TABLE r.java.t ADD COLUMN name STRING')\n"
        "spark.sql(\"UPDATE r.java.t SET name = 'x' WHERE id = 3\")\n"
        "spark.sql('CREATE VIEW r.java.v AS SELECT id FROM r.java.t')\n"
        "print('ROWS', sorted(row.id for row in spark.table('r.java.v').collect()))\n"
    )
    assert "ROWS [1, 2, 3]" in java(script)
    table = catalog.load_table("java.t")
    assert table.scan("id = 3").to_arrow().to_pylist() == [{"id": 3, "day": 2, "name": "x"}]
    table.append(pa.table({"id": pa.array([4], pa.int64()), "day": pa.array([3], pa.int32()), "name": ["y"]}))
    table.delete("id = 1")
    again = (
        "spark.sql('MERGE INTO r.java.t t USING (SELECT 2L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE')\n"
        "print('ROWS', sorted((row.id, row.name) for row in spark.table('r.java.t').collect()))\n"
        "spark.sql('DROP VIEW r.java.v')\n"
        "spark.sql('DROP TABLE r.java.made PURGE')\n"
    )
    assert "ROWS [(3, 'x'), (4, 'y')]" in java(again)
    assert catalog.list_tables("java") == [("java", "t")]
    assert table.refresh().scan().to_arrow().sort_by("id")["id"].to_pylist() == [3, 4]


def test_java_reads_what_the_server_planned(server: tuple[str, str, Path], tmp_path: Path) -> None:
    """Java's Iceberg 1.11 leaves planning to the server: its pages, delete files of both kinds, a filter, time travel, and DELETE after such a scan."""
    address, token, warehouse = server
    catalog = load_catalog("lake", warehouse=str(warehouse))
    catalog.create_namespace("planned")
    schema = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("name", pa.string())])
    for version in (1, 2, 3):
        mode = "merge-on-read" if version > 1 else "copy-on-write"
        properties = {"format-version": str(version), **{f"write.{kind}.mode": mode for kind in ("delete", "update")}}
        table = catalog.create_table(f"planned.v{version}", schema, properties=properties)
        table.update_spec().add_identity("day").commit()
        for day in range(4):
            rows = [{"id": day * 10 + number, "day": day, "name": f"n{number}"} for number in range(10)]
            table.append(pa.Table.from_pylist(rows, schema))
        table.delete("id >= 10 AND id < 13")
    script = (
        "for version in (1, 2, 3):\n"
        "    name = f'r.planned.v{version}'\n"
        "    print('ROWS', version, spark.table(name).count(), [row.id for row in spark.sql(f'SELECT id FROM {name} WHERE day = 1 ORDER BY id').collect()])\n"
        "    first = spark.sql(f'SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at').first()[0]\n"
        "    print('THEN', version, spark.sql(f'SELECT * FROM {name} VERSION AS OF {first}').count())\n"
        "    spark.sql(f\"DELETE FROM {name} WHERE name = 'n5'\")\n"
        "    spark.sql(f\"UPDATE {name} SET name = 'x' WHERE id = 36\")\n"
        "    print('LEFT', version, spark.table(name).count(), spark.table(name).where(\"name = 'x'\").first().id)\n"
    )
    printed = java_1_11(address, token)(script, {"spark.sql.catalog.r.scan-planning-mode": "server"}).splitlines()
    for version in (1, 2, 3):
        assert f"ROWS {version} 37 [13, 14, 15, 16, 17, 18, 19]" in printed
        assert f"THEN {version} 10" in printed
        assert f"LEFT {version} 33 36" in printed
        left = catalog.load_table(f"planned.v{version}").scan().to_arrow()
        assert (left.num_rows, left.filter(pa.compute.equal(left["name"], "x"))["id"].to_pylist()) == (33, [36])
    requests = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
    planned = [request["table"] for request in requests if request.get("operation") == "planTableScan" and request["status"] == 200]
    assert set(planned) == {"v1", "v2", "v3"}
