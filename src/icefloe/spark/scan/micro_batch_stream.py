"""`StreamScan` and `SparkMicroBatchStream`: a table as a source of Structured Streaming in a classic session.

`stream_batches.py` returns the offsets and the files of a batch, and this module the rows to Spark. Spark reads a batch as it reads a query: by its own Parquet
reader (`bridge/java/PartitionedFiles.java`), or through Python. If one file of a batch needs Python, all files of the batch are read in this way.
`bridge/java/TableStream.java` is the Java side. Spec: Snapshots.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

from icefloe.errors import EngineError
from icefloe.scan.stream_rules import ReadLimits
from icefloe.scan.streaming_offset import START
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.bridge.gateway import executors_have_classes
from icefloe.spark.bridge.messages import LimitsMessage
from icefloe.spark.scan.native_scan import partitioned_files
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.read_options import is_tolerant, session_for
from icefloe.spark.scan.read_strategy import grouped_files, rows_through_python
from icefloe.spark.scan.stream_batches import StreamBatches
from icefloe.spark.types.spark_types import has_geo_type, schema_to_struct, wkb_to_geo
from icefloe.spec.schema.schema import Schema


class StreamScan(ConnectorObject):
    """The scan from which Spark creates the stream of a table. Spark pushes neither filters nor columns to it.

    Queries over one DataFrame have the same scan, and a stream of their own each.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("read.Scan",)

    def __init__(self, pushed: PushedScan, create_stream: "Callable[[], SparkMicroBatchStream]") -> None:
        if not executors_have_classes(pushed.spark):
            raise EngineError(
                f"{pushed.selected.table.full_name} cannot be read as a stream, because executors have not received the classes of Icefloe",
                next_step="see the warning about the executor jar in the log",
            )
        self._pushed = pushed
        self._create_stream = create_stream
        self._description = create_stream().description()  # raises the errors of options before the query runs

    def constants(self) -> Mapping[str, Any]:
        """Return the schema of the rows, which never changes."""
        return {"readSchema": self._pushed.query["schema"]}

    @connector_method
    def description(self) -> str:
        """Return the text for EXPLAIN."""
        return self._description

    @connector_method
    def stream(self, _: str) -> "SparkMicroBatchStream":
        """Return the stream. The argument is its folder in the checkpoint, which it does not need: its offsets contain all that it must remember."""
        return self._create_stream()


class SparkMicroBatchStream(ConnectorObject):
    """The stream of a table as Spark's `MicroBatchStream`. Its rows are those of `StreamBatches`."""

    def __init__(self, pushed: PushedScan, batches: StreamBatches | None = None) -> None:
        self._pushed = pushed
        self._batches = batches or StreamBatches(pushed.selected, pushed.query["options"], is_tolerant=is_tolerant(pushed.query))

    @connector_method
    def description(self) -> str:
        """Return the text for progress reports and EXPLAIN."""
        return self._batches.description()

    @connector_method
    def initial_offset(self) -> str:
        """Return the offset of a stream that has read nothing. The end of the first batch contains where the batch begins."""
        return START.json

    @connector_method
    def checked_offset(self, text: str) -> str:
        """Return the JSON of an offset in a checkpoint unchanged. Raises `InvalidInputError` if it is not an offset."""
        self._batches.parse(text)
        return text

    @connector_method
    def next_offset(self, start: str, limits: LimitsMessage) -> str | None:
        """Return the end of the next batch; `start` or None if there is nothing to read. The errors are those of `MicroBatchPlanner.next_offset`."""
        begin = self._batches.parse(start)
        end = self._batches.next_offset(begin, ReadLimits(**limits))
        if end == begin:
            return None if begin.is_start else start
        return end.json

    @connector_method
    def latest_offset(self) -> str | None:
        """Return the offset of a stream that has read everything; None without a snapshot."""
        latest = self._batches.latest_offset()
        return None if latest is None else latest.json

    @connector_method
    def prepare_for_available_now(self) -> None:
        """Remember the current snapshot, at which the query ends."""
        self._batches.prepare_for_available_now()

    @connector_method
    def limits(self) -> dict[str, int | None]:
        """Return the limits of a batch by the options of the read."""
        limits = self._batches.limits
        return {"files": limits.files, "rows": limits.rows, "bytes": limits.bytes}

    @connector_method
    def metrics(self, offset: str | None) -> dict[str, str]:
        """Return how far the stream is behind, for the progress of the query: by the summaries of the snapshots that it has not read."""
        backlog = self._batches.backlog(offset)
        if backlog is None:
            return {}
        return {
            "numSnapshotsOutstanding": str(backlog.snapshots),
            "numFilesOutstanding": str(backlog.counts.files),
            "numRowsOutstanding": str(backlog.counts.records),
            "numBytesOutstanding": str(backlog.counts.bytes),
        }

    @connector_method
    def rows(self, start: str, end: str, columns: list[str]) -> Any:
        """Return the rows of a batch: a Java object `PartitionedFiles`, or a Java DataFrame of rows that Python reads. The names are those of columns."""
        request = self._batches.request(self._batches.parse(start), self._batches.parse(end), columns)
        pushed, struct = self._pushed, schema_to_struct(Schema(*request.projection.fields), field_ids=False)
        reason = "Spark's own scan does not read geometries"
        if not has_geo_type(struct):
            needed, groups, _ = grouped_files(self._session, request, 1.0, pushed.plans.deletes)
            reason = next((group.reason for group in groups if group.reason), "")
            if not reason:
                return partitioned_files(self._session, request, needed, groups, ())
        return wkb_to_geo(rows_through_python(self._session, request, reason), struct)._jdf

    @cached_property
    def _session(self) -> Any:
        return session_for(self._pushed.spark, self._pushed.query, self._batches.selection.table.metadata.properties)
