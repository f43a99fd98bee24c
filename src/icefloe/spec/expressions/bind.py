"""Binding of a filter to a schema: names become fields, literals become physical values, and NOT is pushed down to the predicates.

A bound filter consists of `And`, `Or`, constants and `BoundPredicate`. Its literals are never NaN. It matches the rows for which it is TRUE, in every
evaluator: `row_evaluator.py` evaluates it on rows, `metrics_evaluator.py` on bounds and counts. Spec: Scan Planning.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from icefloe.errors import InvalidFilterError, InvalidInputError
from icefloe.spec.expressions.literal_conversion import ConvertedLiteral, LiteralPosition, convert_literal, convert_set
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
    UnboundPredicate,
    all_of,
    any_of,
    column_text,
    like_text,
    literal_text,
    negation,
)
from icefloe.spec.schema.metadata_columns import METADATA_COLUMNS
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
)
from icefloe.spec.values import physical_array, to_human, to_python


class PredicateOperator(Enum):
    """The operations of bound predicates. The value of each is its SQL operator."""

    IS_NULL = "IS NULL"
    NOT_NULL = "IS NOT NULL"
    IS_NAN = "IS NAN"
    NOT_NAN = "IS NOT NAN"
    EQ = "="
    NOT_EQ = "!="
    LT = "<"
    LT_EQ = "<="
    GT = ">"
    GT_EQ = ">="
    IN = "IN"
    NOT_IN = "NOT IN"
    STARTS_WITH = "LIKE"
    NOT_STARTS_WITH = "NOT LIKE"


@dataclass(frozen=True)
class BoundPredicate(BooleanExpression):
    """A test of one field.

    Attributes:
        operation: The test.
        field: The field of the schema.
        path: The names from the top-level column down to the field.
        values: Physical literals: empty for a test without a literal, sorted and distinct for IN and NOT IN. For float and double columns they are doubles,
            never NaN and never -0.0.
    """

    operation: PredicateOperator
    field: NestedField
    path: tuple[str, ...]
    values: tuple[Any, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values, which can be computed again."""
        return {name: getattr(self, name) for name in ("operation", "field", "path", "values")}

    @cached_property
    def literals(self) -> Any:
        """The literals as an Arrow array of physical values; for float columns they are doubles."""
        return physical_array(DoubleType() if isinstance(self.kind, FloatType) else self.kind, self.values)

    @cached_property
    def literal_set(self) -> frozenset[Any]:
        """The literals as a set of the Python values that `literals.to_pylist()` returns."""
        return frozenset(self.literals.to_pylist())

    @property
    def value(self) -> Any:
        """The only literal of a comparison."""
        return self.values[0]

    @property
    def kind(self) -> PrimitiveType:
        """The type of a primitive field.

        Raises:
            InvalidFilterError: The field is a struct, list, map or variant, which can only be tested for null.
        """
        if not isinstance(self.field.field_type, PrimitiveType):
            raise InvalidFilterError(f"column {self.column!r} is of type {self.field.field_type}, which has no values to compare")
        return self.field.field_type

    @property
    def column(self) -> str:
        """The dotted name of the column."""
        return ".".join(self.path)

    def __str__(self) -> str:
        head = f"{column_text(self.column)} {self.operation.value}"
        if not self.values:
            return head
        if self.operation in (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH):
            return f"{head} {like_text(self.value)}"
        texts = [self._text(value) for value in self.values]
        return (
            f"{head} ({', '.join(texts)})" if self.operation in (PredicateOperator.IN, PredicateOperator.NOT_IN) else f"{head} {texts[0]}"
        )

    def _text(self, value: Any) -> str:
        try:
            return literal_text(to_python(self.kind, value))
        except InvalidInputError:  # Python's `date` does not support the year
            return literal_text(to_human(self.kind, value))


_UNARY: Mapping[type, PredicateOperator] = {
    IsNull: PredicateOperator.IS_NULL,
    NotNull: PredicateOperator.NOT_NULL,
    IsNaN: PredicateOperator.IS_NAN,
    NotNaN: PredicateOperator.NOT_NAN,
}
_LITERAL: Mapping[type, PredicateOperator] = {
    EqualTo: PredicateOperator.EQ,
    NotEqualTo: PredicateOperator.NOT_EQ,
    LessThan: PredicateOperator.LT,
    LessThanOrEqual: PredicateOperator.LT_EQ,
    GreaterThan: PredicateOperator.GT,
    GreaterThanOrEqual: PredicateOperator.GT_EQ,
    StartsWith: PredicateOperator.STARTS_WITH,
    NotStartsWith: PredicateOperator.NOT_STARTS_WITH,
}
_PREFIX_TESTS = (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH)


def bind(expression: BooleanExpression, schema: Schema, case_sensitive: bool = True) -> BooleanExpression:
    """Bind a filter to the fields of a schema. The result has no NOT, and constants are folded. Predicates that are bound already are kept as they are.

    Args:
        expression: The filter.
        schema: The schema of the table. A name that it does not have may be a metadata column: `_file`, `_pos`, `_spec_id`, `_row_id`,
            `_last_updated_sequence_number`.
        case_sensitive: Whether column names are matched by letter case.

    Raises:
        InvalidFilterError: A column is not in the schema or is inside a list or map, or its type cannot be compared with the literal.
    """
    return _bind(rewrite_not(expression), schema, case_sensitive)


def rewrite_not(expression: BooleanExpression) -> BooleanExpression:
    """Return the same filter without any `Not`.

    In SQL's three-valued logic, `NOT (a = 1)` is the same as `a != 1`: both are null, and do not match, if `a` is null.

    Raises:
        InvalidFilterError: A predicate under a `Not` is bound already; bound predicates cannot be negated.
    """
    return _rewrite(expression, negated=False)


def _rewrite(expression: BooleanExpression, *, negated: bool) -> BooleanExpression:
    if isinstance(expression, Not):
        return _rewrite(expression.child, negated=not negated)
    if isinstance(expression, And | Or):
        combine = all_of if isinstance(expression, And) != negated else any_of
        return combine(_rewrite(term, negated=negated) for term in expression.terms)
    if not negated:
        return expression
    opposite = negation(expression)
    if isinstance(opposite, Not):
        raise InvalidFilterError(f"cannot negate {expression}", next_step="negate a filter before it is bound to a schema")
    return opposite


def _bind(expression: BooleanExpression, schema: Schema, case_sensitive: bool) -> BooleanExpression:
    if isinstance(expression, And):
        return all_of(_bind(term, schema, case_sensitive) for term in expression.terms)
    if isinstance(expression, Or):
        return any_of(_bind(term, schema, case_sensitive) for term in expression.terms)
    if isinstance(expression, AlwaysTrue | AlwaysFalse | BoundPredicate):
        return expression
    if not isinstance(expression, UnboundPredicate):
        raise InvalidFilterError(f"{type(expression).__name__} is not an expression of a filter")
    column = _find(expression.term, schema, case_sensitive)
    if type(expression) in _UNARY:
        return column.unary(_UNARY[type(expression)])
    if isinstance(expression, SetPredicate):
        negated = isinstance(expression, NotIn)
        if not negated and not isinstance(expression, In):
            raise InvalidFilterError(f"{type(expression).__name__} is not an expression of a filter")
        return column.one_of(expression.literals, negated=negated)
    if not isinstance(expression, LiteralPredicate) or type(expression) not in _LITERAL:
        raise InvalidFilterError(f"{type(expression).__name__} is not an expression of a filter")
    return column.compare(_LITERAL[type(expression)], expression.literal)


def predicates(expression: BooleanExpression) -> Iterator[BoundPredicate]:
    """Yield every predicate of a bound filter, left to right."""
    if isinstance(expression, And | Or):
        for term in expression.terms:
            yield from predicates(term)
    elif isinstance(expression, BoundPredicate):
        yield expression


def simplify(bound: BooleanExpression, decided: Callable[[BoundPredicate], bool | None]) -> BooleanExpression:
    """Replace predicates of a bound filter by constants, and fold the constants.

    Args:
        bound: The bound filter.
        decided: Returns True or False for a predicate that is replaced, and None for one that is kept.
    """
    if isinstance(bound, And):
        return all_of(simplify(term, decided) for term in bound.terms)
    if isinstance(bound, Or):
        return any_of(simplify(term, decided) for term in bound.terms)
    if isinstance(bound, BoundPredicate):
        outcome = decided(bound)
        return bound if outcome is None else AlwaysTrue() if outcome else AlwaysFalse()
    return bound


def filter_field_ids(row_filter: BooleanExpression) -> set[int]:
    """Return the field ids of the columns that a bound filter tests."""
    return {predicate.field.field_id for predicate in predicates(row_filter)}


def _find(name: str, schema: Schema, case_sensitive: bool) -> "_Column":
    field_id = schema.find_id(name, case_sensitive=case_sensitive)
    path = schema.path_of(field_id) if field_id is not None else None
    if path is None and name in METADATA_COLUMNS:
        field = METADATA_COLUMNS[name]
        return _Column(name, field, (name,))
    if path is None:
        raise InvalidFilterError(
            f"the filter refers to column {name!r}, which the table does not have", next_step=f"use one of {', '.join(schema.column_names)}"
        )
    fields = schema.fields
    for depth, part in enumerate(path):
        field = next(field for field in fields if field.name == part)
        if depth == len(path) - 1:
            break
        if not isinstance(field.field_type, StructType):
            raise InvalidFilterError(
                f"the filter tests {name!r}, which is inside {'.'.join(path[: depth + 1])} of type {field.field_type}",
                next_step="filter by columns outside of lists and maps; a row has many values of the others",
            )
        fields = field.field_type.fields
    return _Column(name, field, path)


@dataclass(frozen=True, slots=True)
class _Column:
    """A field of the schema that a predicate names. Its methods build the bound predicates on it."""

    name: str
    field: NestedField
    path: tuple[str, ...]

    def unary(self, operation: PredicateOperator) -> BooleanExpression:
        """Build the predicate of a test without a literal."""
        if operation in (PredicateOperator.IS_NAN, PredicateOperator.NOT_NAN) and not isinstance(
            self.field.field_type, FloatType | DoubleType
        ):
            raise InvalidFilterError(f"column {self.name!r} is of type {self.field.field_type}; only float and double have NaN")
        if isinstance(self.field.field_type, UnknownType):  # every value of an unknown column is null
            return AlwaysTrue() if operation is PredicateOperator.IS_NULL else AlwaysFalse()
        # A required column is tested too, because files that were written before it became required may contain nulls. Files without nulls are pruned by their
        # counts.
        return BoundPredicate(operation, self.field, self.path)

    def _with(self, operation: PredicateOperator, value: Any) -> BooleanExpression:
        return BoundPredicate(operation, self.field, self.path, (value,))

    @property
    def _is_number(self) -> BooleanExpression:
        return all_of((self.unary(PredicateOperator.NOT_NAN), self.unary(PredicateOperator.NOT_NULL)))

    def _convert(self, literal: Any) -> ConvertedLiteral:
        kind = self.field.field_type
        if not isinstance(kind, PrimitiveType) or isinstance(kind, UnknownType | GeometryType | GeographyType):
            raise InvalidFilterError(
                f"column {self.name!r} is of type {kind}, which can only be tested for null", next_step="use IS NULL or IS NOT NULL"
            )
        if literal is None:
            raise InvalidFilterError(
                f"the filter compares column {self.name!r} with null, which no value equals", next_step="use IS NULL or IS NOT NULL"
            )
        try:
            return convert_literal(kind, literal)
        except InvalidInputError as error:
            raise InvalidFilterError(
                f"column {self.name!r} of type {kind} cannot be compared with {literal!r}: {error.message}",
                next_step=f"write a literal of type {kind}",
            ) from error

    def compare(self, operation: PredicateOperator, literal: Any) -> BooleanExpression:
        """Build the predicate of a comparison with one literal."""
        if operation in _PREFIX_TESTS:
            return self._prefix(operation, literal)
        converted = self._convert(literal)
        if converted.position is LiteralPosition.NAN:
            return self._compare_nan(operation)
        if converted.position is LiteralPosition.EXACT:
            return self._with(operation, converted.value)
        if operation is PredicateOperator.EQ:
            return AlwaysFalse()
        if operation is PredicateOperator.NOT_EQ:
            return self.unary(PredicateOperator.NOT_NULL)
        is_less = operation in (PredicateOperator.LT, PredicateOperator.LT_EQ)
        if converted.position is LiteralPosition.BETWEEN:
            return self._with(PredicateOperator.LT_EQ if is_less else PredicateOperator.GT, converted.value)
        return self.unary(PredicateOperator.NOT_NULL) if is_less == (converted.position is LiteralPosition.ABOVE_MAX) else AlwaysFalse()

    def _prefix(self, operation: PredicateOperator, literal: Any) -> BooleanExpression:
        if not isinstance(self.field.field_type, StringType):
            raise InvalidFilterError(f"column {self.name!r} is of type {self.field.field_type}; LIKE and StartsWith are for strings")
        prefix = self._convert(literal).value
        if prefix:
            return self._with(operation, prefix)
        return self.unary(PredicateOperator.NOT_NULL) if operation is PredicateOperator.STARTS_WITH else AlwaysFalse()

    def _compare_nan(self, operation: PredicateOperator) -> BooleanExpression:
        """Build the predicate of a comparison with NaN, which equals NaN and sorts after every number, as in Spark."""
        match operation:
            case PredicateOperator.EQ | PredicateOperator.GT_EQ:
                return self.unary(PredicateOperator.IS_NAN)
            case PredicateOperator.NOT_EQ | PredicateOperator.LT:
                return self._is_number
            case PredicateOperator.LT_EQ:
                return self.unary(PredicateOperator.NOT_NULL)
            case _:
                return AlwaysFalse()

    def one_of(self, literals: tuple[Any, ...], *, negated: bool) -> BooleanExpression:
        """Build the predicate of IN or NOT IN."""
        kind = self.field.field_type
        distinct = convert_set(kind, literals) if isinstance(kind, PrimitiveType) else None
        has_nan = False
        if distinct is None:
            converted = [self._convert(literal) for literal in literals]
            distinct = {literal.value for literal in converted if literal.position is LiteralPosition.EXACT}
            has_nan = any(literal.position is LiteralPosition.NAN for literal in converted)
        values = sorted(distinct)
        single, several = (PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN) if negated else (PredicateOperator.EQ, PredicateOperator.IN)
        terms: list[BooleanExpression] = []
        if values:
            terms.append(BoundPredicate(several if len(values) > 1 else single, self.field, self.path, tuple(values)))
        if has_nan:
            terms.append(self._is_number if negated else self.unary(PredicateOperator.IS_NAN))
        if not negated:
            return any_of(terms)
        # An empty NOT IN keeps every row. A NOT IN whose literals equal no possible value still drops nulls.
        return all_of(terms or ([self.unary(PredicateOperator.NOT_NULL)] if literals else []))
