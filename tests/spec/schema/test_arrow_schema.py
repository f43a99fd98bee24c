"""Arrow schemas: the types that a table accepts, and those that it refuses with a next step."""

import pyarrow as pa
import pytest

from icefloe.errors import InvalidSchemaError, UnsupportedTypeError
from icefloe.spec.schema.arrow_schema import schema_from_arrow, schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)


def from_arrow(kind: pa.DataType) -> IcebergType:
    return schema_from_arrow(pa.schema([pa.field("a", kind)]), keep_ids=False).fields[0].field_type


@pytest.mark.parametrize(
    ("arrow", "iceberg"),
    [
        (pa.int8(), IntegerType()),
        (pa.uint16(), IntegerType()),
        (pa.uint32(), LongType()),
        (pa.float16(), FloatType()),
        (pa.date64(), DateType()),
        (pa.time32("s"), TimeType()),
        (pa.time64("us"), TimeType()),
        (pa.timestamp("s"), TimestampType()),
        (pa.timestamp("ms", tz="Europe/Berlin"), TimestamptzType()),
        (pa.timestamp("ns"), TimestampNanoType()),
        (pa.timestamp("ns", tz="UTC"), TimestamptzNanoType()),
        (pa.null(), UnknownType()),
        (pa.large_string(), StringType()),
        (pa.string_view(), StringType()),
        (pa.dictionary(pa.int8(), pa.large_string()), StringType()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LongType()),
        (pa.large_binary(), BinaryType()),
        (pa.binary(5), FixedType(5)),
        (pa.uuid(), UUIDType()),
        (pa.decimal256(20, 3), DecimalType(20, 3)),
        (pa.list_(pa.int8(), 3), ListType(element_id=2, element=IntegerType(), element_required=False)),
        (pa.large_list(pa.int64()), ListType(element_id=2, element=LongType(), element_required=False)),
        (pa.list_view(pa.int64()), ListType(element_id=2, element=LongType(), element_required=False)),
    ],
    ids=str,
)
def test_arrow_types_become_the_narrowest_type_that_holds_them(arrow: pa.DataType, iceberg: IcebergType) -> None:
    assert from_arrow(arrow) == iceberg


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (pa.time64("ns"), r"time64\('us'\)"),
        (pa.uint64(), "int64"),
        (pa.duration("s"), "no such type"),
        (pa.decimal256(50, 0), "38 digits"),
        (pa.decimal128(5, -2), "38 digits"),
        (pa.dictionary(pa.int8(), pa.time64("ns")), "microseconds"),
    ],
    ids=str,
)
def test_a_type_that_the_format_lacks_is_refused_with_advice(kind: pa.DataType, advice: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=advice) as caught:
        from_arrow(kind)
    assert caught.value.problems[0].where == "a"


def test_every_refused_column_is_listed_by_its_full_name() -> None:
    schema = pa.schema([("ok", pa.int32()), ("when", pa.time64("ns")), ("s", pa.struct([("inner", pa.list_(pa.uint64()))]))])
    with pytest.raises(UnsupportedTypeError, match=r"when, s\.inner\.element"):
        schema_from_arrow(schema, keep_ids=False)


def test_a_column_without_a_field_id_is_refused_where_ids_are_kept() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "4"}), pa.field("b", pa.list_(pa.int32()))])
    with pytest.raises(InvalidSchemaError, match=r"without a field id: b, b\.element"):
        schema_from_arrow(schema, keep_ids=True)


def test_a_repeated_name_is_refused() -> None:
    with pytest.raises(InvalidSchemaError):
        schema_from_arrow(pa.schema([pa.field("a", pa.int32()), pa.field("a", pa.int32())]), keep_ids=False)


def test_an_empty_arrow_schema_is_an_empty_schema() -> None:
    assert schema_from_arrow(pa.schema([]), keep_ids=False) == Schema()


def test_field_ids_are_in_the_metadata_of_every_level_and_required_is_not_nullable() -> None:
    arrow_schema = schema_to_arrow(Schema(NestedField(7, "a", ListType(element_id=8, element=UUIDType()), required=True)))
    field = arrow_schema.field("a")
    assert field.metadata == {b"PARQUET:field_id": b"7"}
    assert not field.nullable
    assert field.type.value_field.metadata == {b"PARQUET:field_id": b"8"}
    assert field.type.value_type == pa.binary(16)
