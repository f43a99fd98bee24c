"""`Procedure`: an operation of a catalog or a table, declared once for SQL `CALL`, for `icefloe call` and for the maintenance commands.

The operation is a function. Its parameters have types of this module, each a type in Python and in SQL, and a `ProcedureOption` where the operation's command
takes them. The first line of its docstring is its description.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, get_args, get_type_hints

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, TimestamptzType
from icefloe.table.table import Table

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
# Minutes: in Python also parts of one.
Minutes = Annotated[float, IntegerType()]
Flag = Annotated[bool, BooleanType()]
# A datetime with a time zone; in Python also milliseconds since 1970-01-01 UTC.
Time = Annotated[datetime | int, TimestamptzType()]
Longs = Annotated[Sequence[int], ListType(element_id=2, element=LongType(), element_required=False)]
Names = Annotated[Sequence[str], ListType(element_id=2, element=StringType(), element_required=False)]
Texts = Annotated[Mapping[str, str], MapType(key_id=2, key_type=StringType(), value_id=3, value_type=StringType(), value_required=False)]


@dataclass(frozen=True, slots=True)
class ProcedureOption:
    """How the command of a procedure takes an argument. A flag of a parameter that is true by default makes it false, unless it names both values.

    Attributes:
        name: The option, such as `--where`; the name of a positional argument has no dashes in front.
        help: Its help text.
        metavar: What follows it in the help text.
        minimum: The least number.
        parse: Returns the value of a text, for types that have texts of several forms. It may raise `InvalidInputError`.
        in_sql: False for an argument that only the command has.
    """

    name: str
    help: str
    metavar: str | None = None
    minimum: int | None = None
    parse: Callable[[str], Any] | None = None
    in_sql: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a procedure. The argument of an optional one may be left out, or be null."""

    name: str
    kind: IcebergType
    value_type: Any = str
    required: bool
    default: Any = None
    is_table: bool = False  # the name of a table, which may begin with the catalog's name
    is_source: bool = False  # the source of files
    is_view: bool = False  # rows
    option: ProcedureOption | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A function of a catalog or a table and arguments, and the rows of its result.

    Attributes:
        name: The name of the procedure in SQL.
        description: One line for users.
        command_help: The text for users of its command.
        parameters: The parameters in SQL, in order; of a function of a table the first is the name of the table.
        options: The parameters that its command takes.
        output: The columns of the rows.
        function: The function to call, with the table or the catalog as its first argument and the parameters by name.
        is_of_table: Whether the first argument of the function is the table, and not the catalog.
        rows: Returns the rows of what the function returned.
    """

    name: str
    description: str
    command_help: str
    parameters: tuple[Parameter, ...]
    options: tuple[Parameter, ...]
    output: tuple[NestedField, ...]
    function: Callable[..., Any]
    is_of_table: bool
    rows: Callable[[Any], Rows]

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
        subject = catalog.load_table(present.pop("table")) if self.is_of_table else catalog
        return self.rows(self.function(subject, **present))


def procedure(
    *output: tuple[str, IcebergType],
    optional: Sequence[str] = (),
    rows: Callable[[Any], Rows] | None = None,
    command_help: str | None = None,
) -> Callable[[Callable[..., Any]], Procedure]:
    """Return a decorator that makes a procedure of a function, whose first parameter is the catalog, or a table of it.

    Args:
        *output: Names and types of the columns of its rows.
        optional: The names of the columns that may be null.
        rows: Returns the rows of what the function returns; None for a function that returns rows.
        command_help: The text for users of its command; by default the docstring.
    """

    def make(function: Callable[..., Any]) -> Procedure:
        hints = get_type_hints(function, include_extras=True)
        subject, *named = inspect.signature(function).parameters.values()
        # A keyword-only parameter is for callers in Python alone.
        parameters = [_parameter(parameter, hints[parameter.name]) for parameter in named if parameter.kind is not parameter.KEYWORD_ONLY]
        is_of_table = hints[subject.name] is Table
        in_sql = [parameter for parameter in parameters if parameter.option is None or parameter.option.in_sql]
        table = Parameter(name="table", kind=StringType(), required=True, is_table=True)
        text = inspect.cleandoc(function.__doc__ or "")
        return Procedure(
            name=function.__name__,
            description=text.splitlines()[0],
            command_help=command_help or text,
            parameters=(*([table] if is_of_table else []), *in_sql),
            options=tuple(parameter for parameter in parameters if parameter.option is not None),
            output=tuple(NestedField(place, name, kind, name not in optional) for place, (name, kind) in enumerate(output, 1)),
            function=function,
            is_of_table=is_of_table,
            rows=rows or (lambda result: result),
        )

    return make


def row_of(*attributes: str) -> Callable[[Any], Rows]:
    """Return a function that returns the attributes of a result as its one row."""
    return lambda result: [tuple(getattr(result, attribute) for attribute in attributes)]


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter:
    """Return a parameter whose annotation is a type of this module, or that or None, also with a `ProcedureOption`."""
    extras = [extra for member in (hint, *get_args(hint), *get_args(get_args(hint)[0])) for extra in getattr(member, "__metadata__", ())]
    value, *_ = (member for member in (*get_args(get_args(hint)[0]), *get_args(hint), hint) if hasattr(member, "__metadata__"))
    is_required = parameter.default is inspect.Parameter.empty
    return Parameter(
        name=parameter.name,
        kind=next(extra for extra in extras if isinstance(extra, IcebergType)),
        value_type=get_args(value)[0],
        required=is_required,
        default=None if is_required else parameter.default,
        is_table=parameter.name in _TABLES and get_args(value)[0] != get_args(Source)[0],
        is_source=get_args(value)[0] == get_args(Source)[0],
        is_view=get_args(value)[0] is Any,
        option=next((extra for extra in extras if isinstance(extra, ProcedureOption)), None),
    )
