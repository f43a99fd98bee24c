"""Columns of files with random schemas, compared with the values that fastavro wrote."""

import contextlib
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.avro.both_readers import agreed, each_reader, lists_of, result_of

from icefloe.errors import AvroFormatError
from icefloe.spec.avro.avro_container import open_container, write_container
from icefloe.spec.avro.projection_tree import IdMap, Numbers, ProjectedField, Rows, Slots, Struct, Value
from icefloe.spec.avro.varint import encode_long

LONGS = st.integers(-(2**63), 2**63 - 1)
COUNTS = st.dictionaries(st.integers(0, 300), LONGS, max_size=6)
BOUNDS = st.dictionaries(st.integers(0, 300), st.binary(max_size=200), max_size=6)


def pairs(name: str, value: str) -> dict[str, Any]:
    fields = [{"name": "key", "type": "int", "field-id": 90}, {"name": "value", "type": value, "field-id": 91}]
    return {"type": "array", "logicalType": "map", "items": {"type": "record", "name": name, "fields": fields}}


# Type and values by field id: all types that manifests have, and some others.
FIELDS: dict[int, tuple[Any, st.SearchStrategy[Any]]] = {
    1: ("long", LONGS),
    2: (["null", "long"], st.none() | LONGS),
    3: ("string", st.text(max_size=80)),
    4: (["null", "bytes"], st.none() | st.binary(max_size=80)),
    5: ("boolean", st.booleans()),
    6: (["null", "double"], st.none() | st.floats(allow_nan=False)),
    7: ({"type": "fixed", "name": "f3", "size": 3}, st.binary(min_size=3, max_size=3)),
    8: (["null", pairs("counts", "long")], st.none() | COUNTS),
    9: (["null", pairs("bounds", "bytes")], st.none() | BOUNDS),
    10: (["null", {"type": "array", "items": "long", "element-id": 92}], st.none() | st.lists(LONGS, max_size=5)),
    11: ({"type": "map", "values": "string"}, st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3)),
    12: ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])),
    13: (["null", "int", "string"], st.none() | st.integers(-5, 5) | st.text(max_size=3)),
    14: ("float", st.floats(width=32, allow_nan=False)),
}
MAPS = (8, 9)


def schema_of(order: list[int]) -> dict[str, Any]:
    inner = [{"name": f"f{i}", "type": FIELDS[i][0], "field-id": i} for i in order]
    return {
        "type": "record",
        "name": "outer",
        "fields": [
            {"name": "before", "type": "int", "field-id": 100},
            {"name": "inner", "type": {"type": "record", "name": "inner_record", "fields": inner}, "field-id": 101},
        ],
    }


def for_fastavro(field_id: int, value: Any) -> Any:
    return [{"key": key, "value": item} for key, item in value.items()] if field_id in MAPS and value is not None else value


@st.composite
def files(draw: st.DrawFn) -> tuple[list[int], list[dict[int, Any]], bytes]:
    order = draw(st.lists(st.sampled_from(sorted(FIELDS)), unique=True, min_size=1))
    rows = draw(st.lists(st.fixed_dictionaries({i: FIELDS[i][1] for i in order}), max_size=8))
    file = io.BytesIO()
    records = [{"before": n, "inner": {f"f{i}": for_fastavro(i, row[i]) for i in order}} for n, row in enumerate(rows)]
    fastavro.writer(
        file, schema_of(order), records, codec=draw(st.sampled_from(["null", "deflate"])), sync_interval=draw(st.sampled_from([1, 300]))
    )
    return order, rows, file.getvalue()


def shapes(chosen: list[int], slots: tuple[int, ...]) -> Struct:
    def shape(i: int) -> Any:
        if i in MAPS:
            return Slots(tuple((key, f"{i}.{key}") for key in slots)) if slots else IdMap(str(i))
        return Numbers(str(i)) if i == 10 else Value(str(i))

    inner = Struct(tuple(ProjectedField(i, (), shape(i)) for i in chosen))
    return Struct((ProjectedField(100, (), Value("before")), ProjectedField(101, (), inner)))


def collected(content: bytes, projection: Struct, batch_records: int = 2) -> dict[str, list[Any]]:
    """Return the columns on which both readers agree; raise if one refuses the file."""
    columns = agreed(content, projection, batch_records=batch_records)
    if isinstance(columns, str):
        raise AvroFormatError(columns)
    return dict(columns)


def expected(field_id: int, value: Any) -> Any:
    if field_id == 10 and value is not None:
        return tuple(value)
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=examples(150))
@given(
    files(),
    st.lists(st.sampled_from(sorted(set(FIELDS) - {11, 12, 13})), unique=True),
    st.lists(st.integers(0, 300), max_size=3, unique=True),
)
def test_any_projection_of_any_schema_returns_the_written_values(
    file: tuple[list[int], list[dict[int, Any]], bytes], chosen: list[int], slots: list[int]
) -> None:
    order, rows, content = file
    columns = collected(content, shapes(chosen, ()))
    assert columns.get("before", []) == list(range(len(rows)))
    for i in chosen:
        assert columns.get(str(i), []) == [expected(i, row[i]) if i in order else None for row in rows]
    written_keys = [key for row in rows for i in MAPS for key in (row.get(i) or {})]
    for key in (slot_keys := tuple(dict.fromkeys([*slots, *written_keys[:2]]))):
        columns = collected(content, shapes(chosen, slot_keys))
        for i in set(MAPS) & set(chosen):
            assert columns.get(f"{i}.{key}", []) == [(row.get(i) or {}).get(key) for row in rows]


@settings(max_examples=examples(60))
@given(files(), st.data())
def test_a_changed_byte_causes_only_a_format_error_or_other_values(
    file: tuple[list[int], list[dict[int, Any]], bytes], data: st.DataObject
) -> None:
    order, _, content = file
    start = open_container(content, "some.avro").body_start
    if start == len(content):
        return
    at = data.draw(st.integers(start, len(content) - 1))
    broken = content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
    for projection in (shapes([], ()), shapes([i for i in order if i not in (11, 12, 13)], ()), shapes(list(MAPS), (1, 2))):
        with contextlib.suppress(AvroFormatError):
            collected(broken, projection)


def read_by(by_compiled: bool, content: bytes, projection: Struct) -> dict[str, list[Any]]:
    """Return the columns of one reader; raise if it refuses the file."""
    columns = result_of(content, projection, by_compiled=by_compiled)
    if isinstance(columns, str):
        raise AvroFormatError(columns)
    return dict(columns)


def one_field(kind: Any, **attributes: Any) -> bytes:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": kind, **attributes}]}).encode()


def container_of(schema: bytes, *records: bytes) -> bytes:
    return write_container(schema.decode(), {}, "null", records)


@each_reader
def test_the_error_of_a_damaged_record_names_the_block_and_the_byte_in_it(by_compiled: bool) -> None:
    schema = one_field("string", **{"field-id": 1})
    content = container_of(schema, b"\x02a", b"\x08abc")
    offset = open_container(content, "f").body_start
    with pytest.raises(AvroFormatError, match=rf"some\.avro.*\d bytes into the block that begins here \(at byte {offset}\)"):
        read_by(by_compiled, content, Struct((ProjectedField(1, (), Value("x")),)))


@each_reader
def test_bytes_after_the_last_record_of_a_block_are_refused(by_compiled: bool) -> None:
    content = container_of(one_field("int", **{"field-id": 1}), b"\x02\x02")
    with pytest.raises(AvroFormatError, match="-1 bytes from its end"):
        read_by(by_compiled, content, Struct((ProjectedField(1, (), Value("x")),)))


@each_reader
def test_a_branch_that_a_union_does_not_have_is_refused(by_compiled: bool) -> None:
    content = container_of(one_field(["null", "int"], **{"field-id": 1}), b"\x04\x02")
    for projection in ((), (ProjectedField(1, (), Value("x")),)):
        with pytest.raises(AvroFormatError, match="union"):
            read_by(by_compiled, content, Struct(projection))


@each_reader
def test_a_negative_length_is_refused(by_compiled: bool) -> None:
    content = container_of(one_field("string", **{"field-id": 1}), b"\x03abc")
    for projection in ((), (ProjectedField(1, (), Value("x")),)):
        with pytest.raises(AvroFormatError, match="negative"):
            read_by(by_compiled, content, Struct(projection))


@each_reader
def test_an_array_with_a_huge_count_of_empty_items_is_skipped_or_refused(by_compiled: bool) -> None:
    nothing = {"type": "array", "items": {"type": "record", "name": "n", "fields": []}, "element-id": 2}
    content = container_of(one_field(nothing, **{"field-id": 1}), bytes.fromhex("feffffffffffffff7f") + b"\x00")
    if by_compiled:
        assert read_by(by_compiled, content, Struct(())) == {}
    else:
        with pytest.raises(AvroFormatError, match="more items than there are bytes"):
            read_by(by_compiled, content, Struct(()))
    with pytest.raises(AvroFormatError, match="more items than there are bytes"):
        read_by(by_compiled, content, Struct((ProjectedField(1, (), Rows("x", ())),)))


@each_reader
def test_fields_are_matched_by_name_only_if_the_writer_has_no_ids(by_compiled: bool) -> None:
    projection = Struct((ProjectedField(1, ("old_name", "x"), Value("x")),))
    assert read_by(by_compiled, container_of(one_field("int"), b"\x02"), projection) == {"x": [1]}
    assert read_by(by_compiled, container_of(one_field("int", **{"field-id": 7}), b"\x02"), projection) == {"x": [None]}


@each_reader
def test_a_missing_required_field_is_named(by_compiled: bool) -> None:
    with pytest.raises(AvroFormatError, match=r"some\.avro.*lacks field 5 \(file_path\)"):
        read_by(
            by_compiled,
            container_of(one_field("int", **{"field-id": 7}), b"\x02"),
            Struct((ProjectedField(5, ("file_path",), Value("x"), required=True),)),
        )


@each_reader
@pytest.mark.parametrize(
    "shape", [Value("x"), Numbers("x"), IdMap("x"), Slots(((1, "x"),)), Rows("x", ()), Struct((ProjectedField(2, (), Value("x")),))]
)
def test_a_field_of_another_type_than_projected_is_refused(shape: Any, by_compiled: bool) -> None:
    other = "int" if not isinstance(shape, Value) else {"type": "array", "items": "int"}
    with pytest.raises(AvroFormatError, match="expected a"):
        read_by(by_compiled, container_of(one_field(other, **{"field-id": 1}), b"\x02"), Struct((ProjectedField(1, (), shape),)))


@each_reader
@pytest.mark.parametrize("schema", [b"{", b'"long"', b'{"type": "no_such"}', b'{"type": "record", "name": "r"}', b"[]"])
def test_the_error_of_an_invalid_schema_names_the_file(schema: bytes, by_compiled: bool) -> None:
    with pytest.raises(AvroFormatError, match=r"some\.avro"):
        read_by(by_compiled, container_of(schema), Struct((ProjectedField(1, (), Value("x"), required=True),)))


@each_reader
@pytest.mark.parametrize("union", [[], ["null", []]])
def test_a_union_of_no_types_is_refused(union: Any, by_compiled: bool) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "n", "type": union, "field-id": 1}]}).encode()
    columns = lists_of(container_of(schema, b"\x00"), Struct((ProjectedField(1, (), Value("x")),)), by_compiled=by_compiled)
    assert "a union of no types" in columns


@each_reader
def test_text_of_a_schema_is_never_executed(by_compiled: bool) -> None:
    evil = "x'); raise SystemExit('taken over') #"
    schema = json.dumps({"type": "record", "name": evil, "fields": [{"name": evil, "type": "int", "field-id": 1, "doc": evil}]}).encode()
    assert read_by(by_compiled, container_of(schema, b"\x02"), Struct((ProjectedField(1, (evil,), Value(evil)),))) == {evil: [1]}


@each_reader
def test_a_named_type_can_be_referenced_by_its_name(by_compiled: bool) -> None:
    fixed = {"type": "fixed", "name": "two", "namespace": "a.b", "size": 2}
    fields = [{"name": "x", "type": fixed, "field-id": 1}, {"name": "y", "type": ["null", "a.b.two"], "field-id": 2}]
    content = container_of(json.dumps({"type": "record", "name": "r", "fields": fields}).encode(), b"ab\x02cd")
    assert read_by(by_compiled, content, Struct((ProjectedField(2, (), Value("y")), ProjectedField(1, (), Value("x"))))) == {
        "y": [b"cd"],
        "x": [b"ab"],
    }


@each_reader
def test_the_size_of_an_array_block_is_used_only_to_skip_it(by_compiled: bool) -> None:
    """A reader that decodes the items ignores the size; fastavro decodes them even if the array is not projected."""
    numbers = one_field({"type": "array", "items": "long"}, **{"field-id": 1})
    content = container_of(numbers, encode_long(-2) + encode_long(900) + b"\x02\x04\x00")
    assert read_by(by_compiled, content, Struct((ProjectedField(1, (), Numbers("x")),))) == {"x": [(1, 2)]}
    if not by_compiled:
        assert read_by(by_compiled, content, Struct(())) == {}
        return
    with pytest.raises(AvroFormatError):
        read_by(by_compiled, content, Struct(()))


@each_reader
def test_empty_items_are_limited_by_the_bytes_of_the_block(by_compiled: bool) -> None:
    nothing = {"type": "array", "items": {"type": "record", "name": "n", "fields": []}}
    content = container_of(one_field(nothing, **{"field-id": 1}), *[encode_long(2) + b"\x00"] * 2)
    if by_compiled:  # the reader with fastavro refuses even these, since it would create any number of items
        assert read_by(by_compiled, content, Struct((ProjectedField(1, (), Rows("x", ())),))) == {"x": [((), ())] * 2}
    more = container_of(one_field(nothing, **{"field-id": 1}), *[encode_long(3) + b"\x00"] * 2)
    with pytest.raises(AvroFormatError, match="claim more items than there are bytes"):
        read_by(by_compiled, more, Struct((ProjectedField(1, (), Rows("x", ())),)))


@each_reader
@pytest.mark.parametrize("item", ["double", "float", {"type": "fixed", "name": "f", "size": 3}])
def test_a_damaged_count_of_items_of_fixed_width_is_refused_at_once(item: Any, by_compiled: bool) -> None:
    content = container_of(one_field({"type": "array", "items": item}, **{"field-id": 1}), encode_long(2**61) + bytes(30))
    with pytest.raises(AvroFormatError, match="more items than there are bytes" if by_compiled else "the bytes end inside a value"):
        read_by(by_compiled, content, Struct(()))
