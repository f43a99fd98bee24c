"""The reader with fastavro alone: hostile files and limits.

test_avro_columns.py compares it with the compiled reader.
"""

import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from icefloe import Limits, set_limits
from icefloe.errors import AvroFormatError
from icefloe.spec.avro.avro_columns import read_arrays, read_batches
from icefloe.spec.avro.avro_container import open_container, write_container
from icefloe.spec.avro.avro_schema import field, record
from icefloe.spec.avro.projection_tree import ProjectedField, Struct, Value
from icefloe.spec.avro.varint import encode_long

PROJECTION = Struct((ProjectedField(1, (), Value("x")),))


@pytest.fixture(autouse=True)
def usual_limits() -> Iterator[None]:
    before = set_limits(Limits())
    yield
    set_limits(before)


def container(kind: Any, *records: bytes, **more: Any) -> Any:
    schema = {**record("r", [field(1, "x", kind)]), **more}
    return open_container(write_container(json.dumps(schema), {}, "null", records), "some.avro")


def read(opened: Any, projection: Struct = PROJECTION) -> list[dict[str, list[Any]]]:
    return list(read_batches(opened, projection, by_compiled=False))


@pytest.mark.parametrize("length", [-1, -(2**63), 4, 2**40, 2**62, 2**63 - 1])
def test_a_length_is_checked_against_the_remaining_bytes(length: int) -> None:
    for kind in ("bytes", "string", {"type": "map", "values": "long"}):
        start = encode_long(1) if isinstance(kind, dict) else b""
        for projection in (Struct(()), PROJECTION) if kind != "string" and not start else (Struct(()),):
            with pytest.raises(AvroFormatError, match=r"some\.avro.*(negative|end inside a value), \d+ bytes into the block"):
                read(container(kind, start + encode_long(length) + b"abc"), projection)


@pytest.mark.parametrize("failure", [MemoryError(), RecursionError("deep"), KeyError("x"), AttributeError("x"), ZeroDivisionError("x")])
def test_every_error_of_fastavro_becomes_a_format_error_with_the_file(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(fastavro, "schemaless_reader", fail)
    with pytest.raises(AvroFormatError, match=rf"some\.avro.*cannot be decoded: {type(failure).__name__}"):
        read(container("long", b"\x02"))


def test_the_error_of_a_record_that_takes_too_much_memory_names_the_limit() -> None:
    set_limits(Limits(avro_block_bytes=64 * 1024))
    many = container({"type": "array", "items": "long"}, encode_long(5000) + b"\x02" * 5000 + b"\x00")
    with pytest.raises(
        AvroFormatError, match=r"some\.avro.*a record .* takes more memory than is allowed.*avro_block_bytes is 65536"
    ) as error:
        read(many, Struct(()))
    assert "ICEFLOE_LIMITS__AVRO_BLOCK_BYTES" in str(error.value)
    few = container("long", *[b"\x02"] * 5000)  # many records of few values each
    assert sum(len(batch["x"]) for batch in read(few)) == 5000


def test_fields_without_bytes_and_nested_records_count_as_memory() -> None:
    """An item of one byte can become a thousand objects."""
    set_limits(Limits(avro_block_bytes=4 * 1024 * 1024))
    nulls = record("item", [field(2, "n", "boolean"), *(field(100 + n, f"n{n}", "null") for n in range(1000))])
    deep: Any = "boolean"
    for n in range(60):
        deep = record(f"d{n}", [field(2, "n", deep)])
    for item in (nulls, deep, ["null", nulls]):
        data = b"\x02\x00" if isinstance(item, list) else b"\x00"
        for kind, key in (({"type": "array", "items": item}, b""), ({"type": "map", "values": item}, b"\x00")):
            assert read(container(kind, encode_long(5) + (key + data) * 5 + b"\x00"), Struct(())) == [{}]
            with pytest.raises(AvroFormatError, match="takes more memory than is allowed"):
                read(container(kind, encode_long(900) + (key + data) * 900 + b"\x00"), Struct(()))


def test_invalid_and_duplicate_field_names_are_read() -> None:
    evil = "x'); raise SystemExit #\n"
    fields = [{"name": evil, "type": "long", "field-id": 2}, {"name": evil, "type": "long", "field-id": 1}]
    opened = container("long", b"\x02\x04", name=evil, fields=fields)
    assert read(opened, Struct((ProjectedField(1, (), Value("b")), ProjectedField(2, (), Value("a"))))) == [{"b": [2], "a": [1]}]


def test_no_logical_type_changes_a_value() -> None:
    for logical in ("date", "timestamp-micros", "decimal", "uuid"):
        assert read(container({"type": "long", "logicalType": logical}, b"\x04")) == [{"x": [2]}]
    assert read(container({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x02\x07")) == [{"x": [b"\x07"]}]


def test_text_that_is_not_utf_8_is_returned_as_bytes() -> None:
    assert read(container("string", b"\x04\xff\xfe")) == [{"x": [b"\xff\xfe"]}]
    assert read(container({"type": "map", "values": "long"}, b"\x02\x02\xff\x02\x00"), Struct(())) == [{}]


def nested(levels: int) -> Any:
    kind: Any = "long"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return container(kind, b"\x02" * levels + b"\x04" + b"\x00" * levels)


def test_a_deep_schema_is_read_and_a_deeper_one_is_refused() -> None:
    assert read(nested(100), Struct(())) == [{}]
    with pytest.raises(AvroFormatError, match="nested too deeply"):
        read(nested(900), Struct(()))


def test_batches_end_within_a_block() -> None:
    opened = container("long", *[encode_long(n) for n in range(40_000)])
    batches = list(read_arrays([opened], PROJECTION, by_compiled=False))
    assert [len(batch["x"]) for batch in batches] == [16_384, 16_384, 7_232]
    assert [value for batch in batches for value in batch["x"].to_pylist()] == list(range(40_000))
