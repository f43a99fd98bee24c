"""`literal` under the module name of PyIceberg. A filter of Icefloe has plain Python values, which are converted when the filter is bound to a schema."""

from typing import TypeVar

T = TypeVar("T")


def literal(value: T) -> T:
    """Return the value itself, because filters take plain values.

    A filter that uses `literal` equals the filter without it: `EqualTo("age", literal(5)) == EqualTo("age", 5)`.

    Args:
        value: A Python value.

    Returns:
        The same value.
    """
    return value
