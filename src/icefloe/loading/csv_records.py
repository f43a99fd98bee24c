"""Splits CSV text into records: where each begins and ends, on which line, and how many values it has; and finds lines that are not valid records.

A block of text is split by array operations up to the first quote in an unexpected place; from there on it is split record by record with a regular expression.
Both ways follow RFC 4180: a value in quotes may contain separators, line breaks and doubled quotes; a quote within an unquoted value is a normal character.
After an invalid line, splitting continues with the next line, so that an unclosed quote makes one line bad, not the rest of the file. Arrow reads the values of
the records (`csv_input.py`); their structure was checked here before.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from icefloe.loading.input_files import ByteSource
from icefloe.loading.reader_options import ReaderOptions

# The longest record that can be loaded. DuckDB's default is 2 MB.
MAX_RECORD_BYTES: Final = 16 * 1024 * 1024
# The number of bytes that are reported of a record that is too long.
_KEPT_BYTES: Final = 1024
_LF, _CR = 10, 13
_TOO_LONG = f"is longer than {MAX_RECORD_BYTES // (1024 * 1024)} MiB"

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFault:
    """A line that is not a valid record.

    Attributes:
        text: The bytes of the line, or its first bytes if it is too long.
        line: The number of the line, from 1.
        reason: What is wrong, without a subject, such as "has a quote that is not closed".
        value: The index of the wrong value in the line, from 0; None if unknown.
    """

    text: bytes
    line: int
    reason: str
    value: int | None = None


@dataclass(slots=True, kw_only=True)
class CsvRecords:
    """The records of a block of text. `starts`, `ends`, `lines` and `widths` are arrays with one element for each record.

    Attributes:
        data: The bytes of the block.
        starts: The offset in `data` of the first byte of the record.
        ends: The offset in `data` after the last byte of the record, without the line break.
        lines: The number of the first line of the record in the file, from 1.
        widths: The number of values of the record.
        faults: The lines of the block that are not valid records.
    """

    data: bytes
    starts: Offsets
    ends: Offsets
    lines: Offsets
    widths: Offsets
    faults: list[CsvFault] = field(default_factory=list)


class CsvDialect:
    """The special characters of a CSV file, such as the separator, and regular expressions for records and values with these characters."""

    def __init__(self, options: ReaderOptions) -> None:
        self.sep, self.quote = options.sep.encode(), options.quote.encode()
        self.escape, self.comment = options.escape.encode(), options.comment.encode()

    @cached_property
    def _field(self) -> bytes:
        sep, quote, escape = (re.escape(character) for character in (self.sep, self.quote, self.escape))
        escaped = (escape + rb"[\s\S]|") if escape else b""
        unquoted = rb"(?:%s[^%s%s\r\n])*+" % (escaped, sep, escape)
        if not quote:
            return unquoted
        quoted = rb"%s(?:%s[^%s%s]|%s%s)*+%s" % (quote, escaped, quote, escape, quote, quote, quote)
        # An atomic group, so that a value which begins with a quote never matches as an unquoted value.
        return rb"(?>%s|(?!%s)%s)" % (quoted, quote, unquoted)

    @cached_property
    def record(self) -> re.Pattern[bytes]:
        """Matches a record, without its line break."""
        return re.compile(rb"%s(?:%s%s)*+(?=[\r\n]|\Z)" % (self._field, re.escape(self.sep), self._field))

    @cached_property
    def values(self) -> re.Pattern[bytes]:
        """Matches one value of a record, with the separator before it, if it is not the first value."""
        return re.compile(rb"(?:\A|%s)%s" % (re.escape(self.sep), self._field))

    @cached_property
    def before_fault(self) -> re.Pattern[bytes]:
        """Matches the valid values at the start of an invalid line, each with the separator after it."""
        return re.compile(rb"(?:%s%s)*+" % (self._field, re.escape(self.sep)))

    @cached_property
    def open_quote(self) -> re.Pattern[bytes]:
        """Matches valid values, followed by a value whose quotes are not closed at the end of the text."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        escaped = (escape + rb"[\s\S]|") if escape else b""
        inside = rb"(?:%s[^%s%s]|%s%s)*+" % (escaped, quote, escape, quote, quote)
        return re.compile(rb"(?:%s%s)*+%s%s%s?\Z" % (self._field, re.escape(self.sep), quote, inside, escape or rb"(?!)"))


def read_records(source: ByteSource, dialect: CsvDialect) -> Iterator[CsvRecords]:
    """Yield the records of a file, block by block. The header line is the first record; blank lines and comment lines are left out."""
    carried, line, is_skipping = b"", 1, False
    while True:
        block = source.read()
        data, at_end = carried + block, not block
        if is_skipping:
            # Skip the rest of a line that was too long.
            end = data.find(b"\n")
            carried = b"" if end < 0 else data[end + 1 :]
            if end < 0 and not at_end:
                continue
            is_skipping, line, data = False, line + 1, carried
        if at_end and not data:
            return
        records, rest, line = _split(data, line, dialect, at_end=at_end)
        carried = data[rest:]
        if len(carried) > MAX_RECORD_BYTES:
            end = carried.find(b"\n")
            if end < 0:
                records.faults.append(CsvFault(text=carried[:_KEPT_BYTES], line=line, reason=_TOO_LONG))
                carried, is_skipping = b"", True
            else:
                records.faults.append(_fault(carried, 0, end, line, dialect, "has a quote that is not closed"))
                carried, line = carried[end + 1 :], line + 1
        yield records
        if at_end:
            return


def _split(data: bytes, first_line: int, dialect: CsvDialect, *, at_end: bool) -> tuple[CsvRecords, int, int]:
    """Split a text into records.

    Args:
        data: The text.
        first_line: The number of the first line of the text in the file.
        dialect: The special characters of the file.
        at_end: Whether the text is the end of the file.

    Returns:
        The records; the offset of the incomplete last record, which must be put before the next block; and the line number at this offset.
    """
    text = np.frombuffer(data, np.uint8)
    breaks = _line_breaks(text, at_end=at_end)
    records, rest = _split_by_arrays(data, text, breaks, dialect, at_end=at_end)
    if rest < 0:
        start = -rest - 1
        rest = _split_by_pattern(data, start, breaks, first_line, dialect, records, at_end=at_end)
    records.lines = first_line + np.searchsorted(breaks, records.starts)
    is_kept = records.ends > records.starts
    if dialect.comment and len(records.starts):
        is_kept &= text[np.minimum(records.starts, len(text) - 1)] != dialect.comment[0]
    for name in ("starts", "ends", "lines", "widths"):
        setattr(records, name, getattr(records, name)[is_kept])
    return records, rest, first_line + int(np.searchsorted(breaks, rest))


def _line_breaks(text: NDArray[np.uint8], *, at_end: bool) -> Offsets:
    """Return the offsets of the line breaks LF, CR LF and CR. For CR LF, it is the offset of the LF."""
    breaks = np.flatnonzero(text == _LF)
    returns = np.flatnonzero(text == _CR)
    if len(returns):
        is_last = returns == len(text) - 1
        # A CR at the end of a block can be followed by an LF in the next block.
        alone = returns[is_last] if at_end else returns[:0]
        inner = returns[~is_last]
        breaks = np.union1d(breaks, np.concatenate([alone, inner[text[inner + 1] != _LF]]))
    return breaks


def _split_by_arrays(data: bytes, text: Any, breaks: Offsets, dialect: CsvDialect, *, at_end: bool) -> tuple[CsvRecords, int]:
    """Split a text into records up to the first quote in an unexpected place.

    Returns:
        The records, and the offset after the last of them. If the rest must be split by regular expressions, the offset is returned as -offset - 1.
    """
    quotes = np.flatnonzero(text == dialect.quote[0]) if dialect.quote else breaks[:0]
    if dialect.escape and dialect.escape in data:
        return _records(data, text, breaks[:0], quotes, dialect), -1
    ends = breaks
    fault = -1
    if len(quotes):
        ends = breaks[np.searchsorted(quotes, breaks) % 2 == 0]
        fault = _first_fault(text, quotes, dialect.sep[0], at_end=at_end)
        if fault >= 0:
            ends = ends[: np.searchsorted(ends, fault)]
    rest = int(ends[-1]) + 1 if len(ends) else 0
    if fault < 0 and at_end and rest < len(data):
        if np.searchsorted(quotes, len(data)) % 2:
            fault = rest
        else:
            ends, rest = np.append(ends, len(data)), len(data)
    return _records(data, text, ends, quotes, dialect), rest if fault < 0 else -rest - 1


def _first_fault(text: Any, quotes: Offsets, sep: int, *, at_end: bool) -> int:
    """Return the offset of the first quote that neither begins nor ends a value nor is doubled; -1 if there is no such quote.

    The first, third, fifth quote and so on count as opening quotes, the others as closing quotes.
    """
    padded = np.concatenate([[_LF], text, [_LF]]).astype(np.uint8)
    beside = np.zeros(256, bool)
    beside[[sep, _LF, _CR]] = True
    is_adjacent = np.diff(quotes) == 1
    opening, closing = quotes[::2], quotes[1::2]
    after_quote = np.concatenate([[False], is_adjacent[1::2]])[: len(opening)]
    before_quote = np.append(is_adjacent[1::2], False)[: len(closing)]
    wrong_opening = opening[~(beside[padded[opening]] | after_quote)]
    wrong_closing = closing[~(beside[padded[closing + 2]] | before_quote)]
    if not at_end:
        # The byte after the last one is in the next block, so that a quote at the end cannot be judged yet.
        wrong_closing = wrong_closing[wrong_closing < len(text) - 1]
    wrong = [int(offsets[0]) for offsets in (wrong_opening, wrong_closing) if len(offsets)]
    return min(wrong, default=-1)


def _records(data: bytes, text: Any, ends: Offsets, quotes: Offsets, dialect: CsvDialect) -> CsvRecords:
    """Return the records that end at the offsets `ends`: line breaks, or the end of the text."""
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)[: len(ends)]
    ends = ends.astype(np.int64)
    padded_last = ends - (ends > starts)
    if len(text):
        has_return = (ends > starts) & (text[np.minimum(padded_last, len(text) - 1)] == _CR) & (ends < len(text))
        ends = ends - (has_return & (text[np.minimum(ends, len(text) - 1)] == _LF))
    until = int(ends[-1]) if len(ends) else 0
    separators = np.flatnonzero(text[:until] == dialect.sep[0])
    if len(quotes):
        separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
    widths = np.searchsorted(separators, ends) - np.searchsorted(separators, starts) + 1
    return CsvRecords(data=data, starts=starts, ends=ends, lines=starts, widths=widths)


def _split_by_pattern(
    data: bytes, start: int, breaks: Offsets, first_line: int, dialect: CsvDialect, records: CsvRecords, *, at_end: bool
) -> int:
    """Split a text from the offset `start` on, and add its records and faults to `records`.

    Returns:
        The offset of the incomplete last record, which must be put before the next block.
    """
    starts: list[int] = []
    ends: list[int] = []
    widths: list[int] = []
    end_of_text, count = len(data), len(breaks)
    position = start
    while position < end_of_text:
        record = dialect.record.match(data, position)
        end = record.end() if record else -1
        if record and not at_end and (end == end_of_text or (data[end] == _CR and end + 1 == end_of_text)):
            break
        if record is None:
            index = int(np.searchsorted(breaks, position))
            is_open = dialect.quote and dialect.open_quote.match(data, position) is not None
            if not at_end and (index == count or is_open):
                break
            line_end = int(breaks[index]) if index < count else end_of_text
            reason = "has a quote that is not closed" if is_open else "has text after a closing quote"
            records.faults.append(_fault(data, position, line_end, first_line + index, dialect, reason))
            position = line_end + 1
            continue
        starts.append(position)
        ends.append(end)
        widths.append(len(dialect.values.findall(data[position:end])) if end > position else 1)
        position = end + (2 if data[end : end + 2] == b"\r\n" else 1)
    for name, values in (("starts", starts), ("ends", ends), ("widths", widths)):
        setattr(records, name, np.concatenate([getattr(records, name), np.array(values, np.int64)]))
    return min(position, end_of_text)


def _fault(data: bytes, start: int, end: int, line: int, dialect: CsvDialect, reason: str) -> CsvFault:
    text = data[start:end].rstrip(b"\r")
    before = dialect.before_fault.match(text)
    value = len(dialect.values.findall(before[0])) - 1 if before and before[0] else 0
    return CsvFault(text=text, line=line, reason=reason, value=value)
