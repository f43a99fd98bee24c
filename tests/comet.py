"""Apache DataFusion Comet for tests: its JAR, if the local Maven cache has one for this Spark, and the settings of a session that has it."""

import os
from pathlib import Path

# Tests run with Comet where this variable has the path of its JAR.
VARIABLE = "ICEFLOE_COMET_JAR"
VERSION = "1.2.0"


def comet_jar(spark_version: str) -> Path | None:
    """Return the JAR for a version of Spark; None if Comet has no build for it, or the JAR is not in the cache."""
    artifact = f"comet-spark-spark{'.'.join(spark_version.split('.')[:2])}_2.13"
    jar = Path.home() / f".m2/repository/org/apache/datafusion/{artifact}/{VERSION}/{artifact}-{VERSION}.jar"
    return jar if jar.is_file() else None


def comet_settings(jar: str | os.PathLike[str]) -> dict[str, str]:
    """Return the settings of a session with Comet."""
    return {
        "spark.driver.extraClassPath": str(jar),
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "1g",
        "spark.comet.convert.parquet.enabled": "true",
    }
