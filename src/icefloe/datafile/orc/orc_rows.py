"""The stored rows of an ORC file: the stripes of a scan task, with the top-level columns that it needs.

`stored_file.py` opens files of every format with one interface; this module is its reader of ORC. Files are pruned by their metrics; stripes are not pruned,
because Arrow does not return their statistics. `orc_appender.py` writes ORC files.
Spec: Appendix A, ORC.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.datafile.field_ids import IdOf, has_ids, id_of, mapped_ids, with_ids
from icefloe.datafile.orc.orc_appender import ID_ATTRIBUTE
from icefloe.datafile.orc.orc_tail import Stripe, stripes_of
from icefloe.datafile.orc.orc_timestamps import batch_with_types_of_spark, has_local_timestamps, time_zone_of, with_types_of_spark
from icefloe.datafile.projection import file_columns
from icefloe.datafile.stored_batch import BATCH_ROWS, RowTest, SkippedRows, StoredBatch, batches_without_columns, reading
from icefloe.errors import DataFileFormatError, UnsupportedFeatureError
from icefloe.lazy_imports import lazy_module
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.limits import limits, raise_limit
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.types import NestedField

if TYPE_CHECKING:
    from pyarrow import orc
else:  # few tables have ORC data files
    orc = lazy_module("pyarrow.orc")


class OrcRows:
    """An open ORC file, with the interface `StoredFile`: it reads the stripes of one scan task."""

    # Arrow reads every ORC timestamp in nanoseconds. For microsecond columns they are whole microseconds; finer values of other writers are truncated.
    floors_nanoseconds = True

    def __init__(self, file: Any, task: FileScanTask, name_mapping: NameMapping | None) -> None:
        """Open the file. Raises `DataFileFormatError` if its footer cannot be read."""
        self._task = task
        self._path = task.file.file_path
        self._source = file
        with reading(self._path, "ORC"):
            self._file = orc.ORCFile(file)
            file_schema = with_types_of_spark(self._file.schema)
            try:
                self._stripes = stripes_of(self._file)
            except (ValueError, IndexError) as error:
                raise DataFileFormatError(f"{self._path} has a footer that is no sound ORC footer: {error}", path=self._path) from error
        for stripe in self._stripes:
            self._check_limit(stripe, "orc_stripe_rows", stripe.rows, "rows")
        self._ids: IdOf = orc_field_id
        self.schema = with_ids(file_schema, orc_field_id)
        if name_mapping is not None and not has_ids(self.schema):
            self._ids = mapped_ids(name_mapping)
            self.schema = with_ids(file_schema, self._ids)

    def written_in(self) -> str | None:
        """Return the time zone in which local timestamps were written; None without local timestamps. Raises `DataFileFormatError` for a damaged footer."""
        with reading(self._path, "ORC"):
            return time_zone_of(self._file, self._source) if has_local_timestamps(pa.struct(list(self.schema))) else None

    def count_rows(self) -> int:
        """Return the number of rows of all stripes; see `stored_file.py`."""
        return sum(stripe.rows for stripe in self._stripes)

    def batches(
        self,
        fields: tuple[NestedField, ...],
        row_filter: BooleanExpression,  # noqa: ARG002 - Parquet needs it
        row_test: RowTest | None = None,  # noqa: ARG002 - the same
        skipped: SkippedRows | None = None,  # noqa: ARG002 - the same
    ) -> Iterator[StoredBatch]:
        """Yield the rows of the task's stripes; see `stored_file.py`."""
        names = self._names(fields)
        leaves = sum(
            column.end_leaf - column.first_leaf for column in file_columns(self.schema).inner if names is None or column.arrow.name in names
        )
        task, first_row = self._task, 0
        is_whole = task.start == 0 and task.length >= task.file.file_size_in_bytes
        for index, stripe in enumerate(self._stripes):
            if is_whole or task.start <= stripe.offset < task.start + task.length:
                if names == [] and stripe.rows:
                    yield from batches_without_columns(first_row, stripe.rows)
                elif stripe.rows:
                    self._check_limit(stripe, "orc_stripe_values", stripe.rows * leaves, f"values ({stripe.rows} rows of {leaves} columns)")
                    yield from self._stripe(index, first_row, names)
            first_row += stripe.rows

    def _check_limit(self, stripe: Stripe, limit: str, count: int, what: str) -> None:
        """Raise `DataFileFormatError` if a stripe claims a `count` above the limit named `limit`, for which Arrow would allocate memory."""
        allowed = getattr(limits(), limit)
        if count > allowed:
            raise DataFileFormatError(
                f"{self._path} has a stripe at byte {stripe.offset} that claims {count} {what}; the limit {limit} is {allowed}",
                path=self._path,
                next_step=raise_limit(limit) + ("; or select fewer columns" if limit == "orc_stripe_values" else ""),
            )

    def _names(self, fields: tuple[NestedField, ...]) -> list[str] | None:
        """Return the names of the top-level columns to read; None to read all, if Arrow could misread names (with dots, or repeated) or none is needed."""
        field_ids = {field.field_id for field in fields}
        names = [field.name for field in self.schema if id_of(field) in field_ids]
        all_names = [field.name for field in self.schema]
        is_plain = not any("." in name for name in all_names) and len(set(all_names)) == len(all_names)
        return names if is_plain or not names else None

    def _stripe(self, index: int, first_row: int, names: list[str] | None) -> Iterator[StoredBatch]:
        """Yield the rows of one stripe."""
        with reading(self._path, "ORC"):
            try:
                batch = batch_with_types_of_spark(self._file.read_stripe(index, columns=names))
            except pa.ArrowInvalid as error:
                if "nanosecond" not in str(error):
                    raise
                raise UnsupportedFeatureError(
                    f"{self._path} has a timestamp before 1677 or after 2262, which Arrow cannot read from ORC: {error}",
                    path=self._path,
                    next_step="rewrite the file as Parquet with another engine",
                ) from error
        batch = type(batch).from_arrays(batch.columns, schema=with_ids(batch.schema, self._ids))
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield StoredBatch(first_row + start, batch.slice(start, BATCH_ROWS))


def orc_field_id(_: tuple[str, ...], field: Any) -> int | None:
    """Return the field id from the attributes of an ORC column, or None: an `IdOf` for `field_ids.with_ids`."""
    text = (field.metadata or {}).get(ID_ATTRIBUTE.encode())
    return int(text) if text is not None and text.isdigit() else None
