"""Filters under the module name of PyIceberg: `from icefloe.expressions import EqualTo, Reference`."""

from typing import TYPE_CHECKING

from icefloe.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from icefloe.expressions.literals import literal as literal
    from icefloe.kernel.expressions.predicate import AlwaysFalse as AlwaysFalse
    from icefloe.kernel.expressions.predicate import AlwaysTrue as AlwaysTrue
    from icefloe.kernel.expressions.predicate import And as And
    from icefloe.kernel.expressions.predicate import BooleanExpression as BooleanExpression
    from icefloe.kernel.expressions.predicate import EqualTo as EqualTo
    from icefloe.kernel.expressions.predicate import GreaterThan as GreaterThan
    from icefloe.kernel.expressions.predicate import GreaterThanOrEqual as GreaterThanOrEqual
    from icefloe.kernel.expressions.predicate import In as In
    from icefloe.kernel.expressions.predicate import IsNaN as IsNaN
    from icefloe.kernel.expressions.predicate import IsNull as IsNull
    from icefloe.kernel.expressions.predicate import LessThan as LessThan
    from icefloe.kernel.expressions.predicate import LessThanOrEqual as LessThanOrEqual
    from icefloe.kernel.expressions.predicate import LiteralPredicate as LiteralPredicate
    from icefloe.kernel.expressions.predicate import Not as Not
    from icefloe.kernel.expressions.predicate import NotEqualTo as NotEqualTo
    from icefloe.kernel.expressions.predicate import NotIn as NotIn
    from icefloe.kernel.expressions.predicate import NotNaN as NotNaN
    from icefloe.kernel.expressions.predicate import NotNull as NotNull
    from icefloe.kernel.expressions.predicate import NotStartsWith as NotStartsWith
    from icefloe.kernel.expressions.predicate import Or as Or
    from icefloe.kernel.expressions.predicate import Reference as Reference
    from icefloe.kernel.expressions.predicate import SetPredicate as SetPredicate
    from icefloe.kernel.expressions.predicate import StartsWith as StartsWith
    from icefloe.kernel.expressions.predicate import UnaryPredicate as UnaryPredicate
    from icefloe.kernel.expressions.predicate import UnboundPredicate as UnboundPredicate
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "icefloe.expressions.literals": "literal",
            "icefloe.kernel.expressions.predicate": (
                "AlwaysFalse, AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, "
                "LessThan, LessThanOrEqual, LiteralPredicate, Not, NotEqualTo, NotIn, NotNaN, NotNull, NotStartsWith, Or, "
                "Reference, SetPredicate, StartsWith, UnaryPredicate, UnboundPredicate"
            ),
        },
    )
