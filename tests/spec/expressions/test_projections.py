"""Projections through every transform: laws over generated values, and examples."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, arrow_table, filters, some_columns
from tests.spec.random_files import specs, tables

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions.bind import bind, predicates
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysFalse, AlwaysTrue, EqualTo
from icefloe.spec.expressions.projections import inclusive_projection, is_decided, strict_projection
from icefloe.spec.expressions.row_evaluator import arrow_mask
from icefloe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from icefloe.spec.partitioning.transforms import parse_transform
from icefloe.spec.schema.schema import Schema


def spec_of(column, transform):
    return PartitionSpec(PartitionField(SCHEMA.find_field(column).field_id, 1000, parse_transform(transform), "p"))


@pytest.mark.parametrize(
    ("column", "transform", "text", "expected_inclusive", "expected_strict"),
    [
        ("s", "identity", "s LIKE 'a%' AND i = 1", "p LIKE 'a%'", "FALSE"),
        ("i", "bucket[16]", "i = 34", "p = 3", "FALSE"),
        ("i", "bucket[16]", "i != 34", "TRUE", "p != 3"),
        ("i", "bucket[16]", "i > 34", "TRUE", "FALSE"),
        ("i", "bucket[16]", "i IS NULL", "p IS NULL", "p IS NULL"),
        ("l", "truncate[8]", "l >= 15", "p >= 8", "p > 8"),
        ("l", "truncate[8]", "l > 15", "p >= 16", "p > 8"),
        ("l", "truncate[8]", "l = 15", "p = 8", "FALSE"),
        ("l", "truncate[8]", "l NOT IN (15, 16)", "TRUE", "p NOT IN (8, 16)"),
        ("l", "truncate[8]", "l < 16", "p <= 8", "p < 16"),
        ("l", "truncate[8]", "l <= 15", "p <= 8", "p < 16"),
        ("m", "truncate[50]", "m < 1", "p <= 0.50", "p < 1.00"),
        # Truncated, the least value has more digits than the type.
        ("m", "truncate[50]", "m >= -9999999.99", "TRUE", "FALSE"),
        ("m", "truncate[50]", "m = -9999999.99", "TRUE", "FALSE"),
        ("m", "truncate[50]", "m > 9999999.99", "TRUE", "p > 9999999.50"),
        ("s", "truncate[2]", "s < 'abc'", "p <= 'ab'", "p < 'ab'"),
        ("s", "truncate[2]", "s LIKE 'a%'", "p LIKE 'a%'", "p LIKE 'a%'"),
        ("s", "truncate[2]", "s LIKE 'ab%'", "p = 'ab'", "p = 'ab'"),
        ("s", "truncate[2]", "s LIKE 'abc%'", "p = 'ab'", "FALSE"),
        ("s", "truncate[2]", "s NOT LIKE 'abc%'", "TRUE", "p != 'ab'"),
        ("s", "truncate[2]", "s NOT LIKE 'ab%'", "p != 'ab'", "p != 'ab'"),
        ("t", "month", "t >= '2013-06-15'", "p >= 521", "p > 521"),
        ("t", "month", "t < '2013-06-01'", "p <= 520", "p < 521"),
        ("t", "month", "t > '2013-06-01'", "p >= 521", "p > 521"),
        # Before 1970 the result may have been rounded up.
        ("t", "month", "t > '1969-11-15'", "p >= -2", "p > -1"),
        ("t", "month", "t < '1969-11-15'", "p <= -1", "p < -2"),
        ("t", "day", "t = '1970-01-03 05:00:00'", "p = DATE '1970-01-03'", "FALSE"),
        ("t", "hour", "t <= '1969-12-31 22:30:00'", "p <= -1", "p < -2"),
        ("t", "year", "t != '1969-06-01'", "TRUE", "p NOT IN (-1, 0)"),
        ("d", "year", "d > '1971-12-31'", "p >= 2", "p > 1"),
        ("i", "void", "i = 1", "TRUE", "FALSE"),
        ("i", "zorder(i)", "i = 1", "TRUE", "FALSE"),
        ("i", "identity", "i = 1 OR s = 'a'", "TRUE", "p = 1"),
    ],
)
def test_a_filter_is_projected(column, transform, text, expected_inclusive, expected_strict):
    bound, spec = bind(parse_filter(text), SCHEMA), spec_of(column, transform)
    assert str(inclusive_projection(bound, spec, SCHEMA)) == expected_inclusive
    assert str(strict_projection(bound, spec, SCHEMA)) == expected_strict


def test_the_projection_of_truncate_allows_for_the_least_longs_that_wrap_around():
    below = bind(parse_filter("l < 5"), SCHEMA)
    above = bind(parse_filter("l > 5"), SCHEMA)
    wrapped = parse_transform("truncate[10]").apply(SCHEMA.find_type("l"), -(2**63))
    assert wrapped > 0
    assert str(inclusive_projection(below, spec_of("l", "truncate[10]"), SCHEMA)) == f"p <= 0 OR p = {wrapped}"
    assert str(strict_projection(above, spec_of("l", "truncate[10]"), SCHEMA)) == f"p > 0 AND p != {wrapped}"


def test_both_partition_fields_of_a_column_are_projected():
    spec = PartitionSpec(*(PartitionField(7, 1000 + n, parse_transform(name), name) for n, name in enumerate(["day", "bucket[4]"])))
    bound = bind(parse_filter("t = '1970-01-03'"), SCHEMA)
    assert str(inclusive_projection(bound, spec, SCHEMA)).startswith("day = DATE '1970-01-03' AND \"bucket[4]\" = ")


def test_a_predicate_on_an_unknown_column_excludes_no_partition():
    bound = bind(EqualTo("i", 1), SCHEMA)
    other = Schema(SCHEMA.find_field("s"))
    assert inclusive_projection(bound, spec_of("i", "identity"), other) == AlwaysTrue()
    assert strict_projection(bound, spec_of("i", "identity"), other) == AlwaysFalse()


def test_an_unbound_filter_is_refused():
    with pytest.raises(InvalidFilterError, match="not bound"):
        inclusive_projection(EqualTo("i", 1), spec_of("i", "identity"), SCHEMA)


@pytest.mark.parametrize(
    ("column", "transform", "text", "decided"),
    [
        ("i", "identity", "i < 3", True),
        ("i", "bucket[16]", "i IS NULL", True),
        ("i", "bucket[16]", "i = 3", False),
        ("s", "truncate[2]", "s LIKE 'ab%'", True),
        ("s", "truncate[2]", "s LIKE 'abc%'", False),
        ("t", "day", "t >= '2024-03-01'", True),
        ("t", "day", "t > '2024-03-01'", False),
        ("t", "day", "t < '2024-03-01'", True),
        ("t", "day", "t <= '2024-03-01'", False),
        ("t", "month", "t >= '2024-03-02'", False),
        ("t", "day", "t >= '1969-03-01'", False),
        ("d", "day", "d <= '2024-03-01'", True),
        ("i", "void", "i IS NULL", False),
    ],
)
def test_a_predicate_is_decided_where_each_partition_matches_wholly_or_not_at_all(column, transform, text, decided):
    assert is_decided(bind(parse_filter(text), SCHEMA), spec_of(column, transform), SCHEMA) is decided


@settings(max_examples=examples(200))
@given(st.data())
def test_in_a_partition_that_decides_a_predicate_all_rows_match_or_none(data):
    columns = data.draw(some_columns())
    spec = data.draw(specs(columns))
    files = data.draw(tables(spec, columns))
    predicate = bind(data.draw(filters(columns)), SCHEMA)
    for leaf in predicates(predicate):
        if is_decided(leaf, spec, SCHEMA):
            for file in files:
                mask = arrow_mask(leaf, arrow_table(file.rows)).to_pylist() if file.rows else [True]
                assert len(set(mask)) == 1
