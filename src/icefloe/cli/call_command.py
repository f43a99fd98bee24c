"""The command `call`, which runs any procedure by its name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.cli.row_view import cell_text
from icefloe.cli.shared_options import pairs_of
from icefloe.cli.table_command import changes_tables_of_catalog
from icefloe.display.report import Column, Facts, Prose, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError
from icefloe.procedures import call, procedure_named, procedure_names
from icefloe.procedures.time_arguments import utc_time_of
from icefloe.spec.types import BooleanType, IcebergType, IntegerType, ListType, LongType, MapType, TimestamptzType

ProcedureName = Annotated[str | None, typer.Argument(metavar="[PROCEDURE]", help="The procedure; without it they are listed.")]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE...]", help="Its arguments, such as table=db.t retain_last=10.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureList(Reportable):
    """All procedures, each with its description and its arguments as text. Optional arguments are in brackets."""

    procedures: tuple[tuple[str, str, str], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  every procedure is shown
        return Report(
            "", (grid("", (Column("procedure", whole=True), Column("arguments"), Column("description", rank=1)), self.procedures, None),)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments and the description of each procedure by its name."""
        return {name: {"arguments": arguments, "description": text} for name, arguments, text in self.procedures}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcedureResult(Reportable):
    """The rows that a procedure returned."""

    procedure: str
    rows: tuple[Mapping[str, Any], ...]

    def report(self, most: int | None = MOST_LINES) -> Report:
        if not self.rows:
            return Report(self.procedure, (Prose("no rows"),))
        if len(self.rows) == 1:
            return Report(self.procedure, (Facts(tuple((name, cell_text(value)) for name, value in self.rows[0].items())),))
        columns = tuple(Column(name, is_number=isinstance(value, int)) for name, value in self.rows[0].items())
        return Report(self.procedure, (grid("", columns, [tuple(map(cell_text, row.values())) for row in self.rows], most),))


@changes_tables_of_catalog
def call_procedure(opened: Catalog, procedure: ProcedureName = None, arguments: Arguments = None) -> Reportable:
    """Run a procedure with the names and arguments of Java's Iceberg, such as add_files or ancestors_of; without a name they are listed."""
    if procedure is None:
        return ProcedureList(
            procedures=tuple((name, _arguments_text(name), procedure_named(name).description) for name in procedure_names())
        )
    kinds = {parameter.name: parameter.kind for parameter in procedure_named(procedure).parameters}
    unknown = next((text for text in arguments or () if "=" not in text or text.partition("=")[0] not in kinds), None)
    if unknown is not None:
        raise InvalidInputError(
            f"{unknown!r} is no argument of the procedure", next_step=f"write NAME=VALUE with one of {', '.join(kinds)}"
        )
    values = {name: _argument(name, text, kinds[name]) for name, text in pairs_of(arguments).items()}
    rows = call(opened, procedure, **values)
    return ProcedureResult(procedure=procedure, rows=tuple({name: _json_value(value) for name, value in row.items()} for row in rows))


def _arguments_text(name: str) -> str:
    parameters = procedure_named(name).parameters
    return ", ".join(parameter.name if parameter.required else f"[{parameter.name}]" for parameter in parameters)


def _argument(name: str, text: str, kind: IcebergType) -> Any:
    try:
        return _value(kind, text)
    except ValueError as error:
        raise InvalidInputError(f"{name}: {text!r} is not a value of type {kind}", next_step=_HINTS.get(type(kind))) from error


_HINTS: Mapping[type[IcebergType], str] = {
    BooleanType: "write true or false",
    TimestamptzType: "write a time such as 2024-01-31T12:00:00, in UTC where it has no offset",
    ListType: "write values separated by commas, or a list in JSON",
    MapType: 'write an object in JSON, such as {"day": "2024-01-31"}',
}


def _value(kind: IcebergType, text: str) -> Any:
    if isinstance(kind, LongType | IntegerType):
        return int(text)
    if isinstance(kind, BooleanType):
        if text.lower() not in ("true", "false"):
            raise ValueError("a boolean is true or false")
        return text.lower() == "true"
    if isinstance(kind, TimestamptzType):
        return utc_time_of(text)
    if isinstance(kind, ListType):
        items = json.loads(text) if text.startswith("[") else text.split(",")
        return [_value(kind.element, str(item)) for item in items]
    if isinstance(kind, MapType):
        pairs = json.loads(text)
        if not isinstance(pairs, dict):
            raise ValueError("a map is an object in JSON")
        return {str(key): str(value) for key, value in pairs.items()}
    return text


def _json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
