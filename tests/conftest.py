"""Fixtures and settings of all tests."""

import gc
import importlib
import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.postgres import emptied_postgres_uri, postgres, postgres_database, postgres_uri, shared_postgres_database
from tests.repetitions import examples
from tests.spark_session import spark

from icefloe.stores import sql_engine

TESTS = Path(__file__).parent

# For every Spark that tests start, also in other processes. The JVM's second compiler takes longer than it saves in sessions this short, and code of the first
# takes more of the stack. Without the second one only 48 MB are reserved for code, and the search for code to remove took half of the JVM's time. One thread
# collects garbage, because the workers of pytest share the cores.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC -Xss4m")

# Processes that tests start read the compiled modules of earlier ones, also where the environment forbids to write them: most would take longer to compile
# what they import than to do their work.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Nothing that is made while tests are collected is garbage: `pytest_collection_finish` lets garbage be collected again.
gc.disable()
# Old objects are looked through a hundredth as often: these collections took 7 % of the processor time of tests without Spark, and found nearly nothing.
gc.set_threshold(700, 10, 1000)

# Files of tests need not survive a loss of power. Waiting for the disk takes longer than most tests do; those of `os.fsync` itself set their own.
os.fsync = lambda _: None  # type: ignore[assignment]
sql_engine._full_sync = lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close()

# A test is no measurement: on a busy machine an example may take any time. A failure prints what repeats it.
settings.register_profile("icefloe", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("icefloe")

FOLDERS = count()

__all__ = ["emptied_postgres_uri", "postgres", "postgres_database", "postgres_uri", "shared_postgres_database", "spark"]  # fixtures


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder for a test. That of pytest has the next free number, for which it lists the folders of all earlier tests."""
    folders = tmp_path_factory.getbasetemp() / "t"
    folders.mkdir(exist_ok=True)
    name = re.sub(r"\W", "_", request.node.name)[:24]
    folder = folders / f"{name}{next(FOLDERS)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.hookimpl(optionalhook=True)  # some tests start a pytest without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes for `-n auto`: two more than cores, because tests that wait for a thread, a socket or a process leave a core idle."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a new checkout, have each worker of xdist begin with other test files, so that each file is compiled by one of them and read by the others.

    All workers collect all files in the same order, and would compile each at the same time. A module that cannot be imported is reported by the collection.
    """
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1 or [Path(argument) for argument in session.config.args] != [Path("tests")]:
        return
    compiled = {(path.parent.parent, path.name.partition(".")[0]) for path in TESTS.rglob("__pycache__/test_*-pytest-*.pyc")}
    missing = [path for path in sorted(TESTS.rglob("test_*.py")) if (path.parent, path.stem) not in compiled]
    first = len(missing) * int(worker.removeprefix("gw")) // workers
    for path in missing[first:] + missing[:first]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests of Spark, and have them in as many processes as there are cores: a JVM loads and compiles the same classes again in each.

    A test that uses the session has the mark `spark`, also where its file does not set it: the mark selects the tests that run on other versions of Spark.
    """
    groups = min(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) - 1, os.cpu_count() or 1)
    numbers: dict[str, int] = {}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and not _uses_spark(item):
            item.add_marker(pytest.mark.spark)
        if _uses_spark(item):
            _ignore_sockets(item)
        if groups > 0 and _uses_spark(item):
            number = numbers.setdefault(item.nodeid.partition("::")[0], len(numbers))
            item.add_marker(pytest.mark.xdist_group(f"spark{number % groups}"))
        elif "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("postgres"))  # a server is initialized and started in one process
    items.sort(key=lambda item: not _uses_spark(item))


def _uses_spark(item: pytest.Item) -> bool:
    return item.get_closest_marker("spark") is not None


def _ignore_sockets(item: pytest.Item) -> None:
    """Ignore warnings about sockets that PySpark leaves to the garbage collector (4.0 in every `collect`)."""
    item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"))
    item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def pytest_collection_finish() -> None:
    """Leave the collected tests and the loaded modules out of garbage collection, which would look through them again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Collect garbage twice, and leave the rest out of the five collections with which pytest ends."""
    gc.collect()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Leave the work of a test without the mark `spark`, and of all its fixtures, to the in-process engine: an earlier test may have started Spark."""
    if item.get_closest_marker("spark") is not None or not spark_runs():
        return (yield)
    from icefloe.operations.available_engines import EngineChoice, choosing_engines

    with choosing_engines(EngineChoice(uses_spark=False)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test without the mark `spark` that starts Spark: later tests of its process would have a session that is not that of the fixture."""
    ran = spark_runs()
    result = yield
    if spark_runs() and not ran and item.get_closest_marker("spark") is None:
        pytest.fail("this test has started Spark, and is not marked `spark`")
    return result


def spark_runs() -> bool:
    """Return whether this process has a Spark session, without importing Spark."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    return context is not None and context._active_spark_context is not None


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background processes with SIGINT ignored, and their children inherit it: tests that send Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
