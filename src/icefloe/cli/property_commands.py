"""The commands `properties` and `upgrade`, which change a table's properties and format version.

Spec: Table Metadata Fields (`properties`, `format-version`).
"""

from typing import Annotated

import typer

import icefloe.inspect as look
from icefloe.cli.table_command import changes_table, looks_at_table
from icefloe.errors import InvalidInputError
from icefloe.inspect.inspection import View
from icefloe.table.table import Table
from icefloe.table.table_reader import TableReader

SET, REMOVE = "set", "remove"


@looks_at_table
def properties(
    opened: TableReader,
    action: Annotated[str | None, typer.Argument(metavar="set|remove", help="Set or remove properties; without it they are shown.")] = None,
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE|KEY ...", help="The properties to set or remove.")] = None,
) -> View:
    """Show a table's properties, or set or remove some."""
    if action is None:
        return look.properties(opened)
    if action not in (SET, REMOVE) or not words:
        raise InvalidInputError(
            f"{action!r} with {len(words or [])} properties is not understood", next_step="write set KEY=VALUE ... or remove KEY ..."
        )
    if not isinstance(opened, Table):
        opened.refresh()  # type: ignore[attr-defined]  # a table without a catalog raises the reason why it cannot be changed
    elif action == REMOVE:
        opened.remove_properties(*words)
    else:
        opened.set_properties(dict(map(_pair, words)))
    return look.properties(opened)


@changes_table
def upgrade(
    opened: Table,
    version: Annotated[
        int, typer.Argument(metavar="VERSION", help="The format version: 2 or 3. It cannot be lowered again.", show_default=False)
    ],
) -> View:
    """Raise a table's format version."""
    opened.upgrade_table_version(version)
    return look.table(opened)


def _pair(word: str) -> tuple[str, str]:
    key, sign, value = word.partition("=")
    if not key or not sign:
        raise InvalidInputError(f"{word!r} is not KEY=VALUE", next_step="write a property as KEY=VALUE")
    return key, value
