"""Schemas to Spark's structs and back, without a running Spark."""

import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField

from icefloe.errors import UnsupportedTypeError
from icefloe.spark.types.spark_types import SPARK_TIME, schema_to_struct, struct_to_schema
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

POINT = StructType(NestedField(7, "x", DoubleType(), required=True, doc="east"), NestedField(8, "y", DoubleType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True, doc="the key"),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "at_utc", TimestamptzType()),
    NestedField(4, "points", ListType(element_id=5, element=POINT, element_required=False)),
    NestedField(6, "tags", MapType(key_id=9, key_type=StringType(), value_id=10, value_type=IntegerType(), value_required=False)),
    NestedField(11, "price", DecimalType(12, 3)),
)


def test_every_struct_level_carries_its_field_ids() -> None:
    struct = schema_to_struct(SCHEMA)
    assert [field.metadata["parquet.field.id"] for field in struct.fields] == [1, 2, 3, 4, 6, 11]
    points = struct["points"].dataType
    assert isinstance(points, spark_types.ArrayType)
    assert isinstance(points.elementType, spark_types.StructType)
    assert [field.metadata["parquet.field.id"] for field in points.elementType.fields] == [7, 8]
    assert (points.containsNull, points.elementType["x"].nullable, points.elementType["x"].metadata["comment"]) == (True, False, "east")


def test_without_field_ids_only_comments_are_metadata() -> None:
    assert [field.metadata for field in schema_to_struct(SCHEMA, field_ids=False).fields[:2]] == [{"comment": "the key"}, {}]


@pytest.mark.parametrize(
    ("iceberg", "spark"),
    [
        (BooleanType(), "boolean"),
        (IntegerType(), "int"),
        (LongType(), "bigint"),
        (FloatType(), "float"),
        (DoubleType(), "double"),
        (DecimalType(38, 0), "decimal(38,0)"),
        (DateType(), "date"),
        (TimestampType(), "timestamp_ntz"),
        (TimestamptzType(), "timestamp"),
        (StringType(), "string"),
        (UUIDType(), "string"),
        (FixedType(5), "binary"),
        (BinaryType(), "binary"),
        (GeometryType(), "binary"),
        (GeographyType(), "binary"),
        (UnknownType(), "void"),
        (VariantType(), "variant"),
    ],
)
def test_each_primitive_has_one_spark_type(iceberg: object, spark: str) -> None:
    assert schema_to_struct(Schema(NestedField(1, "a", iceberg)))["a"].dataType.simpleString() == spark  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [TimestampNanoType(), TimestamptzNanoType()])
def test_nanoseconds_are_refused_by_name(kind: IcebergType) -> None:
    inner = StructType(NestedField(2, "at", kind))
    with pytest.raises(UnsupportedTypeError, match=r"s\.at: type timestamp"):
        schema_to_struct(Schema(NestedField(1, "s", inner)))


def test_variants_and_nulls_have_a_type_in_tables() -> None:
    struct = spark_types.StructType([StructField("v", spark_types.VariantType()), StructField("n", spark_types.NullType())])
    assert [field.field_type for field in struct_to_schema(struct).fields] == [VariantType(), UnknownType()]


def test_a_schema_is_converted_to_spark_and_back() -> None:
    assert struct_to_schema(schema_to_struct(SCHEMA)) == assign_fresh_ids(SCHEMA)


@pytest.mark.skipif(SPARK_TIME is None, reason="this Spark has no TIME type")
def test_a_time_is_a_time_of_microseconds() -> None:
    struct = schema_to_struct(Schema(NestedField(1, "t", TimeType())))
    assert struct["t"].dataType.simpleString() == "time(6)"
    assert struct_to_schema(struct).find_type("t") == TimeType()


@pytest.mark.skipif(SPARK_TIME is not None, reason="this Spark has a TIME type")
def test_a_time_is_refused_by_name_where_spark_has_none() -> None:
    with pytest.raises(UnsupportedTypeError, match="t: type time"):
        schema_to_struct(Schema(NestedField(1, "t", TimeType())))


def test_small_integers_and_bounded_strings_become_the_next_iceberg_type() -> None:
    struct = spark_types.StructType(
        [
            StructField("b", spark_types.ByteType()),
            StructField("s", spark_types.ShortType()),
            StructField("v", spark_types.VarcharType(9)),
        ]
    )
    assert [field.field_type for field in struct_to_schema(struct).fields] == [IntegerType(), IntegerType(), StringType()]


def test_every_column_without_a_counterpart_is_named() -> None:
    inner = spark_types.StructType([StructField("deep", spark_types.ArrayType(spark_types.DayTimeIntervalType()))])
    struct = spark_types.StructType(
        [
            StructField("n", spark_types.CalendarIntervalType()),
            StructField("ok", spark_types.LongType()),
            StructField("s", inner),
        ]
    )
    with pytest.raises(UnsupportedTypeError) as caught:
        struct_to_schema(struct)
    assert [problem.where for problem in caught.value.problems] == ["n", "s.deep.element"]
