"""`icefloe maintain`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command
from tests.maintenance.test_maintain import lake
from tests.table.reachable import everything, on_disk


def test_a_table_is_planned_and_maintained(icefloe: Command, as_json: Callable[..., Any], tmp_path: Path) -> None:
    table = lake(tmp_path).load_table("db.t")
    with table.manage_snapshots() as manage:
        manage.create_tag(snapshot_id=table.snapshots()[0].snapshot_id, tag_name="old")
    planned = icefloe("maintain", "db.t", "--warehouse", tmp_path, "--plan", "--min-age-minutes", "0")
    assert planned.exit_code == 0, planned.output
    assert "planned" in planned.stdout
    assert "Nothing was changed." in planned.stdout
    done = as_json("maintain", "db.t", "--warehouse", tmp_path, "--min-age-minutes", "0")
    assert [one["state"] for one in done["tables"][0]["actions"] if one["action"] == "rewrite-data-files"] == ["done"]
    assert {one["state"] for one in done["tables"][0]["actions"]} == {"done", "nothing to do"}
    tagged = icefloe("maintain", "db.t", "--warehouse", tmp_path, "--branch", "old")
    assert (tagged.exit_code, "is a tag" in tagged.output) == (1, True)
    searched = as_json("maintain", "db.t", "--warehouse", tmp_path, "--min-age-minutes", "0", "--remove-orphan-files")
    assert [one["state"] for one in searched["tables"][0]["actions"] if one["action"] == "remove-orphan-files"] == ["done"]


def test_a_catalog_with_a_broken_table_ends_with_exit_code_one(icefloe: Command, tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    snapshot = catalog.load_table("db.t").metadata.current_snapshot()
    assert snapshot is not None
    Path(str(snapshot.manifest_list).removeprefix("file://")).unlink()
    run = icefloe("maintain", "--warehouse", tmp_path, "--min-age-minutes", "0")
    assert run.exit_code == 1
    assert "db.t: failed" in run.stdout
    assert "done" in run.stdout


def test_wrong_names_and_limits_are_refused(icefloe: Command, tmp_path: Path) -> None:
    lake(tmp_path)
    assert "the namespace holds db.t" in icefloe("maintain", "db.nope", "--warehouse", tmp_path).output
    assert icefloe("maintain", "db", "--plan", "--warehouse", tmp_path).exit_code == 0
    refused = icefloe("maintain", "nope", "--plan", "--warehouse", tmp_path)
    assert (refused.exit_code, "write a table as namespace.table; the namespaces are: db" in refused.output) == (1, True)
    assert icefloe("maintain", "db.t", "--warehouse", tmp_path, "--max-bytes", "-1").exit_code == 2


@pytest.mark.parametrize("command", ["maintain", "rewrite-data-files"])
def test_ctrl_c_states_what_it_left_and_leaves_no_new_file(
    icefloe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    catalog = lake(tmp_path)
    table = catalog.load_table("db.t")
    rows, write = table.scan().count(), pq.ParquetWriter.write_table

    def interrupted(*arguments: Any, **options: Any) -> None:
        write(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(pq.ParquetWriter, "write_table", interrupted)
    run = icefloe(command, "db.t", "--warehouse", tmp_path, *(["--min-age-minutes", "0"] if command == "maintain" else []))
    assert (run.exit_code, run.stdout) == (130, "")
    assert " ".join(run.stderr.split()).startswith("icefloe: interrupted: no table was left half changed: commits that were made stay")
    monkeypatch.undo()
    assert table.refresh().scan().count() == rows
    assert on_disk(table.location()) == everything(table.metadata)


@pytest.mark.parametrize(
    ("words", "method", "expected"),
    [
        (("expire", "db.t", "--retain-last", "1", "--older-than", "0d"), "icefloe.table.table.Table.expire_snapshots", "they are expired"),
        (("drop", "db.t", "--purge", "--yes"), "icefloe.catalog.sql_catalog.SqlCatalog.drop_table", "it is dropped"),
        (("call", "rewrite_manifests", "table=db.t"), "icefloe.table.table.Table.rewrite_manifests", "commits that were made stay"),
    ],
)
def test_ctrl_c_states_what_commands_that_delete_files_leave(
    icefloe: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], method: str, expected: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    lake(tmp_path)
    monkeypatch.setattr(method, interrupted)
    run = icefloe(*words, "--warehouse", tmp_path)
    assert (run.exit_code, expected in " ".join(run.stderr.split())) == (130, True), run.stderr
