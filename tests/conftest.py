"""What all tests share: those that start Spark run one after another, in one process, however many processes run the others."""

import pytest
from tests.postgres import postgres, postgres_database, postgres_uri

__all__ = ["postgres", "postgres_database", "postgres_uri"]  # fixtures


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
