"""DataFrames kept for an object: let go when it is gone, by a thread of its own, whatever call to the JVM is under way."""

import threading
import time

import pytest
from pyspark.sql import SparkSession

from icefloe.spark.scan.spark_cache import unpersist_with

pytestmark = pytest.mark.spark


class Owner:
    pass


def test_a_frame_is_let_go_after_its_owner_by_another_thread(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(10).persist()
    assert frame.count() == 10
    assert frame.is_cached
    callers: list[threading.Thread] = []
    unpersist, ended = frame.unpersist, threading.Event()

    def recorded() -> None:
        callers.append(threading.current_thread())
        unpersist(blocking=True)
        ended.set()

    monkeypatch.setattr(frame, "unpersist", recorded)
    owner = Owner()
    unpersist_with(owner, frame)
    time.sleep(0.2)
    assert not callers
    del owner
    assert ended.wait(60)
    assert threading.current_thread() not in callers
    assert not frame.is_cached
