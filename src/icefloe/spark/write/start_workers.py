"""Starting Spark's Python workers before the first statement needs them: in local sessions, in the background, once per session.

Otherwise the first statement that writes would wait for the start of Python, for its imports, and for the JVM's classes that send Arrow data.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

DAEMON_SETTING = "spark.python.daemon.module"
DAEMON = "icefloe.spark.write.worker_daemon"
JOB = "start the Python workers"
_FIND = "from importlib.util import find_spec; print(find_spec('icefloe').origin)"
_FIND_SECONDS = 30
LOG = logging.getLogger(__name__)
_STARTED: set[str] = set()  # the ids of the applications whose workers were started


def worker_settings(gateway: Any, settings: Mapping[str, object]) -> dict[str, str]:
    """Return the setting that makes the workers of a new session forks of `worker_daemon.py`, which has already imported the modules for tasks.

    The result is empty for a session on a cluster, if the user has set a daemon, and if a worker's Python would not find this Icefloe: then the daemon could
    not start, and no Python function could run.

    Args:
        gateway: The gateway of the JVM, which has no session yet.
        settings: The settings of the new session.
    """
    configured = gateway.jvm.org.apache.spark.SparkConf()  # settings from spark-defaults.conf and spark-submit
    master = str(settings.get("spark.master") or configured.get("spark.master", "local[*]"))
    if not _is_local(master) or DAEMON_SETTING in settings or configured.contains(DAEMON_SETTING):
        return {}
    return {DAEMON_SETTING: DAEMON} if _is_found_by_workers() else {}


def start_workers(spark: SparkSession) -> None:
    """Run a small Spark job in the background, so that a Python worker starts. Only for local sessions whose workers use this Python; failures are logged."""
    context = spark.sparkContext
    application = str(context.applicationId)
    if application in _STARTED or not _is_local(str(context.master)) or not _is_this_python(context.pythonExec):
        return
    _STARTED.add(application)
    threading.Thread(target=_start_worker, args=(spark,), name="icefloe-start-workers", daemon=True).start()


def _start_worker(spark: SparkSession) -> None:
    try:
        spark.sparkContext.setJobGroup(f"icefloe-{JOB}", JOB, interruptOnCancel=True)
        spark.sql("SELECT id, CAST(id AS STRING) AS text FROM range(1)").mapInArrow(_same, "id bigint, text string").collect()
    except Exception as error:  # noqa: BLE001  the session may end meanwhile, in which case Py4J raises many types of errors
        LOG.debug("could not start a Python worker: %s", error)


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _is_this_python(executable: str) -> bool:
    return os.path.abspath(executable) == os.path.abspath(sys.executable)


def _is_found_by_workers() -> bool:
    """Return whether the Python of workers is this Python, and finds this Icefloe in a new process, which does not have changes of `sys.path` made here."""
    executable = os.environ.get("PYSPARK_PYTHON", "python3")
    if not _is_this_python(executable):
        return False
    try:
        # The Python executable of this process.
        search = subprocess.run([executable, "-c", _FIND], capture_output=True, check=True, timeout=_FIND_SECONDS)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return os.fsdecode(search.stdout).strip() == str(Path(__file__).parents[2] / "__init__.py")


def _is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")
