"""Infers the common type of all JSON values of a field, and converts JSON values to Arrow arrays of a type."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from icefloe.errors import InvalidInputError, UnsupportedTypeError
from icefloe.loading.json_records import ExactNumber, json_text
from icefloe.loading.text_types import TIMESTAMPS, TextTypes, from_text, type_with_article
from icefloe.spec.schema.arrow_types import field_to_arrow, type_to_arrow
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
)

# Values at a greater depth are loaded as JSON text, because a table's types may be nested only 30 levels deep.
MAX_DEPTH: Final = 24
# The most different fields that all objects may have in total, including nested fields.
MAX_FIELDS: Final = 10_000
_MAX_LONG, _MAX_INT = 2**63, 2**31
_MOST_DIGITS: Final = 10**38
_MOST_FLOAT: Final = 10**308

Reject = Callable[[int, str], None]


# ---- inference ----


class JsonTypes:
    """Infers the type of a JSON field from all its values: `observe` adds values, `common_type` returns the type.

    One object at the top level observes whole rows, and returns their fields from `columns`.
    """

    def __init__(self, depth: int = 0, counter: list[int] | None = None) -> None:
        self._depth = depth
        self._field_count = [0] if counter is None else counter
        self._kinds: set[type] = set()
        self._has_big = self._has_huge = False
        self._texts = TextTypes(TIMESTAMPS)
        self._fields: dict[str, JsonTypes] = {}
        self._element: JsonTypes | None = None

    def observe(self, values: Sequence[Any]) -> None:
        """Add the types of further values of the field. At the top level, the values are objects, one for each row.

        Raises:
            InvalidInputError: All objects together have more than `MAX_FIELDS` different fields.
        """
        kinds = set(map(type, values))
        kinds.discard(type(None))
        self._kinds |= kinds
        if int in kinds:
            numbers = [value for value in values if type(value) is int]
            extreme = max(abs(min(numbers)), abs(max(numbers)))
            self._has_big |= extreme >= _MAX_LONG
            self._has_huge |= extreme >= _MOST_DIGITS
        if str in kinds and not self._texts.is_decided:
            self._texts.observe(pa.array([value for value in values if type(value) is str], pa.string()))
        if self._depth >= MAX_DEPTH:
            return
        if dict in kinds:
            self._observe_fields([value for value in values if type(value) is dict])
        if list in kinds:
            self._element = self._element or JsonTypes(self._depth + 1, self._field_count)
            self._element.observe([item for value in values if type(value) is list for item in value])

    def _observe_fields(self, objects: Sequence[dict[str, Any]]) -> None:
        by_name: dict[str, list[Any]] = {}
        for value in objects:
            for name, member in value.items():
                by_name.setdefault(name, []).append(member)
        for name, members in by_name.items():
            if name not in self._fields:
                self._field_count[0] += 1
                if self._field_count[0] > MAX_FIELDS:
                    raise InvalidInputError(
                        f"the objects have more than {MAX_FIELDS:,} different fields",
                        next_step="state the columns with --schema; names that are values belong in a column of type map<string, ...>",
                    )
                self._fields[name] = JsonTypes(self._depth + 1, self._field_count)
            self._fields[name].observe(members)

    def columns(self) -> list[NestedField]:
        """Return the fields of the observed objects with their types, in the order in which they first occurred. Their ids are placeholders."""
        return [NestedField(number, name, types.common_type()) for number, (name, types) in enumerate(self._fields.items(), start=1)]

    def common_type(self) -> IcebergType:
        """Return the common type of all observed values. It is string if they have no common type; values that are not strings are then loaded as JSON text."""
        kinds = self._kinds
        if self._depth < MAX_DEPTH:
            if kinds == {dict} and self._fields:
                return StructType(*self.columns())
            if kinds == {list} and self._element is not None:
                return ListType(element_id=0, element=self._element.common_type(), element_required=False)
        if kinds == {bool}:
            return BooleanType()
        if kinds == {int}:
            if self._has_huge:
                return StringType()
            return DecimalType(38, 0) if self._has_big else LongType()
        if kinds and kinds <= {int, float}:
            return DoubleType()
        return self._texts.narrowest_type() if kinds == {str} else StringType()


# ---- conversion ----


def column_of(values: list[Any], field: NestedField, reject: Reject) -> pa.Array:
    """Convert the values of a column to an Arrow array of its type.

    Args:
        values: The parsed JSON value of each row; None if the object does not have the field.
        field: The column, whose type the values are converted to.
        reject: Called with the index of each row whose value does not fit, and the reason. The value becomes null in the array.
    """
    return _array(values, field.field_type, field.required, range(len(values)), reject)


def _array(values: list[Any], kind: IcebergType, required: bool, rows: Sequence[int], reject: Reject) -> pa.Array:
    if required:
        for row, value in zip(rows, values, strict=True):
            if value is None:
                reject(row, "has no value, and the column is required")
    if isinstance(kind, StructType):
        return _struct(values, kind, rows, reject)
    if isinstance(kind, ListType):
        return _list(values, kind, rows, reject)
    if isinstance(kind, MapType):
        return _map(values, kind, rows, reject)
    if isinstance(kind, PrimitiveType):
        return _primitives(values, kind, rows, reject)
    raise UnsupportedTypeError(f"JSON cannot be loaded into a column of type {kind}", next_step="load it as string")


def _of_type(values: list[Any], python: type, kind: str, rows: Sequence[int], reject: Reject) -> list[Any]:
    """Return the values, but None for each value that is not an instance of the Python type. `reject` is called for such values; `kind` is in the reason."""
    if not set(map(type, values)) - {python, type(None)}:
        return values
    members: list[Any] = []
    for row, value in zip(rows, values, strict=True):
        if value is not None and type(value) is not python:
            reject(row, f"is not {kind}")
            value = None  # noqa: PLW2901
        members.append(value)
    return members


def _struct(values: list[Any], kind: StructType, rows: Sequence[int], reject: Reject) -> pa.Array:
    objects = _of_type(values, dict, "an object", rows, reject)
    present = [number for number, value in enumerate(objects) if value is not None]
    inner_rows = [rows[number] for number in present]
    children = []
    positions: Any = None
    if len(present) < len(objects):
        spread = np.full(len(objects), -1)
        spread[present] = np.arange(len(present))
        positions = pa.array(spread, pa.int64(), mask=spread < 0)
    for field in kind.fields:
        child = _array([objects[number].get(field.name) for number in present], field.field_type, field.required, inner_rows, reject)
        children.append(child if positions is None else child.take(positions))
    mask = pa.array([value is None for value in objects], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=[field_to_arrow(field).with_nullable(True) for field in kind.fields], mask=mask)


def _list(values: list[Any], kind: ListType, rows: Sequence[int], reject: Reject) -> pa.Array:
    lists = _of_type(values, list, "an array", rows, reject)
    items = [item for value in lists if value for item in value]
    item_rows = [row for row, value in zip(rows, lists, strict=True) if value for _ in value]
    elements = _array(items, kind.element, kind.element_required, item_rows, reject)
    return pa.ListArray.from_arrays(_offsets(_lengths(lists)), elements, mask=pa.array([value is None for value in lists], pa.bool_()))


def _map(values: list[Any], kind: MapType, rows: Sequence[int], reject: Reject) -> pa.Array:
    objects = _of_type(values, dict, "an object", rows, reject)
    entry_rows = [row for row, value in zip(rows, objects, strict=True) if value for _ in value]
    counts = _lengths(objects)
    owners = np.repeat(np.arange(len(objects)), counts)
    keys = _keys([key for value in objects if value for key in value], kind.key_type, owners, entry_rows, reject)
    items = _array(
        [item for value in objects if value for item in value.values()], kind.value_type, kind.value_required, entry_rows, reject
    )
    if keys.null_count:
        # Arrow allows no key that is null. The rows of these keys were rejected; the other maps of the block stay as they are.
        is_valid = keys.is_valid()
        keys, items = keys.filter(is_valid), items.filter(is_valid)
        counts = np.bincount(owners[is_valid.to_numpy(zero_copy_only=False)], minlength=len(objects))
    return pa.MapArray.from_arrays(_offsets(counts), keys, items, mask=pa.array([value is None for value in objects], pa.bool_()))


def _keys(texts: list[Any], kind: IcebergType, owners: Any, rows: Sequence[int], reject: Reject) -> pa.Array:
    """Convert the keys of maps. In JSON they are texts, whatever type the map has in the table.

    Args:
        texts: The keys of all maps.
        kind: The type of the keys in the table.
        owners: For each key, the number of its map.
        rows: For each key, the index of the row with its map.
        reject: Called with the index of each row that has a key which does not fit, is empty, or equals another key of its map; and with the reason. A key that
            does not fit or is empty becomes null; equal keys are both returned.
    """
    if isinstance(kind, StringType):
        return pa.array(texts, pa.string())
    if isinstance(kind, BooleanType | IntegerType | LongType | FloatType | DoubleType):
        keys, is_wrong = from_text(pa.array(texts, pa.string()), kind)
        for number in [] if is_wrong is None else np.flatnonzero(is_wrong):
            reject(rows[int(number)], f"has a key that is not {type_with_article(kind)}")
    else:
        keys = _array(texts, kind, False, rows, reject)
    seen = set()
    for owner, row, key in zip(owners.tolist(), rows, keys.to_pylist(), strict=True):
        if key is None:
            reject(row, "has an empty key")
        elif (owner, key) in seen:
            reject(row, f"has the key {key} twice")
        seen.add((owner, key))
    return keys


def _lengths(values: Sequence[Any]) -> Any:
    return np.fromiter((len(value) if value else 0 for value in values), np.int64, len(values))


def _offsets(lengths: Any) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _primitives(values: list[Any], kind: PrimitiveType, rows: Sequence[int], reject: Reject) -> pa.Array:
    target = type_to_arrow(kind)
    name = type_with_article(kind)
    if isinstance(kind, StringType):
        return _strings(values, rows, reject)
    if isinstance(kind, BooleanType):
        return pa.array(_of_type(values, bool, name, rows, reject), target)
    if isinstance(kind, IntegerType | LongType):
        limit = _MAX_INT if isinstance(kind, IntegerType) else _MAX_LONG
        whole = _of_type(values, int, name, rows, reject)
        try:
            return pa.array(whole, target)
        except (pa.ArrowInvalid, OverflowError):
            return pa.array(_check_values(whole, lambda value: -limit <= value < limit, name, rows, reject), target)
    if isinstance(kind, FloatType | DoubleType):
        return pa.array([None if value is None else float(value) for value in _check_values(values, _is_float, name, rows, reject)], target)
    if isinstance(kind, UnknownType):
        return pa.array(_check_values(values, lambda _: False, "null, and the column has no type yet", rows, reject), target)
    if isinstance(kind, DecimalType):
        numbers = _check_values(values, lambda value: type(value) in (int, float, str, ExactNumber), name, rows, reject)
        values = [None if value is None else value.text if type(value) is ExactNumber else str(value) for value in numbers]
    texts = _of_type(values, str, name, rows, reject)
    if isinstance(kind, BinaryType):
        return pa.array([None if value is None else _bytes(value, row, reject) for row, value in zip(rows, texts, strict=True)], target)
    converted, is_wrong = from_text(pa.array(texts, pa.string()), kind)
    for number in [] if is_wrong is None else np.flatnonzero(is_wrong):
        reject(rows[int(number)], f"is not {name}")
    return converted


def _check_values(values: list[Any], fits: Callable[[Any], bool], kind: str, rows: Sequence[int], reject: Reject) -> list[Any]:
    accepted: list[Any] = []
    for row, value in zip(rows, values, strict=True):
        if value is not None and not fits(value):
            reject(row, f"is not {kind}")
            value = None  # noqa: PLW2901
        accepted.append(value)
    return accepted


def _is_float(value: Any) -> bool:
    """Return whether a value is a number in the range of 64-bit floats; it may be rounded."""
    return type(value) in (float, ExactNumber) or (type(value) is int and abs(value) < _MOST_FLOAT)


def _strings(values: list[Any], rows: Sequence[int], reject: Reject) -> pa.Array:
    if set(map(type, values)) - {str, type(None)}:
        texts: list[str | None] = []
        for row, value in zip(rows, values, strict=True):
            try:
                texts.append(value if value is None or type(value) is str else json_text(value).decode())
            except RecursionError:
                reject(row, "is nested too deeply")
                texts.append(None)
        values = texts
    return pa.array(values, pa.string())


def _bytes(text: str, row: int, reject: Reject) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        reject(row, "is not binary in base64")
        return None
