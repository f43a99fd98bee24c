"""Filters as JSON: the forms of the REST catalog, problems with their path, and filters that keep the same rows after a round trip."""

import json
import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings
from tests.repetitions import examples
from tests.spec.brute_force import SCHEMA, Row, arrow_table, filters, rows, some_columns, truth

from icefloe.errors import InvalidFilterError, UnsupportedFeatureError
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.expression_json import expression_from_json, expression_to_json
from icefloe.spec.expressions.filter_parser import parse_filter
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNaN,
    IsNull,
    LessThan,
    Not,
    NotIn,
    NotStartsWith,
    Or,
)
from icefloe.spec.expressions.row_evaluator import arrow_mask


def test_every_form_is_written_as_java_writes_it() -> None:
    expression = Or(And(EqualTo("a.b", 1), In("s", ["x", "y"]), IsNull("i")), Not(LessThan("f", 0.5)), NotStartsWith("s", "p"))
    written = expression_to_json(expression)
    assert written == {
        "type": "or",
        "left": {
            "type": "and",
            "left": {"type": "eq", "term": "a.b", "value": 1},
            "right": {
                "type": "and",
                "left": {"type": "in", "term": "s", "values": ["x", "y"]},
                "right": {"type": "is-null", "term": "i"},
            },
        },
        "right": {
            "type": "or",
            "left": {"type": "not", "child": {"type": "lt", "term": "f", "value": 0.5}},
            "right": {"type": "not-starts-with", "term": "s", "value": "p"},
        },
    }
    assert expression_from_json(written) == expression
    assert [expression_to_json(one) for one in (AlwaysTrue(), AlwaysFalse())] == [True, False]


@pytest.mark.parametrize(
    ("literal", "written"),
    [
        (True, True),
        (np.int64(7), 7),
        (Decimal("14.20"), "14.20"),
        (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        (b"\x00\xff", "00ff"),
        (date(2017, 11, 16), "2017-11-16"),
        (time(22, 31, 8, 123456), "22:31:08.123456"),
        (datetime(2017, 11, 16, 22, 31, 8, 123456), "2017-11-16T22:31:08.123456"),
        (datetime(2017, 11, 16, 22, 31, 8, 123456, tzinfo=UTC), "2017-11-16T22:31:08.123456+00:00"),
    ],
)
def test_literals_are_single_values_in_json(literal: Any, written: Any) -> None:
    assert expression_to_json(EqualTo("a", literal)) == {"type": "eq", "term": "a", "value": written}


@pytest.mark.parametrize("literal", [math.nan, math.inf, Decimal("NaN"), None, object()])
def test_a_literal_without_a_form_in_json_is_refused(literal: Any) -> None:
    with pytest.raises(InvalidFilterError, match="no form in JSON"):
        expression_to_json(EqualTo("a", literal))


REFERENCE = {"type": "reference", "name": "i"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, AlwaysTrue()),
        ({"type": "false"}, AlwaysFalse()),
        ({"type": "literal", "value": True}, AlwaysTrue()),
        ({"type": "IS_NULL", "term": {"type": "reference", "term": "i"}}, IsNull("i")),
        ({"type": "is-nan", "child": {"type": "reference", "id": 4}}, IsNaN("f")),
        ({"type": "lt", "left": REFERENCE, "right": 5}, LessThan("i", 5)),
        ({"type": "lt", "left": 5, "right": REFERENCE}, GreaterThan("i", 5)),
        ({"type": "eq", "term": "d", "value": {"type": "literal", "value": "2017-11-16"}}, EqualTo("d", date(2017, 11, 16))),
        ({"type": "eq", "term": "d", "value": 17486}, EqualTo("d", date(2017, 11, 16))),
        ({"type": "eq", "term": "y", "value": "00ff"}, EqualTo("y", b"\x00\xff")),
        ({"type": "eq", "term": "m", "value": "14.20"}, EqualTo("m", Decimal("14.20"))),
        (
            {"type": "eq", "term": "i", "value": {"type": "literal", "value": "1.5", "data-type": "decimal(2, 1)"}},
            EqualTo("i", Decimal("1.5")),
        ),
        (
            {
                "type": "not-in",
                "child": {"type": "reference", "name": "d"},
                "values": {"type": "literals", "values": [1, 2], "data-type": "int"},
            },
            NotIn("d", [1, 2]),
        ),
        ({"type": "eq", "term": {"type": "transform", "transform": "identity", "term": "i"}, "value": 1}, EqualTo("i", 1)),
    ],
)
def test_other_forms_of_json_are_read_too(value: Any, expected: BooleanExpression) -> None:
    assert expression_from_json(value, SCHEMA) == expected


def test_without_a_schema_literals_stay_as_json_has_them_and_binding_types_them() -> None:
    expression = expression_from_json({"type": "eq", "term": "d", "value": "2017-11-16"})
    assert expression == EqualTo("d", "2017-11-16")
    assert bind(expression, SCHEMA) == bind(EqualTo("d", date(2017, 11, 16)), SCHEMA)
    with pytest.raises(InvalidFilterError, match="no schema with a column of id 4"):
        expression_from_json({"type": "is-nan", "child": {"type": "reference", "id": 4}})


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (None, ["$"]),
        ("a = 1", ["$"]),
        ({"left": True}, ["$.type"]),
        ({"type": "between"}, ["$.type"]),
        ({"type": "and", "left": True}, ["$.right"]),
        ({"type": "or", "left": 1, "right": {"type": "not"}}, ["$.left", "$.right.child"]),
        ({"type": "is-null"}, ["$.term"]),
        ({"type": "is-null", "child": "i"}, ["$.child"]),
        ({"type": "is-null", "term": "i", "value": 1}, ["$.value"]),
        ({"type": "eq", "term": "i"}, ["$.value"]),
        ({"type": "eq", "term": "i", "values": [1]}, ["$.values", "$.value"]),
        ({"type": "in", "term": "i", "values": 1}, ["$.values"]),
        ({"type": "in", "term": "i", "values": [1, "x", None]}, ["$.values[1]", "$.values[2]"]),
        ({"type": "eq", "term": "none", "value": 1}, ["$.term"]),
        ({"type": "eq", "term": "d", "value": "16.11.2017"}, ["$.value"]),
        ({"type": "eq", "left": 1, "right": 1}, ["$.left"]),
        ({"type": "eq", "left": {"type": "reference", "id": 99}, "right": 1}, ["$.left.id"]),
        ({"type": "starts-with", "left": "x", "right": 1}, ["$.left"]),
    ],
)
def test_every_problem_is_listed_with_its_path(value: Any, where: list[str]) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        expression_from_json(value, SCHEMA)
    assert [problem.where for problem in caught.value.problems] == where


@pytest.mark.parametrize(
    "value",
    [
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "i"}, "value": 1},
        {"type": "is-null", "child": {"type": "apply", "function": "lower", "arguments": []}},
        {"type": "eq", "left": REFERENCE, "right": REFERENCE},
    ],
)
def test_a_form_that_filters_do_not_support_is_refused(value: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"\$"):
        expression_from_json(value, SCHEMA)


def test_a_filter_nested_too_deeply_is_refused() -> None:
    value: Any = True
    for _ in range(100_000):
        value = {"type": "not", "child": value}
    with pytest.raises(InvalidFilterError, match="too deeply"):
        expression_from_json(value)


def test_many_terms_become_a_shallow_tree() -> None:
    expression = Or(*(EqualTo("i", number) for number in range(5000)))
    assert expression_from_json(json.loads(json.dumps(expression_to_json(expression)))) == expression


def matching_rows(expression: BooleanExpression, candidate_rows: list[Row]) -> list[bool]:
    return [truth(expression, row) is True for row in candidate_rows]


@settings(max_examples=examples(300))
@given(st.data())
def test_a_bound_filter_keeps_the_same_rows_after_a_round_trip(data: st.DataObject) -> None:
    columns = data.draw(some_columns())
    expression, row_values = data.draw(filters(columns)), data.draw(rows(columns))
    bound = bind(expression, SCHEMA)
    assume("inf" not in str(bound))  # JSON has no infinity
    written = json.dumps(expression_to_json(bound), allow_nan=False)
    read = bind(expression_from_json(json.loads(written), SCHEMA), SCHEMA)
    assert arrow_mask(read, arrow_table(row_values)).to_pylist() == matching_rows(expression, row_values)


@pytest.mark.parametrize("literal", ["0.1", "0.3", "-0.1", "16777217"])
@pytest.mark.parametrize("operation", ["<", "<=", ">", ">=", "=", "!="])
def test_a_literal_between_two_floats_means_the_same_to_a_reader_that_rounds_it(operation: str, literal: str) -> None:
    bound = bind(parse_filter(f"g {operation} {literal}"), SCHEMA)
    read = expression_from_json(expression_to_json(bound), SCHEMA)
    near = np.float32(float(literal))
    candidate_rows = [{"g": float(value)} for value in (near, np.nextafter(near, np.float32(-9e9)), np.nextafter(near, np.float32(9e9)))]
    assert matching_rows(read, candidate_rows) == matching_rows(parse_filter(f"g {operation} {literal}"), candidate_rows)
