"""The 32-bit Murmur3 hash (x86 variant, seed 0) for whole columns. `BucketTransform` computes buckets from it.

`transforms.py` defines which bytes of a value are hashed. Spec: Appendix B, 32-bit Hash Requirements.
"""

from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.spec.byte_columns import DECIMAL_WIDTH

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_BLOCK_ADD = np.uint32(0xE6546B64)
_FINAL_1, _FINAL_2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def hash_bytes(data: bytes) -> int:
    """Return the hash of one value's bytes, as an unsigned 32-bit number."""
    return int(mmh3.hash(data, 0, signed=False))


def hash_rows(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the hash of each row of a matrix of bytes, as `hash_bytes` would for the row. Each row is one value."""
    count, width = rows.shape
    whole = width // 4
    state = np.zeros(count, np.uint32)
    blocks = np.ascontiguousarray(rows[:, : whole * 4]).view("<u4")
    for index in range(whole):
        state = _rotate(state ^ _mix(blocks[:, index].astype(np.uint32)), 13) * np.uint32(5) + _BLOCK_ADD
    tail = np.zeros(count, np.uint32)
    for index in range(whole * 4, width):
        tail |= rows[:, index].astype(np.uint32) << np.uint32(8 * (index - whole * 4))
    state = state ^ _mix(tail) ^ np.uint32(width)
    state = (state ^ (state >> np.uint32(16))) * _FINAL_1
    state = (state ^ (state >> np.uint32(13))) * _FINAL_2
    return state ^ (state >> np.uint32(16))


def hash_longs(numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the hash of each number, serialized as 8 little-endian bytes. Values of int, long, date, time and timestamp are hashed in this form."""
    return hash_rows(numbers.astype("<i8").view(np.uint8).reshape(-1, 8))


def hash_decimals(array: Any) -> NDArray[np.uint32]:
    """Return the hash of each value of an Arrow decimal128 array, serialized as the shortest big-endian two's complement. Nulls get an arbitrary hash."""
    _, data = array.buffers()
    start = array.offset * DECIMAL_WIDTH
    words = np.frombuffer(data, np.uint8)[start : start + len(array) * DECIMAL_WIDTH].reshape(-1, DECIMAL_WIDTH)
    sign = np.where(words[:, -1] & 0x80, 0xFF, 0).astype(np.uint8)
    significant = words != sign[:, None]  # a mask of the bytes that differ from the sign extension
    top = DECIMAL_WIDTH - 1 - np.argmax(significant[:, ::-1], axis=1)
    top = np.where(significant.any(axis=1), top, 0)
    # One more byte is needed if the highest significant byte would be read with the wrong sign.
    has_wrong_sign = ((words[np.arange(len(words)), top] ^ sign) & 0x80) != 0
    widths = top + 1 + has_wrong_sign
    hashes = np.zeros(len(array), np.uint32)
    for width in np.unique(widths).tolist():
        has_width = widths == width
        hashes[has_width] = hash_rows(words[has_width, :width][:, ::-1])
    return hashes


def hash_texts(array: Any) -> NDArray[np.uint32]:
    """Return the hash of the bytes of each value of an Arrow string or binary array. Nulls get an arbitrary hash.

    Each distinct value is hashed once.
    """
    if pa.types.is_string(array.type) or pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    elif pa.types.is_large_string(array.type):
        array = array.cast(pa.large_binary())
    encoded = array.dictionary_encode()
    hashes = np.array([hash_bytes(value) for value in encoded.dictionary.to_pylist()] or [0], np.uint32)
    positions: NDArray[np.int32] = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return hashes[positions]


def _mix(block: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return _rotate(block * _C1, 15) * _C2


def _rotate(state: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    return (state << np.uint32(bits)) | (state >> np.uint32(32 - bits))
