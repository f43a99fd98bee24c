"""`Procedure`: a function with what SQL must know of it: its parameters and the columns of its rows."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, get_args, get_type_hints

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.kernel.types import (
    BooleanType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)

Rows = Sequence[tuple[Any, ...]]


class WiderRows(list[tuple[Any, ...]]):
    """Rows that have columns after those of the procedure's `output`, because there was something to say that is seldom said."""

    def __init__(self, rows: Rows, *more: tuple[str, IcebergType]) -> None:
        super().__init__(rows)
        self.more = more


# Types of parameters: what a value is in Python, and in SQL.
Text = Annotated[str, StringType()]
# Where files are: a location, or several folders with a slash at their ends; in SQL also the name of a table of the session's own catalog.
Source = Annotated[str | Sequence[str], StringType()]
Long = Annotated[int, LongType()]
Int = Annotated[int, IntegerType()]
Flag = Annotated[bool, BooleanType()]
# A datetime with a time zone; in Python also milliseconds since 1970-01-01 UTC.
Time = Annotated[datetime | int, TimestamptzType()]
Longs = Annotated[Sequence[int], ListType(element_id=2, element=LongType(), element_required=False)]
Names = Annotated[Sequence[str], ListType(element_id=2, element=StringType(), element_required=False)]
Texts = Annotated[Mapping[str, str], MapType(key_id=2, key_type=StringType(), value_id=3, value_type=StringType(), value_required=False)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a procedure. An optional one may be left out, or be null."""

    name: str
    kind: IcebergType
    required: bool
    is_table: bool  # names a table, perhaps with the catalog's name before it
    is_source: bool  # says where files are


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A function of a catalog and arguments, which returns rows of the columns of `output`."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    output: tuple[NestedField, ...]
    function: Callable[..., Rows]

    def __call__(self, catalog: Catalog, **arguments: Any) -> Rows:
        """The rows. A null argument counts as left out.

        Raises:
            InvalidInputError: an argument is missing or not known; and whatever the function raises.
        """
        known = [parameter.name for parameter in self.parameters]
        unknown = sorted(set(arguments) - set(known))
        given = {name: value for name, value in arguments.items() if value is not None}
        missing = [parameter.name for parameter in self.parameters if parameter.required and parameter.name not in given]
        if unknown or missing:
            what = f"has no argument {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
            raise InvalidInputError(f"the procedure {self.name} {what}", next_step=f"its arguments are {', '.join(known)}")
        return self.function(catalog, **given)


def procedure(*output: tuple[str, IcebergType], optional: Sequence[str] = ()) -> Callable[[Callable[..., Rows]], Procedure]:
    """Makes a procedure of a function whose first parameter is the catalog, and whose others have types of this file.

    `output` are the columns of its rows, of which those that are `optional` may be null.
    """

    def make(function: Callable[..., Rows]) -> Procedure:
        hints = get_type_hints(function, include_extras=True)
        parameters = [
            Parameter(
                name=name,
                kind=_kind(hints[name]),
                required=one.default is inspect.Parameter.empty,
                is_table=name == "table",
                is_source=hints[name] is Source,
            )
            for name, one in list(inspect.signature(function).parameters.items())[1:]
        ]
        return Procedure(
            name=function.__name__,
            description=(function.__doc__ or "").splitlines()[0],
            parameters=tuple(parameters),
            output=tuple(NestedField(place, name, kind, name not in optional) for place, (name, kind) in enumerate(output, 1)),
            function=function,
        )

    return make


def _kind(hint: Any) -> IcebergType:
    """The type of a parameter, which may be `X` or `X | None`."""
    found = getattr(hint, "__metadata__", None)
    if found is None:
        found = next(one.__metadata__ for one in get_args(hint) if hasattr(one, "__metadata__"))
    kind: IcebergType = found[0]
    return kind
