"""The one door from the command line to `icefloe.spark`, opened only when a command needs Spark: importing PySpark takes longer than most commands run."""

import atexit
import logging
import signal
import sys
import threading
from importlib import import_module
from typing import Any

# Py4J logs the stack of every call that Ctrl-C cuts short, through the root logger. That is no news to who pressed it.
_WARNINGS = logging.StreamHandler()
_WARNINGS.setLevel(logging.WARNING)
_WARNINGS.addFilter(lambda record: "py4j" not in record.pathname)


def spark_module(name: str) -> Any:
    """The module `icefloe.spark.<name>`, imported now and not with the command line."""
    return import_module(f"icefloe.spark.{name}")


def start_spark() -> Any:
    """The running Spark session, or a new one. Raises `EngineError`, and `KeyboardInterrupt` once Spark has started if it came meanwhile.

    Ctrl-C means `KeyboardInterrupt` afterwards. PySpark's own answer to it calls the JVM from inside the signal handler, where the call it interrupts may
    hold the connection, and then prints stacks.
    """
    logging.getLogger().addHandler(_WARNINGS)
    if threading.current_thread() is not threading.main_thread():
        return _started()
    before, came = signal.getsignal(signal.SIGINT), threading.Event()

    def put_off(_number: int, _frame: object) -> None:
        # Interrupted before its JVM has reported back, PySpark leaves that JVM running for ever. A second Ctrl-C does not wait.
        if came.is_set():
            raise KeyboardInterrupt
        came.set()

    signal.signal(signal.SIGINT, put_off)
    try:
        session = _started()
    finally:
        signal.signal(signal.SIGINT, before)
    if came.is_set():
        raise KeyboardInterrupt
    return session


def _started() -> Any:
    session = spark_module("session.start_session").session()
    # Registered last, so run first at the end: Spark stopped before its JVM ends has no lost connection to complain about.
    atexit.register(stop_spark)
    return session


def stop_spark() -> None:
    """Ends the Spark session, if this process has one, with every task that may still be writing."""
    if "pyspark" in sys.modules:
        spark_module("session.running_jobs").stop_running_session()
