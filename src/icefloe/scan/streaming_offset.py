"""`StreamingOffset`: how far a streaming read of a table has come, as the JSON in the checkpoint of a streaming query.

The JSON has the keys of Java's Iceberg (`version`, `snapshot_id`, `position`, `scan_all_files`), so that both read the offsets of the other, and further keys
with which a stream continues after its snapshot was expired. The version of an offset within the rows with which a stream begins is 2, which Java refuses: it
counts only the files that the snapshot added, and would skip the others without an error. JAVA: StreamingOffset.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import msgspec

from icefloe.errors import InvalidInputError
from icefloe.formatting import short_text

_VERSION, _VERSION_WITHIN_ALL_FILES = 1, 2
_NO_SNAPSHOT = -1  # Java's snapshot id and position of a stream that has read nothing
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Begin(msgspec.Struct, omit_defaults=True):
    """The offset at which the first batch of a stream begins."""

    snapshot_id: _Long
    position: _Long
    scan_all_files: bool


class _OffsetJson(msgspec.Struct, omit_defaults=True):
    version: _Long
    snapshot_id: _Long
    position: _Long
    scan_all_files: bool
    is_complete: bool = False
    sequence_number: _Long | None = None
    timestamp_ms: _Long | None = None
    table_uuid: str | None = None
    begin: _Begin | None = None


@dataclass(frozen=True, kw_only=True)
class StreamingOffset:
    """The end of the files that a stream has read, or the begin of those that it reads next.

    Attributes:
        snapshot_id: The snapshot that was read last.
        position: The position after the last file that was read of the snapshot: see `micro_batches.py`.
        scan_all_files: Whether all live files of the snapshot are read, and not only those that it added. True for the snapshot with which a stream begins.
        is_complete: Whether all files of the snapshot were read, so that the stream no longer needs the snapshot.
        sequence_number: The sequence number of the snapshot; None if unknown, as in offsets of Java.
        timestamp_ms: The time of the snapshot in milliseconds since 1970-01-01 UTC; None if unknown.
        table_uuid: The UUID of the table; None if unknown.
        begin: In the end of the first batch of a stream, the offset at which the batch begins; otherwise None.
    """

    snapshot_id: int
    position: int
    scan_all_files: bool = False
    is_complete: bool = False
    sequence_number: int | None = None
    timestamp_ms: int | None = None
    table_uuid: str | None = None
    begin: "StreamingOffset | None" = None

    @property
    def is_start(self) -> bool:
        """Whether the stream has read nothing yet."""
        return self.snapshot_id == _NO_SNAPSHOT

    @cached_property
    def json(self) -> str:
        """The offset as JSON. Equal offsets have equal texts."""
        begin = self.begin
        return msgspec.json.encode(
            _OffsetJson(
                version=_VERSION_WITHIN_ALL_FILES if self.scan_all_files and not self.is_complete else _VERSION,
                snapshot_id=self.snapshot_id,
                position=self.position,
                scan_all_files=self.scan_all_files,
                is_complete=self.is_complete,
                sequence_number=self.sequence_number,
                timestamp_ms=self.timestamp_ms,
                table_uuid=self.table_uuid,
                begin=None if begin is None else _Begin(begin.snapshot_id, begin.position, begin.scan_all_files),
            )
        ).decode()

    @classmethod
    def from_json(cls, text: str, table_name: str) -> "StreamingOffset":
        """Parse an offset of Icefloe or of Java's Iceberg.

        Args:
            text: The JSON.
            table_name: The name of the table, for errors.

        Raises:
            InvalidInputError: The text is not an offset.
        """
        try:
            parsed = msgspec.json.decode(text, type=_OffsetJson)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise _invalid(text, table_name, str(error)) from error
        if parsed.version not in (_VERSION, _VERSION_WITHIN_ALL_FILES):
            raise _invalid(
                text, table_name, f"its version is {parsed.version}, and {_VERSION} and {_VERSION_WITHIN_ALL_FILES} are those that exist"
            )
        for part in (parsed, parsed.begin):
            least = _NO_SNAPSHOT if part is parsed and parsed.snapshot_id == _NO_SNAPSHOT else 0
            if part is not None and part.position < least:
                raise _invalid(text, table_name, f"its position is {part.position}, and positions of files begin with 0")
        begin = parsed.begin
        return cls(
            snapshot_id=parsed.snapshot_id,
            position=parsed.position,
            scan_all_files=parsed.scan_all_files,
            is_complete=parsed.is_complete,
            sequence_number=parsed.sequence_number,
            timestamp_ms=parsed.timestamp_ms,
            table_uuid=parsed.table_uuid,
            begin=None
            if begin is None
            else cls(
                snapshot_id=begin.snapshot_id,
                position=begin.position,
                scan_all_files=begin.scan_all_files,
                sequence_number=parsed.sequence_number if begin.snapshot_id == parsed.snapshot_id else None,
                timestamp_ms=parsed.timestamp_ms if begin.snapshot_id == parsed.snapshot_id else None,
                table_uuid=parsed.table_uuid,
            ),
        )


START = StreamingOffset(snapshot_id=_NO_SNAPSHOT, position=_NO_SNAPSHOT)


def _invalid(text: str, table_name: str, problem: str) -> InvalidInputError:
    return InvalidInputError(
        f"the checkpoint of a stream of {table_name} has an offset that cannot be read: {problem}: {short_text(text)}",
        table=table_name,
        next_step="the checkpoint is damaged, or it belongs to a stream of another source; restore it, or begin with a new checkpointLocation",
    )
