"""The totals of every snapshot equal a recount of its files by other readers, after every operation; conflicts do not depend on merged manifests."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.combinations import combinations
from tests.reference_reader import Recount, ReferenceReader
from tests.table.test_commit_loop import faulty

from icefloe import SqlCatalog
from icefloe.errors import CommitConflictError, CommitInvalidatedError, InvalidInputError
from icefloe.operations.metadata_cache import load_metadata
from icefloe.table import Table
from icefloe.testing.fault_injection import Faults

SCHEMA = pa.schema([("n", pa.int64()), ("part", pa.string())])
KINDS = ("append", "replace partitions", "stage an append", "stage a replacement", "publish", "delete", "expire")


def rows(number: int, part: str) -> pa.Table:
    return pa.table({"n": pa.array([number, number + 1], pa.int64()), "part": [part] * 2}, schema=SCHEMA)


def make(folder: Path | str, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    quick = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "2", "write.wap.enabled": "true"}
    return catalog.create_table("db.t", SCHEMA, partition_spec=["part"], properties={**quick, **properties})


def apply(table: Table, kind: str, part: str, number: int, staged: list[str]) -> None:
    if kind == "append":
        table.append(rows(number, part))
    elif kind == "replace partitions":
        table.dynamic_partition_overwrite(rows(number, part))
    elif kind == "delete":
        table.delete(f"part = '{part}' and n in (0, 10, 20, 30, 40, 50, 60)" if number % 3 else f"part = '{part}'")
    elif kind.startswith("stage"):
        staged.append(f"w{number}")
        write = table.append if kind == "stage an append" else table.dynamic_partition_overwrite
        write(rows(number, part), {"wap.id": staged[-1]})
    elif kind == "publish" and staged:
        # A replacement cannot be published after a write to its partition.
        with suppress(CommitConflictError, CommitInvalidatedError, InvalidInputError):
            table.manage_snapshots().publish_changes(staged.pop(0)).commit()
    elif kind == "expire":
        staged.clear()
        table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1)


def problems(table: Table) -> list[str]:
    """Return the faults of all snapshot summaries; added and removed files are recounted for snapshots whose parent still exists."""
    document = json.loads(table.io.read(table.metadata_location))
    reader, found = ReferenceReader(table.io), []
    known = {snapshot["snapshot-id"]: snapshot for snapshot in document["snapshots"]}
    for snapshot in known.values():
        parent = known.get(snapshot.get("parent-snapshot-id"))
        files = reader.live_files(document, snapshot)
        recount = Recount(files=files, before=reader.live_files(document, parent) if parent else ())
        is_whole = parent is not None or "parent-snapshot-id" not in snapshot
        faults = [one for one in recount.problems(snapshot["summary"]) if is_whole or one.startswith("total-")]
        found += [f"{snapshot['summary']['operation']}: {one}" for one in faults]
    return found


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("ab")), min_size=3, max_size=8),
    st.sampled_from([("1", "copy-on-write"), *product("23", ["copy-on-write", "merge-on-read"])]),  # version 1 has no delete files
    st.sampled_from(["1", "2", "100"]),
)
@settings(max_examples=5)
def test_totals_equal_a_recount_after_every_operation(operations: list[tuple[str, str]], form: tuple[str, str], merged_at: str) -> None:
    version, mode = form
    with TemporaryDirectory() as folder:
        table = make(folder, **{"format-version": version, "commit.manifest.min-count-to-merge": merged_at, "write.delete.mode": mode})
        staged: list[str] = []
        for number, (kind, part) in enumerate([("append", "a"), ("append", "b"), *operations]):
            apply(table, kind, part, number * 10, staged)
            assert problems(table.refresh()) == []


def test_totals_are_right_after_a_published_replacement_and_an_expiry(tmp_path: Path) -> None:
    table, staged = make(tmp_path), list[str]()
    steps = ["append", "stage an append", "stage a replacement", "publish", "publish", "replace partitions", "expire", "append"]
    for number, kind in enumerate(steps):
        apply(table, kind, "ab"[number % 2], number * 10, staged)
        assert problems(table.refresh()) == []
    snapshots = table.snapshots()
    assert "expire" in steps
    assert len(snapshots) == 2
    assert {int(snapshot.summary["total-records"]) for snapshot in snapshots} == {
        table.scan(snapshot_id=snapshot.snapshot_id).count() for snapshot in snapshots
    }


def replace_part_a(table: Table) -> None:
    """Replace partition `a`; files of another writer in it are a conflict."""
    update = table.update_snapshot().overwrite().overwrite_by_row_filter("part = 'a'")
    update.validate_from_snapshot(table.current_snapshot().snapshot_id)  # type: ignore[union-attr]
    update.conflict_detection_filter("part = 'a'").validate_no_conflicting_data().commit()


WRITES: dict[str, Callable[[Table], object]] = {
    "delete": lambda table: table.delete("part = 'a' and n = 0"),
    "overwrite": lambda table: table.overwrite(rows(70, "a"), "part = 'a'"),
    "replace files": replace_part_a,
}


@pytest.mark.parametrize(("part", "mode"), combinations(["a", "b"], ["merge-on-read", "copy-on-write"]))
@pytest.mark.parametrize("kind", WRITES)
def test_files_of_a_concurrent_commit_conflict_whether_or_not_it_merged_the_planned_manifests(
    tmp_path: Path, kind: str, part: str, mode: str
) -> None:
    outcomes = []
    for merged_at in ("2", "100"):
        folder = tmp_path / merged_at
        folder.mkdir()
        modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
        table = make(folder, **{"format-version": "2", "commit.manifest.min-count-to-merge": merged_at, **modes})
        for number in range(3):
            table.append(rows(number * 10, "ab"[number % 2]))
        other, faults = Table(table.handle, load_metadata(table.handle)), Faults()
        this_writer = faulty(table, faults)
        planned = manifests(this_writer)
        manifest_sets: list[set[str]] = []
        faults.order("commit", meanwhile=partial(append_concurrently, other, part, manifest_sets))
        try:
            WRITES[kind](this_writer)
            outcome = "committed"
        except (CommitConflictError, CommitInvalidatedError) as error:
            outcome = type(error).__name__
        assert len(manifest_sets) == 1, "the winner came between the plan and the commit"
        assert bool(planned & manifest_sets[0]) is (merged_at == "100"), "it merged the manifests that were planned on, or kept them"
        assert problems(table.refresh()) == []
        outcomes.append((outcome, sorted(map(str, table.scan().to_arrow().to_pylist()))))
    assert outcomes[0] == outcomes[1]
    conflicts = outcomes[0][0] != "committed"
    assert conflicts is (kind == "replace files" and part == "a"), "the other writes look at the winner's files, and hold"


def append_concurrently(table: Table, part: str, manifest_sets: list[set[str]]) -> None:
    """Append as another writer, and record the manifests after it."""
    table.append(rows(50, part))
    manifest_sets.append(manifests(table))


def manifests(table: Table) -> set[str]:
    snapshot = table.current_snapshot()
    return set() if snapshot is None else {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
