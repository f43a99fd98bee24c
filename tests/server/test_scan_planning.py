"""Scans that the server plans: the same files as a local plan, in pages, at once or later."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.server.conftest import Served, serve
from tests.spark.merge_on_read import delete_positions

from icefloe.catalog import load_catalog
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_task_stream import MEDIA_TYPE, ScanTaskStream
from icefloe.server import planned_scans, scan_operations
from icefloe.server.error_response import RefusedRequest
from icefloe.server.planned_scans import PlannedScans
from icefloe.server.server_settings import ServerLimits
from icefloe.server.signed_text import SignedText
from icefloe.spec.expressions.expression_json import joined_pairwise
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.schema.schema import Schema

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


@pytest.mark.parametrize("rows_requested", [-1, -(2**63)])
def test_a_negative_number_of_rows_is_a_bad_request(planned: Served, rows_requested: int) -> None:
    planned.ask("POST", PLAN, {"min-rows-requested": rows_requested}, expect=400)
    assert len(paths(planned.ask("POST", PLAN, {"min-rows-requested": 0}))) == 5
    assert len(paths(planned.ask("POST", PLAN, {"min-rows-requested": 1}))) == 1


def equal(number: int) -> dict[str, Any]:
    return {"type": "eq", "term": "id", "value": number}


@pytest.mark.parametrize(
    "row_filter",
    [
        {"type": "in", "term": "id", "values": list(range(50))},
        {"type": "in", "child": "id", "values": {"type": "literals", "data-type": "long", "values": list(range(40))}},
        {"type": "not", "child": {"type": "not-in", "term": "id", "values": list(range(40))}},
        joined_pairwise("or", [equal(number) for number in range(12)]),
        {"type": "or", "left": equal(1), "right": {"type": "in", "term": "id", "values": list(range(38))}},
    ],
)
def test_a_filter_with_more_values_than_the_limit_is_a_bad_request(
    warehouse: Any, row_filter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = filled(Served(catalog, serve(catalog, limits=ServerLimits(requests_per_second=0, filter_values=45)), warehouse))
    assert len(paths(served.ask("POST", PLAN, {"filter": {"type": "in", "term": "id", "values": list(range(20))}}))) == 2
    monkeypatch.setattr(scan_operations, "expression_from_json", pytest.fail)
    served.ask("POST", PLAN, {"filter": row_filter}, expect=400)
    catalog.close()


@pytest.mark.parametrize("values", [[*range(1000)], ["n" * 5000, "n1"]])
def test_a_long_residual_is_left_out_since_the_client_has_the_filter(planned: Served, values: list[Any]) -> None:
    row_filter = {"type": "in", "term": "id" if isinstance(values[0], int) else "name", "values": values}
    tasks = planned.ask("POST", PLAN, {"filter": row_filter})["file-scan-tasks"]
    assert tasks
    assert not [task for task in tasks if "residual-filter" in task]
    (short,) = {json.dumps(task["residual-filter"]) for task in planned.ask("POST", PLAN, {"filter": equal(3)})["file-scan-tasks"]}
    assert json.loads(short) == equal(3)


def test_a_scan_is_refused_where_too_many_wait_to_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_scans, "MOST_WAITING", 3)
    plans, may_end = PlannedScans(), threading.Event()

    def make() -> ScanPlan:
        may_end.wait(10)
        return ScanPlan(snapshot_id=None, schema=Schema(), row_filter=AlwaysTrue())

    assert [plans.plan(str(number), make, 0) for number in range(3)] == [None] * 3
    assert plans.plan("0", make, 0.001) is None  # it waits already
    with pytest.raises(RefusedRequest) as refused:
        plans.plan("another", make, 0)
    assert refused.value.model.code == 503
    may_end.set()
    assert plans.plan("2", make, 10) is not None
    assert plans.plan("another", make, 10) is not None


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


def test_the_id_of_a_scan_with_a_long_filter_is_known() -> None:
    ids, content = SignedText(b"k", "plan"), {"filter": "x" * 3_000_000}
    assert ids.open(ids.seal(content)) == content


def test_a_copy_of_a_table_has_plans_of_its_own(planned: Served) -> None:
    table = planned.catalog.load_table("db.t")
    snapshots = table.snapshots()
    copy = planned.warehouse / "db" / "copy" / "metadata"
    copy.mkdir(parents=True)
    metadata = json.loads(Path(table.metadata_location).read_text())
    metadata["location"] = str(copy.parent)
    first_list = next(one["manifest-list"] for one in metadata["snapshots"] if one["snapshot-id"] == snapshots[0].snapshot_id)
    next(one for one in metadata["snapshots"] if one["snapshot-id"] == snapshots[-1].snapshot_id)["manifest-list"] = first_list
    (copy / "v1.metadata.json").write_text(json.dumps(metadata))
    planned.ask("POST", "/namespaces/db/register", {"name": "copy", "metadata-location": str(copy / "v1.metadata.json")})
    assert len(paths(planned.ask("POST", PLAN))) == 5
    assert len(paths(planned.ask("POST", PLAN.replace("/t/", "/copy/")))) == 1


def test_ids_of_other_servers_and_other_tables_are_not_known(later: Served) -> None:
    later.create("other")
    plan_id = later.ask("POST", PLAN)["plan-id"]
    first = result(later, plan_id)
    assert later.ask("GET", f"/namespaces/db/tables/other/plan/{plan_id}", expect=404)["error"]["type"] == "NoSuchPlanIdException"
    forged = SignedText(b"another key", "plan").seal({"table": "x", "snapshot": None})
    for text in ("x", forged, plan_id[:-4], "%00"):
        assert later.ask("GET", f"{PLAN}/{text}", expect=404)["error"]["type"] == "NoSuchPlanIdException"
    error = later.ask("POST", "/namespaces/db/tables/other/tasks", {"plan-task": first["plan-tasks"][0]}, expect=404)
    assert error["error"]["type"] == "NoSuchPlanTaskException"
    assert later.ask("POST", TASKS, {"plan-task": plan_id}, expect=404)


def test_a_table_without_rows_has_no_files(served: Served) -> None:
    served.create()
    answer = served.ask("POST", PLAN, {})
    assert (answer["status"], answer["file-scan-tasks"]) == ("completed", [])


PLANNED_WITHOUT_PANDAS = """
import sys
from pathlib import Path
from tests.stores.rest.own_server import own_server
from icefloe.catalog.rest_catalog import RestCatalog

folder = Path(sys.argv[1])
with own_server(folder, warehouse=str(folder / "lake")) as address:
    table = RestCatalog("r", uri=address, **{"scan-planning-mode": "server"}).load_table("db.t")
    for with_statistics in (False, True):
        print(len(table.scan("id > 1").plan_files(include_statistics=with_statistics)))
assert "pandas" not in sys.modules
"""


def test_neither_side_imports_pandas_which_takes_longer_than_a_plan(tmp_path: Path) -> None:
    planned = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": pa.array([1, 2, 2], pa.int32()), "name": ["a", None, "c"]})
    with load_catalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path / "lake")) as catalog:
        catalog.create_namespace("db")
        properties = {"format-version": "2", "write.delete.mode": "merge-on-read"}
        table = catalog.create_table("db.t", planned.schema, partition_spec=["day", "name"], properties=properties)
        table.append(planned)
        table.append(planned)
        delete_positions(table, {task.file.file_path: [0] for task in list(table.scan("id = 3").plan_files())[:1]})
    done = subprocess.run([sys.executable, "-c", PLANNED_WITHOUT_PANDAS, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4", "4"]


def test_a_timeout_while_a_plan_is_made_is_its_error_and_not_a_plan_to_wait_for() -> None:
    plans = PlannedScans()

    def timed_out() -> ScanPlan:
        raise TimeoutError("the database did not answer")

    with pytest.raises(TimeoutError, match="did not answer"):
        plans.plan("key", timed_out, 10)
    begun = threading.Event()

    def late() -> ScanPlan:
        begun.wait(10)
        raise TimeoutError("the database did not answer")

    assert plans.plan("late", late, 0) is None
    assert plans.plan("late", late, 0.01) is None
    begun.set()
    with pytest.raises(TimeoutError, match="did not answer"):
        plans.plan("late", late, 10)


@pytest.mark.parametrize(
    ("accept", "is_stream"),
    [
        (None, False),
        ("*/*", False),
        ("application/*", False),
        ("application/json", False),
        (MEDIA_TYPE, True),
        (f"{MEDIA_TYPE}, application/json;q=0.9", True),
        (f"application/json ; Q=0.5 , {MEDIA_TYPE.upper()};q=0.5", True),
        (f"application/json, {MEDIA_TYPE};q=0.9", False),
        (f"{MEDIA_TYPE};q=0", False),
        (f"{MEDIA_TYPE};q=0.0, application/json;q=0", False),
        (f"{MEDIA_TYPE};q=nan", False),
        (f"{MEDIA_TYPE};q=1e9", False),
        (f"{MEDIA_TYPE}.x, {MEDIA_TYPE[:-1]}2", False),
        (",;,=", False),
    ],
)
def test_a_client_gets_a_stream_where_it_accepts_one_by_name_and_json_not_rather(
    planned: Served, accept: str | None, is_stream: bool
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    response = planned.client.post(f"/v1{PLAN}", json={}, headers=headers)
    assert response.headers["content-type"] == (MEDIA_TYPE if is_stream else "application/json")
    assert response.headers["vary"] == "Accept"
    assert is_stream == response.content.startswith(b"\xff\xff\xff\xff")


def test_a_client_that_accepts_a_stream_gets_json_where_there_are_no_files_yet(later: Served) -> None:
    headers = {"Accept": MEDIA_TYPE}
    submitted = later.client.post(f"/v1{PLAN}", json={}, headers=headers)
    assert submitted.json()["status"] == "submitted"
    planned = result(later, submitted.json()["plan-id"])
    (more,) = [later.client.post(f"/v1{TASKS}", json={"plan-task": task}, headers=headers) for task in planned["plan-tasks"][:1]]
    assert json.loads(ScanTaskStream(more.content).response) == {}
    nothing = later.client.post(f"/v1{PLAN}", json={"filter": False}, headers=headers)
    assert "file-scan-tasks" not in nothing.json() or nothing.json()["file-scan-tasks"] == []


def test_a_page_of_a_stream_has_fewer_files_where_they_have_many_bytes(planned: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_operations, "BYTES_OF_STREAM", 1000)
    names = ["id", "day", "name"]
    first = planned.client.post(f"/v1{PLAN}", json={"stats-fields": names}, headers={"Accept": MEDIA_TYPE})
    tasks = json.loads(ScanTaskStream(first.content).response)["plan-tasks"]
    pages = [first, *(planned.client.post(f"/v1{TASKS}", json={"plan-task": task}, headers={"Accept": MEDIA_TYPE}) for task in tasks)]
    assert len(pages) > 1
    found = [path for page in pages for batch in pa.ipc.open_stream(page.content) for path in batch["file_path"].to_pylist()]
    assert sorted(found) == local(planned, "true")
    assert len(found) == 5
    assert "plan-tasks" not in planned.ask("POST", PLAN, {"stats-fields": names})
