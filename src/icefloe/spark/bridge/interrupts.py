"""Ctrl-C in a session of Spark: the jobs are cancelled, the way to the JVM stays whole, and then `KeyboardInterrupt` is raised.

PySpark's own handler speaks to the JVM on the connection that the interrupted call is reading from, which breaks it: the job runs on and the next statement
hangs. Here another thread cancels the jobs, and the interrupted call hears of it before the interrupt is raised. A second Ctrl-C does not wait for that.
"""

import signal
import threading
import time
from contextlib import suppress
from functools import wraps
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from icefloe.spark.bridge.gateway import gateway_of

# Modules whose code runs between a call of Java's and its answer.
_ON_THE_WAY = ("py4j.", "socket")
_MARK = "raises_interrupts_after_answers"
_AGAIN_SECONDS = 0.5
_late = threading.Event()  # an interrupt is raised as soon as Java has answered the main thread
_cancelling = threading.Lock()  # held while jobs are cancelled for a late interrupt: the next statement begins after it


def cancel_jobs_on_interrupt(spark: SparkSession) -> None:
    """Takes the place of PySpark's handler of Ctrl-C; another handler of the user's, and threads other than the main one, are left alone."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and getattr(handler, "__module__", "").startswith("pyspark."):
        _raise_late_interrupts(gateway_of(spark)._gateway_client)
        signal.signal(signal.SIGINT, _on_interrupt)


def interrupt_after_answer() -> None:
    """For a callback of Java's that caught a `KeyboardInterrupt`: the main thread meets it again, once the call that Java is answering has ended."""
    if threading.current_thread() is threading.main_thread():
        _late.set()


def _on_interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 the signature is Python's
    if _late.is_set() or not _waits_for_java(frame):
        _late.clear()
        at_once = threading.Thread(target=_cancel_jobs, name="icefloe-cancel", daemon=True)
        at_once.start()
        at_once.join(_AGAIN_SECONDS)
        raise KeyboardInterrupt
    _late.set()
    threading.Thread(target=_cancel_jobs_of_call, name="icefloe-cancel", daemon=True).start()


def _waits_for_java(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_ON_THE_WAY):
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
    """Cancels what runs, and what the interrupted call still starts; nothing of what comes after that call."""
    while True:
        with _cancelling:
            if not _late.is_set():
                return
            _cancel_jobs()
        time.sleep(_AGAIN_SECONDS)


def _raise_late_interrupts(client: Any) -> None:
    """Has the client of Py4J raise an interrupt that came while Java was asked, when it has the answer: the connection is whole then."""
    send = client.send_command
    if getattr(send, _MARK, False):
        return

    @wraps(send)
    def send_command(*arguments: Any, **named: Any) -> Any:
        answer = send(*arguments, **named)
        if _late.is_set() and threading.current_thread() is threading.main_thread():
            with _cancelling:
                _late.clear()
            raise KeyboardInterrupt
        return answer

    setattr(send_command, _MARK, True)
    client.send_command = send_command
