"""Reads Arrow columns of serialized values into numpy arrays, without a Python object per value.

`values.py` determines the type of the values. Spec: Appendix D, binary single-value serialization.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of, array_of_chunks, numpy_of

# The bytes of a decimal with 38 digits, and of Arrow's decimal128.
DECIMAL_WIDTH = 16
_DAY_WIDTH = 4


class ByteSpans(NamedTuple):
    """A binary column as one buffer `data`, with the start and the length of each value in it. Null values have length 0 and are not `valid`."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    valid: NDArray[np.bool_]


def spans_of(column: Any) -> ByteSpans:
    """Return the starts and lengths of the values of an Arrow binary, string or fixed_size_binary array, which may be large, sliced or chunked."""
    array = array_of_chunks(column)
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    valid = numpy_of(array.is_valid())
    _, offsets_buffer, data_buffer = array.buffers()
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    if offsets_buffer is None or not len(array):
        offsets = np.zeros(len(array) + 1, np.int64)
    else:
        offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1].astype(
            np.int64
        )
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
    return ByteSpans(data, offsets[:-1], np.where(valid, np.diff(offsets), 0), valid)


def rows_of_width(spans: ByteSpans, width: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Return a mask of the values that are exactly `width` bytes long, and a matrix of bytes with one row for each of these values."""
    has_width = spans.valid & (spans.lengths == width)
    if len(has_width) and has_width.all():  # all values have this width, so they are contiguous
        return has_width, spans.data[spans.starts[0] : spans.starts[0] + len(has_width) * width].reshape(len(has_width), width)
    return has_width, spans.data[spans.starts[has_width][:, None] + np.arange(width)]


def rows_starting_with(spans: ByteSpans, width: int) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Return a mask of the values with at least `width` bytes, and a matrix with the first `width` bytes of each of these values as a row."""
    is_long_enough = spans.valid & (spans.lengths >= width)
    return is_long_enough, spans.data[spans.starts[is_long_enough][:, None] + np.arange(width)]


def fixed_width_numbers(spans: ByteSpans, dtypes: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values as numbers of the first type in `dtypes`, and a mask of the known values.

    A value with the width of another type in `dtypes` was written before the column was promoted, and is converted. A value of any other width is unknown.
    """
    numbers = np.zeros(len(spans.starts), dtypes[0])
    is_number = np.zeros(len(spans.starts), np.bool_)
    for dtype in dtypes:
        has_width, rows = rows_of_width(spans, np.dtype(dtype).itemsize)
        numbers[has_width] = rows.view(dtype).ravel()
        is_number |= has_width
    return numbers, is_number


def decimal_words(spans: ByteSpans) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return big-endian two's complement values as rows of 16 little-endian bytes, and a mask of the known values, which are 1 to 16 bytes long."""
    words = np.zeros((len(spans.starts), DECIMAL_WIDTH), np.uint8)
    is_number = np.zeros(len(spans.starts), np.bool_)
    for width in np.unique(spans.lengths[spans.valid]).tolist():
        if not 1 <= width <= DECIMAL_WIDTH:
            continue
        has_width, rows = rows_of_width(spans, width)
        sign = np.where(rows[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        words[has_width] = np.hstack([rows[:, ::-1], np.repeat(sign, DECIMAL_WIDTH - width, axis=1)])
        is_number |= has_width
    return words, is_number


def days_in_units(spans: ByteSpans, units_per_day: int, limits: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Convert the values of 4 bytes, which are dates from before a type promotion, to timestamps.

    Args:
        spans: The values.
        units_per_day: The number of the timestamp's units in one day.
        limits: The least and the greatest timestamp; a date outside of this range is unknown.

    Returns:
        The timestamps, and a mask of the values that are known dates.
    """
    has_width, rows = rows_of_width(spans, _DAY_WIDTH)
    days = rows.view("<i4").ravel().astype(np.int64)
    low, high = limits
    fits = (days >= -(-low // units_per_day)) & (days <= high // units_per_day)
    units = np.zeros(len(has_width), np.int64)
    units[has_width] = np.where(fits, days, 0) * units_per_day
    is_day = has_width.copy()
    is_day[has_width] = fits
    return units, is_day


def strings_of(column: Any) -> Any:
    """Return a binary column as an Arrow string array; values that are not UTF-8 become null."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return array_of([_text_or_none(value) for value in column.to_pylist()], pa.string())


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else str(value, "utf-8")
    except UnicodeDecodeError:
        return None
