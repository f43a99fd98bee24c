"""A filter on Spark and the same filter on Arrow rows keep the same rows."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType as LongSpark

from icefloe.errors import InvalidFilterError
from icefloe.spark.scan.filter_to_spark import filter_to_column
from icefloe.spark.types.arrow_conversion import to_spark_form
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import (
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    StartsWith,
)
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

NAN, INF = float("nan"), float("inf")
UTC = dt.UTC
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "bool": (BooleanType(), [True, False]),
    "int": (IntegerType(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    "long": (LongType(), [-(2**63), -5, 0, 2**53 + 1, 2**63 - 1]),
    "float": (FloatType(), [NAN, -INF, INF, -0.0, 0.0, 0.1, 1e30]),
    "double": (DoubleType(), [NAN, -INF, INF, -0.0, 0.0, 0.1, 1e300]),
    "decimal": (DecimalType(20, 4), [Decimal("-1.5000"), Decimal("0.0000"), Decimal("1234567890123456.7891")]),
    "date": (DateType(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]),
    "ntz": (TimestampType(), [dt.datetime(1500, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 3, 31, 2, 30)]),
    "utc": (TimestamptzType(), [dt.datetime(1883, 1, 1, tzinfo=UTC), dt.datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC)]),
    "string": (StringType(), ["", "a", "ab", "a%", "a_c", "é", "\U0001f9ca", "B'\"\\"]),
    "bytes": (BinaryType(), [b"", b"\x00", b"\x7f", b"\x80\xff"]),
    "uuid": (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=1 << 127), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")]),
}
SCHEMA = Schema(
    *(NestedField(place + 1, name, kind) for place, (name, (kind, _)) in enumerate(VALUES.items())),
    NestedField(90, "odd `name`.x", LongType()),
    NestedField(91, "s", StructType(NestedField(92, "inner", StringType()))),
)


def table() -> pa.Table:
    longest = max(len(values) for _, values in VALUES.values()) + 1
    columns = {}
    for name, (_, values) in VALUES.items():
        plain = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        columns[name] = [*plain, *[None] * (longest - len(plain))]
    columns["odd `name`.x"] = [1, None] * (longest // 2) + [2] * (longest % 2)
    columns["s"] = [{"inner": "a"}, None, {"inner": None}] + [{"inner": "b"}] * (longest - 3)
    return pa.table(columns, schema=schema_to_arrow(SCHEMA))


def filters() -> list[BooleanExpression]:
    found: list[BooleanExpression] = []
    for name, (kind, values) in VALUES.items():
        found += [IsNull(name), NotNull(name)]
        for value in values:
            found += [test(name, value) for test in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)]
        found += [In(name, values[:2]), NotIn(name, values[:2]), In(name, values), ~In(name, values[-1:])]
        if isinstance(kind, FloatType | DoubleType):
            found += [IsNaN(name), NotNaN(name), ~IsNaN(name)]
        if isinstance(kind, StringType):
            found += [test(name, prefix) for test in (StartsWith, NotStartsWith) for prefix in ("a", "a%", "a_", "B'\"\\", "é")]
    found += [~(EqualTo("int", 7) & LessThan("long", 0)), EqualTo("int", 7) | IsNull("bool"), EqualTo("s.inner", "a"), IsNull("s")]
    found += [LessThan("int", 2.5), GreaterThan("int", 10**12), EqualTo("float", 0.1), GreaterThan("decimal", "0.00005")]
    return found


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_spark_and_arrow_keep_the_same_rows(spark: SparkSession, zone: str) -> None:
    rows = table()
    crossing = pa.table({f.name: to_spark_form(rows[f.name], f.field_type) for f in SCHEMA.fields})
    crossing = crossing.append_column("row", pa.array(range(len(crossing))))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        struct = schema_to_struct(SCHEMA, field_ids=False).add("row", LongSpark())
        frame = spark.range(0, 1, 1, 1).mapInArrow(lambda _: crossing.to_batches(), struct).cache()
        bound = [bind(expression, SCHEMA) for expression in filters()]
        tests = frame.select("row", *(filter_to_column(expression).alias(f"f{place}") for place, expression in enumerate(bound))).collect()
        frame.unpersist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for place, expression in enumerate(bound):
        kept = {row["row"] for row in tests if row[f"f{place}"]}
        expected = {number for number, keep in enumerate(arrow_mask(expression, rows).to_pylist()) if keep}
        assert kept == expected, str(expression)


@pytest.mark.spark
def test_a_column_is_found_by_its_exact_name_with_any_characters(spark: SparkSession) -> None:
    frame = spark.range(3).withColumnRenamed("id", "odd `name`.x")
    bound = bind(EqualTo("odd `name`.x", 2), SCHEMA)
    assert frame.where(filter_to_column(bound)).count() == 1


@pytest.mark.spark
def test_an_unbound_filter_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidFilterError, match="not bound"):
        filter_to_column(to_expression("int = 1"))
