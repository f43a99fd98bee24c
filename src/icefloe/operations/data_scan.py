"""`DataScan`: a scan of a table, with its snapshot, filter and columns; it returns the rows as Arrow, pandas, Spark and other frames.

`icefloe.scan` plans the files, and an engine reads the rows. Spec: Scan Planning; Column Projection.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.display.html import html_of
from icefloe.display.report import Facts, Report
from icefloe.errors import InvalidInputError, NoSuchSnapshotError, in_one_line
from icefloe.formatting import short_text
from icefloe.io.file_io_by_scheme import with_access
from icefloe.io.manifest_cache import cached_manifests
from icefloe.lazy_imports import lazy_module
from icefloe.operations.engine import ScanRequest
from icefloe.operations.other_frames import RowFrames
from icefloe.operations.parallel_requests import in_threads, return_freed_memory, serial_bytes
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import ScanPlan, consume_parts
from icefloe.scan.scan_planner import plan_scan
from icefloe.scan.server_plan import PlanRequest, ServerPlanner
from icefloe.scan.snapshot_row_count import rows_of_snapshot
from icefloe.spec.dates_and_times import format_timestamp
from icefloe.spec.expressions.bind import bind, filter_field_ids
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.encryption import refuse_encrypted
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, table_partition_type
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_history import ancestors, schemas_of_files, snapshot_as_of, snapshots_between
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO, Parallel
from icefloe.spec.schema.arrow_schema import with_uuid_type
from icefloe.spec.schema.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_history import relax_required_fields, required_fields_absent_from_files
from icefloe.spec.tolerance import Tolerance
from icefloe.spec.types import NestedField, UUIDType
from icefloe.stores.metrics_report import MetricsReporter, scan_report

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")

_APPEND = "append"  # the operation of snapshots that only add data files
_METADATA_COLUMNS = frozenset([*METADATA_COLUMNS, PARTITION_NAME])


@dataclass(frozen=True, kw_only=True)
class DataScan(RowFrames):
    """A scan of a table: which snapshot, rows and columns to read. It is immutable: `filter`, `select` and similar methods return a new scan."""

    table_name: str
    metadata: TableMetadata
    io: FileIO
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool = True
    snapshot_id: int | None = None
    limit: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # Whether rows are read with the table's schema. It is true for branches, which are written with it. JAVA: SnapshotUtil.schemaFor.
    by_table_schema: bool = False
    branch: str | None = None  # the branch in whose history `as_of` searches; None for main
    tolerant: bool = False  # whether harmless deviations from the format are warnings instead of errors: see `Tolerance.HARMLESS`
    appends: tuple[Snapshot, ...] | None = None  # the snapshots whose appended rows an incremental scan reads; None in other scans
    # The snapshot after which an incremental scan begins; None if it begins with the table's first snapshot.
    appends_after: int | None = None
    planner: ServerPlanner | None = None  # the server that plans the scan; None if this process plans it
    reporter: MetricsReporter | None = None  # receives a report of each plan that this process makes

    def __repr__(self) -> str:
        return in_one_line(f"Scan({self.table_name}: {', '.join(f'{name} {value}' for name, value in self._facts())})")

    def _repr_html_(self) -> str:
        return html_of(Report(f"scan of {short_text(self.table_name)}", (Facts(tuple(self._facts())),)))

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of a name and a text that describe what the scan reads, for its display."""
        snapshot_id = self.metadata.current_snapshot_id if self.snapshot_id is None else self.snapshot_id
        yield "snapshot", "none yet" if snapshot_id is None else str(snapshot_id)
        yield "columns", "all" if "*" in self.selected_fields else short_text(", ".join(self.selected_fields))
        yield "where", short_text(str(self.row_filter))
        if self.limit is not None:
            yield "limit", f"{self.limit:,}"
        if self.is_planned_by_server:
            yield "planned by", "the server"
        if self.tolerant:
            yield "deviations", "harmless ones are warnings"

    def filter(self, row_filter: str | BooleanExpression) -> "DataScan":
        """Return a scan of the rows that also match another filter.

        Args:
            row_filter: a filter as text or expression.

        Returns:
            The narrower scan.

        Raises:
            InvalidFilterError: the text cannot be parsed.
        """
        return replace(self, row_filter=all_of((self.row_filter, to_expression(row_filter))))

    def select(self, *names: str) -> "DataScan":
        """Return a scan of these columns.

        Args:
            *names: dotted names of columns, or of metadata columns such as `_pos`; `*` is every column of the table.

        Returns:
            The narrower scan. Its columns are in the table's order, followed by metadata columns in the order of `names`.
        """
        return replace(self, selected_fields=names)

    def with_case_sensitive(self, case_sensitive: bool = True) -> "DataScan":
        """Return a scan that matches column names with or without regard to letter case.

        Args:
            case_sensitive: whether names match exactly.

        Returns:
            The scan.
        """
        return replace(self, case_sensitive=case_sensitive)

    def use_ref(self, name: str) -> "DataScan":
        """Return a scan of the snapshot of a branch or tag. A branch is read with the table's schema, a tag with the schema of its snapshot.

        In a table without snapshots, `main` can be used and has no rows.

        Args:
            name: the branch or tag.

        Returns:
            The scan.

        Raises:
            NoSuchSnapshotError: the table has no such branch or tag.
        """
        ref = self.metadata.refs.get(name)
        if ref is None and name == MAIN and self.metadata.current_snapshot_id is None:
            return replace(self, snapshot_id=None, by_table_schema=True, branch=MAIN)
        if ref is None:
            names = ", ".join(sorted(self.metadata.refs)) or "none"
            raise NoSuchSnapshotError(
                f"{self.table_name} has no branch or tag {name!r}", table=self.table_name, next_step=f"there are: {names}"
            )
        return replace(self, snapshot_id=ref.snapshot_id, by_table_schema=ref.is_branch, branch=name if ref.is_branch else None)

    def as_of(self, timestamp_ms: int) -> "DataScan":
        """Return a scan of the snapshot that was current at a time.

        On `main` the snapshot is found in the snapshot log; on another branch, among the ancestors of its head.

        Args:
            timestamp_ms: the time in milliseconds since 1970-01-01 UTC.

        Returns:
            The scan.

        Raises:
            NoSuchSnapshotError: the table or branch had no snapshot then, or the snapshot has been expired.
        """
        if self.branch not in (None, MAIN):
            return self._as_of_on_branch(self.branch, timestamp_ms)
        snapshot = snapshot_as_of(self.metadata, timestamp_ms)
        if snapshot is None:
            log = self.metadata.snapshot_log
            raise NoSuchSnapshotError(
                f"{self.table_name} had no snapshot at {_instant(timestamp_ms)}",
                table=self.table_name,
                next_step=f"its snapshot log begins at {_instant(log[0].timestamp_ms)}"
                if log
                else "its metadata has no snapshot log; choose a snapshot by its id",
            )
        return replace(self, snapshot_id=snapshot.snapshot_id, by_table_schema=False)

    def _as_of_on_branch(self, branch: str, timestamp_ms: int) -> "DataScan":
        lineage = list(ancestors(self.metadata, self.metadata.refs[branch].snapshot_id))
        snapshot = next((ancestor for ancestor in lineage if ancestor.timestamp_ms <= timestamp_ms), None)
        if snapshot is None:
            is_complete = not lineage or lineage[-1].parent_snapshot_id is None
            raise NoSuchSnapshotError(
                f"the branch {branch!r} of {self.table_name} had no snapshot at {_instant(timestamp_ms)}",
                table=self.table_name,
                next_step=f"its history begins at {_instant(lineage[-1].timestamp_ms) if lineage else 'no snapshot'}"
                + ("" if is_complete else f"; what was before it, snapshot {lineage[-1].parent_snapshot_id}, was expired"),
            )
        return replace(self, snapshot_id=snapshot.snapshot_id, by_table_schema=False)

    def appended_after(self, snapshot_id: int | None) -> "DataScan":
        """Return a scan of the rows that snapshots with the operation `append` added, after one snapshot and up to the snapshot of this scan.

        Rows are read as they were appended, even if later snapshots deleted, replaced or compacted them, with the table's current schema.

        Args:
            snapshot_id: the snapshot after which the scan begins; it may have been expired, as long as its child still exists. None begins with the table's
                first snapshot.

        Returns:
            The scan.

        Raises:
            InvalidInputError: `snapshot_id` is not an ancestor of the snapshot of this scan.
            NoSuchSnapshotError: the table does not have the snapshot of this scan.
        Spec: Snapshots (`operation`).
        """
        end = self.snapshot()
        snapshots = snapshots_between(self.metadata, snapshot_id, None if end is None else end.snapshot_id)
        if snapshots is None:
            raise InvalidInputError(
                f"snapshot {snapshot_id} of {self.table_name} is no ancestor of snapshot {None if end is None else end.snapshot_id}",
                table=self.table_name,
                snapshot_id=snapshot_id,
                next_step="name a start that the end was made from: see table.ancestors()",
            )
        appends = tuple(snapshot for snapshot in reversed(snapshots) if snapshot.operation == _APPEND)
        end_id = None if end is None else end.snapshot_id
        return replace(self, appends=appends, appends_after=snapshot_id, snapshot_id=end_id, by_table_schema=True)

    def appends_between(self, start: int | None, end: int | None = None) -> "DataScan":
        """Return the scan `appended_after(start)` up to the snapshot `end`; None for the snapshot of this scan. The errors are the same."""
        return (self if end is None else replace(self, snapshot_id=end, branch=None)).appended_after(start)

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot that the scan reads; None if the table has no snapshot.

        Raises:
            NoSuchSnapshotError: the table does not have the snapshot.
        """
        if self.snapshot_id is None:
            return self.metadata.current_snapshot()
        snapshot = self.metadata.snapshot_by_id(self.snapshot_id)
        if snapshot is None:
            raise NoSuchSnapshotError(
                f"{self.table_name} has no snapshot {self.snapshot_id}",
                table=self.table_name,
                next_step="choose one from table.snapshots(); an expired one is gone",
            )
        return snapshot

    def schema(self) -> Schema:
        """Return the schema that rows are read with: the table's schema, or the snapshot's schema if the snapshot was selected by its id, a tag or a time."""
        snapshot = self.snapshot()
        if self.snapshot_id is None or self.by_table_schema or snapshot is None or snapshot.schema_id is None:
            return self.metadata.schema()
        return self.metadata.schema_by_id(snapshot.schema_id)

    def projection(self) -> Schema:
        """Return the projected columns: columns of the table in its order, then metadata columns in the order of the selection.

        The metadata columns `_file`, `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id` and `_last_updated_sequence_number` can be selected by name,
        unless the table has a column of that name; `*` does not include them.

        Raises:
            InvalidSchemaError: a column does not exist.
        """
        schema = self.schema()
        names = dict.fromkeys(self.selected_fields)
        metadata = [
            name for name in names if schema.find_id(name, case_sensitive=self.case_sensitive) is None and name in _METADATA_COLUMNS
        ]
        if not metadata:
            return schema.select(*names, case_sensitive=self.case_sensitive)
        table_columns = schema.select(*(name for name in names if name not in metadata), case_sensitive=self.case_sensitive)
        return Schema(*table_columns.fields, *(self._metadata_column(name) for name in metadata), schema_id=table_columns.schema_id)

    def as_held(self, schema: Schema) -> Schema:
        """Return the schema, with required columns made optional if files of the snapshot may lack them, because the columns became required later.

        Rows of such files have nulls in these columns. Engines receive this schema, and read rows with it.

        Args:
            schema: the scan's schema, or some of its columns.
        """
        fields = relax_required_fields(schema.fields, self._schemas_of_files(schema))
        return schema if fields == schema.fields else Schema(*fields, schema_id=schema.schema_id)

    def _schemas_of_files(self, schema: Schema) -> Sequence[Schema]:
        """Return the schemas with which files of the snapshot may have been written.

        If no column is required, they are not needed, and the history of the table is not searched.
        """
        is_needed = len(self.metadata.schemas) > 1 and any(column.required for _, column in walk(schema.fields))
        return schemas_of_files(self.metadata, self.snapshot()) if is_needed else self.metadata.schemas

    def _metadata_column(self, name: str) -> NestedField:
        return partition_column(table_partition_type(self.metadata)) if name == PARTITION_NAME else METADATA_COLUMNS[name]

    def plan(
        self,
        *,
        explain: bool = False,
        include_statistics: bool = False,
        find_covered: bool = False,
        include_tested: bool = False,
        statistics_of: frozenset[int] = frozenset(),
        parallel: Parallel | None = None,
        prune_in_parallel: bool = False,
        enough_rows: int | None = None,
    ) -> ScanPlan:
        """Plan the live files that may contain matching rows.

        Args:
            explain: whether the plan has the reason why each manifest and file is kept or skipped.
            include_statistics: whether files keep their column statistics, which are most of a manifest.
            find_covered: whether to find the files in which every row matches.
            include_tested: whether the planned files keep, as columns, the statistics that the filter was tested with.
            statistics_of: field ids of further columns whose statistics the planned files keep, as columns.
            parallel: applies a function to manifests in parallel; by default in threads, except for few small local manifests.
            prune_in_parallel: whether the calls in `parallel` also prune the files of a manifest.
            enough_rows: stop reading manifests once the planned files without deletes have this many rows; None reads all.

        Returns:
            The plan.

        Raises:
            NoSuchSnapshotError: the snapshot to read does not exist.
            InvalidFilterError: the filter names an unknown column, or compares a column with a value of another type.
            UnsupportedFeatureError: the snapshot is encrypted.
            NoSuchFileError, ManifestFormatError: a manifest list or manifest is missing or damaged.
        """
        snapshot = self.snapshot()
        refuse_encrypted(snapshot, self.table_name)
        started_ns = time.monotonic_ns()
        if self.planner is not None and snapshot is not None and self.is_planned_by_server:
            plan = self.planner.plan(self._server_request(snapshot, include_statistics, include_tested, statistics_of, enough_rows))
            return replace(plan.explain() if explain else plan, planning_ns=time.monotonic_ns() - started_ns)
        plan = plan_scan(
            self.metadata,
            snapshot,
            self.row_filter,
            self.io.read,
            case_sensitive=self.case_sensitive,
            parallel=in_threads if parallel is None else parallel,
            serial_bytes=serial_bytes(self.metadata.location) if parallel is None else 0,
            prune_in_parallel=prune_in_parallel,
            explain=explain,
            include_statistics=include_statistics,
            find_covered=find_covered,
            include_tested=include_tested,
            statistics_of=statistics_of,
            schema=self.schema(),
            appends=self.appends,
            cache=cached_manifests(self.io) if parallel is None else None,
            enough_rows=enough_rows,
            tolerance=Tolerance.HARMLESS if self.tolerant else Tolerance.DEFAULT,
        )
        plan = replace(plan, planning_ns=time.monotonic_ns() - started_ns)
        if self.reporter is not None and snapshot is not None and not explain:
            self.reporter.report(scan_report(self.table_name, plan, self.projection(), schema_id=self.schema().schema_id))
        return plan

    def planned_here(self) -> "DataScan":
        """Return the same scan, planned by this process.

        Callers need it for facts that servers do not send, such as a file's sequence number or added snapshot.
        """
        return replace(self, planner=None)

    @property
    def is_planned_by_server(self) -> bool:
        """Whether the catalog's server plans the scan, because the server or the catalog's configuration requires it.

        This process plans scans that the protocol cannot express: tolerant scans, incremental scans from the table's first snapshot on, and scans of
        `_last_updated_sequence_number`, which is computed from sequence numbers that the server does not send.
        """
        has_form = not self.tolerant and (self.appends is None or self.appends_after is not None)
        return self.planner is not None and has_form and LAST_UPDATED_SEQUENCE_NUMBER.name not in self.selected_fields

    def _server_request(
        self, snapshot: Snapshot, include_statistics: bool, include_tested: bool, statistics_of: frozenset[int], enough_rows: int | None
    ) -> PlanRequest:
        schema, bound = self.schema(), bind(self.row_filter, self.schema(), case_sensitive=self.case_sensitive)
        statistics = sorted(statistics_of | (filter_field_ids(bound) if include_tested else frozenset()))
        if include_statistics:
            statistics = sorted(field_id for field_id in schema.field_ids if schema.find_type(field_id).is_primitive)
        return PlanRequest(
            table_name=self.table_name,
            metadata=self.metadata,
            snapshot_id=snapshot.snapshot_id,
            after=None if self.appends is None else self.appends_after,
            schema=schema,
            uses_snapshot_schema=self.snapshot_id is not None and not self.by_table_schema,
            row_filter=bound,
            case_sensitive=self.case_sensitive,
            columns=() if "*" in self.selected_fields else tuple(name for name in self.selected_fields if name not in _METADATA_COLUMNS),
            statistics=tuple(statistics),
            include_statistics=include_statistics,
            enough_rows=enough_rows,
        )

    def _plan_of_limit(self) -> ScanPlan:
        """Return the plan of the scan. If the scan has a limit and no filter, the plan has only as many files as are needed for this number of rows."""
        if self.limit is None or not isinstance(self.row_filter, AlwaysTrue):
            return self.plan()
        return self.plan(enough_rows=self.limit).first_files(self.limit)

    def plan_files(self, *, include_statistics: bool = False) -> Sequence[FileScanTask]:
        """Return the planned files as tasks.

        Args:
            include_statistics: whether files keep their column statistics, which are most of a manifest.

        Returns:
            One task for each file, with the deletes that apply to it and the residual filter that its rows must still be tested with.

        Raises:
            IcefloeError: as for `plan`.
        """
        parts = list(self.plan(include_statistics=include_statistics).parts)
        return_freed_memory(sum(map(len, parts)))
        return consume_parts(parts)

    def to_arrow(self) -> Any:
        """Read the rows in this process.

        Returns:
            A `pyarrow.Table`. UUID columns have Arrow's `uuid` type.

        Raises:
            NoSuchSnapshotError: the snapshot to read does not exist.
            InvalidFilterError, InvalidSchemaError: the filter or the projection names an unknown column.
            InvalidInputError: the limit is below 0.
            NoSuchFileError, DataFileFormatError: a file is missing or damaged.
        """
        request = self.request()
        rows, columns = available_engines.IN_PROCESS.read(request), request.projection
        if not _has_uuids(columns):
            return rows
        return pa.Table.from_batches((with_uuid_type(batch, columns) for batch in rows.to_batches()), columns.as_arrow())

    def to_arrow_batch_reader(self) -> Any:
        """Read the rows in this process as a stream, file after file.

        Returns:
            A `pyarrow.RecordBatchReader`.

        Raises:
            IcefloeError: as for `to_arrow`; errors of files are raised when their rows are read.
        """
        request = self.request()
        rows, columns = available_engines.IN_PROCESS.read_batches(request), request.projection
        if not _has_uuids(columns):
            return rows
        return pa.RecordBatchReader.from_batches(columns.as_arrow(), (with_uuid_type(batch, columns) for batch in rows))

    def to_spark(self) -> Any:
        """Return the rows as a Spark DataFrame, which reads the planned files; a Spark session is started if none is active.

        Raises:
            NotInstalledError: PySpark is not installed.
            EngineError: Spark cannot be used.
            IcefloeError: as for `plan`.
        """
        return available_engines.engine_named("spark").read(self.request())

    def count(self) -> int:
        """Count the matching rows.

        A scan without filter and limit needs only metadata, if the table has no deletes other than deletion vectors, which record how many rows they delete.

        Returns:
            The number of rows.

        Raises:
            IcefloeError: as for `to_arrow`.
        """
        if self.limit is None and isinstance(self.row_filter, AlwaysTrue):
            records = self.listed_rows()
            records = self.plan().records_after_deletes if records is None else records
            if records is not None:
                return records
        rows = replace(self, selected_fields=self._filter_columns()).to_arrow_batch_reader()
        return sum(batch.num_rows for batch in rows)

    def listed_rows(self) -> int | None:
        """Return the number of all rows of the snapshot from its manifest list; None if the number is not certain, see `rows_of_snapshot`.

        A tolerant scan does not rely on the counts of manifest lists, and a scan that the server plans does not read them.

        Raises:
            NoSuchSnapshotError: the snapshot to read does not exist.
            UnsupportedFeatureError: the snapshot is encrypted.
            NoSuchFileError, ManifestFormatError: the manifest list is missing or damaged.
        """
        snapshot = self.snapshot()
        refuse_encrypted(snapshot, self.table_name)
        if snapshot is None or self.appends is not None or self.tolerant or self.is_planned_by_server:
            return None
        return rows_of_snapshot(snapshot, read_manifests(snapshot, self.io.read))

    def _filter_columns(self) -> tuple[str, ...]:
        return (self.schema().fields[0].name,) if self.schema().fields else ("*",)

    def request(self, projection: Schema | None = None, plan: ScanPlan | None = None) -> ScanRequest:
        """Return the request with which an engine reads the rows of this scan.

        Args:
            projection: the columns to read; by default the columns of the scan.
            plan: the planned files; by default the scan is planned.

        Raises:
            InvalidInputError: the limit is below 0.
        """
        if self.limit is not None and self.limit < 0:
            raise InvalidInputError(f"limit is {self.limit}; it counts rows, so it is 0 or more")
        schema = self.schema()
        if plan is None:
            plan = self._plan_of_limit()
            bound = plan.row_filter  # bound to the same schema already; binding a long list again takes longer than testing some rows
        else:
            bound = bind(self.row_filter, schema, case_sensitive=self.case_sensitive)
        return ScanRequest.of_table(
            self.metadata,
            self.io if plan.access is None else with_access(self.io, plan.access),
            self.table_name,
            plan,
            schema=self.as_held(schema),
            projection=self.as_held(self.projection() if projection is None else projection),
            row_filter=bound,
            limit=self.limit,
            may_be_missing=required_fields_absent_from_files(schema.fields, self._schemas_of_files(schema)),
        )


def _has_uuids(schema: Schema) -> bool:
    return any(isinstance(column.field_type, UUIDType) for _, column in walk(schema.fields))


def _instant(timestamp_ms: int) -> str:
    """Return a time as text for messages: in milliseconds since 1970, and in ISO 8601 in UTC."""
    return f"{timestamp_ms} ms ({format_timestamp(timestamp_ms * 1000, utc=True)})"
