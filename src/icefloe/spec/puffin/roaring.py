"""The structure of a 64-bit Roaring bitmap in the portable serialization: finds its end without trusting any of its sizes.

The `pyroaring` library reads and writes the bitmap itself. It refuses containers that are out of order or miscounted, but neither returns where a
bitmap ends nor refuses bytes after it. Spec: Puffin file format, `deletion-vector-v1` blob type; RoaringFormatSpec, extension for 64 bits.
"""

import struct

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347  # in the lower 16 bits; the upper 16 hold the number of containers less one
_NO_OFFSETS_BELOW = 4  # bitmaps with runs and with fewer containers leave the offsets out
_MAX_CONTAINERS = 1 << 16
_MAX_ARRAY_VALUES = 4096
_BITSET_BYTES = 8192
# A key, and the cookie and count of an empty bitmap, which Java writes for each key without positions.
_MIN_BITMAP_BYTES = 12
_KEYS = 1 << 31  # the top bit of a position is 0


class InvalidBitmapError(ValueError):
    """The bytes are not a bitmap. `position` counts from the start of the bitmap."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


def check_bitmap_extent(data: bytes) -> None:
    """Walk the bitmaps and their containers, which must end where `data` ends.

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
    """Return the end of a 32-bit bitmap that begins at `start`; it is beyond the data where the last container is truncated."""
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
