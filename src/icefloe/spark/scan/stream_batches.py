"""`StreamBatches`: the batches of a stream of a table, for any of Spark's interfaces for sources.

`icefloe/scan/micro_batches.py` chooses the offsets and plans the files of a batch; this module gives it the table's current metadata, and returns the files of
a batch as a request. `micro_batch_stream.py` is the source in a classic session, and `spark/connect/stream_reader.py` that of the Python data source.
Spec: Snapshots.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from icefloe.errors import IcefloeError, InvalidInputError, Problem, SchemaMismatchError, in_one_line
from icefloe.io.manifest_cache import cached_manifests
from icefloe.operations.data_scan import DataScan
from icefloe.operations.engine import ScanRequest
from icefloe.operations.parallel_requests import in_threads, serial_bytes
from icefloe.operations.warnings_once import is_repeated
from icefloe.scan.micro_batches import Backlog, MicroBatchPlanner
from icefloe.scan.stream_rules import NO_LIMITS, ReadLimits, StreamRules
from icefloe.scan.streaming_offset import START, StreamingOffset
from icefloe.spark.scan.read_options import FROM_TIMESTAMP
from icefloe.spark.scan.stream_options import polling_interval_s, read_limits, stream_rules, stream_selection
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.metadata_columns import METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import relax_required_fields, required_fields_absent_from_files
from icefloe.spec.types import PrimitiveType

LOG = logging.getLogger(__name__)


class StreamBatches:
    """The batches of the rows that snapshots of a branch added, after the rows that the table had when the stream began.

    Rows are read with the schema that the table had when this object was created.

    Attributes:
        selection: The table, as it was when the stream was started, and the branch.
        table: The same table, refreshed for each batch.
        schema: The schema that rows are read with.
        limits: The limits of a batch by the options of the read.
    """

    def __init__(
        self, selected: TableSelection, options: Mapping[str, str], rules: StreamRules | None = None, *, is_tolerant: bool
    ) -> None:
        """Create the batches of a stream by the options of its read.

        Args:
            selected: The table or branch.
            options: The options of the read.
            rules: Which snapshots a stream of changes reads; None for a stream of rows, whose options have them.
            is_tolerant: Whether the options have `tolerant`.

        Raises:
            InvalidInputError: An option is not valid for a stream.
        """
        self.selection = stream_selection(selected, options, takes_start=rules is not None)
        self._rules, self.limits = stream_rules(options) if rules is None else rules, read_limits(options)
        self._polling_s = polling_interval_s(options)
        self._looked_s: float | None = None  # the time of the last look for new snapshots
        if is_tolerant:
            raise InvalidInputError(
                f"the stream of {self.selection.table.full_name} is read with tolerant, and the positions of a stream depend on exact manifests",
                next_step="leave the option out",
            )
        self.schema = self.selection.table.schema()
        self.table = copy(self.selection.table)  # the analyzed query keeps its own
        # The snapshot at which a query that reads what is available ends, or None of a table without snapshots; empty for other queries.
        self._last: tuple[Snapshot | None] | tuple[()] = ()

    def description(self) -> str:
        """Return the text for progress reports and EXPLAIN."""
        branch = "" if self.selection.branch is None else f" branch {self.selection.branch}"
        return f"Icefloe stream of {in_one_line(self.table.full_name)}{in_one_line(branch)}"

    def parse(self, text: str) -> StreamingOffset:
        """Parse an offset of a checkpoint. Raises `InvalidInputError` if it is not an offset."""
        return StreamingOffset.from_json(text, self.table.full_name)

    def next_offset(self, begin: StreamingOffset, limits: ReadLimits = NO_LIMITS) -> StreamingOffset:
        """Return the end of the next batch; `begin` if there is nothing to read. The errors are those of `MicroBatchPlanner.next_offset`."""
        return self.planner(refreshes=self._looks_again()).next_offset(begin, limits)

    def latest_offset(self) -> StreamingOffset | None:
        """Return the offset of a stream that has read everything; None without a snapshot."""
        return self.planner(refreshes=False).latest_offset()

    def end_of_everything(self) -> StreamingOffset:
        """Return the end of a batch that has all that the stream has not read, wherever it begins. It contains the begin of a first batch.

        Returns:
            The offset; `START` if the table has no snapshot yet.

        Raises:
            InvalidInputError: The stream begins with the snapshots from a time on, and there are none yet.
        """
        planner = self.planner(refreshes=self._looks_again())
        end, begin = planner.latest_offset(), planner.begin()
        if end is None:
            return START
        if begin is None:
            raise InvalidInputError(
                f"{self.table.full_name} has no snapshot since {FROM_TIMESTAMP}, and before Spark 4.2 a stream of the Python data source cannot wait for one",
                table=self.table.full_name,
                next_step="start the query after the first commit from that time on, or leave the option out",
            )
        return replace(end, begin=begin)

    def _looks_again(self) -> bool:
        """Return whether the table is loaded again to look for new snapshots: an idle query looks many times a second, and options set a least interval."""
        now = time.monotonic()
        if self._looked_s is not None and now - self._looked_s < self._polling_s:
            return False
        self._looked_s = now
        return True

    def prepare_for_available_now(self) -> None:
        """Remember the current snapshot, at which the query ends."""
        self._last = (self.planner(refreshes=True).head,)

    def backlog(self, offset: str | None) -> Backlog | None:
        """Return how far the stream is behind, by the summaries of the snapshots that it has not read; None if the next batch raises an error."""
        try:
            return self.planner(refreshes=False).backlog(START if offset is None else self.parse(offset))
        except IcefloeError as error:
            LOG.debug("the backlog of a stream is unknown: %s", error)
            return None

    def request(self, begin: StreamingOffset, end: StreamingOffset, columns: Sequence[str]) -> ScanRequest:
        """Plan a batch, and return the request to read these columns of its files. The errors are those of `MicroBatchPlanner.plan`."""
        planner = self.planner(refreshes=self.is_outdated(end))
        metadata = planner.metadata
        metadata_columns = {**METADATA_COLUMNS, PARTITION_NAME: partition_column(table_partition_type(metadata))}
        by_name = {field.name: field for field in self.schema.fields}
        projection = tuple(by_name.get(name) or metadata_columns[name] for name in columns)
        schema = Schema(*relax_required_fields(self.schema.fields, metadata.schemas), schema_id=self.schema.schema_id)
        return ScanRequest.of_table(
            metadata,
            self.table.io,
            planner.table_name,
            planner.plan(begin, end, self.schema),
            schema=schema,
            projection=Schema(*relax_required_fields(projection, metadata.schemas), schema_id=self.schema.schema_id),
            row_filter=AlwaysTrue(),
            may_be_missing=required_fields_absent_from_files(self.schema.fields, metadata.schemas),
        )

    def is_outdated(self, end: StreamingOffset) -> bool:
        """Return whether the table was loaded before the snapshot at which a batch ends."""
        return self.table.metadata.snapshot_by_id(end.snapshot_id) is None

    def planner(self, *, refreshes: bool) -> MicroBatchPlanner:
        """Return the planner for the table in its state that was loaded last, or with `refreshes` in its current state."""
        return MicroBatchPlanner(**self.planner_state(refreshes=refreshes))

    def planner_state(self, *, refreshes: bool) -> dict[str, Any]:
        """Return the arguments of a planner for the table in its state that was loaded last, or with `refreshes` in its current state.

        Raises:
            SchemaMismatchError: Rows can no longer be read with the schema of the stream.
        """
        if refreshes:
            self.table.refresh()
        scan: DataScan = replace(self.selection, table=self.table).scan()
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

    def _check_schema(self, metadata: TableMetadata) -> None:
        """Raise `SchemaMismatchError` if rows can no longer be read with the stream's schema. New columns are logged, and columns with new names are read."""
        current = metadata.schema()
        if current.schema_id == self.schema.schema_id:
            return
        problems = incompatible_changes(self.schema, current)
        name = self.table.full_name
        if problems:
            raise SchemaMismatchError(
                f"the schema of {name} has changed since its stream was started",
                table=name,
                problems=problems,
                next_step="start the query again: it continues from its checkpoint with the new schema",
            )
        added = new_columns(self.schema, current)
        text = f"the stream of {name} does not read the new columns {', '.join(added)} until the query is started again"
        if added and not is_repeated(str(id(self)), text):
            LOG.warning("%s", in_one_line(text))


def new_columns(schema: Schema, current: Schema) -> list[str]:
    """Return the dotted names of the columns that only the second schema of a table has, without those inside of another new column."""
    paths: list[tuple[str, ...]] = []
    for path, field in walk(current.fields):
        if field.field_id not in schema and not any(path[: len(other)] == other for other in paths):
            paths.append(path)
    return [".".join(path) for path in paths]


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
