"""`diff` compares two versions of a table, or two tables; `explain_commit` explains a stored commit."""

from typing import Any

from icefloe.catalog.catalog import Catalog
from icefloe.inspect.commit_explanation import OtherCommit
from icefloe.inspect.commit_explanation import explain_commit as explained
from icefloe.inspect.comparison.table_comparison import compare, compared_versions, comparison_lines
from icefloe.procedures.procedure import Flag, Rows, Text, procedure
from icefloe.spec.types import IntegerType, LongType, StringType
from icefloe.table.table import Table


@procedure(
    ("section", StringType()),
    ("change", StringType()),
    ("name", StringType()),
    ("before", StringType()),
    ("after", StringType()),
    optional=("before", "after"),
)
def diff(
    catalog: Catalog,
    table: Text,
    from_version: Text | None = None,
    to_version: Text | None = None,
    other_table: Text | None = None,
    statistics: Flag = True,
) -> Rows:
    """Compare the metadata of two snapshots, branches or tags of a table, or of two tables. The result has a row for each difference."""
    other = None if other_table is None else catalog.load_table(other_table)
    before, after, is_one_table = compared_versions(catalog.load_table(table), other, from_version, to_version)
    comparison = compare(before, after, is_one_table=is_one_table, statistics=statistics)
    return [(section, line.change, line.name, line.before, line.after) for section, line in comparison_lines(comparison)]


@procedure(
    ("part", StringType()),
    ("attempt", IntegerType()),
    ("snapshot_id", LongType()),
    ("timestamp", LongType()),
    ("operation", StringType()),
    ("added_rows", LongType()),
    ("deleted_rows", LongType()),
    ("engine", StringType()),
    ("message", StringType()),
    optional=("attempt", "snapshot_id", "timestamp", "operation", "added_rows", "deleted_rows", "engine", "message"),
)
def explain_commit(table: Table, snapshot: Text | None = None) -> Rows:
    """Explain a stored commit: its lost attempts, the snapshots that other writers committed before it, and those that were checked for conflicts."""
    explanation = explained(table, snapshot)
    rows: list[tuple[Any, ...]] = [
        (
            "commit",
            explanation.attempts,
            explanation.snapshot_id,
            explanation.timestamp_ms,
            explanation.operation,
            None,
            None,
            explanation.engine,
            explanation.summary_text(),
        )
    ]
    for attempt in explanation.lost:
        rows.append(("lost attempt", attempt.number, attempt.base_snapshot_id, None, None, None, None, None, attempt.message()))
        rows += [_other("won by", attempt.number, other) for other in attempt.won_by]
    rows += [_other("before", None, other) for other in explanation.before]
    rows += [_other("checked against", None, other) for other in explanation.checked]
    return rows


def _other(part: str, attempt: int | None, other: OtherCommit) -> tuple[Any, ...]:
    counts = (other.added_records, other.deleted_records)
    return (part, attempt, other.snapshot_id, other.timestamp_ms, other.operation, *counts, other.engine, None)
