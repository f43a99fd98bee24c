"""`icefloe validate`: finds violations of the specification in a table, a namespace or a catalog."""

import sys
from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from icefloe.checks.finding import Severity
from icefloe.checks.table_validation import ValidationArguments, ValidationProgress, depths_of, validate_table
from icefloe.checks.validation import Validation
from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_catalog
from icefloe.cli.failure_output import REFUSED
from icefloe.cli.screen import json_text, show, step
from icefloe.cli.shared_options import AsJson, Everything, complete_name
from icefloe.cli.table_command import takes_options_of, with_catalog_options
from icefloe.errors import InvalidInputError
from icefloe.inspect.validation import validate as validated
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.operations.table_folder import metadata_file_of
from icefloe.procedures import validation_procedures


class FailOn(StrEnum):
    """The least severity of a finding for which the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
    NEVER = "never"


Name = Annotated[
    str,
    typer.Argument(
        metavar="[TABLE|NAMESPACE]",
        help="A table by its name or the path of its metadata file, or a namespace; without it every table of the catalog.",
        show_default=False,
        autocompletion=complete_name,
    ),
]
Sarif = Annotated[bool, typer.Option("--sarif", help="Print SARIF 2.1.0 and nothing else on standard output.")]
FailOnOption = Annotated[FailOn, typer.Option("--fail-on", help="From which severity on the exit code is 1.")]


@with_catalog_options
@takes_options_of(validation_procedures.validate)
def validate(
    *,
    name: Name = "",
    current_only: bool,
    snapshot: str | None = None,
    files: bool,
    data: bool,
    values: bool,
    orphans: bool,
    sarif: Sarif = False,
    fail_on: FailOnOption = FailOn.ERROR,
    max_findings: int,
    choice: CatalogChoice,
    as_json: AsJson = False,
    everything: Everything = False,
) -> None:
    """Find what breaks the rules of the specification in a table, a namespace or a catalog. The exit code is 1 if there is an error."""
    if sarif and as_json:
        raise InvalidInputError("--sarif and --json are two forms of the same findings", next_step="choose one")
    if snapshot is not None and (current_only or not name):
        raise InvalidInputError("--snapshot is of one table, and excludes --current", next_step="name a table, and give one of them")
    if orphans and is_path(name):
        raise InvalidInputError("--orphans needs the table's catalog, not its metadata file", next_step="name it as namespace.table")
    progress = ValidationProgress()
    validating = f"Validating {name or 'the catalog'}"
    with step(validating, lambda: (progress.done, progress.total), "manifests and files", in_pipes=False):
        if is_path(name):
            io = load_file_io({}, name, is_trusted=True)
            depths = depths_of(files=files, data=data, values=values)
            arguments = ValidationArguments(current_only=current_only, snapshot=snapshot, depths=depths, most_findings=max_findings)
            result = validate_table(name, metadata_file_of(name, io), io, arguments, progress)
            validation = Validation(name=name, tables=(result,))
        else:
            opened = open_catalog(choice)
            validation = validated(
                opened,
                name or None,
                current_only=current_only,
                snapshot=snapshot,
                files=files,
                data=data,
                values=values,
                orphans=orphans,
                most_findings=max_findings,
                progress=progress,
            )
    validation = replace(validation, fail_on=None if fail_on is FailOn.NEVER else Severity(fail_on.value))
    if sarif:
        sys.stdout.write(json_text(validation.to_sarif()) + "\n")
    else:
        show(validation, as_json=as_json, everything=everything)
    if validation.has_faults:
        raise typer.Exit(REFUSED)
