"""The metadata tables by name: which there are, their schemas, and their rows as Arrow.

    from icefloe.inspect.metadata_tables.metadata_table_registry import metadata_table
    metadata_table(table, "files").arrow(columns=["file_path", "record_count"])

Spec: Snapshots; Manifests; Manifest Lists.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.inspect.metadata_tables import schemas
from icefloe.inspect.metadata_tables.changes import current_changes
from icefloe.inspect.metadata_tables.deleted_positions import position_delete_rows
from icefloe.inspect.metadata_tables.file_tables import ManifestRows, all_entry_rows, all_file_rows, entry_rows, file_rows
from icefloe.inspect.metadata_tables.manifest_rows import all_manifest_rows, manifest_rows
from icefloe.inspect.metadata_tables.partitions_rows import partition_rows
from icefloe.inspect.metadata_tables.request import Request
from icefloe.inspect.metadata_tables.snapshot_rows import history_rows, metadata_log_rows, ref_rows, snapshot_rows
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.schema.schema import Schema
from icefloe.table.table_reader import TableReader

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How the rows of a metadata table are made, as Arrow or as those of manifests.

    `of_one_snapshot`: they are of one snapshot; others tell of the table as it is, whatever its snapshots.
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
# Their names in Java's order; `changes` comes after them.
METADATA_TABLES: tuple[str, ...] = tuple(_KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTable:
    """One metadata table of a table as it was loaded. `schema` has Java's columns; its rows are made anew by every `arrow`."""

    name: str
    schema: Schema
    table: TableReader

    def arrow(
        self, *, columns: Sequence[str] | None = None, row_filter: BooleanExpression | None = None, snapshot_id: int | None = None
    ) -> Any:
        """The rows as a `pyarrow.Table` of these top-level columns, all by default, in the schema's order.

        The filter, on the columns of `schema`, says which rows need not be read: rows that it does not match may still be there. `snapshot_id` is the snapshot
        that is looked at, the current one by default.

        Raises:
            InvalidInputError: there is no such column, or the metadata table is of all snapshots and one was asked for.
            InvalidFilterError: the filter names no column of the metadata table, or compares it with what it cannot be.
            NoSuchSnapshotError: the snapshot is not in the table.
            NoSuchFileError, FormatError: a manifest list, manifest or delete file is gone or damaged.
        """
        found = self.rows(columns=columns, row_filter=row_filter, snapshot_id=snapshot_id)
        rows = found.arrow() if isinstance(found, ManifestRows) else found
        return rows if columns is None else rows.select([name for name in rows.column_names if name in columns])

    def rows(
        self, *, columns: Sequence[str] | None = None, row_filter: BooleanExpression | None = None, snapshot_id: int | None = None
    ) -> Any:
        """The rows as `arrow` has them, with a column more where none is asked for; as `ManifestRows`, not made yet, of tables about files and entries.

        Raises: as `arrow`; of manifests only once the rows are made.
        """
        if columns is not None and not columns:
            # Arrow's tables lose their length with their last column; the spec id is the cheapest to make.
            columns = ["spec_id" if "spec_id" in self.schema.names else self.schema.names[0]]
        kind = _KINDS[self.name]
        if snapshot_id is not None and not kind.of_one_snapshot:
            raise InvalidInputError(
                f"the metadata table {self.name} of {self.table.full_name} is about all snapshots, so it cannot be read at snapshot {snapshot_id}",
                table=self.table.full_name,
                snapshot_id=snapshot_id,
                next_step="leave the snapshot out, and filter the rows",
            )
        use_filter = row_filter is not None and kind.takes_filter
        request = Request(
            table=self.table,
            schema=self._cut(columns),
            whole_schema=self.schema,
            row_filter=bind(row_filter, self.schema) if row_filter is not None and use_filter else AlwaysTrue(),
            snapshot=self.table.scan(snapshot_id=snapshot_id).snapshot() if kind.of_one_snapshot else None,
        )
        return kind.rows(request)

    def _cut(self, columns: Sequence[str] | None) -> Schema:
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
    """A metadata table by its name, one of `METADATA_TABLES`.

    Raises:
        InvalidInputError: there is none of that name.
    """
    if name not in _KINDS:
        raise InvalidInputError(
            f"{table.full_name} has no metadata table {name!r}", table=table.full_name, next_step=f"use one of {', '.join(METADATA_TABLES)}"
        )
    return MetadataTable(name=name, schema=_KINDS[name].schema(table.metadata), table=table)
