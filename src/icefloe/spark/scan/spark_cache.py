"""Rows that Spark caches: `recache` after a table has changed, and frames that are kept as long as an object of this process is in use.

The garbage collector may meet that object's end in the middle of a call to the JVM; a call of its own on the same connection would break both. So such frames
wait in a queue, and a thread unpersists them.
"""

import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.types.spark_types import quoted


def recache(spark: SparkSession, name: Sequence[str]) -> None:
    """Of the table of a name, its catalog first. The rows themselves are read when they are wanted."""
    session = spark._jsparkSession
    if not session.sharedState().cacheManager().isEmpty():
        session.catalog().refreshTable(".".join(map(quoted, name)))


_unused: SimpleQueue[DataFrame] = SimpleQueue()  # `put` may be called again in the middle of a `put`


def unpersist_with(owner: Any, frame: DataFrame) -> None:
    """Has Spark let go of the frame some time after the last reference to `owner` is gone."""
    _start_letting_go()
    weakref.finalize(owner, _unused.put, frame).atexit = False


@cache
def _start_letting_go() -> None:
    threading.Thread(target=_let_go, name="icefloe-unpersist", daemon=True).start()


def _let_go() -> None:
    while True:
        frame = _unused.get()
        with suppress(Py4JError, PySparkException, OSError):  # the session may have ended
            frame.unpersist()
        del frame
