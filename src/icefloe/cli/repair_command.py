"""`icefloe repair`: shows what is wrong in a table and what each repair would change. `--apply` commits the repair, and `--undo` reverts it."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from icefloe.catalog.catalog import Catalog
from icefloe.checks.table_validation import ValidationProgress
from icefloe.cli.catalog_choice import CatalogChoice, is_path, open_catalog
from icefloe.cli.failure_output import AFTER_CHANGE, state_after_interrupt
from icefloe.cli.screen import step
from icefloe.cli.shared_options import complete_name
from icefloe.cli.table_command import finds_catalog, takes_options_of
from icefloe.display.reportable import Reportable
from icefloe.errors import InvalidInputError, ReadOnlyTableError
from icefloe.procedures import repair_procedures
from icefloe.repair import plan, undo

Name = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="namespace.table; a table that cannot be loaded too.", show_default=False, autocompletion=complete_name
    ),
]


@finds_catalog
@takes_options_of(repair_procedures.repair)
def repair(
    choice: CatalogChoice,
    table: Name,
    *,
    apply: bool,
    undo_last: bool,
    only: Sequence[str] = (),
    branch: str,
    files: bool,
    data: bool,
    metadata_file: str | None = None,
) -> Reportable:
    """Show what is wrong in a table and what each repair would change; commit it with --apply. The exit code is 1 if something is left to repair."""
    _check(table, apply=apply, undo_last=undo_last, only=only, metadata_file=metadata_file)
    opened = open_catalog(choice)
    if undo_last:
        with state_after_interrupt(AFTER_CHANGE):
            return undo(opened, table, branch=branch, metadata_file=metadata_file)
    progress = ValidationProgress()
    with step(f"Validating {table}", lambda: (progress.done, progress.total), "manifests and files", in_pipes=False):
        planned = plan(opened, table, only=only, branch=branch, files=files, data=data, progress=progress)
    undo_command = _as_typed(planned.undo, opened, choice)
    if not apply or not planned.chosen:
        return replace(planned, undo=undo_command)
    with state_after_interrupt(AFTER_CHANGE):
        return replace(planned.apply(), undo=undo_command)


def _as_typed(command: str, opened: Catalog, choice: CatalogChoice) -> str:
    """Add the catalog options to a command, because the name of a catalog that is not configured does not suffice to find it."""
    return command.replace(f" --catalog {shlex.quote(opened.name)}", choice.arguments, 1) if choice.arguments else command


def _check(table: str, *, apply: bool, undo_last: bool, only: Sequence[str], metadata_file: str | None) -> None:
    """Refuse options that exclude each other, and a table that is named without a catalog.

    Raises:
        InvalidInputError: Options exclude each other.
        ReadOnlyTableError: The table is named by its metadata file.
    """
    if is_path(table):
        raise ReadOnlyTableError(
            "a table named by its metadata file cannot be repaired: no catalog would name the repaired metadata",
            path=table,
            next_step="name it as namespace.table, with the catalog it is in; icefloe validate takes a metadata file",
        )
    if undo_last and (apply or only):
        raise InvalidInputError("--undo excludes --apply and --only", next_step="undo first, and then plan again")
    if metadata_file is not None and not undo_last:
        raise InvalidInputError("--metadata-file is for --undo of a dropped table", next_step="add --undo, or leave it out")
