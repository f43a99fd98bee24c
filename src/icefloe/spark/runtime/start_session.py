"""`session`: start a Spark session, also on a machine without Java, with the settings that Icefloe needs to read and write.

`java_runtime.py` finds Java; `jvm_launch.py` starts it if PySpark cannot. The public function, in `session_with_catalogs.py`, also attaches catalogs.
"""

import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from icefloe.errors import EngineError
from icefloe.spark.runtime.driver_memory import DRIVER_MEMORY, driver_memory
from icefloe.spark.runtime.interrupts import cancel_jobs_on_interrupt
from icefloe.spark.runtime.java_runtime import JavaRuntime, find_java
from icefloe.spark.runtime.jvm_launch import ADD_VECTOR_MODULE, environment_of, start_jvm
from icefloe.spark.runtime.redaction import HIDDEN_SETTINGS, REDACTION, is_secret, setting_text
from icefloe.spark.runtime.spark_versions import CONNECT_VARIABLES, check_version
from icefloe.spec.limits import PREFIX as LIMITS_PREFIX
from icefloe.spec.limits import limits, limits_to_environment

LOG = logging.getLogger(__name__)

# Settings of every session, also of sessions that the user has started: Iceberg finds columns by field id.
NEEDED_CONF: Mapping[str, str] = {"spark.sql.parquet.fieldId.read.enabled": "true"}
# Settings of a session that is started here; the caller's settings override them.
DEFAULT_CONF: Mapping[str, str] = {
    "spark.api.mode": "classic",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    REDACTION: HIDDEN_SETTINGS,
}
FAILED_STATEMENTS = "SQLQueryContextLogger"
# The features that work without a JVM in the process.
WITHOUT_JVM = (
    "read with icefloe.spark.table(spark, ...), and write with table.append, overwrite, delete and upsert; "
    "or begin a new Python process with icefloe.spark.session(), which starts a classic session"
)
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session(
    conf: Mapping[str, object] | None = None,
    /,
    *,
    app_name: str = "icefloe",
    master: str | None = None,
    extensions: Callable[[Any, str], Mapping[str, str]] | None = None,
    **settings: object,
) -> SparkSession:
    """Return the active Spark session with these settings applied, or start one: `session(master="local[2]", **{"spark.driver.memory": "4g"})`.

    A new session finds Java automatically. By default it is quiet (only errors, no console progress, no web UI), uses UTC, and its driver gets a quarter of the
    machine's memory, between 1 GB and 8 GB, if the master is local; settings override these defaults. Java's module `jdk.incubator.vector`, which prints a
    warning, is loaded only if `spark.driver.extraJavaOptions` has `--add-modules=jdk.incubator.vector`. If a session is running already, settings that Spark
    reads only at its start are not changed, and a warning is logged.

    Args:
        conf: Settings by name.
        app_name: The name of the application in Spark's UI.
        master: The master URL, such as `local[2]`.
        extensions: A function that returns additional settings for a new session. Its arguments are the gateway of the started JVM, and the value of
            `spark.sql.extensions` in the settings.
        **settings: Settings by name, which override `conf`.

    Returns:
        A classic session.

    Raises:
        EngineError: No Java is found, the JVM does not start, Spark is older than 4.0, or the running session is one of Spark Connect.
    """
    texts = {name: _text(value) for name, value in {**(conf or {}), **settings}.items()}
    if master is not None:
        texts["spark.master"] = master
    active = active_session()
    if active is None:
        if uses_connect():
            raise EngineError(
                "this process uses Spark Connect, and no classic session can start in it",
                next_step=f"{WITHOUT_JVM}, without the environment variable SPARK_REMOTE",
            )
        started = _start({**DEFAULT_CONF, "spark.app.name": app_name, **texts, **NEEDED_CONF}, extensions)
        share_limits(started)
        return started
    _apply(active, {**texts, **NEEDED_CONF})
    return active


def uses_connect() -> bool:
    """Return True if this process uses Spark Connect, so that no classic session can start in it."""
    return any(variable in os.environ for variable in CONNECT_VARIABLES)


def active_session() -> SparkSession | None:
    """Return the active classic session of this thread; if it has none, any classic session of this process; None if there is no classic session."""
    context = SparkContext._active_spark_context
    if context is None or getattr(context, "_jsc", None) is None:
        return None
    active = SparkSession.getActiveSession()
    spark = active if active is not None else SparkSession.builder.getOrCreate()
    # If a Spark Connect server was started in this process, there is a context, but the sessions are clients of the server.
    if getattr(spark, "_jsparkSession", None) is None:
        return None
    share_limits(spark)
    return spark


def share_limits(spark: SparkSession) -> None:
    """Pass the limits of this process (`limits()`) to the Python workers that start from now on, as environment variables."""
    environment = spark.sparkContext.environment
    for variable in [name for name in environment if name.startswith(LIMITS_PREFIX)]:
        del environment[variable]
    environment.update(limits_to_environment(limits()))


def _start(conf: dict[str, str], extensions: Callable[[Any, str], Mapping[str, str]] | None) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        if SparkContext._gateway is None:
            configured = Path(os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf")
            _quiet(conf, configured)
            memory = driver_memory(conf, os.environ, configured / "spark-defaults.conf")
            if memory is not None:
                conf[DRIVER_MEMORY] = memory
            # Every user of the machine can read the command line of a process.
            _start_java(find_java(), {name: value for name, value in conf.items() if not is_secret(name, value) or name == REDACTION})
        if extensions is not None:
            conf = {**conf, **extensions(SparkContext._gateway, conf.get("spark.sql.extensions", ""))}
        builder = SparkSession.builder
        for name, value in conf.items():
            builder = builder.config(name, value)
        started = builder.getOrCreate()
    except (RuntimeError, OSError) as error:
        raise EngineError(f"Spark did not start: {error}", next_step="see the message of its JVM above") from error
    # PySpark also writes each failed statement to stderr, besides raising its exception; sessions that are started here do not.
    PySparkLogger.getLogger(FAILED_STATEMENTS).setLevel(logging.CRITICAL + 1)
    check_version(started.version)
    cancel_jobs_on_interrupt(started)
    return started


def _start_java(java: JavaRuntime, conf: Mapping[str, str]) -> None:
    variables = {"JAVA_HOME": str(java.home)}
    if not _host_name_resolves():
        variables.setdefault("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
    with environment_of(**variables):
        # On Windows, Spark's launcher prints a line for its shell, so that PySpark starts every Java there.
        if os.name == "nt":
            SparkContext._ensure_initialized(conf=_PlainConf(conf))  # type: ignore[arg-type]  # only its getAll is called
        else:
            start_jvm(java, conf, keeps_vector_module=java.has_vector_module and ADD_VECTOR_MODULE in conf.get(JAVA_OPTIONS, ""))


class _PlainConf:
    """A replacement for SparkConf, which needs a running JVM. It has only `getAll`, the method that PySpark calls to start the JVM."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._conf = conf

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 PySpark's name
        return list(self._conf.items())


def _quiet(conf: dict[str, str], configured: Path) -> None:
    """Add Icefloe's logging configuration for the JVM to the settings, unless the settings or Spark's folder `configured` have one."""
    options = conf.get(JAVA_OPTIONS, "")
    if "log4j" in options or any(configured.glob("log4j2.*")):
        return
    configuration = Path(str(files("icefloe.spark") / "log4j2.properties"))
    if configuration.is_file():
        conf[JAVA_OPTIONS] = f"{options} -Dlog4j2.configurationFile={configuration.as_uri()}".strip()


def _apply(active: SparkSession, conf: Mapping[str, str]) -> None:
    for name, value in conf.items():
        if active.conf.isModifiable(name):
            active.conf.set(name, value)
        elif active.conf.get(name, None) != value:
            current = setting_text(name, active.conf.get(name, None))
            LOG.warning(
                "Spark is running already, so %s stays %s; stop the session to start one with %s", name, current, setting_text(name, value)
            )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _host_name_resolves() -> bool:
    try:
        socket.gethostbyname(socket.gethostname())
    except OSError:
        return False
    return True
