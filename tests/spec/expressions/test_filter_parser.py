"""Filters from the text of a WHERE clause."""

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidFilterError
from icefloe.spec.expressions import literal_lists
from icefloe.spec.expressions.filter_parser import FilterDialect, parse_filter
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from icefloe.spec.expressions.row_filter import to_expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("type = 'c8y_Event' AND time > '2024-01-01'", And(EqualTo("type", "c8y_Event"), GreaterThan("time", "2024-01-01"))),
        ("a <> -1", NotEqualTo("a", -1)),
        ("a == 1", EqualTo("a", 1)),
        ("5 < a", GreaterThan("a", 5)),
        ("a <= 1.5", LessThanOrEqual("a", Decimal("1.5"))),
        ("a >= 1e3", GreaterThanOrEqual("a", 1000.0)),
        ("a in (1, 2)", In("a", [1, 2])),
        ("a NOT IN ('x')", NotIn("a", ["x"])),
        ("a IS NULL OR b IS NOT NULL", Or(IsNull("a"), NotNull("b"))),
        ("a IS NAN", IsNaN("a")),
        ("NOT isnan(a)", NotNaN("a")),
        ("s LIKE 'abc%'", StartsWith("s", "abc")),
        ("s NOT LIKE 'abc%'", NotStartsWith("s", "abc")),
        ("s LIKE 'a\\_b\\%%'", StartsWith("s", "a_b%")),
        ("s LIKE 'abc'", EqualTo("s", "abc")),
        ("startswith(s, 'x')", StartsWith("s", "x")),
        ("a BETWEEN 1 AND 3", And(GreaterThanOrEqual("a", 1), LessThanOrEqual("a", 3))),
        ("a NOT BETWEEN 1 AND 3", Not(And(GreaterThanOrEqual("a", 1), LessThanOrEqual("a", 3)))),
        ("NOT (a = 1 AND b = 2)", Not(And(EqualTo("a", 1), EqualTo("b", 2)))),
        ("(a < 1 OR a > 2) AND TRUE", And(Or(LessThan("a", 1), GreaterThan("a", 2)), AlwaysTrue())),
        ("FALSE", AlwaysFalse()),
        ("1 = 1", AlwaysTrue()),
        ("d = DATE '2024-01-31'", EqualTo("d", date(2024, 1, 31))),
        ("d = CAST('2024-01-31' AS DATE)", EqualTo("d", date(2024, 1, 31))),
        ("t < TIMESTAMP '2024-01-31 10:00:00'", LessThan("t", datetime(2024, 1, 31, 10))),
        ("t < TIMESTAMP '2024-01-31T10:00:00+00:00'", LessThan("t", datetime(2024, 1, 31, 10, tzinfo=UTC))),
        ("t = TIME '10:30:00'", EqualTo("t", time(10, 30))),
        ("x = X'0aff'", EqualTo("x", b"\x0a\xff")),
        ("\"odd name\" = 'it''s'", EqualTo("odd name", "it's")),
        ("`odd name`.b.c.d.e.f = 1", EqualTo("odd name.b.c.d.e.f", 1)),
        ("date = 'x' AND comment = 'y' AND value = 1", And(EqualTo("date", "x"), EqualTo("comment", "y"), EqualTo("value", 1))),
        ("active AND NOT deleted", And(EqualTo("active", True), NotEqualTo("deleted", True))),
        ("a <=> 5", And(NotNull("a"), EqualTo("a", 5))),
        ("a <=> NULL", IsNull("a")),
        ("a IS NOT TRUE", Not(And(NotNull("a"), EqualTo("a", True)))),
        ("s = 'a -- b' -- c", EqualTo("s", "a -- b")),
    ],
)
def test_text_is_parsed_into_a_filter(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("a = ", "not a SQL condition"),
        ("a = 1 LIMIT 3", "'LIMIT'"),
        ("a = 1; DROP TABLE t", "not a SQL condition"),
        ("a = 1; b = 2", "more than one"),
        ("a = 1) OR (b = 2", "not a SQL condition"),
        ("a = 'x", "not a SQL condition"),
        ("a = NULL", "IS NULL"),
        ("a = b", "two columns cannot be compared"),
        ('a = "text"', "single quotes"),
        ("lower(a) = 'x'", "'LOWER(a)'"),
        ("a + 1 = 2", "'a + 1'"),
        ("a LIKE '%x'", "wildcard"),
        ("a LIKE 'x_y'", "wildcard"),
        ("a ILIKE 'x%'", "ILIKE"),
        ("a IN (SELECT 1)", "list of literals"),
        ("a BETWEEN SYMMETRIC 2 AND 1", "SYMMETRIC"),
        ("a = DATE '2024-13-01'", "is not a value"),
        ("CAST(a AS INT) = 1", "CAST"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("a = ?", "not a literal"),
        ("1 = 'a'", "different types"),
        ("42", "'42'"),
        ("a = 1.5E", "'1.5E' is not a value"),
        ("a BETWEEN 1 AND -2e", "'2e' is not a value"),
        ("(" * 5000 + "a = 1" + ")" * 5000, "nested too deeply"),
    ],
)
def test_an_invalid_filter_is_refused_with_the_reason(text, reason):
    with pytest.raises(InvalidFilterError) as refused:
        parse_filter(text)
    assert reason in refused.value.message
    assert "a filter consists of" in str(refused.value)


def test_every_digit_of_a_negative_number_is_kept():
    for digits in ("9" * 36 + ".98", "1." + "1" * 37, "9" * 38):
        assert str(parse_filter(f"a = -{digits}")) == f"a = -{digits}"


@settings(max_examples=examples(300))
@given(st.text(alphabet="ab1 '\"`()=<>!,.%_-\\;ANDORTLIKEUS\n\u00e9", max_size=30))
def test_any_text_is_either_a_filter_or_refused(text):
    try:
        parse_filter(text)
    except InvalidFilterError:
        return


def test_a_filter_is_text_an_expression_or_none():
    assert to_expression(None) == AlwaysTrue()
    assert to_expression("a = 1") == EqualTo("a", 1)
    assert to_expression(IsNull("a")) == IsNull("a")
    with pytest.raises(InvalidFilterError, match="int"):
        to_expression(5)  # type: ignore[arg-type]


LISTS = [
    "a IN (1, -2, 3)",
    "a IN(1,-2.50,3e5, 007 , 1.0)",
    "NOT a IN (1, 2) OR b NOT IN ('x', 'it''s', '', 'IN (1, 2)')",
    "\"a IN (1, 2)\" = 1 AND `b` IN (DATE '2024-01-01', date  '1969-12-31')",
    "t IN (TIMESTAMP '2024-01-01 00:00:00', timestamp '2024-01-01T00:00:00.123456789')",
    "h IN (X'00ff', x'')",
    "a IN (-0.0, -0, 123456789012345678901234567890.5)",
    "a.b IN ('ä', '\U0001f600', 'x\ny')",
    "a IN (1, 'x')",
    "a IN (1, 2) AND a IN (3, 4) AND b = 'a IN (5, 6)'",
    "s IN ('-- a', '/* b */', '$', '\\')",
    "a in (TRUE, FALSE)",
]
NOT_CUT = [
    "a IN (1, 2 /* three */)",
    "a IN (1, 2) -- the end",
    "x.in (1, 2)",
    "a IN (1, b)",
    "a IN (1, NULL)",
    "a IN (1 2)",
    "a IN ('x' 'y', 'z')",
    "a IN ('x', 'y'",
    "a IN (1, 2,)",
    "a IN (1, 2) IN (3, 4)",
    "a IN (DATE '2024-13-01', DATE '2024-01-01')",
    "a IN (1, :icefloe_literals_0)",
    "a IN ((1), (2))",
    "a IN (1, 2) = TRUE",
    "f(a) IN (1, 2)",
    "a IN (X'0', X'00')",
    "a IN (1_000, 2)",
    "a IN (.5, 5.)",
    "éIN (1, 2)",
]


def outcome(text: str) -> object:
    try:
        return parse_filter(text)
    except InvalidFilterError as error:
        return error.message.rpartition(": ")[2]


@pytest.mark.parametrize("text", [*LISTS, *NOT_CUT])
def test_a_list_that_is_read_apart_has_the_values_that_it_has_as_part_of_the_text(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    whole = outcome(text)
    monkeypatch.setattr(literal_lists, "SHORTEST", 0)
    apart = outcome(text)
    assert repr(apart) == repr(whole) or "..." in str(apart)
    assert "icefloe_literals" not in str(apart) or "icefloe_literals" in text


@pytest.mark.parametrize("text", LISTS[:10])
def test_lists_of_plain_literals_do_not_reach_the_parser_of_sql(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(literal_lists, "SHORTEST", 0)
    cut = literal_lists.without_lists(text, float, str)
    assert bool(cut.lists) is (text != "a IN (1, 'x')")
    assert all(len(values) > 1 for values in cut.lists.values())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a IN ({})", 30_000),
        ("a NOT IN ({}) AND b = 1", 30_000),
        ("a IN ({}) OR a IN ({})", 60_000),
    ],
)
def test_a_long_list_makes_no_token_of_a_literal(monkeypatch: pytest.MonkeyPatch, text: str, count: int) -> None:
    written = text.format(*[", ".join(map(str, range(30_000)))] * 2)
    tokens: list[int] = []
    real = FilterDialect.parse_into

    def parse_into(self: FilterDialect, kind: object, sql: str) -> object:
        tokens.append(len(self.tokenize(sql)))
        return real(self, kind, sql)

    monkeypatch.setattr(FilterDialect, "parse_into", parse_into)
    parsed = parse_filter(written)
    assert tokens[0] < 20
    assert str(parsed).count(", ") == count - (2 if "OR" in text else 1)


def test_what_is_refused_beside_a_long_list_is_named_in_its_own_words() -> None:
    with pytest.raises(InvalidFilterError, match=r"'LOWER\(a IN \(\.\.\.\)\)' is not a condition"):
        parse_filter(f"lower(a IN ({', '.join(map(str, range(3000)))}))")
