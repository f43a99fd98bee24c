"""`SparkChangeStream`: the changes of a table as a source of Structured Streaming; `ChangesTable`: a table whose streams are of its changes.

`icefloe/scan/change_batches.py` chooses the offsets and the snapshots of a batch, `changelog_rows.py` reads them. A query of its own computes the changes of a
batch, since copied and updated rows are found by comparing rows (`bridge/java/ChangedRows.java`). Spec: Snapshots; Row Lineage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.operations.change_feed.change_scan import ChangeScan, DeduplicationMode, SnapshotChanges
from icefloe.operations.change_feed.snapshot_range import Bound, snapshots_in_range
from icefloe.scan.change_batches import BatchOfChanges, ChangeBatchPlanner
from icefloe.scan.change_planner import ChangePlan
from icefloe.spark.bridge.callback import PythonCallback, connector_method
from icefloe.spark.bridge.gateway import new_object
from icefloe.spark.scan.changelog_rows import changelog_rows, changelog_struct, check_changelog_names
from icefloe.spark.scan.micro_batch_stream import SparkMicroBatchStream, StreamScan
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.read_options import PushedQuery, changes_need_stream, is_tolerant
from icefloe.spark.scan.readable_table import ReadableTable
from icefloe.spark.scan.scan_plans import ScanPlans
from icefloe.spark.scan.stream_batches import StreamBatches
from icefloe.spark.scan.stream_options import change_stream_rules, deduplication_of, first_snapshot_of, updates_are_computed
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import wkb_to_geo
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema

# The bytes of changed files for each partition of a shuffle.
_BYTES_OF_A_PARTITION = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesOfStream:
    """Which changes a stream has.

    Attributes:
        deduplication: Which changes are left out.
        computes_updates: Whether a deleted and an inserted row with the same identity are the two images of an update.
        start: The bound with which the changes begin; None for the rows of the table, or for the time in the options.
        includes_start: Whether the changes of the snapshot at the bound are among them.
    """

    deduplication: DeduplicationMode
    computes_updates: bool
    start: Bound | None = None
    includes_start: bool = True

    @classmethod
    def of_options(cls, options: Mapping[str, str]) -> "ChangesOfStream":
        """Parse the options of a read. Raises `InvalidInputError` if a value is not valid."""
        return cls(
            deduplication=deduplication_of(options),
            computes_updates=updates_are_computed(options),
            start=first_snapshot_of(options),
            includes_start=False,
        )


class ChangeBatches(StreamBatches):
    """The batches of a stream of changes. The changes of a snapshot are in one batch."""

    def __init__(self, pushed: PushedScan, changes: ChangesOfStream) -> None:
        options = pushed.query["options"]
        rules = change_stream_rules(options, has_start=changes.start is not None)
        super().__init__(pushed.selected, options, rules, is_tolerant=is_tolerant(pushed.query))
        self._changes = changes

    def description(self) -> str:
        """Return the text for progress reports and EXPLAIN."""
        return super().description().replace("Icefloe stream of", "Icefloe stream of the changes of", 1)

    def planner(self, *, refreshes: bool) -> ChangeBatchPlanner:
        """Return the planner for the table in its state that was loaded last, or with `refreshes` in its current state."""
        state = self.planner_state(refreshes=refreshes)
        head, start = state["head"], self._changes.start

        def first_snapshots() -> Sequence[Snapshot]:
            return snapshots_in_range(
                state["metadata"], state["table_name"], start, head.snapshot_id, includes_start=self._changes.includes_start
            )

        return ChangeBatchPlanner(**state, first_snapshots=None if start is None else first_snapshots)


class SparkChangeStream(SparkMicroBatchStream):
    """A stream of the rows that snapshots of a branch inserted, deleted and updated.

    Rows have the schema that the table had when Spark loaded it.
    """

    def __init__(self, pushed: PushedScan, changes: ChangesOfStream) -> None:
        self._change_batches = ChangeBatches(pushed, changes)
        super().__init__(pushed, self._change_batches)
        self._changes = changes
        self._scan_of(self._batches.table.metadata, ()).identity  # noqa: B018 raises the error about updates before the query runs

    @connector_method
    def rows(self, start: str, end: str, columns: list[str]) -> Any:
        """Return the changes of a batch as a Java object `ChangedRows`. The names are those of columns."""
        batches = self._change_batches
        begin, last = batches.parse(start), batches.parse(end)
        planner = batches.planner(refreshes=batches.is_outdated(last))
        batch = planner.changes(begin, last, batches.schema)
        frames, size = [], 0
        for scan, plans in self._parts_of(planner.metadata, batch):
            frames.append(changelog_rows(self._session, scan, columns, plans))
            size += sum(changes.plan.bytes for changes in plans)
        struct = changelog_struct(batches.selection.table)
        rows = reduce(DataFrame.unionAll, frames)
        rows = wkb_to_geo(rows, type(struct)([struct[name] for name in columns]))
        return new_object(self._pushed.spark, "ChangedRows", rows._jdf, 1 + size // _BYTES_OF_A_PARTITION, self.description())

    def _parts_of(self, metadata: TableMetadata, batch: BatchOfChanges) -> Sequence[tuple[ChangeScan, Sequence[SnapshotChanges]]]:
        """Return the scans of a batch with their planned changes: of the rows with which the stream begins, and of the changes of snapshots."""
        scan = self._scan_of(metadata, batch.snapshots)
        parts = [(scan, list(scan.plan()))] if batch.snapshots or batch.snapshot is None else []
        if batch.snapshot is not None and batch.rows is not None:
            rows = SnapshotChanges(snapshot=batch.snapshot, ordinal=0, plan=ChangePlan.of_added_files(batch.rows))
            parts.append((replace(scan, deduplication=DeduplicationMode.NONE, computes_updates=False), [rows]))
        return parts

    def _scan_of(self, metadata: TableMetadata, snapshots: Sequence[Snapshot]) -> ChangeScan:
        """Return a scan of the changes of snapshots with the schema of the stream, whatever the table's current schema is."""
        schema = self._batches.schema
        schemas: Sequence[Schema] = [*(other for other in metadata.schemas if other.schema_id != schema.schema_id), schema]
        return ChangeScan(
            table_name=self._batches.table.full_name,
            metadata=replace(metadata, schemas=schemas, current_schema_id=schema.schema_id),  # type: ignore[arg-type] # the constructor converts it
            io=self._batches.table.io,
            snapshots=snapshots,
            deduplication=self._changes.deduplication,
            computes_updates=self._changes.computes_updates,
        )


def change_stream_scan(
    spark: SparkSession, selected: TableSelection, query: PushedQuery, changes: ChangesOfStream | None = None
) -> StreamScan:
    """Return the scan from which Spark creates a stream of the changes of a table.

    Args:
        spark: The session.
        selected: The table or branch.
        query: The pushed query, with the options of the read.
        changes: Which changes the stream has; None to parse it from the options.

    Raises:
        InvalidInputError: An option is not valid, or updates cannot be found.
    """
    pushed = PushedScan(spark=spark, selected=selected, query=query, plans=ScanPlans(spark, selected.table))
    selected_changes = changes or ChangesOfStream.of_options(query["options"])
    return StreamScan(pushed, lambda: SparkChangeStream(pushed, selected_changes))


class ChangesTable(ReadableTable):
    """The changes of a table, which Spark reads as a stream with the option `read.mode`: by the format and, from Spark 4.3 on, by the name of the table."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsRead",)
    has_changes = True

    def __init__(self, spark: SparkSession, name: str, selected: TableSelection) -> None:
        check_changelog_names(selected.table.schema(), name)
        self._spark = spark
        self._name = name
        self._selected = selected

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        name = f"{self._name} changes"
        return {"name": name, "toString": name, "schema": self.schema_json(), "capabilities": ["BATCH_READ", "MICRO_BATCH_READ"]}

    def schema_json(self) -> str:
        """Return the columns as a struct in Spark's JSON."""
        return changelog_struct(self._selected.table).json()

    def scan(self, _: PushedQuery) -> PythonCallback:
        """Raise `InvalidInputError`, because the read mode is for streams."""
        raise changes_need_stream(self._name)

    def stream_scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the changes."""
        return change_stream_scan(self._spark, self._selected, query)
