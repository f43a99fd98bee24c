"""`ColumnWords`: the values of a column as numbers of 64 bits, so that rows are hashed and compared by array operations.

Words of equal values are equal. Of most types the reverse is true too; where it is not, as for long texts and lists, the values are compared themselves.
It implements no section of the specification.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.same_values import differing
from icefloe.spec.arrow_values import array_of_chunks, numpy_of, offsets_of, positions_array
from icefloe.spec.temporal_arrays import as_numbers

Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]

_WORD_BYTES = 8
_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_FLOATS = {16: np.float16, 32: np.float32, 64: np.float64}
_OFFSETS = {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}
# An odd multiplier, and a shift, that spread the bits of a product. Origin: the finalizer of SplitMix64.
_MULTIPLIER, _SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(29)


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """The values of a column as words.

    Attributes:
        values: The column.
        words: One or more numbers for each row; none if every value is null.
        is_open: A mask of the rows whose values may differ although their words are equal; None for no rows.
    """

    values: Any
    words: Sequence[Words]
    is_open: Mask | None

    @classmethod
    def of(cls, column: Any) -> "ColumnWords":
        """Return the words of an Arrow array, chunked or not."""
        values = array_of_chunks(column)
        parts = list(_parts(values, nested=False))
        masks = [mask for _, mask in parts if mask is not None]
        is_open: Mask | None = np.logical_or.reduce(masks) if masks else None
        return cls(values, [word for words, _ in parts for word in words], is_open if is_open is not None and is_open.any() else None)

    def equal(self, left: Numbers, right: Numbers) -> Mask:
        """Return a mask of the pairs of rows, given by their positions, with equal values. Null equals null; floats are compared by their bits."""
        same = np.ones(len(left), np.bool_)
        for word in self.words:
            same &= word[left] == word[right]
        if self.is_open is not None:
            undecided = np.flatnonzero(same & self.is_open[left])
            if len(undecided):
                sides = (self.values.take(positions_array(rows[undecided])) for rows in (left, right))
                same[undecided] = _same_values(*sides)
        return same


def _same_values(left: Any, right: Any) -> Mask:
    same: Mask = ~differing(left, right, zeros_differ=True)
    others = np.flatnonzero(~same)
    if len(others) and _has_unordered_keys(left.type):
        texts = [[text_of_nested(value) for value in as_numbers(side.take(positions_array(others))).to_pylist()] for side in (left, right)]
        same[others] = [text == other for text, other in zip(*texts, strict=True)]
    return same


def _has_unordered_keys(kind: Any) -> bool:
    """Return whether a type contains maps whose keys have no order that divides them: nested keys have none, and 0.0 and -0.0 are equal in it."""
    if pa.types.is_map(kind) and (pa.types.is_nested(kind.key_type) or pa.types.is_floating(kind.key_type)):
        return True
    return pa.types.is_nested(kind) and any(_has_unordered_keys(kind.field(place).type) for place in range(kind.num_fields))


def text_of_nested(value: Any) -> str:
    """Return a nested value, as `to_pylist` returns it, as text. Different values have different texts; the order of a map's entries does not matter."""
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}:{text_of_nested(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        texts = map(text_of_nested, value)
        return "[" + ",".join(sorted(texts) if value and isinstance(value[0], tuple) else texts) + "]"
    if isinstance(value, tuple):  # an entry of a map
        return "(" + ":".join(map(text_of_nested, value)) + ")"
    return repr(value)


def row_hashes(columns: Sequence[ColumnWords], rows: int) -> Words:
    """Return a hash of 64 bits for each row. Equal rows have equal hashes; rows that differ may have equal hashes too."""
    hashes = np.zeros(rows, np.uint64)
    for word in (word for column in columns for word in column.words):
        hashes ^= word
        hashes *= _MULTIPLIER
        hashes ^= hashes >> _SHIFT
    return hashes


def _parts(values: Any, *, nested: bool) -> Iterator[tuple[list[Words], Mask | None]]:
    """Yield words of a column, with the mask of the rows that they leave open; for a struct those of its fields."""
    kind = values.type
    if pa.types.is_null(kind):
        return
    valid = numpy_of(values.is_valid()) if values.null_count else None
    if valid is not None:
        yield [valid.astype(np.uint64)], None
    if isinstance(values, pa.ExtensionArray):
        yield from _parts(values.storage, nested=nested)
    elif pa.types.is_struct(kind):
        for child in values.flatten():  # null where the struct is null
            yield from _parts(child, nested=True)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        yield [_without_nulls(np.diff(offsets_of(values)).astype(np.uint64), valid)], np.ones(len(values), np.bool_)
    elif pa.types.is_boolean(kind):
        yield [_without_nulls(numpy_of(values).astype(np.uint64), valid)], None
    elif pa.types.is_decimal(kind) or (pa.types.is_primitive(kind) and kind.bit_width in _UNSIGNED):
        yield [_without_nulls(words, valid) for words in _fixed_words(values, nested=nested)], None
    elif kind in _OFFSETS or pa.types.is_fixed_size_binary(kind):
        words, is_open = _byte_words(values)
        yield [_without_nulls(word, valid) for word in words], is_open
    else:
        yield [], np.ones(len(values), np.bool_)


def _without_nulls(words: Words, valid: Mask | None) -> Words:
    return words if valid is None else np.where(valid, words, np.uint64(0))


def _fixed_words(values: Any, *, nested: bool) -> Iterator[Words]:
    kind, start, end = values.type, values.offset, values.offset + len(values)
    if not len(values):
        yield np.zeros(0, np.uint64)
        return
    lanes = max(1, kind.bit_width // 64)
    numbers = np.frombuffer(values.buffers()[1], _UNSIGNED[kind.bit_width // lanes], count=end * lanes)[start * lanes :]
    if nested and kind.bit_width in _FLOATS and pa.types.is_floating(kind):
        is_nan = np.isnan(numbers.view(_FLOATS[kind.bit_width]))
        # Inside of other values every NaN is the same, as in their text; the mask keeps them apart from 0.0.
        yield is_nan.astype(np.uint64)
        numbers = np.where(is_nan, numbers.dtype.type(0), numbers)
    for lane in range(lanes):
        yield numbers[lane::lanes].astype(np.uint64, copy=False)


def _byte_words(values: Any) -> tuple[list[Words], Mask | None]:
    """Return the first and last eight bytes of texts, binaries and fixed-size binaries, and their lengths; and the mask of those that are longer than both."""
    kind = values.type
    if not len(values):
        return [np.zeros(0, np.uint64)], None
    if pa.types.is_fixed_size_binary(kind):
        bounds = np.arange(values.offset, values.offset + len(values) + 1, dtype=np.int64) * kind.byte_width
        data = values.buffers()[1]
    else:
        width = _OFFSETS[kind]
        bounds = np.frombuffer(values.buffers()[1], width, count=values.offset + len(values) + 1)[values.offset :].astype(np.int64)
        data = values.buffers()[2]
    first, last = int(bounds[0]), int(bounds[-1])
    # The bytes of the column, after and before which eight more can be read.
    padded = np.zeros(last - first + 2 * _WORD_BYTES, np.uint8)
    if last > first:
        padded[_WORD_BYTES:-_WORD_BYTES] = np.frombuffer(data, np.uint8, count=last - first, offset=first)
    windows = np.ndarray((len(padded) - _WORD_BYTES + 1,), "<u8", padded, strides=(1,))
    starts, ends = bounds[:-1] - first, bounds[1:] - first
    lengths = ends - starts
    missing = (_WORD_BYTES - np.minimum(lengths, _WORD_BYTES)).astype(np.uint64) * np.uint64(8)  # bits that are not of the value
    is_empty = lengths == 0
    begin = windows[starts + _WORD_BYTES] << missing
    end = windows[ends] >> missing
    if is_empty.any():  # a shift by all bits is not defined
        begin, end = (np.where(is_empty, np.uint64(0), word) for word in (begin, end))
    is_open = lengths > 2 * _WORD_BYTES
    return [begin, end, lengths.astype(np.uint64)], is_open if is_open.any() else None
