"""`session`: a Spark session that works on a machine where no Java was set up, with the settings Icefloe reads and writes with.

Finding Java is `java_runtime.py`; starting it where PySpark cannot is `jvm_launch.py`.
"""

import logging
import os
import socket
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icefloe.errors import EngineError
from icefloe.kernel.limits import PREFIX as LIMITS_PREFIX
from icefloe.kernel.limits import limits, limits_to_environment
from icefloe.spark.runtime.interrupts import cancel_jobs_on_interrupt
from icefloe.spark.runtime.java_runtime import JavaRuntime, find_java
from icefloe.spark.runtime.jvm_launch import environment_of, start_without_vector_module
from icefloe.spark.runtime.redaction import HIDDEN_SETTINGS, REDACTION, is_secret, shown
from icefloe.spark.runtime.spark_versions import check_version

LOG = logging.getLogger(__name__)

# What a session must have, started here or not: Iceberg finds columns by field id.
NEEDED_CONF: Mapping[str, str] = {"spark.sql.parquet.fieldId.read.enabled": "true"}
# What a session started here has unless told otherwise.
DEFAULT_CONF: Mapping[str, str] = {
    "spark.api.mode": "classic",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    REDACTION: HIDDEN_SETTINGS,
}
FAILED_STATEMENTS = "SQLQueryContextLogger"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(
    conf: Mapping[str, object] | None = None, /, *, app_name: str = "icefloe", master: str | None = None, **settings: object
) -> SparkSession:
    """The active Spark session with these settings, or a new one: `session(master="local[2]", **{"spark.driver.memory": "4g"})`.

    Settings come as a mapping, as keywords, or both; keywords win. A new session finds Java by itself, is quiet (errors only, no console progress, no web
    UI) and computes in UTC, each unless a setting says otherwise. Settings that Spark fixes at its start are only warned about where a session runs already.

    Raises:
        EngineError: no Java is found, the JVM does not start, Spark is older than 4.0, or what runs is Spark Connect.
    """
    wanted = {name: _text(value) for name, value in {**(conf or {}), **settings}.items()}
    if master is not None:
        wanted["spark.master"] = master
    active = active_session()
    if active is None:
        started = _start({**DEFAULT_CONF, "spark.app.name": app_name, **wanted, **NEEDED_CONF})
        share_limits(started)
        return started
    _apply(active, {**wanted, **NEEDED_CONF})
    return active


def active_session() -> SparkSession | None:
    """The session of this thread, else any classic session of this process; None where none runs."""
    context = SparkContext._active_spark_context
    if context is None or getattr(context, "_jsc", None) is None:
        return None
    found = SparkSession.getActiveSession()
    found = found if found is not None else SparkSession.builder.getOrCreate()
    # Where a server of Spark Connect was started in this process, there is a context, and sessions are its clients.
    if getattr(found, "_jsparkSession", None) is None:
        return None
    share_limits(found)
    return found


def share_limits(spark: SparkSession) -> None:
    """Give the limits of this process to the Python workers of tasks that are made from now on: they start with these environment variables."""
    environment = spark.sparkContext.environment
    for variable in [name for name in environment if name.startswith(LIMITS_PREFIX)]:
        del environment[variable]
    environment.update(limits_to_environment(limits()))


def _start(conf: dict[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        if SparkContext._gateway is None:
            _quiet(conf)
            # The command line of a process is for all users of a machine to see.
            _start_java(find_java(), {name: value for name, value in conf.items() if not is_secret(name, value) or name == REDACTION})
        builder = SparkSession.builder
        for name, value in conf.items():
            builder = builder.config(name, value)
        started = builder.getOrCreate()
    except (RuntimeError, OSError) as error:
        raise EngineError(f"Spark did not start: {error}", next_step="see the message of its JVM above") from error
    # PySpark writes each failed statement to stderr, which its exception says too; quieter in our own sessions alone.
    PySparkLogger.getLogger(FAILED_STATEMENTS).setLevel(logging.CRITICAL + 1)
    if getattr(started, "_jsparkSession", None) is None:
        raise EngineError(
            "Spark Connect is set in the environment; tables are read and written in a classic session", next_step="unset SPARK_REMOTE"
        )
    check_version(started.version)
    cancel_jobs_on_interrupt(started)
    return started


def _start_java(java: JavaRuntime, conf: Mapping[str, str]) -> None:
    variables = {"JAVA_HOME": str(java.home)}
    if not _host_name_resolves():
        variables.setdefault("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
    with environment_of(**variables):
        # On Windows Spark's launcher answers with a line for its shell, so PySpark starts every Java there.
        if java.has_vector_module or os.name == "nt":
            SparkContext._ensure_initialized(conf=_PlainConf(conf))  # type: ignore[arg-type]  # only its getAll is called
        else:
            start_without_vector_module(java, conf)


class _PlainConf:
    """The one method of a SparkConf that starting the JVM calls; a real SparkConf needs a JVM."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 PySpark's name
        return list(self._conf.items())


def _quiet(conf: dict[str, str]) -> None:
    """Names our logging configuration to the JVM, unless there is one of the user's."""
    options = conf.get(JAVA_OPTIONS, "")
    configured = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
    if "log4j" in options or any(configured.glob("log4j2.*")):
        return
    ours = Path(str(files("icefloe.spark") / "log4j2.properties"))
    if ours.is_file():
        conf[JAVA_OPTIONS] = f"{options} -Dlog4j2.configurationFile={ours.as_uri()}".strip()


def _apply(active: SparkSession, conf: Mapping[str, str]) -> None:
    for name, value in conf.items():
        if active.conf.isModifiable(name):
            active.conf.set(name, value)
        elif active.conf.get(name, None) != value:
            kept = shown(name, active.conf.get(name, None))
            LOG.warning("Spark is running already, so %s stays %s; stop the session to start one with %s", name, kept, shown(name, value))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host_name_resolves() -> bool:
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True
