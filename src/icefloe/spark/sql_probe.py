"""The version probe of SQL: statements that must return correct rows on a version of Spark that is not proven, before a catalog is attached."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import Problem
from icefloe.spark.scan.version_probe import compare_rows, probe_catalog, run_probe

_NAME = "icefloe_probe"
_MODES = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("delete", "update", "merge"))
# The statements in order, with the correct rows of queries.
STATEMENTS: tuple[tuple[str, list[tuple[Any, ...]] | None], ...] = (
    (f"CREATE TABLE t (id BIGINT, kind STRING, amount DECIMAL(9, 2)) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES ({_MODES})", None),
    ("INSERT INTO t SELECT id, IF(id % 2 = 0, 'even', 'odd'), id FROM range(10)", None),
    ("SELECT id FROM t WHERE kind = 'even' AND id > 3 ORDER BY id", [(4,), (6,), (8,)]),
    ("SELECT count(*), min(id), max(id) FROM t", [(10, 0, 9)]),
    ("UPDATE t SET amount = amount + 100 WHERE id IN (SELECT id FROM range(2))", None),
    ("DELETE FROM t WHERE amount = 5", None),
    (
        "MERGE INTO t USING (SELECT id FROM range(8, 12)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, kind, amount) VALUES (s.id, 'new', NULL)",
        None,
    ),
    (
        "SELECT kind, count(*), CAST(sum(amount) AS INT) FROM t GROUP BY kind ORDER BY kind",
        [("even", 4, 112), ("new", 2, None), ("odd", 3, 111)],
    ),
    ("SELECT t.id FROM t JOIN (SELECT 'new' AS kind) k ON t.kind = k.kind ORDER BY t.id", [(10,), (11,)]),
    ("SELECT count(*) FROM db.t.snapshots", [(4,)]),
)


def try_statements(spark: SparkSession, attach: Callable[[SparkSession, str, Catalog], object]) -> None:
    """On a version of Spark that is not proven, run the statements once in a new session, and compare their rows with the correct ones.

    Args:
        spark: A classic session.
        attach: The function that attaches a catalog to a session.

    Raises:
        EngineError: A statement failed or returned wrong rows.
    """

    def probe(folder: Path) -> Iterator[Problem]:
        session = spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", "1")
        yield from compare_rows("attach", lambda: [(attach(session, _NAME, probe_catalog(folder)),)], None)
        yield from compare_rows("USE", lambda: session.sql(f"USE {_NAME}.db").collect(), None)
        for text, expected in STATEMENTS:
            yield from compare_rows(text, partial(lambda statement: session.sql(statement).collect(), text), expected)

    run_probe(spark, "statements", probe)
