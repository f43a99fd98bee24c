"""`icefloe repair`: the plan, its commit and the way back, with exit codes, JSON and hostile names; and `CALL system.repair`."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.checks.file_breaks import file_of
from tests.cli.conftest import Command
from tests.repair.broken_table import BrokenTable

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.procedures import call
from icefloe.repair import plan


@pytest.fixture
def broken(tmp_path: Path) -> BrokenTable:
    """A table with a lost data file of three rows, and deletes of it."""
    table = BrokenTable.of_files(tmp_path)
    file_of(table.stored).unlink()
    return table


def test_a_plan_shows_what_is_lost_and_changes_nothing(icefloe: Command, broken: BrokenTable) -> None:
    files = broken.files()
    run = icefloe("repair", "db.t", "--warehouse", broken.folder)
    assert run.exit_code == 1, run.output
    for text in ("drop-lost-data-files", "file-missing", "day=a", "rows lost", "Nothing was changed", "--undo"):
        assert text in run.output, text
    assert broken.files() == files


def test_a_repair_is_applied_and_undone(icefloe: Command, broken: BrokenTable) -> None:
    assert f" --warehouse {broken.folder} --undo" in icefloe("repair", "db.t", "--warehouse", broken.folder).output
    run = icefloe("repair", "db.t", "--apply", "--warehouse", broken.folder)
    assert run.exit_code == 0, run.output
    assert icefloe("repair", "db.t", "--warehouse", broken.folder).exit_code == 0
    assert "Nothing is wrong" in icefloe("repair", "db.t", "--warehouse", broken.folder).output
    typed = shlex.split(next(line for line in run.output.splitlines() if line.startswith("icefloe repair ")))
    assert icefloe(*typed[1:]).exit_code == 0, "the printed command undoes the repair"
    assert icefloe("repair", "db.t", "--warehouse", broken.folder).exit_code == 1


def test_json_has_the_plan_and_the_result(icefloe: Command, broken: BrokenTable) -> None:
    planned = json.loads(icefloe("repair", "db.t", "--json", "--warehouse", broken.folder).output)
    (repair,) = planned["repairs"]
    assert (repair["repair"], repair["is_chosen"], repair["rows_lost"], repair["scope"]) == (
        "drop-lost-data-files",
        True,
        {"day=a": 3},
        "snapshot",
    )
    assert not [key for key in planned if key.startswith("_")]
    result = json.loads(icefloe("repair", "db.t", "--apply", "--json", "--warehouse", broken.folder).output)
    assert (result["repairs"], result["rows_lost"]) == (["drop-lost-data-files"], 3)
    assert result["snapshot_id"]


def test_apply_without_a_chosen_repair_shows_the_plan_and_fails(icefloe: Command, tmp_path: Path) -> None:
    table = BrokenTable.of_files(tmp_path)
    file_of(table.stored, 1).unlink()
    run = icefloe("repair", "db.t", "--apply", "--warehouse", tmp_path)
    assert run.exit_code == 1
    assert "--only drop-lost-delete-files" in run.output
    run = icefloe("repair", "db.t", "--apply", "--only", "drop-lost-delete-files", "--warehouse", tmp_path)
    assert run.exit_code == 0
    assert "rows that came back, at most" in run.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("db.t", "--only", "mend"), "there is no repair 'mend'"),
        (("db.t", "--undo", "--apply"), "--undo excludes"),
        (("db.t", "--metadata-file", "x"), "--metadata-file is for --undo"),
        (("lake/db/t/metadata/v1.metadata.json",), "cannot be repaired"),
        (("db.other",), "does not exist"),
        (("db.t", "--undo"), "was no repair"),
    ],
)
def test_wrong_arguments_are_refused(icefloe: Command, broken: BrokenTable, words: tuple[str, ...], reason: str) -> None:
    files = broken.files()
    run = icefloe("repair", *words, "--warehouse", broken.folder)
    assert run.exit_code == 1
    assert reason in run.output
    assert "Next:" in run.output
    assert broken.files() == files


def test_a_catalog_without_a_name_is_refused(broken: BrokenTable) -> None:
    with pytest.raises(InvalidInputError, match="without the name"):
        plan(broken.catalog)


def test_names_of_a_table_with_control_characters_do_not_reach_the_terminal(icefloe: Command, tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    schema = pa.schema([("day\x1b[31m", pa.string())])
    table = catalog.create_table("db.t", schema, partition_spec=["day\x1b[31m"])
    table.append(pa.table({"day\x1b[31m": ["<b>\x1b]0;x\x07"]}, schema=schema))
    Path(next(iter(table.scan().plan_files())).file.file_path).unlink()
    output = icefloe("repair", "db.t", "--warehouse", tmp_path).output
    assert "\x1b" not in output
    assert "<b>" not in plan(table)._repr_html_()


def test_the_procedure_plans_applies_and_undoes(broken: BrokenTable) -> None:
    (row,) = call(broken.catalog, "repair", table="db.t")
    assert (row["repair"], row["chosen"], row["applied"], row["rows_lost"]) == ("drop-lost-data-files", True, False, 3)
    (row,) = call(broken.catalog, "repair", table="db.t", apply=True)
    assert (row["applied"], row["undo"]) == (True, "icefloe repair db.t --catalog lake --undo")
    assert row["snapshot_id"]
    assert call(broken.catalog, "repair", table="db.t") == []
    assert call(broken.catalog, "repair", table="db.t", undo_last=True)[0]["applied"] is True
    assert len(call(broken.catalog, "repair", table="db.t")) == 1


def test_the_procedure_restores_the_name_of_a_dropped_table(broken: BrokenTable) -> None:
    metadata = Path(broken.location())
    content = metadata.read_bytes()
    metadata.write_bytes(b"{")
    (row,) = [row for row in call(broken.catalog, "repair", table="db.t", apply=True, only=["drop-table"]) if row["chosen"]]
    assert row["applied"]
    assert not broken.catalog.table_exists("db.t")
    metadata.write_bytes(content)
    with pytest.raises(InvalidInputError, match="only for undo_last"):
        call(broken.catalog, "repair", table="db.t", metadata_file=str(metadata))
    assert call(broken.catalog, "repair", table="db.t", undo_last=True, metadata_file=str(metadata))[0]["applied"] is True
    assert broken.catalog.table_exists("db.t")


def test_the_procedure_has_a_row_for_what_no_repair_mends(broken: BrokenTable) -> None:
    broken.stored.edit(lambda document: document["sort-orders"].append({"order-id": 1, "fields": []}))
    rows: list[dict[str, Any]] = call(broken.catalog, "repair", table="db.t", only=["drop-lost-data-files"])
    assert [(row["repair"], row["rules"]) for row in rows if not row["chosen"]] == [("none", "sort-order-unsorted")]


def test_the_progress_bar_is_only_for_terminals(icefloe: Command, broken: BrokenTable, terminal: Callable[[int], None]) -> None:
    assert "Validating" not in icefloe("repair", "db.t", "--warehouse", broken.folder).output
    terminal(100)
    assert "Validating db.t" in icefloe("repair", "db.t", "--warehouse", broken.folder).output
