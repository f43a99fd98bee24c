"""Sort orders: the order of rows within a table's data files, functions that sort rows by it, and the JSON of sort orders.

Spec: Sorting; Appendix C, Sort Orders.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import InvalidInputError, InvalidPartitionSpecError, MetadataFormatError, Problem, in_one_line
from icefloe.spec.arrow_values import fill_nulls, numbers_array, numpy_of
from icefloe.spec.partitioning.source_columns import sources_from_json, sources_to_json, to_transform, transform_of
from icefloe.spec.partitioning.transforms import IdentityTransform, Transform, UnknownTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField, PrimitiveType, StructType

# The order id of unsorted tables; the first sorted order has the next id. Spec: Sorting.
UNSORTED_ORDER_ID = 0
FIRST_ORDER_ID = 1
# For each float type, the integer type with the same number of bits, and a mask of the bits below the sign bit.
_BITS: dict[Any, tuple[Any, Any]] = {pa.float32(): (pa.int32(), np.int32(2**31 - 1)), pa.float64(): (pa.int64(), np.int64(2**63 - 1))}


class SortDirection(StrEnum):
    """Ascending or descending."""

    ASC = "asc"
    DESC = "desc"


class NullOrder(StrEnum):
    """The position of nulls: before or after the values."""

    NULLS_FIRST = "nulls-first"
    NULLS_LAST = "nulls-last"


@dataclass(frozen=True)
class SortField:
    """One key of a sort order: a transform of the column `source_id`, a direction and the position of nulls.

    By default nulls are first when ascending and last when descending. Transform, direction and null order may be passed as texts, such as
    `bucket[16]`, `desc` and `nulls-last`.

    Raises:
        InvalidPartitionSpecError, InvalidInputError: A text is not a transform, direction or null order.
    """

    source_id: int
    transform: Transform = field(default_factory=IdentityTransform)
    direction: SortDirection = SortDirection.ASC
    null_order: NullOrder | None = None
    further_source_ids: tuple[int, ...] = ()  # the further source columns of a transform with several

    @property
    def source_ids(self) -> tuple[int, ...]:
        """The field ids of all columns that the key is computed from, in the order of the transform; usually only one."""
        return (self.source_id, *self.further_source_ids)

    def __post_init__(self) -> None:
        if not isinstance(self.transform, Transform):
            object.__setattr__(self, "transform", to_transform(self.transform))
        for name, enum in (("direction", SortDirection), ("null_order", NullOrder)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, enum):
                object.__setattr__(self, name, _enum_member(name, enum, value))
        if self.null_order is None:
            object.__setattr__(self, "null_order", NullOrder.NULLS_FIRST if self.direction is SortDirection.ASC else NullOrder.NULLS_LAST)

    def __str__(self) -> str:
        return f"{self.transform}({', '.join(map(str, self.source_ids))}) {self.direction} {self.null_order}"


def _enum_member(name: str, enum: type[StrEnum], value: object) -> StrEnum:
    try:
        return enum(str(value))
    except ValueError as error:
        raise InvalidInputError(f"{value!r} is not a {name} of a sort field", next_step=f"pass one of {', '.join(enum)}") from error


@dataclass(frozen=True, init=False)
class SortOrder:
    """An order of the rows in data files: `SortOrder(field, field, ..., order_id=1)`. Without fields it is the unsorted order, with the id 0."""

    fields: tuple[SortField, ...]
    order_id: int

    def __init__(self, *fields: SortField, order_id: int | None = None) -> None:
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "order_id", order_id if order_id is not None else FIRST_ORDER_ID if fields else UNSORTED_ORDER_ID)

    @property
    def is_unsorted(self) -> bool:
        """Whether the order has no fields."""
        return not self.fields

    @property
    def is_known(self) -> bool:
        """Whether all transforms are known, so that rows can be sorted. Otherwise rows are written unsorted, which the specification allows. Spec: Sorting."""
        return not any(isinstance(key.transform, UnknownTransform) for key in self.fields)

    def __str__(self) -> str:
        return "[" + ", ".join(map(str, self.fields)) + "]"

    def __repr__(self) -> str:
        return in_one_line(f"SortOrder({self.order_id}: {', '.join(map(str, self.fields)) or 'unsorted'})")


UNSORTED_SORT_ORDER = SortOrder(order_id=UNSORTED_ORDER_ID)


def check_sort_order(order: SortOrder, schema: Schema, *, may_be_unknown: bool = False) -> None:
    """Check a sort order before it is added to a table.

    Args:
        order: The sort order.
        schema: The schema of the table.
        may_be_unknown: Whether unknown transforms are allowed, as in the check of an existing order against a new schema.

    Raises:
        InvalidInputError: A source column does not exist, its type does not fit the transform, or the transform is unknown; every problem is listed.
    """
    problems = list(_problems(order, schema, may_be_unknown))
    if problems:
        raise InvalidInputError("the sort order does not fit the schema", problems=problems)


def _problems(order: SortOrder, schema: Schema, may_be_unknown: bool) -> Iterator[Problem]:
    if (order.order_id == UNSORTED_ORDER_ID) != order.is_unsorted:
        yield Problem(where="order-id", what=f"{UNSORTED_ORDER_ID} is the id of the order without fields only")
    for key in order.fields:
        if isinstance(key.transform, UnknownTransform) and not may_be_unknown:
            yield Problem(where=str(key), what=f"there is no transform {str(key.transform)!r} of {len(key.source_ids)} columns")
        for source_id in key.source_ids:
            if source_id not in schema:
                yield Problem(where=str(key), what=f"there is no column with field id {source_id}")
                continue
            kind = schema.find_type(source_id)
            if not kind.is_primitive or not key.transform.can_transform(kind):
                yield Problem(where=schema.find_column_name(source_id) or "", what=f"{key.transform} does not work on type {kind}")


def sorted_rows(table: Any, order: SortOrder, schema: Schema) -> Any | None:
    """Return an Arrow table of the schema, stably sorted.

    Returns None if the order has no fields, a column that the schema does not have, or a transform that is unknown or does not fit its column: the rows
    cannot be declared sorted then.
    """
    positions = sorted_positions(table, order, schema)
    return None if positions is None else table.combine_chunks().take(positions)


def sorted_positions(table: Any, order: SortOrder, schema: Schema) -> Any | None:
    """Return the positions of the rows of an Arrow table in sorted order (stable); None in the same cases as `sorted_rows`."""
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for number, key in enumerate(order.fields):
        column = _sort_key(table, key, schema)
        if column is None:
            return None
        # Arrow has one setting for the position of nulls, which applies to all keys. So nulls are sorted by a separate key for each column.
        keys[f"null{number}"] = pc.is_null(column)
        keys[f"value{number}"] = _floats_as_integers(column)
        directions.append((f"null{number}", "descending" if key.null_order is NullOrder.NULLS_FIRST else "ascending"))
        directions.append((f"value{number}", "ascending" if key.direction is SortDirection.ASC else "descending"))
    if not keys:
        return None
    return pc.sort_indices(pa.table(keys), sort_keys=directions)


def _sort_key(table: Any, key: SortField, schema: Schema) -> Any | None:
    """Return the value of a sort field for each row; None if its column does not exist or its transform is unknown."""
    source = source_column(table, key.source_id, schema)
    if source is None or isinstance(key.transform, UnknownTransform) or not key.transform.can_transform(source[1]):
        return None
    column, kind = source
    result = key.transform.apply_array(kind, column)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def source_column(table: Any, field_id: int, schema: Schema) -> tuple[Any, PrimitiveType] | None:
    """Return a primitive column of an Arrow table, which may be a field of a struct, and its type; None if the schema does not have such a column."""
    path_and_type = _path_to(schema.fields, field_id)
    if path_and_type is None or not isinstance(path_and_type[1], PrimitiveType):
        return None
    steps, kind = path_and_type
    column = table.column(steps[0])
    return (pc.struct_field(column, steps[1:]) if len(steps) > 1 else column), kind


def _path_to(fields: tuple[NestedField, ...], field_id: int) -> tuple[list[int], Any] | None:
    """Return the positions of the fields from the top-level column down to the field, and its type; None if it does not exist, or is inside a list or map."""
    for position, column in enumerate(fields):
        if column.field_id == field_id:
            return [position], column.field_type
        if isinstance(column.field_type, StructType):
            inner = _path_to(column.field_type.fields, field_id)
            if inner is not None:
                return [position, *inner[0]], inner[1]
    return None


def _floats_as_integers(column: Any) -> Any:
    """Return floats as integers that have the order of the specification: -NaN, -Infinity, ..., -0, 0, ..., Infinity, NaN. Spec: Sorting."""
    if column.type not in _BITS:
        return column
    kind, below_sign = _BITS[column.type]
    bits = numpy_of(fill_nulls(column, 0.0)).view(below_sign.dtype)
    # For negative floats, greater bits mean a smaller float, so the bits below the sign are inverted.
    return numbers_array(np.where(bits < 0, bits ^ below_sign, bits), kind)


def rebind_sort_order(order: SortOrder, old_schema: Schema, new_schema: Schema) -> SortOrder:
    """Return the order with source ids of `new_schema`. Source columns are found by name, because the columns of a new table get fresh ids.

    Raises:
        InvalidInputError: A source column is in only one of the schemas.
    """
    fields = []
    for key in order.fields:
        new_ids = []
        for source_id in key.source_ids:
            name = old_schema.find_column_name(source_id)
            new_id = new_schema.find_id(name) if name is not None else None
            if new_id is None:
                raise InvalidInputError(f"sort field {key}: there is no column with field id {source_id}")
            new_ids.append(new_id)
        fields.append(replace(key, source_id=new_ids[0], further_source_ids=tuple(new_ids[1:])))
    return SortOrder(*fields, order_id=order.order_id)


def sort_order_to_json(order: SortOrder) -> dict[str, Any]:
    """Return the order as JSON, as in table metadata.

    Spec: Appendix C, Sort Orders.
    """
    fields = [
        {
            "transform": str(key.transform),
            **sources_to_json(key.source_ids),
            "direction": str(key.direction),
            "null-order": str(key.null_order),
        }
        for key in order.fields
    ]
    return {"order-id": order.order_id, "fields": fields}


def sort_order_from_json(value: Any, *, where: str = "sort-order") -> SortOrder:
    """Return the sort order of a JSON object with `order-id` and `fields`.

    Args:
        value: The parsed object.
        where: JSON path of the object, for messages.

    Raises:
        MetadataFormatError: The JSON has another shape; every problem is listed with its path.
    """
    problems: list[Problem] = []
    items = value.get("fields") if isinstance(value, dict) else None
    order_id = value.get("order-id") if isinstance(value, dict) else None
    if not isinstance(items, list):
        problems.append(Problem(where=f"{where}.fields", what="expected a list of fields"))
        items = []
    if not _is_integer(order_id):
        problems.append(Problem(where=f"{where}.order-id", what="expected an integer"))
    fields = [_field_from_json(item, f"{where}.fields[{index}]", problems) for index, item in enumerate(items)]
    if problems:
        raise MetadataFormatError("the sort order cannot be read", problems=problems)
    return SortOrder(*(key for key in fields if key is not None), order_id=order_id)


def _field_from_json(item: Any, where: str, problems: list[Problem]) -> SortField | None:
    if not isinstance(item, dict):
        problems.append(Problem(where=where, what="expected an object"))
        return None
    count = len(problems)
    source_ids = sources_from_json(item, where, problems)
    for name, allowed in (("direction", tuple(SortDirection)), ("null-order", tuple(NullOrder))):
        if item.get(name) not in allowed:
            problems.append(Problem(where=f"{where}.{name}", what=f"expected one of {', '.join(allowed)}"))
    transform = item.get("transform")
    if not isinstance(transform, str):
        problems.append(Problem(where=f"{where}.transform", what="expected a string"))
        return None
    try:
        parsed = transform_of(transform, source_ids)
    except InvalidPartitionSpecError as error:
        problems.append(Problem(where=f"{where}.transform", what=error.message))
    if len(problems) > count:
        return None
    return SortField(source_ids[0], parsed, SortDirection(item["direction"]), NullOrder(item["null-order"]), source_ids[1:])


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
