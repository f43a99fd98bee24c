"""`Issue`: a problem of a table, which is a violated rule or a measure of health that needs care; and `Remedy`: the operation that solves it.

`Validation.issues` and `TableHealth.issues` return the issues of a table; the explorer shows them, the gravest first.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from icefloe.spec.metadata.maintenance_properties import MaintenanceAction

# The most places of one issue that are listed; further ones are only counted.
MOST_PLACES = 5
# The commands whose name differs from the name of their operation.
_COMMANDS: Mapping[str, str] = {MaintenanceAction.EXPIRE_SNAPSHOTS: "expire"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """An operation that solves an issue. Its text is the command without `icefloe` and the table, such as `rewrite-data-files --strategy sort`.

    Attributes:
        operation: A maintenance action, or `repair`.
        options: The options of the command by name without dashes; the value is True for an option that has no value.
        properties: Table properties to set besides.
    """

    operation: MaintenanceAction | str
    options: Mapping[str, str | bool] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", and ".join([shlex.join(self._words()), *(f"{name}={value}" for name, value in self.properties.items())])

    def command(self, table: str, catalog_options: str = "") -> str:
        """Return the command line of the remedy for one table.

        Args:
            table: The name of the table.
            catalog_options: The options that select the catalog, quoted for a shell and with a space in front.
        """
        name, *options = self._words()
        return " ".join(["icefloe", name, shell_word(table), *map(shlex.quote, options)]) + catalog_options

    def _words(self) -> list[str]:
        words = [_COMMANDS.get(self.operation, self.operation)]
        for name, value in self.options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return words


REPAIR = Remedy(operation="repair")


def shell_word(text: str) -> str:
    """Quote a name for a shell. Control characters become question marks, so that a hostile name cannot begin another line."""
    return shlex.quote("".join(sign if sign.isprintable() else "?" for sign in text[:500]))


class Weight(IntEnum):
    """How much an issue matters, the gravest first."""

    ERROR = 0
    WARNING = 1
    CARE = 2
    NOTE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A problem of a table, as it is shown to a user.

    Attributes:
        weight: How much the problem matters.
        title: What is wrong, in a few words.
        detail: What the problem means for readers of the table.
        places: The first places that have the problem, each in one line.
        more: How many further places there are.
        remedy: The operation that solves the problem; None if there is none.
        next_step: What the user should do, in words.
        rule: The id of the violated rule; None if the issue is a measure of health.
        shown_by: The ids of rules whose issues are about the same problem and list its places, so that this issue need not be shown beside them.
    """

    weight: Weight
    title: str
    detail: str
    places: tuple[str, ...] = ()
    more: int = 0
    remedy: Remedy | None = None
    next_step: str = ""
    rule: str | None = None
    shown_by: frozenset[str] = frozenset()
