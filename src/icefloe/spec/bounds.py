"""Truncation of bounds: a lower bound may be a prefix, an upper bound must remain above every value of its column.

`values.py` converts bounds to bytes. Spec: Data File Fields, notes on `lower_bounds` and `upper_bounds`.
"""

from typing import Any

from icefloe.spec.types import BinaryType, FixedType, PrimitiveType, StringType

_LAST_CODE_POINT = 0x10FFFF
# UTF-8 cannot encode surrogates, so the code point after 0xD7FF is 0xE000.
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000


def truncate_lower_bound(kind: PrimitiveType, value: Any, width: int) -> Any:
    """Return the first `width` code points of a string, or bytes of fixed or binary; values of other types are returned whole."""
    return value[:width] if isinstance(kind, StringType | FixedType | BinaryType) else value


def truncate_upper_bound(kind: PrimitiveType, value: Any, width: int) -> Any:
    """Return the smallest value of at most `width` code points or bytes that is not below `value`.

    A longer value is cut off, its last code point or byte that can be incremented is incremented, and everything after it is dropped.

    Returns:
        The upper bound; None if no such value exists, so that no bound may be written.
    """
    if not isinstance(kind, StringType | FixedType | BinaryType) or len(value) <= width:
        return value
    return _next_string(value[:width]) if isinstance(kind, StringType) else _next_bytes(bytes(value[:width]))


def _next_string(prefix: str) -> str | None:
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index])
        if point < _LAST_CODE_POINT:
            next_point = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return prefix[:index] + chr(next_point)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
