"""Splits JSON text into objects: either one object on each line, or objects over several lines, one after another or in an array.

The first block of a file shows which of these forms it has. Objects over several lines are found by array operations, which search brackets outside of strings,
so that an array of any length is read in blocks. `msgspec` parses each value.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from icefloe.loading.csv_records import MAX_RECORD_BYTES
from icefloe.loading.input_files import ByteSource

_KEPT_BYTES: Final = 1024
_MIB = 1024 * 1024
_TOO_LONG: Final = f"is longer than {MAX_RECORD_BYTES // _MIB} MiB"
_SPACE: Final = b" \t\r\n"
# The number of lines in which a complete object is searched, as a sign that the file has one object on each line.
_EXAMINED_LINES: Final = 200

_QUOTE, _BACKSLASH, _LF = ord('"'), ord("\\"), ord("\n")
_OPENING, _CLOSING = (ord("{"), ord("[")), (ord("}"), ord("]"))

# By the value of a byte, the change of the nesting depth at it.
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(_OPENING)] = 1
_STEPS[list(_CLOSING)] = -1

_DECODER: Final = msgspec.json.Decoder()


class ExactNumber(float):
    """A number with a fraction or an exponent. `text` is the number as it was written in the file, because the float may be rounded."""

    text: str


def _exact(text: str) -> ExactNumber:
    number = ExactNumber(text)
    if math.isinf(number):
        raise ValueError("Number out of range")
    number.text = text
    return number


_EXACT_DECODER: Final = msgspec.json.Decoder(float_hook=_exact)


def json_text(value: Any) -> bytes:
    """Return a value as JSON text. An `ExactNumber` is written as in the file.

    Raises:
        RecursionError: The value is nested too deeply.
    """
    return msgspec.json.encode(value, enc_hook=lambda number: msgspec.Raw(number.text.encode()))


@dataclass(slots=True, kw_only=True)
class JsonFault:
    """A text that is not a JSON object.

    Attributes:
        text: The bytes of the text, or its first bytes if it is too long.
        line: The number of the line on which the text begins, from 1.
        reason: What is wrong, without a subject, such as "is not complete".
    """

    text: bytes
    line: int
    reason: str


@dataclass(slots=True, kw_only=True)
class JsonRecords:
    """The objects of a block of text, and the texts in it that are not objects.

    Attributes:
        rows: The objects, as dictionaries.
        lines: For each object, the number of the line on which it begins, from 1.
        texts: For each object, its JSON text.
        faults: The texts that are not objects.
        exact: Whether numbers with a fraction or an exponent are parsed as `ExactNumber`.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    faults: list[JsonFault] = field(default_factory=list)
    exact: bool = False

    def add(self, text: bytes, line: int) -> None:
        """Parse a text, which should be an object or an array of objects, and add its objects. A text that is not valid is added to `faults`."""
        try:
            value = (_EXACT_DECODER if self.exact else _DECODER).decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.faults.append(JsonFault(text=text, line=line, reason=_reason(error)))
            return
        except RecursionError:
            self.faults.append(JsonFault(text=text, line=line, reason="is nested too deeply"))
            return
        if isinstance(value, dict):
            self._add_row(value, text, line)
        elif isinstance(value, list):
            self._add_members(value, text, line)
        else:
            kind = "null" if value is None else type(value).__name__
            self.faults.append(JsonFault(text=text, line=line, reason=f"is {kind}, not an object"))

    def _add_row(self, row: dict[str, Any], text: bytes, line: int) -> None:
        self.rows.append(row)
        self.lines.append(line)
        self.texts.append(text)

    def _add_members(self, members: list[Any], text: bytes, line: int) -> None:
        rows = [member for member in members if isinstance(member, dict)]
        for row in rows:
            # Each row gets its own text, so that a bad row is reported without the others of a long array.
            self._add_row(row, json_text(row), line)
        others = len(members) - len(rows)
        if others:
            reason = f"has {others:,} value{'' if others == 1 else 's'} in an array that are not objects"
            self.faults.append(JsonFault(text=text, line=line, reason=reason))


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8"
    return str(error).removeprefix("JSON is malformed: ").replace("Input data was truncated", "is not complete")


def read_json_records(source: ByteSource, *, exact: bool = False) -> Iterator[JsonRecords]:
    """Yield the objects of a file, block by block. If `exact` is true, numbers with a fraction or an exponent are parsed as `ExactNumber`."""
    block = more = source.read()
    while more and not block.strip(_SPACE) and len(block) < MAX_RECORD_BYTES:
        more = source.read()
        block += more
    yield from (_of_lines if has_objects_on_lines(block) else _of_values)(source, block, exact)


def has_objects_on_lines(block: bytes) -> bool:
    """Return whether the first block of a file shows that it has one object on each line, even if its first line is damaged."""
    lines = [line for line in block.split(b"\n", _EXAMINED_LINES)[:_EXAMINED_LINES] if line.strip(_SPACE)]
    first = _parse_line(lines[0]) if lines else None
    if isinstance(first, dict) or (isinstance(first, list) and len(lines) > 1):
        return True
    if lines and lines[0].lstrip(_SPACE)[:1] == b"[":
        return False
    if not lines or lines[0].lstrip(_SPACE)[:1] != b"{":
        # Text that does not begin with a bracket cannot have objects over several lines.
        return True
    if not any(isinstance(_parse_line(line), dict) for line in lines[1:] if line[:1] == b"{"):
        return False
    records = JsonRecords()
    _split_values(block, 1, records, is_array=False, has_ended=False)
    return bool(records.faults)


def _parse_line(line: bytes) -> Any:
    try:
        return _DECODER.decode(line.strip(_SPACE))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _of_lines(source: ByteSource, block: bytes, exact: bool) -> Iterator[JsonRecords]:
    carried, line, is_skipping = b"", 1, False
    while True:
        data, at_end = carried + block, not block
        if is_skipping:
            end = data.find(b"\n")
            if end < 0 and not at_end:
                carried, block = b"", source.read()
                continue
            data, line, is_skipping = data[end + 1 :] if end >= 0 else b"", line + 1, False
        end = len(data) if at_end else data.rfind(b"\n") + 1
        records = JsonRecords(exact=exact)
        texts = data[:end].split(b"\n")
        for number, text in enumerate(texts):
            if text.strip(_SPACE):
                records.add(text.strip(_SPACE), line + number)
        line += len(texts) - 1
        carried = data[end:]
        if len(carried) > MAX_RECORD_BYTES:
            records.faults.append(JsonFault(text=carried[:_KEPT_BYTES], line=line, reason=_TOO_LONG))
            carried, is_skipping = b"", True
        yield records
        if at_end:
            return
        block = source.read()


def _of_values(source: ByteSource, block: bytes, exact: bool) -> Iterator[JsonRecords]:
    """Yield the objects of a file that is an array of objects, or a sequence of objects with or without line breaks."""
    start = len(block) - len(block.lstrip(_SPACE))
    is_array = block[start : start + 1] == b"["
    # The opening bracket of an array is dropped, so that only values separated by commas remain.
    line = 1 + block.count(b"\n", 0, start)
    carried, block = b"", block[start + is_array :]
    has_ended = False
    while True:
        data, at_end = carried + block, not block
        records = JsonRecords(exact=exact)
        rest, line, has_ended = _split_values(data, line, records, is_array=is_array, has_ended=has_ended)
        carried = data[rest:]
        if at_end:
            remaining = carried.lstrip(_SPACE)
            last_line = line + carried.count(b"\n", 0, len(carried) - len(remaining))
            if remaining:
                records.faults.append(JsonFault(text=remaining[:MAX_RECORD_BYTES], line=last_line, reason="is not complete"))
            elif is_array and not has_ended:
                records.faults.append(JsonFault(text=b"", line=last_line, reason="has an array that is not closed"))
        elif len(carried) > MAX_RECORD_BYTES:
            # The beginning of the next object cannot be found, so that the rest of the file is one bad row.
            records.faults.append(
                JsonFault(text=carried[:_KEPT_BYTES], line=line, reason=f"{_TOO_LONG} or is not closed; the rest is not read")
            )
            yield records
            return
        yield records
        if at_end:
            return
        block = source.read()


def _split_values(data: bytes, line: int, records: JsonRecords, *, is_array: bool, has_ended: bool) -> tuple[int, int, bool]:
    """Add the complete top-level values (in an array: its members) of a text to `records`.

    Returns:
        The offset after the last complete value, the number of the line there, and whether the array has ended.
    """
    if has_ended:
        if data.strip(_SPACE):
            records.faults.append(JsonFault(text=data.strip(_SPACE)[:_KEPT_BYTES], line=line, reason="follows the end of the array"))
        return len(data), line + data.count(b"\n"), True
    text = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(text == _LF)
    around = _SPACE + b"," if is_array else _SPACE
    position = 0
    for end in _ends(text).tolist():
        before = data[position:end].strip(around)
        if is_array and data[end] == _CLOSING[1] and not before:
            rest_line = line + int(np.searchsorted(breaks, end))
            return _split_values(data[end + 1 :], rest_line, records, is_array=True, has_ended=True)[0] + end + 1, line + len(breaks), True
        piece = data[position : end + 1]
        value = piece.strip(around)
        records.add(value, line + int(np.searchsorted(breaks, position + piece.find(value))))
        position = end + 1
    return position, line + int(np.searchsorted(breaks, position)), False


def _ends(text: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the offsets of closing brackets, outside of strings, that close a top-level value or have no opening bracket."""
    quotes = np.flatnonzero(text == _QUOTE)
    escaped = quotes[(quotes > 0) & (text[np.maximum(quotes, 1) - 1] == _BACKSLASH)]
    if len(escaped):
        is_escaped = np.array([_backslashes_before(text, int(offset)) % 2 == 1 for offset in escaped], bool)
        quotes = np.setdiff1d(quotes, escaped[is_escaped], assume_unique=True)
    signs = np.flatnonzero(_STEPS[text])
    if len(quotes):
        signs = signs[np.searchsorted(quotes, signs) % 2 == 0]
    depths = np.cumsum(_STEPS[text[signs]], dtype=np.int32)
    # Each closing bracket without an opening one lowers the depth of the top level by one.
    top = np.minimum.accumulate(np.minimum(depths, 0)) if len(depths) else depths
    ends: NDArray[np.int64] = signs[depths == top]
    return ends


def _backslashes_before(text: NDArray[np.uint8], offset: int) -> int:
    start = offset
    while start > 0 and text[start - 1] == _BACKSLASH:
        start -= 1
    return offset - start
