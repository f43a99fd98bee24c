"""How rows are spread over Spark's tasks, and sorted in them, before they are written: so that a partition's rows meet in few tasks and make few files.

Only the layout of files depends on it; which partition a row belongs to is decided when it is written. Transforms: `transform_columns.py`.
Spec: Sorting.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.metadata.table_properties import DISTRIBUTION_MODE, FANOUT_ENABLED
from icefloe.kernel.partitioning.sort_order import NullOrder, SortDirection, SortField
from icefloe.kernel.partitioning.transforms import Transform, UnknownTransform, VoidTransform
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import PrimitiveType, UUIDType
from icefloe.spark.functions.transform_columns import transforms_in
from icefloe.spark.types.spark_types import column_named, spark_type

# Columns that live only for the shuffle; the sign keeps them apart from anything a table would call its own.
_KEY_PREFIX = "icefloe partition key "


def distributed(rows: DataFrame, target: WriteTarget) -> DataFrame:
    """The rows, shuffled as `write.distribution-mode` says and sorted within each task where the table has a sort order or is without fan-out.

    Where the property is not set, a sorted table is range-distributed and a partitioned one hashed, as in Java.
    """
    sources = Sources(rows, target.schema)
    partition_keys = [
        sources.transformed(f.source_id, f.transform) for f in target.spec.fields if not isinstance(f.transform, VoidTransform)
    ]
    sort_keys = [_sorted(sources.transformed(key.source_id, key.transform), key) for key in target.sort_order.fields]
    mode = DISTRIBUTION_MODE.read(target.properties)
    if DISTRIBUTION_MODE.name not in target.properties and sort_keys:
        mode = "range"
    keys = [key.asc_nulls_first() for key in partition_keys] + sort_keys
    if mode == "range" and keys:
        rows = rows.repartitionByRange(*keys)
    elif mode == "hash" and partition_keys:
        rows = _hashed(rows, partition_keys)
    gathers = bool(partition_keys) and not FANOUT_ENABLED.read(target.properties)
    return rows.sortWithinPartitions(*keys) if sort_keys or gathers else rows


def _hashed(rows: DataFrame, keys: list[Column]) -> DataFrame:
    """Rows of one partition together, but a partition of many rows over several tasks: Spark's rebalance, which takes columns by name only."""
    names = [f"{_KEY_PREFIX}{place}" for place in range(len(keys))]
    keyed = rows.withColumns(dict(zip(names, keys, strict=True)))
    return keyed.hint("rebalance", *(column_named(name) for name in names)).drop(*names)


def _sorted(key: Column, field: SortField) -> Column:
    first = field.null_order is NullOrder.NULLS_FIRST
    if field.direction is SortDirection.ASC:
        return key.asc_nulls_first() if first else key.asc_nulls_last()
    return key.desc_nulls_first() if first else key.desc_nulls_last()


class Sources:
    """The columns of the rows by field id, and transforms of them."""

    def __init__(self, rows: DataFrame, schema: Schema) -> None:
        self._names = set(rows.columns)
        self._types = {field.name: field.dataType for field in rows.schema.fields}
        self._schema = schema
        self._columns = transforms_in(rows.sparkSession)

    def transformed(self, source_id: int, transform: Transform) -> Column:
        """A transform of a table column as Spark computes it; a constant null for a column that the rows lack."""
        path = self._schema.path_of(source_id) or ()
        kind = self._schema.find_type(source_id)
        if not path or path[0] not in self._names or not isinstance(kind, PrimitiveType):
            return F.lit(None).cast("int")
        column = column_named(path[0])
        for name in path[1:]:
            column = column.getField(name)
        own_type = spark_type(kind)
        # A narrower column of the rows first takes the table's type: buckets and truncation of an int differ from those of a byte.
        if own_type is not None and len(path) == 1 and self._types[path[0]] != own_type and not isinstance(kind, UUIDType):
            column = column.cast(own_type)
        if isinstance(transform, VoidTransform | UnknownTransform):
            return F.lit(None).cast("int")  # of a later version, which writing refuses
        return self._columns.transformed(column, kind, transform)
