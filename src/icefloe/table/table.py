"""`Table`: one Iceberg table as its users hold it, and `StaticTable`, the same by a metadata file alone and read-only.

It joins the pointer, the files and the kernel's rules; what each operation does is in `scan.py`, `writes.py` and `commit_loop.py`. Floor: table.
Spec: Table Metadata; Snapshots.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.errors import ReadOnlyTableError
from icefloe.io.choose import load_file_io
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.change_properties import property_requirements, remove_property_updates, set_property_updates
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.expressions.parse import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.history import SnapshotLogEntry
from icefloe.kernel.metadata.snapshot_ref import SnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.sort_order import SortOrder
from icefloe.kernel.ports import FileIO
from icefloe.kernel.schema.schema import Schema
from icefloe.pointer.identifier import Identifier
from icefloe.table.commit_loop import commit
from icefloe.table.handle import LoadedMetadata, TableHandle, load_metadata, read_metadata_at
from icefloe.table.levels import TableSnapshot, table_snapshot
from icefloe.table.result import WriteResult
from icefloe.table.scan import DataScan
from icefloe.table.statistics import TableStatistics, compute_statistics, read_statistics
from icefloe.table.transaction import Transaction
from icefloe.table.update_layout import UpdateSortOrder, UpdateSpec
from icefloe.table.update_schema import UpdateSchema
from icefloe.table.writes import append, replace_rows


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
        """Loads the metadata the catalog names now. Raises `NoSuchTableError` where the table was dropped."""
        self._loaded = load_metadata(self._handle)
        return self

    def append(self, df: Any, snapshot_properties: Mapping[str, str] | None = None) -> WriteResult:
        """Adds rows: a Spark DataFrame (written by Spark) or Arrow or pandas data (written in this process).

        Columns are matched by name; a missing optional column is null.

        Raises:
            SchemaMismatchError: the rows do not fit; every column that does not is named. Nothing is written.
            CommitConflictError: other writers won every retry. Nothing of this write is left.
            CommitUnknownError: the catalog's answer was lost. Nothing is deleted.
        """
        report, result = append(self._handle, self._loaded, df, snapshot_properties or {})
        self._loaded = report.loaded
        return result

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
    ) -> WriteResult:
        """Deletes the rows for which the filter is true, by copy-on-write: files it covers are dropped whole, others copied without the rows.

        Raises:
            InvalidFilterError: an unknown column, or a value that cannot be compared with it.
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
        """Several changes as one commit: `with table.transaction() as tx: tx.upgrade_table_version(2); tx.set_properties(owner="me")`."""
        return Transaction(self.metadata, self._commit, self._handle.clock, self.io, self._handle.ids)

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

    def _commit(self, action: Action) -> None:
        self._loaded = commit(self._handle, action, self._loaded).loaded

    def _replace(
        self, rows: Any, row_filter: str | BooleanExpression, snapshot_properties: Mapping[str, str] | None, case_sensitive: bool
    ) -> WriteResult:
        report, result = replace_rows(
            self._handle, self._loaded, rows, to_expression(row_filter), snapshot_properties or {}, case_sensitive=case_sensitive
        )
        self._loaded = report.loaded
        return result


class StaticTable(TableReader):
    """A table opened by its metadata file, with no catalog: it never changes and cannot be written."""

    @classmethod
    def from_metadata(cls, metadata_location: str, properties: Mapping[str, str] | None = None) -> "StaticTable":
        """Opens any Iceberg table by the location of a metadata file.

        Raises:
            NoSuchFileError, MetadataFormatError, UnsupportedFormatVersionError
        """
        io = load_file_io(properties or {}, metadata_location)
        loaded = read_metadata_at(io, metadata_location)
        return cls(loaded, io, loaded.metadata.location.rstrip("/").rpartition("/")[2] or metadata_location)

    def refresh(self) -> "StaticTable":
        """Raises `ReadOnlyTableError`: a metadata file never changes."""
        raise self._read_only("refreshed")

    def append(self, *_rows: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def delete(self, *_filter: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def overwrite(self, *_rows: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def update_schema(self, *_options: Any, **_more: Any) -> UpdateSchema:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def update_spec(self, *_options: Any, **_more: Any) -> UpdateSpec:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def update_sort_order(self, *_options: Any, **_more: Any) -> UpdateSortOrder:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def replace_sort_order(self, *_options: Any, **_more: Any) -> UpdateSortOrder:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def transaction(self) -> Transaction:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def set_properties(self, *_properties: Any, **_more: Any) -> None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def remove_properties(self, *_names: str) -> None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def compute_statistics(self, *_columns: Any, **_options: Any) -> TableStatistics | None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def _read_only(self, verb: str) -> ReadOnlyTableError:
        return ReadOnlyTableError(
            f"a table opened by its metadata file cannot be {verb}",
            path=self.metadata_location,
            next_step="open it through its catalog, or register it in one with catalog.register_table(name, metadata_location)",
        )
