"""Preparation of the rows of an upsert: checks that the rows fit the table, and have all columns and distinct keys; and the values of their keys.

`arrow_upsert.py` joins the rows with a table's rows. Spec: Identifier Field IDs; Primitive Types.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.row_keys import RowKeys, key_columns
from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.operations.engine import KeyValues, UpsertedRows, UpsertRequest, UpsertSource
from icefloe.spec.arrow_values import positions_array
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.temporal_arrays import python_list
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

# The greatest number of key values that a filter lists. For more values, the filter has their range.
MOST_LISTED_KEYS = 200
# The number of repeated keys that an error names.
SHOWN_KEYS = 5
_COUNTED = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType, TimeType)
# Types whose bounds have the same order as Arrow's values. Floats are not among them, because bounds distinguish -0.0 from 0.0, which are the same key here.
_RANGED = (IntegerType, LongType, DateType, StringType, DecimalType, BinaryType, *_COUNTED)
_LISTED = (*_RANGED, BooleanType, UUIDType, FixedType)
# The names of columns. The value is a mapping of the same kind with the names of the fields if the column is a struct, else None.
Names = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """The source rows of an upsert in memory: `table` is an Arrow table with the columns and types of the Iceberg table, `keys` are the keys of its rows."""

    table: Any
    keys: RowKeys


def arrow_source(
    rows: pa.Table,
    schema: Schema,
    key_ids: Sequence[int],
    *,
    updates: bool,
    join: Callable[[UpsertRequest], UpsertedRows],
) -> UpsertSource:
    """Check Arrow rows, and return them as the source of an upsert. `join` becomes `UpsertSource.join`. Raises the errors of `Engine.upsert`."""
    if updates:
        check_complete(arrow_names(list(rows.schema)), schema)
    table = cast_to_schema(rows, schema).combine_chunks()
    keys = RowKeys(key_columns(table, schema, key_ids))
    repeated = keys.repeated_rows()
    if len(repeated):
        names = [schema.find_column_name(field_id) or "" for field_id in key_ids]
        raise repeated_keys(names, shown_keys(table, schema, key_ids, repeated), len(repeated))
    values = tuple(
        _key_values(field_id, schema.find_type(field_id), values_of_column)
        for field_id, values_of_column in zip(key_ids, keys.values, strict=True)
    )
    return UpsertSource(rows=ArrowRows(table, keys), keys=values if keys.count else None, join=join)


def check_complete(names: Names, schema: Schema) -> None:
    """Raise `SchemaMismatchError` if rows with these names lack columns of the table or fields of its structs, because an update needs a value for each."""
    problems = [Problem(where=where, what="is a column of the table, and the rows lack it") for where in lacking(names, schema.fields)]
    if problems:
        raise SchemaMismatchError(
            "the rows lack columns that an update needs values for",
            problems=problems,
            next_step="provide every column, with the table's value if it must not change, or pass when_matched_update_all=False",
        )


def repeated_keys(names: Sequence[str], shown: Sequence[str], count: int) -> InvalidInputError:
    """Return the error for source rows with the same key. `names` are the key columns, `shown` some of the repeated keys, `count` is the number of all."""
    more = ", ..." if count > len(shown) else ""
    return InvalidInputError(
        f"the rows to upsert have {_keys_text(count)} ({', '.join(names)}) more than once: {'; '.join(shown)}{more}",
        next_step="keep one row of each key",
    )


def ambiguous_keys(table_name: str, names: Sequence[str], shown: Sequence[str], count: int) -> InvalidInputError:
    """Return the error for keys that match several rows of the table. `names` are the key columns, `shown` some of these keys, `count` is the number of all."""
    more = ", ..." if count > len(shown) else ""
    return InvalidInputError(
        f"{_keys_text(count)} ({', '.join(names)}) of the rows to upsert match several rows of {table_name}: {'; '.join(shown)}{more}",
        table=table_name,
        next_step="name key columns that identify the table's rows, or delete the duplicate rows",
    )


def shown_keys(table: Any, schema: Schema, key_ids: Sequence[int], rows: Any) -> list[str]:
    """Return the keys of the first `SHOWN_KEYS` rows at these positions, as text."""
    columns = [python_list(column) for column in key_columns(table.take(positions_array(rows[:SHOWN_KEYS])), schema, key_ids)]
    return [", ".join(repr(column[place]) for column in columns) for place in range(len(columns[0]))]


def _keys_text(keys: int) -> str:
    return "1 key" if keys == 1 else f"{keys:,} keys"


def lacking(names: Names, fields: Sequence[NestedField], path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted names of the fields, including fields of structs, that are missing in `names`. A row as a dictionary may be passed as `names`."""
    for field in fields:
        field_path = (*path, field.name)
        if field.name not in names:
            yield ".".join(field_path)
        elif isinstance(field.field_type, StructType) and isinstance(names[field.name], Mapping):
            yield from lacking(names[field.name], field.field_type.fields, field_path)


def arrow_names(fields: Sequence[Any]) -> Names:
    """Return the names of Arrow fields, including the fields of structs."""
    return {field.name: arrow_names(list(field.type.fields)) if pa.types.is_struct(field.type) else None for field in fields}


def _key_values(field_id: int, kind: IcebergType, values: Any) -> KeyValues:
    """Return the values of a key column for a filter: all values if they are few, else their range. `values` are the distinct values without null."""
    if len(values) and len(values) <= MOST_LISTED_KEYS and isinstance(kind, _LISTED):
        return KeyValues(field_id=field_id, values=tuple(_natives(kind, values)))
    if len(values) and isinstance(kind, _RANGED):
        bounds = pc.min_max(values)
        low, high = _natives(kind, pa.array([bounds["min"], bounds["max"]], values.type))
        return KeyValues(field_id=field_id, low=low, high=high)
    return KeyValues(field_id=field_id)


def _natives(kind: IcebergType, values: Any) -> list[Any]:
    # Dates and times become numbers of days or microseconds, which are filter literals too, and have no limit of years.
    is_counted = isinstance(kind, (DateType, *_COUNTED))
    literals: list[Any] = (values.view(pa.int32() if isinstance(kind, DateType) else pa.int64()) if is_counted else values).to_pylist()
    return literals
