"""DataFrames cached for an object: a thread unpersists them after the object is gone, even during a call to the JVM."""

import threading
import time

import pytest
from pyspark.sql import SparkSession

from icefloe.spark.scan.spark_cache import unpersist_with

pytestmark = pytest.mark.spark


class Owner:
    pass


def test_another_thread_unpersists_a_frame_after_its_owner_is_gone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
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
