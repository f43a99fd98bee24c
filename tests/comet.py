"""Apache DataFusion Comet for tests: its JAR, if the local Maven cache has one for this Spark, and the settings of a session that has it."""

import os
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
# Tests run with Comet where this variable has the path of its JAR, and perhaps those of others, with colons between them.
VARIABLE = "ICEFLOE_COMET_JAR"
# The session has Comet by its class in `spark.sql.extensions`, without its plugin, where this variable is set.
EXTENSION_ALONE = "ICEFLOE_COMET_EXTENSION_ALONE"
VERSION = "1.2.0"
# The only Spark for which Maven Central has a build of this version, and the build.
SPARK = "4.1"
ARTIFACT = f"org.apache.datafusion:comet-spark-spark{SPARK}_2.13:{VERSION}"
# Up to this size of each partition, Spark joins by hash instead of by sorting both sides, which Comet does in half of the time. Spark's default is 0.
HASH_JOINS = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"


def comet_jar(spark_version: str) -> Path | None:
    """Return the JAR for a version of Spark; None if Comet has no build for it, or the JAR is not in the cache."""
    artifact = f"comet-spark-spark{'.'.join(spark_version.split('.')[:2])}_2.13"
    jar = Path.home() / f".m2/repository/org/apache/datafusion/{artifact}/{VERSION}/{artifact}-{VERSION}.jar"
    return jar if jar.is_file() else None


def comet_settings(jar: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings of a session with Comet."""
    return {
        "spark.driver.extraClassPath": str(jar),
        **(
            {"spark.sql.extensions": "org.apache.comet.CometSparkSessionExtensions"}
            if EXTENSION_ALONE in os.environ
            else {"spark.plugins": "org.apache.spark.CometPlugin"}
        ),
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "1g",
        "spark.comet.convert.parquet.enabled": "true",
        HASH_JOINS: "64MB",
    }


def leave_to_spark(session: SparkSession) -> None:
    """Turn Comet off in one session of a Spark that has it, with the settings that it has of its own."""
    session.conf.set("spark.comet.enabled", "false")
    session.conf.set(HASH_JOINS, "0b")


def run_cases(cases: Path, chosen: str, jars: Iterable[Path] = (), *, elsewhere: bool = False, extension_alone: bool = False) -> None:
    """Run tests of a file in a process of its own, whose session has Comet: plugins are loaded when a session starts. Skip the test without Comet's JAR.

    Args:
        cases: The file.
        chosen: Which of its tests run, as pytest's option `-k` takes it.
        jars: Other JARs of the session.
        extension_alone: Whether the session has Comet by its extension, without its plugin.
        elsewhere: Whether the environment of another PySpark runs them if Comet has no build for the one of this process.
    """
    spark = version("pyspark")
    jar, python, path = comet_jar(spark), Path(sys.executable), os.pathsep.join(path for path in sys.path if path)
    if jar is None and elsewhere and not spark.startswith(SPARK):
        jar, python, path = comet_jar(SPARK), ROOT / f".venvs/spark-{SPARK}/bin/python", ""
    if jar is None:
        pytest.skip(
            f"the local Maven cache has no Comet {VERSION} for Spark {spark}, or {SPARK}. Next: mvn dependency:get -Dartifact={ARTIFACT}"
        )
    if not python.exists():
        pytest.skip(f"Comet has no build for Spark {spark}, and there is no PySpark {SPARK}. Next: python3 scripts/setup spark {SPARK}")
    environment = {**os.environ, VARIABLE: os.pathsep.join(map(str, (jar, *jars))), "PYTHONPATH": path}
    environment |= {EXTENSION_ALONE: "1"} if extension_alone else {}
    environment |= {name: str(python) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", f"python_files={cases.name}", "-k", chosen]
    command = [str(python), "-m", "pytest", *options, str(cases)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-20_000:]
