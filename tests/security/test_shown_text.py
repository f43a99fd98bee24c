"""Names and values of a table cannot control the terminal, the log or the notebook that shows them."""

import logging
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import icefloe.inspect as look
from icefloe import EqualTo
from icefloe.catalog import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.cli.application import app
from icefloe.errors import IcefloeError, InvalidFilterError, Problem, StorageError
from icefloe.inspect import metadata_table
from icefloe.operations.warnings_once import warn_once
from icefloe.spark.write import failed_attempt_cleanup
from icefloe.table.table import Table

# Clear the screen, set the clipboard, set the title, the same by C1 characters, write from right to left.
HOSTILE = "a\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\x9d0;t\x9c\u202e\x7f\r"


@pytest.fixture
def hostile(tmp_path: Path) -> Table:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([pa.field(HOSTILE, pa.string())])
    table = catalog.create_table("db.t", schema, properties={HOSTILE: HOSTILE, "comment": HOSTILE})
    table.append(pa.table([[HOSTILE]], schema=schema))
    return table


def controls(text: str) -> set[str]:
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n\t"}


@pytest.mark.parametrize("name", ["table", "tree", "metadata", "manifest", "data_file", "snapshots"])
def test_no_view_of_a_table_has_control_characters(hostile: Table, name: str) -> None:
    view = getattr(look, name)(hostile)
    assert [controls(text) for text in (str(view), view.to_json(), view._repr_html_())] == [set(), set(), set()]


@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize("command", ["table", "metadata", "data-file"])
def test_the_command_line_prints_no_control_characters(hostile: Table, tmp_path: Path, command: str, extra: list[str]) -> None:
    result = CliRunner().invoke(app, ["show", command, "db.t", "--uri", f"sqlite:///{tmp_path}/c.db", "--warehouse", str(tmp_path), *extra])
    assert result.exit_code == 0, result.output
    assert "[2J" in result.output
    assert controls(result.output) == set()


MARKUP = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&"


def displayed(table: Table) -> list[Any]:
    """Return the values that a notebook displays of a table."""
    snapshot = table.current_snapshot()
    scan = table.scan(EqualTo(table.schema().names[0], HOSTILE), selected_fields=tuple(table.schema().names), limit=1)
    return [table, table.schema(), table.snapshots(), table.ancestors(), snapshot, scan, metadata_table(table, "files")]


def test_what_a_prompt_and_a_notebook_display_has_no_control_characters(hostile: Table) -> None:
    hostile.append(hostile.scan().to_arrow(), snapshot_properties={HOSTILE: HOSTILE})
    for value in displayed(hostile):
        assert controls(repr(value)) == set(), type(value)
        assert controls(value._repr_html_()) == set(), type(value)


def test_markup_in_names_comments_and_summaries_is_text_in_a_notebook(tmp_path: Path) -> None:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([pa.field(MARKUP, pa.string(), metadata={"doc": MARKUP})])
    table = catalog.create_table("db.t", schema, properties={MARKUP: MARKUP})
    result = table.append(pa.table([[MARKUP]], schema=schema), snapshot_properties={MARKUP: MARKUP})
    report = replace(table.expire_snapshots(retain_last=1, dry_run=True), table=MARKUP, refs=(MARKUP,))
    for value in [*displayed(table), result, replace(result, operation=MARKUP, engine=MARKUP), report]:
        html = value._repr_html_()
        assert "<script" not in html, type(value)
        assert "<img" not in html, type(value)
    assert "&lt;script&gt;" in table.schema()._repr_html_()


def test_endless_texts_are_cut_where_they_are_displayed(tmp_path: Path) -> None:
    catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([pa.field("x" * 100_000, pa.string(), metadata={"doc": "y" * 100_000})])
    table = catalog.create_table("db.t", schema)
    table.append(pa.table([["a"]], schema=schema), snapshot_properties={"k" * 100_000: "v" * 100_000})
    for value in displayed(table):
        assert len(repr(value)) < 2_000, type(value)
        assert len(value._repr_html_()) < 20_000, type(value)


def test_errors_have_no_control_characters(hostile: Table) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        hostile.scan("nothing = 1").to_arrow()
    assert "[2J" in str(caught.value)
    assert controls(str(caught.value)) == set()


def test_a_text_in_an_error_cannot_pass_for_the_next_line_of_a_log() -> None:
    forged = "x\n2026-01-01 CRITICAL forged"
    error = IcefloeError(forged, table=forged, path="/p\nforged", problems=[Problem(where=forged, what=forged)], next_step=forged)
    assert [line for line in str(error).splitlines()[1:] if not line.startswith("  ")] == []


def test_a_warning_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        warn_once("", "table property", "p\nforged\x1b[2J", "q\r\nforged")
    assert len(caplog.records) == 1
    assert controls(caplog.text.rstrip("\n")) == set()
    assert caplog.text.rstrip("\n").count("\n") == 0


def test_an_ordinary_text_is_shown_as_it_is() -> None:
    assert str(IcefloeError("größe\tשלום 表 🙂")) == "größe\tשלום 表 🙂"


def test_lakes_can_be_listed(hostile: Table, tmp_path: Path) -> None:
    catalog: Catalog = load_catalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    assert controls(str(look.listing(catalog))) == set()


def test_the_warning_of_files_that_are_left_is_one_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> list[str]:
        raise StorageError("no")

    monkeypatch.setattr(failed_attempt_cleanup, "files_of", refused)
    target = SimpleNamespace(io=None, data_location=f"s3://b/{HOSTILE}\nforged", operation_uuid="u")
    with caplog.at_level(logging.WARNING):
        failed_attempt_cleanup.delete_files_of_operation(target, (), (0.0,))  # type: ignore[arg-type]
    assert controls(caplog.text.rstrip("\n")) == set()
    assert caplog.text.rstrip("\n").count("\n") == 0
