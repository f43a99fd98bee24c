"""Filters of truncated columns match exactly the rows whose truncated value matches, for random values and widths."""

from decimal import Decimal

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from icefloe import DecimalType, IntegerType, LongType, NestedField, Schema, StringType
from icefloe.spark.scan.function_pushdown import NotTranslatable, Truncation, truncation_filter
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import IsNull
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.literals import INTEGER_RANGES
from icefloe.spec.partitioning.transforms import TruncateTransform
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.types import PrimitiveType

SMALL = DecimalType(6, 2)


def numbers(kind: PrimitiveType) -> st.SearchStrategy[int]:
    low, high = INTEGER_RANGES[type(kind)]
    return st.integers(-50, 50) | st.integers(low, low + 50) | st.integers(high - 50, high)


VALUES = {
    IntegerType(): numbers(IntegerType()),
    LongType(): numbers(LongType()),
    SMALL: st.integers(-900000, 900000).map(lambda number: Decimal(number).scaleb(-2)),
    StringType(): st.text("aä🙂", max_size=5),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
@settings(max_examples=200)
def test_the_filter_of_a_truncation_is_true_for_exactly_its_rows(kind: PrimitiveType, data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 4) if isinstance(kind, StringType) else st.sampled_from([1, 3, 10, 1000]))
    transform = TruncateTransform(width)
    values = data.draw(st.lists(VALUES[kind] | st.none(), min_size=1, max_size=20))
    results = [transform.apply(kind, value) for value in values]
    non_null = [result for result in results if result is not None]
    value = data.draw(VALUES[kind] | st.sampled_from(non_null) if non_null else VALUES[kind])
    schema = Schema(NestedField(1, "c", kind))
    rows = pa.table({"c": values}, schema=schema_to_arrow(schema))
    outcomes = {
        "=": lambda result: result == value,
        "<>": lambda result: result is not None and result != value,
        "not <=>": lambda result: result != value,
    }
    for operator, holds in outcomes.items():
        row_filter = truncation_filter(Truncation({}, width), operator, value, "c", kind)
        assert arrow_mask(bind(row_filter, schema), rows).to_pylist() == [holds(result) for result in results], (operator, value, width)


def test_a_comparison_without_a_filter_is_evaluated_by_spark() -> None:
    for operator, value, kind in (("<", 3, LongType()), ("=", "a", LongType()), ("=", 3, StringType()), ("=", 1, SMALL)):
        with pytest.raises(NotTranslatable):
            truncation_filter(Truncation({}, 2), operator, value, "c", kind)
    assert truncation_filter(Truncation({}, 2), "not <=>", 4, "c", LongType()) != IsNull("c")
