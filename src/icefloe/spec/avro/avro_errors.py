"""Errors for invalid Avro files, with the file and the byte.

Spec: Apache Avro, Object Container Files.
"""

from icefloe.errors import AvroFormatError, Problem
from icefloe.spec.limits import limits, raise_limit

_RESTORE = "restore the file from a copy, or roll the table back to a snapshot that does not use it"
# The exceptions that malicious schemas can cause, for example with ids that are lists, deeply nested arrays, or sizes beyond 32 bits.
SCHEMA_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, OverflowError)


class SchemaSizeError(ValueError):
    """The error for a schema with more types than a limit allows. `limit` is the name of the limit."""

    def __init__(self, limit: str) -> None:
        super().__init__(f"avro.schema has more types than are allowed; the limit {limit} is {getattr(limits(), limit)}")
        self.limit = limit


class TornDataError(ValueError):
    """The error for bytes of a block that do not match the schema. `position` counts from the start of the block; callers add the file and its offset."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


def broken_avro(path: str, offset: int, what: str, *, next_step: str = _RESTORE) -> AvroFormatError:
    """Return the error for a file that is invalid at byte `offset`."""
    return AvroFormatError(
        f"{path} is not a valid Avro file: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step=next_step,
    )


def above_limit(path: str, offset: int, what: str, limit: str) -> AvroFormatError:
    """Return the error for a size at byte `offset` of the file that exceeds a limit. `what` describes the size, `limit` is the name of the limit."""
    return broken_avro(path, offset, f"{what}; the limit {limit} is {getattr(limits(), limit)}", next_step=raise_limit(limit))


def wrong_block_end(position: int, size: int) -> str:
    """Return the message for a block of `size` bytes whose records end at `position`."""
    return f"the records of a block end at {position - size:+d} bytes from its end"


def broken_schema(path: str, error: Exception) -> AvroFormatError:
    """Return the error for a schema that cannot be read."""
    if isinstance(error, SchemaSizeError):
        return broken_avro(path, 4, str(error), next_step=raise_limit(error.limit))
    what = "its schema is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return broken_avro(path, 4, what)


def broken_column(path: str, offset: int, what: str) -> AvroFormatError:
    """Return the error for a block at byte `offset` whose records would make a column too large."""
    return broken_avro(path, offset, what, next_step=f"{_RESTORE}; {raise_limit('avro_block_bytes')}")
