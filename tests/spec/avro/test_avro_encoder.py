"""Encoders, checked with the decoder of another library and with the readers of this package."""

import io
import json
import math
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.spec.avro.avro_columns import read_batches
from icefloe.spec.avro.avro_container import open_container, write_container
from icefloe.spec.avro.avro_encoder import encoder
from icefloe.spec.avro.avro_schema import array, field, id_map, parse_schema, record, wire_form
from icefloe.spec.avro.projection_tree import IdMap, Numbers, ProjectedField, Slots, Struct, Value

SCHEMA = record(
    "r",
    [
        field(1, "a", "long"),
        field(2, "b", "string", required=False),
        field(3, "c", id_map(30, 31, "long"), required=False),
        field(4, "d", id_map(40, 41, "bytes")),
        field(5, "e", array(50, "int"), required=False),
        field(6, "f", {"type": "fixed", "name": "f2", "size": 2}),
        field(7, "g", "double"),
        field(8, "h", "boolean"),
    ],
)
TEXT = json.dumps(SCHEMA)
IDS = st.integers(0, 2**31 - 1)
ROWS = st.lists(
    st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(max_size=80),
        st.none() | st.dictionaries(IDS, st.integers(-(2**63), 2**63 - 1), max_size=70),
        st.dictionaries(IDS, st.binary(max_size=90), max_size=5),
        st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
        st.binary(min_size=2, max_size=2),
        st.floats(),
        st.booleans(),
    ),
    max_size=5,
)


def same(left: Any, right: Any) -> bool:
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@settings(max_examples=examples(60))
@given(ROWS)
def test_encoded_records_are_read_by_another_library_and_by_this_package(rows: list[tuple[Any, ...]]) -> None:
    content = write_container(TEXT, {}, "null", map(encoder(SCHEMA), rows))
    records = list(fastavro.reader(io.BytesIO(content)))
    for row, decoded in zip(rows, records, strict=True):
        for name, value in zip("abcdefgh", row, strict=True):
            other = {pair["key"]: pair["value"] for pair in decoded[name]} if name in "cd" and decoded[name] is not None else decoded[name]
            assert same(value, other)
    shapes = [Value("a"), Value("b"), IdMap("c"), IdMap("d"), Numbers("e"), Value("f"), Value("g"), Value("h")]
    projection = Struct(tuple(ProjectedField(i + 1, (), shape) for i, shape in enumerate(shapes)))
    batches = list(read_batches(open_container(content, "f"), projection))
    rows_read = list(zip(*batches[0].values(), strict=True)) if batches else []
    for row, row_read in zip(rows, rows_read, strict=True):
        a, b, c, d, e, *rest = row
        expected = (a, None if b is None else b.encode(), c, d, None if e is None else tuple(e), *rest)
        assert all(same(left, right) for left, right in zip(expected, row_read, strict=True))
    assert list(read_batches(open_container(content, "f"), Struct(()))) == ([{}] if rows else [])


@settings(max_examples=examples(60))
@given(ROWS, st.data())
def test_slots_of_maps_with_a_size_have_the_encoded_values(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    written_keys = [key for row in rows for key in {**(row[2] or {}), **row[3]}] or [1]
    ids = data.draw(st.lists(st.sampled_from(written_keys) | IDS, unique=True, min_size=1, max_size=3))
    content = write_container(TEXT, {}, "null", map(encoder(SCHEMA), rows))
    projection = Struct(tuple(ProjectedField(i, (), Slots(tuple((key, f"{i}.{key}") for key in ids))) for i in (3, 4)))
    for batch in read_batches(open_container(content, "f"), projection):
        for key in ids:
            assert batch[f"3.{key}"] == [(row[2] or {}).get(key) for row in rows]
            assert batch[f"4.{key}"] == [row[3].get(key) for row in rows]


@pytest.mark.parametrize(("kind", "value"), [({"type": "fixed", "size": 2, "name": "f"}, b"abc"), ("int", "text"), ("string", 5)])
def test_a_value_that_does_not_match_its_type_is_refused(kind: Any, value: Any) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        encoder(kind)(value)


def test_a_record_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        encoder(record("r", [field(1, "a", "int"), field(2, "b", "int")]))((1,))


def test_the_wire_form_depends_only_on_field_ids_and_types() -> None:
    renamed = json.loads(TEXT.replace('"name": "a"', '"name": "z", "doc": "other"'))
    assert wire_form(parse_schema(json.dumps(renamed).encode())) == wire_form(SCHEMA)
    for other in (
        TEXT.replace('"field-id": 1,', '"field-id": 99,'),
        TEXT.replace('"double"', '"float"'),
        TEXT.replace('"size": 2', '"size": 3'),
    ):
        changed = json.loads(other)
        if changed != json.loads(TEXT):
            assert wire_form(parse_schema(other.encode())) != wire_form(SCHEMA)
