"""The rows that differ between two versions, as a multiset: removing some rows from the first version and adding others gives the second version.

Files that both versions have with the same deletes are not read. The other files are read twice: first to compute a hash of 16 bytes for each row, by which
equal rows of the versions cancel out; then to return the remaining rows, file by file. Spec: Row-level Deletes; Column Projection.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import InvalidInputError, SchemaMismatchError
from icefloe.inspect.comparison.row_hasher import Hashes, RowHasher
from icefloe.inspect.comparison.table_version import TableVersion
from icefloe.io.manifest_cache import cached_manifests
from icefloe.operations.change_feed.changed_file_reader import DELETE, INSERT, ChangedFileReader
from icefloe.operations.change_feed.row_pairs import Identity, with_updates
from icefloe.operations.parallel_requests import MANIFEST_THREADS, in_threads
from icefloe.scan.change_planner import ChangedFile, plan_changes
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.arrow_values import mask_array
from icefloe.spec.metadata.document_validation import LATEST_SUPPORTED_VERSION
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.metadata_columns import CHANGE_TYPE
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.type_promotion import is_promotion
from icefloe.spec.temporal_arrays import python_list

# The most files whose rows are in memory at once.
_FILES_AT_ONCE = MANIFEST_THREADS


@dataclass(frozen=True)
class _Side:
    """The files of one version whose rows may differ, and the reader of these files."""

    change: str
    files: Sequence[ChangedFile]
    reader: ChangedFileReader


class RowComparison:
    """Computes the rows that differ between two versions of a table, or between two tables. The files are read at first use."""

    def __init__(self, before: TableVersion, after: TableVersion, *, is_one_table: bool, columns: Sequence[str] | None = None) -> None:
        """Choose the columns to compare.

        Args:
            before: The first version.
            after: The second version.
            is_one_table: Whether both are versions of the same table. Its columns are those of the second version; two tables are compared in their common
                columns.
            columns: The names of the columns to compare, in the second version; by default all of them.

        Raises:
            InvalidInputError: A column does not exist, or the tables have no common column.
            SchemaMismatchError: A column has types in the two tables that cannot be compared.
        """
        self._before, self._after = before, after
        self._is_one_table = is_one_table
        new = _select_columns(after, columns)
        old = new if is_one_table else _same_columns(before, new, after, must_have=columns is not None)
        new = new if is_one_table else Schema(*(field for field in new.fields if field.name in old.names))
        self._projections = (old, new)
        self.columns: tuple[str, ...] = tuple(new.names)
        self._arrow_schema = pa.schema([field.with_nullable(True) for field in schema_to_arrow(_widest(old, new))])

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        before, after = self._before.reader, self._after.reader
        # Two tables may read the same file differently.
        files = list(self._changed_files() if self._is_one_table else self._all_files())
        before_schema = self._after.schema if self._is_one_table else self._before.schema
        return (
            _Side(
                DELETE,
                [file for file in files if file.before is not None],
                ChangedFileReader.of(before.io, before.metadata, before_schema, self._projections[0]),
            ),
            _Side(
                INSERT,
                [file for file in files if file.after is not None],
                ChangedFileReader.of(after.io, after.metadata, self._after.schema, self._projections[1]),
            ),
        )

    def _changed_files(self) -> Iterator[ChangedFile]:
        reader = self._after.reader
        plan = plan_changes(
            reader.metadata,
            self._before.snapshot,
            self._after.snapshot,
            reader.io.read,
            schema=self._after.schema,
            parallel=in_threads,
            cache=cached_manifests(reader.io),
        )
        return plan.files()

    def _all_files(self) -> Iterator[ChangedFile]:
        yield from (ChangedFile(before=task, after=None) for task in _tasks(self._before))
        yield from (ChangedFile(before=None, after=task) for task in _tasks(self._after))

    @cached_property
    def _kept(self) -> tuple[list[NDArray[np.bool_]], list[NDArray[np.bool_]]]:
        """A mask of the rows of each file, for both sides: the rows that the other side does not have."""
        hasher = RowHasher()
        removed, added = (list(self._each(side, hasher.hashes)) for side in self._sides)
        kept = _surplus(_concatenate(removed), _concatenate(added))
        return tuple(  # type: ignore[return-value]
            np.split(mask, np.cumsum([len(part) for part in hashes])[:-1]) if hashes else []
            for mask, hashes in zip(kept, (removed, added), strict=True)
        )

    @property
    def removed(self) -> int:
        """The number of rows that only the first version has."""
        return sum(int(mask.sum()) for mask in self._kept[0])

    @property
    def added(self) -> int:
        """The number of rows that only the second version has."""
        return sum(int(mask.sum()) for mask in self._kept[1])

    def batches(self) -> Iterator[Any]:
        """Yield the changed rows as Arrow tables, file by file, the removed rows first. The column `_change_type` is DELETE or INSERT.

        Raises:
            NoSuchFileError: A file does not exist.
            FormatError: A file is damaged, or violates the format.
        """
        for side, masks in zip(self._sides, self._kept, strict=True):
            remaining = [(file, mask) for file, mask in zip(side.files, masks, strict=True) if mask.any()]
            rows = self._each(replace(side, files=[file for file, _ in remaining]), lambda table: table)
            for table, (_, mask) in zip(rows, remaining, strict=True):
                kept = table.filter(mask_array(mask))
                kind = pa.repeat(pa.scalar(side.change, pa.string()), len(kept))
                yield kept.append_column(pa.field(CHANGE_TYPE.name, pa.string(), nullable=False), kind)

    def to_arrow(self, identifier_columns: Sequence[str] = ()) -> Any:
        """Return the changed rows as a `pyarrow.Table`, with the column `_change_type`.

        Args:
            identifier_columns: If given, a removed and an added row with equal values in these columns become UPDATE_BEFORE and UPDATE_AFTER.

        Raises:
            InvalidInputError: A column does not exist, or several removed or added rows are equal in these columns.
        """
        unknown = [name for name in identifier_columns if name not in self.columns]
        if unknown:
            raise InvalidInputError(
                f"the changed rows have no column {unknown[0]!r}", next_step=f"the columns are {', '.join(self.columns)}"
            )
        schema = self._arrow_schema.append(pa.field(CHANGE_TYPE.name, pa.string(), nullable=False))
        parts = list(self.batches())
        rows = pa.concat_tables(parts) if parts else schema.empty_table()
        if not identifier_columns:
            return rows
        return with_updates(rows, Identity(False, tuple((name,) for name in identifier_columns)), self._after.label, of_each_snapshot=False)

    def sample(self, most: int) -> list[dict[str, Any]]:
        """Return the first changed rows as dictionaries.

        Args:
            most: The greatest number of rows.
        """
        rows = (row for table in self.batches() for row in _dictionaries(table.slice(0, most)))
        return list(islice(rows, most))

    def _each(self, side: _Side, result: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield the result of a function for the rows of each file of a side, in order. A few files are read in parallel."""

        def read(file: ChangedFile) -> Any:
            batches = [batch for _, batch in side.reader.batches(file, (side.change,))]
            rows = pa.Table.from_batches(batches, schema_to_arrow(side.reader.projection))
            return result(pa.table(rows.columns, names=list(self.columns)).cast(self._arrow_schema))

        files = iter(side.files)
        while chunk := list(islice(files, _FILES_AT_ONCE)):
            yield from in_threads(read, chunk)


def _dictionaries(rows: Any) -> Iterator[dict[str, Any]]:
    columns = [python_list(column) for column in rows.columns]
    return (dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True))


def _tasks(version: TableVersion) -> Iterator[FileScanTask]:
    if version.snapshot is not None:
        yield from version.reader.scan(snapshot_id=version.snapshot_id).planned_here().plan().tasks()


def _select_columns(version: TableVersion, columns: Sequence[str] | None) -> Schema:
    schema = version.schema
    unknown = [name for name in columns or () if name not in schema.names]
    if unknown:
        raise InvalidInputError(
            f"{version.label} has no column {unknown[0]!r}",
            table=version.reader.full_name,
            next_step=f"the columns are {', '.join(schema.names)}",
        )
    return Schema(*(field for field in schema.fields if columns is None or field.name in columns))


def _same_columns(version: TableVersion, other: Schema, of: TableVersion, *, must_have: bool) -> Schema:
    """Return the columns of a version that have the names of another table's columns, in the order of that table.

    Args:
        version: The version.
        other: The columns of the other table.
        of: The version of the other table, for errors.
        must_have: Whether the version must have all columns.

    Raises:
        InvalidInputError: A required column is missing, or there is no common column.
        SchemaMismatchError: The types of a column cannot be compared.
    """
    schema = version.schema
    missing = [name for name in other.names if name not in schema.names]
    common = [field.name for field in other.fields if field.name in schema.names]
    if (must_have and missing) or not common:
        raise InvalidInputError(
            f"{version.label} does not have the column {missing[0]!r} of {of.label}" if missing else f"{of.label} has no columns",
            table=version.reader.full_name,
            next_step="choose columns that both tables have",
        )
    fields = [schema.find_field(name) for name in common]
    for field, same in zip(fields, (other.find_field(name) for name in common), strict=True):
        if not _is_comparable(field.field_type, same.field_type):
            raise SchemaMismatchError(
                f"the column {field.name} has type {field.field_type} in {version.label}, and {same.field_type} in {of.label}",
                table=version.reader.full_name,
                next_step="choose other columns to compare",
            )
    return Schema(*fields)


def _is_comparable(kind: Any, other: Any) -> bool:
    if not kind.is_primitive or not other.is_primitive:
        return type(kind) is type(other)
    return kind == other or is_promotion(kind, other, LATEST_SUPPORTED_VERSION) or is_promotion(other, kind, LATEST_SUPPORTED_VERSION)


def _widest(old: Schema, new: Schema) -> Schema:
    """Return the second schema, with the type of the first schema for each column that is wider there."""
    pairs = zip(old.fields, new.fields, strict=True)
    return Schema(
        *(
            replace(after, field_type=before.field_type)
            if before.field_type.is_primitive and is_promotion(after.field_type, before.field_type, LATEST_SUPPORTED_VERSION)
            else after
            for before, after in pairs
        )
    )


def _concatenate(parts: Sequence[Hashes]) -> Hashes:
    return np.concatenate(parts) if parts else np.empty((0, 2), np.uint64)


def _surplus(removed: Hashes, added: Hashes) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return a mask of the remaining rows of each side, after equal rows of the two sides have cancelled out one by one."""
    joined = np.concatenate([removed, added])
    order = np.lexsort((joined[:, 1], joined[:, 0]))
    ordered, is_added = joined[order], order >= len(removed)
    begins = np.ones(len(order), bool)
    begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    groups = np.cumsum(begins) - 1
    count = int(groups[-1]) + 1 if len(groups) else 0
    fewest = np.minimum(np.bincount(groups[is_added], minlength=count), np.bincount(groups[~is_added], minlength=count))
    remains = np.zeros(len(order), bool)
    for side in (is_added, ~is_added):
        own_groups = groups[side]
        firsts = np.searchsorted(own_groups, np.arange(count))
        remains[side] = np.arange(len(own_groups)) - firsts[own_groups] >= fewest[own_groups]
    has_pair = np.empty(len(order), bool)
    has_pair[order] = remains
    return has_pair[: len(removed)], has_pair[len(removed) :]
