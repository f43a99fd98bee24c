"""Output of commands: results go to standard output, progress and errors to standard error, so that with `--json` standard output has only JSON."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from icefloe.display.progress import Poll, Work, bar_on
from icefloe.display.report import Grid, Prose, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, in_one_line, visible
from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:  # rich is imported only when something is drawn
    from rich import console as rich_console
    from rich import text as rich_text

    from icefloe.display import terminal
else:
    rich_console = lazy_module("rich.console")
    rich_text = lazy_module("rich.text")
    terminal = lazy_module("icefloe.display.terminal")


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleValue(Reportable):
    """One value for a script. As text it is alone in a line, which is never wrapped; as JSON it has the name of its owner."""

    owner: str
    name: str
    value: str

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        return Report("", (Prose(self.value),))

    def to_dict(self) -> dict[str, Any]:
        """Return the name of the owner and the value."""
        return {"name": self.owner, self.name: self.value}


def console(*, to_errors: bool = False) -> "rich_console.Console":
    """Return a console as wide as the terminal. For a file or a pipe it is wide enough for paths, regardless of `COLUMNS`."""
    stream = sys.stderr if to_errors else sys.stdout
    width = None if stream.isatty() else terminal.PLAIN_WIDTH
    return rich_console.Console(file=stream, width=width, highlight=False, soft_wrap=False)


def show(view: Reportable, *, as_json: bool, everything: bool = False) -> None:
    """Print a value, as JSON or as text.

    Args:
        view: The value.
        as_json: Whether complete JSON is printed.
        everything: Whether a terminal gets all lines of long lists, not only the first.
    """
    if as_json:
        write_json(view.to_dict())
    elif isinstance(view, SingleValue):
        sys.stdout.write(visible(view.value) + "\n")
    else:
        draw(view.report(most_lines(everything=everything)))


def most_lines(*, everything: bool) -> int | None:
    """Return the most lines of a list that are printed; None, for all, if `everything` is true or the output is a file or a pipe."""
    return MOST_LINES if sys.stdout.isatty() and not everything else None


def draw(report: Report) -> None:
    """Print a report. In a file or a pipe it is plain text without trailing spaces."""
    target = console()
    if target.is_terminal:
        target.print(terminal.renderable_of(report), crop=False)
    else:
        sys.stdout.write(terminal.text_of(report) + "\n")


def draw_blocks(blocks: Iterable[Grid]) -> None:
    """Print a grid that arrives in blocks of its rows to a file or a pipe, block by block."""
    for text in terminal.texts_of_blocks(blocks):
        sys.stdout.write(text + "\n")


def write_json(value: Any) -> None:
    """Print JSON, which is never wrapped or coloured."""
    sys.stdout.write(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """Return JSON text as the commands print it, with control characters escaped."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False))


def confirm(action: str) -> None:
    """Let the user confirm an action in the terminal.

    Args:
        action: What would be done, such as `drop the table db.t`.

    Raises:
        InvalidInputError: The user declines, or standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise InvalidInputError(f"a confirmation is needed to {action}", next_step="add --yes")
    # `input` is not used, because it writes to standard output, where only results belong.
    sys.stderr.write(visible(f"{action[0].upper()}{action[1:]}? [y/N] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInputError("not confirmed: nothing was changed")


def print_json_error(value: Any) -> None:
    """Print JSON in one line to standard error. After lines of progress, it is the last line."""
    sys.stderr.write(visible(json.dumps(value, ensure_ascii=False)) + "\n")


def print_message(text: str) -> None:
    """Print text to standard error. In a terminal it is wrapped without splitting paths; in a file or a pipe it is unchanged."""
    if sys.stderr.isatty():
        console(to_errors=True).print(rich_text.Text(visible(text)), overflow="ignore", crop=False)
    else:
        sys.stderr.write(visible(text) + "\n")


@contextmanager
def step(text: str, poll: Poll | None = None, unit: str = "tasks", *, in_pipes: bool = True) -> Iterator[Work]:
    """Show a running step in a `with` block: as a progress bar in a terminal, otherwise as one line with the elapsed time.

    Args:
        text: A description of the step.
        poll: Returns how much is done and how much there is, instead of `Work.advance`.
        unit: What is counted, in the plural.
        in_pipes: Whether a file or a pipe gets the line.

    Yields:
        The work, whose state the bar shows.
    """
    target = console(to_errors=True)
    text = in_one_line(text)
    started = time.monotonic()
    if target.is_terminal:
        with bar_on(target, text, unit, poll) as work:
            yield work
        target.print(rich_text.Text.assemble(("✓ ", "green"), text, (f"  {time.monotonic() - started:.1f} s", "dim")))
    elif not in_pipes:
        yield Work(0, poll)
    else:
        target.print(rich_text.Text(f"{text} …"), end=" ")
        try:
            yield Work(0, poll)
        except BaseException:
            target.print()
            raise
        target.print(rich_text.Text(f"{time.monotonic() - started:.1f} s"))
