"""Default values: columns that files lack, rows that come without a column, and invalid defaults."""

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icefloe.errors import FormatError, InvalidInputError, InvalidSchemaError, SchemaMismatchError
from icefloe.spec.nested_values import nested_from_json, nested_to_physical
from icefloe.spec.schema.arrow_types import type_to_arrow
from icefloe.spec.schema.default_values import constant_column, initial_default_column, write_default_column
from icefloe.spec.schema.schema import Schema, assign_fresh_ids
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
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
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

POINT = StructType(NestedField(2, "x", LongType(), initial_default=0, write_default=7), NestedField(3, "y", LongType(), initial_default=0))
NAMES = ListType(element_id=4, element=StringType(), element_required=False)
SIZES = MapType(key_id=5, key_type=StringType(), value_id=6, value_type=LongType())


def column(kind: IcebergType, *, required: bool = False, initial: Any = None, write: Any = None) -> NestedField:
    return NestedField(1, "a", kind, required, None, initial, write)


@pytest.mark.parametrize(
    ("kind", "physical", "shown"),
    [
        (LongType(), 34, 34),
        (DecimalType(9, 2), Decimal("14.20"), Decimal("14.20")),
        (UUIDType(), uuid.UUID(int=5), uuid.UUID(int=5).bytes),
        (FixedType(2), b"ab", b"ab"),
        (NAMES, ("a", None), ["a", None]),
        (SIZES, (("a", 1),), [("a", 1)]),
        (POINT, (), {"x": 0, "y": 0}),
    ],
)
def test_a_missing_column_has_its_initial_default(kind: IcebergType, physical: Any, shown: Any) -> None:
    values = initial_default_column(column(kind, required=True, initial=physical), 3)
    assert values.to_pylist() == [shown] * 3
    assert values.type == type_to_arrow(kind)
    assert initial_default_column(column(kind), 2).to_pylist() == [None, None]
    assert len(initial_default_column(column(kind, initial=physical), 0)) == 0


@pytest.mark.parametrize(
    ("kind", "physical", "unit"),
    [
        (DateType(), 5, pa.int32()),
        (TimeType(), 7, pa.int64()),
        (TimestamptzType(), -1, pa.int64()),
        (TimestampNanoType(), 123456789, pa.int64()),
    ],
)
def test_times_keep_every_digit(kind: IcebergType, physical: int, unit: Any) -> None:
    assert constant_column(kind, physical, 2).cast(unit).to_pylist() == [physical] * 2


def test_columns_without_defaults_are_null_or_an_error() -> None:
    assert initial_default_column(column(UnknownType()), 2).equals(pa.nulls(2))
    with pytest.raises(FormatError, match=r"column a .* is required"):
        initial_default_column(column(LongType(), required=True, write=5), 1)
    with pytest.raises(FormatError, match="column z"):
        initial_default_column(column(StructType(NestedField(2, "z", LongType(), True)), initial=()), 1)


@pytest.mark.parametrize(
    ("default", "rows", "result"),
    [
        (None, {"id": [1]}, None),
        (None, {"id": [1], "a": [{"x": 3}]}, {"x": 3, "y": None}),
        ((), {"id": [1]}, {"x": 7, "y": None}),
        ((), {"id": [1], "a": [{"y": -1}]}, {"x": 7, "y": -1}),
        (None, {"id": [1], "a": [None]}, None),
        ((), {"id": [1], "a": pa.array([None], pa.struct([("y", pa.int64())]))}, None),
    ],
)
def test_rows_without_a_column_are_written_with_its_write_default(default: Any, rows: dict[str, Any], result: Any) -> None:
    schema = Schema(NestedField(9, "id", LongType()), column(POINT, write=default))
    assert cast_to_schema(pa.table(rows), schema).column("a").to_pylist() == [result]


def test_a_required_column_may_be_left_out_where_it_has_a_write_default() -> None:
    schema = Schema(NestedField(9, "id", LongType()), column(StringType(), required=True, write="new", initial="old"))
    assert cast_to_schema(pa.table({"id": [1, 2]}), schema).column("a").to_pylist() == ["new", "new"]
    with pytest.raises(SchemaMismatchError, match="a: has 1 nulls, and is required"):  # an explicit null is not a missing column
        cast_to_schema(pa.table({"id": [1], "a": pa.array([None], pa.string())}), schema)
    assert write_default_column(schema.find_field("a"), 1).to_pylist() == ["new"]


def test_a_default_struct_needs_every_required_field() -> None:
    inner = StructType(NestedField(2, "z", LongType(), True))
    schema = Schema(NestedField(9, "id", LongType()), column(inner, write=()))
    with pytest.raises(SchemaMismatchError, match=r"a\.z: is missing, and is required"):
        cast_to_schema(pa.table({"id": [1]}), schema)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (LongType(), "5"),
        (DecimalType(4, 2), Decimal("1.001")),
        (FixedType(2), b"abc"),
        (DateType(), "2020-01-01"),
        (VariantType(), b""),
        (UnknownType(), 1),
        (GeometryType(), b""),
        (POINT, ((2, 5),)),
        (NAMES, [None]),
        (SIZES, {"a": 1}),
        (SIZES, ((None, 1),)),
        (IntegerType(), True),
    ],
)
def test_a_default_that_is_not_a_physical_value_of_its_type_is_refused(kind: IcebergType, default: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        Schema(column(kind, initial=default))
    with pytest.raises(InvalidSchemaError):
        Schema(column(kind, write=default))


def test_structs_within_a_default_follow_their_fields_to_new_ids() -> None:
    points = ListType(
        element_id=40, element=StructType(NestedField(41, "x", LongType()), NestedField(42, "y", LongType())), element_required=True
    )
    schema = Schema(NestedField(50, "a", points, False, None, (((42, 5),),)))
    fresh = assign_fresh_ids(schema)
    kind = fresh.find_type("a.element")
    assert isinstance(kind, StructType)
    assert fresh.find_field("a").initial_default == (((kind.fields[1].field_id, 5),),)


@pytest.mark.parametrize(
    ("kind", "native", "physical"),
    [
        (POINT, {"y": 1}, ((3, 1),)),
        (POINT, {}, ()),
        (NAMES, ["a", None], ("a", None)),
        (SIZES, {"a": 1}, (("a", 1),)),
        (ListType(element_id=1, element=DateType()), ["1970-01-02"], (1,)),
        (BinaryType(), None, None),
    ],
)
def test_python_values_become_physical(kind: IcebergType, native: Any, physical: Any) -> None:
    assert nested_to_physical(kind, native) == physical


@pytest.mark.parametrize(
    ("kind", "native"),
    [(POINT, {"z": 1}), (POINT, 5), (NAMES, "abc"), (SIZES, {None: 1}), (SIZES, {"a": None}), (VariantType(), 5), (LongType(), "x")],
)
def test_python_values_of_another_type_are_refused(kind: IcebergType, native: Any) -> None:
    with pytest.raises(InvalidInputError):
        nested_to_physical(kind, native)


def test_struct_values_in_json_are_by_field_id() -> None:
    assert nested_from_json(POINT, {"3": 5, "2": None, "99": 1}) == ((2, None), (3, 5))
