"""`SparkChangelog`: the changes of a table for CHANGES in SQL, `spark.read.changes` and `readStream.changes` of Spark 4.2 and later.

`icefloe.spark.scan.change_feed` reads the rows, removes copied rows, nets changes and finds updates as the clause requests, so that Spark has nothing to add.
Spec: Snapshots; Row Lineage.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.errors import InvalidInputError
from icefloe.operations.change_feed.change_scan import ChangeScan, DeduplicationMode, deduplication_named
from icefloe.operations.change_feed.snapshot_range import Bound, time_bound
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.messages import ChangelogContext, ChangelogRange
from icefloe.spark.scan.change_stream import ChangesOfStream, change_stream_scan
from icefloe.spark.scan.changelog_rows import changelog_rows, changelog_struct, check_changelog_names
from icefloe.spark.scan.filter_pushdown import pruning_filter
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.native_scan import optimized_plan
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.readable_table import ReadableTable
from icefloe.spark.scan.spark_scan import ConnectorScan, statistics
from icefloe.spark.scan.stream_options import first_snapshot_of_clause, stream_deduplication
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, SELECTING_OPTIONS, TableSelection, with_options
from icefloe.spark.types.spark_types import wkb_to_geo
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata.snapshot_ref import MAIN

# Options of reads that select one state of a table, or a range of appended rows.
_OF_OTHER_READS = {*SELECTING_OPTIONS, *RANGE_OPTIONS, "versionasof", "timestampasof"} - {"branch"}
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
# Estimated bytes of the changes: the plan of the rows, which replaces the scan before the query runs, has their own estimate.
_ESTIMATED_BYTES = 1024 * 1024


class SparkChangelog(ReadableTable):
    """The changes of a table in a range of snapshots, or of a stream from a snapshot on, as Spark's `Changelog`."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.Changelog",)
    has_changes = True

    def __init__(self, spark: SparkSession, catalog_name: str, selected: TableSelection, context: ChangelogContext) -> None:
        self._spark = spark
        self._selected = selected
        self._context = context
        self._full_name = ".".join((catalog_name, *selected.table.name()))
        if selected.metadata_table is not None or selected.is_past:
            raise InvalidInputError(
                f"CHANGES is for a table or a branch of it, and the name has more than that beside {self._full_name}",
                table=self._full_name,
                next_step="name the table or a branch, and the last snapshot as the end of the range",
            )
        check_changelog_names(selected.table.schema(), self._full_name)

    def identity(self) -> str:
        """Return a text that is equal for the same state of the table and the same clause."""
        return f"{self._full_name} {self._selected.table.metadata.table_uuid} {self._selected.table.state} {self._selected.text()} {self._context}"

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {
            "name": f"{self._full_name} changes",
            "toString": f"{self._full_name} changes",
            "columns": [_column(field) for field in self._struct.fields],
            "containsCarryoverRows": False,
            "containsIntermediateChanges": False,
            "representsUpdateAsDeleteAndInsert": False,
        }

    @cached_property
    def _struct(self) -> StructType:
        # Without the range, since the first snapshot of a stream that continues may be expired.
        return changelog_struct(self._selected.table)

    def _changes(self, options: Mapping[str, str]) -> ChangeScan:
        """Return the scan of the changes. Raises `InvalidInputError` for an option that selects a state of the table or a range in another way."""
        refused = sorted(name.lower() for name in options if name.lower() in _OF_OTHER_READS)
        if refused:
            raise InvalidInputError(
                f"CHANGES of {self._full_name} is read with the option {refused[0]}",
                table=self._full_name,
                next_step="give startingVersion, endingVersion, startingTimestamp or endingTimestamp; branch reads a branch",
            )
        bounds, selected = self._context["range"], with_options(self._selected, options)
        selected.scan()  # raises the error about a branch that does not exist, whatever the end of the range
        start, end = _bounds(selected, bounds)
        return selected.table.changes(
            start,
            end,
            branch=selected.write_branch if end is None or isinstance(end, datetime) else MAIN,
            includes_start=start is not None and bounds["startingBoundInclusive"] is not False,
            includes_end=end is None or bounds["endingBoundInclusive"] is not False,
            deduplication_mode=self._deduplication,
            compute_updates=self._context["computeUpdates"],
        )

    def schema_json(self) -> str:
        """Return the columns as a struct in Spark's JSON."""
        return self._struct.json()

    def scan(self, query: PushedQuery) -> "SparkChangelogScan":
        """Return a scan of the changes."""
        return SparkChangelogScan(self._spark, self._full_name, self._changes(query["options"]), query)

    def stream_scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the changes.

        Raises:
            InvalidInputError: The clause has an end or net changes, an option is not valid, or updates cannot be found.
        """
        bounds = self._context["range"]
        start, end = _bounds(self._selected, bounds)
        if end is not None:
            raise InvalidInputError(
                f"the stream of the changes of {self._full_name} has an end, and a stream waits for further snapshots",
                table=self._full_name,
                next_step="leave it out: trigger(availableNow=True) ends at the current snapshot; or read the range without a stream",
            )
        changes = ChangesOfStream(
            deduplication=stream_deduplication(self._deduplication),
            computes_updates=self._context["computeUpdates"],
            start=first_snapshot_of_clause(query["options"], start),
            includes_start=start is not None and bounds["startingBoundInclusive"] is not False,
        )
        return change_stream_scan(self._spark, self._selected, query, changes)

    @property
    def _deduplication(self) -> DeduplicationMode:
        return deduplication_named(self._context["deduplicationMode"].replace("_", ""))


class SparkChangelogScan(ConnectorScan):
    """A scan of a `SparkChangelog`."""

    def __init__(self, spark: SparkSession, full_name: str, changes: ChangeScan, query: PushedQuery) -> None:
        super().__init__(query)
        self._spark = spark
        self._full_name = full_name
        days = partial(LocalDays, spark, query["zone"])
        row_filter = pruning_filter(query.get("filters") or (), changes.metadata.schema(), days)
        # Spark evaluates the filter again: where it cannot prune files, it is not evaluated twice.
        filtered = changes.filter(row_filter)
        self._changes = filtered if not filtered.filters_pairs else changes

    @connector_method
    def description(self) -> str:
        """Return the text for EXPLAIN: the table, the snapshots and the mode."""
        scan = self._changes
        where = "" if isinstance(scan.row_filter, AlwaysTrue) else f" [{scan.row_filter}]"
        return f"Icefloe changes of {self._full_name}: {len(scan.snapshots)} snapshots, {scan.deduplication}{where}"

    @connector_method
    def rows(self) -> Any:
        """Return Spark's optimized logical plan of the rows. The files are planned now."""
        struct = self._struct
        return optimized_plan(wkb_to_geo(changelog_rows(self._spark, self._changes, struct.names), struct))

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        """Return a constant estimate of the size."""
        return statistics(None, _ESTIMATED_BYTES)


def _column(field: StructField) -> dict[str, Any]:
    """Return the constant results of the methods of Spark's `Column`."""
    return {
        "name": field.name,
        "dataType": field.dataType.json(),
        "nullable": field.nullable,
        "comment": field.metadata.get("comment"),
        "defaultValue": None,
        "generationExpression": None,
        "identityColumnSpec": None,
        "metadataInJSON": None,
    }


def _bounds(selected: TableSelection, bounds: ChangelogRange) -> Sequence[Bound | None]:
    """Return the first and the last bound of a range; None where it has no bound."""
    if bounds["kind"] == "TimestampRange":
        times = (bounds.get("startingTimestamp"), bounds.get("endingTimestamp"))
        return [None if micros is None else time_bound(micros) for micros in times]
    versions = (bounds.get("startingVersion"), bounds.get("endingVersion"))
    return [None if version is None else _snapshot(selected, version) for version in versions]


def _snapshot(selected: TableSelection, version: str) -> int | str:
    """Return the id of a snapshot, or the name of a branch or tag, as VERSION AS OF finds it: what may be an id or a name is an id."""
    if _WHOLE_NUMBER.fullmatch(version) and (
        version not in selected.table.refs() or selected.table.metadata.snapshot_by_id(int(version)) is not None
    ):
        return int(version)
    return version
