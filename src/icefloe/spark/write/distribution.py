"""The distribution of rows over Spark tasks and their order in them, before they are written: rows of a partition come to few tasks and make few files.

Only the layout of files depends on it; the writer decides the partition of each row. `functions/transform_columns.py` computes transforms.
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

# Names of columns that exist only for the shuffle. The spaces keep them apart from names that tables are likely to have.
_KEY_PREFIX = "icefloe partition key "


def distributed(rows: DataFrame, target: WriteTarget) -> DataFrame:
    """Return the rows distributed by `write.distribution-mode`, and sorted in each task if the table has a sort order or does not fan out.

    Without the property, rows of a sorted table are distributed by range and those of a partitioned one by hash, as in Java.
    """
    columns = SourceColumns(rows, target.schema)
    partition_keys = [
        columns.transformed(f.source_id, f.transform) for f in target.spec.fields if not isinstance(f.transform, VoidTransform)
    ]
    sort_keys = [_sorted(columns.transformed(key.source_id, key.transform), key) for key in target.sort_order.fields]
    mode = DISTRIBUTION_MODE.read(target.properties)
    if DISTRIBUTION_MODE.name not in target.properties and sort_keys:
        mode = "range"
    keys = [key.asc_nulls_first() for key in partition_keys] + sort_keys
    if mode == "range" and keys:
        count = target.shuffle_partitions
        rows = rows.repartitionByRange(*keys) if count is None else rows.repartitionByRange(count, *keys)
    elif mode == "hash" and partition_keys:
        rows = _hashed(rows, partition_keys)
    is_clustered = bool(partition_keys) and not FANOUT_ENABLED.read(target.properties)
    return rows.sortWithinPartitions(*keys) if sort_keys or is_clustered else rows


def _hashed(rows: DataFrame, keys: list[Column]) -> DataFrame:
    """Return rows of one partition together, a large partition over several tasks: Spark's rebalance hint, which takes only names of columns."""
    names = [f"{_KEY_PREFIX}{place}" for place in range(len(keys))]
    rows_with_keys = rows.withColumns(dict(zip(names, keys, strict=True)))
    return rows_with_keys.hint("rebalance", *(column_named(name) for name in names)).drop(*names)


def _sorted(key: Column, field: SortField) -> Column:
    nulls_first = field.null_order is NullOrder.NULLS_FIRST
    if field.direction is SortDirection.ASC:
        return key.asc_nulls_first() if nulls_first else key.asc_nulls_last()
    return key.desc_nulls_first() if nulls_first else key.desc_nulls_last()


class SourceColumns:
    """The columns of the rows by field id, and transforms of them."""

    def __init__(self, rows: DataFrame, schema: Schema) -> None:
        self._names = set(rows.columns)
        self._types = {field.name: field.dataType for field in rows.schema.fields}
        self._schema = schema
        self._transforms = transforms_in(rows.sparkSession)

    def transformed(self, source_id: int, transform: Transform) -> Column:
        """Return a transform of a table column, as Spark computes it; a null literal for a column that the rows lack."""
        path = self._schema.path_of(source_id) or ()
        field_type = self._schema.find_type(source_id)
        if not path or path[0] not in self._names or not isinstance(field_type, PrimitiveType):
            return F.lit(None).cast("int")
        column = column_named(path[0])
        for name in path[1:]:
            column = column.getField(name)
        table_type = spark_type(field_type)
        # A narrower column of the rows is cast to the table's type first: buckets and truncation of an int differ from those of a byte.
        if table_type is not None and len(path) == 1 and self._types[path[0]] != table_type and not isinstance(field_type, UUIDType):
            column = column.cast(table_type)
        if isinstance(transform, VoidTransform | UnknownTransform):
            return F.lit(None).cast("int")  # writing refuses transforms of later versions
        return self._transforms.transformed(column, field_type, transform)
