"""Hashes of the distinct values of a column, for theta sketches. The hash of a value is that of its binary single-value serialization.

`puffin/theta_sketch.py` has the sketches. `values.py` serializes single values; this module must produce the same bytes.
Spec: Puffin file format, `apache-datasketches-theta-v1` blob type; Appendix D, binary single-value serialization.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.byte_columns import DECIMAL_WIDTH, ByteSpans, spans_of
from icefloe.spec.puffin.theta_hash import Hashes, theta_hashes, theta_hashes_of_values
from icefloe.spec.types import BooleanType, DecimalType, PrimitiveType, UnknownType

_NONE = np.zeros(0, np.uint64)
# The length in bytes up to which values of equal length are hashed together; longer values are hashed one by one.
_MAX_VECTORIZED_WIDTH = 16


def column_hashes(kind: PrimitiveType, column: Any) -> Hashes:
    """Return the hashes of the distinct values of an Arrow array of the column's in-memory type. Nulls and values without bytes are left out.

    Floats are compared by their bits, as they are serialized: 0.0 and -0.0 are two values.
    """
    if isinstance(kind, UnknownType) or not len(column):
        return _NONE
    array = array_of_chunks(column)
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    if isinstance(kind, BooleanType):
        return theta_hashes(np.unique(numpy_of(array.drop_null())).view(np.uint8).reshape(-1, 1))
    if isinstance(kind, DecimalType):
        return _decimal_hashes(pc.unique(array).drop_null())
    if _is_bytes(array.type):
        return _span_hashes(spans_of(pc.unique(array).drop_null()))
    width = array.type.bit_width // 8
    numbers = pc.unique(array.view(pa.int32() if width == 4 else pa.int64())).drop_null()
    return theta_hashes(numpy_of(numbers).astype(f"<i{width}").view(np.uint8).reshape(-1, width))


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    return any(
        matches(kind)
        for matches in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    )


def _span_hashes(spans: ByteSpans) -> Hashes:
    long_values = [spans.data[start : start + length].tobytes() for start, length in _longer(spans)]
    hashes = [theta_hashes_of_values(long_values)]
    for width in np.unique(spans.lengths[spans.lengths <= _MAX_VECTORIZED_WIDTH]).tolist():
        starts = spans.starts[spans.lengths == width]
        hashes.append(theta_hashes(spans.data[starts[:, None] + np.arange(width)]))
    return np.concatenate(hashes)


def _longer(spans: ByteSpans) -> list[tuple[int, int]]:
    is_long = spans.lengths > _MAX_VECTORIZED_WIDTH
    return list(zip(spans.starts[is_long].tolist(), spans.lengths[is_long].tolist(), strict=True))


def _decimal_hashes(array: Any) -> Hashes:
    """Return the hashes of decimals, serialized as unscaled numbers in big-endian two's complement with as few bytes as possible."""
    if not len(array):
        return _NONE
    wide = array.cast(pa.decimal128(38, array.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.uint8).reshape(-1, DECIMAL_WIDTH)[wide.offset : wide.offset + len(wide)]
    lengths = _fewest_bytes(words)
    hashes = [theta_hashes(np.ascontiguousarray(words[lengths == width][:, width - 1 :: -1])) for width in np.unique(lengths).tolist()]
    return np.concatenate(hashes)


def _fewest_bytes(words: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the number of bytes that each little-endian number of 16 bytes needs in two's complement.

    A byte is needed if it differs from the sign extension, or if the top bit of the byte below differs from the sign.
    """
    sign = np.where(words[:, -1:] & 0x80, 0xFF, 0).astype(np.uint8)
    magnitude = words ^ sign
    # One more bit is needed for the sign, above the highest bit that differs from it.
    needed = np.zeros(words.shape, np.bool_)
    needed[:, 0] = True
    needed[:, 1:] = (magnitude[:, 1:] != 0) | (magnitude[:, :-1] & 0x80 != 0)
    lengths: NDArray[np.int64] = DECIMAL_WIDTH - np.argmax(needed[:, ::-1], axis=1)
    return lengths
