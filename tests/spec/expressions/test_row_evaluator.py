"""A bound filter evaluated on Arrow rows, compared with an evaluation of one row at a time in Python."""

import math
import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, arrow_table, filters, rows, truth

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.literal_conversion import LiteralPosition, convert_literal, convert_set
from icefloe.spec.expressions.predicate import AlwaysTrue, EqualTo, GreaterThan, In, IsNull, LessThan, NotEqualTo, NotIn, NotNaN
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)


@settings(max_examples=examples(400))
@given(filters(), rows())
def test_a_filter_on_arrow_rows_keeps_the_rows_for_which_it_is_true(expression, found):
    mask = arrow_mask(bind(expression, SCHEMA), arrow_table(found))
    assert mask.null_count == 0
    assert mask.to_pylist() == [truth(expression, row) is True for row in found]


@settings(max_examples=examples(100))
@given(filters(), rows())
def test_batches_chunks_and_pickled_filters_give_the_same_rows(expression, found):
    bound = pickle.loads(pickle.dumps(bind(expression, SCHEMA)))
    table = arrow_table(found)
    in_chunks = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    batch = table.combine_chunks().to_batches()[0] if found else pa.RecordBatch.from_pylist([], schema=table.schema)
    assert arrow_mask(bound, in_chunks).equals(arrow_mask(bound, table))
    assert arrow_mask(bound, batch).equals(arrow_mask(bound, table))


def test_nan_equals_nan_and_is_greater_than_infinity():
    rows_of_f = pa.table({"f": pa.array([math.nan, math.inf, None], pa.float64())})

    def keep(expression):
        return arrow_mask(bind(expression, SCHEMA), rows_of_f).to_pylist()

    assert keep(EqualTo("f", math.nan)) == [True, False, False]
    assert keep(GreaterThan("f", math.inf)) == [True, False, False]
    assert keep(LessThan("f", math.nan)) == [False, True, False]
    assert keep(NotEqualTo("f", math.nan)) == [False, True, False]
    assert keep(NotNaN("f")) == [False, True, True]


def test_in_treats_both_zeros_as_one_value():
    zeros = pa.table({"f": pa.array([-0.0, 0.0, 1.0, None], pa.float64())})
    assert arrow_mask(bind(parse_filter("f IN (0.0, 5)"), SCHEMA), zeros).to_pylist() == [True, True, False, False]
    assert arrow_mask(bind(parse_filter("f NOT IN (0.0, 5)"), SCHEMA), zeros).to_pylist() == [False, False, True, False]


def test_a_member_of_a_null_struct_is_null():
    schema = Schema(NestedField(1, "o", StructType(NestedField(2, "x", IntegerType(), required=True), NestedField(3, "a.b", StringType()))))
    members = [pa.array([1, 2, 3], pa.int32()), pa.array(["p", "q", "r"])]
    table = pa.table({"o": pa.StructArray.from_arrays(members, ["x", "a.b"], mask=pa.array([False, True, False]))})
    assert arrow_mask(bind(parse_filter("o.x >= 2"), schema), table).to_pylist() == [False, False, True]
    assert arrow_mask(bind(IsNull("o.x"), schema), table).to_pylist() == [False, True, False]
    assert arrow_mask(bind(EqualTo("o.a.b", "r"), schema), table).to_pylist() == [False, False, True]
    assert arrow_mask(bind(IsNull("o"), schema), table).to_pylist() == [False, True, False]


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.string_view()])
def test_strings_in_other_arrow_types_are_compared(kind):
    table = pa.table({"s": pa.array(["a", None, "b"]).cast(kind)})
    assert arrow_mask(bind(parse_filter("s = 'b' OR s LIKE 'a%'"), SCHEMA), table).to_pylist() == [True, False, True]


def test_a_timestamp_of_another_unit_is_compared_in_microseconds():
    table = pa.table({"t": pa.array([0, 1], pa.timestamp("s"))})
    assert arrow_mask(bind(parse_filter("t >= TIMESTAMP '1970-01-01 00:00:01'"), SCHEMA), table).to_pylist() == [False, True]


def test_a_column_that_the_rows_lack_is_named_in_the_error():
    with pytest.raises(InvalidFilterError, match="'s'"):
        arrow_mask(bind(EqualTo("s", "a"), SCHEMA), pa.table({"i": [1]}))


def test_a_filter_that_is_not_bound_is_refused():
    with pytest.raises(InvalidFilterError, match="not bound"):
        arrow_mask(EqualTo("i", 1), pa.table({"i": [1]}))


def test_no_columns_are_needed_for_a_constant():
    assert arrow_mask(AlwaysTrue(), pa.table({"i": [1, 2]})).to_pylist() == [True, True]


MANY: list[tuple[PrimitiveType, Any, list[Any]]] = [
    (LongType(), pa.int64(), [2**63 - 1, -(2**63), *range(0, 300, 3)]),
    (IntegerType(), pa.int32(), [2**40, -(2**40), *range(0, 300, 3)]),
    (StringType(), pa.string(), ["ä", "", *(f"v{number}" for number in range(0, 300, 3))]),
    (DoubleType(), pa.float64(), [-0.0, math.inf, *(number / 2 for number in range(1, 300, 3))]),
    (DoubleType(), pa.float64(), [math.nan, 1.0, *(number / 2 for number in range(0, 300, 3))]),
    (FloatType(), pa.float32(), [0.1, 0.5, *(number / 2 for number in range(0, 300, 3))]),
    (DateType(), pa.date32(), [date(1, 1, 1) + timedelta(days=number * 7000) for number in range(100)]),
    (TimestampType(), pa.timestamp("us"), [datetime(1969, 12, 31) + timedelta(hours=number * 7, microseconds=1) for number in range(100)]),
    (UUIDType(), pa.uuid(), [UUID(int=number * 2**100 + 1) for number in range(100)]),
    (BinaryType(), pa.binary(), [bytes([number, 255]) for number in range(0, 200, 2)]),
    (DecimalType(9, 2), pa.decimal128(9, 2), [Decimal(number).scaleb(-2) for number in range(-100, 100, 2)]),
]


@pytest.mark.parametrize(("kind", "arrow", "literals"), MANY, ids=lambda value: str(value)[:20])
def test_a_set_of_many_literals_keeps_the_same_of_few_rows_and_of_many(kind: PrimitiveType, arrow: Any, literals: list[Any]) -> None:
    schema = Schema(NestedField(1, "c", kind))
    is_int = isinstance(kind, IntegerType)
    others = [] if not isinstance(kind, LongType | IntegerType) else [1, 2, 4, 5]
    values = [None, *(value for value in literals if not (is_int and abs(value) > 2**31)), *others]
    stored = [value.bytes if isinstance(value, UUID) else value for value in values]
    many = pa.array(stored * 3, pa.binary(16) if isinstance(kind, UUIDType) else arrow)
    column = many.cast(arrow) if not isinstance(kind, UUIDType) else pa.ExtensionArray.from_storage(arrow, many)
    table = pa.table({"c": column})
    expected = [
        any(value == literal or (value != value and literal != literal) for literal in literals)  # noqa: PLR0124 - NaN
        for value in column.to_pylist()
        if value is not None
    ]
    for kind_of_set, is_kept in ((In, True), (NotIn, False)):
        bound = bind(kind_of_set("c", literals), schema)
        whole = arrow_mask(bound, table).to_pylist()
        assert whole == [part for row in range(table.num_rows) for part in arrow_mask(bound, table.slice(row, 1)).to_pylist()]
        assert [found is is_kept for found, value in zip(whole, column.to_pylist(), strict=True) if value is not None] == expected
        assert not any(found for found, value in zip(whole, column.to_pylist(), strict=True) if value is None)
        assert pickle.loads(pickle.dumps(bound)) == bound


@pytest.mark.parametrize(("kind", "arrow", "literals"), MANY, ids=lambda value: str(value)[:20])
def test_a_set_is_converted_at_once_to_what_its_literals_are_converted_to(kind: PrimitiveType, arrow: Any, literals: list[Any]) -> None:
    one_by_one = [convert_literal(kind, literal) for literal in literals]
    at_once = convert_set(kind, literals)
    if at_once is not None:
        assert at_once == {converted.value for converted in one_by_one if converted.position is LiteralPosition.EXACT}
    assert (at_once is None) is (type(literals[0]) not in (int, float, str, date) or literals[0] != literals[0])
    for mixed in ([*literals, None], [*literals, True], [*literals, "\udc00"], []):
        assert convert_set(kind, mixed) is None
