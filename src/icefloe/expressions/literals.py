"""`literal` under the module name of PyIceberg. A filter of Icefloe has plain Python values, which are converted when it is bound to a schema."""

from typing import TypeVar

T = TypeVar("T")


def literal(value: T) -> T:
    """Return the value itself, because filters take plain values.

    A filter made with it equals the one without: `EqualTo("age", literal(5)) == EqualTo("age", 5)`.

    Args:
        value: a Python value.
    """
    return value
