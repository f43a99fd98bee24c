"""Truncated bounds still enclose every value of the column."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.bounds import truncate_lower_bound, truncate_upper_bound
from icefloe.spec.types import BinaryType, FixedType, LongType, StringType
from icefloe.spec.values import to_bytes

few = settings(max_examples=examples(100))

# Code points that are hard to increment.
EDGES = st.sampled_from(["a", "\x7f", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])


@pytest.mark.parametrize(
    ("value", "width", "upper"),
    [
        ("iceberg", 3, "icf"),
        ("ice", 3, "ice"),
        ("", 1, ""),
        ("a\U0010ffffb", 2, "b"),
        ("\U0010ffff\U0010ffff", 1, None),
        ("a\ud7ffb", 2, "a\ue000"),
        ("a\uffffb", 2, "a\U00010000"),
        ("😀😀😀", 2, "😀😁"),
    ],
)
def test_the_upper_bound_of_a_string_increments_its_last_possible_code_point(value: str, width: int, upper: str | None) -> None:
    assert truncate_upper_bound(StringType(), value, width) == upper


@pytest.mark.parametrize(
    ("value", "width", "upper"),
    [
        (b"\x01\x02\x03", 2, b"\x01\x03"),
        (b"\x01\xff\x03", 2, b"\x02"),
        (b"\xff\xff\xff", 2, None),
        (b"\xff\xff", 2, b"\xff\xff"),
        (b"", 2, b""),
    ],
)
def test_the_upper_bound_of_bytes_increments_its_last_possible_byte(value: bytes, width: int, upper: bytes | None) -> None:
    assert truncate_upper_bound(BinaryType(), value, width) == upper
    assert truncate_upper_bound(FixedType(3), value, width) == upper


def test_the_lower_bound_is_a_prefix_by_code_points_or_bytes() -> None:
    assert truncate_lower_bound(StringType(), "😀é x", 2) == "😀é"
    assert truncate_lower_bound(BinaryType(), b"abc", 2) == b"ab"


def test_numbers_are_never_truncated() -> None:
    assert truncate_lower_bound(LongType(), 12345, 2) == 12345
    assert truncate_upper_bound(LongType(), 12345, 2) == 12345


@few
@given(st.text(st.one_of(EDGES, st.characters(codec="utf-8"))), st.integers(1, 4))
def test_string_bounds_enclose_the_value_in_the_order_of_bytes(value: str, width: int) -> None:
    lower, upper = truncate_lower_bound(StringType(), value, width), truncate_upper_bound(StringType(), value, width)
    data = to_bytes(StringType(), value)
    assert len(lower) <= width
    assert to_bytes(StringType(), lower) <= data
    if upper is None:
        assert value[:width] == "\U0010ffff" * width
    else:
        assert len(upper) <= width
        assert to_bytes(StringType(), upper) >= data


@few
@given(st.binary(max_size=6), st.integers(1, 4))
def test_binary_bounds_enclose_the_value(value: bytes, width: int) -> None:
    lower, upper = truncate_lower_bound(BinaryType(), value, width), truncate_upper_bound(BinaryType(), value, width)
    assert lower <= value
    assert len(lower) <= width
    assert upper is None or (value <= upper and len(upper) <= width)
    assert (upper is None) == (len(value) > width and value[:width] == b"\xff" * width)
