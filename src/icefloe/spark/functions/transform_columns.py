"""Partition transforms as Spark's own expressions, for the order of writes and for SQL functions.

The results equal those of `icefloe/spec/partitioning/transforms.py`. For null the result is null.
Spec: Partition Transforms; Bucket Transform Details; Truncate Transform Details.
"""

from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter

from icefloe.spark.bridge.catalyst import (
    check_overflow,
    column_of,
    data_type,
    expression_of,
    invoke,
    literal,
    micros_of,
    murmur3_hash,
    object_type,
    static_invoke,
)
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.functions.portable_transforms import PortableTransforms, truncate_column, uuid_bytes
from icefloe.spec.partitioning.transforms import BucketTransform, TruncateTransform
from icefloe.spec.types import BinaryType, DecimalType, FixedType, PrimitiveType, StringType, TimestampNanoType, TimestampType, UUIDType


def transforms_in(spark: SparkSession) -> PortableTransforms:
    """Return the fastest implementation of transforms that works in a session."""
    return TransformColumns(spark) if has_jvm(spark) else PortableTransforms()


class TransformColumns(PortableTransforms):
    """Computes partition transforms of columns in a classic session, with expressions of Catalyst where these are faster."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def bucket(self, column: Column, kind: PrimitiveType, buckets: Column) -> Column:
        """Return the bucket (int) of a column.

        Args:
            column: The column.
            kind: The Iceberg type of the column.
            buckets: The number of buckets, an int column.
        """
        return self._hash(column, kind).bitwiseAND(F.lit(0x7FFFFFFF)) % buckets

    def truncate(self, column: Column, kind: PrimitiveType, width: Column) -> Column:
        """Return the result of `truncate` of a column, with the same type.

        Args:
            column: The column.
            kind: The Iceberg type of the column.
            width: An int column. Texts keep this number of code points, bytes this number of bytes, and numbers are rounded down to a multiple of it.
        """
        return self._truncated_decimals(column, kind, width) if isinstance(kind, DecimalType) else truncate_column(column, kind, width)

    def truncate_of(self, column: Column, kind: PrimitiveType, transform: TruncateTransform) -> Column:
        """Return the result of a spec's truncate transform of a column, with the same type."""
        return self.truncate(column, kind, F.lit(transform.width))

    def bucket_of(self, column: Column, kind: PrimitiveType, transform: BucketTransform) -> Column:
        """Return the result of a spec's bucket transform of a column (int)."""
        return self.bucket(column, kind, F.lit(transform.num_buckets))

    def _hash(self, column: Column, kind: PrimitiveType) -> Column:
        spark = self._spark
        if isinstance(kind, StringType):
            return self._hash_of_bytes(expression_of(spark, column.cast("binary")))
        if isinstance(kind, FixedType | BinaryType):
            return self._hash_of_bytes(expression_of(spark, column))
        if isinstance(kind, UUIDType):
            return self._hash_of_bytes(expression_of(spark, uuid_bytes(column)))
        if isinstance(kind, DecimalType):
            unscaled = invoke(spark, self._big_decimal(column), "unscaledValue", object_type(spark, "java.math.BigInteger"))
            return self._hash_of_bytes(invoke(spark, unscaled, "toByteArray", data_type(spark, "binary")))
        number = self.whole_number(column, kind)
        # Spark's hash of a long is the hash of the specification, but its hash of bytes is not.
        return F.when(number.isNotNull(), column_of(spark, murmur3_hash(spark, number)))

    def _hash_of_bytes(self, content: Any) -> Column:
        """Return the specification's hash for buckets (int) of an expression of type binary."""
        hasher = "org.apache.commons.codec.digest.MurmurHash3"
        hashed = static_invoke(self._spark, hasher, "hash32x86", data_type(self._spark, "int"), [content], returns_null=False)
        return column_of(self._spark, hashed)

    def _micros(self, column: Column, kind: PrimitiveType) -> Column:
        """Convert timestamps or times to microseconds. For timestamps without a zone it is faster than the base class: it takes Spark's internal value."""
        if not isinstance(kind, TimestampType | TimestampNanoType):
            return super()._micros(column, kind)
        return micros_of(self._spark, column, has_zone=False)

    def _truncated_decimals(self, column: Column, kind: DecimalType, width: Column) -> Column:
        """Truncate decimals by Java's `BigDecimal`, because a result can need one digit more than Spark's type has. Then the query fails with Spark's error."""
        spark, exact = self._spark, object_type(self._spark, "java.math.BigDecimal")
        value = self._big_decimal(column)
        unscaled = [expression_of(spark, width.cast("bigint")), literal(spark, kind.scale, data_type(spark, "int"))]
        step = static_invoke(spark, "java.math.BigDecimal", "valueOf", exact, unscaled, returns_null=False)
        rest = invoke(spark, value, "remainder", exact, [step])
        rest = invoke(spark, invoke(spark, rest, "add", exact, [step]), "remainder", exact, [step])
        truncated_value = invoke(spark, value, "subtract", exact, [rest])
        decimal = data_type(spark, f"decimal({kind.precision},{kind.scale})")
        as_decimal = static_invoke(spark, "org.apache.spark.sql.types.Decimal", "apply", decimal, [truncated_value], returns_null=False)
        return column_of(spark, check_overflow(spark, as_decimal, decimal))

    def _big_decimal(self, column: Column) -> Any:
        return invoke(self._spark, expression_of(self._spark, column), "toJavaBigDecimal", object_type(self._spark, "java.math.BigDecimal"))
