"""`TableReader`: the read methods of a table whose metadata is loaded; `LoadedTable`: a table in a catalog, which can also be changed.

The public `Table` is a `LoadedTable`. `data_scan.py` reads rows; `commit_loop.py` commits changes.
Spec: Table Metadata; Snapshots; Snapshot References.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from icefloe.commit.attempt import Action
from icefloe.commit.ref_changes import snapshot_named
from icefloe.display.html import html_of
from icefloe.display.report import Facts, Report
from icefloe.display.reports_of_values import columns_grid
from icefloe.errors import InvalidInputError, visible
from icefloe.formatting import MOST_SHOWN, count_text, short_text
from icefloe.lazy_imports import lazy_module
from icefloe.operations.commit_loop import commit
from icefloe.operations.data_scan import DataScan
from icefloe.operations.location_provider import LocationProvider
from icefloe.operations.metadata_cache import LoadedMetadata, reload_metadata
from icefloe.operations.other_frames import bodo_frame, daft_frame, datafusion_provider, datafusion_table, polars_lazy_frame
from icefloe.operations.pending_change import ChangeTarget, CommitReport, MutationContext
from icefloe.operations.pyiceberg_compat import TableSnapshot, table_snapshot
from icefloe.operations.snapshot_display import SnapshotList, growth_figure
from icefloe.operations.staging import branch_to_read
from icefloe.operations.table_handle import TableHandle, data_folder, metadata_folder
from icefloe.operations.warnings_once import warn_of_properties
from icefloe.scan.server_plan import ServerPlanner
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.spec.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.table_history import SnapshotLogEntry, ancestors, snapshot_as_of
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING, WAP_ENABLED
from icefloe.spec.metadata.unused_properties import unused_properties
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import SortOrder
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.stores.metrics_report import MetricsReporter

if TYPE_CHECKING:
    from icefloe.operations import column_statistics, partition_statistics
    from icefloe.operations.change_feed import change_scan, snapshot_range
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    change_scan = lazy_module("icefloe.operations.change_feed.change_scan")
    column_statistics = lazy_module("icefloe.operations.column_statistics")
    snapshot_range = lazy_module("icefloe.operations.change_feed.snapshot_range")
    partition_statistics = lazy_module("icefloe.operations.partition_statistics")


class TableReader:
    """A table whose metadata is loaded, with the methods that read it: its metadata, its snapshots, and scans of its rows."""

    def __init__(self, loaded: LoadedMetadata, io: FileIO, full_name: str) -> None:
        self._loaded = loaded
        self.io = io
        self.planner: ServerPlanner | None = None  # the catalog's server, if it plans scans
        self.reporter: MetricsReporter | None = None  # sends metrics reports, if the catalog accepts them
        self.full_name = full_name
        if unused := unused_properties(loaded.metadata.properties):
            warn_of_properties(unused, full_name)

    @property
    def metadata(self) -> TableMetadata:
        """The table metadata as last loaded or committed."""
        return self._loaded.metadata

    @property
    def metadata_location(self) -> str:
        """The location of the metadata file that was last loaded or committed."""
        return self._loaded.location

    @property
    def state(self) -> str:
        """A text that is different for each version of the table: the location of its metadata file or, if it is unknown, values that change with commits."""
        return self._loaded.state

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties by name."""
        return self.metadata.properties

    @property
    def format_version(self) -> int:
        """The format version: 1, 2 or 3."""
        return self.metadata.format_version

    def location(self) -> str:
        """Return the table's folder."""
        return self.metadata.location

    def schema(self) -> Schema:
        """Return the current schema."""
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Return every schema by its id."""
        return {schema.schema_id: schema for schema in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        """Return the default partition spec, which new data files have."""
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        """Return every partition spec by its id."""
        return {spec.spec_id: spec for spec in self.metadata.partition_specs}

    def sort_order(self) -> SortOrder:
        """Return the default sort order, which new data files have."""
        return self.metadata.sort_order()

    def sort_orders(self) -> dict[int, SortOrder]:
        """Return every sort order by its id."""
        return {order.order_id: order for order in self.metadata.sort_orders}

    @property
    def last_sequence_number(self) -> int:
        """The highest sequence number assigned so far; 0 in format version 1."""
        return self.metadata.last_sequence_number

    def last_partition_id(self) -> int:
        """Return the highest partition field id assigned so far."""
        return self.metadata.last_partition_id

    def name_mapping(self) -> NameMapping | None:
        """Return the table's name mapping, which maps column names in files without field ids to field ids; None if the table has no name mapping."""
        return NAME_MAPPING.read(self.metadata.properties)

    def location_provider(self) -> LocationProvider:
        """Return an object that returns locations for new files of the table."""
        return LocationProvider(self.location(), data_folder(self.metadata), metadata_folder(self.metadata))

    def refs(self) -> Mapping[str, SnapshotRef]:
        """Return branches and tags by name."""
        return self.metadata.refs

    def history(self, branch: str = MAIN) -> list[SnapshotLogEntry]:
        """Return the history of a branch, oldest entry first: snapshots and the times at which they became current.

        Args:
            branch: the branch. For `main` the result is the snapshot log, including rollbacks; for another branch it is the ancestors of its head.

        Returns:
            Entries with a time in milliseconds since 1970-01-01 UTC and a snapshot id.

        Raises:
            NoSuchSnapshotError: the branch does not exist.
        """
        if branch == MAIN:
            return list(self.metadata.snapshot_log)
        entries = [SnapshotLogEntry(snapshot.timestamp_ms, snapshot.snapshot_id) for snapshot in self.ancestors(branch)]
        return entries[::-1]

    def ancestors(self, snapshot_id: int | str | None = None) -> list[TableSnapshot]:
        """Return a snapshot and its ancestors, newest first.

        Args:
            snapshot_id: a snapshot id, a branch or a tag; the current snapshot by default.

        Returns:
            The snapshots; empty for a table without a current snapshot. If `parent_snapshot_id` of the last one is None, it is the table's first snapshot;
            otherwise its parent has been expired.

        Raises:
            NoSuchSnapshotError: the snapshot, branch or tag does not exist.
        """
        if snapshot_id is None:
            start = self.metadata.current_snapshot_id
        else:
            start = snapshot_named(self.metadata, snapshot_id).snapshot_id
        snapshots = (table_snapshot(snapshot, self.metadata) for snapshot in ancestors(self.metadata, start))
        return SnapshotList(snapshots, self.full_name, newest_first=True)

    def snapshots(self) -> list[TableSnapshot]:
        """Return every snapshot in the order of the metadata, in a list that is displayed as a table."""
        return SnapshotList((table_snapshot(snapshot, self.metadata) for snapshot in self.metadata.snapshots), self.full_name)

    def current_snapshot(self) -> TableSnapshot | None:
        """Return the current snapshot, the head of `main`; None if the table has none."""
        snapshot = self.metadata.current_snapshot()
        return table_snapshot(snapshot, self.metadata) if snapshot else None

    def snapshot_by_id(self, snapshot_id: int) -> TableSnapshot | None:
        """Return the snapshot with an id; None if the table does not have it.

        Args:
            snapshot_id: the id.
        """
        snapshot = self.metadata.snapshot_by_id(snapshot_id)
        return table_snapshot(snapshot, self.metadata) if snapshot else None

    def snapshot_as_of_timestamp(self, timestamp_ms: int, inclusive: bool = True) -> TableSnapshot | None:
        """Return the snapshot that was current at a time, according to the snapshot log; None if there was none.

        Args:
            timestamp_ms: the time in milliseconds since 1970-01-01 UTC.
            inclusive: whether a snapshot that became current at exactly this time counts.
        """
        snapshot = snapshot_as_of(self.metadata, timestamp_ms if inclusive else timestamp_ms - 1)
        return table_snapshot(snapshot, self.metadata) if snapshot else None

    def snapshot_by_name(self, name: str) -> TableSnapshot | None:
        """Return the snapshot that a branch or tag refers to; None if there is no such branch or tag.

        Args:
            name: the branch or tag.
        """
        ref = self.metadata.refs.get(name)
        return self.snapshot_by_id(ref.snapshot_id) if ref else None

    def statistics_files(self) -> list[StatisticsFile]:
        """Return the statistics files of all snapshots, at most one for each snapshot. Spec: Table Statistics."""
        return list(self.metadata.statistics)

    def partition_statistics_files(self) -> list[PartitionStatisticsFile]:
        """Return the partition statistics files of all snapshots, at most one for each snapshot. Spec: Partition Statistics."""
        return list(self.metadata.partition_statistics)

    def scan(
        self,
        row_filter: str | BooleanExpression | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
        branch: str | None = None,
        tolerant: bool = False,
    ) -> DataScan:
        """Return a scan of the table, which reads nothing yet. The methods of `DataScan` narrow it and read its rows.

        Args:
            row_filter: a filter as text or expression; all rows by default.
            selected_fields: dotted names of columns; `*` is every column.
            case_sensitive: whether column names match exactly.
            snapshot_id: the snapshot to read; the current one by default.
            options: options of the scan.
            limit: the greatest number of rows.
            branch: the branch whose head is read, instead of `snapshot_id`.
            tolerant: whether violations of the format that cannot change rows, such as a wrong count in a manifest list, cause a `FormatWarning` with the id of
                the rule instead of an error.

        Returns:
            The scan; nothing is read yet.

        Raises:
            InvalidFilterError: the filter's text cannot be parsed.
            InvalidInputError: both a snapshot and a branch are given.
            NoSuchSnapshotError: the branch does not exist.
        """
        if branch is not None and snapshot_id is not None:
            raise InvalidInputError(
                f"a scan reads one snapshot, and both snapshot {snapshot_id} and branch {branch!r} are named", next_step="name one of them"
            )
        scan = DataScan(
            table_name=self.full_name,
            metadata=self.metadata,
            io=self.io,
            row_filter=AlwaysTrue() if row_filter is None else to_expression(row_filter),
            selected_fields=tuple(selected_fields),
            case_sensitive=case_sensitive,
            snapshot_id=snapshot_id,
            limit=limit,
            options=options or {},
            tolerant=tolerant,
            planner=self.planner,
            reporter=self.reporter,
        )
        if branch is None and snapshot_id is None and WAP_ENABLED.read(self.metadata.properties):
            branch = branch_to_read(self.metadata)
        return scan if branch is None else scan.use_ref(branch)

    def incremental_append_scan(
        self,
        row_filter: str | BooleanExpression | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        from_snapshot_id_exclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> DataScan:
        """Return a scan of the rows that were appended after one snapshot and up to another one; see `DataScan.appended_after`.

        Args:
            row_filter: a filter as text or expression; all rows by default.
            selected_fields: dotted names of columns; `*` is every column.
            case_sensitive: whether column names match exactly.
            from_snapshot_id_exclusive: the snapshot after which the scan begins; by default it begins with the table's first snapshot.
            to_snapshot_id_inclusive: the last snapshot whose rows are read; the current one by default.
            options: options of the scan.
            limit: the greatest number of rows.

        Returns:
            The scan; nothing is read yet.

        Raises:
            InvalidFilterError: the filter's text cannot be parsed.
            InvalidInputError: the first snapshot is not an ancestor of the second.
            NoSuchSnapshotError: the second snapshot is not in the table.
        """
        scan = self.scan(row_filter, selected_fields, case_sensitive, to_snapshot_id_inclusive, options, limit)
        return scan.appended_after(from_snapshot_id_exclusive)

    def changes(
        self,
        start: "snapshot_range.Bound | None" = None,
        end: "snapshot_range.Bound | None" = None,
        *,
        includes_start: bool = False,
        includes_end: bool = True,
        branch: str = MAIN,
        row_filter: str | BooleanExpression | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        deduplication_mode: str = "dropCarryovers",
        compute_updates: bool = False,
        identifier_columns: Sequence[str] | None = None,
    ) -> "change_scan.ChangeScan":
        """Return a scan of the rows that snapshots inserted, deleted and updated, which reads nothing yet; `to_arrow()` reads them.

        Args:
            start: the snapshot after which the changes begin: a snapshot id, a branch or tag, or a `datetime` with a time zone. By default they begin with the
                table's first snapshot, or the oldest that is not expired.
            end: the last snapshot, as `start`; by default the newest one of `branch`. The range has the ancestors of this snapshot.
            includes_start: whether the changes of `start` itself are in the range.
            includes_end: whether the changes of `end` itself are in the range.
            branch: the branch whose changes are read, if `end` is a time or not given.
            row_filter: a filter on columns of the table, as text or expression; all rows by default.
            selected_fields: names of columns of the table, of `_change_type`, `_change_ordinal` and `_commit_snapshot_id`, and of metadata columns such as
                `_row_id`; `*` is every column of the table and the three columns of the change.
            case_sensitive: whether column names match exactly.
            deduplication_mode: `dropCarryovers` leaves out rows that a snapshot only copied to another file; `netChanges` also leaves out changes that later
                changes of the range undo; `none` leaves out nothing.
            compute_updates: whether a deleted and an inserted row with the same identity become UPDATE_BEFORE and UPDATE_AFTER.
            identifier_columns: names of the columns that identify a row, dotted inside of structs. By default rows are identified by their row ids in format
                version 3, and then by the table's identifier fields.

        Returns:
            The scan.

        Raises:
            InvalidFilterError: the filter's text cannot be parsed.
            InvalidInputError: the start is not an ancestor of the end, snapshots of the range are expired, or the mode does not exist.
            NoSuchSnapshotError: a snapshot, branch or tag does not exist.
        """
        return change_scan.ChangeScan(
            table_name=self.full_name,
            metadata=self.metadata,
            io=self.io,
            snapshots=snapshot_range.snapshots_in_range(
                self.metadata, self.full_name, start, end, includes_start=includes_start, includes_end=includes_end, branch=branch
            ),
            row_filter=AlwaysTrue() if row_filter is None else to_expression(row_filter),
            selected_fields=tuple(selected_fields),
            case_sensitive=case_sensitive,
            deduplication=change_scan.deduplication_named(deduplication_mode),
            computes_updates=compute_updates,
            identifier_columns=None if identifier_columns is None else tuple(identifier_columns),
        )

    def statistics(self, snapshot_id: int | None = None) -> "column_statistics.TableStatistics | None":
        """Return the content of a snapshot's statistics file: the numbers of distinct values of columns, and other blobs.

        Args:
            snapshot_id: the snapshot; by default the newest one with statistics, among the current snapshot and its ancestors.

        Returns:
            The statistics; None if there are none.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        return column_statistics.read_statistics(self.metadata, self.io, self.full_name, snapshot_id)

    def partition_statistics(self, snapshot_id: int | None = None) -> Any:
        """Return the partition statistics of a snapshot.

        Args:
            snapshot_id: the snapshot; by default the newest one with partition statistics, among the current snapshot and its ancestors.

        Returns:
            A `pyarrow.Table` with one row for each partition; None if there are no partition statistics.

        Raises:
            NoSuchSnapshotError: the snapshot does not exist.
            NoSuchFileError: the file that the metadata names does not exist.
            DataFileFormatError: the file is damaged, or has a wrong format.
        Spec: Partition Statistics File, for the columns.
        """
        return partition_statistics.read_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id)

    def to_polars(self) -> Any:
        """Return the table as a `polars.LazyFrame`. When a query is collected, it reads only the rows and columns that the query needs.

        Raises:
            NotInstalledError: polars is not installed.
        """
        return polars_lazy_frame(self.scan())

    def to_daft(self) -> Any:
        """Return the rows as a Daft DataFrame, read in this process.

        Raises:
            NotInstalledError: daft is not installed.
        """
        return daft_frame(self.scan())

    def to_bodo(self) -> Any:
        """Return the rows as a Bodo DataFrame, read in this process.

        Raises:
            NotInstalledError: bodo is not installed.
        """
        return bodo_frame(self.scan())

    def __datafusion_table_provider__(self, session: Any = None) -> Any:
        """Return the table as a DataFusion table provider that reads the files with the package pyiceberg-core.

        `SessionContext().register_table("t", table)` calls this method, unless `_inner` shows that Icefloe has to read the rows.

        Args:
            session: the session that DataFusion passes.

        Raises:
            NotInstalledError: pyiceberg-core is not installed.
        """
        return datafusion_provider(self, session)

    @property
    def _inner(self) -> Any:
        """A DataFusion object that reads the rows with Icefloe, for tables that pyiceberg-core cannot read. DataFusion reads this attribute first."""
        return datafusion_table(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableReader) and (self.full_name, self.state) == (other.full_name, other.state)

    def __hash__(self) -> int:
        return hash((self.full_name, self.state))

    def __repr__(self) -> str:
        fields = self.schema().fields
        columns = "".join(f"\n  {short_text(str(field))}" for field in fields[:MOST_SHOWN])
        if len(fields) > MOST_SHOWN:
            columns += f"\n  … and {len(fields) - MOST_SHOWN:,} more columns"
        snapshot = self.metadata.current_snapshot()
        current = f"snapshot {snapshot.snapshot_id}, {snapshot.summary.get('operation', '?')}" if snapshot else "no snapshot yet"
        return visible(f"{self.full_name}({columns}\n)\npartition by: {self.spec()}\nsort order: {self.sort_order()}\n{current}")

    def _repr_html_(self) -> str:
        snapshot = self.metadata.current_snapshot()
        partitioning = ", ".join(
            partition_text(str(field.transform), source_name(self.metadata, field.source_id)) for field in self.spec().fields
        )
        facts = Facts(
            (
                ("format version", str(self.format_version)),
                ("location", short_text(self.location())),
                ("partitioned by", short_text(partitioning or "nothing")),
                ("sorted by", short_text(", ".join(sort_texts(self.metadata)) or "nothing")),
                ("snapshots", count_text(len(self.metadata.snapshots))),
                ("current snapshot", str(snapshot.snapshot_id) if snapshot else "none yet"),
            )
        )
        growth = growth_figure(self.metadata.snapshots[-MOST_SHOWN:], self.full_name)
        parts = (facts, *(() if growth is None else (growth,)), columns_grid(self.schema(), "columns"))
        return html_of(Report(short_text(self.full_name), parts))


def partition_text(transform: str, source: str) -> str:
    """Return a partition field as text in the form that `create_table` accepts, such as `kind` or `month(time)`."""
    return source if transform == "identity" else f"{transform}({source})"


def sort_texts(metadata: TableMetadata) -> tuple[str, ...]:
    """Return the keys of the default sort order as texts, such as `identity(id)`, in order."""
    return tuple(f"{key.transform}({source_name(metadata, key.source_id)})" for key in metadata.sort_order().fields)


def source_name(metadata: TableMetadata, field_id: int) -> str:
    """Return the dotted name of a column by its field id; for a dropped column its last name."""
    for schema in (metadata.schema(), *reversed(metadata.schemas)):
        name = schema.find_column_name(field_id)
        if name is not None:
            return name
    return f"column {field_id}"


class LoadedTable(TableReader, ChangeTarget):
    """A table in a catalog, which can be read and changed. After a commit the object has the committed metadata; `refresh()` loads other writers' commits."""

    def __init__(self, handle: TableHandle, loaded: LoadedMetadata) -> None:
        super().__init__(loaded, handle.io, handle.table_name)
        self._handle = handle
        self.planner = handle.planner
        self.reporter = handle.reporter()

    @property
    def handle(self) -> TableHandle:
        """The table's entry in its catalog store, and the storage of its files."""
        return self._handle

    def name(self) -> Identifier:
        """Return the levels of the namespace, followed by the table's name."""
        return self._handle.identifier

    def refresh(self) -> Self:
        """Load the current metadata of the table from the catalog.

        Returns:
            This table.

        Raises:
            NoSuchTableError: the table was dropped, or another table has its name now.
        """
        self._loaded = reload_metadata(self._handle, self.metadata)
        return self

    def mutation_context(self) -> MutationContext:
        """Return the state on which the next change is based: the table's metadata as last loaded, and its entry in the catalog store."""
        return MutationContext(handle=self._handle, metadata=self._loaded.metadata, metadata_location=self._loaded.location)

    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:
        """Commit an action at once, then call `afterwards`.

        Args:
            action: the action.
            afterwards: a function that is called after the commit.

        Returns:
            The committed metadata, the last attempt, and the number of attempts.

        Raises:
            CommitConflictError, CommitInvalidatedError, CommitUnknownError: see `commit_loop.commit`.
        """
        report = commit(self._handle, action, self._loaded)
        self._loaded = report.loaded
        if afterwards is not None:
            afterwards()
        return report
