"""`Table`: one Iceberg table as its users hold it, and `TableReader`, what can be read of it. `static_table.py` is the same by a metadata file alone.

It joins the pointer, the files and the kernel's rules; what each operation does is in `scan.py`, `writes.py` and `commit_loop.py`. Floor: table.
Spec: Table Metadata; Snapshots.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.change_properties import (
    property_requirements,
    remove_property_updates,
    set_property_updates,
    version_updates,
)
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.expressions.parse import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.history import SnapshotLogEntry
from icefloe.kernel.metadata.snapshot_ref import SnapshotRef
from icefloe.kernel.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema
from icefloe.pointer.identifier import Identifier
from icefloe.table.commit_loop import commit
from icefloe.table.handle import LoadedMetadata, TableHandle, reload_metadata
from icefloe.table.levels import TableSnapshot, table_snapshot
from icefloe.table.partition_statistics import compute_partition_statistics, read_partition_statistics
from icefloe.table.result import WriteResult
from icefloe.table.scan import DataScan
from icefloe.table.statistics import TableStatistics, compute_statistics, read_statistics
from icefloe.table.transaction import Transaction
from icefloe.table.update_layout import UpdateSortOrder, UpdateSpec
from icefloe.table.update_schema import UpdateSchema
from icefloe.table.update_statistics import UpdateStatistics
from icefloe.table.writes import PreparedWrite, append, delete_keys, replace_rows


class TableReader:
    """All that can be read of a table whose metadata is at hand."""

    def __init__(self, loaded: LoadedMetadata, io: FileIO, full_name: str) -> None:
        self._loaded = loaded
        self.io = io
        self.full_name = full_name

    @property
    def metadata(self) -> TableMetadata:
        """The table metadata as last loaded or committed."""
        return self._loaded.metadata

    @property
    def metadata_location(self) -> str:
        """Where that metadata lies."""
        return self._loaded.location

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    def location(self) -> str:
        """The table's folder."""
        return self.metadata.location

    def schema(self) -> Schema:
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        """Every schema by its id."""
        return {schema.schema_id: schema for schema in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        """Every partition spec by its id."""
        return {spec.spec_id: spec for spec in self.metadata.partition_specs}

    def sort_order(self) -> SortOrder:
        return self.metadata.sort_order()

    def refs(self) -> Mapping[str, SnapshotRef]:
        """Branches and tags by name."""
        return self.metadata.refs

    def history(self) -> list[SnapshotLogEntry]:
        """The snapshot log: when which snapshot became current, oldest first."""
        return list(self.metadata.snapshot_log)

    def snapshots(self) -> list[TableSnapshot]:
        """Every snapshot, in the order of the metadata."""
        return [table_snapshot(snapshot, self.metadata) for snapshot in self.metadata.snapshots]

    def current_snapshot(self) -> TableSnapshot | None:
        """The snapshot of `main`; None for a table that was never written."""
        snapshot = self.metadata.current_snapshot()
        return table_snapshot(snapshot, self.metadata) if snapshot else None

    def snapshot_by_id(self, snapshot_id: int) -> TableSnapshot | None:
        snapshot = self.metadata.snapshot_by_id(snapshot_id)
        return table_snapshot(snapshot, self.metadata) if snapshot else None

    def snapshot_by_name(self, name: str) -> TableSnapshot | None:
        """The snapshot a branch or tag names."""
        ref = self.metadata.refs.get(name)
        return self.snapshot_by_id(ref.snapshot_id) if ref else None

    def statistics_files(self) -> list[StatisticsFile]:
        """The statistics files of snapshots, at most one each. Spec: Table Statistics."""
        return list(self.metadata.statistics)

    def partition_statistics_files(self) -> list[PartitionStatisticsFile]:
        """The partition statistics files of snapshots, at most one each. Spec: Partition Statistics."""
        return list(self.metadata.partition_statistics)

    def scan(
        self,
        row_filter: str | BooleanExpression | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        snapshot_id: int | None = None,
        options: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> DataScan:
        """A read of the table; see `DataScan` for what can be done with it.

        Raises:
            InvalidFilterError: the filter's text cannot be understood.
        """
        return DataScan(
            table_name=self.full_name,
            metadata=self.metadata,
            io=self.io,
            row_filter=AlwaysTrue() if row_filter is None else to_expression(row_filter),
            selected_fields=tuple(selected_fields),
            case_sensitive=case_sensitive,
            snapshot_id=snapshot_id,
            limit=limit,
            options=options or {},
        )

    def statistics(self, snapshot_id: int | None = None) -> TableStatistics | None:
        """How many distinct values columns have, and whatever else statistics files tell: of a snapshot, or of the newest that has them; None for none.

        Raises:
            NoSuchSnapshotError: the snapshot is not in the table.
        """
        return read_statistics(self.metadata, self.io, self.full_name, snapshot_id)

    def partition_statistics(self, snapshot_id: int | None = None) -> Any:
        """A `pyarrow.Table` of one row for each partition: of a snapshot, or of the newest that has such statistics; None where there are none.

        Raises:
            NoSuchSnapshotError, NoSuchFileError, DataFileFormatError
        Spec: Partition Statistics File, for the columns.
        """
        return read_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableReader) and (self.full_name, self.metadata_location) == (other.full_name, other.metadata_location)

    def __hash__(self) -> int:
        return hash((self.full_name, self.metadata_location))

    def __repr__(self) -> str:
        columns = "".join(f"\n  {field}" for field in self.schema().fields)
        snapshot = self.metadata.current_snapshot()
        shown = f"snapshot {snapshot.snapshot_id}, {snapshot.summary.get('operation', '?')}" if snapshot else "no snapshot yet"
        return f"{self.full_name}({columns}\n)\npartition by: {self.spec()}\nsort order: {self.sort_order()}\n{shown}"


class Table(TableReader):
    """A table in a catalog. After a write the object holds the newest metadata it committed; `refresh()` sees other writers' commits."""

    def __init__(self, handle: TableHandle, loaded: LoadedMetadata) -> None:
        super().__init__(loaded, handle.io, handle.table_name)
        self._handle = handle

    @property
    def handle(self) -> TableHandle:
        """Where the table's pointer is kept."""
        return self._handle

    def name(self) -> Identifier:
        """The namespace levels and the table's name."""
        return self._handle.identifier

    def refresh(self) -> "Table":
        """Loads the metadata the catalog names now. Raises `NoSuchTableError` where the table was dropped, or another has its name now."""
        self._loaded = reload_metadata(self._handle, self.metadata)
        return self

    def append(self, df: Any, snapshot_properties: Mapping[str, str] | None = None) -> WriteResult:
        """Adds rows: a Spark DataFrame (written by Spark) or Arrow or pandas data (written in this process).

        Columns are matched by name; a missing optional column is null.

        Raises:
            SchemaMismatchError: the rows do not fit; every column that does not is named. Nothing is written.
            CommitConflictError: other writers won every retry. Nothing of this write is left.
            CommitUnknownError: the catalog's answer was lost. Nothing is deleted.
        """
        return self._write(append(self._handle, self.metadata, df, snapshot_properties or {}))

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
    ) -> WriteResult:
        """Deletes the rows for which the filter is true. Files it covers are dropped whole.

        Of other files the table's `write.delete.mode` decides: `copy-on-write` copies them without the rows; `merge-on-read` writes down which rows are gone,
        in position delete files (format version 2) or deletion vectors (3).

        Raises:
            InvalidFilterError: an unknown column, or a value that cannot be compared with it.
            UnsupportedFeatureError: rows are to be marked in a table of format version 1.
        """
        return self._replace(None, delete_filter, snapshot_properties, case_sensitive)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
    ) -> WriteResult:
        """Deletes the rows for which the filter is true (all, by default) and adds `df`, in one snapshot. Raises as `append` and `delete` do."""
        return self._replace(df, overwrite_filter, snapshot_properties, case_sensitive)

    def delete_keys(
        self, rows: Any, key_columns: Sequence[str] | None = None, snapshot_properties: Mapping[str, str] | None = None
    ) -> WriteResult:
        """Deletes the rows whose key columns equal those of one of `rows`, without reading the table. Null equals null.

        Rows are Arrow or pandas data, or a Spark DataFrame, whose keys come to this process.

        The key columns are the table's identifier fields where none are named. Readers look for the keys in every file that may hold them, so that such deletes
        are quick to write and slow to read: they are for streams of changes, until files are rewritten. Format versions 2 and 3.

        Raises:
            InvalidInputError: no key columns, or one that cannot be one: a float, double or nested column, or one inside a list or map.
            SchemaMismatchError: the rows lack a key column, or their values do not fit.
            UnsupportedFeatureError: the table is of format version 1.
        """
        return self._write(delete_keys(self._handle, self.metadata, rows, key_columns, snapshot_properties or {}))

    def update_statistics(self) -> UpdateStatistics:
        """Which statistics files snapshots have: `with table.update_statistics() as update: update.set_statistics(statistics_file)`."""
        return UpdateStatistics(self.metadata, self._commit)

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        """Changes of the columns, committed together: `with table.update_schema() as update: update.add_column("note", StringType())`."""
        return UpdateSchema(
            self.metadata,
            self._commit,
            allow_incompatible_changes=allow_incompatible_changes,
            case_sensitive=case_sensitive,
        )

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """Changes of the partition spec, committed together: `with table.update_spec() as update: update.add_field("ts", "day")`."""
        return UpdateSpec(self.metadata, self._commit, case_sensitive=case_sensitive)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """A new sort order in place of the table's: `with table.update_sort_order() as update: update.asc("ts").desc("id")`."""
        return UpdateSortOrder(self.metadata, self._commit, case_sensitive=case_sensitive)

    def replace_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """The same as `update_sort_order`, under Java's name."""
        return self.update_sort_order(case_sensitive)

    def transaction(self) -> Transaction:
        """Several changes of rows and metadata as one commit: `with table.transaction() as tx: tx.delete("day = 3"); tx.append(rows)`."""
        return Transaction(self.metadata, self._commit, self._handle)

    def upgrade_table_version(self, format_version: int) -> None:
        """Raises the table's format version. From 3 on rows have ids: those that are there get theirs with the next snapshot.

        Raises:
            InvalidInputError: a lower version than the table's.
            UnsupportedFormatVersionError: a version that Icefloe does not write.
        """
        new_uuid = self._handle.ids.uuid()
        self._commit(MetadataChange(lambda base: version_updates(base, format_version, new_uuid), property_requirements(self.metadata)))

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Sets table properties, others stay; `format-version` upgrades the table.

        Raises:
            InvalidPropertyError: a property that Icefloe acts on is not what it may be; each wrong one is listed.
        """
        given, new_uuid = {**(properties or {}), **more}, self._handle.ids.uuid()
        self._commit(MetadataChange(lambda base: set_property_updates(base, given, new_uuid), property_requirements(self.metadata)))

    def remove_properties(self, *names: str) -> None:
        """Removes table properties; names that are not there are no error."""
        self._commit(MetadataChange(lambda base: remove_property_updates(base, names), property_requirements(self.metadata)))

    def compute_statistics(self, columns: Sequence[str] | None = None, snapshot_id: int | None = None) -> TableStatistics | None:
        """Counts the distinct values of columns in a snapshot (the current one by default) and keeps them as its statistics, for planners of joins.

        All top-level columns of primitive types by default; fields of structs by dotted name. The columns are read in this process, in a stream. What was
        counted before of other columns of the snapshot is kept. None for a table without a snapshot.

        Raises:
            InvalidSchemaError: a column is not there.
            InvalidInputError: a column is no primitive, or within a list or map.
            NoSuchSnapshotError, CommitConflictError, CommitUnknownError
        Spec: Table Statistics; Puffin file format.
        """
        snapshot = self.metadata.current_snapshot() if snapshot_id is None else None
        scan = self.scan(snapshot_id=snapshot.snapshot_id if snapshot else snapshot_id)
        file = compute_statistics(scan, columns, self._handle.ids, self._commit)
        return None if file is None else self.statistics(file.snapshot_id)

    def compute_partition_statistics(self, snapshot_id: int | None = None) -> Any:
        """Counts rows, files and deletes of each partition of a snapshot (the current one by default) and keeps them as its partition statistics.

        Only manifests are read, and only those since the nearest ancestor that has partition statistics. Returns the rows, as `partition_statistics` does;
        None for a table without a snapshot.

        Raises:
            InvalidInputError: the table was never partitioned.
            NoSuchSnapshotError, CommitConflictError, CommitUnknownError
        Spec: Partition Statistics.
        """
        file = compute_partition_statistics(self.metadata, self.io, self.full_name, snapshot_id, self._handle.ids, self._commit)
        return None if file is None else self.partition_statistics(file.snapshot_id)

    def _commit(self, action: Action) -> None:
        self._loaded = commit(self._handle, action, self._loaded).loaded

    def _write(self, write: PreparedWrite) -> WriteResult:
        report = commit(self._handle, write.action, self._loaded)
        self._loaded = report.loaded
        return write.result(report)

    def _replace(
        self, rows: Any, row_filter: str | BooleanExpression, snapshot_properties: Mapping[str, str] | None, case_sensitive: bool
    ) -> WriteResult:
        if row_filter is None:  # a variable that was never set must not empty a table
            raise InvalidInputError(
                f"no filter was given of the rows of {self.full_name} that are to be deleted",
                next_step="pass a filter, or TRUE for all rows",
            )
        expression = to_expression(row_filter)
        return self._write(
            replace_rows(self._handle, self.metadata, rows, expression, snapshot_properties or {}, case_sensitive=case_sensitive)
        )
