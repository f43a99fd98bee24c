"""Late import of `icefloe.spark` by commands that need Spark: importing PySpark takes longer than most commands run."""

import atexit
import logging
import signal
import sys
import threading
from importlib import import_module
from typing import Any

# Py4J logs the stack of every call that Ctrl-C interrupts, through the root logger. A user who pressed Ctrl-C does not need it.
_WARNINGS = logging.StreamHandler()
_WARNINGS.setLevel(logging.WARNING)
_WARNINGS.addFilter(lambda record: "py4j" not in record.pathname)


def spark_module(name: str) -> Any:
    """Import the module `icefloe.spark.<name>`."""
    return import_module(f"icefloe.spark.{name}")


def start_spark() -> Any:
    """Return the running Spark session, or start one.

    Afterwards Ctrl-C raises `KeyboardInterrupt`. PySpark's own signal handler is replaced, because it calls the JVM while the interrupted call may hold the
    connection, and then prints stacks.

    Raises:
        EngineError: Spark cannot start.
        KeyboardInterrupt: Ctrl-C was pressed during the start; it is raised when Spark has started.
    """
    logging.getLogger().addHandler(_WARNINGS)
    if threading.current_thread() is not threading.main_thread():
        return _start_session()
    previous_handler, interrupted = signal.getsignal(signal.SIGINT), threading.Event()

    def defer(_number: int, _frame: object) -> None:
        # A first Ctrl-C waits: if PySpark is interrupted before its JVM has connected, the JVM runs for ever. A second Ctrl-C does not wait.
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    signal.signal(signal.SIGINT, defer)
    try:
        session = _start_session()
    finally:
        signal.signal(signal.SIGINT, previous_handler)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return session


def _start_session() -> Any:
    session = spark_module("runtime.start_session").session()
    # Registered last, so that it runs first at exit: a session that is stopped before its JVM ends logs no lost connection.
    atexit.register(stop_spark)
    return session


def stop_spark() -> None:
    """Stop the Spark session of this process, if there is one, and all tasks that may still be writing."""
    if "pyspark" in sys.modules:
        spark_module("runtime.running_jobs").stop_running_session()
