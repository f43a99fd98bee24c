"""Ctrl-C in a classic Spark session: cancel the jobs, keep the connection to the JVM usable, then raise `KeyboardInterrupt`.

PySpark's own handler sends a command on the connection from which the interrupted call is reading. This breaks the connection: the job continues, and the next
statement hangs. In this module a second thread cancels the jobs, and the interrupted call receives its reply before the interrupt is raised. A second Ctrl-C
does not wait for the reply.

A notebook's kernel sets Python's own handler before every cell. That handler is replaced during each call to the JVM.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

# Methods of Spark that wait for a streaming query, which may have no job that could be cancelled.
_WAITS = ("StreamExecution.awaitTermination", "StreamingQueryManager.awaitAnyTermination")
# Modules whose code runs between a call to the JVM and its reply.
_MODULES_OF_A_CALL = ("py4j.", "socket")
_MARK = "raises_interrupts_after_replies"
_RETRY_SECONDS = 0.5
_interrupt_pending = threading.Event()  # if set, an interrupt is raised as soon as the JVM has replied to the main thread
_cancelling = threading.Lock()  # held while jobs are cancelled for a pending interrupt, so that the next statement begins afterwards
_served_by: list[Any] = []  # the thread of the JVM that runs the calls of the main thread, a `JavaObject`


def cancel_jobs_on_interrupt(spark: SparkSession) -> None:
    """Replace PySpark's handler of Ctrl-C by the handler of this module, and Python's handler during calls to the JVM; further calls change nothing.

    A handler that the user has installed is kept. Outside of the main thread the call does nothing, because Python sets handlers only in the main thread.

    Args:
        spark: A classic session.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        return
    is_of_pyspark = (getattr(handler, "__module__", None) or "").startswith("pyspark.")
    if is_of_pyspark or handler is signal.default_int_handler:
        gateway: Any = spark.sparkContext._gateway
        _raise_pending_interrupts(gateway._gateway_client)
        _served_by[:] = [gateway.jvm.java.lang.Thread.currentThread()]
    if is_of_pyspark:
        signal.signal(signal.SIGINT, _on_interrupt)


def interrupt_after_reply() -> None:
    """Raise a `KeyboardInterrupt` in the main thread as soon as the JVM has replied to the current call.

    A callback that has caught a `KeyboardInterrupt` calls this function, because the call to the JVM that led to the callback is not finished.
    """
    if threading.current_thread() is threading.main_thread():
        _interrupt_pending.set()


def _on_interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 the signature is Python's
    if _interrupt_pending.is_set() or not _waits_for_reply(frame):
        _interrupt_pending.clear()
        at_once = threading.Thread(target=_cancel_jobs, name="icefloe-cancel", daemon=True)
        at_once.start()
        at_once.join(_RETRY_SECONDS)
        raise KeyboardInterrupt
    _interrupt_pending.set()
    threading.Thread(target=_cancel_jobs_of_call, name="icefloe-cancel", daemon=True).start()


def _waits_for_reply(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_MODULES_OF_A_CALL):
        if frame.f_code.co_name == "send_command":
            return True
        frame = frame.f_back
    return False


def _cancel_jobs() -> None:
    context = SparkContext._active_spark_context
    with suppress(Py4JError):
        if context is not None and context._jsc is not None:
            context.cancelAllJobs()


def _cancel_jobs_of_call() -> None:
    """Cancel the running jobs repeatedly until the interrupted call ends, because it may start further jobs. Jobs of a later call are not cancelled."""
    while True:
        with _cancelling:
            if not _interrupt_pending.is_set():
                return
            _cancel_jobs()
            _end_wait_for_stream()
        time.sleep(_RETRY_SECONDS)


def _end_wait_for_stream() -> None:
    """End the call of the main thread if it waits for a streaming query. The query itself continues."""
    with suppress(Py4JError):
        for thread in _served_by:
            stack = [str(frame) for frame in thread.getStackTrace()]
            if any(method in frame for frame in stack for method in _WAITS):
                thread.interrupt()


@contextmanager
def _instead_of_pythons_handler() -> Iterator[None]:
    """Return a context in which this module's handler of Ctrl-C replaces Python's own, whose exception would break the connection to the JVM."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _on_interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is _on_interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _raise_pending_interrupts(client: Any) -> None:
    """Change the Py4J client so that it raises a pending interrupt after it has received a reply, when the connection is usable again."""
    send = client.send_command
    if getattr(send, _MARK, False):
        return

    @wraps(send)
    def send_command(*arguments: Any, **named: Any) -> Any:
        with _instead_of_pythons_handler():
            reply = send(*arguments, **named)
        if _interrupt_pending.is_set() and threading.current_thread() is threading.main_thread():
            with _cancelling:
                _interrupt_pending.clear()
            raise KeyboardInterrupt
        return reply

    setattr(send_command, _MARK, True)
    client.send_command = send_command
