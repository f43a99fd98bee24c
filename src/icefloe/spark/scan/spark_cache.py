"""Rows that Spark caches: `recache` refreshes them after a table has changed, and `unpersist_with` drops them when an object of this process is deleted.

The garbage collector may delete the object during a call to the JVM, and a second call on the same connection would break both calls. So the DataFrame is put
into a queue, and a thread unpersists it.
"""

import logging
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

from icefloe.errors import in_one_line
from icefloe.spark.types.spark_types import quote_name

LOG = logging.getLogger(__name__)


def recache(spark: SparkSession, name: Sequence[str]) -> None:
    """Make Spark read the cached rows of a changed table again at their next use. Call it after a change that was not made by a statement of Spark.

    Without it, Spark 4.1 and later would continue to return the old rows from the cache. A failure is logged and not raised, because the change is already
    committed and callers would repeat it.

    Args:
        spark: A classic session.
        name: The parts of the table's name: catalog, namespace and table.
    """
    session, text = spark._jsparkSession, ".".join(map(quote_name, name))
    try:
        if not session.sharedState().cacheManager().isEmpty():
            session.catalog().refreshTable(text)
    except (Py4JError, PySparkException) as error:
        LOG.warning(
            "%s is changed, and Spark cannot read its cached rows again (run REFRESH TABLE): %s", in_one_line(text), in_one_line(str(error))
        )


_unused_frames: SimpleQueue[DataFrame] = SimpleQueue()  # its `put` is reentrant, because the garbage collector may call it during a `put`


def unpersist_with(owner: Any, frame: DataFrame) -> None:
    """Arrange that a cached DataFrame is unpersisted some time after the last reference to `owner` is gone."""
    _start_unpersist_thread()
    weakref.finalize(owner, _unused_frames.put, frame).atexit = False


@cache
def _start_unpersist_thread() -> None:
    threading.Thread(target=_unpersist_frames, name="icefloe-unpersist", daemon=True).start()


def _unpersist_frames() -> None:
    while True:
        frame = _unused_frames.get()
        with suppress(Py4JError, PySparkException, OSError):  # the session may have ended
            frame.unpersist()
        del frame
