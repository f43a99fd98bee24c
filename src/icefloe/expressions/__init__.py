"""Filters under the module name of PyIceberg: `from icefloe.expressions import EqualTo, Reference`."""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.expressions.literals import literal as literal
    from icefloe.spec.expressions.predicate import AlwaysFalse as AlwaysFalse
    from icefloe.spec.expressions.predicate import AlwaysTrue as AlwaysTrue
    from icefloe.spec.expressions.predicate import And as And
    from icefloe.spec.expressions.predicate import BooleanExpression as BooleanExpression
    from icefloe.spec.expressions.predicate import EqualTo as EqualTo
    from icefloe.spec.expressions.predicate import GreaterThan as GreaterThan
    from icefloe.spec.expressions.predicate import GreaterThanOrEqual as GreaterThanOrEqual
    from icefloe.spec.expressions.predicate import In as In
    from icefloe.spec.expressions.predicate import IsNaN as IsNaN
    from icefloe.spec.expressions.predicate import IsNull as IsNull
    from icefloe.spec.expressions.predicate import LessThan as LessThan
    from icefloe.spec.expressions.predicate import LessThanOrEqual as LessThanOrEqual
    from icefloe.spec.expressions.predicate import LiteralPredicate as LiteralPredicate
    from icefloe.spec.expressions.predicate import Not as Not
    from icefloe.spec.expressions.predicate import NotEqualTo as NotEqualTo
    from icefloe.spec.expressions.predicate import NotIn as NotIn
    from icefloe.spec.expressions.predicate import NotNaN as NotNaN
    from icefloe.spec.expressions.predicate import NotNull as NotNull
    from icefloe.spec.expressions.predicate import NotStartsWith as NotStartsWith
    from icefloe.spec.expressions.predicate import Or as Or
    from icefloe.spec.expressions.predicate import Reference as Reference
    from icefloe.spec.expressions.predicate import SetPredicate as SetPredicate
    from icefloe.spec.expressions.predicate import StartsWith as StartsWith
    from icefloe.spec.expressions.predicate import UnaryPredicate as UnaryPredicate
    from icefloe.spec.expressions.predicate import UnboundPredicate as UnboundPredicate
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.expressions.literals": "literal",
            "icefloe.spec.expressions.predicate": (
                "AlwaysFalse, AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, "
                "LessThan, LessThanOrEqual, LiteralPredicate, Not, NotEqualTo, NotIn, NotNaN, NotNull, NotStartsWith, Or, "
                "Reference, SetPredicate, StartsWith, UnaryPredicate, UnboundPredicate"
            ),
        },
    )
