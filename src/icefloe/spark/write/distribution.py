"""Distributes rows over Spark tasks, and sorts them in each task, before they are written. So few tasks have rows of a partition, which gets few files.

It only affects the layout of files; the writer determines the partition of each row. `functions/transform_columns.py` computes transforms.
Spec: Sorting.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import InvalidInputError
from icefloe.spark.functions.transform_columns import transforms_in
from icefloe.spark.types.spark_types import column_named, field_inside, quote_name, spark_type
from icefloe.spark.write.curve_key import CurveSource, with_place
from icefloe.spec.metadata.table_properties import DISTRIBUTION_MODE, FANOUT_ENABLED
from icefloe.spec.partitioning.sort_order import NullOrder, SortDirection, SortField
from icefloe.spec.partitioning.transforms import IdentityTransform, Transform, UnknownTransform, VoidTransform
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType, UUIDType

# Names of columns that exist only for the shuffle. They contain spaces, so that tables are unlikely to have them.
KEY_PREFIX = "icefloe partition key "


def distribute(rows: DataFrame, target: WriteTarget) -> DataFrame:
    """Distribute rows by `write.distribution-mode`, and sort them in each task if the table has a sort order, or is partitioned without a fan-out.

    Without the property, rows of a sorted table are distributed by range, and rows of an unsorted partitioned table by hash, as in Java.
    """
    spread = distributed_for_tasks(rows, target, {})
    return spread.select(*map(quote_name, rows.columns)) if len(spread.columns) > len(rows.columns) else spread


def distributed_for_tasks(rows: DataFrame, target: WriteTarget, substitutes: Mapping[str, Column]) -> DataFrame:
    """Distribute rows as `distribute` does, but return columns that tasks can use as they are, because a projection after the shuffle would copy every row.

    The keys of a shuffle remain, in columns whose names begin with `KEY_PREFIX`. Columns with a substitute are replaced before the shuffle; not at all if rows
    are sorted or distributed by range, because those need the original columns.

    Args:
        rows: The rows.
        target: The table to write for.
        substitutes: By name of a column, a column that tasks may get instead of it.
    """
    columns = SourceColumns(rows, target.schema)
    fields = [f for f in target.spec.fields if not isinstance(f.transform, VoidTransform)]
    partition_keys = [_Key(columns.transform(f.source_id, f.transform), columns.identity_of(f.source_id, f.transform)) for f in fields]
    sort_keys = [_sort_column(columns.transform(key.source_id, key.transform), key) for key in target.sort_order.fields]
    if target.curve is not None:
        name = next(_free_names(rows, target.schema))
        sources = [columns.curve_source(source_id) for source_id in target.curve.source_ids]
        rows = with_place(rows, target.curve, sources, columns.transforms, name)
        sort_keys = [column_named(name).asc()]
    mode = DISTRIBUTION_MODE.read(target.properties)
    if DISTRIBUTION_MODE.name not in target.properties and sort_keys:
        mode = "range"
    keys = [key.value.asc_nulls_first() for key in partition_keys] + sort_keys
    is_sorted = bool(sort_keys) or (bool(partition_keys) and not FANOUT_ENABLED.read(target.properties))
    if mode == "range" and keys:
        parts = target.sorted_parts
        rows = rows.repartitionByRange(*keys) if parts is None else rows.repartitionByRange(parts, *keys)
    elif mode == "hash" and partition_keys:
        rows = _rebalance_by_keys(rows, partition_keys, {} if is_sorted else substitutes, target.schema)
    elif not is_sorted and substitutes:
        rows = rows.withColumns(dict(substitutes))
    return rows.sortWithinPartitions(*keys) if is_sorted else rows


@dataclass(frozen=True, slots=True)
class _Key:
    """A partition field by which rows are distributed: its value as an expression, and the name of the column with this value, or None if there is none."""

    value: Column
    column: str | None


def _rebalance_by_keys(rows: DataFrame, keys: list[_Key], substitutes: Mapping[str, Column], schema: Schema) -> DataFrame:
    """Bring the rows of each partition to one task, or if they are many to several tasks, by Spark's rebalance hint. It accepts only names of columns."""
    free_names = _free_names(rows, schema)
    added = {next(free_names): key.value for key in keys if key.column is None}
    names = [*(key.column for key in keys if key.column is not None), *added]
    columns = {**substitutes, **added}
    return (rows.withColumns(columns) if columns else rows).hint("rebalance", *map(column_named, names))


def _free_names(rows: DataFrame, schema: Schema) -> Iterator[str]:
    """Yield names that no column has, for the columns with keys of the shuffle."""
    taken = {*rows.columns, *(field.name for field in schema.fields)}  # the rows may lack a column of the table
    return (name for name in map(f"{KEY_PREFIX}{{}}".format, count()) if name not in taken)


def _sort_column(key: Column, field: SortField) -> Column:
    nulls_first = field.null_order is NullOrder.NULLS_FIRST
    if field.direction is SortDirection.ASC:
        return key.asc_nulls_first() if nulls_first else key.asc_nulls_last()
    return key.desc_nulls_first() if nulls_first else key.desc_nulls_last()


class SourceColumns:
    """Finds columns of rows by the field ids of a table's schema, and computes transforms of them."""

    def __init__(self, rows: DataFrame, schema: Schema) -> None:
        self._names = set(rows.columns)
        self._types = {field.name: field.dataType for field in rows.schema.fields}
        self._schema = schema
        self.transforms = transforms_in(rows.sparkSession)

    def identity_of(self, source_id: int, transform: Transform) -> str | None:
        """Return the column's name for an identity transform of a top-level column; else None. None also for UUIDs, whose texts may differ by case."""
        path = self._schema.path_of(source_id) or ()
        is_column = len(path) == 1 and path[0] in self._names and not isinstance(self._schema.find_type(source_id), UUIDType)
        return path[0] if is_column and isinstance(transform, IdentityTransform) else None

    def transform(self, source_id: int, transform: Transform) -> Column:
        """Return the result of a transform of a table column; a null literal if the rows lack the column, and for void or unknown transforms."""
        path = self._schema.path_of(source_id) or ()
        field_type = self._schema.find_type(source_id)
        if not path or path[0] not in self._names or not isinstance(field_type, PrimitiveType):
            return F.lit(None).cast("int")
        column = field_inside(column_named(path[0]), path[1:], self._types[path[0]])
        table_type = spark_type(field_type)
        # A narrower column is cast to the table's type first, because buckets and truncation of an int differ from those of a byte.
        if table_type is not None and len(path) == 1 and self._types[path[0]] != table_type and not isinstance(field_type, UUIDType):
            column = column.cast(table_type)
        if isinstance(transform, VoidTransform | UnknownTransform):
            return F.lit(None).cast("int")  # the writer refuses transforms of later versions
        return self.transforms.transform(column, field_type, transform)

    def curve_source(self, source_id: int) -> CurveSource:
        """Return a column as the source of a space-filling curve. Raises `InvalidInputError` if its type is not primitive."""
        field_type = self._schema.find_type(source_id)
        if not isinstance(field_type, PrimitiveType):
            raise InvalidInputError(
                f"a curve cannot order rows by column {self._schema.find_column_name(source_id)!r}: its type is {field_type}",
                next_step="name columns of primitive types",
            )
        return CurveSource(self.transform(source_id, IdentityTransform()), field_type)
