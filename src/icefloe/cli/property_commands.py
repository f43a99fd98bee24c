"""The commands `properties` and `upgrade`, which change a table's properties and format version.

Spec: Table Metadata Fields (`properties`, `format-version`).
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import icefloe.inspect as look
from icefloe.cli.screen import SingleValue
from icefloe.cli.shared_options import pairs_of
from icefloe.cli.table_command import changes_table, looks_at_table
from icefloe.display.reportable import Reportable
from icefloe.errors import InvalidInputError, NotFoundError
from icefloe.operations.loaded_table import TableReader
from icefloe.table.table import Table

GET, SET, REMOVE = "get", "set", "remove"
_ACTIONS = (GET, SET, REMOVE)

Action = Annotated[
    str | None,
    typer.Argument(
        metavar="get|set|remove",
        help="Print one property, or set or remove some; without it all are shown. It may also be written before the name.",
    ),
]
Words = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE|KEY ...", help="The properties to print, set or remove.")]


class ActionFirst(TyperCommand):
    """A command whose first two arguments are a name and an action. They may also be written in the opposite order, as in `schema` and `branch`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with the name moved to the first place."""
        name = next(parameter.name for parameter in self.params if parameter.param_type_name == "argument")
        first, second = ctx.params[name], ctx.params["action"]
        # `set get` means the action `get` on a table called `set`.
        if first in _ACTIONS and second is not None and second not in _ACTIONS:
            ctx.params[name], ctx.params["action"] = second, first
        return super().invoke(ctx)


properties_app = typer.Typer()


@properties_app.command("properties", cls=ActionFirst)
@looks_at_table
def properties(opened: TableReader, action: Action = None, words: Words = None) -> Reportable:
    """Show a table's properties, or print, set or remove some."""

    def update(removals: list[str], updates: dict[str, str]) -> None:
        if not isinstance(opened, Table):
            opened.refresh()  # type: ignore[attr-defined]  # for a table without a catalog, this raises the reason why it cannot be changed
        elif removals:
            opened.remove_properties(*removals)
        else:
            opened.set_properties(updates)

    return changed_properties(action, words, opened.full_name, opened.properties, update, lambda: look.properties(opened))


@changes_table
def upgrade(
    opened: Table,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", help="The format version: 2 or 3. It cannot be lowered again.", show_default=False)
    ],
) -> Reportable:
    """Raise a table's format version."""
    opened.upgrade_table_version(version)
    return look.table(opened)


def changed_properties(
    action: str | None,
    words: list[str] | None,
    owner: str,
    current: Mapping[str, str],
    update: Callable[[list[str], dict[str, str]], None],
    shown: Callable[[], Reportable],
) -> Reportable:
    """Run an action on the properties of a table or namespace.

    Args:
        action: `get`, `set` or `remove`; None to show all properties.
        words: The arguments of the action: names, or `name=value` for `set`.
        owner: The name of the table or namespace.
        current: The current properties.
        update: Changes properties: it gets the names to remove, and the values to set.
        shown: Returns all properties as a value to print.

    Returns:
        The value to print, after the change.

    Raises:
        InvalidInputError: The action or a word is not understood.
        NotFoundError: The property to print is not set.
    """
    if action is None:
        return shown()
    if action not in _ACTIONS or not words or (action == GET and len(words) != 1):
        raise InvalidInputError(
            f"{action!r} with {len(words or [])} properties is not understood",
            next_step="write get KEY, set KEY=VALUE ... or remove KEY ...",
        )
    if action == GET:
        if words[0] not in current:
            names = ", ".join(sorted(current)) or "none"
            raise NotFoundError(f"{owner} has no property {words[0]!r}", next_step=f"its properties are: {names}")
        return SingleValue(owner=owner, name=words[0], value=current[words[0]])
    if action == REMOVE:
        update(words, {})
    else:
        update([], pairs_of(words))
    return shown()
