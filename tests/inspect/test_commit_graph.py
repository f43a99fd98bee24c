"""The graph of commits: lanes connect every commit with its parent for any history; the text beside it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import icefloe.inspect as look
from icefloe import SqlCatalog
from icefloe.inspect.branches_and_tags import duration_text
from icefloe.inspect.graph_layout import column, draw, newest_first
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField


@st.composite
def forests(drawn: st.DrawFn) -> dict[int, int | None]:
    """Commits with a parent among those before them, none, or one that is gone."""
    parents: dict[int, int | None] = {}
    for commit in range(drawn(st.integers(0, 14))):
        parents[commit] = drawn(st.sampled_from([None, -1, *range(commit), *range(max(0, commit - 3), commit)]))
    return parents


def followed(lines: list[str], row: int, place: int) -> int | None:
    """The row of the next commit on the line that leads down from a commit; None where it ends. Reads the drawing and nothing else."""
    while row + 1 < len(lines):
        below = lines[row + 1]
        if place < len(below) and below[place] in "|*":
            row += 1
        elif place and place - 1 < len(below) and below[place - 1] == "/":
            row, place = row + 1, place - 2
            while place and below[place - 1] == "_":
                place -= 2
        else:
            return None
        if lines[row][place : place + 1] == "*":
            return row
    return None


@given(forests())
def test_every_line_leads_from_a_commit_to_its_parent(parents: Mapping[int, int | None]) -> None:
    order = newest_first(parents, {commit: commit for commit in parents})
    assert sorted(order) == sorted(parents)
    assert all(order.index(commit) < order.index(parent) for commit, parent in parents.items() if parent in parents)
    drawing = draw(order, parents)
    lines = column(drawing)
    rows = [row for row, line in enumerate(lines) if "*" in line]
    assert len(rows) == len(order)
    for commit, row in zip(order, rows, strict=True):
        parent = parents[commit]
        if parent in parents:
            assert followed(lines, row, lines[row].index("*")) == rows[order.index(parent)]


def test_branches_and_a_lane_that_crosses_another_are_drawn_as_git_draws_them() -> None:
    assert column(draw([6, 5, 4, 3, 2, 1], {1: None, 2: 1, 3: 2, 4: 1, 5: 4, 6: 3})) == ["*", "| *", "| *", "* |", "* |", "|/", "*"]
    assert column(draw([5, 4, 3, 2, 1], {1: None, 2: 1, 3: 1, 4: 2, 5: 1})) == ["*", "| *", "| | *", "|_|/", "| *", "|/", "*"]
    assert column(draw([2, 1], {1: None, 2: None})) == ["*", "", "*"]


def test_the_log_names_branches_tags_staged_and_picked_snapshots(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    rows = pa.table({"id": [1, 2]})
    table = catalog.create_table("db.t", rows.schema, properties={"write.wap.enabled": "true"})
    assert look.log(table).commits == ()
    table.append(rows)
    table.manage_snapshots().create_branch(branch_name="side", max_ref_age_ms=7 * 86_400_000).create_tag(tag_name="v1").commit()
    picked = table.append(rows, branch="side").snapshot_id
    table.append(rows, snapshot_properties={"wap.id": "w1"})
    gone = table.append(rows).snapshot_id
    table.manage_snapshots().rollback_to_snapshot("v1").cherry_pick(picked or 0).commit()
    table.append(rows)
    graph = look.log(table, graph=True)
    assert len(graph.commits) == 5
    by_id = {commit.snapshot_id: commit for commit in graph.commits}
    assert by_id[picked or 0].branches == ("side",)
    assert [commit.is_staged for commit in graph.commits].count(True) == 1
    assert not by_id[gone or 0].is_reachable
    text = str(graph)
    for words in ("side", "tag v1", "staged as w1", "on no branch", "append", "|/"):
        assert words in text
    assert [commit.snapshot_id for commit in look.log(table).commits] == [snapshot.snapshot_id for snapshot in table.ancestors()]
    assert [commit.snapshot_id for commit in look.log(table, "side").commits] == [
        snapshot.snapshot_id for snapshot in table.ancestors("side")
    ]
    refs = look.refs(table)
    assert [(ref.name, ref.ahead, ref.behind) for ref in refs.refs] == [("main", 0, 0), ("side", 0, 1), ("v1", 0, 2)]
    assert "the branch 7d" in str(refs)


@given(st.lists(st.integers(-4, 30), min_size=1, max_size=12), st.lists(st.integers(1, 12), min_size=1, max_size=5))
def test_the_distance_of_branches_from_main_is_that_of_their_sets_of_ancestors(parents: list[int], heads: list[int]) -> None:
    # A parent above 0 is an earlier snapshot or none; one below 0 is expired.
    snapshots = [
        Snapshot(snapshot_id=number, parent_snapshot_id=(parent % number if parent > 0 else parent) or None, timestamp_ms=number)
        for number, parent in enumerate(parents, start=1)
    ]
    refs = {name: SnapshotRef(snapshot_id=1 + head % len(snapshots)) for name, head in zip(("main", *"abcd"), heads, strict=False)}
    base = new_table_metadata(location="memory://t", schema=Schema(NestedField(1, "a", LongType())), table_uuid="u", now_ms=0)
    metadata = replace(base, snapshots=snapshots, refs=refs, current_snapshot_id=refs["main"].snapshot_id)  # type: ignore[arg-type]

    def distance(name: str) -> tuple[int | None, int | None]:
        lines = [list(ancestors(metadata, refs[one].snapshot_id)) for one in (name, "main")]
        ids, of_main = ({snapshot.snapshot_id for snapshot in line} for line in lines)
        is_cut = any(line[-1].parent_snapshot_id is not None for line in lines)
        return (None, None) if is_cut and ids.isdisjoint(of_main) else (len(ids - of_main), len(of_main - ids))

    found = look.refs(cast("TableReader", SimpleNamespace(metadata=metadata, full_name="t"))).refs
    assert {ref.name: (ref.ahead, ref.behind) for ref in found} == {name: distance(name) for name in refs}


def test_the_history_of_100_branches_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    for _ in range(10):
        table.append(pa.table({"id": [1]}))
    branches = table.manage_snapshots()
    for number in range(100):
        branches = branches.create_branch(branch_name=f"b{number}")
    branches.commit()
    reads: list[int] = []
    snapshot_by_id = TableMetadata.snapshot_by_id

    def counted(self: TableMetadata, snapshot_id: int) -> Snapshot | None:
        reads.append(snapshot_id)
        return snapshot_by_id(self, snapshot_id)

    monkeypatch.setattr(TableMetadata, "snapshot_by_id", counted)
    assert {(ref.ahead, ref.behind) for ref in look.refs(table).refs} == {(0, 0)}
    assert len(look.log(table).commits[0].branches) == 101
    assert len(reads) < 300


def test_ages_are_in_the_largest_unit_that_gives_a_whole_number() -> None:
    assert [duration_text(age) for age in (86_400_000, 3_600_000, 90 * 60_000, 1_000, 1_001)] == ["1d", "1h", "90m", "1s", "1,001ms"]
