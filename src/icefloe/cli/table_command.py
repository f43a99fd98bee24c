"""Decorators that convert a function to a command: they add the table argument and the catalog options, and print the returned value."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_catalog, open_changeable, open_table
from icefloe.cli.failure_output import AFTER_CHANGE, REFUSED, state_after_interrupt
from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson, CatalogName, CatalogUri, Everything, TableName, Warehouse, complete_ref, pairs_of
from icefloe.display.reportable import Reportable
from icefloe.errors import IcefloeError
from icefloe.procedures.procedure import Parameter, Procedure
from icefloe.spec.types import BooleanType, ListType, LongType, MapType, StringType

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
# Options whose value may be the name of a branch or tag.
_REFS = ("--branch", "--snapshot")
_TABLE = inspect.Parameter("table", _KEYWORD, annotation=TableName)
_CATALOG = (
    inspect.Parameter("catalog", _KEYWORD, default=None, annotation=CatalogName),
    inspect.Parameter("uri", _KEYWORD, default=None, annotation=CatalogUri),
    inspect.Parameter("warehouse", _KEYWORD, default=None, annotation=Warehouse),
)
_OUTPUT = (
    inspect.Parameter("as_json", _KEYWORD, default=False, annotation=AsJson),
    inspect.Parameter("everything", _KEYWORD, default=False, annotation=Everything),
)


def with_catalog_options(function: Callable[..., None]) -> Callable[..., None]:
    """Convert a function to a command. Its keyword argument `choice` is replaced by the options that select a catalog."""

    def command(**values: Any) -> None:
        function(choice=_choice_of(values), **values)

    own = inspect.signature(function).parameters.values()
    parameters = [option for parameter in own for option in (_CATALOG if parameter.name == "choice" else [parameter])]
    return _with_parameters(command, function, [parameter.replace(kind=_KEYWORD) for parameter in parameters])


def finds_catalog(look: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command that passes it the catalog options and prints its result. The function opens the catalog itself."""
    return _command(look, lambda choice: choice, [])


def looks_at_table(look: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command that opens a table for reading, passes the table and the options to the function, and prints its result."""
    return _command(look, open_table, [_TABLE])


def changes_table(change: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command that opens a table of a catalog to change it, passes it to the function, and prints the result."""
    return _command(change, open_changeable, [_TABLE], after_interrupt=AFTER_CHANGE)


def looks_at_catalog(look: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command that opens a catalog, passes it to the function, and prints the result."""
    return _command(look, open_catalog, [])


def changes_tables_of_catalog(change: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command as `looks_at_catalog` does, for a function that commits changes of tables."""
    return _command(change, open_catalog, [], after_interrupt=AFTER_CHANGE)


def creates_in_catalog(create: Callable[..., Reportable]) -> Callable[..., None]:
    """Convert a function to a command that opens a catalog, passes it to the function, and prints the result.

    In contrast to `looks_at_catalog`, the command creates the SQLite database of the catalog if it does not exist.
    """

    def open_or_create_catalog(choice: CatalogChoice) -> Catalog:
        return open_catalog(choice, create=True)

    return _command(create, open_or_create_catalog, [])


def procedure_command(procedure: Procedure, *, after_interrupt: str = AFTER_CHANGE) -> Callable[..., None]:
    """Return the command of a procedure, with the options that its parameters declare. The command prints the result.

    Args:
        procedure: The procedure.
        after_interrupt: A description of the state after Ctrl-C.
    """

    @takes_options_of(procedure)
    def run(opened: Any, **arguments: Any) -> Reportable:
        result: Reportable = procedure.function(opened, **arguments)
        return result

    run.__name__, run.__doc__ = procedure.name, procedure.command_help
    if procedure.is_of_table:
        return _command(run, open_changeable, [_TABLE], after_interrupt=after_interrupt)
    return _command(run, open_catalog, [], after_interrupt=after_interrupt)


def takes_options_of(procedure: Procedure) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that gives a command function the options of a procedure.

    A parameter of the function with the name of a procedure's parameter becomes that option; `**arguments` is replaced by all other options. The function is
    not passed options that are None.
    """
    options = {parameter.name: parameter for parameter in procedure.options}

    def add_options(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function).parameters
        parameters: list[inspect.Parameter] = []
        for parameter in own.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                parameters += [_option_of(option) for name, option in options.items() if name not in own]
            else:
                parameters.append(_option_of(options[parameter.name]) if parameter.name in options else parameter)

        @wraps(function)
        def run(*opened: Any, **values: Any) -> Any:
            arguments = {name: _argument_of(options[name], value) if name in options else value for name, value in values.items()}
            return function(*opened, **{name: value for name, value in arguments.items() if name not in options or value is not None})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return add_options


def _option_of(parameter: Parameter) -> inspect.Parameter:
    """Convert a parameter of a procedure to a parameter that typer reads."""
    option = parameter.option
    assert option is not None  # noqa: S101  only parameters with an option are passed
    if not option.name.startswith("-"):
        argument = typer.Argument(metavar=option.name, help=option.help)
        return inspect.Parameter(parameter.name, _KEYWORD, annotation=Annotated[str, argument])
    completion = complete_ref if option.name in _REFS and isinstance(parameter.kind, StringType) else None
    info = typer.Option(option.name, metavar=option.metavar, help=option.help, min=option.minimum, autocompletion=completion)
    if isinstance(parameter.kind, BooleanType):
        is_on = parameter.default is True and "/" in option.name  # the option names both of its values
        return inspect.Parameter(parameter.name, _KEYWORD, default=is_on, annotation=Annotated[bool, info])
    if isinstance(parameter.kind, ListType | MapType):
        item = int if isinstance(parameter.kind, ListType) and isinstance(parameter.kind.element, LongType) else str
        return inspect.Parameter(parameter.name, _KEYWORD, default=None, annotation=Annotated[list[item] | None, info])  # type: ignore[valid-type]
    kind = parameter.value_type if option.parse is None else str
    annotation = Annotated[kind | None if parameter.default is None else kind, info]  # type: ignore[valid-type]
    return inspect.Parameter(parameter.name, _KEYWORD, default=parameter.default, annotation=annotation)


def _argument_of(parameter: Parameter, value: Any) -> Any:
    """Convert the value of an option to the argument of the procedure; None if the option was not given."""
    if isinstance(parameter.kind, BooleanType):
        is_negation = parameter.default is True and parameter.option is not None and "/" not in parameter.option.name
        return not value if is_negation else value
    if isinstance(parameter.kind, MapType):
        return pairs_of(value)
    if parameter.option is not None and parameter.option.parse is not None and value is not None:
        return parameter.option.parse(value)
    return value


def _command(
    function: Callable[..., Reportable], opening: Callable[..., Any], subject: list[inspect.Parameter], *, after_interrupt: str = ""
) -> Callable[..., None]:
    """Return a command function whose signature, which typer reads, has the own parameters of `function` and the shared options.

    Args:
        function: Returns the value to print. Its first parameter is what `opening` returns.
        opening: Opens the table or catalog, given the values of `subject` and the catalog options.
        subject: The parameters that name the table; empty if a catalog is opened.
        after_interrupt: A description of the state after Ctrl-C, unless `function` raises a `KeyboardInterrupt` that has one.
    """
    own = [parameter.replace(kind=_KEYWORD) for parameter in list(inspect.signature(function).parameters.values())[1:]]

    def command(**values: Any) -> None:
        choice, as_json, everything = _choice_of(values), values.pop("as_json"), values.pop("everything")
        named = [values.pop(parameter.name) for parameter in subject]
        with state_after_interrupt(after_interrupt):
            try:
                value = function(opening(*named, choice), **values)
            except IcefloeError as error:
                if error.table is None and error.path is None and named and not is_path(named[0]):
                    error.table = named[0]
                raise
            show(value, as_json=as_json, everything=everything)
        if value.has_faults:
            raise typer.Exit(REFUSED)

    return _with_parameters(command, function, [*subject, *own, *_CATALOG, *_OUTPUT])


def _choice_of(values: dict[str, Any]) -> CatalogChoice:
    """Remove the catalog options from the values of a command, and return them."""
    return CatalogChoice(name=values.pop("catalog"), uri=values.pop("uri"), warehouse=values.pop("warehouse"))


def _with_parameters(
    command: Callable[..., None], function: Callable[..., Any], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """Give a command function the name and help text of another function, and a signature with the parameters that typer reads."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__
    return command
