"""How broken Avro is reported: one error that names the file and the byte.

Floor: kernel.avro. Spec: Apache Avro, Object Container Files.
"""

from icefloe.errors import AvroFormatError, Problem

# What schemas that no writer of Iceberg makes lead to: ids that are lists, arrays nested ten deep, sizes beyond 32 bits.
SCHEMA_ERRORS = (ValueError, TypeError, SyntaxError, RecursionError, OverflowError)


class TornDataError(ValueError):
    """Bytes inside one block do not follow the schema. `position` counts from the start of the bytes at hand; callers add the file's name and offset."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


def broken_avro(path: str, offset: int, what: str) -> AvroFormatError:
    """The error for `path` being wrong at byte `offset` of the file."""
    return AvroFormatError(
        f"{path} is not sound Avro: {what} (at byte {offset})",
        path=path,
        problems=(Problem(where=f"byte {offset}", what=what),),
        next_step="restore the file from a copy, or roll the table back to a snapshot that does not use it",
    )
