"""Fixtures and settings of all tests."""

import signal

import pytest
from tests.postgres import postgres, postgres_database, postgres_uri
from tests.spark_session import spark

__all__ = ["postgres", "postgres_database", "postgres_uri", "spark"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings about sockets that PySpark leaves to the garbage collector (4.0 in every `collect`)."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background processes with SIGINT ignored, and their children inherit it: tests that send Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
