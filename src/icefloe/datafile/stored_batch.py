"""`StoredBatch`: stored rows of a data file with their position in the file; and the errors for files that Arrow cannot read.

Spec: Row Lineage; Position Delete Files (both use a row's position).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import DataFileFormatError, IcefloeError, OutOfMemoryError, UnsupportedFeatureError
from icefloe.io.storage_errors import storage_error
from icefloe.spec.arrow_values import numbers_array, numpy_of
from icefloe.spec.limits import raise_limit
from icefloe.spec.types import NestedField

# Rows in a batch: large enough that the work for each batch is negligible, small enough that a query with a limit reads little.
BATCH_ROWS = 131_072

# The next step for a missing or damaged file. The file is removed by its path, because a delete with a filter would read it unless the filter selects whole
# partitions.
LISTING = "; icefloe validate --data lists every such file of a table"
RESTORE_DELETES = "restore the file from a copy, or roll the table back to a snapshot that does not use it" + LISTING
RESTORE = (
    "restore the file from a copy, or roll the table back to a snapshot that does not use it; or give up its rows: "
    "`with table.update_snapshot().delete_files() as removal: removal.delete_file(path)`" + LISTING
)
_ABOVE_LIMIT = "size limit"  # a part of Arrow's message about a footer above its limits
_NUMBERS = frozenset([pa.int32(), pa.int64(), pa.float32(), pa.float64()])


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Adjacent rows of a file that begin at row number `first_row`, counted from 0. The schema's fields have the file's field ids.

    Texts may be dictionary-encoded; `decode_dictionaries` and `filter_batch` decode them.
    """

    first_row: int
    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class RowTest:
    """A test of rows that needs only a few columns. A reader runs it first, and reads the other columns only for batches with a row that passes.

    Attributes:
        fields: The columns that are tested.
        mask: A function from a batch with these columns to a boolean for each row: True if the row passes.
    """

    fields: tuple[NestedField, ...]
    mask: Callable[[StoredBatch], Any]


class SkippedRows(Protocol):
    """The positions of the rows of a file that a reader skips, such as those that a deletion vector deletes."""

    def deleted_rows(self, first: int, count: int) -> NDArray[np.bool_]:
        """Return a mask of the skipped rows among the `count` rows from position `first` on."""

    def deletes_all(self, first: int, count: int) -> bool:
        """Return whether all of the `count` rows from position `first` on are skipped."""


def decode_dictionaries(batch: StoredBatch) -> StoredBatch:
    """Return the batch with dictionary-encoded columns decoded."""
    if not any(map(pa.types.is_dictionary, batch.rows.schema.types)):
        return batch
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.rows.columns]
    return StoredBatch(batch.first_row, _batch_of(arrays, batch.rows.schema))


def filter_batch(batch: pa.RecordBatch, keep: Any) -> pa.RecordBatch:
    """Return the rows for which the mask `keep` is True, with dictionary-encoded columns decoded.

    Numbers without nulls are taken by position, which takes half the time of Arrow's filter.
    """
    positions = np.flatnonzero(numpy_of(keep))
    arrays = [_filter_column(column, positions, keep) for column in batch.columns]
    return _batch_of(arrays, batch.schema) if arrays else without_columns(len(positions))


def _filter_column(column: Any, positions: NDArray[np.int64], keep: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.dictionary.take(_filter_column(column.indices, positions, keep))
    if column.type in _NUMBERS and not column.null_count:
        return numbers_array(numpy_of(column).take(positions), column.type)
    return column.filter(keep)


def _batch_of(arrays: list[Any], schema: Any) -> pa.RecordBatch:
    fields = [field if field.type == array.type else field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=schema.metadata))


def without_columns(rows: int) -> pa.RecordBatch:
    """Return a batch of rows without columns. Arrow can create such a batch only from a struct array."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def batches_without_columns(first_row: int, rows: int) -> Iterator[StoredBatch]:
    """Yield rows without columns, in several batches, because a file may claim any number of rows, and a reader that adds columns needs memory for a batch."""
    for start in range(0, rows, BATCH_ROWS):
        yield StoredBatch(first_row + start, without_columns(min(BATCH_ROWS, rows - start)))


@contextmanager
def reading(path: str, file_format: str = "Parquet") -> Iterator[None]:
    """Raise Arrow's errors in the block as Icefloe's errors with the file's path: a storage error by its kind, any other error as `DataFileFormatError`."""
    try:
        yield
    except IcefloeError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(
            f"{path} uses a feature of {file_format} that is not supported: {error}",
            path=path,
            next_step="rewrite the file with another engine, without that feature",
        ) from error
    except pa.ArrowMemoryError as error:
        # Arrow allocates the size that a page or stripe claims before the claim can be checked, so that valid and forged files cannot be distinguished.
        raise OutOfMemoryError(
            f"{path} cannot be read in the available memory, which does not mean that it is damaged: {error}",
            path=path,
            next_step="give the process more memory, run fewer at once, or read fewer columns; where the writer of the file is not trusted, it may claim "
            "a size that it does not have, and icefloe validate reads its footer alone",
        ) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_error(error, path) from error
        next_step = RESTORE
        if _ABOVE_LIMIT in str(error):
            next_step += "; " + " ".join(map(raise_limit, ("parquet_footer_bytes", "parquet_footer_items")))
        raise DataFileFormatError(f"{path} is not a complete, valid {file_format} file: {error}", path=path, next_step=next_step) from error
