"""Decode steps: integers, compiled from a writer's schema and a projection, that the compiled reader executes; and the Arrow types of the projected columns.

`enum Step` in `native/read.c` documents the steps and their operands. Without the compiled reader, `fastavro_reader.py` reads columns of the same types. Spec:
Apache Avro, Binary Encoding; Appendix A, Avro.
"""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any

import pyarrow as pa

from icefloe.errors import in_one_line
from icefloe.spec.avro.avro_schema import NUMBERS, AvroType, has_nullable_pairs, item_type, kind_of, pair_value, parse_schema, varint_count
from icefloe.spec.avro.projection_tree import (
    FieldSpan,
    IdMap,
    Numbers,
    ProjectedField,
    Rows,
    Shape,
    Slots,
    Struct,
    Value,
    columns_of,
    matched_fields,
    span_columns,
)

_BYTES = frozenset({"bytes", "string"})
_WIDTHS = {"boolean": 1, "float": 4, "double": 8}
# The greatest length of a field name in an error message, because a file can contain names of any length.
_NAME_LENGTH = 100
_WIDE_TYPES = {"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64()}


class Step(IntEnum):
    """The opcodes of the compiled reader: `enum Step` of native/read.c."""

    SKIP_VARINTS = 1
    SKIP_BYTES = 2
    SKIP_WIDTH = 3
    SKIP_ITEMS = 4
    SKIP_VARINT_ITEMS = 5
    UNION = 6
    NOTHING = 7
    NUMBER = 8
    BYTES = 9
    WIDTH = 10
    LIST = 11
    NUMBER_SLOTS = 12
    BYTES_SLOTS = 13
    MARK = 14


class Form(IntEnum):
    """How the compiled reader stores the values of a column: `Form` of native/read.c."""

    NUMBERS = 0
    BYTES = 1
    WIDTH = 2
    LISTS = 3


@dataclass(frozen=True, slots=True)
class ProjectedColumn:
    """The way to build the Arrow array of one projected column from the columns that the compiled reader returns.

    Attributes:
        column: The number of the reader's column that has the values, or for a list the lengths; -1 if the writer does not have the field.
        kind: The Arrow type; null if the writer does not have the field.
        parts: The columns of a list's items: one of numbers, the key and the value of a map, or the fields of records. Empty for other types.
    """

    column: int
    kind: Any
    parts: "tuple[ProjectedColumn, ...]" = ()


ABSENT = ProjectedColumn(-1, pa.null())


@dataclass(frozen=True, slots=True)
class Steps:
    """The result of compiling a projection for a writer's schema: steps with which the compiled reader decodes a record, and the columns that they fill.

    Attributes:
        code: the steps, as int32.
        columns: for each column of the reader its `Form` and its width, as int32.
        most_slots: the greatest number of values that are read of a map of `Slots`.
        projected: the projected columns by name.
        fields: the number of the first step of each field, in order, with the dotted name of the field.
        is_native: whether the compiled reader can run the steps. It cannot read slots of maps if the schema allows null for their keys or values.
    """

    code: bytes
    columns: bytes
    most_slots: int
    projected: dict[str, ProjectedColumn]
    fields: tuple[tuple[int, str], ...]
    is_native: bool = True

    def field_at(self, step: int) -> str | None:
        """Return the dotted name of the field that the step number `step` decodes, for errors; None for -1, which is no step."""
        index = bisect_right(self.fields, step, key=lambda field: field[0]) - 1
        return self.fields[index][1] if index >= 0 else None


class _FieldStart(int):
    """The first integer of a field's steps. It has the field's dotted name too, for `Steps.fields`."""

    name: str


@lru_cache(maxsize=128)
def compile_steps(schema_text: bytes, projection: Struct) -> Steps:
    """Compile the steps for a writer's schema; the result is cached for other files with the same schema.

    Raises:
        ValueError, TypeError, RecursionError: the schema cannot be read, lacks a required field, or has a wrong type for a projected field.
        OverflowError: a size or an id in the schema does not fit 32 bits.
    """
    schema = parse_schema(schema_text, "manifest_schema_types")
    if kind_of(schema) != "record":
        raise ValueError(f"avro.schema declares {kind_of(schema)}, not a record")
    compiler = _Compiler()
    code = compiler.record(schema, projection.fields)
    columns = {name: compiler.projected.get(name, ABSENT) for name in columns_of(projection)}
    fields = tuple((index, number.name) for index, number in enumerate(code) if isinstance(number, _FieldStart))
    return Steps(
        array("i", code).tobytes(), array("i", compiler.columns).tobytes(), compiler.most_slots, columns, fields, compiler.is_native
    )


def _of_field(code: list[int], name: object) -> list[int]:
    """Return the steps of a field with its name at their first integer. The names of fields inside it become dotted names that begin with it."""
    shown = in_one_line(str(name)[:_NAME_LENGTH])
    named: list[int] = []
    for index, number in enumerate(code):
        if isinstance(number, _FieldStart) or not index:
            start = _FieldStart(number)
            start.name = f"{shown}.{number.name}" if isinstance(number, _FieldStart) else shown
            named.append(start)
        else:
            named.append(number)
    return named


@dataclass(slots=True)
class _Compiler:
    """The compiler of decode steps. It numbers the reader's columns in the order of the writer's fields."""

    columns: list[int] = field(default_factory=list)
    projected: dict[str, ProjectedColumn] = field(default_factory=dict)
    most_slots: int = 0
    is_native: bool = True

    def record(self, record: AvroType, fields: tuple[ProjectedField, ...]) -> list[int]:
        """Return the steps that decode or skip each field of a record. A projected field that the record lacks gets no column."""
        matched = matched_fields(record, fields)
        code: list[int] = []
        for index, part in enumerate(record["fields"]):
            match = matched.get(index)
            try:
                code += _of_field(skipping(part["type"]) if match is None else self.shape(part["type"], match.shape), part.get("name"))
            except ValueError as error:
                raise ValueError(f"{part.get('name')}: {error}") from error
        return code

    def shape(self, kind: AvroType, shape: Shape) -> list[int]:
        """Return the steps that decode one value into the columns that its shape defines."""
        form = kind_of(kind)
        if isinstance(shape, FieldSpan):
            start, stop = (self._leaf(Form.NUMBERS, pa.int64(), 8) for _ in range(2))
            self.projected |= dict(zip(span_columns(shape), (start, stop), strict=True))
            return [Step.MARK, start.column, *self.shape(kind, shape.shape), Step.MARK, stop.column]
        if form == "union":
            return self._union(kind, shape)
        if isinstance(shape, Value):
            return self._value(kind, shape.column)
        if isinstance(shape, Struct):
            if form != "record":
                raise ValueError(f"expected a record, the writer has {form}")
            return self.record(kind, shape.fields)
        if form == "null":
            return []
        if form != "array":
            raise ValueError(f"expected an array, the writer has {form}")
        if isinstance(shape, Slots):
            return self._slots(kind, shape)
        return self._list(kind, shape)

    def _column(self, form: Form, width: int = 0) -> int:
        self.columns += (form, width)
        return len(self.columns) // 2 - 1

    def _union(self, kind: AvroType, shape: Shape) -> list[int]:
        inner = [branch for branch in kind if branch != "null"]
        if len(inner) > 1:
            raise ValueError("a union of several types is not supported")
        value = self.shape(inner[0], shape) if inner else []
        # A null list adds no items to the columns of the items.
        columns = [self.projected[name].column for name in columns_of(shape) if name in self.projected]
        null: list[int] = [part for column in columns for part in (Step.NOTHING, column)]
        return _branches([null if branch == "null" else value for branch in kind])

    def _leaf(self, form: Form, kind: Any, width: int = 0) -> ProjectedColumn:
        return ProjectedColumn(self._column(form, width), kind)

    def _value(self, kind: AvroType, name: str) -> list[int]:
        form = kind_of(kind)
        if form == "null":
            return []
        if form in NUMBERS:
            leaf = self.projected[name] = self._leaf(Form.NUMBERS, pa.int64(), 8)
            return [Step.NUMBER, leaf.column]
        if form in _BYTES:
            leaf = self.projected[name] = self._leaf(Form.BYTES, pa.binary())
            return [Step.BYTES, leaf.column]
        if form in _WIDTHS or form == "fixed":
            width = _width(kind)
            leaf = self.projected[name] = self._leaf(Form.WIDTH, _WIDE_TYPES.get(form) or pa.binary(width), width)
            return [Step.WIDTH, leaf.column, width]
        raise ValueError(f"expected a primitive, the writer has {form}")

    def _list(self, kind: AvroType, shape: Numbers | IdMap | Rows) -> list[int]:
        column = self._column(Form.LISTS)
        if isinstance(shape, Numbers):
            if kind_of(item_type(kind["items"])) not in NUMBERS:
                raise ValueError(f"expected an array of numbers, the writer has one of {kind_of(kind['items'])}")
            item = self._leaf(Form.NUMBERS, pa.int64(), 8)
            code = _present(kind["items"], [Step.NUMBER, item.column])
            projected = ProjectedColumn(column, pa.list_(pa.int64()), (item,))
        elif isinstance(shape, IdMap):
            number = _pair_value(kind) == "number"
            key = self._leaf(Form.NUMBERS, pa.int64(), 8)
            value = self._leaf(Form.NUMBERS, pa.int64(), 8) if number else self._leaf(Form.BYTES, pa.binary())
            pair = item_type(kind["items"])
            steps = ([Step.NUMBER, key.column], [Step.NUMBER if number else Step.BYTES, value.column])
            parts = zip(pair["fields"], steps, strict=True)
            code = _present(kind["items"], [number for part, step in parts for number in _present(part["type"], step)])
            projected = ProjectedColumn(column, pa.map_(key.kind, value.kind), (key, value))
        else:
            code, projected = self._rows(kind, shape, column)
        self.projected[shape.column] = projected
        return [Step.LIST, column, len(code), *code]

    def _rows(self, kind: AvroType, shape: Rows, column: int) -> tuple[list[int], ProjectedColumn]:
        items = item_type(kind["items"])
        if kind_of(items) != "record":
            raise ValueError(f"expected an array of records, the writer has one of {kind_of(kind['items'])}")
        inner = _Compiler(self.columns)  # names of columns in records of a list are separate from those outside
        code = _present(kind["items"], inner.record(items, shape.fields))
        self.is_native = self.is_native and inner.is_native
        self.most_slots = max(self.most_slots, inner.most_slots)
        names = columns_of(Struct(shape.fields))
        parts = tuple(inner.projected.get(name, ABSENT) for name in names)
        return code, ProjectedColumn(
            column, pa.list_(pa.struct([(name, part.kind) for name, part in zip(names, parts, strict=True)])), parts
        )

    def _slots(self, kind: AvroType, shape: Slots) -> list[int]:
        number = _pair_value(kind) == "number"
        if not shape.columns:
            return skipping(kind)
        self.is_native = self.is_native and not has_nullable_pairs(kind)
        code: list[int] = []
        for field_id, name in sorted(shape.columns):
            leaf = self._leaf(Form.NUMBERS, pa.int64(), 8) if number else self._leaf(Form.BYTES, pa.binary())
            self.projected[name] = leaf
            code += (field_id, leaf.column)
        self.most_slots = max(self.most_slots, len(shape.columns))
        return [Step.NUMBER_SLOTS if number else Step.BYTES_SLOTS, len(shape.columns), *code]


def _pair_value(kind: AvroType) -> str:
    value = pair_value(kind)
    if value is None:
        raise ValueError("expected a map from field id to number or bytes, the writer has an array of another type")
    return value


def _width(kind: AvroType) -> int:
    form = kind_of(kind)
    return int(kind["size"]) if form == "fixed" else _WIDTHS[form]


def _present(kind: AvroType, code: list[int]) -> list[int]:
    """Return the steps of an item, key or value for which the schema allows null. A null in the data is refused, like a branch that the union does not have."""
    if kind_of(kind) != "union":
        return code
    return _branches([[Step.UNION, 0] if branch == "null" else code for branch in kind])


def _branches(branches: list[list[int]]) -> list[int]:
    return [Step.UNION, len(branches), *map(len, branches), *(part for branch in branches for part in branch)]


def skipping(kind: AvroType) -> list[int]:
    """Return the steps that skip one value. Raises `ValueError` for a type that Avro does not have."""
    form = kind_of(kind)
    varints = varint_count(kind)
    if varints is not None:
        return [Step.SKIP_VARINTS, varints] if varints else []
    if form in _BYTES:
        return [Step.SKIP_BYTES]
    if form == "null":
        return []
    if form in _WIDTHS or form == "fixed":
        width = _width(kind)
        return [Step.SKIP_WIDTH, width] if width else []
    if form == "record":
        return [number for part in kind["fields"] for number in skipping(part["type"])]
    if form == "union":
        return _branches([skipping(branch) for branch in kind])
    if form in ("array", "map"):
        return _skipping_items((kind["items"],) if form == "array" else ("string", kind["values"]))
    raise ValueError(f"{form!r} is not an Avro type")


def _skipping_items(parts: tuple[AvroType, ...]) -> list[int]:
    counts = [varint_count(part) for part in parts]
    varints = 0 if None in counts else sum(count for count in counts if count is not None)
    if varints:
        return [Step.SKIP_VARINT_ITEMS, varints]
    code = [number for part in parts for number in skipping(part)]
    return [Step.SKIP_ITEMS, len(code), *code]
