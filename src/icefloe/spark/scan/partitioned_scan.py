"""`PartitionedScan`: a scan that reports its partitions to Spark, so that joins and aggregates by partition fields need no shuffle (storage-partitioned joins).

For queries that benefit, `bridge/java/SparkRule.java` plans a scan of Spark's connector interface (`bridge/java/PartitionedFiles.java`). It reads the files as
Spark's own file scan does, but reports their partitions. For all other queries the rule plans the result of `rows`. Spec: Partitioning; Partition Transforms.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegerType, StructField

from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.gateway import java_array, java_class
from icefloe.spark.bridge.messages import Expression
from icefloe.spark.functions.spark_functions import function_of_width
from icefloe.spark.scan.metadata_column_values import OWN_PREFIX, as_constant
from icefloe.spark.scan.native_scan import FileValues
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.runtime_filtered_scan import RuntimeFilteredScan, can_read_partitions
from icefloe.spark.types.spark_types import has_geo_type, quote_name, schema_to_struct
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.partitioning.partition_spec import PartitionField
from icefloe.spec.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, FloatType, NestedField

_EXPRESSIONS = "org.apache.spark.sql.connector.expressions.Expressions"
_PARTITIONING = "org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning"
_PARTIALLY_CLUSTERED = "spark.sql.sources.v2.bucketing.partiallyClusteredDistribution.enabled"
# Spark's functions for the transforms of dates and times.
_TIMES: Mapping[type[Transform], str] = {YearTransform: "years", MonthTransform: "months", DayTransform: "days", HourTransform: "hours"}


def partitioned_scan(pushed: PushedScan) -> "PartitionedScan | None":
    """Return a scan of a pushed query that reports its partitions.

    Return None if `keys` of the scan is empty, a column has a geo type, or `can_read_partitions` is False; and for a DELETE or UPDATE.
    """
    operation = pushed.query.get("operation")
    # Of DELETE and UPDATE, Spark plans the subqueries apart, before it joins them, so that these do not report their partitions. If partitions are partially
    # clustered, several tasks may have a row of a MERGE's target, and none of them finds that several rows of the source match it.
    if operation not in (None, "MERGE") or (operation and _is_partially_clustered(pushed)):
        return None
    if not can_read_partitions(pushed):
        return None
    scan = PartitionedScan(pushed)
    return scan if scan.keys and not has_geo_type(scan.struct) else None


def _is_partially_clustered(pushed: PushedScan) -> bool:
    """Return whether several tasks may read a partition. Spark ignores the case of the setting's value."""
    return str(pushed.spark.conf.get(_PARTIALLY_CLUSTERED, "false")).strip().lower() == "true"


def _is_key(field: PartitionField, column: NestedField) -> bool:
    """Return whether Spark can group by a field: it has the transform. Identity fields of floats are refused, because 0.0 and -0.0 are equal in Spark."""
    if isinstance(field.transform, IdentityTransform):
        return not isinstance(column.field_type, FloatType | DoubleType)
    return isinstance(field.transform, (BucketTransform, TruncateTransform, *_TIMES))


def _has_values_of_column(field: PartitionField) -> bool:
    """Return whether the partition values of a field have the type of its source column; for other transforms they are ints."""
    return isinstance(field.transform, IdentityTransform | TruncateTransform)


class PartitionedScan(RuntimeFilteredScan):
    """A scan whose splits have only files with the same values of the partition fields in `keys`, which it reports to Spark."""

    interfaces: ClassVar[tuple[str, ...]] = (*RuntimeFilteredScan.interfaces, "read.SupportsReportPartitioning")

    @cached_property
    def keys(self) -> list[tuple[PartitionField, NestedField]]:
        """The partition fields by which splits are grouped, each with its source column. All specs of the plan have the field, and Spark reads the column."""
        request = self.request
        specs = [{field.field_id: field for field in request.specs[part.spec_id].fields} for part in request.plan.parts]
        columns = {field.field_id: field for field in request.projection.fields}
        return [
            (field, columns[field.source_id])
            for field in (specs[0].values() if specs else ())
            if all(_is_same(field, spec.get(field.field_id)) for spec in specs)
            and field.source_id in columns
            and _is_key(field, columns[field.source_id])
        ]

    def constants(self) -> Mapping[str, Any]:
        """Return the results that never change; and in `partitionKeys` the source id, transform and source column of each field in `keys`, for MERGE."""
        keys = [[field.source_id, str(field.transform), column.name] for field, column in self.keys]
        return {**super().constants(), "partitionKeys": keys}

    @connector_method
    def filter_attributes(self) -> list[str]:
        """Return the columns by which Spark prunes files at run time; for a row-level operation none, because the keys of its source prune the target."""
        return [] if self._pushed.query.get("operation") is not None else super().filter_attributes()

    @connector_method
    def narrow_partitions(self, predicates: list[Expression]) -> "PartitionedScan":
        """Return a scan as `narrow` does, which reports the same partition fields."""
        scan = PartitionedScan(self._with_filters(predicates))
        scan.keys = self.keys  # the remaining files may have further fields in common
        return scan

    @connector_method
    def output_partitioning(self) -> Any:
        """Return Spark's `KeyGroupedPartitioning`, with the transforms of `keys` and the number of distinct partitions."""
        spark = self._pushed.spark
        expressions = java_class(spark, _EXPRESSIONS)
        keys = []
        for field, column in self.keys:
            if isinstance(field.transform, BucketTransform):
                keys.append(
                    expressions.bucket(field.transform.num_buckets, java_array(spark, "java.lang.String", [quote_name(column.name)]))
                )
            elif isinstance(field.transform, IdentityTransform):
                keys.append(expressions.identity(quote_name(column.name)))
            elif isinstance(field.transform, TruncateTransform):
                arguments = java_array(
                    spark, "org.apache.spark.sql.connector.expressions.Expression", [expressions.column(quote_name(column.name))]
                )
                keys.append(expressions.apply(function_of_width(field.transform.width), arguments))
            else:
                keys.append(getattr(expressions, _TIMES[type(field.transform)])(quote_name(column.name)))
        array = java_array(spark, "org.apache.spark.sql.connector.expressions.Expression", keys)
        values = self._key_values()
        return java_class(spark, _PARTITIONING)(array, values.group_by(values.column_names).aggregate([]).num_rows)

    @connector_method
    def share_of_largest_partition(self) -> float:
        """Return which share of the rows in the planned files the largest partition has; 1 for a plan without rows."""
        values = self._key_values()
        counts = self.request.plan.files["record_count"]
        rows = values.append_column("rows", counts).group_by(values.column_names).aggregate([("rows", "sum")])["rows_sum"]
        return float((pc.max(rows).as_py() or 1) / (pc.sum(rows).as_py() or 1))

    def _key_values(self) -> Any:
        """Return a table with the values of the fields in `keys` for each planned file."""
        return pa.table(
            [_values(field, column, self.request.plan.files) for field, column in self.keys], list(map(str, range(len(self.keys))))
        )

    @property
    def split_keys(self) -> Sequence[tuple[StructField, FileValues]]:
        """A column for each field in `keys`, with a function that returns the field's value for each file."""
        names = [f"{OWN_PREFIX}key {index}" for index in range(len(self.keys))]
        return [(StructField(name, _type_of(*key)), partial(_values, *key)) for name, key in zip(names, self.keys, strict=True)]


def _is_same(field: PartitionField, other: PartitionField | None) -> bool:
    """Return whether two partition fields have the same source column and transform; their names may differ."""
    return other is not None and (field.source_id, field.transform) == (other.source_id, other.transform)


def _type_of(field: PartitionField, column: NestedField) -> Any:
    """Return the Spark type of the values of a partition field."""
    return schema_to_struct(Schema(column), field_ids=False)[0].dataType if _has_values_of_column(field) else IntegerType()


def _values(field: PartitionField, column: NestedField, files: Any) -> Any:
    """Return the value of a partition field for each file, as an Arrow array of the type that Spark needs."""
    values = files[partition_column(field.field_id)]
    return as_constant(values, column.field_type) if _has_values_of_column(field) else values.cast(pa.int32())
