"""Partition transforms as columns of Spark's own expressions, computed where the rows are: for the order of writes and for functions of SQL.

They give what `kernel.partitioning.transforms` gives. A null gives null.
Spec: Partition Transforms; Bucket Transform Details; Truncate Transform Details.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.classic.column import Column as ClassicColumn

from icefloe.kernel.partitioning.transforms import BucketTransform, TruncateTransform
from icefloe.kernel.types import BinaryType, DecimalType, FixedType, PrimitiveType, StringType, TimestampNanoType, TimestampType, UUIDType
from icefloe.spark.bridge.gateway import jvm_of
from icefloe.spark.functions.portable_transforms import PortableTransforms, truncated, uuid_bytes
from icefloe.spark.scan.spark_parquet_scan import gateway_is_at_hand


def transforms_in(spark: SparkSession) -> PortableTransforms:
    """The best that a session has."""
    return TransformColumns(spark) if gateway_is_at_hand(spark) else PortableTransforms()


class TransformColumns(PortableTransforms):
    """Transforms in one classic session."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = jvm_of(spark)

    def bucket(self, column: Column, kind: PrimitiveType, buckets: Column) -> Column:
        """The bucket (int) of a column; `buckets` (int) is their number."""
        return self._hash(column, kind).bitwiseAND(F.lit(0x7FFFFFFF)) % buckets

    def truncate(self, column: Column, kind: PrimitiveType, width: Column) -> Column:
        """A column of the same type: rounded down to a multiple of `width` (int), or so many code points or bytes of it."""
        return self._truncated_decimals(column, kind, width) if isinstance(kind, DecimalType) else truncated(column, kind, width)

    def truncate_of(self, column: Column, kind: PrimitiveType, transform: TruncateTransform) -> Column:
        """As `truncate`, of a partition spec's transform."""
        return self.truncate(column, kind, F.lit(transform.width))

    def bucket_of(self, column: Column, kind: PrimitiveType, transform: BucketTransform) -> Column:
        """As `bucket`, of a partition spec's transform."""
        return self.bucket(column, kind, F.lit(transform.num_buckets))

    def _hash(self, column: Column, kind: PrimitiveType) -> Column:
        if isinstance(kind, StringType):
            return self._hash_of_bytes(column.cast("binary"))
        if isinstance(kind, FixedType | BinaryType):
            return self._hash_of_bytes(column)
        if isinstance(kind, UUIDType):
            return self._hash_of_bytes(uuid_bytes(column))
        if isinstance(kind, DecimalType):
            unscaled = self._call(self._big_decimal(column), "unscaledValue", self._object("java.math.BigInteger"))
            return self._hash_of_bytes(self._column(self._call(unscaled, "toByteArray", self._type("binary"))))
        number = self._whole_number(column, kind)
        # Of a long alone Spark's own hash is that of the spec; of bytes it is another one.
        hashed = self._jvm.org.apache.spark.sql.catalyst.expressions.Murmur3Hash(self._sequence([self._expression(number)]), 0)
        return F.when(number.isNotNull(), self._column(hashed))

    def _hash_of_bytes(self, column: Column) -> Column:
        hasher = "org.apache.commons.codec.digest.MurmurHash3"
        return self._column(self._call_static(hasher, "hash32x86", self._type("int"), [self._expression(column)]))

    def _micros(self, column: Column, kind: PrimitiveType) -> Column:
        """A timestamp without a zone is held as what is asked for."""
        if not isinstance(kind, TimestampType | TimestampNanoType):
            return super()._micros(column, kind)
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        held = expressions.PreciseTimestampConversion(self._expression(column), self._type("timestamp_ntz"), self._type("bigint"))
        return self._column(held)

    def _truncated_decimals(self, column: Column, kind: DecimalType, width: Column) -> Column:
        """By Java's decimals, which hold one digit more than Spark's where they need it; what no longer fits the type is Spark's error."""
        exact = self._object("java.math.BigDecimal")
        value = self._big_decimal(column)
        scale = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal(kind.scale, self._type("int"))
        step = self._call_static("java.math.BigDecimal", "valueOf", exact, [self._expression(width.cast("bigint")), scale])
        rest = self._call(value, "remainder", exact, [step])
        rest = self._call(self._call(rest, "add", exact, [step]), "remainder", exact, [step])
        found = self._call(value, "subtract", exact, [rest])
        wanted = self._type(f"decimal({kind.precision},{kind.scale})")
        made = self._call_static("org.apache.spark.sql.types.Decimal", "apply", wanted, [found])
        return self._column(self._jvm.org.apache.spark.sql.catalyst.expressions.CheckOverflow(made, wanted, False))

    # Expressions of Spark's that its public functions do not make. Executors know every class that they name.

    def _expression(self, column: Column) -> Any:
        return self._jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)

    def _column(self, expression: Any) -> Column:
        return ClassicColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _big_decimal(self, column: Column) -> Any:
        return self._call(self._expression(column), "toJavaBigDecimal", self._object("java.math.BigDecimal"))

    def _call(self, target: Any, method: str, result: Any, arguments: Sequence[Any] = ()) -> Any:
        objects = self._jvm.org.apache.spark.sql.catalyst.expressions.objects
        return objects.Invoke(target, method, result, self._sequence(arguments), self._sequence(()), True, True, True)

    def _call_static(self, class_name: str, method: str, result: Any, arguments: Sequence[Any]) -> Any:
        objects = self._jvm.org.apache.spark.sql.catalyst.expressions.objects
        holder = self._jvm.java.lang.Class.forName(class_name)
        no_function = self._jvm.scala.Option.empty()
        return objects.StaticInvoke(holder, result, method, self._sequence(arguments), self._sequence(()), True, False, True, no_function)

    def _sequence(self, parts: Sequence[Any]) -> Any:
        held = self._jvm.java.util.ArrayList()
        for part in parts:
            held.add(part)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(held)

    def _type(self, text: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.DataType.fromDDL(text)

    def _object(self, class_name: str) -> Any:
        return self._jvm.org.apache.spark.sql.types.ObjectType(self._jvm.java.lang.Class.forName(class_name))
