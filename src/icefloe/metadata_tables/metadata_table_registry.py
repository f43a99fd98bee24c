"""Metadata tables by name: their names, their schemas, and their rows as Arrow.

    from icefloe.metadata_tables.metadata_table_registry import metadata_table
    metadata_table(table, "files").to_arrow(columns=["file_path", "record_count"])

Spec: Snapshots; Manifests; Manifest Lists.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.display.html import html_of
from icefloe.display.report import Report
from icefloe.display.reports_of_values import columns_grid
from icefloe.errors import InvalidInputError, in_one_line
from icefloe.formatting import short_text
from icefloe.metadata_tables import schemas
from icefloe.metadata_tables.changes import current_changes
from icefloe.metadata_tables.deleted_positions import position_delete_rows
from icefloe.metadata_tables.file_tables import ManifestRows, all_entry_rows, all_file_rows, entry_rows, file_rows
from icefloe.metadata_tables.manifest_rows import all_manifest_rows, manifest_rows
from icefloe.metadata_tables.partitions_rows import partition_rows
from icefloe.metadata_tables.request import Request
from icefloe.metadata_tables.snapshot_rows import history_rows, metadata_log_rows, ref_rows, snapshot_rows
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.other_frames import pandas_frame
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The definition of a metadata table.

    Attributes:
        schema: Returns the metadata table's schema, given the metadata of a table.
        rows: Returns the rows for a request, as a `pyarrow.Table` or as `ManifestRows`.
        of_one_snapshot: Whether the rows describe one snapshot; False if they describe the whole table.
        takes_filter: Whether `rows` uses the row filter of the request.
    """

    schema: Callable[[TableMetadata], Schema]
    rows: Callable[[Request], Any]
    of_one_snapshot: bool = False
    takes_filter: bool = False


_KINDS: Mapping[str, _Kind] = {
    "entries": _Kind(schemas.entries_schema, entry_rows, of_one_snapshot=True, takes_filter=True),
    "files": _Kind(schemas.files_schema, file_rows(*FileContent), of_one_snapshot=True, takes_filter=True),
    "data_files": _Kind(schemas.files_schema, file_rows(FileContent.DATA), of_one_snapshot=True, takes_filter=True),
    "delete_files": _Kind(schemas.files_schema, file_rows(*_DELETES), of_one_snapshot=True, takes_filter=True),
    "history": _Kind(schemas.history_schema, history_rows),
    "metadata_log_entries": _Kind(schemas.metadata_log_schema, metadata_log_rows),
    "snapshots": _Kind(schemas.snapshots_schema, snapshot_rows),
    "refs": _Kind(schemas.refs_schema, ref_rows),
    "manifests": _Kind(schemas.manifests_schema, manifest_rows, of_one_snapshot=True),
    "partitions": _Kind(schemas.partitions_schema, partition_rows, of_one_snapshot=True, takes_filter=True),
    "all_data_files": _Kind(schemas.files_schema, all_file_rows(FileContent.DATA), takes_filter=True),
    "all_delete_files": _Kind(schemas.files_schema, all_file_rows(*_DELETES), takes_filter=True),
    "all_files": _Kind(schemas.files_schema, all_file_rows(*FileContent), takes_filter=True),
    "all_manifests": _Kind(schemas.all_manifests_schema, all_manifest_rows, takes_filter=True),
    "all_entries": _Kind(schemas.entries_schema, all_entry_rows, takes_filter=True),
    "position_deletes": _Kind(schemas.position_deletes_schema, position_delete_rows, of_one_snapshot=True),
    "changes": _Kind(schemas.changes_schema, current_changes, of_one_snapshot=True),
}
# The names of the metadata tables: Java's, in Java's order, then `changes`.
METADATA_TABLES: tuple[str, ...] = tuple(_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MetadataTable:
    """One metadata table of a loaded table. `schema` has the columns of Java's metadata table. Each call of `to_arrow` or `to_pandas` reads the rows again."""

    name: str
    schema: Schema
    table: TableReader

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, row_filter: BooleanExpression | None = None, snapshot_id: int | None = None
    ) -> Any:
        """Return the rows as a `pyarrow.Table`.

        Args:
            columns: Names of top-level columns; None for all. The result has the order of the schema.
            row_filter: A filter on the columns of `schema`. It is used only to read less: rows that do not match may be returned.
            snapshot_id: The snapshot; None for the current one.

        Raises:
            InvalidInputError: A column does not exist, or `snapshot_id` is given for a metadata table that does not describe a single snapshot.
            InvalidFilterError: The filter names a column that does not exist, or compares it with a value of another type.
            NoSuchSnapshotError: The snapshot does not exist.
            NoSuchFileError: A manifest list, manifest or delete file does not exist.
            FormatError: A manifest list, manifest or delete file is damaged.
        """
        rows_or_manifests = self.rows(columns=columns, row_filter=row_filter, snapshot_id=snapshot_id)
        rows = rows_or_manifests.arrow() if isinstance(rows_or_manifests, ManifestRows) else rows_or_manifests
        return rows if columns is None else rows.select([name for name in rows.column_names if name in columns])

    def to_pandas(
        self, *, columns: Sequence[str] | None = None, row_filter: BooleanExpression | None = None, snapshot_id: int | None = None
    ) -> Any:
        """Return the rows as a `pandas.DataFrame`.

        Args:
            columns: As `to_arrow`.
            row_filter: As `to_arrow`.
            snapshot_id: As `to_arrow`.

        Raises:
            NotInstalledError: pandas is not installed.
            IcefloeError: As `to_arrow`.
        """
        return pandas_frame(self.to_arrow(columns=columns, row_filter=row_filter, snapshot_id=snapshot_id))

    def __repr__(self) -> str:
        columns = short_text(", ".join(self.schema.names))
        return in_one_line(f"MetadataTable({self.name} of {self.table.full_name}: {columns}; to_pandas() and to_arrow() read its rows)")

    def _repr_html_(self) -> str:
        title = f"metadata table {self.name} of {self.table.full_name}"
        return html_of(Report(short_text(title), (columns_grid(self.schema, "columns; to_pandas() and to_arrow() read its rows"),)))

    def rows(
        self, *, columns: Sequence[str] | None = None, row_filter: BooleanExpression | None = None, snapshot_id: int | None = None
    ) -> Any:
        """Return the rows without reading manifests yet if possible.

        The rows of tables of files and entries are `ManifestRows`, whose method `arrow` reads the manifests; all other rows are a `pyarrow.Table`. If no column
        is requested, the rows have one column, so that they can be counted.

        Args:
            columns: As `to_arrow`.
            row_filter: As `to_arrow`.
            snapshot_id: As `to_arrow`.

        Raises:
            IcefloeError: As `to_arrow`; errors of manifests are raised when the rows are read.
        """
        if columns is not None and not columns:
            # An Arrow table without columns has no row count. The spec id is the cheapest column to read.
            columns = ["spec_id" if "spec_id" in self.schema.names else self.schema.names[0]]
        kind = _KINDS[self.name]
        if snapshot_id is not None and not kind.of_one_snapshot:
            raise InvalidInputError(
                f"the metadata table {self.name} of {self.table.full_name} is about all snapshots, so it cannot be read at snapshot {snapshot_id}",
                table=self.table.full_name,
                snapshot_id=snapshot_id,
                next_step="omit the snapshot, and filter the rows",
            )
        use_filter = row_filter is not None and kind.takes_filter
        request = Request(
            table=self.table,
            schema=self._select_columns(columns),
            whole_schema=self.schema,
            row_filter=bind(row_filter, self.schema) if row_filter is not None and use_filter else AlwaysTrue(),
            snapshot=self.table.scan(snapshot_id=snapshot_id).snapshot() if kind.of_one_snapshot else None,
        )
        return kind.rows(request)

    def _select_columns(self, columns: Sequence[str] | None) -> Schema:
        if columns is None:
            return self.schema
        unknown = [name for name in columns if name not in self.schema.names]
        if unknown:
            raise InvalidInputError(
                f"the metadata table {self.name} of {self.table.full_name} has no column {unknown[0]!r}",
                table=self.table.full_name,
                next_step=f"its columns are {', '.join(self.schema.names)}",
            )
        return Schema(*(field for field in self.schema.fields if field.name in columns))


def metadata_table(table: TableReader, name: str) -> MetadataTable:
    """Return a metadata table by its name.

    Args:
        table: The table.
        name: One of `METADATA_TABLES`.

    Raises:
        InvalidInputError: No metadata table has this name.
    """
    if name not in _KINDS:
        raise InvalidInputError(
            f"{table.full_name} has no metadata table {name!r}", table=table.full_name, next_step=f"use one of {', '.join(METADATA_TABLES)}"
        )
    return MetadataTable(name=name, schema=_KINDS[name].schema(table.metadata), table=table)
