"""Binding: columns found, literals converted exactly, errors that name column, type and literal."""

import math
from datetime import date, datetime
from decimal import Decimal

import pytest

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator, bind
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import AlwaysFalse, EqualTo, In, IsNull, LessThan, Not, NotIn, NotNull
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

SCHEMA = Schema(
    NestedField(1, "Id", LongType(), required=True),
    NestedField(2, "n", IntegerType()),
    NestedField(3, "d", DateType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "x", DoubleType()),
    NestedField(6, "m", DecimalType(5, 2)),
    NestedField(7, "s", StringType()),
    NestedField(8, "o", StructType(NestedField(9, "z", TimestamptzType(), required=True))),
    NestedField(10, "many", ListType(element_id=11, element=IntegerType())),
)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("n < 3000000000", "n IS NOT NULL"),
        ("n > 3000000000", "FALSE"),
        ("n = 3000000000", "FALSE"),
        ("n != 3000000000", "n IS NOT NULL"),
        ("n < 2.5", "n <= 2"),
        ("n >= -2.5", "n > -3"),
        ("n = 2.0", "n = 2"),
        ("n = 2.5", "FALSE"),
        ("n IN (1, 2.5, 2, 2)", "n IN (1, 2)"),
        ("n IN (2.5)", "FALSE"),
        ("n NOT IN (2.5)", "n IS NOT NULL"),
        ("n IN ()", "FALSE"),
        ("n NOT IN ()", "TRUE"),
        ("n > CAST('NaN' AS DOUBLE)", "FALSE"),
        ("d > TIMESTAMP '2024-01-01 10:00:00'", "d > DATE '2024-01-01'"),
        ("d < '2024-01-01 10:00:00'", "d <= DATE '2024-01-01'"),
        ("d = '2024-01-01'", "d = DATE '2024-01-01'"),
        ("m < 1.555", "m <= 1.55"),
        ("m < 100000", "m IS NOT NULL"),
        ("f = 0.1", "f = 0.1"),
        ("x = CAST('NaN' AS DOUBLE)", "x IS NAN"),
        ("x < CAST('NaN' AS DOUBLE)", "x IS NOT NAN AND x IS NOT NULL"),
        ("x NOT IN (1, CAST('NaN' AS DOUBLE))", "x != 1.0 AND x IS NOT NAN AND x IS NOT NULL"),
        ("x = -0.0", "x = 0.0"),
        ("Id IS NULL OR s LIKE '%'", "Id IS NULL OR s IS NOT NULL"),
        ("Id IS NOT NULL", "Id IS NOT NULL"),
        ("NOT (n = 1 AND (s < 'a' OR d IS NULL))", "n != 1 OR (s >= 'a' AND d IS NOT NULL)"),
        ("o.z >= '2024-01-01'", "o.z >= TIMESTAMP '2024-01-01 00:00:00+00:00'"),
        ("o.z IS NULL", "o.z IS NULL"),
        ("many IS NULL", "many IS NULL"),
    ],
)
def test_a_filter_is_bound_exactly(text, bound):
    assert str(bind(parse_filter(text), SCHEMA)) == bound


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothere = 1", ["'nothere'", "Id, n, d"]),
        ("n = 'abc'", ["'n'", "type int", "'abc'"]),
        ("n = TRUE", ["'n'", "type int", "True"]),
        ("s = 5", ["'s'", "type string", "5"]),
        ("d = '2024-02-30'", ["'d'", "type date", "'2024-02-30'"]),
        ("n IS NAN", ["'n'", "type int", "NaN"]),
        ("n LIKE 'a%'", ["'n'", "type int", "strings"]),
        ("many.element = 1", ["'many.element'", "inside many", "list<int>"]),
        ("o = 1", ["'o'", "struct", "null"]),
        ("id = 1", ["'id'"]),
    ],
)
def test_an_error_of_binding_names_the_column_and_the_literal(text, words):
    with pytest.raises(InvalidFilterError) as refused:
        bind(parse_filter(text), SCHEMA)
    assert all(word in str(refused.value) for word in words)


def test_null_is_not_a_literal():
    with pytest.raises(InvalidFilterError, match="IS NULL"):
        bind(EqualTo("n", None), SCHEMA)
    with pytest.raises(InvalidFilterError, match="IS NULL"):
        bind(In("n", [1, None]), SCHEMA)


def test_names_match_without_letter_case_when_case_sensitive_is_false():
    bound = bind(EqualTo("iD", 1), SCHEMA, case_sensitive=False)
    assert isinstance(bound, BoundPredicate)
    assert (bound.field.field_id, bound.path, bound.operation, bound.value) == (1, ("Id",), PredicateOperator.EQ, 1)


def test_literals_become_physical_values():
    bound = bind(EqualTo("d", date(1970, 1, 3)) & LessThan("o.z", datetime(1970, 1, 1, 0, 0, 1)) & EqualTo("m", Decimal("1.5")), SCHEMA)
    assert [term.value for term in bound.terms] == [2, 1_000_000, Decimal("1.50")]


def test_binding_twice_changes_nothing_and_a_bound_filter_cannot_be_negated():
    bound = bind(EqualTo("n", 1) | IsNull("s"), SCHEMA)
    assert bind(bound, SCHEMA) == bound
    with pytest.raises(InvalidFilterError, match="before it is bound"):
        bind(Not(bound), SCHEMA)


def test_nan_and_infinity_compare_with_whole_numbers():
    assert bind(LessThan("n", math.nan), SCHEMA) == bind(NotNull("n"), SCHEMA)
    assert bind(LessThan("n", -math.inf), SCHEMA) == AlwaysFalse()
    assert bind(NotIn("Id", [math.inf]), SCHEMA) == bind(NotNull("Id"), SCHEMA)


@pytest.mark.parametrize(
    ("number", "below"),
    [("1e-999999999", 0), ("-1e-999999999", -1), ("1." + "0" * 250 + "1", 1), ("-0." + "0" * 250 + "1", -1)],
)
def test_a_decimal_between_two_values_equals_neither_however_many_digits_it_has(number, below):
    for column in ("n", "Id", "m"):
        literal = Decimal(number)
        assert bind(EqualTo(column, literal), SCHEMA) == AlwaysFalse()
        assert bind(LessThan(column, literal), SCHEMA).value == (Decimal(below).scaleb(-2) if column == "m" and below < 0 else below)
    assert bind(parse_filter("Id = DECIMAL '1e-999999999'"), SCHEMA) == AlwaysFalse()


def test_zero_is_zero_with_any_exponent():
    for exponent in ("0e999999999", "-0e999999999", "0e-999999999"):
        assert bind(EqualTo("Id", Decimal(exponent)), SCHEMA).value == 0
