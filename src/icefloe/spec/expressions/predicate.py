"""Row filters as values: constants, AND, OR, NOT, and predicates on a column's name, with the class names of PyIceberg.

The filters are unbound: a column is its dotted name, and a literal is any Python value. `bind.py` binds them to a schema; `filter_parser.py` parses them from
text. A filter keeps the rows for which it is TRUE in SQL's three-valued logic, so a null never matches a comparison, not even `!=` or `NOT IN`.
`row_evaluator.py` and `metrics_evaluator.py` evaluate filters. Spec: Scan Planning.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, ClassVar

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


# Column names that are quoted in SQL texts, in lower case. They are the keywords of several dialects; unneeded quotes do no harm.
RESERVED_WORDS = frozenset(
    """
    alter analyze and any as begin between call case cast connect_by_root create cross current_catalog current_date current_time
    current_timestamp current_user delete describe distinct drop else end except execute explain false fetch for from glob grant
    group having if ilike in inner insert intersect interval into is isnull join kill lateral like limit localtime localtimestamp
    merge nan not notnull null on optimize or order outer partitioned_by pivot pragma prepare qualify regexp rename returning
    revoke rlike rollback select session_user show straight_join table tablesample then true truncate uncache union unpivot update
    use using vacuum values when where with xor
    """.split()  # noqa: SIM905 - a list of 80 strings would be harder to read
)


class Reference(str):
    """`Reference("age")`: a column by its dotted name. Predicates accept it as well as the name itself."""

    __slots__ = ()

    def __new__(cls, name: str) -> "Reference":
        """Return the reference to a column."""
        return super().__new__(cls, name)

    @property
    def name(self) -> str:
        """The dotted name."""
        return str(self)

    def __repr__(self) -> str:
        return f"Reference(name={str(self)!r})"


class BooleanExpression:
    """A filter. `&`, `|` and `~` combine filters; `str()` is the SQL text."""

    __slots__ = ()

    def __and__(self, other: "BooleanExpression") -> "BooleanExpression":
        return all_of((self, other))

    def __or__(self, other: "BooleanExpression") -> "BooleanExpression":
        return any_of((self, other))

    def __invert__(self) -> "BooleanExpression":
        return negation(self)


@dataclass(frozen=True, slots=True)
class AlwaysTrue(BooleanExpression):
    """A filter that matches every row."""

    def __str__(self) -> str:
        return "TRUE"


@dataclass(frozen=True, slots=True)
class AlwaysFalse(BooleanExpression):
    """A filter that matches no row."""

    def __str__(self) -> str:
        return "FALSE"


@dataclass(frozen=True, init=False)
class And(BooleanExpression):
    """A filter that is true if every term is true: `And(left, right, *more)`. The terms of an AND among the terms become terms of this one."""

    terms: tuple[BooleanExpression, ...]

    def __init__(self, left: BooleanExpression, right: BooleanExpression, *more: BooleanExpression) -> None:
        object.__setattr__(self, "terms", tuple(_flat(And, (left, right, *more))))

    @property
    def left(self) -> BooleanExpression:
        """The first term."""
        return self.terms[0]

    @property
    def right(self) -> BooleanExpression:
        """The other terms as one expression."""
        return all_of(self.terms[1:])

    def __str__(self) -> str:
        return " AND ".join(f"({term})" if isinstance(term, Or) else str(term) for term in self.terms)

    def __reduce__(self) -> tuple[object, ...]:
        return (And, self.terms)


@dataclass(frozen=True, init=False)
class Or(BooleanExpression):
    """A filter that is true if at least one term is true: `Or(left, right, *more)`. The terms of an OR among the terms become terms of this one."""

    terms: tuple[BooleanExpression, ...]

    def __init__(self, left: BooleanExpression, right: BooleanExpression, *more: BooleanExpression) -> None:
        object.__setattr__(self, "terms", tuple(_flat(Or, (left, right, *more))))

    @property
    def left(self) -> BooleanExpression:
        """The first term."""
        return self.terms[0]

    @property
    def right(self) -> BooleanExpression:
        """The other terms as one expression."""
        return any_of(self.terms[1:])

    def __str__(self) -> str:
        return " OR ".join(f"({term})" if isinstance(term, And) else str(term) for term in self.terms)

    def __reduce__(self) -> tuple[object, ...]:
        return (Or, self.terms)


@dataclass(frozen=True, slots=True)
class Not(BooleanExpression):
    """A filter that is true if its term is false. If the term is null, the row does not match."""

    child: BooleanExpression

    def __str__(self) -> str:
        return f"NOT ({self.child})"


def _flat(kind: type[And] | type[Or], terms: Iterable[BooleanExpression]) -> Iterator[BooleanExpression]:
    for term in terms:
        if isinstance(term, And | Or) and isinstance(term, kind):
            yield from term.terms
        else:
            yield term


def all_of(terms: Iterable[BooleanExpression]) -> BooleanExpression:
    """Return the conjunction of the terms with constants folded; `AlwaysTrue` for no terms."""
    operands = [term for term in _flat(And, terms) if not isinstance(term, AlwaysTrue)]
    if any(isinstance(term, AlwaysFalse) for term in operands):
        return AlwaysFalse()
    if not operands:
        return AlwaysTrue()
    return And(*operands) if len(operands) > 1 else operands[0]


def any_of(terms: Iterable[BooleanExpression]) -> BooleanExpression:
    """Return the disjunction of the terms with constants folded; `AlwaysFalse` for no terms."""
    operands = [term for term in _flat(Or, terms) if not isinstance(term, AlwaysFalse)]
    if any(isinstance(term, AlwaysTrue) for term in operands):
        return AlwaysTrue()
    if not operands:
        return AlwaysFalse()
    return Or(*operands) if len(operands) > 1 else operands[0]


@dataclass(frozen=True, slots=True)
class UnboundPredicate(BooleanExpression):
    """A test of one column, named by its dotted name."""

    term: str


@dataclass(frozen=True, slots=True)
class UnaryPredicate(UnboundPredicate):
    """A test of a column without a literal, such as IS NULL."""

    text: ClassVar[str]

    def __str__(self) -> str:
        return f"{column_text(self.term)} {self.text}"


@dataclass(frozen=True, slots=True)
class LiteralPredicate(UnboundPredicate):
    """A comparison of a column with one literal."""

    literal: Any
    text: ClassVar[str]

    def __str__(self) -> str:
        return f"{column_text(self.term)} {self.text} {literal_text(self.literal)}"


@dataclass(frozen=True, init=False)
class SetPredicate(UnboundPredicate):
    """A comparison of a column with several literals, which are passed as any iterable."""

    literals: tuple[Any, ...]
    text: ClassVar[str]

    def __init__(self, term: str, literals: Iterable[Any]) -> None:
        object.__setattr__(self, "term", term)
        object.__setattr__(self, "literals", tuple(literals))

    def __str__(self) -> str:
        return f"{column_text(self.term)} {self.text} ({', '.join(map(literal_text, self.literals))})"

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.term, self.literals))


class IsNull(UnaryPredicate):
    """A test that the value is null."""

    text = "IS NULL"


class NotNull(UnaryPredicate):
    """A test that the value is not null."""

    text = "IS NOT NULL"


class IsNaN(UnaryPredicate):
    """A test that the value is NaN. A null does not match."""

    text = "IS NAN"


class NotNaN(UnaryPredicate):
    """A test that the value is not NaN. A null matches."""

    text = "IS NOT NAN"


class EqualTo(LiteralPredicate):
    """A test that the value equals the literal. NaN equals NaN, and -0.0 equals 0.0."""

    text = "="


class NotEqualTo(LiteralPredicate):
    """A test that the value is not null and differs from the literal."""

    text = "!="


class LessThan(LiteralPredicate):
    """A test that the value sorts before the literal. NaN sorts after every number."""

    text = "<"


class LessThanOrEqual(LiteralPredicate):
    """A test that the value sorts before the literal or equals it. NaN sorts after every number."""

    text = "<="


class GreaterThan(LiteralPredicate):
    """A test that the value sorts after the literal. NaN sorts after every number."""

    text = ">"


class GreaterThanOrEqual(LiteralPredicate):
    """A test that the value sorts after the literal or equals it. NaN sorts after every number."""

    text = ">="


class In(SetPredicate):
    """A test that the value equals one of the literals."""

    text = "IN"


class NotIn(SetPredicate):
    """A test that the value is not null and differs from every literal."""

    text = "NOT IN"


class StartsWith(LiteralPredicate):
    """A test that the text starts with the literal."""

    text = "LIKE"

    def __str__(self) -> str:
        return f"{column_text(self.term)} LIKE {like_text(self.literal)}"


class NotStartsWith(LiteralPredicate):
    """A test that the text is not null and does not start with the literal."""

    text = "NOT LIKE"

    def __str__(self) -> str:
        return f"{column_text(self.term)} NOT LIKE {like_text(self.literal)}"


_PAIRS: tuple[tuple[type[Any], type[Any]], ...] = (
    (AlwaysTrue, AlwaysFalse),
    (IsNull, NotNull),
    (IsNaN, NotNaN),
    (EqualTo, NotEqualTo),
    (LessThan, GreaterThanOrEqual),
    (GreaterThan, LessThanOrEqual),
    (In, NotIn),
    (StartsWith, NotStartsWith),
)
OPPOSITES: Mapping[type[Any], type[Any]] = {kind: other for pair in _PAIRS for kind, other in (pair, pair[::-1])}


def negation(expression: BooleanExpression) -> BooleanExpression:
    """Return NOT of an expression: the opposite of a single predicate, else a `Not`."""
    opposite = OPPOSITES.get(type(expression))
    negated: BooleanExpression
    match expression:
        case Not(child):
            return child
        case AlwaysTrue() | AlwaysFalse() if opposite is not None:
            negated = opposite()
        case UnaryPredicate(term) if opposite is not None:
            negated = opposite(term)
        case LiteralPredicate(term, literal) if opposite is not None:
            negated = opposite(term, literal)
        case SetPredicate(term, literals) if opposite is not None:
            negated = opposite(term, literals)
        case _:
            negated = Not(expression)
    return negated


def column_text(name: str) -> str:
    """Return a dotted column name as SQL, in double quotes unless it consists of plain words."""
    if _PLAIN_NAME.fullmatch(name) and not any(part.lower() in RESERVED_WORDS for part in name.split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


def literal_text(value: object) -> str:
    """Return a Python value as a SQL literal."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, int | float):
        return float.__repr__(value) if isinstance(value, float) else int.__repr__(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        return f"'{value.isoformat()}'"
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex().upper()}'"
    if value is None:
        return "NULL"
    return "'" + str(value).replace("'", "''") + "'"


def like_text(prefix: object) -> str:
    """Return the LIKE pattern of a prefix, with wildcards in it escaped by a backslash."""
    return literal_text(re.sub(r"([\\%_])", r"\\\1", str(prefix)) + "%")
