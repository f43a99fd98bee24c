"""JSON of filters as REST catalogs send and receive it, with the current and the deprecated form of operands.

The deprecated form (`term`, `value`) is written, because Java does not support the current form yet. Literals are JSON single values. Whether a text is a date,
the hex digits of bytes or a string depends on the column's type. With a schema, reading converts literals exactly; without one, they are converted when the
filter is bound.
Spec: REST catalog, Predicate; Appendix D, JSON single-value serialization. JAVA: ExpressionParser.
"""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np

from icefloe.errors import FormatError, IcefloeError, InvalidFilterError, InvalidInputError, Problem, UnsupportedFeatureError
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.predicate import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    SetPredicate,
    StartsWith,
    UnaryPredicate,
    UnboundPredicate,
)
from icefloe.spec.schema.json_shape import kind_of
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_json import type_from_json
from icefloe.spec.types import (
    DateType,
    FloatType,
    NestedField,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)
from icefloe.spec.values import from_json_value, to_json_value, to_physical, to_python

_UNARY: Mapping[str, type[UnaryPredicate]] = {"is-null": IsNull, "not-null": NotNull, "is-nan": IsNaN, "not-nan": NotNaN}
_LITERAL: Mapping[str, type[LiteralPredicate]] = {
    "lt": LessThan,
    "lt-eq": LessThanOrEqual,
    "gt": GreaterThan,
    "gt-eq": GreaterThanOrEqual,
    "eq": EqualTo,
    "not-eq": NotEqualTo,
    "starts-with": StartsWith,
    "not-starts-with": NotStartsWith,
}
_SET: Mapping[str, type[SetPredicate]] = {"in": In, "not-in": NotIn}
_NAMES: Mapping[type, str] = {kind: name for names in (_UNARY, _LITERAL, _SET) for name, kind in names.items()}
_COUNTED = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
# For each comparison, the one with exchanged sides, for JSON in which the literal comes first.
_MIRRORED = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq", "eq": "eq", "not-eq": "not-eq"}


# ---- writing ----


def expression_to_json(expression: BooleanExpression) -> Any:
    """Return the filter as a JSON value.

    If literals may have other Python types than their columns, bind the filter first: literals of a bound filter are written with the types of the columns.

    Raises:
        InvalidFilterError: A literal cannot be written in JSON, such as NaN or a variant.
    """
    match expression:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case Not(child):
            return {"type": "not", "child": expression_to_json(child)}
        case And(terms) | Or(terms):
            return joined_pairwise("and" if isinstance(expression, And) else "or", [expression_to_json(term) for term in terms])
        case BoundPredicate():
            exact = _as_floats(expression)
            return _bound_to_json(exact) if isinstance(exact, BoundPredicate) else expression_to_json(exact)
        case UnboundPredicate():
            return _unbound_to_json(expression)
    raise InvalidFilterError(f"{expression!r} has no form as a filter in JSON")


def joined_pairwise(word: str, terms: Sequence[Any]) -> Any:
    """Return the JSON of terms joined by `and` or `or`, as a binary tree of the least depth, because readers parse it recursively."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return {"type": word, "left": joined_pairwise(word, terms[:half]), "right": joined_pairwise(word, terms[half:])}


def _as_floats(predicate: BoundPredicate) -> BooleanExpression:
    """Return a predicate on a float column as an equivalent one whose literals are 32-bit floats; a predicate on any other column is returned unchanged.

    The literals of a bound predicate are doubles. Readers of the JSON round them to 32 bits, which could change the result: if the nearest float is above the
    literal, `> literal` must become `>=` with that float, and so on. A literal of an equality that is no float is left out, because no value equals it.
    """
    if not isinstance(predicate.field.field_type, FloatType) or all(_nearest_float(value) == value for value in predicate.values):
        return predicate
    if predicate.operation in (PredicateOperator.EQ, PredicateOperator.IN):
        exact = tuple(value for value in predicate.values if _nearest_float(value) == value)
        return replace(predicate, operation=PredicateOperator.IN, values=exact) if exact else AlwaysFalse()
    if predicate.operation in (PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN):
        exact = tuple(value for value in predicate.values if _nearest_float(value) == value)
        return replace(predicate, operation=PredicateOperator.NOT_IN if exact else PredicateOperator.NOT_NULL, values=exact)
    nearest = _nearest_float(predicate.value)
    is_less = predicate.operation in (PredicateOperator.LT, PredicateOperator.LT_EQ)
    if nearest > predicate.value:
        operation = PredicateOperator.LT if is_less else PredicateOperator.GT_EQ
    else:
        operation = PredicateOperator.LT_EQ if is_less else PredicateOperator.GT
    return replace(predicate, operation=operation, values=(nearest,))


def _nearest_float(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def _bound_to_json(predicate: BoundPredicate) -> dict[str, Any]:
    document: dict[str, Any] = {"type": predicate.operation.name.lower().replace("_", "-"), "term": predicate.column}
    try:
        values = [to_json_value(predicate.kind, value) for value in predicate.values] if predicate.values else []
    except InvalidInputError as error:
        raise InvalidFilterError(f"the filter {predicate} has no form in JSON: {error.message}") from error
    if predicate.operation in (PredicateOperator.IN, PredicateOperator.NOT_IN):
        return {**document, "values": values}
    return {**document, "value": values[0]} if values else document


def _unbound_to_json(predicate: UnboundPredicate) -> dict[str, Any]:
    document: dict[str, Any] = {"type": _NAMES[type(predicate)], "term": predicate.term}
    if isinstance(predicate, LiteralPredicate):
        document["value"] = _literal_to_json(predicate.literal, predicate)
    elif isinstance(predicate, SetPredicate):
        document["values"] = [_literal_to_json(value, predicate) for value in predicate.literals]
    return document


def _literal_to_json(value: Any, predicate: UnboundPredicate) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case float() if not math.isfinite(value):
            raise InvalidFilterError(
                f"the filter {predicate} has no form in JSON, which cannot hold {value}", next_step="use IsNaN, or a finite number"
            )
        case bool() | int() | float() | str():
            return value
        case Decimal() if value.is_finite():
            return format(value, "f")
        case uuid.UUID():
            return str(value)
        case bytes() | bytearray():
            return value.hex()
        case datetime():
            kind: PrimitiveType = TimestampType() if value.tzinfo is None else TimestamptzType()
            return to_json_value(kind, to_physical(kind, value))
        case date():
            return to_json_value(DateType(), to_physical(DateType(), value))
        case time():
            return to_json_value(TimeType(), to_physical(TimeType(), value))
    raise InvalidFilterError(f"the filter {predicate} has no form in JSON: {value!r} is not a value of an Iceberg type")


# ---- reading ----


def expression_from_json(value: Any, schema: Schema | None = None, *, case_sensitive: bool = True) -> BooleanExpression:
    """Return the filter that parsed JSON describes.

    Args:
        value: The parsed JSON.
        schema: The schema, with which column ids are replaced by names, and literals are converted to the columns' types. None to do neither.
        case_sensitive: Whether column names are matched by letter case.

    Raises:
        InvalidFilterError: The JSON has another shape, or does not fit the schema; every problem is listed with its path.
        UnsupportedFeatureError: An operand is a transform or a function, or is compared with another column.
    """
    reader = _Reader(schema, case_sensitive)
    try:
        expression = reader.expression(value, "$")
    except RecursionError as error:
        raise InvalidFilterError("the filter is nested too deeply to be read") from error
    if reader.problems:
        raise InvalidFilterError("the filter cannot be read from JSON", problems=reader.problems)
    return expression


class _Reader:
    """A reader of one filter, which collects the problems that it finds. If there are any, the returned expressions are meaningless."""

    def __init__(self, schema: Schema | None, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive
        self.problems: list[Problem] = []

    def expression(self, value: Any, path: str) -> BooleanExpression:
        if isinstance(value, bool):
            return AlwaysTrue() if value else AlwaysFalse()
        if not isinstance(value, Mapping):
            return self._refuse(path, f"expected true, false or an object, found {kind_of(value)}")
        if not isinstance(value.get("type"), str):
            return self._refuse(f"{path}.type", f"expected a string, found {kind_of(value.get('type'))}")
        # JAVA: ExpressionParser.fromType accepts any letter case, and `_` instead of `-`.
        word = value["type"].lower().replace("_", "-")
        if word in ("true", "false"):
            return AlwaysTrue() if word == "true" else AlwaysFalse()
        if word == "literal":
            constant = value.get("value")
            return (
                self.expression(constant, f"{path}.value")
                if isinstance(constant, bool)
                else self._refuse(f"{path}.value", "expected true or false")
            )
        if word in ("and", "or"):
            sides = [self.expression(value.get(side), f"{path}.{side}") for side in ("left", "right")]
            return And(*sides) if word == "and" else Or(*sides)
        if word == "not":
            return Not(self.expression(value.get("child"), f"{path}.child"))
        if word in _UNARY:
            return self._unary(_UNARY[word], value, path)
        if word in _LITERAL:
            return self._comparison(word, value, path)
        if word in _SET:
            return self._set(_SET[word], value, path)
        return self._refuse(f"{path}.type", f"{value['type']!r} is not an operation of filters")

    def _refuse(self, where: str, what: str) -> BooleanExpression:
        self.problems.append(Problem(where=where, what=what))
        return AlwaysTrue()

    def _unary(self, kind: type[UnaryPredicate], value: Mapping[str, Any], path: str) -> BooleanExpression:
        self._check_keys(value, path, "term", "child")
        return kind(self._operand(value, path, "child")[0])

    def _set(self, kind: type[SetPredicate], value: Mapping[str, Any], path: str) -> BooleanExpression:
        self._check_keys(value, path, "term", "child", "values")
        name, field = self._operand(value, path, "child")
        values: Any = value.get("values")
        data_type, at = None, f"{path}.values"
        if isinstance(values, Mapping) and values.get("type") == "literals":
            values, data_type, at = values.get("values"), values.get("data-type"), f"{at}.values"
        if not isinstance(values, list):
            return self._refuse(at, f"expected an array of literals, found {kind_of(values)}")
        return kind(name, [self._literal(item, data_type, field, f"{at}[{index}]") for index, item in enumerate(values)])

    def _comparison(self, word: str, value: Mapping[str, Any], path: str) -> BooleanExpression:
        self._check_keys(value, path, "term", "value", "left", "right")
        if "left" not in value:
            name, field = self._operand(value, path, "left")
            return _LITERAL[word](name, self._literal(value.get("value"), None, field, f"{path}.value"))
        sides = [(value["left"], f"{path}.left"), (value.get("right"), f"{path}.right")]
        if _is_column(sides[1][0]) and not _is_column(sides[0][0]) and word in _MIRRORED:
            sides.reverse()
            word = _MIRRORED[word]
        if _is_column(sides[1][0]):
            raise UnsupportedFeatureError(
                f"{path}: a filter that compares two columns is not supported", next_step="compare them after the scan"
            )
        name, field = self._column(*sides[0])
        return _LITERAL[word](name, self._literal(sides[1][0], None, field, sides[1][1]))

    def _check_keys(self, value: Mapping[str, Any], path: str, *keys: str) -> None:
        for key in ("term", "child", "left", "right", "value", "values"):
            if key in value and key not in keys:
                self._refuse(f"{path}.{key}", f"{value['type']} does not have this key")

    def _operand(self, value: Mapping[str, Any], path: str, key: str) -> tuple[str, NestedField | None]:
        """Read the column from the current key `key`, or from the deprecated key `term`."""
        operand_key = key if key in value else "term"
        return self._column(value.get(operand_key), f"{path}.{operand_key}", by_name=operand_key == "term")

    def _column(self, value: Any, path: str, *, by_name: bool = False) -> tuple[str, NestedField | None]:
        """Read the name of a column, and its field if there is a schema.

        A JSON string is the name of a column in the deprecated form of operands; in the current form it is a literal.
        """
        if isinstance(value, Mapping) and value.get("type") in ("transform", "apply"):
            if value["type"] == "transform" and value.get("transform") == "identity":
                return self._column(value.get("term"), f"{path}.term", by_name=True)
            function = value.get("transform") or value.get("function")
            raise UnsupportedFeatureError(
                f"{path}: a filter on {function!r} of a column is not supported", next_step="filter by the column itself"
            )
        name: Any = value if by_name else None
        if isinstance(value, Mapping) and value.get("type") == "reference":
            if "id" in value:
                return self._column_of_id(value["id"], f"{path}.id")
            name = value.get("name", value.get("term"))  # in Java the key of the name is `term`
        if not isinstance(name, str):
            self._refuse(path, f"expected a column's name or a reference to one, found {kind_of(value)}")
            return "", None
        if self._schema is None:
            return name, None
        field_id = self._schema.find_id(name, case_sensitive=self._case_sensitive)
        if field_id is None:
            self._refuse(path, f"there is no column {name!r} among {', '.join(self._schema.column_names)}")
            return name, None
        return name, self._schema.find_field(field_id)

    def _column_of_id(self, field_id: Any, path: str) -> tuple[str, NestedField | None]:
        name = self._schema.find_column_name(field_id) if self._schema is not None and isinstance(field_id, int) else None
        if name is None or self._schema is None:
            self._refuse(path, f"there is no schema with a column of id {field_id!r}")
            return "", None
        return name, self._schema.find_field(field_id)

    def _literal(self, value: Any, data_type: Any, field: NestedField | None, path: str) -> Any:
        """Read a literal as a Python value of its own type, or else of the column's type; if neither is known, as the JSON value."""
        if isinstance(value, Mapping) and value.get("type") == "literal":
            value, data_type, path = value.get("value"), value.get("data-type", data_type), f"{path}.value"
        if not isinstance(value, bool | int | float | str):
            self._refuse(path, f"expected a literal, found {kind_of(value)}")
            return None
        if data_type is None and field is None:
            return value
        try:
            kind = field.field_type if data_type is None and field is not None else type_from_json(data_type)
            if not isinstance(kind, PrimitiveType):
                self._refuse(path, f"a value of type {kind} cannot be compared")
                return None
            # Java writes literals of an unbound filter without the types of the columns, for example a date as a number of days.
            is_count = isinstance(value, int) and not isinstance(value, bool) and isinstance(kind, _COUNTED)
            return _native(kind, to_physical(kind, value) if is_count else from_json_value(kind, value))
        except (FormatError, InvalidInputError) as error:
            self._refuse(path, error.message)
            return None


def _is_column(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") in ("reference", "transform", "apply")


def _native(kind: PrimitiveType, physical: Any) -> Any:
    try:
        return to_python(kind, physical)
    except IcefloeError:  # Python's classes do not support the year or the nanoseconds; binding accepts the number too
        return physical
