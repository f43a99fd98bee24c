"""Every value prints, becomes JSON and HTML, and keeps what it was given."""

import builtins
import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from tests.inspect.example import WHERE

import icefloe.inspect as look
from icefloe import SqlCatalog
from icefloe.display.reportable import Reportable
from icefloe.display.terminal import text_of
from icefloe.formatting import count_text, share_text, size_text, time_text, within
from icefloe.table import Table

OF_A_TABLE: dict[str, Callable[[Table], Reportable]] = {
    "table": look.table,
    "snapshots": look.snapshots,
    "metadata": look.metadata,
    "manifest_list": look.manifest_list,
    "manifest": look.manifest,
    "data_file": look.data_file,
    "tree": look.tree,
    "overhead": look.overhead,
    "statistics": look.statistics,
    "refs": look.refs,
    "properties": look.properties,
    "log": look.log,
    "graph": lambda table: look.log(table, graph=True),
    "trace": lambda table: look.trace(table, WHERE),
}


@pytest.fixture(params=[*OF_A_TABLE, "catalog", "listing"])
def view(request: pytest.FixtureRequest, events: Table, catalog: SqlCatalog) -> Reportable:
    if request.param in OF_A_TABLE:
        return OF_A_TABLE[request.param](events)
    return {"catalog": look.catalog, "listing": look.listing}[request.param](catalog)


class Balanced(HTMLParser):
    """Refuses HTML whose tags do not close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_view_becomes_json_and_back(view: Reportable) -> None:
    assert json.loads(view.to_json()) == view.to_dict()
    assert not any(key.startswith("_") for key in view.to_dict())


def test_a_printed_view_has_no_terminal_codes(view: Reportable) -> None:
    text = str(view)
    assert text.strip()
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_view_is_text_in_a_notebook_and_displays_nothing(view: Reportable, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = str(view)
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setattr(builtins, "get_ipython", lambda: shell, raising=False)
    assert Console().is_jupyter  # otherwise this test shows nothing about notebooks
    assert (str(view), f"{view}") == (expected, expected)


def test_a_view_at_a_prompt_is_one_line_with_its_name(view: Reportable) -> None:
    assert repr(view).startswith(f"{type(view).__name__}(")
    assert repr(view).endswith("; print() shows it)")
    assert len(repr(view).splitlines()) == 1
    assert len(repr(view)) < 100


def test_a_view_is_html_in_notebooks(view: Reportable) -> None:
    parser = Balanced()
    parser.feed(view._repr_html_())
    assert parser.open == []
    assert parser.seen & {"table", "details"}


def test_rich_prints_a_view(view: Reportable) -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(view)
    console.file.close()
    assert console.export_text().strip()


def test_a_view_cannot_be_changed(events: Table) -> None:
    with pytest.raises(FrozenInstanceError):
        look.table(events).name = "other"  # type: ignore[misc]


def test_everything_is_shown_without_a_limit(events: Table) -> None:
    tree = look.tree(events)
    assert tree.snapshot is not None
    names = [within(file.file_path, tree.location) for manifest in tree.snapshot.manifests for file in manifest.files]
    short, whole = (text_of(tree.report(most), 300) for most in (4, None))
    assert [name in whole for name in names] == [True] * 12
    assert sum(name in short for name in names) == 4
    assert short.count("… and 4 more") == 2


def test_markup_in_names_and_values_is_only_text(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    name = "<script>alert(1)</script>[bold red]"
    table = catalog.create_table("n.t", pa.schema([(name, pa.string())]), properties={"note": "<b>[/red]"})
    table.append(pa.table({name: ["<i>x</i>[link]"]}))
    for function in OF_A_TABLE.values():
        if function is OF_A_TABLE["trace"]:
            continue
        found = function(table)
        assert "<script>" not in found._repr_html_()
        assert "<i>" not in found._repr_html_()
        str(found)
    assert name in str(look.table(table))
    assert "<i>x</i>[link]" in str(look.manifest(table))


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (1023 * 1024, "0.999 MiB"), (1 << 30, "1 GiB"), (None, "unknown")],
)
def test_sizes_for_readers(size: int | None, text: str) -> None:
    assert size_text(size) == text


def test_counts_shares_times_and_paths_for_readers() -> None:
    assert [count_text(1, "file"), count_text(1234, "file"), count_text(2, "entry", "entries"), count_text(None)] == [
        "1 file",
        "1,234 files",
        "2 entries",
        "unknown",
    ]
    assert [share_text(1, 8), share_text(1, 0)] == ["12.5 %", "-"]
    assert [time_text(0), time_text(1704067200123), time_text(None)] == [
        "1970-01-01 00:00:00.000 UTC",
        "2024-01-01 00:00:00.123 UTC",
        "never",
    ]
    assert time_text(10**18) == f"{10**18} ms since 1970"
    uuid = "0cb5daf9-d436-496f-9973-c3d7df9dc5a0"
    assert within(f"/lake/t/data/00000-1-{uuid}-00001.parquet", "/lake/t") == f"data/00000-1-{uuid}-00001.parquet"
    assert within("/elsewhere/x", "/lake/t") == "/elsewhere/x"
