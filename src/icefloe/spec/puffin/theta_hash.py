"""The hash function of theta sketches, for whole columns: the first 63 bits of MurmurHash3 x64 128 with the seed of DataSketches.

`theta_sketch.py` selects the hashes that a sketch keeps. The functions here hash bytes, of values of any type.
Spec: Puffin file format, `apache-datasketches-theta-v1` blob type; Apache DataSketches, Theta Sketch.
"""

from collections.abc import Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]
SEED = 9001  # DataSketches' default update seed
_BLOCK_BYTES = 16
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_FINAL = ((33, np.uint64(0xFF51AFD7ED558CCD)), (33, np.uint64(0xC4CEB9FE1A85EC53)))


def theta_hashes(rows: NDArray[np.uint8]) -> Hashes:
    """Return the hash of every row of a matrix of bytes. Without columns there are no hashes, because DataSketches ignores empty values."""
    count, width = rows.shape
    if not width:
        return np.zeros(0, np.uint64)
    if width > _BLOCK_BYTES:
        return theta_hashes_of_values([row.tobytes() for row in rows])
    padded = np.zeros((count, _BLOCK_BYTES), np.uint8)
    padded[:, :width] = rows
    low, high = padded.view("<u8").astype(np.uint64).T
    first = second = np.full(count, SEED, np.uint64)
    length = np.uint64(width)
    with np.errstate(over="ignore"):
        # A tail shorter than a block is filled with zeros and mixed in the same way, because mixing zeros gives zero.
        first = first ^ _rotate(low * _C1, 31) * _C2
        if width == _BLOCK_BYTES:
            first = (_rotate(first, 27) + second) * np.uint64(5) + np.uint64(0x52DCE729)
        second = second ^ _rotate(high * _C2, 33) * _C1
        if width == _BLOCK_BYTES:
            second = (_rotate(second, 31) + first) * np.uint64(5) + np.uint64(0x38495AB5)
        first, second = first ^ length, second ^ length
        first = first + second
        second = second + first
        first = _final(first) + _final(second)
    return first >> np.uint64(1)


def theta_hashes_of_values(values: Sequence[bytes]) -> Hashes:
    """Return the hash of every value that is not empty."""
    return np.array([mmh3.hash64(value, SEED, signed=False)[0] >> 1 for value in values if value], np.uint64)


def _rotate(numbers: Hashes, bits: int) -> Hashes:
    return numbers << np.uint64(bits) | numbers >> np.uint64(64 - bits)


def _final(numbers: Hashes) -> Hashes:
    for shift, factor in _FINAL:
        numbers = (numbers ^ numbers >> np.uint64(shift)) * factor
    return numbers ^ numbers >> np.uint64(33)
