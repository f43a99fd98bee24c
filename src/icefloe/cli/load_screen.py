"""The progress bar of `icefloe load`: rows, bytes and the time left on a terminal, and nothing elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from icefloe.cli.screen import POLL_S, console
from icefloe.errors import in_one_line
from icefloe.loading.load_progress import LoadProgress, ProgressCallback


@contextmanager
def load_step(text: str) -> Iterator[ProgressCallback | None]:
    """Show a step of a load, and give the callback that moves its bar; None where no bar is shown."""
    target = console(to_errors=True)
    if not target.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        # The bar gives way to the numbers, which are never cut.
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.fields[rows]:,} rows", table_column=Column(no_wrap=True)),
        DownloadColumn(binary_units=True, table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    started = time.monotonic()
    with Progress(*columns, console=target, transient=True, expand=True) as progress:
        task = progress.add_task(in_one_line(text), total=None, rows=0)
        shown_at = 0.0

        def advance(state: LoadProgress) -> None:
            nonlocal shown_at
            now = time.monotonic()
            if now - shown_at < POLL_S and state.done_bytes < state.all_bytes:
                return
            shown_at = now
            progress.update(task, completed=state.done_bytes, total=state.all_bytes, rows=state.rows)

        yield advance
    target.print(Text.assemble(("✓ ", "green"), in_one_line(text), (f"  {time.monotonic() - started:.1f} s", "dim")))
