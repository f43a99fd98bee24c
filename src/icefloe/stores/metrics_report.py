"""Metrics reports of scans and commits, in the form of the REST catalog protocol; and the interfaces that send them.

The values in filters are not sent: each literal is replaced by the name of its type. Spec: REST catalog, ScanReport, CommitReport. JAVA: ScanMetricsResult,
CommitMetricsResult, ExpressionUtil.sanitize.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from icefloe.errors import InvalidFilterError
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.bind import BoundPredicate
from icefloe.spec.expressions.expression_json import joined_pairwise
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Not, Or
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.schema.schema import Schema
from icefloe.version import __version__

# Metric in a commit report -> entry of the snapshot's summary with its value.
_SUMMARY_ENTRY_OF_METRIC = {
    "added-data-files": "added-data-files",
    "removed-data-files": "deleted-data-files",
    "total-data-files": "total-data-files",
    "added-delete-files": "added-delete-files",
    "added-equality-delete-files": "added-equality-delete-files",
    "added-positional-delete-files": "added-position-delete-files",
    "added-dvs": "added-dvs",
    "removed-delete-files": "removed-delete-files",
    "removed-equality-delete-files": "removed-equality-delete-files",
    "removed-positional-delete-files": "removed-position-delete-files",
    "removed-dvs": "removed-dvs",
    "total-delete-files": "total-delete-files",
    "added-records": "added-records",
    "removed-records": "deleted-records",
    "total-records": "total-records",
    "added-files-size-bytes": "added-files-size",
    "removed-files-size-bytes": "removed-files-size",
    "total-files-size-bytes": "total-files-size",
    "added-positional-deletes": "added-position-deletes",
    "removed-positional-deletes": "removed-position-deletes",
    "total-positional-deletes": "total-position-deletes",
    "added-equality-deletes": "added-equality-deletes",
    "removed-equality-deletes": "removed-equality-deletes",
    "total-equality-deletes": "total-equality-deletes",
    "manifests-created": "manifests-created",
    "manifests-kept": "manifests-kept",
    "manifests-replaced": "manifests-replaced",
    "manifest-entries-processed": "entries-processed",
}


class MetricsReporter(Protocol):
    """An object that sends the reports of one table. It must support pickling, because scans are sent to other processes."""

    def report(self, content: Mapping[str, Any]) -> None:
        """Send a report in the background. Never raises an error: if a report cannot be sent, it is lost."""


@runtime_checkable
class TakesReports(Protocol):
    """A catalog store whose server accepts metrics reports."""

    def reporter(self, identifier: Identifier) -> MetricsReporter | None:
        """Return the reporter of a table; None if the server does not accept reports, or the user has turned them off."""


def scan_report(table_name: str, plan: ScanPlan, projection: Schema, *, schema_id: int) -> dict[str, Any]:
    """Return the report of a scan of a snapshot.

    Args:
        table_name: The table, with the name of its catalog.
        plan: The plan of the scan, with its counts and the duration of planning.
        projection: The columns that are read.
        schema_id: The id of the schema to which the filter is bound.
    """
    return {
        "report-type": "scan-report",
        "table-name": table_name,
        "snapshot-id": plan.snapshot_id,
        "filter": without_values(plan.row_filter),
        "schema-id": schema_id,
        "projected-field-ids": [field.field_id for field in projection.fields],
        "projected-field-names": [field.name for field in projection.fields],
        "metrics": {
            "total-planning-duration": _timer(plan.planning_ns),
            **_counters(plan.counts(), "count"),
            **_counters(plan.sizes(), "bytes"),
        },
        "metadata": _client(),
    }


def commit_report(table_name: str, snapshot: Snapshot, *, attempts: int, duration_ns: int) -> dict[str, Any]:
    """Return the report of a commit that added a snapshot.

    Args:
        table_name: The table, with the name of its catalog.
        snapshot: The snapshot.
        attempts: The number of attempts.
        duration_ns: The duration of all attempts in nanoseconds.
    """
    metrics: dict[str, Any] = {"total-duration": _timer(duration_ns), **_counters({"attempts": attempts}, "count")}
    for name, entry in _SUMMARY_ENTRY_OF_METRIC.items():
        text = snapshot.summary.get(entry, "")
        if text.isdecimal() and len(text) < 19:
            metrics |= _counters({name: int(text)}, "bytes" if name.endswith("bytes") else "count")
    return {
        "report-type": "commit-report",
        "table-name": table_name,
        "snapshot-id": snapshot.snapshot_id,
        "sequence-number": snapshot.sequence_number or 0,
        "operation": snapshot.operation or "unknown",
        "metrics": metrics,
        "metadata": _client(),
    }


def without_values(row_filter: BooleanExpression) -> Any:
    """Return a bound filter as JSON, with each literal replaced by the name of its type in parentheses."""
    match row_filter:
        case AlwaysTrue() | AlwaysFalse():
            return isinstance(row_filter, AlwaysTrue)
        case Not(child):
            return {"type": "not", "child": without_values(child)}
        case And(terms) | Or(terms):
            return joined_pairwise("and" if isinstance(row_filter, And) else "or", [without_values(term) for term in terms])
        case BoundPredicate():
            document: dict[str, Any] = {"type": row_filter.operation.name.lower().replace("_", "-"), "term": row_filter.column}
            shown = f"({row_filter.kind})"
            if document["type"] in ("in", "not-in"):
                return {**document, "values": [shown] * min(len(row_filter.values), 1)}
            return {**document, "value": shown} if row_filter.values else document
    raise InvalidFilterError(f"the filter {type(row_filter).__name__} is not bound")


def _counters(values: Mapping[str, int], unit: str) -> dict[str, Any]:
    return {name: {"unit": unit, "value": value} for name, value in values.items()}


def _timer(duration_ns: int) -> dict[str, Any]:
    return {"count": 1, "time-unit": "nanoseconds", "total-duration": duration_ns}


def _client() -> dict[str, str]:
    return {"engine-name": "icefloe", "engine-version": __version__}
