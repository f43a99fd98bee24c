"""The commands that change branches, tags, properties and versions, and show the graph of commits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Command

from icefloe import SqlCatalog
from icefloe.cli.failure_output import REFUSED
from icefloe.table import Table

JsonCommand = Callable[..., Any]
ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    folder.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "2", "write.wap.enabled": "true"})
    for _ in range(3):
        table.append(ROWS)
    return folder


def loaded(folder: Path) -> Table:
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")


def names(found: Any) -> list[str]:
    return [ref["name"] for ref in found["refs"]]


def test_branches_and_tags_are_created_retained_moved_and_removed(as_json: JsonCommand, icefloe: Command, lake: Path) -> None:
    where = ("--warehouse", lake)
    first, second, third = (snapshot.snapshot_id for snapshot in loaded(lake).snapshots())
    printed = as_json("branch", "create", "db.t", "audit", "--at", first, "--max-ref-age", "7d", "--min-snapshots-to-keep", 3, *where)
    assert names(printed) == ["main", "audit"]
    assert printed["refs"][1] | {"timestamp_ms": 0} == {
        "name": "audit",
        "type": "branch",
        "snapshot_id": first,
        "timestamp_ms": 0,
        "operation": "append",
        "ahead": 0,
        "behind": 2,
        "min_snapshots_to_keep": 3,
        "max_snapshot_age_ms": None,
        "max_ref_age_ms": 604_800_000,
    }
    assert names(as_json("tag", "create", "db.t", "v1", "--at", "audit", "--max-ref-age", "90m", *where)) == ["main", "audit", "v1"]
    assert as_json("branch", "keep", "db.t", "audit", "--max-snapshot-age", "5", *where)["refs"][1]["max_snapshot_age_ms"] == 5
    assert as_json("tag", "keep", "db.t", "v1", "--max-ref-age", "2h", *where)["refs"][2]["max_ref_age_ms"] == 7_200_000
    assert as_json("branch", "fast-forward", "db.t", "audit", second, *where)["refs"][1]["snapshot_id"] == second
    assert as_json("branch", "replace", "db.t", "audit", "v1", *where)["refs"][1]["snapshot_id"] == first
    assert as_json("tag", "replace", "db.t", "v1", third, *where)["refs"][2]["snapshot_id"] == third
    assert names(as_json("branch", "rename", "db.t", "audit", "checked", *where)) == ["main", "checked", "v1"]
    assert names(as_json("tag", "remove", "db.t", "v1", *where)) == ["main", "checked"]
    assert names(as_json("branch", "remove", "db.t", "checked", *where)) == ["main"]
    assert "branches and tags of" in icefloe("branch", "list", "db.t", *where).stdout
    assert names(as_json("tag", "list", "db.t", *where)) == ["main"]


def test_a_branch_is_rolled_back_and_snapshots_are_cherry_picked_and_published(as_json: JsonCommand, lake: Path) -> None:
    where = ("--warehouse", lake)
    table = loaded(lake)
    first, second, _ = (snapshot.snapshot_id for snapshot in table.snapshots())
    assert as_json("rollback", "db.t", second, *where)["refs"][0]["snapshot_id"] == second
    time = table.snapshots()[1].timestamp_ms
    if table.snapshots()[0].timestamp_ms < time:
        assert as_json("rollback", "db.t", "--to-time", time, *where)["refs"][0]["snapshot_id"] == first
    table = loaded(lake)
    table.manage_snapshots().create_branch(first, "side").commit()
    picked = table.append(ROWS, branch="side").snapshot_id
    table.append(ROWS)
    table.append(ROWS, snapshot_properties={"wap.id": "w1"})
    as_json("cherry-pick", "db.t", picked, *where)
    as_json("publish", "db.t", "w1", *where)
    summaries = [snapshot.summary for snapshot in loaded(lake).ancestors()][:2]
    assert summaries[0]["published-wap-id"] == "w1"
    assert summaries[1]["source-snapshot-id"] == str(picked)
    assert as_json("log", "db.t", *where)["commits"][0]["published_wap_id"] == "w1"
    assert len(as_json("log", "db.t", "--graph", *where)["commits"]) == len(loaded(lake).snapshots())
    assert [commit["snapshot_id"] for commit in as_json("log", "db.t", "--ref", "side", *where)["commits"]] == [picked, first]


def test_the_commit_graph_is_drawn_as_text(icefloe: Command, lake: Path) -> None:
    table = loaded(lake)
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "side").commit()
    table.append(ROWS, branch="side")
    text = icefloe("log", "db.t", "--graph", "--warehouse", lake).stdout
    lines = [line for line in text.splitlines() if line.strip().startswith(("*", "|"))]
    assert [line.split("  ")[0].strip() for line in lines] == ["*", "| *", "| *", "|/", "*"]
    assert "side" in lines[0]
    assert "main" in lines[1]


def test_properties_are_set_removed_and_shown_and_a_table_is_upgraded(as_json: JsonCommand, icefloe: Command, lake: Path) -> None:
    where = ("--warehouse", lake)
    printed = as_json("properties", "db.t", "set", "owner=me", "note=a=b", "commit.retry.num-retries=7", *where)["properties"]
    assert (printed["owner"], printed["note"], printed["commit.retry.num-retries"]) == ("me", "a=b", "7")
    assert "note" not in as_json("properties", "db.t", "remove", "note", "none", *where)["properties"]
    assert as_json("properties", "db.t", *where)["properties"]["owner"] == "me"
    assert as_json("upgrade", "db.t", 3, *where)["format_version"] == 3
    assert "owner" in icefloe("properties", "db.t", *where).stdout


REFUSALS = {
    ("branch", "remove", "db.t", "main"): "the branch main cannot be removed",
    ("branch", "create", "db.t", "main"): "there is a branch 'main' already",
    ("branch", "create", "db.t", "x", "--at", "none"): "has no snapshot, branch or tag 'none'",
    ("branch", "create", "db.t", "x", "--max-ref-age", "soon"): "'soon' is not an age",
    ("branch", "create", "db.t", "x", "--max-ref-age", "0d"): "max-ref-age-ms is 0",
    ("branch", "keep", "db.t", "main"): "no retention was given",
    ("tag", "remove", "db.t", "main"): "'main' is a branch, not a tag",
    ("rollback", "db.t"): "rollback takes either a snapshot or a time",
    ("rollback", "db.t", "--to-time", "yesterday"): "'yesterday' is not a time",
    ("rollback", "db.t", "--to-time", "1999-12-31T00:00"): "has no snapshot from before 946598400000 ms",
    ("cherry-pick", "db.t", "main"): "it is in the history of the branch already",
    ("publish", "db.t", "w9"): "no snapshot was staged with the wap id 'w9'",
    ("properties", "db.t", "set"): "'set' with 0 properties is not understood",
    ("properties", "db.t", "give", "a=b"): "'give' with 1 properties is not understood",
    ("properties", "db.t", "set", "a"): "'a' has no value",
    ("properties", "db.t", "set", "a=1", "a=2"): "a is given twice",
    ("properties", "db.t", "set", "commit.retry.num-retries=many"): "which is not a whole number",
    ("upgrade", "db.t", "1"): "1",
    ("branch", "create", "db.none", "x"): "db.none",
}


def test_an_impossible_command_is_refused_with_the_reason_and_an_exit_code(icefloe: Command, lake: Path) -> None:
    before = loaded(lake).metadata_location
    for words, reason in REFUSALS.items():
        done = icefloe(*words, "--warehouse", lake, "--json")
        assert (done.exit_code, done.stdout) == (REFUSED, ""), words
        assert reason in " ".join(done.stderr.split()), words
    for words in (("branch", "create", before, "x"), ("properties", before, "set", "a=b"), ("upgrade", before, "3")):
        done = icefloe(*words)
        assert done.exit_code == REFUSED
        assert "metadata file cannot be" in " ".join(done.stderr.split())
    assert loaded(lake).metadata_location == before
    assert json.loads(icefloe("properties", before, "--json").stdout)["properties"]["write.wap.enabled"] == "true"


def test_distances_that_expired_snapshots_hide_are_unknown(as_json: JsonCommand, icefloe: Command, lake: Path) -> None:
    where = ("--warehouse", lake)
    first, second, third = (snapshot.snapshot_id for snapshot in loaded(lake).snapshots())
    as_json("tag", "create", "db.t", "newest", "--at", third, *where)
    as_json("rollback", "db.t", first, *where)
    assert [(ref["ahead"], ref["behind"]) for ref in as_json("refs", "db.t", *where)["refs"]] == [(0, 0), (2, 0)]
    as_json("expire", "db.t", "--snapshot", second, *where)
    assert [(ref["ahead"], ref["behind"]) for ref in as_json("refs", "db.t", *where)["refs"]] == [(0, 0), (None, None)]
    line = next(line for line in icefloe("refs", "db.t", *where).stdout.splitlines() if line.startswith("newest"))
    assert line.split().count("unknown") == 2
