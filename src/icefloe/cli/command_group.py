"""The root command group: it imports a command when it is called, lists the commands by group in `--help`, and prints errors as text or JSON with exit code."""

from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from icefloe.cli.command_table import COMMANDS
from icefloe.cli.failure_output import INTERRUPTED, REFUSED, WRONG_USAGE, error_as_json, error_content, print_failure
from icefloe.cli.screen import print_json_error, print_message
from icefloe.errors import IcefloeError

# The most characters of a sentence in the help text, so that none is cut.
_WHOLE = 10_000

# The error about an unknown command lists the commands of a group with at most this many; `icefloe` itself has more.
_MOST_LISTED = 12

# The class of typer's errors of wrong usage. typer exports only this subclass of it.
_UsageError: Any = typer.BadParameter.__base__


class LazyCommand(TyperCommand):
    """A command or group of commands whose module is imported only when it is called, not for the help text or completion of the group above it.

    Args:
        name: The name of the command.
        panel: The heading in the help text under which the command is listed.
        location: The location of the command below `icefloe.cli`, as "module:name". The name is that of a function or a `typer.Typer`.
        summary: The first sentence of the command's help text.
    """

    def __init__(self, name: str, panel: str, location: str, summary: str) -> None:
        super().__init__(name, short_help=summary, rich_help_panel=panel)
        self.location = location

    @cached_property
    def command(self) -> Any:
        """The command itself. Reading it imports the module."""
        module, _, attribute = self.location.partition(":")
        target = getattr(import_module(f"icefloe.cli.{module}"), attribute)
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer()
            target.command(self.name)(function)
        # Commands and groups that are added to a group inherit `rich_markup_mode` from it.
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        if target.registered_callback is None and len(target.registered_commands) == 1 and not target.registered_groups:
            group.registered_commands = target.registered_commands
        else:
            group.add_typer(target, name=self.name)
        return typer.main.get_group(group).commands[str(self.name)]

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return the context of the command itself, so that the command runs in place of this object."""
        return self.command.make_context(*args, **extra)


def lazy_commands() -> Iterator[LazyCommand]:
    """Yield the commands of `icefloe`, in the order of the help text."""
    for panel, commands in COMMANDS.items():
        for name, (location, summary) in commands.items():
            yield LazyCommand(name, panel, location, summary)


class PlainGroup(TyperGroup):
    """A command group whose help text lists the commands under headings, each with its first sentence, which is never cut.

    The error about an unknown command lists the commands of the group if these are few.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of the called command, the command, and its arguments."""
        try:
            return super().resolve_command(ctx, args)
        except _UsageError as error:
            if len(self.commands) <= _MOST_LISTED and error.message.endswith("."):  # it ends with "?" if typer suggests a similar command
                error.message += f" {ctx.command_path} has {', '.join(self.list_commands(ctx))}."
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands to the help text."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            panel = command.rich_help_panel if isinstance(command.rich_help_panel, str) else "Commands"
            sections.setdefault(panel, []).append((name, command.get_short_help_str(_WHOLE)))
        for panel, rows in sections.items():
            with formatter.section(panel):
                formatter.write_dl(rows)


class CommandGroup(PlainGroup):
    """The command group `icefloe`. It prints an `IcefloeError` to standard error, as text or with `--json` as one line of JSON, and sets the exit code.

    The text of a `KeyboardInterrupt` describes the state after the interrupted command. Any other exception is a fault of Icefloe and keeps its traceback.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands.update({str(command.name): command for command in lazy_commands()})

    def invoke(self, ctx: Any) -> Any:
        """Run a command. If it fails, print the error and exit."""
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
            print_json_error(error_content("usage", message, next_step=usage, exit_code=WRONG_USAGE))
            raise typer.Exit(WRONG_USAGE) from error
