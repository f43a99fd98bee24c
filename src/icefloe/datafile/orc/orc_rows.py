"""The rows of one ORC file as they are stored: the stripes of a task, the top-level columns that are wanted.

Behind the door `stored_file.py`; writing is `orc_output.py`. Stripes are not pruned by their statistics, only files. Spec: Appendix A, ORC.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import orc

from icefloe.datafile.field_ids import IdOf, has_ids, id_of, mapped_ids, with_ids
from icefloe.datafile.orc.orc_output import ID_ATTRIBUTE
from icefloe.datafile.orc.orc_tail import stripes_of
from icefloe.datafile.stored_batch import BATCH_ROWS, StoredBatch, batches_without_columns, reading
from icefloe.errors import DataFileFormatError, UnsupportedFeatureError
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.limits import limits, raise_limit
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.types import NestedField


class OrcRows:
    """An open ORC file."""

    # Arrow gives every timestamp of ORC in nanoseconds; a column of microseconds may only hold whole ones, and what others wrote is cut, as the format says.
    floors_nanoseconds = True

    def __init__(self, file: Any, task: FileScanTask, name_mapping: NameMapping | None) -> None:
        """Raises `DataFileFormatError` where the footer cannot be read."""
        self._task = task
        self._path = task.file.file_path
        with reading(self._path, "ORC"):
            self._file = orc.ORCFile(file)
            stored = self._file.schema
            try:
                self._stripes = stripes_of(self._file)
            except (ValueError, IndexError) as error:
                raise DataFileFormatError(f"{self._path} has a footer that is no sound ORC footer: {error}", path=self._path) from error
        self._check_stripes()
        self._ids: IdOf = orc_field_id
        self.schema = with_ids(stored, orc_field_id)
        if name_mapping is not None and not has_ids(self.schema):
            self._ids = mapped_ids(name_mapping)
            self.schema = with_ids(stored, self._ids)

    def batches(self, fields: tuple[NestedField, ...], row_filter: BooleanExpression) -> Iterator[StoredBatch]:  # noqa: ARG002 - Parquet needs it
        """The rows of the task's stripes; see `stored_file.py`."""
        names = self._names(fields)
        task, first_row = self._task, 0
        is_whole = task.start == 0 and task.length >= task.file.file_size_in_bytes
        for index, stripe in enumerate(self._stripes):
            if is_whole or task.start <= stripe.offset < task.start + task.length:
                if names == [] and stripe.rows:
                    yield from batches_without_columns(first_row, stripe.rows)
                elif stripe.rows:
                    yield from self._stripe(index, first_row, names)
            first_row += stripe.rows

    def _check_stripes(self) -> None:
        """Raise `DataFileFormatError` where a stripe claims more rows than the limit `orc_stripe_rows`: a few bytes may stand for all of them."""
        most = limits().orc_stripe_rows
        for stripe in self._stripes:
            if stripe.rows > most:
                raise DataFileFormatError(
                    f"{self._path} has a stripe at byte {stripe.offset} that claims {stripe.rows} rows; the limit orc_stripe_rows is {most}",
                    path=self._path,
                    next_step=raise_limit("orc_stripe_rows"),
                )

    def _names(self, fields: tuple[NestedField, ...]) -> list[str] | None:
        """The top-level columns to read; None for all, where a name with a dot in it could be taken for a path."""
        wanted = {field.field_id for field in fields}
        names = [field.name for field in self.schema if id_of(field) in wanted]
        everywhere = [field.name for field in self.schema]
        is_plain = not any("." in name for name in everywhere) and len(set(everywhere)) == len(everywhere)
        return names if is_plain or not names else None

    def _stripe(self, index: int, first_row: int, names: list[str] | None) -> Iterator[StoredBatch]:
        with reading(self._path, "ORC"):
            try:
                batch = self._file.read_stripe(index, columns=names)
            except pa.ArrowInvalid as error:
                if "nanosecond" not in str(error):
                    raise
                raise UnsupportedFeatureError(
                    f"{self._path} has a timestamp before 1677 or after 2262, which cannot be read from ORC: {error}",
                    path=self._path,
                    next_step="rewrite the file as Parquet with another engine",
                ) from error
        batch = type(batch).from_arrays(batch.columns, schema=with_ids(batch.schema, self._ids))
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield StoredBatch(first_row + start, batch.slice(start, BATCH_ROWS))


def orc_field_id(_: tuple[str, ...], field: Any) -> int | None:
    """The id that an ORC column says itself, as `field_ids.with_ids` asks for it."""
    text = (field.metadata or {}).get(ID_ATTRIBUTE.encode())
    return int(text) if text is not None and text.isdigit() else None
