"""A bound filter evaluated on Arrow rows, compared with an evaluation of one row at a time in Python."""

import math
import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.kernel.brute_force import SCHEMA, arrow_table, filters, rows, truth

from icefloe.errors import InvalidFilterError
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.filter_parser import parse_filter
from icefloe.kernel.expressions.predicate import AlwaysTrue, EqualTo, GreaterThan, IsNull, LessThan, NotEqualTo, NotNaN
from icefloe.kernel.expressions.row_evaluator import arrow_mask
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IntegerType, NestedField, StringType, StructType


@settings(max_examples=400)
@given(filters(), rows())
def test_a_filter_on_arrow_rows_keeps_the_rows_for_which_it_is_true(expression, found):
    mask = arrow_mask(bind(expression, SCHEMA), arrow_table(found))
    assert mask.null_count == 0
    assert mask.to_pylist() == [truth(expression, row) is True for row in found]


@settings(max_examples=100)
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
