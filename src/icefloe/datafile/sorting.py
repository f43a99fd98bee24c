"""Sorting of rows by a table's sort order before they are written.

`kernel/partitioning/sort_order.py` defines sort orders; Spark sorts its rows itself. Spec: Sorting.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.file_metrics import leaves_of
from icefloe.kernel.arrow_values import filled, numbers_array, numpy_of
from icefloe.kernel.partitioning.sort_order import NullOrder, SortDirection, SortField, SortOrder
from icefloe.kernel.partitioning.transforms import UnknownTransform
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField, PrimitiveType, StructType

_DIRECTIONS = {SortDirection.ASC: "ascending", SortDirection.DESC: "descending"}
# Copies of files are sorted in memory if their rows take at most this many bytes of Arrow memory; and the assumed bytes of one value.
SORTED_BYTES, _VALUE_BYTES = 256 * 1024 * 1024, 24
# For each float type, the integer type of as many bits, and a mask of the bits below the sign.
_BITS: dict[Any, tuple[Any, Any]] = {pa.float32(): (pa.int32(), np.int32(2**31 - 1)), pa.float64(): (pa.int64(), np.int64(2**63 - 1))}


def sorted_rows(table: Any, order: SortOrder, schema: Schema) -> Any | None:
    """Return an Arrow table of the schema, stably sorted.

    Returns None for an unsorted order, and for an order by a column or transform that is not known here, because then the rows cannot be declared sorted.
    """
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, key in enumerate(order.fields):
        column = _key(table, key, schema)
        if column is None:
            return None
        # Arrow has one option for the nulls of all keys, so a separate key sorts the nulls of each column.
        keys[f"null{number}"] = pc.is_null(column)
        keys[f"value{number}"] = _ordered(column)
        directions.append((f"null{number}", "descending" if key.null_order is NullOrder.NULLS_FIRST else "ascending"))
        directions.append((f"value{number}", _DIRECTIONS[key.direction]))
    if not keys:
        return None
    return table.combine_chunks().take(pc.sort_indices(pa.table(keys), sort_keys=directions))


def row_bytes(schema: Schema) -> int:
    """Return an estimate of the bytes that a row takes in memory."""
    return _VALUE_BYTES * max(1, len(leaves_of(schema)))


def sorted_batches(batches: Iterable[Any], order: SortOrder, schema: Schema) -> tuple[Iterator[Any], bool]:
    """Sort record batches in memory; return them and whether they are sorted. They stay as they are if the order is not known here."""
    table = pa.Table.from_batches(list(batches))
    sorted_table = sorted_rows(table, order, schema)
    return iter((table if sorted_table is None else sorted_table).to_batches()), sorted_table is not None


def _key(table: Any, key: SortField, schema: Schema) -> Any | None:
    """Return the values of a sort field for each row; None if its column or transform is not known."""
    path_and_type = _steps(schema.fields, key.source_id)
    if path_and_type is None:
        return None
    steps, kind = path_and_type
    if isinstance(key.transform, UnknownTransform) or not isinstance(kind, PrimitiveType) or not key.transform.can_transform(kind):
        return None
    column = table.column(steps[0])
    if len(steps) > 1:
        column = pc.struct_field(column, steps[1:])
    result = key.transform.apply_array(kind, column)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def _steps(fields: tuple[NestedField, ...], field_id: int) -> tuple[list[int], Any] | None:
    """Return the positions from the top-level column down to the field, through structs alone, and its type; None if there is no such field."""
    for position, field in enumerate(fields):
        if field.field_id == field_id:
            return [position], field.field_type
        if isinstance(field.field_type, StructType):
            inner = _steps(field.field_type.fields, field_id)
            if inner is not None:
                return [position, *inner[0]], inner[1]
    return None


def _ordered(column: Any) -> Any:
    """Return floats as integers in the order of the specification: -NaN, -Infinity, ..., -0, 0, ..., Infinity, NaN. Spec: Sorting."""
    if column.type not in _BITS:
        return column
    kind, below_sign = _BITS[column.type]
    bits = numpy_of(filled(column, 0.0)).view(below_sign.dtype)
    # The bits of negative floats ascend while the floats descend.
    return numbers_array(np.where(bits < 0, bits ^ below_sign, bits), kind)
