"""Reads of ranges: any sequence of reads returns the file's bytes, by few requests."""

import io
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icefloe.errors import NoSuchFileError, StorageError
from icefloe.io.range_reads import ObjectInput, Range, RangeReads, merged_ranges

CONTENT = random.Random(3).randbytes(3_000_000)


class Requests:
    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.sizes = 0
        self.ranges: list[list[Range]] = []

    def fetch(self, ranges: list[Range]) -> list[bytes]:
        self.ranges.append(list(ranges))
        return [self.content[start:end] for start, end in ranges]

    def size(self) -> int:
        self.sizes += 1
        return len(self.content)

    def open(self, expected: int | None = None, ending: bytes = b"") -> ObjectInput:
        return ObjectInput(RangeReads(self.fetch, self.size, expected, ending), mode="r")


@given(
    st.lists(st.tuples(st.integers(0, 3_100_000), st.integers(0, 900_000)), max_size=8),
    st.lists(st.lists(st.tuples(st.integers(-5, 3_000_100), st.integers(1, 300_000)), max_size=4), max_size=3),
    st.booleans(),
)
def test_any_reads_return_the_bytes_of_the_file(reads: list[tuple[int, int]], steps: list[list[tuple[int, int]]], has_size: bool) -> None:
    file = Requests().open(len(CONTENT) if has_size else None, CONTENT[-4:])
    file.will_read([[(start, start + length) for start, length in step] for step in steps])
    planned = [(start, length) for step in steps for start, length in step if start >= 0]
    for start, length in [*reads, *planned, *reads]:
        file.seek(start)
        assert file.read(length) == CONTENT[start : start + length]
        assert file.tell() == max(start, min(len(CONTENT), start + length)) or start > len(CONTENT)


@given(st.lists(st.tuples(st.integers(0, 10**8), st.integers(1, 10**6)), max_size=12))
def test_merged_ranges_contain_all_ranges_and_do_not_touch(ranges: list[tuple[int, int]]) -> None:
    merged = merged_ranges([(start, start + length) for start, length in ranges])
    for start, length in ranges:
        assert any(first <= start and start + length <= last for first, last in merged)
    assert all(before[1] < after[0] for before, after in pairwise(merged))


def test_stated_ranges_are_requested_together_and_the_size_is_taken() -> None:
    requests = Requests()
    file = requests.open(len(CONTENT), CONTENT[-4:])
    file.will_read([[(10, 20), (500_000, 600_000), (2_200_000, 2_300_000)]])
    assert file.read_at(10, 10) == CONTENT[10:20]
    assert file.read_at(100_000, 2_200_000) == CONTENT[2_200_000:2_300_000]
    assert file.read_at(8, len(CONTENT) - 8) == CONTENT[-8:]
    assert (requests.sizes, len(requests.ranges)) == (0, 2)


@pytest.mark.parametrize("expected", [3, 1_000, 2_999_999, 3_000_001, 90_000_000])
def test_a_wrong_size_is_not_taken(expected: int) -> None:
    requests = Requests()
    file = requests.open(expected, CONTENT[-4:])
    assert file.size() == len(CONTENT)
    assert file.read() == CONTENT


def test_an_end_that_the_store_refuses_is_another_size_and_a_missing_file_an_error() -> None:
    def refuse(_: object) -> list[bytes]:
        raise StorageError("416: the range is not satisfiable")

    def missing(_: object) -> list[bytes]:
        raise NoSuchFileError("there is no file")

    assert RangeReads(refuse, lambda: 7, 100, b"PAR1").seek(0, io.SEEK_END) == 7
    with pytest.raises(NoSuchFileError):
        RangeReads(missing, lambda: 7, 100, b"PAR1")


def test_blocks_grow_while_a_file_is_read_from_the_start_to_the_end() -> None:
    requests = Requests(CONTENT * 10)
    file = requests.open()
    while file.read(50_000):
        pass
    assert len(requests.ranges) < 12


def test_a_small_file_is_read_as_a_whole() -> None:
    requests = Requests(CONTENT[:900_000])
    file = requests.open(900_000, CONTENT[899_996:900_000])
    assert file.read_at(5, 10) == CONTENT[10:15]
    assert requests.ranges == [[(0, 900_000)]]
