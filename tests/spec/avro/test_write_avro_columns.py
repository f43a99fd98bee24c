"""Encoded and spliced records of Arrow columns: the compiled writer and the encoders write the same bytes and refuse the same columns."""

import io
import json
from itertools import pairwise
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.avro.both_readers import READERS, needs_module

from icefloe.spec.avro.avro_container import write_records_container
from icefloe.spec.avro.avro_encoder import encoder
from icefloe.spec.avro.avro_schema import array, field, id_map, record
from icefloe.spec.avro.write_avro_columns import Cut, Records, splice_records, write_records

LONGS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.dictionaries(st.integers(0, 300), LONGS, max_size=4)
BOUNDS = st.dictionaries(st.integers(0, 300), st.binary(max_size=99), max_size=4)
FIXED = {"type": "fixed", "name": "three", "size": 3}
# Field id: Avro type, Arrow type, values.
FIELDS: dict[int, tuple[Any, Any, st.SearchStrategy[Any]]] = {
    1: ("long", pa.int64(), LONGS),
    2: ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    3: ("string", pa.string(), st.text(max_size=70)),
    4: ("bytes", pa.binary(), st.binary(max_size=70)),
    5: ("boolean", pa.bool_(), st.booleans()),
    6: ("double", pa.float64(), st.floats(allow_nan=False)),
    7: ("float", pa.float32(), st.floats(width=32, allow_nan=False)),
    8: (FIXED, pa.binary(3), st.binary(min_size=3, max_size=3)),
    9: (array(90, "long"), pa.list_(pa.int64()), st.lists(LONGS, max_size=4)),
    10: (id_map(91, 92, "long"), pa.map_(pa.int64(), pa.int64()), NUMBERS),
    11: (id_map(93, 94, "bytes"), pa.map_(pa.int64(), pa.binary()), BOUNDS),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[dict[str, Any], dict[int, Any], int]:
    """Draw a schema, its columns, some of which are slices of longer ones, and their number of rows."""
    chosen = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True, min_size=1))
    required = draw(st.sets(st.sampled_from(chosen)))
    count, before = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    result = {}
    for i in chosen:
        _, kind, values = FIELDS[i]
        drawn = draw(st.lists(values if i in required else st.none() | values, min_size=count + before, max_size=count + before))
        pairs = [list(value.items()) if isinstance(value, dict) else value for value in drawn]
        result[i] = pa.array(pairs, kind).slice(before)
    inner = [field(i, f"f{i}", FIELDS[i][0], required=i in required) for i in chosen]
    return record("outer", [field(99, "inner", record("inner", inner))]), result, count


def plain(records: Records) -> tuple[bytes, list[int]]:
    return bytes(records.data), records.ends.tolist()


@settings(max_examples=examples(150))
@given(columns())
def test_both_writers_write_the_same_records_and_another_library_reads_them(
    given_columns: tuple[dict[str, Any], dict[int, Any], int],
) -> None:
    schema, result, count = given_columns
    data, ends = plain(write_records(schema, result, count, by_compiled=False))
    for by_compiled in READERS:
        assert plain(write_records(schema, result, count, by_compiled=by_compiled)) == (data, ends)
    file = io.BytesIO(write_records_container(json.dumps(schema), {}, "null", [(data, np.array(ends, np.int64))]))
    for row, read in enumerate(fastavro.reader(file)):
        for i, values in result.items():
            value, other = values[row].as_py(), read["inner"][f"f{i}"]
            if i > 9 and value is not None:
                other = [(pair["key"], pair["value"]) for pair in other]
            assert other == value


@pytest.mark.parametrize("by_compiled", READERS)
def test_a_null_where_a_value_is_required_is_refused(by_compiled: bool) -> None:
    with pytest.raises(ValueError, match="null where a long is required"):
        write_records(record("r", [field(1, "x", "long")]), {1: pa.array([1, None])}, 2, by_compiled=by_compiled)


@pytest.mark.parametrize("by_compiled", READERS)
@pytest.mark.parametrize("kind", [FIXED, "bytes", "long"])
def test_a_column_with_too_few_rows_is_refused(by_compiled: bool, kind: Any) -> None:
    values = pa.array([b"abc"], pa.binary(3) if kind == FIXED else pa.binary()) if kind != "long" else pa.array([1])
    with pytest.raises(ValueError, match="contradicts itself"):
        write_records(record("r", [field(1, "x", kind)]), {1: values}, 2, by_compiled=by_compiled)


@needs_module
@settings(max_examples=examples(100))
@given(st.lists(st.tuples(*[st.binary(max_size=9)] * 7), max_size=6), st.sets(st.integers(0, 5)))
def test_splicing_replaces_only_the_spans(rows: list[tuple[bytes, ...]], block_ends: set[int]) -> None:
    data, expected, positions, edges_of_blocks = b"", [], [], [0]
    for number, (before, first, middle, second, after, one, two) in enumerate(rows):
        start = len(data) + 1
        edges = np.cumsum([start, len(before), len(first), len(middle), len(second), len(after)])
        data += b"-" + before + first + middle + second + after
        expected.append(before + one + middle + two + after)
        positions.append(edges)
        if number in block_ends:
            edges_of_blocks.append(len(data))
    table = np.array(positions, np.int64).reshape(len(rows), 6)
    pieces = [Records(b"".join(row[i] for row in rows), np.cumsum([len(row[i]) for row in rows], dtype=np.int64)) for i in (5, 6)]
    cuts = [Cut(table[:, 1], table[:, 2], pieces[0]), Cut(table[:, 3], table[:, 4], pieces[1])]
    blocks = [data[start:end] for start, end in pairwise([*edges_of_blocks, len(data)])]
    result = splice_records(blocks, table[:, 0], table[:, 5], cuts)
    assert plain(result) == (b"".join(expected), np.cumsum([len(spliced) for spliced in expected]).tolist())


@needs_module
@pytest.mark.parametrize(
    ("start", "stop", "begin", "end"),
    [(0, 9, 2, 3), (-1, 3, 0, 1), (3, 1, 1, 2), (0, 4, 3, 2), (2, 4, 1, 3), (0, 2, 1, 3), (0, 2**62, 0, 1)],
)
def test_inconsistent_positions_are_refused(start: int, stop: int, begin: int, end: int) -> None:
    def one(number: int) -> Any:
        return np.array([number], np.int64)

    piece = Records(b"x", one(1))
    with pytest.raises(ValueError, match="contradicts itself"):
        splice_records([b"abcd"], one(start), one(stop), [Cut(one(begin), one(end), piece)])


@needs_module
@pytest.mark.parametrize("rows", [[(1, 3)], [(2, 3), (0, 1)], [(3, 5)]])
def test_records_across_blocks_or_out_of_order_are_refused(rows: list[tuple[int, int]]) -> None:
    starts, stops = (np.array(edges, np.int64) for edges in zip(*rows, strict=True))
    nothing = Cut(starts, starts, Records(b"", np.zeros(len(rows), np.int64)))
    with pytest.raises(ValueError, match="contradicts itself"):
        splice_records([b"ab", b"cd"], starts, stops, [nothing])


@pytest.mark.parametrize("by_compiled", READERS)
@pytest.mark.parametrize("longest", [0, 1, 60, 70, 9000])
def test_a_map_has_its_size_in_bytes_regardless_of_the_map_before_it(by_compiled: bool, longest: int) -> None:
    kind = id_map(2, 3, "bytes")
    maps = [{1: bytes(size), 2: b""} for size in (0, longest, 0, 3 * longest, 1, longest)]
    column = pa.array([list(pairs.items()) for pairs in maps], pa.map_(pa.int64(), pa.binary()))
    result = write_records(record("r", [field(1, "x", kind)]), {1: column}, len(maps), by_compiled=by_compiled)
    assert plain(result)[0] == b"".join(encoder(kind)(pairs) for pairs in maps)
