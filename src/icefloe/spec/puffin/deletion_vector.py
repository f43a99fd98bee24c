"""Deletion vectors: the set of deleted row positions of one data file, as an object, as the bytes of a blob, and in a whole Puffin file.

A framed vector consists of a length (4 bytes, big endian), the magic bytes, a 64-bit Roaring bitmap (little endian), and the CRC-32 of magic bytes and bitmap
(4 bytes, big endian). The length is that of magic bytes and bitmap. Early writers left the frame out; `detect_framing` recognizes such unframed bitmaps. The
library `pyroaring` reads and writes the bitmap itself. It refuses containers that are out of order or have wrong counts, but does not return where a bitmap
ends, and ignores bytes after it. So this module finds the end, without trusting any size in the bitmap.
Spec: Puffin file format, `deletion-vector-v1` blob type; Deletion Vectors; RoaringFormatSpec, extension for 64 bits.
"""

import array
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64, FrozenBitMap64

from icefloe.errors import InvalidInputError
from icefloe.spec.puffin.puffin_errors import puffin_format_error
from icefloe.spec.puffin.puffin_file import Blob, write_puffin
from icefloe.spec.puffin.puffin_metadata import BlobMetadata

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347  # in the lower 16 bits; the upper 16 bits are the number of containers minus one
_NO_OFFSETS_BELOW = 4  # bitmaps with runs have no offsets if they have fewer containers than this
_MAX_CONTAINERS = 1 << 16
_MAX_ARRAY_VALUES = 4096
_BITSET_BYTES = 8192
# The bytes of a key, and of the cookie and count of an empty bitmap, which Java writes for each key without positions.
_MIN_BITMAP_BYTES = 12
_KEYS = 1 << 31  # the top bit of a position is 0


class InvalidBitmapError(ValueError):
    """The error for bytes that are not a bitmap. `position` is the wrong byte, counted from the start of the bitmap."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


def check_bitmap_extent(data: bytes) -> None:
    """Check that the bitmaps and their containers end where `data` ends.

    Raises:
        InvalidBitmapError: The data is truncated, followed by more bytes, has keys out of order or with the top bit set, or an unknown cookie.
    """
    position = 0
    try:
        (count,) = struct.unpack_from("<Q", data, 0)
        position = 8
        if count > (len(data) - position) // _MIN_BITMAP_BYTES:
            raise InvalidBitmapError(0, f"{count} bitmaps are claimed in {len(data)} bytes")
        last_key = -1
        for _ in range(count):
            (key,) = struct.unpack_from("<I", data, position)
            if not last_key < key < _KEYS:
                what = "has its top bit set" if key >= _KEYS else f"follows the key {last_key}"
                raise InvalidBitmapError(position, f"the key {key} of a bitmap {what}")
            last_key = key
            position = _end_of_bitmap(data, position + 4)
    except (struct.error, IndexError):
        raise InvalidBitmapError(position, "the bitmap is truncated") from None
    if position != len(data):
        what = "the bitmap is truncated" if position > len(data) else f"{len(data) - position} bytes follow the bitmap"
        raise InvalidBitmapError(min(position, len(data)), what)


def _end_of_bitmap(data: bytes, start: int) -> int:
    """Return the end of a 32-bit bitmap that begins at `start`. If the last container is truncated, the end is beyond the data."""
    cookie, count = struct.unpack_from("<HH", data, start)
    if cookie == _COOKIE_WITH_RUNS:
        containers = count + 1
        flags = start + 4
        descriptors = flags + (containers + 7) // 8
        position = descriptors + 4 * containers + (4 * containers if containers >= _NO_OFFSETS_BELOW else 0)
    elif cookie == _COOKIE_WITHOUT_RUNS and count == 0:
        (containers,) = struct.unpack_from("<I", data, start + 4)
        if containers > _MAX_CONTAINERS:
            raise InvalidBitmapError(start + 4, f"a bitmap claims {containers} containers")
        flags = None
        descriptors = start + 8
        position = descriptors + 8 * containers
    else:
        raise InvalidBitmapError(start, f"a bitmap begins with the unknown cookie {cookie + (count << 16)}")
    for index in range(containers):
        if flags is not None and data[flags + index // 8] >> index % 8 & 1:
            (runs,) = struct.unpack_from("<H", data, position)
            position += 2 + 4 * runs
        else:
            (cardinality_less_one,) = struct.unpack_from("<H", data, descriptors + 4 * index + 2)
            position += 2 * (cardinality_less_one + 1) if cardinality_less_one < _MAX_ARRAY_VALUES else _BITSET_BYTES
    return int(position)


DELETION_VECTOR_BLOB = "deletion-vector-v1"
REFERENCED_DATA_FILE = "referenced-data-file"
CARDINALITY = "cardinality"
_MAGIC = bytes.fromhex("d1d33964")
_LENGTH_BYTES = 4
_CRC_BYTES = 4
_BITMAP_START = _LENGTH_BYTES + len(_MAGIC)
_EMPTY_BITMAP_BYTES = 8
_MAX_BLOB_BYTES = 2**31 - 1  # because other readers load a blob into one Java array
# The field id that is recorded for the blob, as by other writers: that of the metadata column _pos.
_ROW_POSITION_FIELD_ID = 2147483645
# The value that the specification requires as snapshot id and sequence number, because the snapshot is unknown when the file is written.
_UNASSIGNED = -1
_POSITIONS = 1 << 63


class VectorFraming(Enum):
    """Whether the bytes of a deletion vector have the frame that the specification requires."""

    FRAMED = "framed"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The compressed positions of the deleted rows of one data file, counted from 0. It is picklable."""

    bitmap: FrozenBitMap64

    @property
    def cardinality(self) -> int:
        """The number of deleted rows."""
        return len(self.bitmap)

    def positions(self) -> npt.NDArray[np.uint64]:
        """Return the deleted positions, ascending. They need 8 bytes each, which can be far more than the vector itself."""
        return np.frombuffer(self.bitmap.to_array(), np.uint64)

    def deleted_rows(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the deleted rows among the `count` rows from position `first` on. It needs memory for `count` rows, even if few are deleted."""
        deleted = np.zeros(count, np.bool_)
        row_range = BitMap64()
        row_range.add_range(first, first + count)
        # Read as signed numbers, which is possible because the top bit is 0: numpy would have to convert unsigned numbers for indexing.
        positions = np.frombuffer((self.bitmap & row_range).to_array(), np.int64)
        deleted[positions - first] = True
        return deleted

    def deletes_all(self, first: int, count: int) -> bool:
        """Return whether all of the `count` rows from position `first` on are deleted."""
        return int(self.bitmap.range_cardinality(first, first + count)) == count


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorLocation:
    """The location of a vector in a Puffin file, and its data file: the values that must also be in its manifest entry.

    `content_offset` and `content_size_in_bytes` are in bytes; `record_count` is the number of deleted rows.
    """

    referenced_data_file: str
    content_offset: int
    content_size_in_bytes: int
    record_count: int


def deletion_vector_from_positions(positions: npt.NDArray[Any] | Iterable[int]) -> DeletionVector:
    """Return the vector with these positions, which may be in any order and repeated.

    Raises:
        InvalidInputError: A position is not a whole number from 0 to 2**63 - 1.
    """
    try:
        numbers = positions if isinstance(positions, np.ndarray) else np.array([*positions] or np.empty(0, np.int64))
    except OverflowError as error:
        raise InvalidInputError(f"a deleted position is out of range: {error}") from error
    if numbers.dtype.kind not in "iu" or numbers.ndim != 1:
        raise InvalidInputError(
            f"deleted positions are a list of whole numbers from 0 to 2**63 - 1, not {numbers.ndim}-dimensional {numbers.dtype}"
        )
    if numbers.size and (numbers.min() < 0 or int(numbers.max()) >= _POSITIONS):
        raise InvalidInputError(f"a deleted position is below 0 or above 2**63 - 1: they are from {numbers.min()} to {numbers.max()}")
    # As a sorted `array.array`: the library reads it without a Python number for each position, and inserts sorted positions faster.
    plain = array.array("Q")
    plain.frombytes(np.sort(numbers.astype(np.uint64)).tobytes())
    return DeletionVector(FrozenBitMap64(plain))


def merge_deletion_vectors(vectors: Iterable[DeletionVector]) -> DeletionVector:
    """Return the vector of every row that any of the vectors deletes.

    A new vector of a data file must contain the positions of its old vector and of old position deletes.
    """
    return DeletionVector(FrozenBitMap64().union(*(vector.bitmap for vector in vectors)))


def encode_deletion_vector(vector: DeletionVector) -> bytes:
    """Return the framed bytes of a vector. Containers of the bitmap are encoded as runs if that is smaller.

    Raises:
        InvalidInputError: The bytes would exceed 2 GiB.
    """
    bitmap = BitMap64(vector.bitmap, optimize=False)
    bitmap.run_optimize()
    body = _MAGIC + bitmap.serialize()
    if len(body) + _LENGTH_BYTES + _CRC_BYTES > _MAX_BLOB_BYTES:
        raise InvalidInputError(f"a deletion vector of {vector.cardinality} rows takes {len(body)} bytes, and the maximum is 2 GiB")
    return b"".join((len(body).to_bytes(_LENGTH_BYTES, "big"), body, zlib.crc32(body).to_bytes(_CRC_BYTES, "big")))


def detect_framing(data: bytes) -> VectorFraming | None:
    """Return whether the bytes are framed, as in the specification, or an unframed bitmap; None if they are neither.

    The two cannot be confused: where a frame has the magic bytes, an unframed bitmap has the upper half of its number of bitmaps, which is 0.
    """
    if data[_LENGTH_BYTES:_BITMAP_START] == _MAGIC:
        return VectorFraming.FRAMED
    if len(data) >= _EMPTY_BITMAP_BYTES and not any(data[4:8]):
        return VectorFraming.BARE
    return None


def decode_deletion_vector(data: bytes, *, cardinality: int, path: str, offset: int = 0, accept_bare: bool = True) -> DeletionVector:
    """Decode the vector in the bytes of a blob.

    Args:
        data: The bytes of the blob.
        cardinality: The `record_count` of the manifest entry.
        path: Location of the file, for errors.
        offset: Byte of the file at which the blob starts.
        accept_bare: Whether unframed bitmaps, which have no checksum, are accepted.

    Raises:
        PuffinFormatError: The length, the magic bytes or the checksum is wrong; the bitmap is damaged; or it has a different number of positions than
            `cardinality`.
    """
    framing = detect_framing(data)
    if framing is VectorFraming.FRAMED:
        start = _BITMAP_START
        bitmap_bytes = _unframe(data, path, offset)
    elif framing is VectorFraming.BARE and accept_bare:
        start = 0
        bitmap_bytes = data
    else:
        what = "it is an unframed bitmap without length, magic bytes and checksum" if framing else "its magic bytes are not D1D33964"
        raise puffin_format_error(path, offset, f"a deletion vector of {len(data)} bytes is not framed: {what}")
    try:
        check_bitmap_extent(bitmap_bytes)
        bitmap = FrozenBitMap64.deserialize(bitmap_bytes)
    except InvalidBitmapError as error:
        raise puffin_format_error(
            path, offset + start + error.position, f"the bitmap of a deletion vector is damaged: {error.what}"
        ) from error
    except ValueError as error:
        raise puffin_format_error(path, offset + start, f"the bitmap of a deletion vector is damaged: {error}") from error
    if len(bitmap) != cardinality:
        raise puffin_format_error(path, offset, f"a deletion vector contains {len(bitmap)} positions where {cardinality} are recorded")
    return DeletionVector(bitmap)


def _unframe(data: bytes, path: str, offset: int) -> bytes:
    length = int.from_bytes(data[:_LENGTH_BYTES], "big")
    if length + _LENGTH_BYTES + _CRC_BYTES != len(data) or length < len(_MAGIC) + _EMPTY_BITMAP_BYTES:
        raise puffin_format_error(path, offset, f"a deletion vector of {len(data)} bytes claims {length} between length and checksum")
    body = data[_LENGTH_BYTES:-_CRC_BYTES]
    recorded = int.from_bytes(data[-_CRC_BYTES:], "big")
    if (computed := zlib.crc32(body)) != recorded:
        what = f"the checksum of a deletion vector is {recorded:08x}, and its bytes give {computed:08x}"
        raise puffin_format_error(path, offset + len(data) - _CRC_BYTES, what)
    return body[len(_MAGIC) :]


def deletion_vector_blob(vector: DeletionVector, referenced_data_file: str) -> Blob:
    """Return the vector as a blob to write. `referenced_data_file` is the location of its data file, exactly as in the table's metadata."""
    return Blob(
        type=DELETION_VECTOR_BLOB,
        fields=(_ROW_POSITION_FIELD_ID,),
        snapshot_id=_UNASSIGNED,
        sequence_number=_UNASSIGNED,
        data=encode_deletion_vector(vector),
        properties={REFERENCED_DATA_FILE: referenced_data_file, CARDINALITY: str(vector.cardinality)},
    )


def write_deletion_vectors(
    vectors: Mapping[str, DeletionVector], *, properties: Mapping[str, str]
) -> tuple[bytes, tuple[VectorLocation, ...]]:
    """Return a whole Puffin file with one vector for each data file, and the location of each vector, in the same order.

    Args:
        vectors: Vectors by the location of their data file.
        properties: Properties of the file, which should include "created-by".

    Raises:
        InvalidInputError: A vector exceeds 2 GiB, or UTF-8 cannot encode a location.
    """
    content, metadata = write_puffin(
        (deletion_vector_blob(vector, location) for location, vector in vectors.items()), properties=properties
    )
    # The file does not exist yet. A name is needed only for errors, which would be programming errors here.
    return content, tuple(vector_location(blob, path="the new file") for blob in metadata.blobs)


def vector_location(blob: BlobMetadata, *, path: str) -> VectorLocation:
    """Return the location of a deletion vector in the footer of the Puffin file `path`, for the comparison with its manifest entry.

    Raises:
        PuffinFormatError: The blob has another type, is compressed, or lacks a required property.
    """
    if blob.type != DELETION_VECTOR_BLOB:
        raise puffin_format_error(path, blob.offset, f"a blob is of type {blob.type!r}, not {DELETION_VECTOR_BLOB!r}")
    if blob.compression_codec is not None:
        raise puffin_format_error(
            path, blob.offset, f"a deletion vector is compressed with {blob.compression_codec!r}, and must not be compressed"
        )
    missing = [name for name in (REFERENCED_DATA_FILE, CARDINALITY) if name not in blob.properties]
    if missing:
        raise puffin_format_error(path, blob.offset, f"a deletion vector's blob lacks the properties {', '.join(missing)}")
    digits = blob.properties[CARDINALITY]
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise puffin_format_error(path, blob.offset, f"a deletion vector's cardinality is {digits!r}, not a number")
    return VectorLocation(
        referenced_data_file=blob.properties[REFERENCED_DATA_FILE],
        content_offset=blob.offset,
        content_size_in_bytes=blob.length,
        record_count=int(digits),
    )
