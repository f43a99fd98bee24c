"""Comparison of the columns of another writer's file with a table's schema, by field id; and the leaf columns of the table that the file contains.

Spec: Column Projection; Schema Evolution; Appendix A, Parquet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icefloe.datafile.field_ids import is_list
from icefloe.datafile.file_metrics import Leaf, leaves_of
from icefloe.datafile.orc.orc_timestamps import UTC
from icefloe.datafile.projection import FileColumn, file_columns, is_readable_as
from icefloe.errors import Problem
from icefloe.spec.schema.arrow_schema import plain_type
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    VariantType,
    children,
)

_ZONED = (TimestamptzType, TimestamptzNanoType)
_TIMESTAMPS = (TimestampType, TimestampNanoType, *_ZONED)


@dataclass(frozen=True, slots=True)
class StoredLeaf:
    """A leaf column of the table that a file contains. `leaf.place` is its index among the file's leaves; `arrow` is its Arrow type in the file."""

    leaf: Leaf
    arrow: Any


def int96_places(parquet_schema: Any) -> frozenset[int]:
    """Return the indexes of the INT96 leaves of a `pyarrow.parquet.ParquetSchema`: timestamps of Spark, Hive and Impala.

    Arrow reads them as nanoseconds without a time zone. Iceberg readers treat them as microseconds in UTC, for columns with and without a time zone.
    """
    return frozenset(place for place in range(len(parquet_schema)) if parquet_schema.column(place).physical_type == "INT96")


def with_int96_as_instants(columns: Any, int96: frozenset[int]) -> Any:
    """Return a file's Arrow schema with INT96 columns as timestamps in microseconds in UTC, at every depth. `int96` is the result of `int96_places`."""
    return pa.schema([_with_instants(column, int96) for column in file_columns(columns).inner]) if int96 else columns


def _with_instants(column: FileColumn, int96: frozenset[int]) -> Any:
    kind, inner = column.arrow.type, [_with_instants(child, int96) for child in column.inner]
    if not inner:
        return column.arrow.with_type(pa.timestamp("us", "UTC")) if column.first_leaf in int96 else column.arrow
    if pa.types.is_struct(kind):
        return column.arrow.with_type(pa.struct(inner))
    return column.arrow.with_type(pa.map_(*inner) if pa.types.is_map(kind) else pa.list_(inner[0]))


def stored_leaves(columns: Any, schema: Schema) -> list[StoredLeaf]:
    """Return the leaf columns of the table that a file contains, in the table's order. `columns` is the file's Arrow schema, with field ids."""
    stored = dict(_leaves(file_columns(columns)))
    return [
        StoredLeaf(replace(leaf, place=stored[leaf.field_id].first_leaf), plain_type(stored[leaf.field_id].arrow.type))
        for leaf in leaves_of(schema)
        if leaf.field_id in stored
    ]


def places_to_be_required(columns: Any, schema: Schema) -> tuple[int, ...]:
    """Return the indexes of the leaves that are nullable in a file's Arrow schema but required in the table. They must not have nulls."""
    required = {leaf.field_id for leaf in leaves_of(schema) if leaf.field.required}
    return tuple(column.first_leaf for field_id, column in _leaves(file_columns(columns)) if field_id in required and column.arrow.nullable)


def column_problems(
    columns: Any,
    schema: Schema,
    *,
    may_lack: frozenset[int],
    nulls_in: Mapping[int, int | None] | None,
    floors_nanoseconds: bool = False,
    int96: frozenset[int] = frozenset(),
    written_in: str | None = None,
) -> list[Problem]:
    """Return the problems of a file's columns, compared with the table. Columns that the table does not have are ignored.

    Args:
        columns: The file's Arrow schema, with field ids.
        schema: The table's schema.
        may_lack: Field ids of required columns that the file need not have, because their value comes from its path.
        nulls_in: The number of nulls of the file's leaves, by index; None if unknown.
        floors_nanoseconds: Whether the reader returns all timestamps in nanoseconds, regardless of the file's unit.
        int96: The file's `int96_places`.
        written_in: The time zone in which timestamps without a time zone were written; if it is UTC, they can also be read as timestamps with a time zone. None
            if unknown.
    """
    return list(_members(file_columns(columns), schema.fields, (), _Rules(may_lack, nulls_in, floors_nanoseconds, int96, written_in)))


@dataclass(frozen=True, slots=True)
class _Rules:
    may_lack: frozenset[int]
    nulls_in: Mapping[int, int | None] | None
    floors_nanoseconds: bool
    int96: frozenset[int]
    written_in: str | None


def _leaves(column: FileColumn) -> Iterator[tuple[int, FileColumn]]:
    for child in column.inner:
        if child.inner:
            yield from _leaves(child)
        elif child.field_id is not None:
            yield child.field_id, child


def _members(column: FileColumn, fields: Sequence[NestedField], path: tuple[str, ...], rules: _Rules) -> Iterator[Problem]:
    """Yield the problems of the fields directly inside a column, or of the top-level columns."""
    names: dict[int, str] = {}
    for child in column.inner:
        if child.field_id in names:
            yield Problem(
                where=".".join((*path, child.arrow.name)),
                what=f"has the field id {child.field_id}, which {names[child.field_id]!r} has too",
            )
        elif child.field_id is not None:
            names[child.field_id] = child.arrow.name
    by_id = column.by_id
    for field in fields:
        where = (*path, field.name)
        stored = by_id.get(field.field_id)
        if stored is not None:
            yield from _column(stored, field, where, rules)
        elif field.required and field.initial_default is None and field.field_id not in rules.may_lack:
            yield Problem(where=".".join(where), what="is required, and the file lacks it")


def _column(stored: FileColumn, field: NestedField, path: tuple[str, ...], rules: _Rules) -> Iterator[Problem]:
    kind, arrow, where = field.field_type, plain_type(stored.arrow.type), ".".join(path)
    is_int96 = stored.first_leaf in rules.int96
    fault = type_fault(arrow, kind, floors_nanoseconds=rules.floors_nanoseconds, is_int96=is_int96, written_in=rules.written_in)
    if fault:
        yield Problem(where=where, what=fault)
        return
    if field.required and stored.arrow.nullable:
        nulls = None if rules.nulls_in is None else rules.nulls_in.get(stored.first_leaf)
        if nulls is None or stored.inner:
            yield Problem(where=where, what="is required, and may be null in the file: its footer has no count of nulls")
        elif nulls:
            yield Problem(where=where, what=f"is required, and the file has {nulls:,} nulls in it")
    if isinstance(kind, StructType):
        yield from _members(stored, kind.fields, path, rules)
    elif isinstance(kind, ListType | MapType):
        parts = children(kind)
        if len(stored.inner) != len(parts) or any(inner.field_id != part.field_id for inner, part in zip(stored.inner, parts, strict=True)):
            yield Problem(where=where, what="has elements, keys or values with other field ids than in the table")
            return
        for inner, part in zip(stored.inner, parts, strict=True):
            yield from _column(inner, part, (*path, part.name), replace(rules, nulls_in=None) if part.required else rules)


def type_fault(
    arrow: Any, kind: IcebergType, *, floors_nanoseconds: bool, is_int96: bool = False, written_in: str | None = None
) -> str | None:
    """Return the reason why a column of an Arrow type cannot be read as the Iceberg type; None if it can be read.

    Args:
        arrow: The Arrow type.
        kind: The type in the table.
        floors_nanoseconds: Whether the reader returns all timestamps in nanoseconds, regardless of the file's unit.
        is_int96: Whether the column, or its first leaf, has Parquet's physical type INT96.
        written_in: See `column_problems`.
    """
    fits = True
    if pa.types.is_null(arrow):
        return None
    if is_int96 and pa.types.is_timestamp(arrow):
        is_micros = isinstance(kind, TimestampType | TimestamptzType)
        return None if is_micros else f"is stored as INT96, of which microseconds are read, and is {kind} in the table"
    if isinstance(kind, StructType):
        fits = pa.types.is_struct(arrow)
    elif isinstance(kind, ListType):
        fits = is_list(arrow)
    elif isinstance(kind, MapType):
        fits = pa.types.is_map(arrow)
    elif isinstance(kind, VariantType):
        fits = pa.types.is_struct(arrow)
    elif isinstance(kind, PrimitiveType) and not isinstance(kind, UnknownType):
        fits = is_readable_as(arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow, kind)
        if fits and isinstance(kind, TimeType):
            fits = pa.types.is_time(arrow) and arrow.unit != "ns"
        if fits and isinstance(kind, _TIMESTAMPS) and pa.types.is_timestamp(arrow):
            return _timestamp_fault(pa.timestamp("us", arrow.tz) if floors_nanoseconds else arrow, kind, written_in)
    return None if fits else f"is stored as {arrow}, which cannot be read as {kind}"


def _timestamp_fault(arrow: Any, kind: IcebergType, written_in: str | None) -> str | None:
    if arrow.tz is None and isinstance(kind, _ZONED) and written_in != UTC:
        zone = f": it was written in the time zone {written_in}, and only that of UTC can be read" if written_in else ""
        return f"is stored as {arrow}, without a time zone, and is {kind} in the table{zone}"
    if arrow.tz is not None and not isinstance(kind, _ZONED):
        return f"is stored as {arrow}, with a time zone, and is {kind} in the table"
    if arrow.unit == "ns" and isinstance(kind, TimestampType | TimestamptzType):
        return f"is stored in nanoseconds, and {kind} in the table has microseconds"
    return None
