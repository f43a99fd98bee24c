"""Theta sketches compared with exact counts and with the bytes of DataSketches, and damaged sketches."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import PuffinFormatError
from icefloe.spec.puffin.theta_hash import theta_hashes, theta_hashes_of_values
from icefloe.spec.puffin.theta_sketch import EMPTY_SKETCH, NOMINAL_ENTRIES, ThetaSketch, sketch_from_bytes, union

# The bytes of Apache DataSketches (C++, 5.2) for no value, for "a", and for "a" and "b"; the last also in its compressed form.
NOTHING = "01030300001ecc93"
ONE = "01030300001acc9317c11d528507017b"
TWO = "02030300001acc930200000000000000857f40b689c7e53417c11d528507017b"
TWO_COMPRESSED = "0104033f011acc930269cb8f136c80ff0b186cffee6f750648"
# The standard error is 1 in 64; one sketch in five hundred million exceeds six of them.
SIX_ERRORS = 6 / math.sqrt(NOMINAL_ENTRIES)


def of_numbers(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> ThetaSketch:
    return EMPTY_SKETCH.with_hashes(theta_hashes(numbers.astype("<i8").view(np.uint8).reshape(-1, 8)))


def same(one: ThetaSketch, other: ThetaSketch) -> bool:
    return one.theta == other.theta and one.is_empty == other.is_empty and one.hashes.tolist() == other.hashes.tolist()


def test_the_bytes_are_those_of_datasketches() -> None:
    assert EMPTY_SKETCH.to_bytes().hex() == NOTHING
    one = EMPTY_SKETCH.with_hashes(theta_hashes_of_values([b"a"]))
    assert one.to_bytes().hex()[12:] == ONE[12:]
    two = one.with_hashes(theta_hashes_of_values([b"b", b"a"]))
    for written in (TWO, TWO_COMPRESSED):
        assert same(sketch_from_bytes(bytes.fromhex(written)), two)
    assert two.ndv == 2


@settings(max_examples=examples(60))
@given(st.lists(st.binary(max_size=20), max_size=200))
def test_few_values_are_counted_exactly(values: list[bytes]) -> None:
    sketch = EMPTY_SKETCH.with_hashes(theta_hashes_of_values(values))
    assert sketch.ndv == len(set(values) - {b""})
    assert same(sketch_from_bytes(sketch.to_bytes()), sketch)


@settings(max_examples=examples(30))
@given(st.integers(0, 2**62), st.integers(0, 200_000), st.lists(st.integers(0, 200_000), max_size=4))
def test_many_values_are_counted_within_the_error_whatever_their_order(first: int, count: int, cuts: list[int]) -> None:
    numbers = np.random.default_rng(first % 2**32).permutation(np.arange(first, first + count, dtype=np.int64))
    parts = np.split(numbers, sorted(cut for cut in cuts if cut <= count))
    whole = of_numbers(numbers)
    joined = union(of_numbers(part) for part in parts)
    assert abs(whole.estimate - count) <= (count * SIX_ERRORS if count > NOMINAL_ENTRIES else 0)
    assert same(whole, joined)
    assert len(whole.hashes) <= NOMINAL_ENTRIES
    assert same(sketch_from_bytes(whole.to_bytes()), whole)


@settings(max_examples=examples(30))
@given(st.integers(0, 30_000), st.integers(0, 30_000), st.integers(0, 30_000))
def test_values_in_two_sketches_count_once(start: int, one: int, other: int) -> None:
    sketch = union([of_numbers(np.arange(one)), of_numbers(np.arange(start, start + other))])
    exact = len(set(range(one)) | set(range(start, start + other)))
    assert abs(sketch.estimate - exact) <= (exact * SIX_ERRORS if exact > NOMINAL_ENTRIES else 0)


def test_vectorized_hashes_equal_single_hashes() -> None:
    data = np.random.default_rng(7).integers(0, 256, (50, 40), np.uint8)
    for width in range(41):
        rows = np.ascontiguousarray(data[:, :width])
        assert theta_hashes(rows).tolist() == theta_hashes_of_values([row.tobytes() for row in rows]).tolist()


@pytest.mark.parametrize(
    "data",
    [
        "",
        "0103",
        NOTHING.replace("0103", "0102", 1),
        ONE.replace("0103", "0603", 1),
        "01030300001acc9400" + "11" * 8,
        ONE.replace("cc93", "cc94"),
        TWO[:-2],
        TWO + "00",
        TWO[:32] + "00" * 8 + TWO[48:],
        TWO[:32] + TWO[32:48] * 2,
        TWO[:32] + "ff" * 8 + TWO[48:],
        TWO_COMPRESSED[:-2],
        TWO_COMPRESSED.replace("0104033f", "01040340", 1),
        "02030300001acc93",
        "00030300001acc93",
    ],
)
def test_bytes_that_are_not_a_sketch_are_refused(data: str) -> None:
    with pytest.raises(PuffinFormatError, match="theta sketch"):
        sketch_from_bytes(bytes.fromhex(data))


@settings(max_examples=examples(300))
@given(st.sampled_from([NOTHING, ONE, TWO, TWO_COMPRESSED]), st.integers(0, 40), st.integers(0, 255), st.integers(0, 40))
def test_damaged_bytes_are_a_sketch_or_raise_puffin_format_error(written: str, place: int, byte: int, kept: int) -> None:
    data = bytearray.fromhex(written)
    data[place % len(data)] = byte
    for damaged in (bytes(data), bytes(data[:kept])):
        try:
            sketch = sketch_from_bytes(damaged)
        except PuffinFormatError:
            continue
        assert sketch.estimate >= 0
