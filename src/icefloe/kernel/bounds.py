"""Bounds cut short: a lower bound may be a prefix, an upper bound must still be above every value it stands for.

What a bound looks like in bytes is `values.py`. Spec: Data File Fields, notes on `lower_bounds` and `upper_bounds`.
"""

from typing import Any

from icefloe.kernel.types import BinaryType, FixedType, PrimitiveType, StringType

_LAST_CODE_POINT = 0x10FFFF
# UTF-8 cannot hold these, so the code point after 0xD7FF is 0xE000.
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000


def truncate_lower_bound(kind: PrimitiveType, value: Any, width: int) -> Any:
    """The first `width` code points of a string, or bytes of fixed or binary; values of other types are whole."""
    return value[:width] if isinstance(kind, StringType | FixedType | BinaryType) else value


def truncate_upper_bound(kind: PrimitiveType, value: Any, width: int) -> Any:
    """The smallest value of at most `width` code points or bytes that is not below `value`; None where there is none, so no bound may be written.

    Where something is cut off, the last code point or byte that can be raised is raised by one and what follows it dropped.
    """
    if not isinstance(kind, StringType | FixedType | BinaryType) or len(value) <= width:
        return value
    return _next_string(value[:width]) if isinstance(kind, StringType) else _next_bytes(bytes(value[:width]))


def _next_string(prefix: str) -> str | None:
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index])
        if point < _LAST_CODE_POINT:
            raised = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return prefix[:index] + chr(raised)
    return None


def _next_bytes(prefix: bytes) -> bytes | None:
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
