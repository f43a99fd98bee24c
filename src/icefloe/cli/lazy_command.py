"""`LazyCommand`: a command whose module is imported when the command is called, and not for the help text of its group."""

from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand


class LazyCommand(TyperCommand):
    """A proxy of a command or a group of commands in the list of commands of the group above it.

    Args:
        name: The name of the command.
        panel: Its group in the help text.
        location: Its place below `icefloe.cli`, as "module:name", of a function or of a `typer.Typer`.
        summary: The first sentence of its help text.
    """

    def __init__(self, name: str, panel: str, location: str, summary: str) -> None:
        super().__init__(name, short_help=summary, rich_help_panel=panel)
        self.location = location

    @cached_property
    def command(self) -> Any:
        """The command itself; its module is imported."""
        module, _, attribute = self.location.partition(":")
        target = getattr(import_module(f"icefloe.cli.{module}"), attribute)
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer()
            target.command(self.name)(function)
        # typer passes this setting on from a group to what is added to it.
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        if target.registered_callback is None and len(target.registered_commands) == 1 and not target.registered_groups:
            group.registered_commands = target.registered_commands
        else:
            group.add_typer(target, name=self.name)
        return typer.main.get_group(group).commands[str(self.name)]

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Return the context of the command itself, which then runs instead of this one."""
        return self.command.make_context(*args, **extra)
