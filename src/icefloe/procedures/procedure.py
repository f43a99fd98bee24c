"""`Procedure`: an operation on a catalog or a table, declared once for SQL `CALL`, for `icefloe call` and for the maintenance commands of `icefloe`.

The operation is a function. The annotation of each parameter is a type of this module, such as `Text`, which combines a Python type and an SQL type; it has a
`ProcedureOption` if the command of the operation has the parameter too. The first line of the function's docstring is the description for users.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, get_args, get_type_hints

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, NestedField, StringType, TimestamptzType
from icefloe.table.table import Table

Rows = Sequence[tuple[Any, ...]]


class WiderRows(list[tuple[Any, ...]]):
    """Result rows with further columns, which follow the columns of the procedure's `output`. They are for results that are rarely needed.

    Attributes:
        more: The name and type of each further column.
    """

    def __init__(self, rows: Rows, *more: tuple[str, IcebergType]) -> None:
        super().__init__(rows)
        self.more = more


# Types of parameters: the type of the value in Python, and its type in SQL.
Text = Annotated[str, StringType()]
# A source of files: a location, or several folders that end with a slash; in SQL also the name of a table in Spark's session catalog.
Source = Annotated[str | Sequence[str], StringType()]
# A filter: its text, or an expression. In SQL the text is a condition of Spark.
Filter = Annotated[str | BooleanExpression, StringType()]
# The parameters whose value is the name of a table in the catalog.
_TABLES = ("table", "new_table")
# A table of rows: Arrow data in Python, the name of a Spark view in SQL.
View = Annotated[Any, StringType()]
Long = Annotated[int, LongType()]
Int = Annotated[int, IntegerType()]
# A number of minutes, which may have a fraction in Python.
Minutes = Annotated[float, IntegerType()]
Flag = Annotated[bool, BooleanType()]
# A datetime with a time zone; in Python also milliseconds since 1970-01-01 UTC.
Time = Annotated[datetime | int, TimestamptzType()]
Longs = Annotated[Sequence[int], ListType(element_id=2, element=LongType(), element_required=False)]
Names = Annotated[Sequence[str], ListType(element_id=2, element=StringType(), element_required=False)]
Texts = Annotated[Mapping[str, str], MapType(key_id=2, key_type=StringType(), value_id=3, value_type=StringType(), value_required=False)]


@dataclass(frozen=True, slots=True)
class ProcedureOption:
    """The option or positional argument with which the command of a procedure takes a parameter.

    If a flag is true by default, its option makes it false, unless the name of the option has both values, such as `--files/--no-files`.

    Attributes:
        name: The name of the option, such as `--where`. A name without dashes is that of a positional argument.
        help: The help text of the option.
        metavar: The placeholder of the value in the help text; None for the default of typer.
        minimum: The smallest number that is allowed; None for no limit.
        parse: Converts the text that the user wrote to the value, for example an age or a time. It may raise `InvalidInputError`.
        in_sql: Whether the procedure has the parameter in SQL too; False if only the command has it.
    """

    name: str
    help: str
    metavar: str | None = None
    minimum: int | None = None
    parse: Callable[[str], Any] | None = None
    in_sql: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a procedure. The argument of an optional parameter may be left out, or be null."""

    name: str
    kind: IcebergType
    value_type: Any = str
    required: bool
    default: Any = None
    is_table: bool = False  # whether its value is the name of a table, which may begin with the catalog's name
    is_source: bool = False  # whether its value is a source of files, see `Source`
    is_view: bool = False  # whether its value is a table of rows, see `View`
    is_filter: bool = False  # whether its value is a filter, see `Filter`
    option: ProcedureOption | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A procedure: a function whose first argument is a catalog or a table, with the description of its parameters and result rows.

    Attributes:
        name: The name of the procedure in SQL.
        description: One line for users.
        command_help: The help text of its command.
        parameters: The parameters in SQL, in order. If the function takes a table, the first parameter is the name of the table.
        options: The parameters that its command takes.
        output: The columns of the result rows.
        function: The function to call, with the table or the catalog as its first argument, and the parameters by name.
        is_of_table: Whether the first argument of the function is the table; otherwise it is the catalog.
        rows: Converts the result of the function to result rows.
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
        """Run the procedure. An argument that is None counts as left out.

        Args:
            catalog: The catalog, or the catalog of the table.
            **arguments: The arguments by the names of the parameters.

        Returns:
            The result rows: tuples with a value for each column of `output`; for `WiderRows`, also for the further columns.

        Raises:
            InvalidInputError: A required argument is missing, or an argument has an unknown name.
            IcefloeError: The procedure failed.
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
    """Return a decorator that turns a function into a `Procedure`. The first parameter of the function is a catalog, or a table with the annotation `Table`.

    Args:
        *output: The name and type of each column of the result rows.
        optional: The names of the columns that may be null.
        rows: Converts the result of the function to result rows; None if the function returns such rows itself.
        command_help: The help text of the command of the procedure; by default the docstring of the function.
    """

    def make(function: Callable[..., Any]) -> Procedure:
        hints = get_type_hints(function, include_extras=True)
        subject, *named = inspect.signature(function).parameters.values()
        # A keyword-only parameter can only be used by callers in Python.
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
    """Return a function that converts a result to rows: to a single row with the values of these attributes of the result."""
    return lambda result: [tuple(getattr(result, attribute) for attribute in attributes)]


def _parameter(parameter: inspect.Parameter, hint: Any) -> Parameter:
    """Convert a parameter of a function to a `Parameter`.

    Args:
        parameter: The parameter of the function.
        hint: The annotation of the parameter: a type of this module, or the union of such a type and None; optionally with a `ProcedureOption`.
    """
    extras = [extra for member in (hint, *get_args(hint), *get_args(get_args(hint)[0])) for extra in getattr(member, "__metadata__", ())]
    value, *_ = (member for member in (*get_args(get_args(hint)[0]), *get_args(hint), hint) if hasattr(member, "__metadata__"))
    is_required = parameter.default is inspect.Parameter.empty
    is_filter = get_args(value)[0] == get_args(Filter)[0]
    return Parameter(
        name=parameter.name,
        kind=next(extra for extra in extras if isinstance(extra, IcebergType)),
        value_type=str if is_filter else get_args(value)[0],
        required=is_required,
        default=None if is_required else parameter.default,
        is_table=parameter.name in _TABLES and get_args(value)[0] != get_args(Source)[0],
        is_source=get_args(value)[0] == get_args(Source)[0],
        is_view=get_args(value)[0] is Any,
        is_filter=is_filter,
        option=next((extra for extra in extras if isinstance(extra, ProcedureOption)), None),
    )
