"""What all tests share: those that start Spark run one after another in two processes, those of Spark SQL and the others, however many run the rest."""

from pathlib import Path

import pytest
from tests.postgres import postgres, postgres_database, postgres_uri

SQL = Path(__file__).parent / "spark" / "sql"

__all__ = ["postgres", "postgres_database", "postgres_uri"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark sql" if SQL in item.path.parents else "spark"))
