"""Threads that read manifests: what they share, and what a child process gets of it."""

import ctypes
import os
import platform
import signal
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.operations import parallel_requests
from icefloe.operations.parallel_requests import MANY_FILES, in_threads, return_freed_memory
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


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the function")
def test_freed_memory_is_returned_although_some_of_it_is_in_use() -> None:
    blocks = [bytes([number % 251]) * 100_000 for number in range(640)]
    used = blocks[::64]
    del blocks
    before = resident_bytes()
    return_freed_memory(MANY_FILES)
    assert resident_bytes() < before - 32_000_000
    assert len(used) == 10


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_another_c_library_keeps_its_memory(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(_: object) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", load)
    return_freed_memory(MANY_FILES)


def test_memory_is_returned_before_many_files_become_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=calls.append))
    catalog = InMemoryCatalog("memory")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    assert len(table.scan().plan_files()) == 1
    assert calls == []
    monkeypatch.setattr(parallel_requests, "MANY_FILES", 1)
    assert len(table.scan().plan_files()) == 1
    assert calls == [0]
