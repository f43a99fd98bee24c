"""Variable-length integers of Avro."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.spec.avro.avro_errors import TornDataError
from icefloe.spec.avro.varint import decode_long, encode_long


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (8191, "fe7f"), (8192, "808001"), (2**63 - 1, "fe" + "ff" * 8 + "01")],
)
def test_numbers_are_encoded_as_the_avro_specification_shows(number: int, encoded: str) -> None:
    assert encode_long(number).hex() == encoded
    assert decode_long(bytes.fromhex(encoded), 0) == (number, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_every_64_bit_number_is_decoded_at_any_position(number: int, before: bytes, after: bytes) -> None:
    encoded = encode_long(number)
    assert decode_long(before + encoded + after, len(before)) == (number, len(before) + len(encoded))


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_not_written(number: int) -> None:
    with pytest.raises(OverflowError):
        encode_long(number)


@pytest.mark.parametrize("encoded", [b"\xff" * 10 + b"\x01", b"\xff" * 9 + b"\x02"])
def test_a_number_beyond_64_bits_is_refused(encoded: bytes) -> None:
    with pytest.raises(TornDataError, match="64 bits"):
        decode_long(encoded, 0)


def test_a_truncated_number_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        decode_long(b"\x80\x80", 0)
