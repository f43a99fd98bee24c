"""Scans that the server plans: the same files as a local plan, in pages, at once or later."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.server.conftest import Served, serve

from icefloe.catalog import load_catalog
from icefloe.server.planned_scans import PlanIds
from icefloe.server.server_settings import ServerLimits

PLAN = "/namespaces/db/tables/t/plan"
TASKS = "/namespaces/db/tables/t/tasks"


def rows(*ids: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("day", pa.int32()), pa.field("name", pa.string())])
    return pa.table({"id": list(ids), "day": [number // 10 for number in ids], "name": [f"n{number}" for number in ids]}, schema)


def filled(served: Served) -> Served:
    served.create(**{"partition-spec": {"fields": [{"source-id": 2, "transform": "identity", "name": "day"}]}})
    table = served.catalog.load_table("db.t")
    for first in (0, 10, 20, 30, 40):
        table.append(rows(*range(first, first + 10)))
    return served


@pytest.fixture
def planned(served: Served) -> Served:
    return filled(served)


@pytest.fixture
def later(warehouse: Any) -> Iterator[Served]:
    """A server whose clients do not wait for a plan, and get two files in a response."""
    catalog = load_catalog("lake", warehouse=str(warehouse))
    limits = ServerLimits(requests_per_second=0, plan_wait_s=0, files_of_page=2)
    yield filled(Served(catalog, serve(catalog, limits=limits), warehouse))
    catalog.close()


def paths(answer: Any) -> list[str]:
    return [task["data-file"]["file-path"] for task in answer.get("file-scan-tasks", [])]


def local(served: Served, row_filter: str) -> list[str]:
    return sorted(task.file.file_path for task in served.catalog.load_table("db.t").scan(row_filter).plan_files())


def result(served: Served, plan_id: str) -> Any:
    while True:
        answer = served.ask("GET", f"{PLAN}/{plan_id}")
        if answer["status"] != "submitted":
            return answer


FILTERS = [
    ("day = 2", {"type": "eq", "term": "day", "value": 2}),
    ("id > 25", {"type": "gt", "term": "id", "value": 25}),
    ("name = 'n41'", {"type": "eq", "term": "name", "value": "n41"}),
    ("day in (1, 3)", {"type": "in", "term": "day", "values": [1, 3]}),
    (
        "id < 12 and day > 0",
        {"type": "and", "left": {"type": "lt", "term": "id", "value": 12}, "right": {"type": "gt", "term": "day", "value": 0}},
    ),
    ("id is null", {"type": "is-null", "term": "id"}),
]


@pytest.mark.parametrize(("text", "body"), FILTERS)
def test_the_server_plans_the_files_of_a_local_plan(planned: Served, text: str, body: Any) -> None:
    answer = planned.ask("POST", PLAN, {"filter": body})
    assert answer["status"] == "completed"
    assert sorted(paths(answer)) == local(planned, text)


def test_a_scan_without_a_body_is_of_all_rows(planned: Served) -> None:
    assert sorted(paths(planned.ask("POST", PLAN))) == local(planned, "true")


def test_a_file_is_described_with_its_partition_and_the_requested_statistics(planned: Served) -> None:
    (task,) = planned.ask("POST", PLAN, {"filter": {"type": "eq", "term": "id", "value": 25}, "stats-fields": ["id"]})["file-scan-tasks"]
    file = task["data-file"]
    assert (file["content"], file["file-format"], file["partition"], file["record-count"]) == ("data", "parquet", [2], 10)
    assert file["lower-bounds"] == {"keys": [1], "values": ["1400000000000000"]}
    assert file["value-counts"] == {"keys": [1], "values": [10]}
    assert task["residual-filter"] == {"type": "eq", "term": "id", "value": 25}
    (without,) = planned.ask("POST", PLAN, {"filter": {"type": "eq", "term": "id", "value": 25}})["file-scan-tasks"]
    assert "lower-bounds" not in without["data-file"]


def test_delete_files_are_sent_once_with_the_files_that_they_apply_to(planned: Served) -> None:
    table = planned.catalog.load_table("db.t")
    with table.transaction() as transaction:
        transaction.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 3")
    answer = planned.ask("POST", PLAN, {})
    (deletes,) = answer["delete-files"]
    assert deletes["content"] == "position-deletes"
    referring = [task for task in answer["file-scan-tasks"] if task.get("delete-file-references")]
    assert [task["delete-file-references"] for task in referring] == [[0]]


def test_an_older_snapshot_and_what_was_appended_since_are_planned(planned: Served) -> None:
    table = planned.catalog.load_table("db.t")
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    assert len(paths(planned.ask("POST", PLAN, {"snapshot-id": ids[1]}))) == 2
    assert len(paths(planned.ask("POST", PLAN, {"start-snapshot-id": ids[1], "end-snapshot-id": ids[3]}))) == 2
    planned.ask("POST", PLAN, {"snapshot-id": ids[1], "start-snapshot-id": ids[0], "end-snapshot-id": ids[1]}, expect=400)
    planned.ask("POST", PLAN, {"start-snapshot-id": ids[0]}, expect=400)
    planned.ask("POST", PLAN, {"snapshot-id": 7}, expect=400)


def test_a_wrong_filter_is_a_bad_request(planned: Served) -> None:
    planned.ask("POST", PLAN, {"filter": {"type": "eq", "term": "nothing", "value": 1}}, expect=400)
    planned.ask("POST", PLAN, {"filter": {"type": "like", "term": "id"}}, expect=400)
    planned.ask("POST", PLAN, {"filter": None}, expect=400)


def test_a_plan_that_is_not_ready_is_requested_again_and_comes_in_pages(later: Served) -> None:
    answer = later.ask("POST", PLAN, {"filter": {"type": "gt-eq", "term": "day", "value": 0}})
    assert answer["status"] == "submitted"
    first = result(later, answer["plan-id"])
    found = paths(first)
    assert len(found) == 2
    assert len(first["plan-tasks"]) == 2
    for plan_task in first["plan-tasks"]:
        found += paths(later.ask("POST", TASKS, {"plan-task": plan_task}))
    assert sorted(found) == local(later, "day >= 0")


def test_the_pages_of_a_plan_are_those_of_its_snapshot_whatever_is_committed_since(later: Served) -> None:
    expected = local(later, "true")
    first = result(later, later.ask("POST", PLAN)["plan-id"])
    later.catalog.load_table("db.t").append(rows(90))
    found = paths(first)
    for plan_task in first["plan-tasks"]:
        found += paths(later.ask("POST", TASKS, {"plan-task": plan_task}))
    assert sorted(found) == expected


def test_another_worker_returns_the_tasks_of_a_plan_that_it_has_not_made(later: Served) -> None:
    first = result(later, later.ask("POST", PLAN)["plan-id"])
    limits = ServerLimits(requests_per_second=0, plan_wait_s=0, files_of_page=2)
    other = Served(later.catalog, serve(later.catalog, limits=limits), later.warehouse)
    assert paths(other.ask("POST", TASKS, {"plan-task": first["plan-tasks"][0]}))


def test_a_cancelled_plan_is_cancelled(later: Served) -> None:
    plan_id = later.ask("POST", PLAN)["plan-id"]
    later.ask("DELETE", f"{PLAN}/{plan_id}", expect=204)
    assert later.ask("GET", f"{PLAN}/{plan_id}") == {"status": "cancelled"}


def test_ids_of_other_servers_and_other_tables_are_not_known(later: Served) -> None:
    later.create("other")
    plan_id = later.ask("POST", PLAN)["plan-id"]
    first = result(later, plan_id)
    assert later.ask("GET", f"/namespaces/db/tables/other/plan/{plan_id}", expect=404)["error"]["type"] == "NoSuchPlanIdException"
    forged = PlanIds(b"another key").sealed({"table": "x", "snapshot": None})
    for text in ("x", forged, plan_id[:-4], "%00"):
        assert later.ask("GET", f"{PLAN}/{text}", expect=404)["error"]["type"] == "NoSuchPlanIdException"
    error = later.ask("POST", "/namespaces/db/tables/other/tasks", {"plan-task": first["plan-tasks"][0]}, expect=404)
    assert error["error"]["type"] == "NoSuchPlanTaskException"
    assert later.ask("POST", TASKS, {"plan-task": plan_id}, expect=404)


def test_a_table_without_rows_has_no_files(served: Served) -> None:
    served.create()
    answer = served.ask("POST", PLAN, {})
    assert (answer["status"], answer["file-scan-tasks"]) == ("completed", [])
