"""`icefloe expire`: its output, its effects and its refusals."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.errors import InvalidInputError
from icefloe.procedures.time_arguments import older_than_age_or_time
from icefloe.table import Table

NOW = datetime(2024, 5, 8, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
    for number in range(4):
        table.overwrite(pa.table({"a": [number]}))
    return table


def test_a_dry_run_lists_the_files_and_changes_nothing(icefloe: Command, table: Table, tmp_path: Path) -> None:
    shown = icefloe("expire", "db.t", "--older-than", "0s", "--dry-run", "--all", "--warehouse", tmp_path)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "Nothing was changed." in shown.stdout
    going = [snapshot.manifest_list for snapshot in table.snapshots()[:-1]]
    assert all(str(path).removeprefix(f"{table.location()}/") in shown.stdout for path in going)
    assert len(table.refresh().snapshots()) == 4


def test_files_outside_the_table_are_listed_and_deleted_where_a_folder_is_allowed(
    icefloe: Command, as_json: Callable[..., Any], table: Table, tmp_path: Path
) -> None:
    added = tmp_path / "imports" / "a.parquet"
    added.parent.mkdir()
    pq.write_table(pa.table({"a": [9]}), added)
    table.add_files([str(added)])
    table.overwrite(pa.table({"a": [10]}))
    where = ("--older-than", "0s", "--dry-run", "--warehouse", tmp_path)
    assert as_json("expire", "db.t", *where)["outside"] == [str(added)]
    assert str(added) in icefloe("expire", "db.t", *where, "--all").stdout
    assert as_json("expire", "db.t", *where, "--allow-outside", added.parent)["outside"] == []
    icefloe("expire", "db.t", "--older-than", "0s", "--warehouse", tmp_path, "--allow-outside", added.parent)
    assert not added.exists()


def test_json_lists_what_was_removed(as_json: Callable[..., Any], table: Table, tmp_path: Path) -> None:
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    printed = as_json("expire", "db.t", "--snapshot", ids[0], "--snapshot", ids[1], "--warehouse", tmp_path)
    assert (printed["snapshot_ids"], printed["dry_run"], printed["undeleted"]) == (ids[:2], False, [])
    assert printed["totals"]["data files"]["files"] == 2
    printed = as_json(
        "expire", "db.t", "--older-than", "0s", "--retain-last", "2", "--keep-files", "--clean-metadata", "--warehouse", tmp_path
    )
    assert (printed["snapshot_ids"], printed["files"]) == ([], [])
    assert len(table.refresh().snapshots()) == 2


def test_wrong_arguments_are_refused_with_the_next_step(icefloe: Command, table: Table, tmp_path: Path) -> None:
    head = table.metadata.current_snapshot_id
    for words, why in (
        (("--older-than", "soon"), "neither an age nor a time"),
        (("--retain-last", "0"), "at least one"),
        (("--snapshot", "17"), "no snapshot 17"),
        (("--snapshot", head), "branch main"),
    ):
        refused = icefloe("expire", "db.t", *words, "--warehouse", tmp_path)
        assert refused.exit_code == 1
        assert why in refused.stderr
    refused = icefloe("expire", table.metadata_location)
    assert (refused.exit_code, "cannot be changed" in " ".join(refused.stderr.split())) == (1, True)
    assert len(table.refresh().snapshots()) == 4


def test_ages_and_times() -> None:
    assert older_than_age_or_time("7d", NOW) == NOW - timedelta(days=7)
    assert [NOW - older_than_age_or_time(text, NOW) for text in ("2w", "12h", "30m", "5s")] == [
        timedelta(weeks=2),
        timedelta(hours=12),
        timedelta(minutes=30),
        timedelta(seconds=5),
    ]
    assert older_than_age_or_time("2024-05-01T12:00", NOW) == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert older_than_age_or_time("2024-05-01T12:00+02:00", NOW) == datetime(2024, 5, 1, 10, tzinfo=UTC)
    for wrong in ("", "7", "d7", "-3d", "99999999999d", "2024-13-01"):
        with pytest.raises(InvalidInputError):
            older_than_age_or_time(wrong, NOW)
