"""How broken Avro is reported: one error that names the file and the byte.

Layer: kernel.avro. Spec: Apache Avro, Object Container Files.
"""

from icefloe.errors import AvroFormatError, Problem
from icefloe.kernel.limits import limits, raise_limit

_RESTORE = "restore the file from a copy, or roll the table back to a snapshot that does not use it"
# What schemas that no writer of Iceberg makes lead to: ids that are lists, arrays nested ten deep, sizes beyond 32 bits.
SCHEMA_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, OverflowError)


class SchemaSizeError(ValueError):
    """A schema is of more types than the limit of the name `limit` allows."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"avro.schema stands for more types than are allowed; the limit {limit} is {getattr(limits(), limit)}")
        self.limit = limit


class TornDataError(ValueError):
    """Bytes inside one block do not follow the schema. `position` counts from the start of the bytes at hand; callers add the file's name and offset."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


def broken_avro(path: str, offset: int, what: str, *, next_step: str = _RESTORE) -> AvroFormatError:
    """The error for `path` being wrong at byte `offset` of the file."""
    return AvroFormatError(
        f"{path} is not sound Avro: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step=next_step,
    )


def above_limit(path: str, offset: int, what: str, limit: str) -> AvroFormatError:
    """Return the error for something at byte `offset` of the file that is more than the limit of that name; `what` says how much it is."""
    return broken_avro(path, offset, f"{what}; the limit {limit} is {getattr(limits(), limit)}", next_step=raise_limit(limit))


def left_over(position: int, size: int) -> str:
    """Return what is wrong with a block of `size` bytes whose records end at `position`."""
    return f"the records of a block end at {position - size:+d} bytes from its end"


def broken_schema(path: str, error: Exception) -> AvroFormatError:
    """Return the error for a schema that cannot be read."""
    if isinstance(error, SchemaSizeError):
        return broken_avro(path, 4, str(error), next_step=raise_limit(error.limit))
    what = "its schema is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return broken_avro(path, 4, what)


def broken_column(path: str, offset: int, what: str) -> AvroFormatError:
    """Return the error for columns that cannot be made of a file's values: they would be too large."""
    return broken_avro(path, offset, what, next_step=f"{_RESTORE}; {raise_limit('avro_block_bytes')}")
