"""Rows cast to a table's schema: types that fit, types that are widened, and the problems that are listed."""

import datetime as dt
import io
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icefloe.errors import SchemaMismatchError
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema, check_fits
from icefloe.spec.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

FLAT = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()), NestedField(3, "size", DoubleType()))


def one_column(kind: IcebergType, *, required: bool = False) -> Schema:
    return Schema(NestedField(1, "a", kind, required))


def problems_of(table: pa.Table, schema: Schema) -> dict[str, str]:
    with pytest.raises(SchemaMismatchError) as caught:
        cast_to_schema(table, schema)
    return {problem.where: problem.what for problem in caught.value.problems}


def test_columns_are_put_in_the_tables_order_with_ids() -> None:
    table = pa.table({"size": [1.5], "id": [1], "name": ["x"]})
    cast = cast_to_schema(table, FLAT)
    assert cast.schema.equals(schema_to_arrow(FLAT), check_metadata=True)
    assert cast.to_pylist() == [{"id": 1, "name": "x", "size": 1.5}]


def test_columns_of_the_right_type_are_not_copied() -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "name": pa.array(["x", None]), "size": pa.array([1.0, 2.0])})
    cast = cast_to_schema(table, FLAT)
    for name in ("id", "name", "size"):
        cast_buffers, table_buffers = (field.column(name).chunk(0).buffers() for field in (cast, table))
        assert [buffer and buffer.address for buffer in cast_buffers] == [buffer and buffer.address for buffer in table_buffers]


def test_a_missing_optional_column_is_null() -> None:
    assert cast_to_schema(pa.table({"id": [1, 2]}), FLAT).column("name").to_pylist() == [None, None]


def test_every_column_that_does_not_fit_is_listed() -> None:
    table = pa.table({"ID": [1], "name": [5], "extra": [True], "size": ["x"]})
    assert problems_of(table, FLAT) == {
        "id": "is missing, and is required (long); there is 'ID', and names are case-sensitive",
        "name": "is int64 in the rows, which does not fit string in the table",
        "size": "is string in the rows, which does not fit double in the table",
        "ID": "is not a column of the table; there is 'id', and names are case-sensitive",
        "extra": "is not a column of the table",
    }


def test_nulls_in_a_required_column_are_counted() -> None:
    table = pa.table({"id": pa.array([1, None, None], pa.int64())})
    assert problems_of(table, FLAT) == {"id": "has 2 nulls, and is required"}


def test_a_repeated_column_of_the_rows_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    assert problems_of(table, FLAT) == {"id": "is the name of two columns of the rows"}


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array([1], pa.int32()), LongType(), 1),
        (pa.array([1], pa.uint8()), IntegerType(), 1),
        (pa.array([1.5], pa.float32()), DoubleType(), 1.5),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), DecimalType(9, 2), Decimal("1.25")),
        (pa.array(["x"]).dictionary_encode(), StringType(), "x"),
        (pa.array(["x"], pa.string_view()), StringType(), "x"),
        (pa.array([b"ab"], pa.binary(2)), BinaryType(), b"ab"),
        (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("ms")), TimestampType(), dt.datetime(2024, 1, 2)),
        (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("ns")), TimestampType(), dt.datetime(2024, 1, 2)),
        (pa.array([dt.time(1, 2, 3)], pa.time32("s")), TimeType(), dt.time(1, 2, 3)),
        (pa.array([uuid.UUID(int=5).bytes], pa.uuid()), UUIDType(), uuid.UUID(int=5).bytes),
        (pa.array([None]), LongType(), None),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value),
)
def test_types_that_lose_nothing_are_widened(array: pa.Array, kind: IcebergType, expected: object) -> None:
    cast = cast_to_schema(pa.table({"a": array}), one_column(kind))
    cast.validate(full=True)
    assert cast.column("a").to_pylist() == [expected]


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array([1], pa.int64()), IntegerType()),
        (pa.array([1.0], pa.float64()), LongType()),
        (pa.array([1], pa.int64()), DoubleType()),
        (pa.array([Decimal("1.25")], pa.decimal128(9, 2)), DecimalType(5, 2)),
        (pa.array([Decimal("1.25")], pa.decimal128(5, 2)), DecimalType(9, 3)),
        (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us")), TimestamptzType()),
        (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("us", tz="UTC")), TimestampType()),
        (pa.array(["2024-01-01"]), TimestampType()),
        (pa.array([b"x"]), StringType()),
        (pa.array([{"x": 1}]), LongType()),
        (pa.array([1]), StructType(NestedField(2, "x", LongType()))),
        (pa.array([[1]]), MapType(key_id=2, key_type=LongType(), value_id=3, value_type=LongType())),
    ],
    ids=lambda value: str(value.type if isinstance(value, pa.Array) else value),
)
def test_types_that_could_lose_something_are_refused_whatever_the_values(array: pa.Array, kind: IcebergType) -> None:
    assert "does not fit" in problems_of(pa.table({"a": array}), one_column(kind))["a"]


def test_nanoseconds_that_are_not_whole_microseconds_are_refused() -> None:
    table = pa.table({"a": pa.array([1500], pa.timestamp("ns"))})
    assert "would lose data" in problems_of(table, one_column(TimestampType()))["a"]


def test_an_instant_in_another_zone_is_the_same_instant_in_utc() -> None:
    array = pa.array([0], pa.timestamp("us", tz="Asia/Tokyo"))
    cast = cast_to_schema(pa.table({"a": array}), one_column(TimestamptzType()))
    assert cast.column("a").type == pa.timestamp("us", tz="UTC")
    assert cast.column("a").cast(pa.int64()).to_pylist() == [0]


def test_nested_columns_are_matched_by_name_at_every_level() -> None:
    inner = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", StringType()))
    table = pa.table({"a": [[{"y": "b", "x": 1}, {"y": None, "x": 2}], None, []]})
    cast = cast_to_schema(table, one_column(ListType(element_id=2, element=inner, element_required=False)))
    assert cast.column("a").to_pylist() == [[{"x": 1, "y": "b"}, {"x": 2, "y": None}], None, []]


def test_a_nested_problem_is_listed_by_its_full_name() -> None:
    inner = StructType(NestedField(3, "x", LongType(), required=True))
    schema = one_column(ListType(element_id=2, element=inner, element_required=False))
    assert problems_of(pa.table({"a": [[{"x": "no", "z": 1}]]}), schema) == {
        "a.element.x": "is string in the rows, which does not fit long in the table",
        "a.element.z": "is not a column of the table",
    }
    assert problems_of(pa.table({"a": [[{"x": 1}, {"x": None}]]}), schema) == {"a.element.x": "has 1 nulls, and is required"}


def test_a_required_field_of_a_null_struct_may_be_null_and_the_rows_fit_into_parquet() -> None:
    kind = StructType(
        NestedField(2, "x", LongType(), required=True), NestedField(3, "y", StructType(NestedField(4, "z", UUIDType(), True)))
    )
    schema = one_column(kind)
    rows = [{"a": {"x": 1, "y": {"z": bytes(16)}}}, {"a": None}, {"a": {"x": 3, "y": None}}]
    cast = cast_to_schema(
        pa.Table.from_pylist(rows, schema=pa.schema([("a", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.binary(16))]))]))])),
        schema,
    )
    file = io.BytesIO()
    pq.write_table(cast, file)
    assert pq.read_table(file).to_pylist() == rows


def test_a_missing_struct_with_a_required_field_is_null_and_fits_into_parquet() -> None:
    inner = StructType(NestedField(3, "x", LongType(), required=True), NestedField(4, "y", StringType()))
    schema = Schema(
        NestedField(1, "a", StructType(NestedField(2, "s", inner))), NestedField(5, "b", StructType(NestedField(6, "t", LongType(), True)))
    )
    rows = pa.table({"a": pa.array([{}, None], pa.struct([]))})
    file = io.BytesIO()
    pq.write_table(cast_to_schema(rows, schema), file)
    assert pq.read_table(file).to_pylist() == [{"a": {"s": None}, "b": None}, {"a": None, "b": None}]


def test_nested_field_ids_reach_the_parquet_file_where_nothing_was_cast() -> None:
    schema = one_column(ListType(element_id=2, element=StructType(NestedField(3, "x", LongType())), element_required=False))
    table = pa.table({"a": pa.array([[{"x": 1}]], pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int64())]))))})
    file = io.BytesIO()
    pq.write_table(cast_to_schema(table, schema), file)
    field = pq.read_schema(file).field("a")
    assert field.metadata[b"PARQUET:field_id"] == b"1"
    assert field.type.value_field.metadata[b"PARQUET:field_id"] == b"2"
    assert field.type.value_type.field("x").metadata[b"PARQUET:field_id"] == b"3"


def test_names_and_types_are_checked_without_rows() -> None:
    check_fits(pa.schema([("id", pa.int32())]), FLAT)
    with pytest.raises(SchemaMismatchError, match="id: is missing"):
        check_fits(pa.schema([("name", pa.string())]), FLAT)


def encoded(values: list[str | None], kind: pa.DataType, form: str) -> pa.Array:
    """Return values as a dictionary, as runs, or as runs of a dictionary."""
    if form == "runs":
        return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values, kind))
    dictionary = pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.uint8()), pa.array(values, kind))
    return (
        dictionary
        if form == "dictionary"
        else pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), dictionary)
    )


@pytest.mark.parametrize("form", ["dictionary", "runs", "runs of a dictionary"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view()], ids=str)
def test_encoded_values_are_decoded_at_every_level(kind: pa.DataType, form: str) -> None:
    array = encoded(["x", "y", None], kind, form)[1:]  # of views Polars makes the categories of its frames
    column = StringType() if "string" in str(kind) else BinaryType()
    right = ["y", None] if isinstance(column, StringType) else [b"y", None]
    assert cast_to_schema(pa.table({"a": array}), one_column(column))["a"].to_pylist() == right
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), array)
    assert cast_to_schema(pa.table({"a": lists}), one_column(ListType(2, column, element_required=False)))["a"].to_pylist() == [
        [value] for value in right
    ]
    structs = pa.StructArray.from_arrays([array], names=["b"])
    inner = StructType(NestedField(2, "b", column))
    assert cast_to_schema(pa.table({"a": structs}), one_column(inner))["a"].to_pylist() == [{"b": value} for value in right]


@pytest.mark.parametrize("form", ["dictionary", "runs", "runs of a dictionary"])
def test_nulls_in_a_dictionary_or_in_runs_are_nulls_of_a_required_column(form: str) -> None:
    array = encoded(["x", None], pa.string(), form)
    assert array.null_count == 0
    assert problems_of(pa.table({"a": array}), one_column(StringType(), required=True)) == {"a": "has 1 nulls, and is required"}
    assert problems_of(
        pa.table({"a": pa.StructArray.from_arrays([array], names=["b"])}),
        one_column(StructType(NestedField(2, "b", StringType(), required=True))),
    ) == {"a.b": "has 1 nulls, and is required"}
