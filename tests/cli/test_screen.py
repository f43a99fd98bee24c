"""The steps of commands: a bar and a last line in a terminal of any width, one line in a pipe, and nothing that remains after Ctrl-C."""

import io
import re
import threading
import time

import pytest
from rich.console import Console

from icefloe.cli.screen import step


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Return what is written to standard error, which is a terminal whose width a test sets by `COLUMNS`."""
    stream = io.StringIO()
    monkeypatch.setattr("icefloe.cli.screen.console", lambda **_: Console(file=stream, force_terminal=True))
    monkeypatch.setattr("icefloe.display.progress.UPDATE_S", 0.01)
    return stream


def plain(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_terminal_shows_counts_from_the_start_and_keeps_one_line(drawn: io.StringIO, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    counts = iter([(0, 0), *[(1_500, 2_000)] * 100_000])
    with step("Checking t", lambda: next(counts), "files"):
        end = time.monotonic() + 10
        while "2,000" not in plain(drawn) and time.monotonic() < end:
            time.sleep(0.01)
    shown = plain(drawn)
    assert "1,500 of 2,000 files" in " ".join(shown.split())
    assert re.search(r"✓ Checking t  \d\.\d s\n$", shown)
    assert all(len(line) <= width for line in re.split("[\r\n]", shown))


def test_a_pipe_gets_one_line_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    with step("Starting Spark"):
        pass
    with step("Reading the columns", in_pipes=False):
        pass
    out, err = capsys.readouterr()
    assert (out, re.fullmatch(r"Starting Spark … \d\.\d s\n", err) is not None) == ("", True)


def test_an_interrupted_step_ends_its_line_and_its_bar(drawn: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), step("Loading"):
        raise KeyboardInterrupt
    assert "✓" not in plain(drawn)
    assert drawn.getvalue().count("\x1b[?25l") == drawn.getvalue().count("\x1b[?25h")  # the cursor is shown again
    assert not any(thread.name == "icefloe-progress" for thread in threading.enumerate())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("icefloe.cli.screen.console", lambda **_: Console(stderr=True))
        with pytest.raises(KeyboardInterrupt), step("Loading"):
            raise KeyboardInterrupt
    assert capsys.readouterr().err == "Loading … \n"


def test_the_name_of_a_table_cannot_control_the_terminal(drawn: io.StringIO) -> None:
    with step("Checking \x1b]0;title\x07[bold]t\ntwo"):
        time.sleep(0.05)
    assert "\x1b]0;" not in drawn.getvalue()
    assert "[bold]t\\ntwo" in plain(drawn)
