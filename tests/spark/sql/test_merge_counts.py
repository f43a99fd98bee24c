"""Row counts of MERGE in the snapshot summary, under Java's keys; UPDATE and DELETE have none, as in Java."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.combinations import combinations
from tests.spark.sql.conftest import Run, append, stored

from icefloe import SqlCatalog

pytestmark = pytest.mark.spark

PREFIX = "spark.merge-into.num-target-rows-"
UNMATCHED_UPDATE, UNMATCHED_DELETE = "WHEN NOT MATCHED BY SOURCE AND t.id > 5 THEN", "WHEN NOT MATCHED BY SOURCE THEN DELETE"
# The clauses, with a source of the ids 1, 2, 3, 4 and 9 and a table of 1 to 7; and what the counts are: updated, deleted, inserted, and of those that
# no row of the source matched, updated and deleted.
CASES = {
    "matched update": ("WHEN MATCHED THEN UPDATE SET dep = 'u'", (4, 0, 0, 0, 0)),
    "matched delete": ("WHEN MATCHED AND t.id < 3 THEN DELETE", (0, 2, 0, 0, 0)),
    "all of matched": (
        "WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED AND t.id = 2 THEN UPDATE SET dep = 'u' WHEN NOT MATCHED THEN INSERT *",
        (1, 1, 1, 0, 0),
    ),
    "unmatched update": (f"{UNMATCHED_UPDATE} UPDATE SET dep = 'n'", (2, 0, 0, 2, 0)),
    "unmatched both": (f"{UNMATCHED_UPDATE} UPDATE SET dep = 'n' {UNMATCHED_DELETE}", (2, 1, 0, 2, 1)),
    "all": (
        f"WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET dep = 'u' WHEN NOT MATCHED THEN INSERT * "
        f"{UNMATCHED_UPDATE} UPDATE SET dep = 'n' {UNMATCHED_DELETE}",
        (5, 2, 1, 2, 1),
    ),
}


def counts(lake: SqlCatalog) -> dict[str, str]:
    summary = lake.load_table("db.t").current_snapshot().summary
    return {key.removeprefix(PREFIX): value for key, value in summary.items() if key.startswith("spark.")}


@pytest.mark.parametrize(("case", "mode"), combinations(list(CASES), ["copy-on-write", "merge-on-read"]))
def test_the_summary_of_a_merge_counts_the_changed_rows(spark: SparkSession, sql: Run, lake: SqlCatalog, mode: str, case: str) -> None:
    clauses, (updated, deleted, inserted, unmatched_updated, unmatched_deleted) = CASES[case]
    sql(f"CREATE TABLE lake.db.t (id BIGINT, dep STRING) TBLPROPERTIES ('write.merge.mode' = '{mode}', 'format-version' = '2')")
    append(lake, [(number, "x") for number in range(1, 8)])
    sql(f"MERGE INTO lake.db.t t USING (SELECT explode(array(1L, 2L, 3L, 4L, 9L)) AS id, 's' AS dep) s ON t.id = s.id {clauses}")
    expected: dict[str, Any] = {
        "copied": 7 - updated - deleted if mode == "copy-on-write" else 0,
        "updated": updated,
        "deleted": deleted,
        "inserted": inserted,
    }
    if case != "all" or spark.version >= "4.1":
        expected |= {
            "matched-updated": updated - unmatched_updated,
            "matched-deleted": deleted - unmatched_deleted,
            "not-matched-by-source-updated": unmatched_updated,
            "not-matched-by-source-deleted": unmatched_deleted,
        }
    assert counts(lake) == {key: str(value) for key, value in expected.items()}
    assert len(stored(lake, "id")) == 7 - deleted + inserted
    if case == "all":
        sql("UPDATE lake.db.t SET dep = 'z' WHERE id > 3")
        assert counts(lake) == {}
