"""A writer's schema and a reader's wishes, turned once into a straight-line Python function that runs over blocks.

Walking a schema for every value costs several times the decoding itself; the generated function has no schema left in it. The parts that emit skipping are
`skip.py`, the lines are kept by `source.py`. Floor: kernel.avro. Spec: Apache Avro, Binary Encoding; Appendix A, Avro.

The function is `run(buf, blocks, appends, base)`: `buf` holds uncompressed blocks one after another, `blocks` their (record count, end
position), `appends` takes each column's values, spans count from `base`. n varints in a row are passed in one step, however long each is: `ends` lists the
position of the last byte of every would-be varint in `buf` (a byte below 128), made when first needed; `h` is the index of the
first of them at or after position `g`.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from icefloe.kernel.avro.failure import TornDataError
from icefloe.kernel.avro.layouts import tells_its_size
from icefloe.kernel.avro.schema import AvroType, kind_of, parse_schema
from icefloe.kernel.avro.skip import NUMBERS, emit_items, emit_known_layout, emit_skip, pair_value
from icefloe.kernel.avro.source import Source
from icefloe.kernel.avro.varint import decode_raw, decode_rest, decode_rest_of_length, encode_long
from icefloe.kernel.avro.wanted import (
    IdMap,
    Numbers,
    Rows,
    Shape,
    Slots,
    Span,
    Struct,
    Value,
    WantedField,
    columns_of,
    matched_fields,
    span_columns,
)

_BYTES = frozenset({"bytes", "string"})


@dataclass(frozen=True, slots=True)
class Program:
    """The generated function, the columns it appends to in order, and its text."""

    run: Callable[..., None]
    columns: tuple[str, ...]
    source: str


@lru_cache(maxsize=128)
def compile_program(schema_text: bytes, wanted: Struct) -> Program:
    """The program for one writer's schema; made once, kept for the other files of that writer.

    Raises:
        ValueError: the schema cannot be read, lacks a required field, or declares a wanted one as something else.
    """
    schema = parse_schema(schema_text, "manifest_schema_types")
    if kind_of(schema) != "record":
        raise ValueError(f"avro.schema declares {kind_of(schema)}, not a record")
    columns = columns_of(wanted)
    variables = {column: f"x{index}" for index, column in enumerate(columns)}
    source = Source()
    body = Source(depth=4, constants=source.constants)
    _emit_record(body, schema, wanted.fields, variables)
    _emit_frame(source, body, columns, variables)
    text = "\n".join(source.lines)
    names: dict[str, Any] = {"rest": decode_rest, "length": decode_rest_of_length, "seek": _seek, "Torn": TornDataError}
    names |= {"tells_its_size": tells_its_size, "bisect": bisect_left, "varint_ends": _varint_ends, "raw": decode_raw}
    names |= {
        "StructError": struct.error,
        "unpack_float": struct.Struct("<f").unpack_from,
        "unpack_double": struct.Struct("<d").unpack_from,
    }
    names |= source.constants
    # The text is made of constants of this package and of numbers; names and other text out of the file stand in `constants`, never in the code.
    exec(compile(text, "<avro program>", "exec"), names)  # noqa: S102
    return Program(names["run"], columns, text)


def _emit_frame(source: Source, body: Source, columns: tuple[str, ...], variables: dict[str, str]) -> None:
    with source.block("def run(buf, blocks, appends, base):"):
        source.line("startswith = buf.startswith")
        source.line("ends = None")
        source.line("p = g = h = 0")
        for state in body.states:
            source.line(state)
        for index in range(len(columns)):
            source.line(f"a{index} = appends[{index}]")
        with source.block("try:"), source.block("for count, end in blocks:"):
            source.line("left = end - p")  # how many items the arrays of the block may claim
            with source.block("for _ in range(count):"):
                source.lines += body.lines
                for index, column in enumerate(columns):
                    source.line(f"a{index}({variables[column]})")
                if not columns:
                    source.line("pass")
            with source.block("if p != end:"):
                source.line("raise Torn(p, f'the records of a block end at {p - end:+d} bytes from its end')")
        with source.block("except (IndexError, StructError):"):
            source.line("raise Torn(p, 'the bytes end inside a record') from None")


def _emit_record(source: Source, record: AvroType, wanted: tuple[WantedField, ...], variables: dict[str, str]) -> None:
    """All of a record's fields in the writer's order; wanted fields that it lacks become None."""
    chosen = matched_fields(record, wanted)
    for want in wanted:
        if want not in chosen.values():
            _emit_none(source, want.shape, variables)
    for index, field in enumerate(record["fields"]):
        want_here = chosen.get(index)
        if want_here is None:
            emit_skip(source, field["type"])
        else:
            try:
                _emit_shape(source, field["type"], want_here.shape, variables)
            except ValueError as error:
                raise ValueError(f"{field.get('name')}: {error}") from error


def _emit_none(source: Source, shape: Shape, variables: dict[str, str]) -> None:
    for column in columns_of(shape):
        source.line(f"{variables[column]} = None")


def _emit_shape(source: Source, kind: AvroType, shape: Shape, variables: dict[str, str]) -> None:
    if isinstance(shape, Span):
        start, stop = (variables[column] for column in span_columns(shape))
        source.line(f"{start} = base + p")
        _emit_shape(source, kind, shape.shape, variables)
        source.line(f"{stop} = base + p")
    elif isinstance(shape, Value | Numbers) and shape.repeats:
        _emit_remembered(source, kind, shape, variables)
    elif kind_of(kind) == "union":
        _emit_union(source, kind, shape, variables)
    elif isinstance(shape, Value):
        _emit_value(source, kind, variables[shape.column])
    elif isinstance(shape, Struct):
        if kind_of(kind) != "record":
            raise ValueError(f"a record is wanted, the writer has {kind_of(kind)}")
        _emit_record(source, kind, shape.fields, variables)
    elif kind_of(kind) == "null":
        _emit_none(source, shape, variables)
    elif kind_of(kind) != "array":
        raise ValueError(f"an array is wanted, the writer has {kind_of(kind)}")
    elif isinstance(shape, Numbers):
        _emit_numbers(source, kind, variables[shape.column])
    elif isinstance(shape, Rows):
        _emit_rows(source, kind, shape, variables[shape.column])
    elif isinstance(shape, IdMap):
        _emit_id_map(source, kind, variables[shape.column])
    else:
        _emit_slots(source, kind, shape, variables)


def _emit_remembered(source: Source, kind: AvroType, shape: Value | Numbers, variables: dict[str, str]) -> None:
    """Compares the bytes with those of the record before: an encoded value is never the beginning of another one's."""
    name = variables[shape.column]
    last, size = source.state("m", "b'\\xff' * 11"), source.state("l", "0")
    kept, start = source.state("y", "None"), source.fresh("s")
    with source.block(f"if startswith({last}, p):"):
        source.line(f"p += {size}; {name} = {kept}")
    with source.block("else:"):
        source.line(f"{start} = p")
        _emit_shape(source, kind, replace(shape, repeats=False), variables)
        # Bytes past the end come out short here, which would be remembered wrongly; the block's end check then refuses all of it.
        source.line(f"{last} = buf[{start}:p]; {size} = p - {start}; {kept} = {name}")


def _emit_union(source: Source, kind: AvroType, shape: Shape, variables: dict[str, str]) -> None:
    branches = [branch for branch in kind if branch != "null"]
    if len(branches) > 1:
        raise ValueError("a union of several types cannot stand for one value")
    source.line("u = buf[p]; p += 1")
    for index, branch in enumerate(kind):
        with source.block(f"{'elif' if index else 'if'} u == {index << 1}:"):
            if branch == "null":
                _emit_none(source, shape, variables)
            else:
                _emit_shape(source, branch, shape, variables)
            source.line("pass")
    with source.block("else:"):
        source.line("raise Torn(p, 'a union has no such branch')")


def _emit_value(source: Source, kind: AvroType, name: str) -> None:
    form = kind_of(kind)
    if form in NUMBERS:
        source.read_raw("v")
        source.line(f"{name} = (v >> 1) ^ -(v & 1)")
    elif form in _BYTES:
        source.read_raw("v")
        with source.block("if v & 1:"):
            source.line("raise Torn(p, 'a length is negative')")
        source.line(f"q = p + (v >> 1); {name} = buf[p:q]; p = q")
    elif form == "fixed":
        source.line(f"q = p + {int(kind['size'])}; {name} = buf[p:q]; p = q")
    elif form == "boolean":
        source.line(f"{name} = buf[p] == 1; p += 1")
    elif form in ("float", "double"):
        source.line(f"{name} = unpack_{form}(buf, p)[0]; p += {4 if form == 'float' else 8}")
    elif form == "null":
        source.line(f"{name} = None")
    else:
        raise ValueError(f"a primitive is wanted, the writer has {form}")


def _emit_claim(source: Source, count: str) -> None:
    """Hold the items that an array claims, which may take no bytes, against those that the block's arrays may still claim."""
    with source.block(f"if {count} > left:"):
        source.line("raise Torn(p, 'the arrays of a block claim more items than there are bytes')")
    source.line(f"left -= {count}")


def _emit_numbers(source: Source, kind: AvroType, name: str) -> None:
    if kind_of(kind["items"]) not in NUMBERS:
        raise ValueError(f"an array of numbers is wanted, the writer has one of {kind_of(kind['items'])}")
    found = source.fresh("f")
    source.line(f"{found} = []")
    with emit_items(source) as count:
        _emit_claim(source, count)
        with source.block(f"for _ in range({count}):"):
            source.read_raw("v")
            source.line(f"{found}.append((v >> 1) ^ -(v & 1))")
    source.line(f"{name} = tuple({found})")


def _emit_rows(source: Source, kind: AvroType, shape: Rows, name: str) -> None:
    if kind_of(kind["items"]) != "record":
        raise ValueError(f"an array of records is wanted, the writer has one of {kind_of(kind['items'])}")
    inner = {column: source.fresh("r") for column in columns_of(Struct(shape.fields))}
    found = source.fresh("f")
    source.line(f"{found} = []")
    with emit_items(source) as count:
        _emit_claim(source, count)
        with source.block(f"for _ in range({count}):"):
            _emit_record(source, kind["items"], shape.fields, inner)
            source.line(f"{found}.append(({''.join(f'{name}, ' for name in inner.values())}))")
    source.line(f"{name} = tuple({found})")


def _pair_value(kind: AvroType) -> str:
    value = pair_value(kind)
    if value is None:
        raise ValueError("a map from field id to number or bytes is wanted, the writer has an array of something else")
    return value


def _emit_id_map(source: Source, kind: AvroType, name: str) -> None:
    value = _pair_value(kind)
    found = source.fresh("f")
    source.line(f"{found} = {{}}")
    with emit_items(source) as count:
        _emit_claim(source, count)
        with source.block(f"for _ in range({count}):"):
            source.read_key("k")
            if value == "number":
                source.read_raw("v")
                source.line(f"{found}[(k >> 1) ^ -(k & 1)] = (v >> 1) ^ -(v & 1)")
            else:
                source.read_length("v")
                source.line(f"q = p + (v >> 1); {found}[(k >> 1) ^ -(k & 1)] = buf[p:q]; p = q")
    source.line(f"{name} = {found}")


def _emit_slots(source: Source, kind: AvroType, shape: Slots, variables: dict[str, str]) -> None:
    value = _pair_value(kind)
    if not shape.columns:
        emit_skip(source, kind)
        return
    if value == "number":
        _emit_none(source, shape, variables)
        with emit_items(source) as count:
            _emit_number_slots(source, shape, variables, count)
        return
    with emit_known_layout(source, tuple((field_id, variables[column]) for field_id, column in shape.columns)):
        _emit_none(source, shape, variables)
        with emit_items(source) as count:
            _emit_bytes_slots(source, shape, variables, count)


def _emit_number_slots(source: Source, shape: Slots, variables: dict[str, str], count: str) -> None:
    """Every pair is two varints, so pair j is found in one step; a writer keeps its order, so the place in the record before is tried first."""
    source.locate()
    for field_id, column in shape.columns:
        key, place = source.constant(encode_long(field_id)), source.state("j", "0")
        with source.block(f"if {place} >= {count} or not startswith({key}, ends[h + 2 * {place} - 1] + 1):"):
            source.line(f"{place} = seek(buf, ends, h, {count}, {key})")
        with source.block(f"if {place} < {count}:"):
            source.line(f"q = ends[h + 2 * {place}] + 1")
            source.read_raw("v", "q")
            source.line(f"{variables[column]} = (v >> 1) ^ -(v & 1)")
    source.hop(f"2 * {count}")


def _varint_ends(buf: bytes) -> memoryview:
    """Where every would-be varint ends, in order."""
    return np.flatnonzero(np.frombuffer(buf, dtype=np.uint8) < 128).data


def _seek(buf: bytes, ends: Any, first: int, count: int, key: bytes) -> int:
    """Which of `count` pairs of varints has this key; `count` where none has."""
    if buf.find(key, ends[first - 1] + 1, ends[first + 2 * count - 1]) < 0:
        return count
    for index in range(count):
        if buf.startswith(key, ends[first + 2 * index - 1] + 1):
            return index
    return count


def _emit_bytes_slots(source: Source, shape: Slots, variables: dict[str, str], count: str) -> None:
    """Walks the pairs, by one test where key and length take a byte each, up to the last wanted one if the run's size is known."""
    wanted = source.constant(frozenset(field_id << 1 for field_id, _ in shape.columns))
    source.line("found = {}")
    with source.block(f"for _ in range({count}):"):
        source.line("k = buf[p]; v = buf[p + 1]; q = p + 2")
        with source.block("if k > 127 or v & 129:"):
            source.line("k, q = raw(buf, p); v, q = raw(buf, q)")
            with source.block("if v & 1:"):
                source.line("raise Torn(q, 'a length is negative')")
        source.line("p = q + (v >> 1)")
        with source.block(f"if k in {wanted}:"):
            source.line("found[k] = buf[q:p]")
            with source.block(f"if stop and len(found) == {len(shape.columns)}:"):
                source.line("p = stop; break")
    with source.block("if found:"):
        for field_id, column in shape.columns:
            source.line(f"{variables[column]} = found.get({field_id << 1}, {variables[column]})")
