"""`table.maintenance.maintain()`, `CALL system.maintain` and `icefloe maintain`: what is decided, that rows stay, that a second run has nothing to do."""

import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.combinations import combinations
from tests.maintenance.restored_tables import written_once
from tests.maintenance.test_rewrite_data_files import SCHEMA, content, made, other_writer, small_files
from tests.repetitions import examples

from icefloe import SqlCatalog
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    EngineError,
    InvalidInputError,
    InvalidPropertyError,
    NoSuchSnapshotError,
    StorageError,
)
from icefloe.inspect import health
from icefloe.maintenance import maintain as module
from icefloe.maintenance import maintenance_action, rewrite_actions
from icefloe.maintenance.maintenance_report import ActionState, MaintenanceReport
from icefloe.maintenance.rewrite_data_files import DataFileRewrite
from icefloe.operations.available_engines import EngineChoice, choosing_engines
from icefloe.procedures import call
from icefloe.procedures.maintain_catalog import maintain_catalog
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.table.table import Table


@pytest.fixture
def tmp_path(one_folder: Path) -> Path:
    return one_folder


def states(report: MaintenanceReport) -> dict[str, str]:
    return {one.action.value: one.state.value for one in report.actions}


@written_once
def decayed(folder: Path, version: int, spec: tuple[str, ...], seed: int = 1, *, sorts: bool = False) -> Table:
    numbers = random.Random(seed)
    table = made(folder, version, spec, **{"write.delete.mode": "merge-on-read", "write.target-file-size-bytes": "4000000"})
    for step in range(14):
        ids = [numbers.randrange(60) for _ in range(numbers.randrange(3, 12))]
        table.append(pa.table({"id": ids, "kind": [numbers.choice(["a", "b", None]) for _ in ids]}, schema=SCHEMA))
        if version > 1 and step % 3 == 0:
            table.delete(f"id = {numbers.randrange(60)}")
        if version > 1 and step % 4 == 1:
            table.delete_keys(pa.table({"id": [numbers.randrange(60)]}), ["id"])
        if step == 6:
            with table.update_spec() as update:
                update.add_field("id", "truncate[30]")
            if sorts:
                with table.update_sort_order() as update_order:
                    update_order.asc("id")
    if version > 1:
        table.maintenance.rewrite_data_files("id < 30", options={"rewrite-all": True})  # leaves dangling deletes
    table.set_properties({"history.expire.max-snapshot-age-ms": "3600000"})
    return table


@pytest.mark.parametrize(("version", "spec", "sorts"), combinations([1, 2, 3], [(), ("kind",)], [False, True]))
def test_a_second_run_has_nothing_to_do_and_rows_stay(tmp_path: Path, version: int, spec: tuple[str, ...], sorts: bool) -> None:
    table = decayed(tmp_path, version, spec, sorts=sorts)
    before = content(table)
    files = len(table.inspect.data_files())
    planned = table.maintenance.maintain(dry_run=True, min_age_minutes=0)
    assert (content(table), len(table.inspect.data_files()), planned.dry_run) == (before, files, True)
    assert states(planned)["rewrite-data-files"] == "planned"
    report = table.maintenance.maintain(min_age_minutes=0, snapshot_properties={"why": "test"})
    assert not report.has_failures, str(report)
    assert states(report)["rewrite-data-files"] == "done"
    assert content(table) == before == content(other_writer(tmp_path))
    assert len(table.inspect.data_files()) < files
    assert len(table.inspect.delete_files()) == 0
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary["maintenance.action"]
    assert snapshot.summary["why"] == "test"
    again = table.maintenance.maintain(min_age_minutes=0)
    assert again.is_nothing_to_do, str(again)
    assert table.current_snapshot() == snapshot
    assert [one.name for one in health(table).needs_care] == []


@settings(max_examples=examples(5, least=2), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), version=st.sampled_from([2, 3]), share=st.floats(0, 1.1))
def test_a_run_keeps_its_budget_of_bytes(tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, share: float) -> None:
    folder = tmp_path_factory.mktemp("lake")
    table = decayed(folder, version, ("kind",), seed)
    before = content(table)
    whole = table.maintenance.maintain(dry_run=True, min_age_minutes=0)
    budget = int(whole.rewritten_bytes * share)
    replaced = set(table.inspect.data_files()["file_path"].to_pylist())
    sizes = dict(zip(*(table.inspect.data_files()[name].to_pylist() for name in ("file_path", "file_size_in_bytes")), strict=True))
    report = table.maintenance.maintain(max_bytes=budget, min_age_minutes=0)
    gone = replaced - set(table.inspect.data_files()["file_path"].to_pylist())
    assert sum(sizes[path] for path in gone) <= report.rewritten_bytes <= budget
    assert content(table) == before
    assert not report.has_failures
    if share < 0.9:
        assert any(one.left_count for one in report.actions)


def test_partitions_with_young_commits_are_left_to_their_writers(tmp_path: Path) -> None:
    table = made(tmp_path, 2, ("kind",))
    small_files(table, 6)
    report = table.maintenance.maintain()
    assert states(report)["rewrite-data-files"] == "left"
    assert "maintenance.min-age-minutes" in str(report)
    assert len(table.inspect.data_files()) == 12
    table.set_properties({"maintenance.min-age-minutes": "0"})
    assert states(table.maintenance.maintain())["rewrite-data-files"] == "done"


def aged(table: Table, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """Set the clock of the table forward."""
    now = table.handle.clock.now_ms()
    monkeypatch.setattr(type(table.handle.clock), "now_ms", lambda _: now + minutes * 60_000)


def test_only_changed_partitions_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2, ("kind",))
    small_files(table, 6)
    aged(table, monkeypatch, 60)
    table.append(pa.table({"id": [900], "kind": ["a"]}))
    report = table.maintenance.maintain()
    assert states(report)["rewrite-data-files"] == "done"
    kinds = [row["kind"] for row in table.inspect.data_files()["partition"].to_pylist()]
    assert (kinds.count("a"), kinds.count("b")) == (7, 1)


def test_a_partition_that_is_always_written_to_is_maintained_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2)
    small_files(table, 6)
    aged(table, monkeypatch, 25 * 60)
    table.append(pa.table({"id": [900], "kind": ["a"]}))
    assert states(table.maintenance.maintain())["rewrite-data-files"] == "done"
    assert len(table.inspect.data_files()) == 2  # the young file stays
    small_files(table, 6)
    aged(table, monkeypatch, 25 * 60)
    table.delete("id = 3")  # a writer that changes rows may lose to a rewrite
    report = table.maintenance.maintain()
    assert states(report)["rewrite-data-files"] == "left", str(report)


def test_a_failed_action_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = decayed(tmp_path, 2, ("kind",))
    before = content(table)

    def fails(*_: Any, **__: Any) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(DataFileRewrite, "_write", fails)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert report.has_failures
    assert (states(report)["rewrite-data-files"], states(report)["compute-partition-stats"]) == ("failed", "done")
    assert "the disk is full" in str(report)
    assert content(table) == before


def test_nothing_follows_a_commit_of_unknown_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = decayed(tmp_path, 2, ("kind",))

    def unknown(*_: Any, **__: Any) -> None:
        raise CommitUnknownError("the reply was lost")

    monkeypatch.setattr(rewrite_actions, "remove_dangling_deletes", unknown)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert report.actions[-1].action is MaintenanceAction.REMOVE_DANGLING_DELETES
    assert report.actions[-1].state is ActionState.FAILED


def test_an_action_whose_commit_others_overtake_is_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = decayed(tmp_path, 2, ("kind",))

    def overtaken(*_: Any, **__: Any) -> None:
        raise CommitConflictError("others won every retry")

    monkeypatch.setattr(Table, "rewrite_manifests", overtaken)
    monkeypatch.setattr(rewrite_actions, "remove_dangling_deletes", overtaken)
    report = table.maintenance.maintain(min_age_minutes=0)
    found = states(report)
    assert (found["remove-dangling-deletes"], found["compute-partition-stats"]) == ("left", "done"), str(report)
    assert "others won every retry" in str(report)
    monkeypatch.undo()
    assert states(table.maintenance.maintain(min_age_minutes=0))["remove-dangling-deletes"] == "done"


@pytest.mark.parametrize("deletes", [0, 1, 2])
def test_the_plan_counts_the_manifests_that_are_rewritten_of_data_and_of_delete_files(tmp_path: Path, deletes: int) -> None:
    skipped = "convert-equality-deletes, rewrite-data-files, rewrite-position-delete-files"
    table = made(tmp_path, 2, **{"commit.manifest-merge.enabled": "false", "maintenance.skip-actions": skipped})
    small_files(table, 12)
    for number in range(deletes):
        table.delete_keys(pa.table({"id": [number]}), ["id"])
    planned, done = (
        {one.action: one for one in run.actions}
        for run in (table.maintenance.maintain(min_age_minutes=0, dry_run=dry) for dry in (True, False))
    )
    plan, result = planned[MaintenanceAction.REWRITE_MANIFESTS], done[MaintenanceAction.REWRITE_MANIFESTS]
    count, best = (14, 2) if deletes == 2 else (12, 1)
    assert (plan.detail, plan.files) == (f"{count} manifests of spec 0, at best {best}", count)
    assert (result.detail, result.files) == (f"{count} manifests became {best}", count)


def test_old_snapshots_expire_but_not_those_that_readers_may_need(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **{"history.expire.max-snapshot-age-ms": "0", "maintenance.min-snapshot-age-minutes": "60"})
    small_files(table, 4)
    with table.manage_snapshots() as manage:
        manage.create_tag(snapshot_id=table.snapshots()[0].snapshot_id, tag_name="first")
    assert states(table.maintenance.maintain(min_age_minutes=0))["expire-snapshots"] == "nothing to do"
    table.remove_properties("maintenance.min-snapshot-age-minutes")
    table.set_properties({"maintenance.min-snapshots-to-keep": "2"})
    assert states(table.maintenance.maintain(min_age_minutes=0))["expire-snapshots"] == "done"
    assert len(table.snapshots()) == 3  # two of main, and that of the tag
    table.set_properties({"gc.enabled": "false", "maintenance.min-snapshots-to-keep": "1"})
    assert states(table.maintenance.maintain(min_age_minutes=0))["expire-snapshots"] == "left"


def test_properties_are_the_policy(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    table.set_properties({"maintenance.enabled": "false"})
    assert table.maintenance.maintain(min_age_minutes=0).skipped == "maintenance.enabled is false"
    table.set_properties({"maintenance.enabled": "true", "maintenance.skip-actions": "rewrite-data-files, rewrite-manifests"})
    report = table.maintenance.maintain(min_age_minutes=0)
    assert report.is_nothing_to_do
    assert states(report)["rewrite-data-files"] == "left"
    with pytest.raises(InvalidPropertyError) as raised:
        table.set_properties({"maintenance.max-byte": "1"})
    assert "maintenance.max-bytes" in str(raised.value)
    with pytest.raises(InvalidPropertyError):
        table.set_properties({"maintenance.colour": "blue"})
    with pytest.raises(InvalidPropertyError):
        table.set_properties({"maintenance.skip-actions": "everything"})
    with pytest.raises(InvalidInputError):
        table.maintenance.maintain(max_bytes=-1)


def test_statistics_of_columns_are_counted_where_the_policy_requires_them(tmp_path: Path) -> None:
    table = made(tmp_path, **{"maintenance.compute-table-stats": "true"})
    small_files(table, 2)
    assert states(table.maintenance.maintain())["compute-table-stats"] == "done"
    assert states(table.maintenance.maintain())["compute-table-stats"] == "nothing to do"
    table.append(pa.table({"id": [1], "kind": ["a"]}))
    assert states(table.maintenance.maintain())["compute-table-stats"] == "nothing to do"  # a twentieth of the rows
    small_files(table, 1)
    assert states(table.maintenance.maintain())["compute-table-stats"] == "done"


def test_no_work_is_started_after_the_time(tmp_path: Path) -> None:
    table = decayed(tmp_path, 2, ("kind",))
    report = table.maintenance.maintain(max_minutes=0, min_age_minutes=0)
    assert report.is_nothing_to_do
    assert "max-minutes" in str(report)


def test_rows_of_another_writer_are_neither_lost_nor_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = decayed(tmp_path, 2, ("kind",))
    other = other_writer(tmp_path)
    write = DataFileRewrite._write

    def beside(self: DataFileRewrite, *arguments: Any) -> Any:
        written = write(self, *arguments)
        other.refresh()
        other.append(pa.table({"id": [1000], "kind": ["a"]}))
        other.delete("id >= 0 AND id < 20")
        other.delete_keys(pa.table({"id": [25]}), ["id"])
        return written

    monkeypatch.setattr(DataFileRewrite, "_write", beside)
    table.maintenance.maintain(min_age_minutes=0)
    monkeypatch.undo()
    table.refresh()
    ids = [row["id"] for row in table.scan().to_arrow().to_pylist()]
    assert ids.count(1000) >= 1
    assert [one for one in ids if one < 20 or one == 25] == []
    assert content(table) == content(other.refresh())
    table.maintenance.maintain(min_age_minutes=0)
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == sorted(ids)


def lake(folder: Path) -> SqlCatalog:
    small_files(made(folder), 6)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db.inner")
    small_files(catalog.create_table("db.inner.u", SCHEMA), 8)
    return catalog


def test_a_whole_catalog_is_maintained_and_a_broken_table_does_not_stop_it(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    catalog.create_namespace("bad")
    broken = catalog.create_table("bad.t", SCHEMA)
    small_files(broken, 1)
    snapshot = broken.metadata.current_snapshot()
    assert snapshot is not None
    Path(str(snapshot.manifest_list).removeprefix("file://")).unlink()
    arguments = module.MaintenanceArguments(min_age_minutes=0)
    reports = {one.table.removeprefix("lake."): one for one in maintain_catalog(catalog, arguments=arguments)}
    assert set(reports) == {"bad.t", "db.inner.u", "db.t"}
    assert reports["bad.t"].error
    assert states(reports["db.t"])["rewrite-data-files"] == states(reports["db.inner.u"])["rewrite-data-files"] == "done"
    assert all(one.is_nothing_to_do for one in maintain_catalog(catalog, "db", arguments))


def test_a_catalog_spends_its_budget_on_what_pays_most(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    sizes = {name: sum(catalog.load_table(name).inspect.data_files()["file_size_in_bytes"].to_pylist()) for name in ("db.t", "db.inner.u")}
    arguments = module.MaintenanceArguments(min_age_minutes=0, max_bytes=max(sizes.values()))
    reports = {one.table.removeprefix("lake."): one for one in maintain_catalog(catalog, arguments=arguments)}
    assert sum(one.rewritten_bytes for one in reports.values()) <= max(sizes.values())
    assert sorted(states(one)["rewrite-data-files"] for one in reports.values()) == ["done", "left"]


def test_the_procedure_returns_a_row_for_each_action(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    rows = call(catalog, "maintain", table="db.t", plan=True, min_age_minutes=0)
    assert [row["action"] for row in rows] == [str(action) for action in MaintenanceAction]
    assert {row["state"] for row in rows if row["action"] == "rewrite-data-files"} == {"planned"}
    rows = call(catalog, "maintain", namespace="db", min_age_minutes=0)
    assert {(row["table_name"].removeprefix("lake."), row["state"]) for row in rows if row["action"] == "rewrite-data-files"} == {
        ("db.t", "done"),
        ("db.inner.u", "done"),
    }
    with pytest.raises(InvalidInputError):
        call(catalog, "maintain", table="db.t", namespace="db")


def test_deletes_of_others_between_the_plan_and_the_expiry_are_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {
        "write.delete.mode": "merge-on-read",
        "history.expire.max-snapshot-age-ms": "1",
        "history.expire.min-snapshots-to-keep": "1",
    }
    table = made(tmp_path, 2, (), **properties)
    for number in range(8):
        table.append(pa.table({"id": [number * 2, number * 2 + 1], "kind": ["a", "a"]}, schema=SCHEMA))
    rank, deletions = module.within_budget, iter(["id = 3"])

    def rank_and_delete(*arguments: Any) -> Any:
        for deletion in deletions:  # when every action is planned
            other_writer(tmp_path).delete(deletion)
        return rank(*arguments)

    monkeypatch.setattr(module, "within_budget", rank_and_delete)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert (states(report)["expire-snapshots"], states(report)["rewrite-data-files"]) == ("done", "done")
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [number for number in range(16) if number != 3]


def test_a_partition_that_lost_a_file_is_young_after_the_next_commit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2, ("kind",))
    for number in range(6):
        table.append(pa.table({"id": [number], "kind": ["a"]}))  # a manifest for each file
    aged(table, monkeypatch, 60)
    table.delete("id = 0")
    table.append(pa.table({"id": [901], "kind": ["b"]}))  # drops the manifest that has the entry of the deleted file alone
    assert states(table.maintenance.maintain(dry_run=True))["rewrite-data-files"] == "left"
    aged(table, monkeypatch, 60)
    assert states(table.maintenance.maintain(dry_run=True))["rewrite-data-files"] == "planned"


def test_expiry_keeps_the_snapshots_by_which_partitions_are_young(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2, **{"history.expire.max-snapshot-age-ms": "1", "history.expire.min-snapshots-to-keep": "1"})
    small_files(table, 6)
    for _ in range(2):
        table.set_properties({"comment": "time passes"})
        report = states(table.maintenance.maintain())
        assert (report["expire-snapshots"], report["rewrite-data-files"]) == ("nothing to do", "left")
    aged(table, monkeypatch, 60)
    report = states(table.maintenance.maintain())
    assert (report["expire-snapshots"], report["rewrite-data-files"]) == ("done", "done")


@pytest.mark.parametrize(("error", "after"), [(OSError("no space left"), True), (CommitUnknownError("the reply was lost"), False)])
def test_a_failure_in_a_later_commit_keeps_the_report_of_those_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, after: bool
) -> None:
    table = made(tmp_path, 2, ("kind",))
    for _ in range(6):
        table.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "c"]}))
    monkeypatch.setattr(maintenance_action, "SLICE_BYTES", 1)
    commit, calls = DataFileRewrite._commit_together, []

    def second_fails(self: DataFileRewrite, *arguments: Any) -> None:
        calls.append(self)
        if len(calls) == 2:
            raise error
        commit(self, *arguments)

    monkeypatch.setattr(DataFileRewrite, "_commit_together", second_fails)
    report = table.maintenance.maintain(min_age_minutes=0)
    one = next(one for one in report.actions if one.action is MaintenanceAction.REWRITE_DATA_FILES)
    assert (one.state, one.files, len(one.snapshot_ids)) == (ActionState.FAILED, 12 if after else 6, 2 if after else 1)
    assert str(error) in one.detail
    # Nothing follows a commit of unknown state: neither the last group nor another action.
    assert (len(calls), report.actions[-1] is one, one.left_count) == ((3, False, 0) if after else (2, True, 1))


def test_a_group_that_lost_to_a_writer_is_left_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, 2, ("kind",), **{"write.delete.mode": "merge-on-read"})
    small_files(table, 6)
    write, calls = DataFileRewrite._write, []

    def beside(self: DataFileRewrite, *arguments: Any) -> Any:
        written = write(self, *arguments)
        if not calls:
            calls.append(self)
            other_writer(tmp_path).delete("id = 2")
        return written

    monkeypatch.setattr(DataFileRewrite, "_write", beside)
    report = table.maintenance.maintain(min_age_minutes=0)
    one = next(one for one in report.actions if one.action is MaintenanceAction.REWRITE_DATA_FILES)
    assert not report.has_failures, str(report)
    assert "left for the next run" in str(report)
    assert one.left_count == 1
    again = table.maintenance.maintain(min_age_minutes=0)
    assert (states(again)["rewrite-data-files"], again.has_failures) == ("done", False)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [number for number in range(60) if number != 2]


def test_a_tag_a_branch_that_does_not_exist_and_an_unknown_engine_are_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(NoSuchSnapshotError):
        table.maintenance.maintain(branch="nope", dry_run=True)  # a table without snapshots
    small_files(table, 1)
    with table.manage_snapshots() as manage:
        manage.create_tag(snapshot_id=table.snapshots()[0].snapshot_id, tag_name="old")
    for dry_run in (True, False):
        with pytest.raises(InvalidInputError, match="is a tag"):
            table.maintenance.maintain(branch="old", dry_run=dry_run)
        with pytest.raises(EngineError, match="'duckdb'"):
            table.maintenance.maintain(engine="duckdb", dry_run=dry_run)


def test_one_wide_file_among_sorted_ones_is_left(tmp_path: Path) -> None:
    table = made(tmp_path, 2, **{"write.target-file-size-bytes": "3000"})
    with table.update_sort_order() as update:
        update.asc("id")
    for number in range(8):
        table.append(pa.table({"id": list(range(number * 1000, number * 1000 + 1000)), "kind": ["a"] * 1000}))
    wide = pa.table({"id": list(range(0, 8000, 8)), "kind": ["a"] * 1000})
    table.append(wide)
    first = table.maintenance.rewrite_data_files(strategy="sort")
    assert (first.snapshot_ids, dict(first.reasons)) == ((), {})
    assert [one.deep_files for one in health(table).clustering if one.is_sort_key] == [0]
    table.append(wide)
    assert [one.deep_files for one in health(table).clustering if one.is_sort_key] == [2]
    assert table.maintenance.rewrite_data_files(strategy="sort").rewritten_files == 2
    assert table.maintenance.rewrite_data_files(strategy="sort").snapshot_ids == ()


def test_the_reason_names_the_engine_that_a_large_sort_lacks(tmp_path: Path) -> None:
    table = made(tmp_path)
    with table.update_sort_order() as update:
        update.asc("id")
    small_files(table, 6)
    with choosing_engines(EngineChoice(bytes_to_start=1)):
        report = table.maintenance.maintain(dry_run=True, min_age_minutes=0, engine="in-process")
    assert "the engine in-process was chosen" in str(report)


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_two_runs_at_once_lose_no_row_and_neither_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    table = decayed(tmp_path, version, ("kind",))
    before, write, others = content(table), DataFileRewrite._write, []

    def beside(self: DataFileRewrite, *arguments: Any) -> Any:
        written = write(self, *arguments)
        if not others:
            others.append(None)
            others.append(other_writer(tmp_path).maintenance.maintain(min_age_minutes=0))
        return written

    monkeypatch.setattr(DataFileRewrite, "_write", beside)
    report = table.maintenance.maintain(min_age_minutes=0)
    assert (others[1].has_failures, report.has_failures) == (False, False), f"{others[1]}\n{report}"
    assert states(others[1])["rewrite-data-files"] == "done"
    assert "left for the next run" in str(report)
    assert content(table.refresh()) == before
    last = table.maintenance.maintain(min_age_minutes=0)
    assert (last.has_failures, content(table)) == (False, before)
    assert table.maintenance.maintain(min_age_minutes=0).is_nothing_to_do


def test_a_budget_below_two_files_is_named_as_the_reason(tmp_path: Path) -> None:
    table = made(tmp_path)
    small_files(table, 6)
    report = table.maintenance.maintain(dry_run=True, min_age_minutes=0, max_bytes=1000)
    assert states(report)["rewrite-data-files"] == "left"
    assert "max-bytes" in str(next(one for one in report.actions if one.action is MaintenanceAction.REWRITE_DATA_FILES).left)


ORPHANS = "remove-orphan-files"


def orphan(table: Table, name: str = "left.parquet") -> Path:
    """Write a file of four days ago that nothing references."""
    path = Path(table.location().removeprefix("file://")) / "data" / name
    path.write_bytes(b"PAR1")
    os.utime(path, (time.time() - 4 * 86_400,) * 2)
    return path


def lists_of(table: Table) -> list[Path]:
    return sorted(Path(table.location().removeprefix("file://")).glob("metadata/_orphan-files-*"))


def test_orphan_files_are_listed_only_on_request_and_deleted_seven_days_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    small_files(table, 1)
    before, first = content(table), orphan(table)
    assert states(table.maintenance.maintain(min_age_minutes=0))[ORPHANS] == "nothing to do"
    assert states(table.maintenance.maintain(min_age_minutes=0, remove_orphan_files=True, dry_run=True))[ORPHANS] == "planned"
    assert lists_of(table) == []
    table.set_properties({"maintenance.remove-orphan-files": "true"})
    assert states(table.maintenance.maintain(remove_orphan_files=False))[ORPHANS] == "nothing to do"
    report = table.maintenance.maintain()
    assert (states(report)[ORPHANS], "1 orphan file" in str(report), len(lists_of(table)), first.exists()) == ("done", True, 1, True)
    again = table.maintenance.maintain()
    assert (states(again)[ORPHANS], again.is_nothing_to_do, len(lists_of(table))) == ("left", True, 1)
    assert "once it is 7 days old" in str(again)
    aged(table, monkeypatch, 6 * 1440)
    assert table.maintenance.maintain().is_nothing_to_do
    assert first.exists()
    aged(table, monkeypatch, 2 * 1440)
    (listed,) = lists_of(table)
    report = table.maintenance.maintain()
    assert (states(report)[ORPHANS], first.exists(), "1 listed file deleted" in str(report)) == ("done", False, True)
    assert listed not in lists_of(table)
    assert len(lists_of(table)) == 1  # of the next search, which found nothing
    assert content(table) == before


def test_a_listed_file_that_is_referenced_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path)
    small_files(table, 1)
    path = Path(table.location().removeprefix("file://")) / "data" / "added.parquet"
    pq.write_table(pa.table({"id": [900], "kind": ["a"]}, schema=SCHEMA), path)
    os.utime(path, (time.time() - 4 * 86_400,) * 2)
    table.maintenance.maintain(remove_orphan_files=True)
    table.add_files([str(path)])
    aged(table, monkeypatch, 8 * 1440)
    report = table.maintenance.maintain(remove_orphan_files=True, min_age_minutes=0)
    assert (states(report)[ORPHANS], "0 listed files deleted" in str(report)) == ("done", True)
    assert 900 in table.scan().to_arrow()["id"].to_pylist()


def test_orphan_files_of_a_table_that_shares_its_files_are_left(tmp_path: Path) -> None:
    table = made(tmp_path, 2, (), **{"gc.enabled": "false", "maintenance.remove-orphan-files": "true"})
    small_files(table, 1)
    orphan(table)
    report = table.maintenance.maintain()
    assert (states(report)[ORPHANS], "gc.enabled is false" in str(report), lists_of(table)) == ("left", True, [])


def test_no_orphan_file_is_searched_after_a_commit_of_unknown_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = decayed(tmp_path, 2, ("kind",))

    def unknown(*_: Any, **__: Any) -> None:
        raise CommitUnknownError("the reply was lost")

    monkeypatch.setattr(rewrite_actions, "remove_dangling_deletes", unknown)
    report = table.maintenance.maintain(min_age_minutes=0, remove_orphan_files=True)
    assert ORPHANS not in states(report)
    assert lists_of(table) == []
