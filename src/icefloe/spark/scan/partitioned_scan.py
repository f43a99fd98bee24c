"""`PartitionedScan`: a scan that reports its partitions to Spark, so that joins and aggregates by partition fields need no shuffle (storage-partitioned joins).

The planned files stay a scan of Spark's connector, which reads each with the Parquet reader of Spark's own connector (`bridge/java/PartitionedBatch.java`);
`native_scan.py` reads all other scans, whose files Spark groups by size. Spec: Partitioning; Partition Transforms.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.types import IntegerType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.partitioning.partition_spec import PartitionField
from icefloe.kernel.partitioning.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    YearTransform,
)
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import DoubleType, FloatType, NestedField
from icefloe.spark.bridge.callback import connector_method
from icefloe.spark.bridge.gateway import executors_have_classes, java_array, java_class, new_object
from icefloe.spark.scan.metadata_column_values import as_constant
from icefloe.spark.scan.native_scan import PATH_COLUMN, READER_OPTIONS, SIZE_COLUMN, FileGroup, constant_values, hadoop_paths, stream_of
from icefloe.spark.scan.read_options import session_for
from icefloe.spark.scan.read_strategy import bare_group
from icefloe.spark.scan.spark_scan import PushedScan, SparkScan
from icefloe.spark.types.spark_types import quoted, schema_to_struct

_EXPRESSIONS = "org.apache.spark.sql.connector.expressions.Expressions"
_PARTITIONING = "org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning"
# Spark's functions of the transforms of times.
_TIMES: Mapping[type[Transform], str] = {YearTransform: "years", MonthTransform: "months", DayTransform: "days", HourTransform: "hours"}


def partitioned_scan(pushed: PushedScan) -> "PartitionedScan | None":
    """Return the scan of a pushed query that reports its partitions.

    None where Spark's reader cannot read the files as they are, or where no partition field is in all specs.
    """
    if pushed.query.get("operation") is not None or not {"aggregation", "limit"}.isdisjoint(pushed.query):
        return None
    if not executors_have_classes(pushed.spark):
        return None
    scan = PartitionedScan(pushed)
    return scan if scan.keys and scan.group is not None else None


def _is_key(field: PartitionField, column: NestedField) -> bool:
    """Return whether Spark has the transform, and equal values are in equal partitions: 0.0 and -0.0 are not, which Spark joins."""
    if isinstance(field.transform, IdentityTransform):
        return not isinstance(column.field_type, FloatType | DoubleType)
    return isinstance(field.transform, (BucketTransform, *_TIMES))


class PartitionedScan(SparkScan):
    """Spark's scan of the files of a table, grouped by the partition fields that all of them have. Columns with one value per file come last."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.SupportsReportPartitioning", "read.SupportsReportStatistics")

    def __init__(self, pushed: PushedScan) -> None:
        super().__init__(pushed)
        if self.group is not None:
            fields = self._struct.fields
            self._schema = SparkStruct(sorted(fields, key=lambda field: field.name in self._constant_names)).json()
            self.__dict__.pop("request", None)
            self.__dict__.pop("_projection", None)

    def state(self) -> str | None:
        """Return None: Java keeps no scans with partitions, whose batch has the settings of its statement."""
        return None

    @cached_property
    def group(self) -> FileGroup | None:
        """Return the files; None where Spark's reader cannot read them as they are."""
        return bare_group(self._pushed.spark, self.request)

    @cached_property
    def keys(self) -> list[tuple[PartitionField, NestedField]]:
        """Return the partition fields that all specs of the plan have, each with its column, where Spark has a function for the transform."""
        request = self.request
        specs = [request.specs[part.spec_id].fields for part in request.plan.parts]
        common = [field for field in specs[0] if all(field in fields for fields in specs)] if specs else []
        columns = {field.field_id: field for field in request.schema.fields}
        return [
            (field, columns[field.source_id]) for field in common if field.source_id in columns and _is_key(field, columns[field.source_id])
        ]

    @property
    def _constant_names(self) -> set[str]:
        constant_ids = frozenset() if self.group is None else self.group.constant_ids
        return {field.name for field in self.request.projection.fields if field.field_id in constant_ids}

    @connector_method
    def output_partitioning(self) -> Any:
        """Return Spark's description of the partitions."""
        spark = self._pushed.spark
        expressions = java_class(spark, _EXPRESSIONS)
        keys = []
        for field, column in self.keys:
            if isinstance(field.transform, BucketTransform):
                keys.append(expressions.bucket(field.transform.num_buckets, java_array(spark, "java.lang.String", [quoted(column.name)])))
            elif isinstance(field.transform, IdentityTransform):
                keys.append(expressions.identity(quoted(column.name)))
            else:
                keys.append(getattr(expressions, _TIMES[type(field.transform)])(quoted(column.name)))
        array = java_array(spark, "org.apache.spark.sql.connector.expressions.Expression", keys)
        return java_class(spark, _PARTITIONING)(array, self._key_table.group_by(self._key_table.column_names).aggregate([]).num_rows)

    @cached_property
    def _key_table(self) -> Any:
        """Return the values of the keys, one row for each file."""
        files = self.request.plan.files
        arrays = {}
        for index, (field, column) in enumerate(self.keys):
            values = files[partition_column(field.field_id)]
            is_identity = isinstance(field.transform, IdentityTransform)
            arrays[f"key {index}"] = as_constant(values, column.field_type) if is_identity else values.cast(pa.int32())
        return pa.table(arrays)

    @connector_method
    def to_batch(self) -> Any:
        """Return Spark's batch of the files: their splits, and the factory of their readers."""
        spark, request, files = self._pushed.spark, self.request, self.request.plan.files
        session = session_for(spark, self._pushed.query, self._pushed.scan.metadata.properties)
        java = session._jsparkSession
        columns = [field for field in request.projection.fields if field.name in self._constant_names]
        constants = schema_to_struct(Schema(*columns), field_ids=False)
        data = schema_to_struct(Schema(*(field for field in request.projection.fields if field not in columns)))
        keys = [
            StructField(
                name,
                schema_to_struct(Schema(column), field_ids=False)[0].dataType
                if isinstance(field.transform, IdentityTransform)
                else IntegerType(),
            )
            for name, (field, column) in zip(self._key_table.column_names, self.keys, strict=True)
        ]
        arrays = {PATH_COLUMN: hadoop_paths(files["file_path"]), SIZE_COLUMN: files["file_size_in_bytes"].cast(pa.int64())}
        arrays |= dict(zip(self._key_table.column_names, self._key_table.columns, strict=True))
        arrays |= {f"constant {index}": constant_values(files, column, request.specs) for index, column in enumerate(columns)}
        in_files = java.parseDataType(SparkStruct([*keys, *constants.fields]).json())
        planned = new_object(spark, "PlannedFiles", stream_of(pa.table(arrays)), in_files, f"icefloe:/{request.table_name}", 1)
        split_bytes = java.sessionState().conf().filesMaxPartitionBytes()
        java_data, java_constants = (java.parseDataType(struct.json()) for struct in (data, constants))
        return new_object(spark, "PartitionedBatch", java, planned, len(keys), java_data, java_constants, split_bytes, dict(READER_OPTIONS))
