"""Avro's variable-length integers, one at a time: for headers of files and blocks, and for the Python encoders.

A raw integer is zigzag-encoded: the number is `raw >> 1 ^ -(raw & 1)`. Spec: Apache Avro, Binary Encoding.
"""

from icefloe.spec.avro.avro_errors import TornDataError

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


# The encodings of 0 to 8191, which are nearly all field ids, counts and lengths.
_SMALL_NUMBERS = tuple(_encode(number << 1) for number in range(_SMALL))


def encode_long(number: int) -> bytes:
    """Return the zigzag varint of a 64-bit number. Raises `OverflowError` for a larger one."""
    if 0 <= number < _SMALL:
        return _SMALL_NUMBERS[number]
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{number} does not fit a 64-bit number")
    return _encode((number << 1) ^ (number >> 63))


def decode_long(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` and the position after it.

    Raises:
        IndexError: the data ends inside the number.
        TornDataError: the number has more than 64 bits.
    """
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        if shift > _MAX_SHIFT or (shift == _MAX_SHIFT and byte > 1):
            raise TornDataError(position, "a number has more than 64 bits")
        raw |= (byte & 127) << shift
        if byte < 128:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
