"""Threads that read manifests: what they share, and what a child process gets of it."""

import os
import signal

import pytest

from icefloe.operations.parallel_requests import in_threads
from icefloe.spec.avro import compiled_codec


def test_one_thread_at_a_time_reads_small_blocks_that_python_decompresses() -> None:
    def is_alone(_: int) -> bool:
        lock = compiled_codec._Current.small_block_lock
        with lock:
            return not lock.acquire(blocking=False)  # type: ignore[attr-defined]

    assert list(in_threads(is_alone, range(8))) == [True] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    with compiled_codec._Current.small_block_lock:  # as a thread of the parent holds it
        child = os.fork()
        if not child:
            signal.alarm(20)
            with compiled_codec._Current.small_block_lock:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
