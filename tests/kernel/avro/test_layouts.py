"""Patterns of maps: with them, any reading gives what it gives without them, of sound files and of damaged ones."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icefloe.errors import AvroFormatError
from icefloe.kernel.avro import layouts
from icefloe.kernel.avro.columns import read_batches
from icefloe.kernel.avro.container import open_container, write_container
from icefloe.kernel.avro.layouts import MAX_LEARNED, Layouts, tells_its_size
from icefloe.kernel.avro.program import compile_program
from icefloe.kernel.avro.schema import field, id_map, record
from icefloe.kernel.avro.varint import encode_long
from icefloe.kernel.avro.wanted import Slots, Struct, Value, WantedField

SCHEMA = record(
    "r",
    [
        field(1, "before", "long"),
        field(2, "counts", id_map(10, 11, "long"), required=False),
        field(3, "lower", id_map(12, 13, "bytes"), required=False),
        field(4, "upper", id_map(14, 15, "bytes"), required=False),
        field(5, "after", "long"),
    ],
)
TEXT = json.dumps(SCHEMA)
IDS = (1, 2, 5, 63, 64, 200)
# Mostly of one length, as bounds are; beyond 63 a length takes two bytes.
VALUES = (
    st.binary(min_size=8, max_size=8) | st.binary(min_size=8, max_size=8) | st.binary(max_size=20) | st.binary(min_size=60, max_size=70)
)


def maps_like(ids: list[int]) -> st.SearchStrategy[Any]:
    """Maps that mostly have these keys, and no others."""
    whole = st.fixed_dictionaries(dict.fromkeys(ids, VALUES))
    return st.none() | whole | whole | whole | st.dictionaries(st.sampled_from(IDS), VALUES, max_size=3)


def records() -> st.SearchStrategy[list[tuple[Any, ...]]]:
    numbers = st.integers(-(2**40), 2**40)
    counts = st.none() | st.dictionaries(st.sampled_from(IDS), numbers, max_size=6)
    some_ids = st.lists(st.sampled_from(IDS), unique=True, min_size=1)
    return some_ids.map(maps_like).flatmap(lambda maps: st.lists(st.tuples(numbers, counts, maps, maps, numbers), max_size=12))


def as_map(pairs: dict[int, bytes], *, sized: bool = False) -> bytes:
    """A map of encoded values as Java writes it, or with its size as our encoder does."""
    packed = b"".join(encode_long(key) + value for key, value in pairs.items())
    size = encode_long(len(packed)) if sized else b""
    return encode_long(-len(pairs) if sized else len(pairs)) + size + packed + b"\x00" if pairs else b"\x00"


def bounds(pairs: dict[int, bytes], *, sized: bool = False) -> bytes:
    """Such a map of bytes."""
    return as_map({key: encode_long(len(value)) + value for key, value in pairs.items()}, sized=sized)


def encoded(row: tuple[Any, ...], *, sized: bool) -> bytes:
    before, counts, lower, upper, after = row
    maps = [None if counts is None else as_map({key: encode_long(number) for key, number in counts.items()}, sized=sized)]
    maps += [None if pairs is None else bounds(pairs, sized=sized) for pairs in (lower, upper)]
    return b"".join((encode_long(before), *(b"\x00" if one is None else b"\x02" + one for one in maps), encode_long(after)))


def container_of(rows: list[tuple[Any, ...]]) -> bytes:
    # Both forms of maps in one file: half of the records are as Java writes them.
    return write_container(TEXT, {}, "null", [encoded(row, sized=index % 4 > 1) for index, row in enumerate(rows)])


def wanted(ids: tuple[int, ...]) -> Struct:
    slots = [WantedField(i, (), Slots(tuple((key, f"{i}.{key}") for key in ids))) for i in (2, 3, 4)] if ids else []
    return Struct((WantedField(1, (), Value("before")), *slots, WantedField(5, (), Value("after"))))


def read(content: bytes, ids: tuple[int, ...]) -> Any:
    """Every column, or None where the file is refused."""
    found: dict[str, list[Any]] = {}
    try:
        for batch in read_batches(open_container(content, "some.avro"), wanted(ids), by_compiled=False):
            for name, values in batch.items():
                found.setdefault(name, []).extend(values)
    except AvroFormatError:
        return None
    return found


@contextmanager
def without_patterns() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layouts, "MAX_LEARNED", 0)
        compile_program.cache_clear()
        yield
    compile_program.cache_clear()


CHOICES = st.sampled_from([(), (1,), (64,), (5, 64), (1, 63, 200), (7,)])


@settings(max_examples=100, deadline=None)
@given(records(), CHOICES)
def test_maps_that_are_alike_are_read_as_they_were_written(rows: list[tuple[Any, ...]], ids: tuple[int, ...]) -> None:
    found = read(container_of(rows), ids)
    assert found.get("before", []) == [row[0] for row in rows]
    assert found.get("after", []) == [row[4] for row in rows]
    for key in ids:
        for i in (2, 3, 4):
            assert found.get(f"{i}.{key}", []) == [(row[i - 1] or {}).get(key) for row in rows]


@settings(max_examples=100, deadline=None)
@given(records(), CHOICES, st.data())
def test_damage_is_found_with_patterns_where_it_is_found_without_them(
    rows: list[tuple[Any, ...]], ids: tuple[int, ...], data: st.DataObject
) -> None:
    sound = container_of(rows)
    start = open_container(sound, "some.avro").body_start
    if start == len(sound):
        return
    at = data.draw(st.integers(start, len(sound) - 1))
    broken = sound[:at] + bytes([data.draw(st.integers(0, 255))]) + sound[at + 1 :]
    read(sound, ids)  # patterns are learned
    found = read(broken, ids)
    with without_patterns():
        assert read(broken, ids) == found


def picked(known: Layouts, data: bytes) -> Any:
    match = known.matches.get(data[0])
    found = match and match(data, 0)
    return found and (found.end(), [found[f"w{index}"] for index in range(2)])


def test_a_layout_is_known_once_it_was_seen_and_a_length_varies_once_it_did() -> None:
    known = Layouts((2, 9))
    first, longer = bounds({1: b"abcd", 2: b"xy"}), bounds({1: b"abcd", 2: b"xyz"})
    assert picked(known, first) is None
    known.learn(first, 0)
    assert picked(known, first) == (len(first), [b"\x04xy", None])
    assert picked(known, longer) is None
    known.learn(longer, 0)
    assert picked(known, longer) == (len(longer), [b"\x06xyz", None])
    assert picked(known, bounds({1: b"abcde", 2: b""})) is None
    assert picked(known, bounds({1: b"abcd", 2: b""})) == (len(longer) - 3, [b"\x00", None])


def test_maps_of_another_number_of_pairs_have_a_layout_of_their_own() -> None:
    known = Layouts((1, 2))
    maps = [bounds({1: b"a", 2: b"b"}), bounds({1: b"a"}), bounds({1: b"a"}, sized=True)]
    for data in maps:
        known.learn(data, 0)
    assert [picked(known, data)[0] for data in maps] == [len(data) for data in maps]


def test_a_size_is_held_against_the_pairs() -> None:
    known = Layouts((1,))
    sound = bounds({1: b"ab"}, sized=True)
    known.learn(sound, 0)
    for size, is_told in ((4, True), (3, False), (300, False), (-4, False)):
        found = known.matches[sound[0]](sound[:1] + encode_long(size) + sound[2:], 0)
        assert found is not None
        assert tells_its_size(found) is is_told


@pytest.mark.parametrize(
    "data",
    [
        bounds({}),
        bounds({}, sized=True),
        bounds({1: b"a"})[:-1],  # no closing zero
        bounds({1: b"a"})[:-1] + b"\x02\x04\x02b\x00",  # a second run
        b"\x04\x02\x02a\x02\x02b\x00",  # a key twice
        b"\x02\x82\x00\x02a\x00",  # a key in more bytes than it needs
        b"\x02\x02\x01a\x00",  # a negative length
        bounds({2: bytes(64)}),  # a wanted value with a length of two bytes
        b"\xfe\xff\xff\xff\x0f",
        bounds(dict.fromkeys(range(501), b"")),
    ],
)
def test_what_no_pattern_can_stand_for_is_not_learned(data: bytes) -> None:
    known = Layouts((2,))
    known.learn(data, 0)
    assert known.matches == {}


def test_a_map_that_tells_its_size_is_not_learned_where_nothing_is_wanted_of_it() -> None:
    known = Layouts()
    known.learn(bounds({1: b"a"}, sized=True), 0)
    assert known.matches == {}


def test_maps_that_are_never_alike_are_learned_from_a_few_times_only() -> None:
    known = Layouts((0, 1))
    for number in range(MAX_LEARNED + 1):
        known.learn(bounds({number: b"a"}), 0)
    assert picked(known, bounds({MAX_LEARNED: b"a"})) is None
    assert picked(known, bounds({MAX_LEARNED - 1: b"a"})) is not None
