"""The Spark session of the tests: one for all of them, whatever folder a test works in."""

import os
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.comet import VARIABLE, comet_settings

if TYPE_CHECKING:  # most tests run without Spark
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """Start the session in the folder of the repository: its workers find the modules of the tests by the folder that it was started in."""
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2", "spark.ui.enabled": "false"}
    # Workers are forks of a process that has imported Icefloe, as in a session with catalogs: each would take half a second to import it.
    conf |= {"spark.python.daemon.module": "icefloe.spark.write.worker_daemon"}
    if VARIABLE in os.environ:
        conf |= comet_settings(os.environ[VARIABLE])
    with chdir(ROOT):
        started = import_module("icefloe.spark.runtime.start_session").session(conf, master="local[2]", app_name="icefloe tests")
    if VARIABLE not in os.environ:  # Comet reads the settings too
        forget_defaults(started)
    yield started
    started.stop()


def forget_defaults(spark: "SparkSession") -> None:
    """Leave Hadoop's defaults out of its settings in a session, and keep what Spark sets: each scan copies all of them, and they are in Hadoop's code."""
    java: Any = spark._jvm
    java.java.lang.Class.forName("org.apache.hadoop.mapreduce.Job")  # adds a file of defaults where it is loaded
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.clear()
    java.org.apache.spark.deploy.SparkHadoopUtil.get().appendS3AndSparkHadoopHiveConfigurations(spark.sparkContext._conf._jconf, settings)
    settings.set(
        "fs.AbstractFileSystem.file.impl", "org.apache.hadoop.fs.local.LocalFs"
    )  # by which checkpoints are written; not in the code
