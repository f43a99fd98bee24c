"""Conversion of pandas frames to Arrow tables, with the types of the table that they are written to.

pandas has fewer types than a table: integers with nulls are floats, fields of structs and items of lists are Python objects, and a map is a list of pairs. A
column is converted to the table's type if that changes no value. A column whose values would change is listed in an error. A column whose type is never
converted to the table's type, such as text for an int, keeps the type that Arrow infers, and `schema_cast.py` refuses it by name.
Spec: Schemas and Data Types; Primitive Types.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import MAXYEAR, MINYEAR, date, datetime, time
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import Problem, SchemaMismatchError
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import decoded_array
from icefloe.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

_INTEGERS, _FLOATS = (IntegerType, LongType), (FloatType, DoubleType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)
_FITS_INT64_DIGITS = 20
_MOST_DIGITS = 76  # the greatest number of digits of Arrow's decimal256
_NOT_CONVERTIBLE = (pa.ArrowException, OverflowError, TypeError, ValueError)
Problems = list[Problem]


def arrow_of_frame(frame: Any, schema: Schema | None = None, names: Collection[str] | None = None) -> pa.Table:
    """Return a pandas frame as an Arrow table. Named levels of the frame's index become the first columns of the table.

    Args:
        frame: The frame. NaN, NaT, None and `pandas.NA` are null.
        schema: The table's schema, whose types the columns are converted to; None for the types that Arrow infers.
        names: The names of the columns to return; None for all.

    Raises:
        SchemaMismatchError: An index level has the same name as a column with different values; the table has no column with the name of an index level; or
            values do not fit the type of the table's column. Every wrong column is listed.
    """
    problems: Problems = []
    fields = {} if schema is None else {field.name: field for field in schema.fields}
    arrays: list[tuple[str, pa.Array]] = []
    for name, series, is_index in _named_columns(frame, problems):
        if names is not None and name not in names:
            continue
        if schema is None:
            array = _infer_array(series, (name,), problems)
        elif name in fields:
            array = _column(series, fields[name].field_type, (name,), problems)
        else:
            if is_index:
                problems.append(Problem(where=name, what="is the index of the frame, and not a column of the table"))
            array = pa.nulls(len(series))  # a column that the table does not have is refused by its name, so its values are not converted
        arrays.append((name, array))
    if problems:
        raise SchemaMismatchError(
            "the rows do not fit the table",
            problems=problems,
            next_step="change these columns of the frame, such as with astype; an index that is not to be written is left out by frame.reset_index(drop=True)",
        )
    if not arrays:  # rows without columns: a table made this way keeps the number of rows
        return pa.table({"": pa.nulls(len(frame))}).select([])
    return pa.Table.from_arrays([array for _, array in arrays], names=[name for name, _ in arrays])


def _named_columns(frame: Any, problems: Problems) -> Iterator[tuple[str, Any, bool]]:
    """Yield the name, values and `is_index` of each named index level and each column. An index level that equals the column of its name is left out."""
    columns = {str(label): series for label, series in frame.items()}
    for position, label in enumerate(frame.index.names):
        if label is None:
            continue
        level = frame.index.get_level_values(position).to_series(index=range(len(frame)))
        name = str(label)
        if name not in columns:
            yield name, level, True
        elif not level.equals(columns[name].reset_index(drop=True)):
            problems.append(Problem(where=name, what="is the name of a column and of the index of the frame, whose values differ"))
    for label, series in frame.items():
        yield str(label), series, False


# ---- columns ----


def _column(series: Any, kind: IcebergType, path: tuple[str, ...], problems: Problems) -> pa.Array:
    if isinstance(kind, StructType | ListType | MapType) and _is_objects(series):
        return _nested_array(series.tolist(), kind, path, problems)
    return _exact_nested(_plain(series, kind, path, problems), kind, path, problems)


def _exact_nested(array: pa.Array, kind: IcebergType, path: tuple[str, ...], problems: Problems) -> pa.Array:
    """Convert an array and its nested arrays to a type. A nested array whose values would change is added to `problems`."""
    source = array.type
    if isinstance(kind, StructType) and pa.types.is_struct(source) and source.num_fields:
        inner = {field.name: field.field_type for field in kind.fields}
        parts = [
            _exact_nested(part, inner[field.name], (*path, field.name), problems) if field.name in inner else part
            for field, part in zip(source, array.flatten(), strict=True)  # flattening applies the nulls of the struct to its fields
        ]
        return pa.StructArray.from_arrays(parts, names=[field.name for field in source], mask=pc.is_null(array))
    if isinstance(kind, ListType) and (pa.types.is_list(source) or pa.types.is_large_list(source)):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        items = _exact_nested(array.flatten(), kind.element_type, (*path, "element"), problems)
        return pa.ListArray.from_arrays(pa.array([0, *accumulate(lengths)], pa.int32()), items, mask=pc.is_null(array))
    if isinstance(kind, MapType) and pa.types.is_map(source):
        maps = pa.concat_arrays([array])  # flattening leaves out values of rows outside of a slice
        keys = _exact_nested(maps.keys, kind.key_type, (*path, "key"), problems)
        items = _exact_nested(maps.items, kind.value_type, (*path, "value"), problems)
        return pa.MapArray.from_arrays(maps.offsets, keys, items, mask=pc.is_null(maps))
    return _exact(decoded_array(array) if pa.types.is_dictionary(source) else array, kind, path, problems)


def _nested_array(values: Sequence[Any], kind: IcebergType, path: tuple[str, ...], problems: Problems) -> pa.Array:
    """Convert a list of Python values, such as the items of list columns, to an array of a type. Values that do not fit are added to `problems`."""
    if not isinstance(kind, StructType | ListType | MapType):
        array = _exact(_plain(values, kind, path, problems), kind, path, problems)
        # Arrow's `to_pandas` converts timestamps with nanoseconds inside structs to numbers of nanoseconds.
        return array.cast(type_to_arrow(kind)) if isinstance(kind, _NANOS) and array.type == pa.int64() else array
    build = _BUILDERS[type(kind)]
    known = np.array([not _is_missing(value) for value in values], dtype=bool)
    try:
        return build(values, kind, known, path, problems) if known.any() else pa.nulls(len(values))
    except _NOT_CONVERTIBLE as error:
        return _refuse(values, path, problems, f"has values that do not fit {_word(kind)}: {error}")


def _struct(values: Sequence[Any], kind: StructType, known: Any, path: tuple[str, ...], problems: Problems) -> pa.Array:
    rows: list[Mapping[str, Any]] = [value if is_known else {} for value, is_known in zip(values, known, strict=True)]
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"{_value_text(row)} is not a dictionary")
    names = dict.fromkeys(name for row in rows for name in row)
    if not names:
        return pa.array([None if not is_known else {} for is_known in known], pa.struct([]))
    fields = {field.name: field for field in kind.fields}
    columns = []
    for name in names:
        column = [row.get(name) for row in rows]
        inner = fields.get(name)
        columns.append(pa.nulls(len(rows)) if inner is None else _nested_array(column, inner.field_type, (*path, name), problems))
    return pa.StructArray.from_arrays(columns, names=list(names), mask=pa.array(~known))


def _list(values: Sequence[Any], kind: ListType, known: Any, path: tuple[str, ...], problems: Problems) -> pa.Array:
    lists = [value if is_known else () for value, is_known in zip(values, known, strict=True)]
    for value in lists:
        if not isinstance(value, list | tuple | np.ndarray):
            raise TypeError(f"{_value_text(value)} is not a list")
    offsets = pa.array([0, *accumulate(map(len, lists))], pa.int32())
    items = _nested_array(_flat(lists), kind.element_type, (*path, "element"), problems)
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(~known))


def _map(values: Sequence[Any], kind: MapType, known: Any, path: tuple[str, ...], problems: Problems) -> pa.Array:
    """Convert Python values to an array of maps. Each value is a dictionary, or a list of pairs of key and item as Arrow's `to_pandas` returns it."""
    maps: list[Any] = [value if is_known else () for value, is_known in zip(values, known, strict=True)]
    pairs = [list(value.items()) if isinstance(value, Mapping) else list(value) for value in maps]
    keys, items = [], []
    for key, item in (pair for entries in pairs for pair in entries):
        keys.append(key)
        items.append(item)
    offsets = pa.array([0, *accumulate(map(len, pairs))], pa.int32())
    key_array = _nested_array(keys, kind.key_type, (*path, "key"), problems)
    item_array = _nested_array(items, kind.value_type, (*path, "value"), problems)
    return pa.MapArray.from_arrays(offsets, key_array, item_array, mask=pa.array(~known))


_BUILDERS: Mapping[type[IcebergType], Callable[..., pa.Array]] = {StructType: _struct, ListType: _list, MapType: _map}


def _flat(lists: Sequence[Any]) -> Any:
    """Concatenate lists. The result is a numpy array if all lists that are not empty are numpy arrays of the same type; else it is a list."""
    filled = [items for items in lists if len(items)]
    are_arrays = all(isinstance(items, np.ndarray) and items.ndim == 1 and items.dtype != object for items in filled)
    if are_arrays and len({items.dtype for items in filled}) == 1:
        return np.concatenate(filled)
    return [item for items in filled for item in items]


# ---- values ----


def _plain(values: Any, kind: IcebergType, path: tuple[str, ...], problems: Problems) -> pa.Array:
    """Return values as an array of the type that Arrow infers. Decimals get the table's type, because Arrow cannot infer a type for every mix of decimals."""
    if _is_objects(values) and all(map(_is_missing, values)):
        return pa.nulls(len(values))
    if isinstance(kind, DecimalType) and _is_objects(values):
        try:  # Arrow cannot infer a type for decimals together with ints, or for ints beyond 64 bits
            return pa.array(values, type_to_arrow(kind), from_pandas=True)
        except _NOT_CONVERTIBLE:
            pass  # the conversion below raises the error
    return _infer_array(values, path, problems)


def _infer_array(values: Any, path: tuple[str, ...], problems: Problems) -> pa.Array:
    pandas, kind = sys.modules["pandas"], getattr(values, "dtype", None)
    if isinstance(kind, pandas.PeriodDtype):  # Arrow would convert periods to their ordinal numbers
        return _refuse(values, path, problems, "has periods; to_timestamp makes times of them, and astype(str) texts")
    if isinstance(kind, pandas.SparseDtype):
        values = values.sparse.to_dense()
    try:
        array = pa.array(values, from_pandas=True)
    except _NOT_CONVERTIBLE as error:
        return _refuse(values, path, problems, f"has values of no single type: {error}")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_time(array.type) and _is_objects(values):
        zoned = next((value for value in values if isinstance(value, time) and value.tzinfo is not None), None)
        if zoned is not None:  # Arrow would drop the zone
            return _refuse(values, path, problems, f"has times of day with a zone, which a column cannot keep: {zoned}")
    mixed = _mixed_times(values) if pa.types.is_temporal(array.type) and _is_objects(values) else ""
    if mixed:  # Arrow infers the type from the first value, and would drop the time of day or the zone of others
        return _refuse(values, path, problems, mixed)
    if pa.types.is_temporal(array.type) and _is_objects(values) and any(map(_is_far, values)):
        try:  # Arrow would convert such timestamps to a wrong year
            array = _far_times(values, getattr(array.type, "tz", None))
        except OverflowError as error:
            return _refuse(values, path, problems, f"has times beyond 64 bits of microseconds: {error}")
    elif pa.types.is_timestamp(array.type) and _is_objects(values) and any(getattr(value, "nanosecond", 0) for value in values):
        # For Python objects Arrow infers microseconds, and would drop the nanoseconds of pandas' timestamps.
        array = pa.array(values, pa.timestamp("ns", array.type.tz), from_pandas=True)
    return decoded_array(array) if isinstance(array, pa.DictionaryArray) else array


def _exact(array: pa.Array, kind: IcebergType, path: tuple[str, ...], problems: Problems) -> pa.Array:
    """Convert an array to a primitive type. Values that would change are added to `problems`. A type that `_convert` does not convert is kept."""
    if array.null_count == len(array):
        return pa.nulls(len(array))  # the type that pandas chose for a column with only nulls does not matter
    if not isinstance(kind, PrimitiveType) or array.type == type_to_arrow(kind):
        return array
    try:
        return _convert(array, kind)
    except _NOT_CONVERTIBLE as error:
        problems.append(Problem(where=".".join(path), what=f"has values that do not fit {kind}: {error}"))
        return pa.nulls(len(array))


def _convert(array: pa.Array, kind: PrimitiveType) -> pa.Array:
    source, target = array.type, type_to_arrow(kind)
    is_integer, is_float = pa.types.is_integer(source), pa.types.is_floating(source)
    if isinstance(kind, _INTEGERS) and (is_integer or is_float):
        return array.cast(target)
    if isinstance(kind, _FLOATS) and is_integer:
        return array.cast(target)
    if isinstance(kind, _FLOATS) and is_float:
        return _round(array, target)
    if isinstance(kind, DecimalType) and is_integer:
        return array.cast(pa.decimal256(min(_FITS_INT64_DIGITS + kind.scale, _MOST_DIGITS), kind.scale)).cast(target)
    if isinstance(kind, DecimalType) and pa.types.is_decimal(source):
        return array.cast(target)
    if isinstance(kind, FixedType | UUIDType) and (pa.types.is_binary(source) or pa.types.is_large_binary(source)):
        return array.cast(pa.binary()).cast(target)
    if isinstance(kind, DateType) and pa.types.is_timestamp(source) and source.tz is None:
        return _dates(array)
    return array


def _round(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Round floats to the nearest floats of the target type. Raises `OverflowError` for a finite number beyond the range of the target type."""
    nearest = array.cast(target)
    overflows = pc.and_(pc.is_inf(nearest), pc.invert(pc.is_inf(array)))
    if pc.any(overflows).as_py():
        raise OverflowError(f"{array.filter(overflows)[0].as_py()} is beyond the greatest number of the type")
    return nearest


def _dates(times: pa.Array) -> pa.Array:
    """Convert timestamps at midnight to dates. Raises `ValueError` if a timestamp is not at midnight."""
    dates = times.cast(pa.date32())
    others = pc.not_equal(dates.cast(times.type), times)
    if pc.any(others).as_py():
        raise ValueError(f"{times.filter(others).cast(pa.string())[0].as_py()} is not midnight")
    return dates


def _is_objects(values: Any) -> bool:
    return isinstance(values, list) or bool(values.dtype == "object")


def _is_missing(value: Any) -> bool:
    pandas = sys.modules["pandas"]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or value is pandas.NA or value is pandas.NaT or (isinstance(value, float) and math.isnan(value))


def _is_far(value: Any) -> bool:
    """Return whether a value is a pandas timestamp with a year that Python's `datetime` does not support."""
    return isinstance(value, datetime) and not _is_missing(value) and not MINYEAR <= value.year <= MAXYEAR


def _far_times(values: Any, zone: str | None) -> pa.Array:
    """Convert dates and timestamps of any year to timestamps in microseconds. Raises `OverflowError` for a time beyond 64 bits of microseconds."""
    timestamp = sys.modules["pandas"].Timestamp
    times = [np.datetime64("NaT", "us") if _is_missing(value) else timestamp(value).to_datetime64() for value in values]
    micros = [time.astype("datetime64[us]") for time in times]
    beyond = next(
        (time for time, micro in zip(times, micros, strict=True) if micro.astype(time.dtype) != time and not np.isnat(time)), None
    )
    if beyond is not None:
        raise OverflowError(str(beyond))
    return pa.array(np.array(micros, "datetime64[us]")).cast(pa.timestamp("us", zone))


def _mixed_times(values: Any) -> str:
    """Return what is wrong if values mix dates with timestamps that are not midnight, or timestamps with and without a zone; else an empty text."""
    times = [value for value in values if isinstance(value, datetime) and not _is_missing(value)]
    if any(isinstance(value, date) and not isinstance(value, datetime) for value in values):
        others = [value for value in times if value.time() != time()]
        return f"has dates and times: {others[0]} is not a date" if others else ""
    return "has times with and without a zone" if len({value.tzinfo is None for value in times}) > 1 else ""


def _refuse(values: Sequence[Any], path: tuple[str, ...], problems: Problems, what: str) -> pa.Array:
    problems.append(Problem(where=".".join(path), what=what))
    return pa.nulls(len(values))


def _value_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _word(kind: IcebergType) -> str:
    return {StructType: "a struct", ListType: "a list", MapType: "a map"}.get(type(kind), str(kind))
