"""Random histories of writes, branches, tags, cherry-picks, rollbacks and rewrites with random expiries: kept snapshots keep their rows, and exactly the files
that no kept snapshot needs are deleted. Rows are compared with a plain model, files with a read of all metadata by fastavro."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.table.reachable import everything, files_of, on_disk

from icefloe import SqlCatalog
from icefloe.errors import CommitInvalidatedError, InvalidInputError
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.metadata_cache import load_metadata
from icefloe.operations.rows.write_context import write_target
from icefloe.operations.staging import write_audit_publish
from icefloe.operations.table_handle import TableHandle
from icefloe.table import Table

MODES = ("copy-on-write", "merge-on-read")
BRANCHES = ("main", "b1", "b2")
NUMBERS = st.lists(st.integers(0, 9), min_size=1, max_size=3)
AGES = st.one_of(st.none(), st.integers(1, 200))


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.now


class Cut(RuleBasedStateMachine):
    """The table, the expected rows of each of its snapshots, and the rows of each append."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rows: dict[int, Counter[int]] = {}
        self.added: dict[int, Counter[int]] = {}

    @initialize(version=st.sampled_from([1, 2, 3]), spec=st.sampled_from([(), ("a",)]), merge=st.sampled_from(["2", "3", "100"]))
    def create(self, version: int, spec: tuple[str, ...], merge: str) -> None:
        catalog = SqlCatalog("lake", uri=f"sqlite:///{self.folder}/catalog.db", warehouse=str(self.folder))
        catalog.create_namespace("db")
        properties = {"format-version": str(version), "commit.manifest.min-count-to-merge": merge, "write.wap.enabled": "true"}
        table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]), partition_spec=spec, properties=properties)
        self.clock = Clock()
        self.clock.now = table.metadata.last_updated_ms + 1
        handle = TableHandle(identifier=table.name(), store=table.handle.store, io=table.io, clock=self.clock)
        self.table = Table(handle, load_metadata(handle))
        Path(table.location(), "data").mkdir(exist_ok=True)
        Path(table.location(), "data", "stranger.parquet").write_bytes(b"not of any snapshot")

    # ---- state of the model ----

    def heads(self) -> list[str]:
        return [name for name, ref in self.table.refs().items() if ref.is_branch] or ["main"]

    def head_rows(self, branch: str) -> Counter[int]:
        ref = self.table.refs().get(branch)
        return Counter() if ref is None else self.rows[ref.snapshot_id]

    def moved(self, branch: str, before: int | None, rows: Counter[int], added: Counter[int] | None = None) -> None:
        head = self.table.refs()[branch].snapshot_id if branch in self.table.refs() else None
        if head is None or head == before:
            assert +rows == self.head_rows(branch)
            return
        self.rows[head] = +rows
        if added is not None:
            self.added[head] = added

    def head(self, branch: str) -> int | None:
        ref = self.table.refs().get(branch)
        return None if ref is None else ref.snapshot_id

    def branch(self, chosen: int) -> str:
        return sorted(self.heads())[chosen % len(self.heads())]

    def snapshot(self, chosen: int) -> int | None:
        ids = [snapshot.snapshot_id for snapshot in self.table.snapshots()]
        return ids[chosen % len(ids)] if ids else None

    # ---- operations ----

    @rule(numbers=NUMBERS, chosen=st.integers(0, 5), wait=st.integers(0, 50))
    def append(self, numbers: list[int], chosen: int, wait: int) -> None:
        self.clock.now += wait
        branch = self.branch(chosen)
        before, rows = self.head(branch), self.head_rows(branch)
        self.table.append(pa.table({"a": numbers}), branch=branch)
        self.moved(branch, before, rows + Counter(numbers), Counter(numbers))

    @rule(number=st.integers(0, 9), chosen=st.integers(0, 5), mode=st.sampled_from(MODES), new=st.one_of(st.none(), NUMBERS))
    def replace(self, number: int, chosen: int, mode: str, new: list[int] | None) -> None:
        branch = self.branch(chosen)
        before, rows = self.head(branch), self.head_rows(branch)
        self.table.set_properties({"write.delete.mode": mode if self.table.format_version > 1 else MODES[0]})
        text = f"a < {number}"
        if new is None:
            self.table.delete(text, branch=branch)
        else:
            self.table.overwrite(pa.table({"a": new}), text, branch=branch)
        kept = Counter({value: count for value, count in rows.items() if value >= number})
        # An overwrite that removed no row is an append, and can be cherry-picked like one.
        self.moved(branch, before, kept + Counter(new or ()), Counter(new) if new and kept == rows else None)

    @rule(chosen=st.integers(0, 5))
    def rewrite(self, chosen: int) -> None:
        """Rewrite the files without deletes into one for each partition."""
        branch = self.branch(chosen)
        before, rows = self.head(branch), self.head_rows(branch)
        clean = [task.file for task in self.table.scan(branch=branch).plan_files() if not task.delete_files] if before else []
        if not clean:
            return
        target = write_target(self.table.handle, self.table.metadata)
        copied = pa.concat_tables([pa.table({"a": pa.parquet.read_table(file.file_path, partitioning=None)["a"]}) for file in clean])
        update = self.table.update_snapshot(branch=branch).rewrite_files().validate_from_snapshot(before or 0)
        for file in clean:
            update.delete_file(file)
        for file in IN_PROCESS.write(copied, target):
            update.add_file(file)
        update.commit()
        self.moved(branch, before, rows)

    @rule(numbers=NUMBERS, pick=st.booleans(), wait=st.integers(0, 50))
    def stage(self, numbers: list[int], pick: bool, wait: int) -> None:
        self.clock.now += wait
        before, rows = self.head("main"), self.head_rows("main")
        known = set(self.rows)
        with write_audit_publish(wap_id=f"w{len(self.rows)}"):
            self.table.append(pa.table({"a": numbers}))
        (made,) = {snapshot.snapshot_id for snapshot in self.table.snapshots()} - known
        self.rows[made], self.added[made] = rows + Counter(numbers), Counter(numbers)
        assert self.head("main") == before
        if pick:
            self.append([5], 0, 1)
            self.cherry_pick(len(self.table.snapshots()) - 2, 0)

    @rule(snapshot=st.integers(0, 50), chosen=st.integers(0, 5))
    def cherry_pick(self, snapshot: int, chosen: int) -> None:
        branch, picked = self.branch(chosen), self.snapshot(snapshot)
        if picked is None or self.head(branch) is None:
            return
        before, rows = self.head(branch), self.head_rows(branch)
        try:
            with self.table.manage_snapshots() as update:
                update.cherry_pick(picked, branch)
        except (InvalidInputError, CommitInvalidatedError):
            return
        if self.head(branch) != picked:  # not fast-forwarded: applied again
            self.moved(branch, before, rows + self.added[picked], self.added[picked])

    @rule(
        name=st.sampled_from(BRANCHES[1:]),
        snapshot=st.integers(0, 50),
        age=AGES,
        count=st.one_of(st.none(), st.integers(1, 4)),
        ref_age=AGES,
    )
    def make_branch(self, name: str, snapshot: int, age: int | None, count: int | None, ref_age: int | None) -> None:
        found = self.snapshot(snapshot)
        if found is not None and name not in self.table.refs():
            with self.table.manage_snapshots() as update:
                update.create_branch(found, name)
                update.set_min_snapshots_to_keep(name, count)
                update.set_max_snapshot_age_ms(name, age)
                update.set_max_ref_age_ms(name, ref_age)

    @rule(name=st.sampled_from(["t1", "t2"]), snapshot=st.integers(0, 50), ref_age=AGES)
    def make_tag(self, name: str, snapshot: int, ref_age: int | None) -> None:
        found = self.snapshot(snapshot)
        if found is not None and name not in self.table.refs():
            with self.table.manage_snapshots() as update:
                update.create_tag(found, name, max_ref_age_ms=ref_age)

    @rule(name=st.sampled_from(["b1", "b2", "t1", "t2"]))
    def remove_ref(self, name: str) -> None:
        ref = self.table.refs().get(name)
        if ref is not None:
            with self.table.manage_snapshots() as update:
                if ref.is_branch:
                    update.remove_branch(name)
                else:
                    update.remove_tag(name)

    @rule(snapshot=st.integers(0, 50), chosen=st.integers(0, 5))
    def roll_back(self, snapshot: int, chosen: int) -> None:
        branch, found = self.branch(chosen), self.snapshot(snapshot)
        if found is not None and self.head(branch) is not None:
            with self.table.manage_snapshots() as update:
                update.set_current_snapshot(found, branch=branch)

    @rule(snapshot=st.integers(0, 50))
    def count(self, snapshot: int) -> None:
        found = self.snapshot(snapshot)
        if found is not None and all(file.snapshot_id != found for file in self.table.statistics_files()):
            self.table.compute_statistics(snapshot_id=found)

    @precondition(lambda self: self.table.format_version < 3)
    @rule()
    def upgrade(self) -> None:
        self.table.upgrade_table_version(self.table.format_version + 1)

    # ---- checks ----

    @rule(
        age=st.one_of(st.none(), st.integers(0, 200)),
        retain=st.one_of(st.none(), st.integers(1, 3)),
        named=st.lists(st.integers(0, 50), max_size=2),
        default_age=AGES,
        transaction=st.booleans(),
        clean=st.booleans(),
    )
    def expire(
        self, age: int | None, retain: int | None, named: list[int], default_age: int | None, transaction: bool, clean: bool
    ) -> None:
        self.clock.now += 20
        self.table.set_properties({"history.expire.max-snapshot-age-ms": str(default_age or 432_000_000)})
        before = on_disk(self.table.location())
        strangers = before - everything(self.table.metadata)
        snapshots = {one.snapshot_id for one in self.table.snapshots()}
        chosen = {found for one in named if (found := self.snapshot(one)) is not None}
        arguments: dict[str, Any] = {
            "older_than": None if age is None else self.clock.now - age,
            "retain_last": retain,
            "snapshot_ids": chosen,
        }
        try:
            if transaction:
                with self.table.transaction() as tx:
                    tx.expire_snapshots(**arguments, clean_expired_metadata=clean)
                (report,) = tx.expire_reports
            else:
                planned = self.table.expire_snapshots(**arguments, clean_expired_metadata=clean, dry_run=True)
                report = self.table.expire_snapshots(**arguments, clean_expired_metadata=clean)
                assert (planned.snapshot_ids, planned.refs) == (report.snapshot_ids, report.refs)
                assert sorted(planned.files["path"].to_pylist()) == sorted(report.files["path"].to_pylist())
        except InvalidInputError as refused:
            if "still referenced" not in str(refused):
                raise
            assert on_disk(self.table.location()) == before
            return
        kept = {one.snapshot_id for one in self.table.snapshots()}
        assert snapshots - kept == set(report.snapshot_ids)
        assert (report.undeleted, report.unreadable) == ((), ())
        assert on_disk(self.table.location()) == everything(self.table.metadata) | strangers
        assert before - on_disk(self.table.location()) == set(report.files["path"].to_pylist())
        for snapshot_id in kept:
            self.check_rows(snapshot_id)

    def check_rows(self, snapshot_id: int) -> None:
        found = self.table.scan(snapshot_id=snapshot_id).to_arrow()["a"].to_pylist()
        assert Counter(found) == self.rows[snapshot_id], snapshot_id

    @invariant()
    def heads_have_their_rows_and_files(self) -> None:
        for name, ref in self.table.refs().items() if hasattr(self, "table") else ():
            assert files_of(self.table.metadata, [ref.snapshot_id]) <= on_disk(self.table.location()), name
        if hasattr(self, "table") and self.table.metadata.current_snapshot_id is not None:
            self.check_rows(self.table.metadata.current_snapshot_id)

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


QUICK = settings(max_examples=3, stateful_step_count=20, suppress_health_check=list(HealthCheck))
THOROUGH = settings(max_examples=120, stateful_step_count=40, suppress_health_check=list(HealthCheck))


class TestCut(Cut.TestCase):  # type: ignore[name-defined,misc]
    settings = QUICK


@pytest.mark.slow
class TestCutThoroughly(Cut.TestCase):  # type: ignore[name-defined,misc]
    settings = THOROUGH
