"""The commands `rewrite-data-files`, `rewrite-manifests` and `call`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.procedures import procedure_names

JsonCommand = Callable[..., Any]


@pytest.fixture
def lake(tmp_path: Path) -> SqlCatalog:
    """A catalog with the table `db.t` of three appends."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("n", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"n": [number]}))
    return catalog


def test_manifests_are_rewritten_into_fewer(as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    planned = as_json("rewrite-manifests", "db.t", "--dry-run", "--warehouse", tmp_path)
    assert (planned["rewritten_manifests"], planned["added_manifests"], planned["snapshot_id"]) == (3, 1, None)
    done = as_json("rewrite-manifests", "db.t", "--warehouse", tmp_path)
    assert (done["rewritten_manifests"], done["added_manifests"], done["entries"]) == (3, 1, 3)
    assert lake.load_table("db.t").scan().count() == 3
    assert as_json("rewrite-manifests", "db.t", "--warehouse", tmp_path)["snapshot_id"] is None


def test_data_files_are_compacted(icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    words = ("rewrite-data-files", "db.t", "--warehouse", tmp_path)
    planned = as_json(*words, "--option", "min-input-files=2", "--dry-run")
    assert (planned["dry_run"], planned["rewritten_files"], planned["added_files"], planned["snapshot_ids"]) == (True, 3, 1, [])
    assert as_json(*words)["left_files"] == 3
    result = icefloe(*words, "--where", "n < 2", "--option", "min-input-files=2")
    assert result.exit_code == 0
    assert "2 files" in result.stdout
    sorted_result = as_json(*words, "--sort-order", "n desc", "--option", "min-input-files=2")
    assert (sorted_result["rewritten_files"], sorted_result["reasons"]) == (2, {"too small": 2})
    assert lake.load_table("db.t").scan().to_arrow()["n"].to_pylist() == [2, 1, 0]
    refused = icefloe(*words, "--strategy", "zorder")
    assert refused.exit_code == 1
    assert "binpack, sort" in refused.stderr


def test_every_procedure_is_listed_with_its_arguments(icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    printed = as_json("call", "--warehouse", tmp_path)
    assert list(printed) == procedure_names()
    assert printed["ancestors_of"]["arguments"] == "table, [snapshot_id]"


def test_a_procedure_gets_numbers_times_lists_and_booleans(
    icefloe: Command, as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path
) -> None:
    place = ("--warehouse", tmp_path)
    snapshots = [snapshot.snapshot_id for snapshot in lake.load_table("db.t").snapshots()]
    rows = as_json("call", "ancestors_of", "table=db.t", f"snapshot_id={snapshots[1]}", *place)["rows"]
    assert [row["snapshot_id"] for row in rows] == [snapshots[1], snapshots[0]]
    assert icefloe("call", "expire_snapshots", "table=db.t", f"snapshot_ids={snapshots[0]},{snapshots[1]}", *place).exit_code == 0
    assert len(lake.load_table("db.t").snapshots()) == 1
    words = ("table=db.t", "older_than=2100-01-01T00:00", "retain_last=1", "clean_expired_metadata=true")
    assert "deleted_data_files_count" in icefloe("call", "EXPIRE_SNAPSHOTS", *words, *place).stdout


def test_a_procedure_shows_files_that_were_kept_outside_of_the_table(as_json: JsonCommand, lake: SqlCatalog, tmp_path: Path) -> None:
    outside = tmp_path / "imports" / "rows.parquet"
    outside.parent.mkdir()
    pq.write_table(pa.table({"n": pa.array([9], pa.int64())}), outside)
    table = lake.load_table("db.t")
    table.add_files([str(outside)])
    table.overwrite(pa.table({"n": [1]}))
    words = ("table=db.t", "older_than=2100-01-01T00:00", "retain_last=1")
    row = as_json("call", "expire_snapshots", *words, "--warehouse", tmp_path)["rows"][0]
    assert (row["kept_outside_files_count"], row["kept_outside_files"]) == (1, [str(outside)])
    assert outside.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "there is no procedure 'nothing'"),
        (("ancestors_of",), "needs table"),
        (("ancestors_of", "db.t"), "'db.t' is no argument of the procedure"),
        (("ancestors_of", "table=db.t", "table=db.u"), "table is given twice"),
        (("ancestors_of", "name=db.t"), "write NAME=VALUE with one of table, snapshot_id"),
        (("ancestors_of", "table=db.t", "snapshot_id=first"), "'first' is not a value of type long"),
        (("expire_snapshots", "table=db.t", "stream_results=maybe"), "write true or false"),
        (("expire_snapshots", "table=db.t", "older_than=yesterday"), "write a time such as"),
        (("expire_snapshots", "table=db.t", "snapshot_ids=[1"), "write values separated by commas"),
        (("add_files", "table=db.t", "source_table=x", "partition_filter=[1]"), "write an object in JSON"),
    ],
)
def test_a_wrong_argument_is_refused(icefloe: Command, lake: SqlCatalog, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    result = icefloe("call", *words, "--warehouse", tmp_path, "--json")
    assert result.exit_code == 1
    error = json.loads(result.stderr)["error"]
    assert message in f"{error['what']} {error['next_step']}"
