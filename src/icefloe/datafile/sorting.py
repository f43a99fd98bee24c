"""Rows brought into a table's sort order before they are written.

Sort orders are `kernel/partitioning/sort_order.py`; Spark sorts its own rows. Spec: Sorting.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.leaves import leaves_of
from icefloe.kernel.arrow_values import filled, numbers_array, numpy_of
from icefloe.kernel.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder
from icefloe.kernel.partitioning.transforms import UnknownTransform
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, PrimitiveType, StructType

_DIRECTIONS = {SortDirection.ASC: "ascending", SortDirection.DESC: "descending"}
# Copies of files are sorted in memory. Bytes of Arrow that their rows may take there, and those of a value, about.
SORTED_BYTES, _VALUE_BYTES = 256 * 1024 * 1024, 24
# A number of as many bits, and the bits below the sign.
_BITS: dict[Any, tuple[Any, Any]] = {pa.float32(): (pa.int32(), np.int32(2**31 - 1)), pa.float64(): (pa.int64(), np.int64(2**63 - 1))}


def sorted_rows(table: Any, order: SortOrder, schema: Schema) -> Any | None:
    """An Arrow table of the schema in the order's sequence; rows that are equal in all keys stay as they were.

    None where there is no order, or one by a column or transform that is not known here: then nothing can say that the rows are sorted.
    """
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, key in enumerate(order.fields):
        column = _key(table, key, schema)
        if column is None:
            return None
        # Arrow has one place for the nulls of all keys; whether it is null is a key of its own, so that each can have its place.
        keys[f"null{number}"] = pc.is_null(column)
        keys[f"value{number}"] = _ordered(column)
        directions.append((f"null{number}", "descending" if key.null_order is NullOrder.NULLS_FIRST else "ascending"))
        directions.append((f"value{number}", _DIRECTIONS[key.direction]))
    if not keys:
        return None
    return table.combine_chunks().take(pc.sort_indices(pa.table(keys), sort_keys=directions))


def row_bytes(schema: Schema) -> int:
    """Return the bytes that a row takes in memory, about."""
    return _VALUE_BYTES * max(1, len(leaves_of(schema)))


def sorted_batches(batches: Iterable[Any], order: SortOrder, schema: Schema) -> tuple[Iterator[Any], bool]:
    """Return the record batches in the order, gathered in memory, and whether they are in it: where the order is not known here, they stay as they are."""
    table = pa.Table.from_batches(list(batches))
    found = sorted_rows(table, order, schema)
    return iter((table if found is None else found).to_batches()), found is not None


def _key(table: Any, key: SortField, schema: Schema) -> Any | None:
    found = _steps(schema.fields, key.source_id)
    if found is None:
        return None
    steps, kind = found
    if isinstance(key.transform, UnknownTransform) or not isinstance(kind, PrimitiveType) or not key.transform.can_transform(kind):
        return None
    column = table.column(steps[0])
    if len(steps) > 1:
        column = pc.struct_field(column, steps[1:])
    result = key.transform.apply_array(kind, column)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _steps(fields: tuple[NestedField, ...], field_id: int) -> tuple[list[int], Any] | None:
    """The positions from the top-level column down to the field, through structs alone, and its type."""
    for position, field in enumerate(fields):
        if field.field_id == field_id:
            return [position], field.field_type
        if isinstance(field.field_type, StructType):
            found = _steps(field.field_type.fields, field_id)
            if found is not None:
                return [position, *found[0]], found[1]
    return None


def _ordered(column: Any) -> Any:
    """Floats as whole numbers in the format's order: -NaN, -Infinity, ..., -0, 0, ..., Infinity, NaN. Spec: Sorting."""
    if column.type not in _BITS:
        return column
    kind, below_sign = _BITS[column.type]
    bits = numpy_of(filled(column, 0.0)).view(below_sign.dtype)
    # Negative numbers have their bits ascend as they descend.
    return numbers_array(np.where(bits < 0, bits ^ below_sign, bits), kind)
