"""`Procedure`: a function with its description for SQL: its parameters and the columns of its rows."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, get_args, get_type_hints

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, TimestamptzType

Rows = Sequence[tuple[Any, ...]]


class WiderRows(list[tuple[Any, ...]]):
    """Rows with more columns after those of the procedure's `output`, for results that are rarely needed.

    Attributes:
        more: Names and types of the further columns.
    """

    def __init__(self, rows: Rows, *more: tuple[str, IcebergType]) -> None:
        super().__init__(rows)
        self.more = more


# Types of parameters: the type of a value in Python, and in SQL.
Text = Annotated[str, StringType()]
# Source of files: a location, or several folders with a slash at their ends; in SQL also the name of a table in Spark's session catalog.
Source = Annotated[str | Sequence[str], StringType()]
# Names of parameters that are names of a table of the catalog.
_TABLES = ("table", "new_table")
# Rows: in Python Arrow data, in SQL the name of a view of Spark.
View = Annotated[Any, StringType()]
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
    """A parameter of a procedure. The argument of an optional one may be left out, or be null."""

    name: str
    kind: IcebergType
    required: bool
    is_table: bool  # the name of a table, which may begin with the catalog's name
    is_source: bool  # the source of files
    is_view: bool  # rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A function of a catalog and arguments, which returns rows.

    Attributes:
        name: The name of the procedure in SQL.
        description: One line for users.
        parameters: The parameters after the catalog, in order.
        output: The columns of the rows.
        function: The function.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    output: tuple[NestedField, ...]
    function: Callable[..., Rows]

    def __call__(self, catalog: Catalog, **arguments: Any) -> Rows:
        """Run the procedure; a null argument counts as left out.

        Args:
            catalog: The catalog of the table.
            **arguments: Arguments by the names of the parameters.

        Returns:
            Rows with the columns of `output`.

        Raises:
            InvalidInputError: A required argument is missing, or an argument has an unknown name.
            IcefloeError: The function failed.
        """
        names = [parameter.name for parameter in self.parameters]
        unknown = sorted(set(arguments) - set(names))
        present = {name: value for name, value in arguments.items() if value is not None}
        missing = [parameter.name for parameter in self.parameters if parameter.required and parameter.name not in present]
        if unknown or missing:
            problem = f"has no argument {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
            raise InvalidInputError(f"the procedure {self.name} {problem}", next_step=f"its arguments are {', '.join(names)}")
        return self.function(catalog, **present)


def procedure(*output: tuple[str, IcebergType], optional: Sequence[str] = ()) -> Callable[[Callable[..., Rows]], Procedure]:
    """Return a decorator that makes a procedure of a function.

    The first parameter of the function is the catalog; the others have types of this module. The first line of its docstring is the description in SQL.

    Args:
        *output: Names and types of the columns of its rows.
        optional: The names of the columns that may be null.
    """

    def make(function: Callable[..., Rows]) -> Procedure:
        hints = get_type_hints(function, include_extras=True)
        parameters = [
            Parameter(
                name=name,
                kind=_kind(hints[name]),
                required=parameter.default is inspect.Parameter.empty,
                is_table=name in _TABLES and hints[name] is not Source,
                is_source=hints[name] is Source,
                is_view=hints[name] == View | None,
            )
            for name, parameter in list(inspect.signature(function).parameters.items())[1:]
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
    """Return the type of a parameter whose annotation is `X` or `X | None`."""
    metadata = getattr(hint, "__metadata__", None)
    if metadata is None:
        metadata = next(member.__metadata__ for member in get_args(hint) if hasattr(member, "__metadata__"))
    kind: IcebergType = metadata[0]
    return kind
