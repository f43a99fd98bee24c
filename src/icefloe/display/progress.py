"""Progress of long work: a bar in a terminal, a line of text in a notebook, nothing elsewhere.

Work that ends within `DELAY_S` shows nothing. The command line shows its own steps from their start, by the same bar (`bar_on`), and hides all other progress.
`ICEFLOE_PROGRESS=0` in the environment hides it as well.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from icefloe.errors import in_one_line
from icefloe.lazy_imports import lazy_module

if TYPE_CHECKING:  # its import takes 0.1 s, which only long work should cost
    from rich import console as rich_console
    from rich import progress as bars
    from rich import table as rich_table
else:
    rich_console = lazy_module("rich.console")
    bars = lazy_module("rich.progress")
    rich_table = lazy_module("rich.table")

T = TypeVar("T")
# Returns the number of pieces of work that are done, and of all pieces; (0, 0) if these are unknown.
Poll = Callable[[], tuple[int, int]]

SWITCH = "ICEFLOE_PROGRESS"
# The unit of work for which the bar shows sizes, the number of rows, and the remaining time.
BYTES = "bytes"
# Seconds of work before anything is shown, and between two updates.
DELAY_S, UPDATE_S = 2.0, 0.25
# Held while the progress of one piece of work is shown, so that work within it is not shown too.
_SHOWING = threading.Lock()
_hidden = threading.Event()


class Work:
    """A piece of work with its progress.

    Attributes:
        done: How much is done.
        total: How much there is; 0 if that is unknown.
        rows: The number of rows that are done, for work that is counted in bytes.
    """

    def __init__(self, total: int, poll: Poll | None) -> None:
        self.done = 0
        self.total = total
        self.rows = 0
        self._poll = poll

    def advance(self, count: int = 1) -> None:
        """Count `count` more units as done."""
        self.done += count

    def state(self) -> tuple[int, int]:
        """Return `done` and `total`."""
        return (self.done, self.total) if self._poll is None else self._poll()


# Draws a text, the unit and the state of the work again and again until the event is set.
Draw = Callable[[str, str, Work, threading.Event], None]


@contextmanager
def progress(text: str, unit: str, total: int = 0, poll: Poll | None = None) -> Iterator[Work]:
    """Show the progress of long work in a `with` block.

    Args:
        text: A description of the work, such as `write db.events`.
        unit: What is counted, in the plural.
        total: How much there is; 0 if that is unknown.
        poll: Returns how much is done and how much there is, instead of `Work.advance`.

    Yields:
        The work, whose `advance` the block calls.
    """
    work, draw = Work(total, poll), _drawing()
    if draw is None or not _SHOWING.acquire(blocking=False):
        yield work
        return
    try:
        with _draw_beside(draw, text, unit, work):
            yield work
    finally:
        _SHOWING.release()


@contextmanager
def bar_on(console: "rich_console.Console", text: str, unit: str, poll: Poll | None = None) -> Iterator[Work]:
    """Show the progress of work in a `with` block from its start, as a bar on a console. Nothing is shown if the console is not a terminal.

    Args:
        console: The console.
        text: A description of the work.
        unit: What is counted, in the plural.
        poll: Returns how much is done and how much there is, instead of `Work.advance`.

    Yields:
        The work, whose `advance` the block calls.
    """
    work = Work(0, poll)
    with _draw_beside(partial(_on_terminal, console, 0.0), text, unit, work):
        yield work


@contextmanager
def _draw_beside(draw: Draw, text: str, unit: str, work: Work) -> Iterator[None]:
    """Draw the progress in a separate thread while a `with` block runs."""
    over = threading.Event()
    thread = threading.Thread(target=draw, args=(in_one_line(text), unit, work, over), name="icefloe-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)


def count_pieces(text: str, unit: str, pieces: Iterable[T], total: int) -> Generator[T]:
    """Yield the pieces of long work, and show how many of them are done.

    The progress is shown until the generator ends. Wrap it in `contextlib.closing`, because after an error the traceback would keep the generator alive.

    Args:
        text: A description of the work.
        unit: What the pieces are, in the plural.
        pieces: The pieces. Each counts as done when the next one is requested.
        total: The number of pieces.
    """
    with progress(text, unit, total) as work:
        for piece in pieces:
            yield piece
            work.advance()


def hide_progress() -> None:
    """Show no progress in this process from now on."""
    _hidden.set()


def _drawing() -> Draw | None:
    """Return the function that draws progress in this environment; None if no progress is shown."""
    if _hidden.is_set() or os.environ.get(SWITCH, "").lower() in ("0", "false", "no", "off"):
        return None
    if type(sys.stdout).__module__.startswith("ipykernel."):
        return _in_notebook
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    return partial(_on_terminal, rich_console.Console(file=sys.stderr), DELAY_S)


def _on_terminal(console: "rich_console.Console", delay_s: float, text: str, unit: str, work: Work, over: threading.Event) -> None:
    if delay_s and over.wait(delay_s):
        return
    with bars.Progress(*_columns(unit), console=console, transient=True, expand=unit == BYTES) as shown:
        task = shown.add_task(text, total=None, count="")
        while True:
            done, total = work.state()
            count = f"{work.rows:,} rows" if unit == BYTES else _count_text(done, total, unit)
            shown.update(task, completed=done, total=total or None, count=count)
            if over.wait(UPDATE_S):
                return


def _columns(unit: str) -> "tuple[bars.ProgressColumn, ...]":
    if unit != BYTES:
        count = bars.TextColumn("{task.fields[count]}", markup=False)
        return (
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            count,
            bars.TimeElapsedColumn(),
        )
    whole = partial(rich_table.Column, no_wrap=True)
    return (
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False, table_column=whole()),
        # The bar becomes narrower for the numbers, which are never cut.
        bars.BarColumn(bar_width=None, table_column=rich_table.Column(ratio=1)),
        bars.TextColumn("{task.fields[count]}", markup=False, table_column=whole()),
        bars.DownloadColumn(binary_units=True, table_column=whole()),
        bars.TimeRemainingColumn(table_column=whole()),
    )


def _in_notebook(text: str, unit: str, work: Work, over: threading.Event) -> None:
    started = time.monotonic()
    if over.wait(DELAY_S):
        return
    stream, width = sys.stdout, 0
    while not over.is_set():
        line = f"{text}: {_count_text(*work.state(), unit)}, {time.monotonic() - started:.0f} s"
        width = max(width, len(line))
        stream.write(f"\r{line:<{width}}")
        stream.flush()
        over.wait(4 * UPDATE_S)
    stream.write(f"\r{'':<{width}}\r")
    stream.flush()


def _count_text(done: int, total: int, unit: str) -> str:
    return f"{done:,} of {total:,} {unit}" if total else f"{done:,} {unit}" if done else "running"
