"""Creates many objects of a slotted dataclass from columns, field by field, without a Python call for each value.

The compiled module sets slots from Arrow's buffers; without it, `map` calls the descriptors of the slots. No section of the specification is implemented here.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import pyarrow as pa

from icefloe.spec.avro import compiled_codec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Same:
    """A field that has the same value in all objects."""

    value: Any


# The values of a field: `Same`, a sequence with one value for each object, or a column of text or integers (a `pyarrow.Array` of string, int32 or int64).
Values = Same | list[Any] | Any


def objects(kind: type[T], values: Mapping[str, Values], count: int, *, by_compiled: bool = compiled_codec.AVAILABLE) -> list[T]:
    """Create `count` objects of a slotted, frozen dataclass from columns.

    A scan creates hundreds of thousands of objects. Setting one slot of all objects at once takes a twentieth of the time of `__init__`, and a sixth without
    the compiled module. Frozen objects cannot become part of a reference cycle later, so the compiled module removes them from the garbage collector's list.

    Args:
        kind: the dataclass.
        values: the values of every field, by name. Equal consecutive values can become the same object.
        count: the number of objects.
        by_compiled: whether the compiled module is used.

    Raises:
        ValueError: a field does not have `count` values.
    """
    slots = [(getattr(kind, field.name), values[field.name]) for field in fields(kind)]  # type: ignore[arg-type]  # typing has no type for dataclasses
    if by_compiled:
        columns = tuple((slot, _for_compiled(slot_values, count)) for slot, slot_values in slots)
        compiled: list[T] = compiled_codec.native().make_objects(kind, columns, count)
        return compiled
    created = [object.__new__(kind) for _ in range(count)]
    for slot, slot_values in slots:
        column = (
            [slot_values.value] * count
            if isinstance(slot_values, Same)
            else slot_values
            if isinstance(slot_values, list)
            else slot_values.to_pylist()
        )
        if len(column) != count:
            raise ValueError(f"a field has {len(column)} values for {count} objects")
        deque(map(slot.__set__, created, column), maxlen=0)
    return created


def _for_compiled(values: Values, count: int) -> Any:
    if isinstance(values, list):
        return values
    if isinstance(values, Same):
        return [values.value] * count if isinstance(values.value, list | tuple) else values.value
    buffers = values.buffers()
    if pa.types.is_string(values.type):
        return (len(values), values.offset, 0, buffers[0], buffers[1], buffers[2])
    return (len(values), values.offset, values.type.byte_width, buffers[0], None, buffers[1])
