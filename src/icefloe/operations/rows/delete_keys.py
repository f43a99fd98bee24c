"""`DeleteKeys`: deletes rows by the values of their key columns. It writes equality delete files, and reads no rows of the table.

`datafile/deletes/delete_file_output.py` writes one file. Spec: Equality Delete Files; Scan Planning (which deletes apply).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.row_delta import RowDelta
from icefloe.commit.snapshot_attempt import parent_snapshot
from icefloe.datafile.deletes.delete_file_output import key_schema, write_equality_deletes
from icefloe.datafile.partition_splitter import Part, PartitionSplitter
from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError, UnsupportedFeatureError
from icefloe.operations.available_engines import arrow_table
from icefloe.operations.commit_loop import delete_quietly
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.layout_updates import AddPartitionSpec, spec_id_of
from icefloe.spec.metadata.metadata_updates import Update, apply_updates
from icefloe.spec.metadata.requirement import AssertLastAssignedPartitionId
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC, PartitionSpec
from icefloe.spec.partitioning.transforms import UnknownTransform, VoidTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys of rows to delete: `rows` is an Arrow table with one key in each row, `schema` has only the key columns, and `field_ids` are their ids."""

    rows: Any
    schema: Schema
    field_ids: tuple[int, ...]


def keys_of(rows: Any, schema: Schema, key_columns: Sequence[str] | None, table_name: str) -> Keys:
    """Return the values of the key columns in `rows`, converted to the table's types.

    `key_columns` are names of columns; None for the table's identifier fields.

    Raises:
        InvalidInputError: no key columns are named and the table has no identifier fields, or a column cannot be a key column.
        InvalidSchemaError: the table does not have a key column.
        SchemaMismatchError: the rows lack a key column, or its values do not fit the table's type.
    """
    ids = sorted(schema.identifier_field_ids) if key_columns is None else [schema.find_field(name).field_id for name in key_columns]
    if not ids:
        raise InvalidInputError(
            f"no key columns are given, and {table_name} has no identifier fields",
            table=table_name,
            next_step='pass key_columns=["id"], or set them with table.update_schema().set_identifier_fields("id")',
        )
    keys = key_schema(schema, ids)
    # Of a Spark DataFrame only the key columns are collected in this process.
    table = None if hasattr(rows, "toArrow") else arrow_table(rows, keys, keys.names)
    column_names = rows.columns if table is None else table.column_names
    missing = [Problem(where=name, what="is a key column, and the rows lack it") for name in keys.names if name not in column_names]
    if missing:
        raise SchemaMismatchError(
            "the rows do not have every key column",
            table=table_name,
            problems=missing,
            next_step="add these columns to the rows, or pass other key_columns",
        )
    table = rows.select(*keys.names).toArrow() if table is None else table
    return Keys(rows=cast_to_schema(table.select(keys.names), keys), schema=keys, field_ids=tuple(dict.fromkeys(ids)))


class DeleteKeys:
    """The action that adds equality delete files with keys.

    If the key columns determine the partition of a row, there is a delete file for each partition that may contain a key. Deletes of a partition apply only to
    data files of the same spec, so there are such files for every spec that the table's data files have. Otherwise, or if data files have an unpartitioned
    spec, one delete file with an unpartitioned spec applies to the whole table. If the table has no such spec, the commit adds one, which is not the default.
    """

    def __init__(self, handle: TableHandle, keys: Keys, context: CommitContext) -> None:
        self._handle = handle
        self._keys = keys
        self._context = context
        self._numbers = ManifestNumbers(context)
        self._files: list[DataFile] = []
        self._written_for: tuple[PartitionSpec, ...] | None = None

    @property
    def added(self) -> Sequence[DataFile]:
        """The equality delete files of the last attempt."""
        return tuple(self._files)

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._files]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Write delete files with the keys, and prepare their commit on top of `base`, see `Action.attempt`.

        Return None if there are no keys, or the table has no data files. A retry uses the delete files of an earlier attempt if the specs are the same.

        Raises:
            UnsupportedFeatureError: the table's format version is 1.
        """
        if base.format_version == 1:
            raise UnsupportedFeatureError(
                f"{self._handle.table_name} is of format version 1, which has no delete files",
                table=self._handle.table_name,
                next_step="upgrade it with table.upgrade_table_version(2), or delete by a filter",
            )
        used = _specs_in_use(base, parent_snapshot(base, self._context.branch), read)
        if not used or not self._keys.rows.num_rows:
            self._discard()  # another writer may have removed the last rows meanwhile
            return None
        specs, updates = self._specs(base, used)
        working = apply_updates(base, updates, max(now_ms, base.last_updated_ms)) if updates else base
        self._write(working, specs)
        delta = RowDelta(added_deletes=self._files, context=self._context, numbers=self._numbers)
        attempt = delta.attempt(working, number=number, now_ms=now_ms, read=read)
        if attempt is None or not updates:
            return attempt
        return replace(
            attempt,
            updates=(*updates, *attempt.updates),
            requirements=(*attempt.requirements, AssertLastAssignedPartitionId(base.last_partition_id)),
        )

    def _specs(self, base: TableMetadata, used: Sequence[PartitionSpec]) -> tuple[tuple[PartitionSpec, ...], tuple[Update, ...]]:
        """Return the specs of the delete files; and the metadata updates that add a missing unpartitioned spec, or an empty tuple if none has to be added."""
        unpartitioned = next((spec for spec in used if spec.is_unpartitioned()), None)
        if unpartitioned is not None:
            return (unpartitioned,), ()
        if all(self._determines_partition(spec) for spec in used):
            return tuple(used), ()
        unused = sorted(
            (spec for spec in base.partition_specs if spec.is_unpartitioned()), key=lambda spec: (len(spec.fields), spec.spec_id)
        )
        if unused:
            return (unused[0],), ()
        added = AddPartitionSpec(UNPARTITIONED_SPEC)
        spec_id = spec_id_of(added.apply(base, base.last_updated_ms), UNPARTITIONED_SPEC)
        return (PartitionSpec(spec_id=spec_id or 0),), (added,)

    def _determines_partition(self, spec: PartitionSpec) -> bool:
        needed = [field for field in spec.fields if not isinstance(field.transform, VoidTransform)]
        return all(not isinstance(field.transform, UnknownTransform) and field.source_id in self._keys.field_ids for field in needed)

    def _write(self, base: TableMetadata, specs: tuple[PartitionSpec, ...]) -> None:
        if specs == self._written_for:
            return
        self._discard()
        target = replace(write_target(self._handle, base), schema=self._keys.schema, older_schemas=tuple(base.schemas))
        for spec in specs:
            for part in self._parts(spec):
                written = write_equality_deletes(
                    replace(target, spec=spec),
                    part.rows.to_batches(),
                    self._keys.field_ids,
                    partition=part.values,
                    partition_id=len(self._files),
                    task_id=0,
                )
                self._files += written.added
        self._written_for = specs

    def _discard(self) -> None:
        """Delete the files of earlier attempts."""
        delete_quietly(self._handle, self.new_data_files())
        self._files, self._written_for = [], None

    def _parts(self, spec: PartitionSpec) -> Sequence[Part]:
        if spec.is_unpartitioned():
            return [Part((), (None,) * len(spec.fields), self._keys.rows)]
        return list(PartitionSplitter(spec, self._keys.schema).split(self._keys.rows))


def _specs_in_use(base: TableMetadata, snapshot: Snapshot | None, read: Read) -> list[PartitionSpec]:
    """Return the partition specs of the snapshot's data files, sorted by id; an empty list if there are no data files."""
    manifests = read_manifests(snapshot, read) if snapshot is not None else ()
    spec_ids = {
        manifest.partition_spec_id for manifest in manifests if manifest.content is ManifestContent.DATA and manifest.has_live_files
    }
    return [base.spec_by_id(spec_id) for spec_id in sorted(spec_ids)]
