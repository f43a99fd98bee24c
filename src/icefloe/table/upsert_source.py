"""The rows of an upsert before anything is joined: whether they fit and are whole, what their keys are, and that no two have the same.

Joining them with a table's rows is `arrow_upsert.py`. Spec: Identifier Field IDs; Primitive Types.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.row_keys import RowKeys, key_columns
from icefloe.errors import InvalidInputError, Problem, SchemaMismatchError
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_cast import cast_to_schema
from icefloe.kernel.types import (
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
from icefloe.table.engine import KeyValues, UpsertSource

# Values. Filters with more are tested against bounds as a range.
MOST_LISTED_KEYS = 200
# Repeated keys that an error names.
SHOWN_KEYS = 5
_COUNTED = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType, TimeType)
# What bounds order as Arrow does. Bounds tell -0.0 from 0.0, which are the same key here, so that floats are looked for in every file.
_RANGED = (IntegerType, LongType, DateType, StringType, DecimalType, BinaryType, *_COUNTED)
_LISTED = (*_RANGED, BooleanType, UUIDType, FixedType)
# The members of the structs of rows by name; None for what is no struct.
Names = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """A source in memory, in the table's form."""

    table: Any
    keys: RowKeys


def arrow_source(rows: pa.Table, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
    """See `Engine.upsert_source`."""
    if updates:
        check_complete(_arrow_names(list(rows.schema)), schema)
    table = cast_to_schema(rows, schema).combine_chunks()
    keys = RowKeys(key_columns(table, schema, key_ids))
    repeated = keys.repeated()
    if len(repeated):
        names = [schema.find_column_name(field_id) or "" for field_id in key_ids]
        raise repeated_keys(names, shown_keys(table, schema, key_ids, repeated), len(repeated))
    values = tuple(_key_values(field_id, schema.find_type(field_id), found) for field_id, found in zip(key_ids, keys.values, strict=True))
    return UpsertSource(rows=ArrowRows(table, keys), keys=values if keys.count else None)


def check_complete(names: Names, schema: Schema) -> None:
    """Raises `SchemaMismatchError` where the rows lack columns of the table, members of structs too: their values could only be made up."""
    problems = [Problem(where=where, what="is a column of the table, and the rows lack it") for where in _lacking(names, schema.fields, ())]
    if problems:
        raise SchemaMismatchError(
            "the rows lack columns that an update has to give a value to",
            problems=problems,
            next_step="give every column, as the table has it where it is to stay, or pass when_matched_update_all=False",
        )


def repeated_keys(names: Sequence[str], shown: Sequence[str], count: int) -> InvalidInputError:
    """The error of rows that have a key together; `shown` are some of the keys, `count` the rows that are too many."""
    more = ", ..." if count > len(shown) else ""
    return InvalidInputError(
        f"the rows to upsert have {_counted(count)} ({', '.join(names)}) more than once: {'; '.join(shown)}{more}",
        next_step="keep one row of each key: which of them is meant cannot be told",
    )


def ambiguous_keys(table_name: str, names: Sequence[str], shown: Sequence[str], count: int) -> InvalidInputError:
    """The error of keys that match several rows of the table."""
    more = ", ..." if count > len(shown) else ""
    return InvalidInputError(
        f"{_counted(count)} ({', '.join(names)}) of the rows to upsert match several rows of {table_name}: {'; '.join(shown)}{more}",
        table=table_name,
        next_step="name key columns that tell the table's rows apart, or delete the rows that are too many",
    )


def shown_keys(table: Any, schema: Schema, key_ids: Sequence[int], rows: Any) -> list[str]:
    """The keys of the first few of these rows, as text."""
    columns = key_columns(table.take(pa.array(rows[:SHOWN_KEYS])), schema, key_ids)
    return [", ".join(repr(column[place].as_py()) for column in columns) for place in range(len(columns[0]))]


def _counted(keys: int) -> str:
    return "1 key" if keys == 1 else f"{keys:,} keys"


def _lacking(names: Names, fields: Sequence[NestedField], path: tuple[str, ...]) -> Iterator[str]:
    for wanted in fields:
        here = (*path, wanted.name)
        if wanted.name not in names:
            yield ".".join(here)
        elif isinstance(wanted.field_type, StructType) and names[wanted.name] is not None:
            yield from _lacking(names[wanted.name], wanted.field_type.fields, here)


def _arrow_names(fields: Sequence[Any]) -> Names:
    return {found.name: _arrow_names(list(found.type.fields)) if pa.types.is_struct(found.type) else None for found in fields}


def _key_values(field_id: int, kind: IcebergType, values: Any) -> KeyValues:
    """What filters can ask of a key column; `values` are its distinct ones, without null."""
    if len(values) and len(values) <= MOST_LISTED_KEYS and isinstance(kind, _LISTED):
        return KeyValues(field_id=field_id, values=tuple(_natives(kind, values)))
    if len(values) and isinstance(kind, _RANGED):
        found = pc.min_max(values)
        low, high = _natives(kind, pa.array([found["min"], found["max"]], values.type))
        return KeyValues(field_id=field_id, low=low, high=high)
    return KeyValues(field_id=field_id)


def _natives(kind: IcebergType, values: Any) -> list[Any]:
    found: list[Any] = (values.cast(pa.int64()) if isinstance(kind, _COUNTED) else values).to_pylist()
    return found
