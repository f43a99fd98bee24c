"""`Issue`: what is wrong with a table, or could be better, and the `Remedy`: a broken rule, or a measure of health that needs care.

`Validation.issues` and `TableHealth.issues` return the issues of a table; the explorer shows them, the gravest first.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from icefloe.spec.metadata.maintenance_properties import MaintenanceAction

# Places of one issue that are listed; the others are counted.
MOST_PLACES = 5
# The commands of operations that have another name.
_COMMANDS: Mapping[str, str] = {MaintenanceAction.EXPIRE_SNAPSHOTS: "expire"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """An operation that mends an issue. Its text is the command without `icefloe` and the table, such as `rewrite-data-files --strategy sort`.

    Attributes:
        operation: The action of maintenance, or `repair`.
        options: The options of its command by name; True for one without a value.
        properties: The table properties that are to be set too.
    """

    operation: MaintenanceAction | str
    options: Mapping[str, str | bool] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", and ".join([shlex.join(self._words()), *(f"{name}={value}" for name, value in self.properties.items())])

    def command(self, table: str, catalog_options: str = "") -> str:
        """Return the command line.

        Args:
            table: The name of the table.
            catalog_options: The options that name the catalog, as text that a shell takes, with a space before it.
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
    """Return a name as a word of a shell's command line, in which control characters of a hostile name are no line of their own."""
    return shlex.quote("".join(sign if sign.isprintable() else "?" for sign in text[:500]))


class Weight(IntEnum):
    """How much an issue matters, the gravest first."""

    ERROR = 0
    WARNING = 1
    CARE = 2
    NOTE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue of a table.

    Attributes:
        weight: How much it matters.
        title: What is wrong, in a few words.
        detail: What it means to readers of the table.
        places: Where it is: the first places, each in one line.
        more: How many further places there are.
        remedy: The operation that mends it; None if there is none.
        next_step: What to do, in words.
        rule: The id of the rule that is broken; None if it is no rule of the specification.
        shown_by: The rules whose issues show the same with its places.
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
