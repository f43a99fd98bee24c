"""Conversion of Arrow arrays with dates and timestamps to Python values and to numbers, also for years that Python's classes do not support.

The format's dates are 32-bit numbers of days, while Python supports only the years 1 to 9999. For other years, Arrow's own text is wrong or missing (it uses 16
bits for the year), so `dates_and_times.py` formats them. Spec: Primitive Types.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.spec import dates_and_times as iso
from icefloe.spec.arrow_values import array_of_chunks

# From 0001-01-01 to 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": iso.MICROS_PER_DAY, "ns": iso.NANOS_PER_DAY}
_NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": iso.NANOS_PER_MICRO, "ns": 1}


def has_python_years(array: Any) -> bool:
    """Return True if every date and timestamp of an Arrow array, also inside structs, lists and maps, has a year from 1 to 9999."""
    return all(_is_within(leaf) for leaf in times_in(array_of_chunks(array)))


def as_numbers(array: Any) -> Any:
    """Convert the dates and timestamps of an Arrow array, also inside structs, lists and maps, to numbers of days or units since 1970."""
    kind = _number_type(array.type)
    return array if kind == array.type else array.cast(kind)


def python_list(array: Any) -> list[Any]:
    """Return the values of an Arrow array as `to_pylist` does. A date or timestamp outside of the years 1 to 9999 is returned as ISO 8601 text."""
    if has_python_years(array):
        values: list[Any] = array.to_pylist()
        return values
    return converted_list(array, _python_time)


def text_list(array: Any) -> list[Any]:
    """Return the values of an Arrow array as `to_pylist` does, with ISO 8601 text for every date and timestamp. Timestamps with a zone are in UTC."""
    return converted_list(array, _text)


def converted_list(array: Any, convert: Callable[[int, Any], Any]) -> list[Any]:
    """Return the values of an Arrow array as `to_pylist` does, with the result of `convert(number, type)` for every date and timestamp.

    `number` is the days or units since 1970.
    """
    return [_convert(number, array.type, convert) for number in as_numbers(array).to_pylist()]


def times_in(array: Any) -> Iterator[Any]:
    """Yield the arrays of dates and timestamps in an Arrow array: the array itself, or those inside its structs, lists and maps."""
    kind = array.type
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        yield array
    elif pa.types.is_struct(kind):
        for child in array.flatten():
            yield from times_in(child)
    elif pa.types.is_map(kind):
        entries = array.drop_null()
        if len(entries):  # a slice still contains all keys of the original array
            start, end = entries.offsets[0].as_py(), entries.offsets[len(entries)].as_py()
            yield from times_in(entries.keys[start:end])
            yield from times_in(entries.items[start:end])
    elif _is_list(kind):
        yield from times_in(array.flatten())


def _is_within(times: Any) -> bool:
    per_day = 1 if pa.types.is_date32(times.type) else _PER_DAY[times.type.unit]
    ends = pc.min_max(as_numbers(times))
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    return least is None or (least // per_day >= _FIRST_DAY and greatest // per_day <= _LAST_DAY)


def _number_type(kind: Any) -> Any:
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_number_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_number_type(kind.key_type)), kind.item_field.with_type(_number_type(kind.item_type)))
    if _is_list(kind):
        item = kind.value_field.with_type(_number_type(kind.value_type))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(item, kind.list_size)
        return pa.large_list(item) if pa.types.is_large_list(kind) else pa.list_(item)
    return kind


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _convert(value: Any, kind: Any, convert: Callable[[int, Any], Any]) -> Any:
    if value is None:
        return None
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return convert(value, kind)
    if isinstance(value, Mapping) and pa.types.is_struct(kind):
        return {field.name: _convert(value[field.name], field.type, convert) for field in kind}
    if pa.types.is_map(kind):
        return [(_convert(key, kind.key_type, convert), _convert(item, kind.item_type, convert)) for key, item in value]
    if _is_list(kind):
        return [_convert(item, kind.value_type, convert) for item in value]
    return value


def _python_time(number: int, kind: Any) -> Any:
    per_day = 1 if pa.types.is_date32(kind) else _PER_DAY[kind.unit]
    if _FIRST_DAY <= number // per_day <= _LAST_DAY:
        return pa.scalar(number, _number_type(kind)).cast(kind).as_py()
    return _text(number, kind)


def _text(number: int, kind: Any) -> str:
    if pa.types.is_date32(kind):
        return iso.format_iso_date(number)
    text = iso.format_timestamp(number * _NANOS[kind.unit], utc=False, nanos=True).replace("T", " ")
    return f"{text}Z" if kind.tz is not None else text
