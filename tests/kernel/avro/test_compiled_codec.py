"""The compiled reader alone: the files it refuses, the batches it returns, and the constants that it shares with the C source.

test_avro_columns.py compares it with the reader with fastavro.
"""

import json
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kernel.avro.both_readers import needs_module

from icefloe.errors import AvroFormatError
from icefloe.kernel.avro import compiled_codec, native
from icefloe.kernel.avro.avro_container import open_container, write_container
from icefloe.kernel.avro.avro_schema import array, field, id_map, record
from icefloe.kernel.avro.compiled_codec import run_steps
from icefloe.kernel.avro.decode_steps import Form, Step, compile_steps
from icefloe.kernel.avro.projection_tree import IdMap, Numbers, ProjectedField, Rows, Slots, Struct, Value
from icefloe.kernel.avro.varint import encode_long
from icefloe.kernel.avro.write_avro_columns import Put

SOURCE = Path(native.__file__).parent


def numbers_of(enum: str, source: str) -> dict[str, int]:
    """Return the names of a C enum with their numbers."""
    body = re.search(rf"enum {enum} {{(.*?)}};|typedef enum {{([^}}]*)}} {enum};", source, re.DOTALL)
    assert body
    without_comments = re.sub(r"/\*.*?\*/", "", body[1] or body[2], flags=re.DOTALL)
    numbers, number = {}, 0
    for name, value in re.findall(r"(\w+)(?:\s*=\s*(\d+))?\s*,?", without_comments):
        number = int(value) if value else number
        numbers[name] = number
        number += 1
    return numbers


def test_steps_and_forms_have_the_numbers_of_the_c_source() -> None:
    source = (SOURCE / "read.c").read_text()
    assert numbers_of("Step", source) == {step.name: int(step) for step in Step}
    assert [number for _, number in sorted(numbers_of("Form", source).items(), key=lambda pair: pair[1])] == [int(form) for form in Form]


def test_opcodes_of_the_writer_have_the_numbers_of_the_c_source() -> None:
    assert numbers_of("Put", (SOURCE / "write.c").read_text()) == {put.name: int(put) for put in Put}


def test_the_interface_number_is_that_of_the_c_source() -> None:
    (number,) = re.findall(r"INTERFACE = (\d+)", (SOURCE / "module.c").read_text())
    assert int(number) == compiled_codec._INTERFACE


def file_of(kind: Any, *records: bytes) -> Any:
    return open_container(write_container(json.dumps(record("r", [field(1, "x", kind)])), {}, "null", records), "some.avro")


def read(kind: Any, shape: Any, *records: bytes) -> Any:
    container = file_of(kind, *records)
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), shape),)))
    ((_, batch),) = run_steps([(container, steps)], None)
    return compiled_codec.arrow_columns(steps, batch)


@needs_module
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("long", b"\x80" * 10 + b"\x01"),  # more than ten bytes
        ("long", b"\x80" * 9 + b"\x02"),  # a 65th bit
        ("long", b"\x80"),
        ("string", b"\x06ab"),
        ("string", b"\x01"),
        ("string", encode_long(2**62) + b"a"),
        ("double", bytes(7)),
        ({"type": "fixed", "name": "f", "size": 3}, b"ab"),
        (["null", "long"], b"\x04\x02"),
        (["null", "long"], b"\x01\x02"),
        ("long", b"\x02\x02"),  # a byte follows the last record
    ],
)
def test_a_truncated_or_invalid_value_is_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(AvroFormatError, match=r"some\.avro.*bytes into the block that begins here"):
        read(kind, Value("x"), data)


@needs_module
@pytest.mark.parametrize(
    ("records", "where"),
    [
        ([b"\x02\x02" * 2 + b"\x00\x00", b"\x80"], r"64 bits, in the field x\.number of record 1, 7 bytes"),
        ([b"\x02\x01"], r"negative, in the field x\.text of record 0, 2 bytes"),
        ([b"\x02\x00\x04"], r"no such branch, in the field x\.rows of record 0, 3 bytes"),
        ([b"\x02\x00\x02\x02\x06"], r"no such branch, in the field x\.rows\.lower of record 0, 5 bytes"),
        ([b"\x02\x00\x02\x60"], r"more items than there are bytes, in the field x\.rows of record 0, 4 bytes"),
        ([b"\x02\x00\x00\x06ab"], r"end inside a value, or .*, in the field y of record 0, 4 bytes"),
    ],
)
def test_an_error_names_the_field_the_record_and_the_byte(records: list[bytes], where: str) -> None:
    rows = array(5, record("row", [field(6, "lower", "bytes", required=False)]))
    inner = record("inner", [field(2, "number", "long"), field(3, "text", "string"), field(4, "rows", rows, required=False)])
    schema = record("r", [field(1, "x", inner), field(7, "y", "bytes")])
    container = open_container(write_container(json.dumps(schema), {}, "null", records), "some.avro")
    shape = Struct((ProjectedField(2, (), Value("number")), ProjectedField(4, (), Rows("rows", (ProjectedField(6, (), Value("lower")),)))))
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), shape),)))
    with pytest.raises(AvroFormatError, match=rf"some\.avro.*{where} into the block that begins here \(at byte {container.body_start}\)"):
        list(run_steps([(container, steps)], None))


@needs_module
@pytest.mark.parametrize("count", [2**40, 2**62, 2**63 - 1, -(2**40), -(2**63)])
def test_a_huge_count_of_items_is_refused(count: int) -> None:
    size = encode_long(0) if count < 0 else b""
    for kind, shape in (
        ({"type": "array", "items": "long"}, Numbers("x")),
        (id_map(10, 11, "long"), IdMap("x")),
        (id_map(10, 11, "bytes"), IdMap("x")),
        (id_map(10, 11, "bytes"), Slots(((1, "x"),))),
        (id_map(10, 11, "long"), Slots(((1, "x"),))),
    ):
        with pytest.raises(AvroFormatError):
            read(kind, shape, encode_long(count) + size + b"\x02\x02\x00")


@needs_module
def test_buffers_have_the_layout_of_arrow() -> None:
    data = [b"\x00", b"\x02\x04ab", b"\x02\x00"]
    column = read(["null", "string"], Value("x"), *data)["x"]
    column.validate(full=True)
    assert column.to_pylist() == [None, b"ab", b""]
    assert column.null_count == 1


@needs_module
@pytest.mark.parametrize("records", [1, 7, 8, 9, 63, 64, 65, 1000])
@pytest.mark.parametrize("first_null", [0, 6, 7, 8, 63, 2000])
def test_nulls_at_any_position_are_read(records: int, first_null: int) -> None:
    expected = [None if n >= first_null and n % 3 == first_null % 3 else n for n in range(records)]
    data = [b"\x00" if value is None else b"\x02" + encode_long(value) for value in expected]
    column = read(["null", "long"], Value("x"), *data)["x"]
    column.validate(full=True)
    assert column.to_pylist() == expected


@needs_module
def test_columns_are_returned_in_batches_and_outlive_their_reader() -> None:
    container = file_of("long", *(encode_long(n) for n in range(100_000)))
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), Value("x")),)))
    parts = [compiled_codec.arrow_columns(steps, batch)["x"] for _, batch in run_steps([(container, steps)], 30_000)]
    assert len(parts) > 1
    assert pa.chunked_array(parts).to_pylist() == list(range(100_000))


@needs_module
def test_a_reader_cannot_be_used_after_an_error() -> None:
    container = file_of("long", b"\x02")
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), Value("x")),)))
    reader = compiled_codec._native.Reader(steps.code, steps.columns, steps.most_slots, 2**20)
    with pytest.raises(ValueError, match="more than 64 bits"):
        reader.run(b"\x80", 1)
    for use in (lambda: reader.run(b"\x02", 1), reader.take):
        with pytest.raises(RuntimeError):
            use()


@needs_module
def test_two_threads_cannot_use_one_reader_at_once() -> None:
    container = file_of("long", b"\x02")
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), Value("x")),)))
    reader = compiled_codec._native.Reader(steps.code, steps.columns, steps.most_slots, 2**20)
    block, done, refused = b"\x02" * 200_000, [], []

    def work() -> None:
        for _ in range(20):
            try:
                reader.run(block, len(block))
                done.append(1)
            except RuntimeError:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ((length, _, _, values),) = reader.take()
    assert length == len(done) * len(block)
    assert np.frombuffer(values, np.int64).sum() == length
    assert len(done) + len(refused) == 80
