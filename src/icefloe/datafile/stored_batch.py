"""`StoredBatch`: rows of a data file as they are stored, with their place in it; and what every format does with what Arrow cannot read.

Spec: Row Lineage; Position Delete Files (for both a row's position counts).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import DataFileFormatError, UnsupportedFeatureError
from icefloe.kernel.arrow_values import numbers_array, numpy_of
from icefloe.kernel.limits import raise_limit
from icefloe.kernel.storage_errors import storage_error

# Rows. Large enough that the work per batch is nothing, small enough that a limit reads little.
BATCH_ROWS = 131_072

_ABOVE_LIMIT = "size limit"  # what Arrow says of a footer that is larger than it may be
_NUMBERS = frozenset([pa.int32(), pa.int64(), pa.float32(), pa.float64()])


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Rows that stand side by side in the file, from row `first_row` on (0 is the file's first). The schema's fields have the file's field ids.

    Texts may be dictionaries; `with_texts` and `picked` make them texts.
    """

    first_row: int
    rows: pa.RecordBatch


def with_texts(found: StoredBatch) -> StoredBatch:
    """The batch with dictionaries as what they stand for."""
    if not any(map(pa.types.is_dictionary, found.rows.schema.types)):
        return found
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in found.rows.columns]
    return StoredBatch(found.first_row, _batch_of(arrays, found.rows.schema))


def picked(batch: pa.RecordBatch, keep: Any) -> pa.RecordBatch:
    """The rows that a mask keeps, with dictionaries as what they stand for.

    Numbers without nulls are taken by position, in half the time that Arrow's filter needs for them.
    """
    places = np.flatnonzero(numpy_of(keep))
    arrays = [_picked(column, places, keep) for column in batch.columns]
    return _batch_of(arrays, batch.schema) if arrays else without_columns(len(places))


def _picked(column: Any, places: NDArray[np.int64], keep: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        return column.dictionary.take(_picked(column.indices, places, keep))
    if column.type in _NUMBERS and not column.null_count:
        return numbers_array(numpy_of(column).take(places), column.type)
    return column.filter(keep)


def _batch_of(arrays: list[Any], schema: Any) -> pa.RecordBatch:
    fields = [field if field.type == array.type else field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=schema.metadata))


def without_columns(rows: int) -> pa.RecordBatch:
    """A batch of rows and no columns; only by way of a struct can there be one."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


def batches_without_columns(first_row: int, rows: int) -> Iterator[StoredBatch]:
    """Yield rows without columns in batches: how many there are is a claim of the file's, and whoever adds columns to them needs memory for each."""
    for start in range(0, rows, BATCH_ROWS):
        yield StoredBatch(first_row + start, without_columns(min(BATCH_ROWS, rows - start)))


@contextmanager
def reading(path: str, form: str = "Parquet") -> Iterator[None]:
    """Says which file it was when Arrow cannot read one. Storage's own errors keep their kind; anything else means that the bytes are wrong."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(f"{path} uses something of {form} that is not supported: {error}", path=path) from error
    except pa.ArrowMemoryError as error:
        # Arrow asks for what a page or a stripe claims; whether the claim is true is not known then.
        raise DataFileFormatError(
            f"{path} cannot be read in the memory that there is: {error}",
            path=path,
            next_step="give the process more memory where the file is trusted; else delete it from the table",
        ) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_error(error, path) from error
        next_step = "restore the file, or delete it from the table"
        if _ABOVE_LIMIT in str(error):
            next_step += "; " + " ".join(map(raise_limit, ("parquet_footer_bytes", "parquet_footer_items")))
        raise DataFileFormatError(f"{path} is not a whole, sound {form} file: {error}", path=path, next_step=next_step) from error
