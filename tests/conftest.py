"""What all tests share: those that start Spark run one after another in two processes, those of Spark SQL and the others, however many run the rest."""

import signal
from pathlib import Path

import pytest
from tests.postgres import postgres, postgres_database, postgres_uri

SQL = Path(__file__).parent / "spark" / "sql"

__all__ = ["postgres", "postgres_database", "postgres_uri"]  # fixtures


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So it is for what a shell started in the background, and for all that this starts: tests that press Ctrl-C would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark sql" if SQL in item.path.parents else "spark"))
