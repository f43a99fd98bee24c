"""`StoredBatch`: rows of a data file as they are stored, with their place in it; and what every format does with what Arrow cannot read.

Floor: datafile. Spec: Row Lineage; Position Delete Files (for both a row's position counts).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from icefloe.errors import DataFileFormatError, UnsupportedFeatureError
from icefloe.kernel.storage_errors import storage_error

# Rows. Large enough that the work per batch is nothing, small enough that a limit reads little.
BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Rows that stand side by side in the file, from row `first_row` on (0 is the file's first). The schema's fields have the file's field ids."""

    first_row: int
    rows: pa.RecordBatch


def without_columns(rows: int) -> pa.RecordBatch:
    """A batch of rows and no columns; only by way of a struct can there be one."""
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))


@contextmanager
def reading(path: str, form: str = "Parquet") -> Iterator[None]:
    """Says which file it was when Arrow cannot read one. Storage's own errors keep their kind; anything else means that the bytes are wrong."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedFeatureError(f"{path} uses something of {form} that is not supported: {error}", path=path) from error
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise storage_error(error, path) from error
        raise DataFileFormatError(
            f"{path} is not a whole, sound {form} file: {error}", path=path, next_step="restore the file, or delete it from the table"
        ) from error
