"""Avro's variable-length integers, one at a time.

The inlined fast paths are in `program.py`; this is what they fall back on. Raw means before zigzag: `raw >> 1 ^ -(raw & 1)` is the number.
Floor: kernel.avro. Spec: Apache Avro, Binary Encoding.
"""

from icefloe.kernel.avro.failure import TornDataError

# A 64-bit number takes at most 10 bytes of 7 bits each.
_MAX_SHIFT = 63
_SMALL = 8192


def _encode(raw: int) -> bytes:
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# The encodings of 0 to 8191: nearly every field id, count and length.
_SMALL_NUMBERS = tuple(_encode(number << 1) for number in range(_SMALL))


def encode_long(number: int) -> bytes:
    """The zigzag varint of a number of at most 64 bits. Raises `OverflowError` beyond that."""
    if 0 <= number < _SMALL:
        return _SMALL_NUMBERS[number]
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{number} does not fit a 64-bit number")
    return _encode((number << 1) ^ (number >> 63))


def decode_rest(data: bytes, position: int, raw: int, shift: int) -> tuple[int, int]:
    """Goes on with a raw varint of which `shift` bits are read, the last continuation bit still in `raw`: (raw, position after it).

    Raises:
        IndexError: the data end inside the number.
        TornDataError: the number has more than 64 bits.
    """
    raw -= 1 << shift
    while True:
        byte = data[position]
        position += 1
        if shift > _MAX_SHIFT or (shift == _MAX_SHIFT and byte > 1):
            raise TornDataError(position, "a number has more than 64 bits")
        if byte < 128:
            return raw | byte << shift, position
        raw |= (byte & 127) << shift
        shift += 7


def decode_raw(data: bytes, position: int) -> tuple[int, int]:
    """The raw varint at `position` and the position after it. Raises as `decode_rest` does."""
    raw = data[position]
    return decode_rest(data, position + 1, raw, 7) if raw > 127 else (raw, position + 1)


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it. Raises as `decode_rest` does."""
    raw, position = decode_raw(data, position)
    return (raw >> 1) ^ -(raw & 1), position


def decode_rest_of_length(data: bytes, position: int, raw: int) -> tuple[int, int]:
    """Goes on after the first byte of a raw length: (raw, position after it). Raises `TornDataError` where the length is negative."""
    if raw > 127:
        raw, position = decode_rest(data, position, raw, 7)
    if raw & 1:
        raise TornDataError(position, f"a length is negative ({-(raw + 1 >> 1)})")
    return raw, position
