"""Long work shows its progress: a bar on a terminal, a line of text in a notebook, nothing elsewhere and nothing for short work."""

import io
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.display import progress as module
from icefloe.display.progress import count_pieces, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal of 100 columns, with progress from the start."""
    stream = Terminal()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=io.StringIO(), stderr=stream))
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    monkeypatch.setattr(module, "UPDATE_S", 0.01)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    return stream


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Standard output as that of a notebook's kernel."""
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=stream, stderr=io.StringIO()))
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    monkeypatch.setattr(module, "UPDATE_S", 0.01)
    return stream


def shown_in(stream: io.StringIO, text: str) -> bool:
    """Wait until a text is shown, for 10 s at most."""
    end = time.monotonic() + 10
    while text not in stream.getvalue() and time.monotonic() < end:
        time.sleep(0.01)
    return text in stream.getvalue()


def test_a_terminal_shows_a_bar_with_counts(terminal: Terminal) -> None:
    with progress("write db.t", "rows", 2000) as work:
        work.advance(500)
        assert shown_in(terminal, "500 of 2,000 rows")
        assert "write db.t" in terminal.getvalue()


def test_a_notebook_shows_a_line_of_text_and_removes_it(notebook: io.StringIO) -> None:
    with progress("rewrite db.t", "files", 7) as work:
        work.advance()
        assert shown_in(notebook, "\rrewrite db.t: 1 of 7 files, 0 s")
    assert notebook.getvalue().endswith(" \r")
    assert "\x1b" not in notebook.getvalue()


def test_short_work_and_other_streams_show_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELAY_S", 60.0)
    with progress("write db.t", "rows"):
        time.sleep(0.05)
    monkeypatch.setattr(module, "DELAY_S", 0.0)
    plain = io.StringIO()
    monkeypatch.setattr(module, "sys", SimpleNamespace(stdout=plain, stderr=plain))
    with progress("write db.t", "rows"):
        time.sleep(0.05)
    assert terminal.getvalue() == plain.getvalue() == ""


@pytest.mark.parametrize("text", ["0", "off", "False"])
def test_the_environment_switches_it_off(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ICEFLOE_PROGRESS", text)
    with progress("write db.t", "rows"):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_work_within_work_is_shown_once(terminal: Terminal) -> None:
    with progress("outer", "steps"):
        assert shown_in(terminal, "outer")
        with progress("inner", "steps"):
            time.sleep(0.05)
    assert "inner" not in terminal.getvalue()
    with progress("after", "steps"):
        assert shown_in(terminal, "after")


def test_an_error_ends_it(terminal: Terminal) -> None:
    with pytest.raises(ZeroDivisionError), progress("write db.t", "rows"):
        raise ZeroDivisionError
    assert not any(thread.name == "icefloe-progress" for thread in threading.enumerate())


def test_names_cannot_control_the_terminal(terminal: Terminal) -> None:
    with progress("write \x1b]0;title\x07[bold]db.t", "rows"):
        assert shown_in(terminal, "[bold]db.t")
    assert "\x1b]0;" not in terminal.getvalue()


def test_counted_pieces_are_the_pieces(terminal: Terminal) -> None:
    assert list(count_pieces("read", "files", iter("abc"), 3)) == ["a", "b", "c"]


def test_an_interrupted_write_of_a_stream_ends_its_progress(notebook: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))

    def interrupted(_target: Any, batches: Any, **_ids: int) -> None:
        next(batches)
        assert shown_in(notebook, "write lake.db.t")
        raise KeyboardInterrupt

    monkeypatch.setattr("icefloe.operations.available_engines.write_batches", interrupted)
    rows = pa.table({"id": [1, 2]})
    # The kept exception keeps every frame of its traceback, as a notebook does for the last error.
    with pytest.raises(KeyboardInterrupt) as kept:
        table.append(pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=1)))
    assert not any(thread.name == "icefloe-progress" for thread in threading.enumerate())
    assert kept.traceback


def slowly(function: Any) -> Any:
    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.3)
        return function(*arguments, **named)

    return slow


def test_writes_rewrites_and_expiry_of_a_table_show_progress(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    for name, function in (("available_engines", "write_sorted"), ("rows.row_change", "rewrite_task")):
        monkeypatch.setattr(f"icefloe.operations.{name}.{function}", slowly(getattr(sys.modules[f"icefloe.operations.{name}"], function)))
    monkeypatch.setattr("icefloe.io.bulk_delete._one_by_one", slowly(sys.modules["icefloe.io.bulk_delete"]._one_by_one))
    monkeypatch.setattr("icefloe.operations.available_engines.LONG_WRITE_BYTES", 0)
    table.append(pa.table({"id": [1, 2, 3]}))
    assert "write 3 rows into lake.db.t" in terminal.getvalue()
    table.delete("id = 1")
    assert "rewrite lake.db.t" in terminal.getvalue()
    table.expire_snapshots(older_than=2**62, retain_last=1)
    assert "delete files" in terminal.getvalue()
