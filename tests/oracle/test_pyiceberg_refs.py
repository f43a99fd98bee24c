"""Branches and tags of one table in one catalog, made by PyIceberg and by Icefloe: each reads and moves those of the other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe import SqlCatalog
from icefloe.spec.metadata.snapshot_ref import SnapshotRef

pytestmark = pytest.mark.oracle
Run = Callable[..., str]

THEIRS = """
import json, sys
from pyiceberg.catalog.sql import SqlCatalog
table = SqlCatalog("lake", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=sys.argv[1]).load_table("db.t")
first = table.snapshots()[0].snapshot_id
out = {"read": {}, "refs": {}}
for name, ref in table.metadata.refs.items():
    out["refs"][name] = [ref.max_ref_age_ms, ref.max_snapshot_age_ms, ref.min_snapshots_to_keep]
    out["read"][name] = sorted(table.scan(snapshot_id=ref.snapshot_id).to_arrow()["id"].to_pylist())
out["summaries"] = [dict(snapshot.summary.additional_properties) for snapshot in table.snapshots()]
with table.manage_snapshots() as manage:
    manage.create_branch(first, "theirs", max_ref_age_ms=5, max_snapshot_age_ms=6, min_snapshots_to_keep=7)
    manage.create_tag(first, "their-tag", max_ref_age_ms=8)
    manage.remove_tag("gone")
with table.manage_snapshots() as manage:
    manage.rollback_to_snapshot(first)
print(json.dumps(out, default=str))
"""


@pytest.mark.parametrize("version", [1, 2])
def test_each_reads_and_moves_the_other_s_branches_and_tags(tmp_path: Path, pyiceberg: Run, version: int) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    rows = [pa.table({"id": [number]}) for number in range(5)]
    table = catalog.create_table("db.t", rows[0].schema, properties={"format-version": str(version)})
    first = table.append(rows[0]).snapshot_id
    table.append(rows[1])
    table.manage_snapshots().create_branch(first, "ours", 1, 2, 3).create_tag(tag_name="our-tag", max_ref_age_ms=4).create_tag(
        first, "gone"
    ).commit()
    picked = table.append(rows[2], branch="ours").snapshot_id
    table.manage_snapshots().cherry_pick(picked or 0).commit()
    expected = {name: sorted(table.scan().use_ref(name).to_arrow()["id"].to_pylist()) for name in table.refs()}
    found: dict[str, Any] = json.loads(pyiceberg(THEIRS, tmp_path).splitlines()[-1])
    assert found["read"] == expected == {"main": [0, 1, 2], "ours": [0, 2], "our-tag": [0, 1], "gone": [0]}
    assert (found["refs"]["ours"], found["refs"]["our-tag"]) == ([1, 2, 3], [4, None, None])
    assert found["summaries"][-1]["source-snapshot-id"] == str(picked)
    assert all(summary["engine-name"] == "icefloe" for summary in found["summaries"])

    table.refresh()
    assert table.refs()["theirs"] == SnapshotRef(snapshot_id=first or 0, max_ref_age_ms=5, max_snapshot_age_ms=6, min_snapshots_to_keep=7)
    assert table.refs()["their-tag"] == SnapshotRef(snapshot_id=first or 0, type="tag", max_ref_age_ms=8)
    assert "gone" not in table.refs()
    assert table.scan().to_arrow()["id"].to_pylist() == [0]  # PyIceberg rolled back
    table.append(rows[3], branch="theirs")
    table.manage_snapshots().fast_forward("main", "theirs").commit()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 3]
    assert table.refs()["theirs"].min_snapshots_to_keep == 7
