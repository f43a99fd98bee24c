"""Catalogs of every type that are known to Spark by its settings alone, as users of Java's Iceberg write them in `spark-defaults.conf`."""

import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.emulators import KEY, SECRET, new_bucket, running, s3_properties
from tests.oracle.hive_metastore import hive_metastore
from tests.repetitions import ALL
from tests.spark.sql.catalog_exercise import exercise

from icefloe import load_catalog
from icefloe.errors import StoragePermissionError
from icefloe.server.access_control import Grant
from icefloe.server.users_file import add_user
from icefloe.spark.attach_catalog import attach
from icefloe.spark.runtime.java_runtime import find_java

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
JAVA = "org.apache.iceberg"
Settings = dict[str, str]


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Run `icefloe serve` with one user for an empty catalog, and yield its address and the user's token."""
    (folder / "warehouse").mkdir()
    users = folder / "users.yaml"
    token = add_user(str(users), "etl", (Grant.of("admin"),))
    load_catalog("lake", warehouse=str(folder / "warehouse")).close()
    options = ["--catalog", "lake", "--warehouse", str(folder / "warehouse"), "--users", str(users), "--rate-limit", "0"]
    with running([str(Path(sys.executable).with_name("icefloe")), "serve", "--port", "{port}", *options]) as port:
        yield f"http://127.0.0.1:{port}", token


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Settings]:
    with served(tmp_path) as (address, token):
        yield {"type": "rest", "uri": address, "warehouse": "lake", "token": token}


@pytest.fixture
def rest_with_credential(tmp_path: Path) -> Iterator[Settings]:
    with served(tmp_path) as (address, token):
        yield {
            "catalog-impl": f"{JAVA}.rest.RESTCatalog",
            "uri": address,
            "credential": f"etl:{token}",
            "oauth2-server-uri": f"{address}/v1/oauth/tokens",
            "scope": "PRINCIPAL_ROLE:ALL",
            "header.X-Iceberg-Access-Delegation": "vended-credentials",
            "io-impl": f"{JAVA}.hadoop.HadoopFileIO",
        }


@pytest.fixture
def jdbc(tmp_path: Path) -> Settings:
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "jdbc.user": "etl",
        "jdbc.password": SECRET,
        "jdbc.schema-version": "V1",
        "warehouse": f"file:{tmp_path}/warehouse",
    }


@pytest.fixture
def sql(tmp_path: Path) -> Settings:
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}


@pytest.fixture
def hadoop(tmp_path: Path) -> Settings:
    return {"type": "hadoop", "warehouse": f"file://{tmp_path}/warehouse"}


@pytest.fixture
def hadoop_class(tmp_path: Path) -> Settings:
    return {
        "catalog-impl": f"{JAVA}.hadoop.HadoopCatalog",
        "warehouse": str(tmp_path / "warehouse"),
        "io-impl": f"{JAVA}.hadoop.HadoopFileIO",
        "cache-enabled": "false",
    }


@pytest.fixture(scope="module")
def glue_address() -> Iterator[str]:
    for package in ("moto", "s3fs"):
        pytest.importorskip(package, reason="moto and s3fs are not installed: run make test-object-stores")
    with running([sys.executable, "-m", "tests.glue_server", "{port}"]) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def glue(glue_address: str) -> Settings:
    keys = {"client.access-key-id": KEY, "client.secret-access-key": SECRET, "client.region": "us-east-1"}
    store = {name: text for name, text in s3_properties(glue_address).items() if name in ("s3.endpoint", "s3.path-style-access")}
    return {"type": "glue", "warehouse": f"s3://{new_bucket(glue_address)}/w", "glue.endpoint": glue_address, **keys, **store}


@pytest.fixture
def glue_class(glue: Settings) -> Settings:
    glue.pop("type")
    return {"catalog-impl": f"{JAVA}.aws.glue.GlueCatalog", "io-impl": f"{JAVA}.aws.s3.S3FileIO", **glue}


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hive_metastore(tmp_path_factory.mktemp("hive"), 3) as address:
        yield address


@pytest.fixture
def hive(metastore: str, tmp_path: Path) -> Settings:
    return {"type": "hive", "uri": metastore, "warehouse": f"file:{tmp_path}/warehouse", "clients": "2"}


def configure(spark: SparkSession, name: str, catalog_class: str, settings: Mapping[str, str]) -> None:
    """Set the settings of a catalog in a session."""
    spark.conf.set(f"spark.sql.catalog.{name}", catalog_class)
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)


@pytest.mark.parametrize(
    ("settings", "has_views"),
    [
        ("rest", True),
        pytest.param("jdbc", True, marks=pytest.mark.slow),
        ("hadoop", False),
        pytest.param("rest_with_credential", True, marks=pytest.mark.slow),
        pytest.param("sql", True, marks=pytest.mark.slow),
        pytest.param("hadoop_class", False, marks=pytest.mark.slow),
        pytest.param("glue", False, marks=pytest.mark.emulator),
        pytest.param("glue_class", False, marks=pytest.mark.emulator),
        pytest.param("hive", False, marks=pytest.mark.oracle),
    ],
)
def test_settings_alone_give_a_session_the_whole_sql(
    spark: SparkSession, request: pytest.FixtureRequest, settings: str, has_views: bool
) -> None:
    name = f"by_{settings}"
    own = spark.newSession()
    # Those who change a setting write Icefloe's own name, and others leave the class of the JAR as it is.
    configure(own, name, "icefloe" if "_" not in settings else f"{JAVA}.spark.SparkCatalog", request.getfixturevalue(settings))
    assert list(attach(own)) == [name]
    exercise(own, name, has_views=has_views, whole=ALL)


def test_a_wrong_token_is_refused_without_showing_it(spark: SparkSession, rest: Settings, caplog: pytest.LogCaptureFixture) -> None:
    own = spark.newSession()
    configure(own, "denied", "icefloe", {**rest, "token": f"{SECRET}-{SECRET}"})
    with caplog.at_level(logging.DEBUG, "icefloe"), pytest.raises(StoragePermissionError, match="401") as refused:
        attach(own)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert SECRET not in caplog.text


PROGRAM = """
import sys
from pyspark.sql import SparkSession
from tests.spark.sql.catalog_exercise import exercise
from icefloe.spark import attach

spark = SparkSession.builder.getOrCreate()
print("attached", *sorted(attach(spark)))
print("current", spark.catalog.currentCatalog())
spark.sql("CREATE NAMESPACE sales")
spark.sql("CREATE TABLE sales.orders (id BIGINT) USING iceberg")
spark.sql("INSERT INTO sales.orders SELECT id FROM range(5)")
for statement in (
    "EXPLAIN FORMATTED SELECT * FROM sales.orders WHERE id > 1",
    "EXPLAIN EXTENDED SELECT * FROM sales.orders WHERE id > 1",
    "DESCRIBE TABLE EXTENDED sales.orders",
    "DESCRIBE CATALOG EXTENDED prod",
    "SET",
    "SELECT missing FROM sales.orders",
    "SELECT * FROM sales.missing",
    "CALL prod.system.rollback_to_snapshot('sales.orders', 1)",
):
    try:
        print(statement, *map(tuple, spark.sql(statement).collect()))
    except Exception as error:
        print(statement, type(error), repr(error), error.__cause__)
print("rows", spark.sql("SELECT sum(id) FROM sales.orders").first()[0])
exercise(spark, "folder", has_views=False)
spark.stop()
print("done")
"""


@pytest.mark.slow
def test_a_program_finds_the_catalogs_of_spark_defaults_conf_and_shows_no_token(tmp_path: Path) -> None:
    """The file is that of a user of the JAR, who has added one call to the program."""
    for folder in ("conf", "events", "served"):
        (tmp_path / folder).mkdir()
    with served(tmp_path / "served") as (address, token):
        (tmp_path / "conf" / "spark-defaults.conf").write_text(f"""
spark.master                        local[1]
spark.driver.memory                 1g
spark.sql.shuffle.partitions        2
spark.sql.extensions                {JAVA}.spark.extensions.IcebergSparkSessionExtensions
spark.sql.defaultCatalog            prod
spark.sql.catalog.prod              {JAVA}.spark.SparkCatalog
spark.sql.catalog.prod.type         rest
spark.sql.catalog.prod.uri          {address}
spark.sql.catalog.prod.warehouse    lake
spark.sql.catalog.prod.token        {token}
spark.sql.catalog.prod.io-impl      {JAVA}.aws.s3.S3FileIO
spark.sql.catalog.folder            {JAVA}.spark.SparkCatalog
spark.sql.catalog.folder.type       hadoop
spark.sql.catalog.folder.warehouse  file://{tmp_path}/warehouse
spark.eventLog.enabled              true
spark.eventLog.compress             false
spark.eventLog.dir                  file://{tmp_path}/events
""")
        found = {
            "JAVA_HOME": str(find_java().home),
            "SPARK_CONF_DIR": str(tmp_path / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        environment = {**os.environ, **found}
        program = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["done"], done.stdout[-2000:] + done.stderr[-4000:]
    assert lines[:2] == ["attached folder prod", "current prod"]
    assert "rows 10" in lines
    events = [path.read_text() for path in (tmp_path / "events").rglob("*") if path.is_file() and path.suffix != ".crc"]
    assert any("SparkListenerEnvironmentUpdate" in text and "spark.sql.catalog.prod.token" in text for text in events)
    for text in (done.stdout, done.stderr, *events):
        assert token not in text
