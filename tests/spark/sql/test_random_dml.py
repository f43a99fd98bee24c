"""Random INSERT, UPDATE, DELETE and MERGE statements give the rows that SQLite has after the same statements, and keep row ids."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.spark.sql.conftest import Run
from tests.spark.sql.dml_model import FORMS, PARTITIONING, Both, steps

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

_FIRST = ("insert", [(1, "a", 1), (2, "b", 2), (3, None, 3), (4, "a", 4), (None, "b", 5), (6, "a", 6)])
_SHARED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)


def run(both: Both, told: list[tuple[Any, ...]]) -> None:
    for step in (_FIRST, *told):
        both.run(step)
    both.check_spark()


@pytest.mark.slow
@given(form=st.sampled_from(FORMS), partitioning=st.sampled_from(PARTITIONING), told=st.lists(steps, min_size=2, max_size=4))
@settings(max_examples=2, suppress_health_check=_SHARED, phases=(Phase.explicit, Phase.generate))
def test_rows_equal_those_of_sqlite(
    sql: Run, lake: SqlCatalog, form: tuple[int, str], partitioning: str, told: list[tuple[Any, ...]]
) -> None:
    run(Both(sql, lake, *form, partitioning), told)


@pytest.mark.slow
@given(form=st.sampled_from(FORMS), partitioning=st.sampled_from(PARTITIONING), told=st.lists(steps, min_size=2, max_size=10))
@settings(max_examples=60, suppress_health_check=_SHARED)
def test_rows_equal_those_of_sqlite_after_many_statements(
    sql: Run, lake: SqlCatalog, form: tuple[int, str], partitioning: str, told: list[tuple[Any, ...]]
) -> None:
    run(Both(sql, lake, *form, partitioning), told)
