"""Plans whose manifests are read and pruned in other processes equal those of this process: any filter, several specs, deletes of every kind."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples
from tests.spark.merge_on_read import delete_keys_everywhere, delete_positions

from icefloe import SqlCatalog
from icefloe.io.manifest_cache import clear_manifest_caches
from icefloe.operations import data_scan, parallel_requests
from icefloe.scan.scan_plan import ScanPlan
from icefloe.table import Table

# All tests of this file run in one process of xdist, which makes the table once.
pytestmark = pytest.mark.xdist_group("planning elsewhere")
cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def elsewhere(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """Work like `map` without shared state: function, items and results are pickled."""
    packed = cloudpickle.dumps(function)
    for item in items:
        yield pickle.loads(pickle.dumps(pickle.loads(packed)(pickle.loads(pickle.dumps(item))), protocol=5))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    folder: Path = tmp_path_factory.mktemp("planned")
    lake = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    lake.create_namespace("db")
    settings_ = {"commit.manifest-merge.enabled": "false", "format-version": "2", "write.delete.mode": "merge-on-read"}
    made = lake.create_table("db.t", _rows(0).schema, partition_spec=["kind"], properties=settings_)
    for number in range(4):
        made.append(_rows(number))
    with made.update_spec() as update:
        update.add_field("id", "bucket[3]", "id_bucket")
    for number in range(4, 8):
        made.append(_rows(number))
    files = [task.file for task in made.scan().plan_files()]
    delete_positions(made, {file.file_path: [0] for file in files[::3]})
    delete_keys_everywhere(made, pa.table({"id": pa.array([5, 41], pa.int64())}), ["id"])
    made.delete("id = 63")
    return lake.load_table("db.t")


def _rows(number: int) -> pa.Table:
    ids = range(number * 10, number * 10 + 10)
    kinds = [None if row % 7 == 0 else "abc"[row % 3] for row in ids]
    values = [None if row % 5 == 0 else float("nan") if row % 11 == 0 else row / 4 for row in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "kind": kinds, "v": values})


LEAVES = st.one_of(
    st.builds("id {} {}".format, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(-5, 90)),
    st.builds("kind {} '{}'".format, st.sampled_from(["=", "!=", "<"]), st.sampled_from("abd")),
    st.builds("v {} {}".format, st.sampled_from(["<", ">", "="]), st.sampled_from([0, 2.5, 19, 100])),
    st.sampled_from(["kind IS NULL", "v IS NOT NULL", "id IN (3, 44, 77)", "kind LIKE 'a%'"]),
)
FILTERS = st.recursive(LEAVES, lambda inner: st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner), max_leaves=4)


@given(text=FILTERS | st.just("TRUE"), covered=st.booleans(), statistics=st.booleans())
@settings(max_examples=examples(60))
def test_a_plan_does_not_depend_on_the_process_that_reads_the_manifests(table: Table, text: str, covered: bool, statistics: bool) -> None:
    scan = table.scan(text)
    here = scan.plan(find_covered=covered, include_statistics=statistics)
    there = scan.plan(find_covered=covered, include_statistics=statistics, parallel=elsewhere, prune_in_parallel=True)
    assert list(there.tasks()) == list(here.tasks())
    assert _counts(there) == _counts(here)
    assert there.delete_files == here.delete_files


def _counts(plan: ScanPlan) -> str:
    return repr(replace(plan, parts=(), delete_files=()))


def test_other_processes_return_only_files_that_may_match(table: Table) -> None:
    carried: list[int] = []

    def counting(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for answer in elsewhere(function, items):
            carried.append(len(pickle.dumps(answer)))
            yield answer

    one = table.scan("id = 12 AND kind = 'a'").plan(parallel=counting, prune_in_parallel=True)
    few, carried[:] = sum(carried), []
    table.scan("id >= 0").plan(parallel=counting, prune_in_parallel=True)
    assert one.files_kept == 1
    assert few < sum(carried)


def test_no_thread_starts_for_few_small_local_manifests(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = table.scan("id > 5").plan()
    threads: list[object] = []

    def counted(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        threads.append(function)
        return map(function, items)

    monkeypatch.setattr(data_scan, "in_threads", counted)
    assert plan.delete_files
    assert list(table.scan("id > 5").plan().tasks()) == list(plan.tasks())
    assert not threads
    # One byte less than the manifests have, and threads read them; a planner that is chosen by the caller always does.
    clear_manifest_caches()
    monkeypatch.setattr(parallel_requests, "SERIAL_BYTES", plan.manifest_bytes_read)
    assert list(table.scan("id > 5").plan().tasks()) == list(plan.tasks())
    assert not threads
    clear_manifest_caches()
    monkeypatch.setattr(parallel_requests, "SERIAL_BYTES", plan.manifest_bytes_read - 1)
    assert list(table.scan("id > 5").plan().tasks()) == list(plan.tasks())
    assert threads
    threads.clear()
    table.scan("id > 5").plan(parallel=counted)
    assert threads
