"""The root command group: the groups of commands in `--help`, and errors as text or JSON with their exit codes."""

from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from icefloe.cli.screen import print_json_error, print_message
from icefloe.errors import IcefloeError

# Exit codes, beside 0.
REFUSED = 1
WRONG_USAGE = 2
INTERRUPTED = 130

# The groups of commands in `icefloe --help`, by purpose.
LOOK = "Look"
CHANGE = "Change"
MAINTAIN = "Maintain"
FILES_IN = "Files in"
SET_UP = "Set up"

# Characters of a sentence in the help text; a shorter limit would cut it.
_WHOLE = 10_000

# typer exports this subclass of its error of wrong usage, and not the error itself.
_UsageError: Any = typer.BadParameter.__mro__[1]


class PlainGroup(TyperGroup):
    """A command group whose help text has the first sentence of each command, whole at any width, below the name of its group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to the help text."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panel = command.rich_help_panel if isinstance(command.rich_help_panel, str) else "Commands"
            sections.setdefault(panel, []).append((name, command.get_short_help_str(_WHOLE)))
        for panel, rows in sections.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class CommandGroup(PlainGroup):
    """The command group `icefloe`, which turns an `IcefloeError` into its message and exit code: text, or with `--json` one line of JSON, on standard error.

    The text of a `KeyboardInterrupt` is the state that the interrupted command left. Any other exception is a fault of Icefloe and keeps its traceback.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command; print an error of Icefloe and exit."""
        is_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except IcefloeError as error:
            if is_json:
                print_json_error(error_as_json(error))
            else:
                print_message(f"icefloe: {error}")
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            state = f": {error}" if str(error) else ""
            print_failure("interrupted", f"interrupted{state}", INTERRUPTED, as_json=is_json)
            raise typer.Exit(INTERRUPTED) from error
        except _UsageError as error:
            message = error.format_message()
            if not is_json or not message:
                raise
            usage = f"see {error.ctx.command_path} --help" if error.ctx is not None else "see icefloe --help"
            print_json_error(_error("usage", message, next_step=usage, exit_code=WRONG_USAGE))
            raise typer.Exit(WRONG_USAGE) from error


def print_failure(code: str, what: str, exit_code: int, *, as_json: bool) -> None:
    """Print why a command ended, where the reason is not an `IcefloeError`, as text or JSON."""
    if as_json:
        print_json_error(_error(code, what, exit_code=exit_code))
    else:
        print_message(f"icefloe: {what}")


def error_as_json(error: IcefloeError, exit_code: int = REFUSED) -> dict[str, Any]:
    """Return an error as it is printed with `--json`; what an error does not name is null.

    Args:
        error: The error. `field` and `rule` are those of its first problem, and `problems` has all of them.
        exit_code: The exit code of the command.
    """
    return _error(
        error.code,
        error.message,
        table=error.table,
        file=error.path,
        snapshot_id=error.snapshot_id,
        problems=[{"field": problem.where or None, "rule": problem.what} for problem in error.problems],
        next_step=error.next_step,
        exit_code=exit_code,
    )


def _error(
    code: str,
    what: str,
    *,
    table: str | None = None,
    file: str | None = None,
    snapshot_id: int | None = None,
    problems: Sequence[dict[str, str | None]] = (),
    next_step: str | None = None,
    exit_code: int,
) -> dict[str, Any]:
    first = problems[0] if problems else {"field": None, "rule": None}
    content = {"code": code, "what": what, "table": table, "file": file, "snapshot_id": snapshot_id, **first}
    return {"error": {**content, "problems": list(problems), "next_step": next_step, "exit_code": exit_code}}
