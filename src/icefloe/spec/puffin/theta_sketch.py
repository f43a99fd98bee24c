"""Theta sketches, which estimate the number of distinct values with a few kilobytes; their unions, and their compact form in Puffin files.

A sketch keeps the hashes of values that are below a threshold, theta. If theta is less than 1, the kept hashes represent a larger number of values. A sketch is
exact up to its nominal number of entries. `theta_hash.py` computes the hashes of values.
Spec: Puffin file format, `apache-datasketches-theta-v1` blob type; Apache DataSketches, compact Theta sketch, serial versions 3 and 4.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from icefloe.errors import PuffinFormatError
from icefloe.spec.puffin.theta_hash import Hashes

BLOB_TYPE = "apache-datasketches-theta-v1"
NDV_PROPERTY = "ndv"
# The nominal number of entries: DataSketches' default, with a standard error of 1 in 64.
NOMINAL_ENTRIES = 4096
# The theta of a sketch that contains all hashes: 1.0 as a number of 63 bits.
FULL_THETA = 2**63 - 1
_FAMILY_COMPACT = 3
_PLAIN, _COMPRESSED = 3, 4  # serial versions
# Hash of the default seed 9001. DataSketches refuses the union of sketches with different seeds.
_SEED_HASH = 0x93CC
_BIG_ENDIAN, _READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_WRITTEN = _READ_ONLY | _COMPACT | _ORDERED
# The header: preamble longs, serial version, family, two bytes (bits of an entry and bytes of the count; unused in version 3), flags, seed hash.
_PREAMBLE = struct.Struct("<BBBBBBH")
_COUNT_AND_P = struct.Struct("<If")
_THETA = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, eq=False)
class ThetaSketch:
    """A theta sketch: `hashes` are ascending and distinct, all below `theta` (a number of 63 bits; all ones for 1.0)."""

    hashes: Hashes
    theta: int = FULL_THETA
    # Whether no value was added. A sketch without hashes is not empty if theta excluded all of them.
    is_empty: bool = True

    @property
    def estimate(self) -> float:
        """The estimated number of distinct values; it is exact if theta is 1.0."""
        return len(self.hashes) / (self.theta / FULL_THETA) if self.theta < FULL_THETA else float(len(self.hashes))

    @property
    def ndv(self) -> int:
        """The number of distinct values (NDV) as in the blob's property: the estimate, rounded down."""
        return int(self.estimate)

    def with_hashes(self, hashes: Hashes) -> "ThetaSketch":
        """Return the sketch with further values added, passed as hashes in any order, which may be repeated."""
        below_theta = hashes[(hashes < np.uint64(self.theta)) & (hashes > 0)]
        return union((self, ThetaSketch(below_theta, FULL_THETA, is_empty=False))) if len(hashes) else self

    def to_bytes(self) -> bytes:
        """Return the compact, ordered form in serial version 3, as DataSketches writes it."""
        count = len(self.hashes)
        estimating = self.theta < FULL_THETA
        if self.is_empty:
            return _PREAMBLE.pack(1, _PLAIN, _FAMILY_COMPACT, 0, 0, _WRITTEN | _EMPTY, _SEED_HASH)
        body = self.hashes.astype("<u8").tobytes()
        if count == 1 and not estimating:
            return _PREAMBLE.pack(1, _PLAIN, _FAMILY_COMPACT, 0, 0, _WRITTEN | _SINGLE, _SEED_HASH) + body
        head = _PREAMBLE.pack(3 if estimating else 2, _PLAIN, _FAMILY_COMPACT, 0, 0, _WRITTEN, _SEED_HASH) + _COUNT_AND_P.pack(count, 1.0)
        return head + (_THETA.pack(self.theta) if estimating else b"") + body


EMPTY_SKETCH = ThetaSketch(np.zeros(0, np.uint64))


def union(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """Return the sketch of the values of all sketches."""
    non_empty = [sketch for sketch in sketches if not sketch.is_empty]
    if not non_empty:
        return EMPTY_SKETCH
    theta = min(sketch.theta for sketch in non_empty)
    hashes = np.unique(np.concatenate([sketch.hashes for sketch in non_empty]))
    return _trim(hashes[hashes < np.uint64(theta)], theta)


def _trim(hashes: Hashes, theta: int) -> ThetaSketch:
    if len(hashes) > NOMINAL_ENTRIES:
        theta, hashes = int(hashes[NOMINAL_ENTRIES]), hashes[:NOMINAL_ENTRIES]
    return ThetaSketch(hashes, theta, is_empty=False)


def sketch_from_bytes(data: bytes) -> ThetaSketch:
    """Return the sketch in a blob of any writer, which may be ordered or unordered, compressed or uncompressed.

    Raises:
        PuffinFormatError: The bytes are not a compact theta sketch of the default seed and of serial version 3 or 4, are truncated, or have invalid hashes.
    """
    if len(data) < _PREAMBLE.size:
        raise _format_error(f"{len(data)} bytes are too few")
    longs, version, family, entry_bits, count_bytes, flags, seed_hash = _PREAMBLE.unpack_from(data)
    longs &= 0x3F  # the two upper bits are the resize factor of sketches that are not compact
    if version not in (_PLAIN, _COMPRESSED) or family != _FAMILY_COMPACT or flags & _BIG_ENDIAN:
        raise _format_error(f"it is of serial version {version}, family {family}, flags {flags:#x}")
    if flags & _EMPTY:
        return EMPTY_SKETCH
    if seed_hash != _SEED_HASH:
        raise _format_error(f"its hashes are of another seed ({seed_hash:#x})")
    try:
        hashes, theta = _read_compressed(data, longs, entry_bits, count_bytes) if version == _COMPRESSED else _plain(data, longs, flags)
    except struct.error as error:
        raise _format_error("it is truncated") from error
    hashes = np.sort(hashes)
    if not 0 < theta <= FULL_THETA or (len(hashes) and (not hashes[0] or hashes[-1] >= theta or (hashes[1:] == hashes[:-1]).any())):
        raise _format_error("its hashes are not distinct numbers between 0 and theta")
    return ThetaSketch(hashes, theta, is_empty=False)


def _plain(data: bytes, longs: int, flags: int) -> tuple[Hashes, int]:
    if longs not in (1, 2, 3):
        raise _format_error(f"its preamble is {longs} longs")
    # A preamble of one long means that there is a single hash, even if an older writer did not set the flag.
    count = 1 if longs == 1 or flags & _SINGLE else _COUNT_AND_P.unpack_from(data, 8)[0]
    theta = _THETA.unpack_from(data, 16)[0] if longs == 3 else FULL_THETA
    body = data[8 * longs :]
    if len(body) != 8 * count:
        raise _format_error(f"it has {len(body)} bytes for {count} hashes of 8")
    return np.frombuffer(body, "<u8").astype(np.uint64), theta


def _read_compressed(data: bytes, longs: int, entry_bits: int, count_bytes: int) -> tuple[Hashes, int]:
    """Read serial version 4: the differences of ascending hashes, each packed in as many bits as the greatest difference needs, with the highest bit first."""
    if longs not in (1, 2) or not 1 <= entry_bits <= 63 or not 1 <= count_bytes <= 4:
        raise _format_error(f"its preamble is {longs} longs, its entries have {entry_bits} bits and are counted in {count_bytes} bytes")
    theta = _THETA.unpack_from(data, 8)[0] if longs == 2 else FULL_THETA
    start = 8 * longs + count_bytes
    count = int.from_bytes(data[8 * longs : start], "little")
    body = data[start:]
    if len(body) != (count * entry_bits + 7) // 8:
        raise _format_error(f"it has {len(body)} bytes for {count} hashes of {entry_bits} bits")
    bits = np.unpackbits(np.frombuffer(body, np.uint8))[: count * entry_bits].reshape(count, entry_bits)
    return np.cumsum(_numbers(bits), dtype=np.uint64), theta


def _numbers(bits: NDArray[np.uint8]) -> Hashes:
    count, width = bits.shape
    wide = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">u8").ravel().astype(np.uint64)


def _format_error(what: str) -> PuffinFormatError:
    return PuffinFormatError(f"a blob of type {BLOB_TYPE} is not a readable theta sketch: {what}")
