"""`StreamScan` and `SparkMicroBatchStream`: a table as a source of Structured Streaming in a classic session.

`icefloe/scan/micro_batches.py` chooses the offsets and plans the files of a batch; this module gives it the table's current metadata, and returns the rows to
Spark. Spark reads a batch as it reads a query: by its own Parquet reader (`bridge/java/PartitionedFiles.java`), or through Python. If one file of a batch needs
Python, all files of the batch are read in this way. `bridge/java/TableStream.java` is the Java side. Spec: Snapshots.
"""

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

from icefloe.errors import EngineError, IcefloeError, InvalidInputError, Problem, SchemaMismatchError, in_one_line
from icefloe.io.manifest_cache import cached_manifests
from icefloe.operations.data_scan import DataScan
from icefloe.operations.engine import ScanRequest
from icefloe.operations.parallel_requests import in_threads, serial_bytes
from icefloe.operations.warnings_once import is_repeated
from icefloe.scan.micro_batches import MicroBatchPlanner
from icefloe.scan.stream_rules import ReadLimits, StreamRules
from icefloe.scan.streaming_offset import START, StreamingOffset
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.bridge.gateway import executors_have_classes
from icefloe.spark.bridge.messages import LimitsMessage
from icefloe.spark.scan.native_scan import partitioned_files
from icefloe.spark.scan.read_options import is_tolerant, session_for
from icefloe.spark.scan.read_strategy import grouped_files, rows_through_python
from icefloe.spark.scan.spark_scan import PushedScan
from icefloe.spark.scan.stream_options import read_limits, stream_rules, stream_selection
from icefloe.spark.types.spark_types import has_geo_type, schema_to_struct, wkb_to_geo
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.metadata_columns import METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import relax_required_fields, required_fields_absent_from_files
from icefloe.spec.types import PrimitiveType

LOG = logging.getLogger(__name__)


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
    """A stream of the rows that snapshots of a branch added, after the rows that the table had when the stream began.

    Rows are read with the schema that the table had when Spark loaded it.
    """

    def __init__(self, pushed: PushedScan, rules: StreamRules | None = None) -> None:
        options = pushed.query["options"]
        self._pushed = pushed
        self._selection = stream_selection(pushed.selected, options, takes_start=rules is not None)
        self._rules, self._limits = stream_rules(options) if rules is None else rules, read_limits(options)
        if is_tolerant(pushed.query):
            raise InvalidInputError(
                f"the stream of {self._selection.table.full_name} is read with tolerant, and the positions of a stream depend on exact manifests",
                next_step="leave the option out",
            )
        self._schema = self._selection.table.schema()
        self._table = copy(self._selection.table)  # refreshed for each batch; the analyzed query keeps its own
        # The snapshot at which a query that reads what is available ends, or None of a table without snapshots; empty for other queries.
        self._last: tuple[Snapshot | None] | tuple[()] = ()

    @connector_method
    def description(self) -> str:
        """Return the text for progress reports and EXPLAIN."""
        branch = "" if self._selection.branch is None else f" branch {self._selection.branch}"
        return f"Icefloe stream of {in_one_line(self._table.full_name)}{in_one_line(branch)}"

    @connector_method
    def initial_offset(self) -> str:
        """Return the offset of a stream that has read nothing. The end of the first batch contains where the batch begins."""
        return START.json

    @connector_method
    def checked_offset(self, text: str) -> str:
        """Return the JSON of an offset in a checkpoint unchanged. Raises `InvalidInputError` if it is not an offset."""
        self._parse(text)
        return text

    @connector_method
    def next_offset(self, start: str, limits: LimitsMessage) -> str | None:
        """Return the end of the next batch; `start` or None if there is nothing to read. The errors are those of `MicroBatchPlanner.next_offset`."""
        begin = self._parse(start)
        end = self._planner(refreshes=True).next_offset(begin, ReadLimits(**limits))
        if end == begin:
            return None if begin.is_start else start
        return end.json

    @connector_method
    def latest_offset(self) -> str | None:
        """Return the offset of a stream that has read everything; None without a snapshot."""
        latest = self._planner(refreshes=False).latest_offset()
        return None if latest is None else latest.json

    @connector_method
    def prepare_for_available_now(self) -> None:
        """Remember the current snapshot, at which the query ends."""
        self._last = (self._planner(refreshes=True).head,)

    @connector_method
    def limits(self) -> dict[str, int | None]:
        """Return the limits of a batch by the options of the read."""
        return {"files": self._limits.files, "rows": self._limits.rows, "bytes": self._limits.bytes}

    @connector_method
    def metrics(self, offset: str | None) -> dict[str, str]:
        """Return how far the stream is behind, for the progress of the query: by the summaries of the snapshots that it has not read."""
        try:
            backlog = self._planner(refreshes=False).backlog(START if offset is None else self._parse(offset))
        except IcefloeError as error:  # the next batch raises it
            LOG.debug("the backlog of a stream is unknown: %s", error)
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
        begin, last = self._parse(start), self._parse(end)
        planner = self._planner(refreshes=self._table.metadata.snapshot_by_id(last.snapshot_id) is None)
        request = self._request(planner, begin, last, columns)
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
        return session_for(self._pushed.spark, self._pushed.query, self._selection.table.metadata.properties)

    def _parse(self, text: str) -> StreamingOffset:
        return StreamingOffset.from_json(text, self._table.full_name)

    def _scan(self) -> DataScan:
        """Return a scan of the branch in its state that was loaded last."""
        return replace(self._selection, table=self._table).scan()

    def _planner(self, *, refreshes: bool) -> MicroBatchPlanner:
        return MicroBatchPlanner(**self._planner_state(refreshes=refreshes))

    def _planner_state(self, *, refreshes: bool) -> dict[str, Any]:
        """Return the arguments of a planner for the table in its state that was loaded last, or with `refreshes` in its current state."""
        if refreshes:
            self._table.refresh()
        scan = self._scan()
        metadata, head = scan.metadata, scan.snapshot()
        self._check_schema(metadata)
        return {
            "table_name": scan.table_name,
            "metadata": metadata,
            "head": None if self._last == (None,) else head,
            "last": next(iter(self._last), None),
            "rules": self._rules,
            "read": scan.io.read,
            "parallel": in_threads,
            "serial_bytes": serial_bytes(metadata.location),
            "cache": cached_manifests(scan.io),
            "warn": lambda text: LOG.warning("%s", in_one_line(text)),
        }

    def _request(self, planner: MicroBatchPlanner, begin: StreamingOffset, end: StreamingOffset, columns: list[str]) -> ScanRequest:
        """Plan a batch, and return the request to read its files."""
        metadata = planner.metadata
        metadata_columns = {**METADATA_COLUMNS, PARTITION_NAME: partition_column(table_partition_type(metadata))}
        by_name = {field.name: field for field in self._schema.fields}
        projection = tuple(by_name.get(name) or metadata_columns[name] for name in columns)
        schema = Schema(*relax_required_fields(self._schema.fields, metadata.schemas), schema_id=self._schema.schema_id)
        return ScanRequest.of_table(
            metadata,
            self._table.io,
            planner.table_name,
            planner.plan(begin, end, self._schema),
            schema=schema,
            projection=Schema(*relax_required_fields(projection, metadata.schemas), schema_id=self._schema.schema_id),
            row_filter=AlwaysTrue(),
            may_be_missing=required_fields_absent_from_files(self._schema.fields, metadata.schemas),
        )

    def _check_schema(self, metadata: TableMetadata) -> None:
        """Raise `SchemaMismatchError` if rows can no longer be read with the stream's schema. New columns are logged, and columns with new names are read."""
        current = metadata.schema()
        if current.schema_id == self._schema.schema_id:
            return
        problems = incompatible_changes(self._schema, current)
        name = self._table.full_name
        if problems:
            raise SchemaMismatchError(
                f"the schema of {name} has changed since its stream was started",
                table=name,
                problems=problems,
                next_step="start the query again: it continues from its checkpoint with the new schema",
            )
        added = [field.name for field in current.fields if field.field_id not in self._schema]
        text = f"the stream of {name} does not read the new columns {', '.join(added)} until the query is started again"
        if added and not is_repeated(str(id(self)), text):
            LOG.warning("%s", in_one_line(text))


def incompatible_changes(schema: Schema, current: Schema) -> list[Problem]:
    """Return the changes between two schemas of a table because of which rows of the second cannot be read with the first."""
    fields = {field.field_id: field for _, field in walk(current.fields)}
    problems = []
    for path, field in walk(schema.fields):
        now = fields.get(field.field_id)
        if now is None:
            what = "was dropped"
        elif isinstance(field.field_type, PrimitiveType) and now.field_type != field.field_type:
            what = f"was {field.field_type}, and is {now.field_type}"
        elif field.required and not now.required:
            what = "was required, and may have nulls"
        else:
            continue
        problems.append(Problem(where=".".join(path), what=what))
    return problems
