"""Whether the columns of a file that another writer made fit a table, by their field ids; and which of its leaves are the table's.

Spec: Column Projection; Schema Evolution; Appendix A, Parquet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from icefloe.datafile.field_ids import is_list
from icefloe.datafile.leaves import Leaf, leaves_of
from icefloe.datafile.projection import FileColumn, file_columns, may_become
from icefloe.errors import Problem
from icefloe.kernel.schema.arrow_schema import plain_type
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import (
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
    """A leaf of the table as a file has it: its place among the file's leaves, and its Arrow type there."""

    leaf: Leaf
    arrow: Any


def stored_leaves(columns: Any, schema: Schema) -> list[StoredLeaf]:
    """The table's leaves that a file's Arrow schema, with field ids, has; in the table's order."""
    found = dict(_leaves(file_columns(columns)))
    return [
        StoredLeaf(replace(leaf, place=found[leaf.field_id].first_leaf), plain_type(found[leaf.field_id].arrow.type))
        for leaf in leaves_of(schema)
        if leaf.field_id in found
    ]


def places_to_be_required(columns: Any, schema: Schema) -> tuple[int, ...]:
    """The places of leaves that may be null in a file, an Arrow schema with field ids, and that the table requires: no null may be in any of them."""
    required = {leaf.field_id for leaf in leaves_of(schema) if leaf.field.required}
    return tuple(column.first_leaf for field_id, column in _leaves(file_columns(columns)) if field_id in required and column.arrow.nullable)


def column_problems(
    columns: Any, schema: Schema, *, may_lack: frozenset[int], nulls_in: Mapping[int, int | None] | None, floors_nanoseconds: bool = False
) -> list[Problem]:
    """What of a file's columns, an Arrow schema with field ids, does not fit the table; columns that the table does not have are passed over.

    `may_lack` are required columns whose value comes from elsewhere; `nulls_in` how many nulls the file's leaves have, None where nothing is known;
    `floors_nanoseconds` where timestamps come in nanoseconds whatever the file keeps.
    """
    return list(_members(file_columns(columns), schema.fields, (), _Rules(may_lack, nulls_in, floors_nanoseconds)))


@dataclass(frozen=True, slots=True)
class _Rules:
    may_lack: frozenset[int]
    nulls_in: Mapping[int, int | None] | None
    floors_nanoseconds: bool


def _leaves(column: FileColumn) -> Iterator[tuple[int, FileColumn]]:
    for child in column.inner:
        if child.inner:
            yield from _leaves(child)
        elif child.field_id is not None:
            yield child.field_id, child


def _members(column: FileColumn, fields: Sequence[NestedField], path: tuple[str, ...], rules: _Rules) -> Iterator[Problem]:
    seen: dict[int, str] = {}
    for child in column.inner:
        if child.field_id in seen:
            yield Problem(
                where=".".join((*path, child.arrow.name)), what=f"has the field id {child.field_id}, as {seen[child.field_id]!r} has it"
            )
        elif child.field_id is not None:
            seen[child.field_id] = child.arrow.name
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
    fault = _type_fault(arrow, kind, floors_nanoseconds=rules.floors_nanoseconds)
    if fault:
        yield Problem(where=where, what=fault)
        return
    if field.required and stored.arrow.nullable:
        nulls = None if rules.nulls_in is None else rules.nulls_in.get(stored.first_leaf)
        if nulls is None or stored.inner:
            yield Problem(where=where, what="is required, and may be null in the file: its footer does not tell")
        elif nulls:
            yield Problem(where=where, what=f"is required, and the file has {nulls:,} nulls in it")
    if isinstance(kind, StructType):
        yield from _members(stored, kind.fields, path, rules)
    elif isinstance(kind, ListType | MapType):
        parts = children(kind)
        if len(stored.inner) != len(parts) or any(inner.field_id != part.field_id for inner, part in zip(stored.inner, parts, strict=True)):
            yield Problem(where=where, what="has elements, keys or values of another field id than the table's")
            return
        for inner, part in zip(stored.inner, parts, strict=True):
            yield from _column(inner, part, (*path, part.name), replace(rules, nulls_in=None) if part.required else rules)


def _type_fault(arrow: Any, kind: IcebergType, *, floors_nanoseconds: bool) -> str | None:
    """Why a column stored so is none of the type; None where it is."""
    fits = True
    if isinstance(kind, StructType):
        fits = pa.types.is_struct(arrow)
    elif isinstance(kind, ListType):
        fits = is_list(arrow)
    elif isinstance(kind, MapType):
        fits = pa.types.is_map(arrow)
    elif isinstance(kind, VariantType):
        fits = pa.types.is_struct(arrow)
    elif isinstance(kind, PrimitiveType) and not isinstance(kind, UnknownType):
        fits = may_become(arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow, kind)
        if fits and isinstance(kind, TimeType):
            fits = pa.types.is_time(arrow) and arrow.unit != "ns"
        if fits and isinstance(kind, _TIMESTAMPS) and pa.types.is_timestamp(arrow):
            return _timestamp_fault(pa.timestamp("us", arrow.tz) if floors_nanoseconds else arrow, kind)
    return None if fits else f"is stored as {arrow}, which cannot be read as {kind}"


def _timestamp_fault(arrow: Any, kind: IcebergType) -> str | None:
    if arrow.tz is None and isinstance(kind, _ZONED):
        return f"is stored as {arrow}, without a time zone, and is {kind} in the table"
    if arrow.tz is not None and not isinstance(kind, _ZONED):
        return f"is stored as {arrow}, with a time zone, and is {kind} in the table"
    if arrow.unit == "ns" and isinstance(kind, TimestampType | TimestamptzType):
        return f"is stored in nanoseconds, and {kind} in the table has microseconds"
    return None
