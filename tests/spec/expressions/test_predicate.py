"""Filters as values: text, flattening, negation."""

import pickle
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from tests.repetitions import examples
from tests.spec.brute_force import filters, rows, truth

from icefloe import expressions
from icefloe.spec.expressions.filter_parser import FilterDialect, parse_filter
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    Not,
    NotIn,
    NotNull,
    Or,
    StartsWith,
    all_of,
    any_of,
)


def test_operators_build_and_or_and_the_opposite_predicate():
    assert EqualTo("a", 1) & IsNull("b") == And(EqualTo("a", 1), IsNull("b"))
    assert EqualTo("a", 1) | IsNull("b") == Or(EqualTo("a", 1), IsNull("b"))
    assert ~LessThan("a", 1) == GreaterThanOrEqual("a", 1)
    assert ~In("a", [1, 2]) == NotIn("a", (1, 2))
    assert ~~And(EqualTo("a", 1), IsNull("b")) == And(EqualTo("a", 1), IsNull("b"))


def test_a_long_conjunction_stays_flat():
    expression = AlwaysTrue()
    for number in range(1200):  # more than Python's frames
        expression = expression & EqualTo("a", number)
    assert isinstance(expression, And)
    assert len(expression.terms) == 1200
    assert str(expression).startswith("a = 0 AND a = 1 AND ")


def test_constants_are_folded():
    a = IsNull("a")
    assert all_of([]) == AlwaysTrue()
    assert any_of([]) == AlwaysFalse()
    assert all_of([AlwaysTrue(), a]) == a
    assert any_of([AlwaysFalse(), a]) == a
    assert all_of([a, AlwaysFalse()]) == AlwaysFalse()
    assert any_of([a, AlwaysTrue()]) == AlwaysTrue()


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (EqualTo("type", "it's"), "type = 'it''s'"),
        (EqualTo("a b", True), '"a b" = TRUE'),
        (EqualTo("select", 1.5), '"select" = 1.5'),
        (EqualTo("d", date(2024, 1, 31)), "d = DATE '2024-01-31'"),
        (EqualTo("t", datetime(2024, 1, 31, 10)), "t = TIMESTAMP '2024-01-31 10:00:00'"),
        (EqualTo("x", b"\x0a\xff"), "x = X'0AFF'"),
        (EqualTo("m", Decimal("1E+2")), "m = 100"),
        (StartsWith("s", "50%_\\"), "s LIKE '50\\%\\_\\\\%'"),
        (NotIn("a", [1, -2]), "a NOT IN (1, -2)"),
        (And(EqualTo("a", 1), Or(IsNull("b"), NotNull("c"))), "a = 1 AND (b IS NULL OR c IS NOT NULL)"),
        (Not(And(IsNull("a"), IsNull("b"))), "NOT (a IS NULL AND b IS NULL)"),
    ],
)
def test_the_text_of_a_filter_is_sql_that_parses_into_the_same_filter(expression, text):
    assert str(expression) == text
    assert parse_filter(text) == expression


def test_every_reserved_word_of_sql_is_quoted():
    for word in FilterDialect.tokenizer_class.KEYWORDS:
        if word.replace("_", "a").isalnum() and not word[0].isdigit():
            name = word.lower()
            assert parse_filter(str(EqualTo(name, 1) & Not(IsNull(name) | In(name, [1, 2])))) == EqualTo(name, 1) & Not(
                IsNull(name) | In(name, [1, 2])
            )


@settings(max_examples=examples(150))
@given(filters(), rows(max_size=6))
def test_a_filter_survives_pickling_and_its_negation_matches_where_it_is_false(expression, found):
    assert str(pickle.loads(pickle.dumps(expression))) == str(expression)
    for row in found:
        value = truth(expression, row)
        assert truth(~expression, row) == (None if value is None else not value)


def test_a_literal_is_imported_with_the_predicates() -> None:
    assert expressions.EqualTo("age", expressions.literal(5)) == expressions.EqualTo("age", 5)
