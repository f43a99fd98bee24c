"""The compiled reader alone: the files it refuses, the batches it returns, and the constants that it shares with the C source.

test_avro_columns.py compares it with the reader with fastavro.
"""

import json
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spec.avro.both_readers import (
    READERS,
    agreed,
    each_reader,
    needs_libdeflate,
    needs_libsnappy,
    needs_libzstd,
    needs_module,
    result_of,
    without_libdeflate,
)

from icefloe.errors import AvroFormatError
from icefloe.spec.avro import compiled_codec, native
from icefloe.spec.avro.avro_codec import compress
from icefloe.spec.avro.avro_container import blocks_container, open_container, raw_blocks, unpacked_blocks, write_container
from icefloe.spec.avro.avro_schema import array, field, id_map, record
from icefloe.spec.avro.compiled_codec import run_steps
from icefloe.spec.avro.decode_steps import Form, Step, compile_steps
from icefloe.spec.avro.projection_tree import IdMap, Numbers, ProjectedField, Rows, Slots, Struct, Value
from icefloe.spec.avro.varint import encode_long
from icefloe.spec.avro.write_avro_columns import Put
from icefloe.spec.limits import Limits, set_limits

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
@pytest.mark.parametrize("key", [0, 1, 63, 64, -1, 2**31, 2**62])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 9_000])
def test_bounds_that_are_not_projected_are_skipped_whatever_their_key_and_length(key: int, size: int) -> None:
    kind = record("r", [field(1, "bounds", id_map(10, 11, "bytes")), field(2, "x", "long")])
    pair = encode_long(key) + encode_long(size) + b"\xff" * size
    data = encode_long(3) + pair * 3 + encode_long(0) + encode_long(7)
    steps = compile_steps(json.dumps(kind).encode(), Struct((ProjectedField(2, (), Value("x")),)))

    def numbers(block: bytes) -> list[int]:
        reader = compiled_codec._reader(steps)
        reader.run(block, 1)
        batch = (1, reader.take())
        return list(compiled_codec.arrow_columns(steps, batch)["x"].to_pylist())

    assert numbers(data) == [7]
    for cut in {1, 2, 3, len(pair), len(pair) + 1, len(pair) + 2, 2 * len(pair), len(data) - 1}:
        with pytest.raises(ValueError, match=r"the bytes end inside a value|claim more items than there are bytes"):
            numbers(data[:cut])
    negative = encode_long(1) + encode_long(key) + encode_long(-1) + data
    with pytest.raises(ValueError, match="a length is negative"):
        numbers(negative)


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
    reader = compiled_codec._native.Reader(steps.code, steps.columns, steps.most_slots, 2**20, False)
    with pytest.raises(ValueError, match="more than 64 bits"):
        reader.run(b"\x80", 1)
    for use in (lambda: reader.run(b"\x02", 1), reader.take):
        with pytest.raises(RuntimeError):
            use()


@needs_module
def test_two_threads_cannot_use_one_reader_at_once() -> None:
    container = file_of("long", b"\x02")
    steps = compile_steps(container.schema_text, Struct((ProjectedField(1, (), Value("x")),)))
    reader = compiled_codec._native.Reader(steps.code, steps.columns, steps.most_slots, 2**20, False)
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


def small_blocks(codec: str, count: int = 50) -> bytes:
    """Return a file with the numbers 0, 1000, 2000, ... as text and as longs, one record a block."""
    schema = json.dumps(record("r", [field(1, "x", "long"), field(2, "text", "string")]))
    records = (encode_long(n * 1000) + encode_long(len(str(n))) + str(n).encode() for n in range(count))
    return blocks_container(schema, {}, codec, ((1, compress(codec, one)) for one in records))


BOTH_COLUMNS = Struct((ProjectedField(1, (), Value("x")), ProjectedField(2, (), Value("text"))))


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_blocks_of_one_record_are_read_in_every_codec(codec: str) -> None:
    columns = agreed(small_blocks(codec), BOTH_COLUMNS, batch_records=7)
    assert columns == {"x": [n * 1000 for n in range(50)], "text": [str(n).encode() for n in range(50)]}


@pytest.mark.parametrize(
    "codec",
    [
        "null",
        pytest.param("deflate", marks=needs_libdeflate),
        pytest.param("zstandard", marks=needs_libzstd),
        pytest.param("snappy", marks=needs_libsnappy),
    ],
)
@needs_module
def test_all_blocks_of_a_file_are_decompressed_and_read_in_one_call(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_block(*arguments: object) -> object:
        raise AssertionError("a block is read by itself")

    monkeypatch.setattr(compiled_codec, "unpacked_blocks", one_block)
    container = open_container(small_blocks(codec, 10_000), "some.avro")
    steps = compile_steps(container.schema_text, BOTH_COLUMNS)
    ((_, batch),) = run_steps([(container, steps)], None)
    assert compiled_codec.arrow_columns(steps, batch)["x"].to_pylist() == [n * 1000 for n in range(10_000)]


@needs_libdeflate
def test_other_threads_run_while_a_file_is_read() -> None:
    container = open_container(small_blocks("deflate", 100_000), "some.avro")
    steps = compile_steps(container.schema_text, BOTH_COLUMNS)
    reading = threading.Event()
    turns = 0

    def read() -> None:
        reading.set()
        list(run_steps([(container, steps)] * 5, None))  # long enough for the other thread to get a processor

    before = sys.getswitchinterval()
    sys.setswitchinterval(100)  # no thread loses the lock of the interpreter unless it releases it
    try:
        thread = threading.Thread(target=read)
        thread.start()
        reading.wait()
        while thread.is_alive():
            os.stat(".")  # releases the lock, and does not wait for a processor as a sleep may
            turns += 1
        thread.join()
    finally:
        sys.setswitchinterval(before)
    assert turns > 100


@needs_module
@pytest.mark.parametrize(("codec", "count", "is_apart"), [("snappy", 200, True), ("deflate", 200, True), ("snappy", 1, False)])
def test_small_blocks_that_python_decompresses_are_read_by_one_thread_at_a_time(
    codec: str, count: int, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compiled_codec._HAS_LIBRARY, codec, False)
    monkeypatch.setitem(compiled_codec._CODECS, codec, None)
    monkeypatch.setattr(compiled_codec._Current, "small_block_lock", threading.Lock())
    container = open_container(small_blocks(codec, count), "some.avro")
    steps = compile_steps(container.schema_text, BOTH_COLUMNS)
    begun, inside, together = threading.Barrier(4), [], []

    def each_block(*arguments: Any) -> Any:
        inside.append(1)
        time.sleep(0.02)
        together.append(len(inside))
        yield from unpacked_blocks(*arguments)
        inside.pop()

    def read() -> None:
        begun.wait()
        ((_, batch),) = run_steps([(container, steps)], None)
        assert compiled_codec.arrow_columns(steps, batch)["x"].to_pylist() == [n * 1000 for n in range(count)]

    monkeypatch.setattr(compiled_codec, "unpacked_blocks", each_block)
    with ThreadPoolExecutor(4) as threads:
        for reading in [threads.submit(read) for _ in range(4)]:
            reading.result()
    assert len(together) == 4
    assert (max(together) == 1) == is_apart


def damaged_block(how: str) -> bytes:
    content = small_blocks("deflate")
    container = open_container(content, "some.avro")
    blocks = list(raw_blocks(container))
    block = blocks[30]
    before, after = content[: block.offset], content[block.end + 16 :]
    data = content[block.start : block.end]

    def again(count: int, packed: bytes, sync: bytes = container.sync) -> bytes:
        return before + encode_long(count) + encode_long(len(packed)) + packed + sync + after

    return {
        "sync marker": lambda: again(1, data, b"another marker.."),
        "cut in the data": lambda: content[: block.start + 3],
        "cut in the sync marker": lambda: content[: block.end + 5],
        "cut in the header": lambda: content[: block.start - 1],
        "size beyond the file": lambda: before + encode_long(1) + encode_long(2**40) + data + container.sync + after,
        "negative size": lambda: before + encode_long(1) + encode_long(-5) + data + container.sync + after,
        "negative count": lambda: again(-1, data),
        "count above the bytes": lambda: again(2**40, data),
        "more records than there are": lambda: again(2, data),
        "fewer records than there are": lambda: again(0, data),
        "damaged deflate data": lambda: again(1, b"\x07" + data[1:]),
        "deflate data without an end": lambda: again(1, data[:-2]),
        "no data": lambda: again(1, b""),
        "above the limit of a block": lambda: again(1, compress("deflate", bytes(5_000))),
    }[how]()


# Kinds of damage to a block, with a pattern of the error.
DAMAGE = {
    "sync marker": "sync marker",
    "cut in the data": "cut short",
    "cut in the sync marker": "cut short",
    "cut in the header": "inside a block's header",
    "size beyond the file": "cut short",
    "negative size": "claims 1 records in -5 bytes",
    "negative count": "claims -1 records",
    "count above the bytes": "claims 1099511627776 records",
    "more records than there are": "0 bytes into|inside a value|end at|bytes into",
    "fewer records than there are": "the records of a block end at",
    "damaged deflate data": "cannot be decompressed with deflate",
    "deflate data without an end": "cannot be decompressed with deflate",
    "no data": "cannot be decompressed with deflate",
    "above the limit of a block": "avro_block_bytes",
}


@pytest.mark.parametrize(("how", "why"), DAMAGE.items())
def test_a_damaged_block_among_sound_ones_has_the_same_error_from_both_readers(how: str, why: str) -> None:
    content = damaged_block(how)
    before = set_limits(Limits(avro_block_bytes=4_000))
    try:
        errors = [result_of(content, BOTH_COLUMNS, by_compiled=by_compiled) for by_compiled in READERS]
    finally:
        set_limits(before)
    offset = list(raw_blocks(open_container(small_blocks("deflate"), "some.avro")))[30].offset
    assert all(re.search(why, error) for error in errors)
    assert len({error.replace("a record cannot be decoded", "") for error in errors}) == 1 or how == "more records than there are"
    assert all(f"(at byte {offset}" in error for error in errors) or how == "sync marker"


@needs_libdeflate
@pytest.mark.parametrize("how", [None, *DAMAGE])
def test_without_libdeflate_each_block_has_the_same_columns_and_errors(how: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    content = small_blocks("deflate") if how is None else damaged_block(how)
    asked = []

    def each_block(*arguments: Any) -> Any:
        asked.append(arguments)
        return unpacked_blocks(*arguments)

    monkeypatch.setattr(compiled_codec, "unpacked_blocks", each_block)
    before = set_limits(Limits(avro_block_bytes=4_000))
    try:
        with_libdeflate = result_of(content, BOTH_COLUMNS, by_compiled=True)
        by_itself = len(asked)
        with without_libdeflate():
            assert result_of(content, BOTH_COLUMNS, by_compiled=True) == with_libdeflate
    finally:
        set_limits(before)
    assert isinstance(with_libdeflate, dict) == (how is None)
    assert by_itself <= 2  # the file is read twice, as lists and as arrays
    assert len(asked) - by_itself >= 60


@each_reader
def test_small_blocks_that_unpack_to_more_than_the_limit_of_a_file_are_refused(by_compiled: bool) -> None:
    content = small_blocks("deflate", 2_000)
    whole = sum(len(data) for _, data in unpacked_blocks(open_container(content, "some.avro")))
    for limit, is_read in ((whole, True), (whole - 1, False)):
        before = set_limits(Limits(avro_file_bytes=limit))
        try:
            result = result_of(content, BOTH_COLUMNS, by_compiled=by_compiled)
        finally:
            set_limits(before)
        assert isinstance(result, dict) if is_read else re.search(r"unpack to \d+ bytes.*avro_file_bytes", result)
