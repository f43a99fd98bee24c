"""PyIceberg's own tests of catalogs and of integration, with PyIceberg's client and Java's Iceberg on Spark, against `icefloe serve`.

The tests run in the environment of PySpark 4.1 with PyIceberg's packages beside it, since they compare PyIceberg with Java's Iceberg on Spark. The differences
that are expected are in `expected_from_server.toml`.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.maven_jars import maven_jars
from tests.pyiceberg_suite.fetched import SITE, SUITE, MissingToolError
from tests.rck.__main__ import address_of

ROOT = Path(__file__).parents[2]
SPARK = ROOT / ".venvs" / "spark-4.1" / "bin" / "python"
PYICEBERG = ROOT / ".venvs" / "pyiceberg"
# The version of Java's Iceberg is in the POM, which tests/oracle shares.
POM, JARS = ROOT / "tests" / "oracle" / "spark_fixture" / "pom.xml", ROOT / ".spark-fixture"
FOLDER = ROOT / ".pyiceberg-suite"
EXPECTED = Path(__file__).with_name("expected_from_server.toml")
FILES = (
    "tests/integration/test_catalog.py",
    "tests/integration/test_delete_count.py",
    "tests/integration/test_deletes.py",
    "tests/integration/test_inspect_table.py",
    "tests/integration/test_partition_evolution.py",
    "tests/integration/test_rest_catalog.py",
    "tests/integration/test_rest_scan_planning_integration.py",
    "tests/integration/test_rest_schema.py",
    "tests/integration/test_snapshot_operations.py",
    "tests/integration/test_sort_order_update.py",
    "tests/integration/test_statistics_operations.py",
    "tests/integration/test_writes",
    "tests/catalog/test_catalog_behaviors.py",  # the last one, since it begins each test with an empty catalog
)
# Locations outside the warehouse that the tests name without writing there.
LOCATIONS = ("s3://bucket", "/test/location")
START = "import sys; sys.path[:0] = ['.', sys.argv.pop(1)]; sys.path += sys.argv.pop(1).split(':'); import pytest; sys.exit(pytest.main(sys.argv[1:]))"


def run_on_server(tests: list[str], pytest_arguments: list[str], environment: dict[str, str]) -> None:
    """Run files or tests against a server of its own.

    Args:
        tests: What to run.
        pytest_arguments: Arguments of pytest.
        environment: The environment variables of the run.

    Raises:
        MissingToolError: An environment, Maven or Java is missing.
    """
    packages = [str(path) for path in PYICEBERG.glob("lib/python*/site-packages")]
    if not SPARK.exists() or not packages:
        raise MissingToolError(
            "not installed: PySpark 4.1 or PyIceberg. Next: python3 scripts/setup pyiceberg; python3 scripts/setup spark 4.1"
        )
    try:
        jar = next(maven_jars(POM, JARS, "Java's Iceberg for Spark 4.1").glob("iceberg-spark-runtime-*.jar"))
    except pytest.skip.Exception as error:
        raise MissingToolError(str(error)) from None
    with _served() as address:
        environment = {
            **{name: value for name, value in environment.items() if name.lower() not in ("http_proxy", "https_proxy", "pythonpath")},
            "no_proxy": "*",
            "ICEFLOE_SUITE_SERVER": address,
            "ICEFLOE_SUITE_JAR": str(jar),
            "PYSPARK_PYTHON": str(SPARK),
        }
        command = [str(SPARK), "-c", START, str(Path(__file__).parent), ":".join([*packages, str(SITE)]), *pytest_arguments, *tests]
        subprocess.run(command, cwd=SUITE, env=environment, check=False)


@contextmanager
def _served() -> Iterator[str]:
    """Serve an empty catalog, and yield its address."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="icefloe-pyiceberg-") as folder:
        os.makedirs(f"{folder}/warehouse")
        command = [
            str(Path(sys.executable).with_name("icefloe")),
            "serve",
            "--warehouse",
            f"{folder}/warehouse",
            "--port",
            "0",
            "--rate-limit",
            "0",
        ]
        for location in (tempfile.gettempdir(), *LOCATIONS):
            command += ["--allow-location", location]
        with open(FOLDER / "server.log", "w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
            try:
                yield address_of(server, Path(log.name))
            finally:
                server.terminate()
                server.wait(60)
