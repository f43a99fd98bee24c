"""Tables after UPDATE, MERGE and DELETE by Spark SQL, in every mode, as DuckDB reads them."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.conftest import lake  # noqa: F401 the fixture
from tests.spark.sql.conftest import Run, sql  # noqa: F401 the fixture
from tests.spark.sql.dml_model import FORMS, PARTITIONING, Both

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

_FIRST = ("insert", [(1, "a", 1), (2, "b", 2), (3, None, 3), (4, "a", 4), (None, "b", 5), (6, "a", 6)])


@pytest.mark.oracle
@pytest.mark.parametrize("form", FORMS)
def test_duckdb_reads_the_rows_that_remain_after_statements(
    sql: Run,  # noqa: F811
    lake: SqlCatalog,  # noqa: F811
    duckdb_rows: Callable[..., Any],
    form: tuple[int, str],
) -> None:
    both = Both(sql, lake, *form, PARTITIONING[1])
    told = [
        ("update", "k = 'c'", "id < 3"),
        ("merge", [(1, "a", 5), (4, "b", 3), (7, "a", 1)], "v % 2 = 0", True, "update"),
        ("delete by query", "k = 'a'"),
        ("update", "v = v + 1", "1 = 1"),
    ]
    for step in (_FIRST, *told):
        both.run(step)
    rows = duckdb_rows(lake.load_table(f"db.{both.name}").metadata_location)
    assert sorted((row["uid"], row["id"], row["k"], row["v"]) for row in rows) == both.expected()
