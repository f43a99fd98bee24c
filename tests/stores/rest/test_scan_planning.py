"""Scans that a server plans: who decides it, plans that are polled, fail, are dropped or take too long, and what a hostile server sends."""

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import (
    IcefloeError,
    InvalidInputError,
    InvalidPropertyError,
    LocationNotAllowedError,
    MetadataFormatError,
    NoSuchTableError,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.scan.scan_task_stream import MEDIA_TYPE
from icefloe.stores.rest import server_planned_scans
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.server_planned_scans import MOST_OF_SERVER_MS, RestScanPlanner
from icefloe.table import Table

PLAN, TASKS = f"{OneTable.path}/plan", f"{OneTable.path}/tasks"
MODE = "scan-planning-mode"


@pytest.fixture(autouse=True)
def endpoints(server: RestDouble) -> None:
    configure(server)


def configure(server: RestDouble, *, without: tuple[Endpoint, ...] = (), **config: Any) -> None:
    listed = [str(endpoint) for endpoint in Endpoint if endpoint not in without]
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": listed, **config}))


@pytest.fixture
def table(server: RestDouble, stored: OneTable) -> Table:
    """A table with a snapshot, whose scans the server plans."""
    RestCatalog("r", uri=server.uri).load_table("db.t").append(pa.table({"n": pa.array([1, 2], pa.int64())}))
    return RestCatalog("r", uri=server.uri, **{MODE: "server"}).load_table("db.t")


def file(path: str = "/x/a.parquet", **more: Any) -> dict[str, Any]:
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": path,
        "file-format": "parquet",
        "partition": [],
        "file-size-in-bytes": 100,
        "record-count": 2,
        **more,
    }


def tasks(*files: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"file-scan-tasks": [{"data-file": one, "residual-filter": True} for one in files], **more}


def paths(table: Table, row_filter: str = "TRUE") -> list[str]:
    return [task.file.file_path for task in table.scan(row_filter).plan_files()]


def test_the_user_chooses_unless_the_server_requires(server: RestDouble, stored: OneTable) -> None:
    def planned(**properties: str) -> bool:
        table = RestCatalog("r", uri=server.uri, **{"rest-table-cache.max-entries": "0"}, **properties).load_table("db.t")
        return table.scan().is_planned_by_server

    assert not planned()
    assert planned(**{MODE: "server"})
    stored.result = {"config": {MODE: "SERVER"}}
    assert planned()
    assert planned(**{MODE: "server"})
    with pytest.raises(InvalidPropertyError, match=r"(?s)requires that the server plans.*leave scan-planning-mode out"):
        planned(**{MODE: "client"})
    stored.result = {"config": {MODE: "client"}}
    assert not planned()
    with pytest.raises(InvalidPropertyError, match="requires that the client"):
        planned(**{MODE: "server"})
    stored.result = {}
    configure(server, overrides={MODE: "server"})
    assert planned(**{MODE: "client"}), "an override of the catalog's configuration wins over the user's property"
    configure(server, without=(Endpoint.PLAN,))
    assert not planned()
    with pytest.raises(UnsupportedFeatureError, match="set the catalog property scan-planning-mode to client"):
        planned(**{MODE: "server"})
    stored.result = {"config": {MODE: "sometimes"}}
    with pytest.raises(InvalidPropertyError, match="sometimes"):
        planned()


def test_the_request_is_that_of_the_protocol(server: RestDouble, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **tasks(file())}))
    assert paths(table, "n > 1") == ["/x/a.parquet"]
    snapshot_id = table.metadata.current_snapshot_id
    sent = server.of("POST", PLAN)[-1]
    assert sent.json == {
        "snapshot-id": snapshot_id,
        "case-sensitive": True,
        "use-snapshot-schema": False,
        "filter": {"type": "gt", "term": "n", "value": 1},
    }
    assert sent.headers["x-iceberg-access-delegation"] == "vended-credentials,remote-signing"
    assert sent.headers["accept"] == f"{MEDIA_TYPE}, application/json;q=0.9"
    table.scan(snapshot_id=snapshot_id, selected_fields=("n", "_pos"), case_sensitive=False).plan(include_statistics=True, enough_rows=5)
    assert server.of("POST", PLAN)[-1].json == {
        "snapshot-id": snapshot_id,
        "case-sensitive": False,
        "use-snapshot-schema": True,
        "select": ["n"],
        "stats-fields": ["n"],
        "min-rows-requested": 5,
    }
    assert not server.of("DELETE", f"{PLAN}/p"), "a plan whose files were fetched needs no cancellation"


def test_a_plan_is_polled_until_it_is_ready_and_its_pages_are_fetched_to_the_last(server: RestDouble, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "submitted", "plan-id": "p/1"}))
    submitted = Answer(200, {"status": "submitted"})
    ready = Answer(200, {"status": "completed", **tasks(file("/x/1"), **{"plan-tasks": ["b", "c"]})})
    server.on("GET", f"{PLAN}/p%2F1", submitted, submitted, ready)
    more = {"b": tasks(file("/x/2"), **{"plan-tasks": ["d"]}), "c": tasks(file("/x/4")), "d": tasks(file("/x/3"))}
    server.on("POST", TASKS, call=lambda request: Answer(200, more[request.json["plan-task"]]))
    assert paths(table) == ["/x/1", "/x/2", "/x/3", "/x/4"]
    assert len(server.of("GET", f"{PLAN}/p%2F1")) == 3


def test_a_plan_that_takes_too_long_is_cancelled(server: RestDouble, stored: OneTable, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "submitted", "plan-id": "p"}))
    server.on("GET", f"{PLAN}/p", Answer(200, {"status": "submitted"}))
    server.on("DELETE", f"{PLAN}/p", Answer(204))
    impatient = RestCatalog("r", uri=server.uri, **{MODE: "server", "rest-scan-planning.poll-timeout-ms": "150"}).load_table("db.t")
    with pytest.raises(StorageUnavailableError, match=r"(?s)not ready after 150 ms.*rest-scan-planning\.poll-timeout-ms"):
        impatient.scan().plan()
    assert len(server.of("DELETE", f"{PLAN}/p")) == 1


@pytest.mark.parametrize(("own", "expected"), [({}, MOST_OF_SERVER_MS), ({"rest-scan-planning.poll-timeout-ms": "7200000"}, 7_200_000)])
def test_a_server_has_its_clients_wait_for_an_hour_at_most(server: RestDouble, table: Table, own: dict[str, str], expected: int) -> None:
    configure(server, overrides={"rest-scan-planning.poll-timeout-ms": "99999999999"})
    planner = RestCatalog("r", uri=server.uri, **{MODE: "server", **own}).load_table("db.t").handle.planner
    assert isinstance(planner, RestScanPlanner)
    assert planner._timeout_ms == expected


def test_a_failed_plan_is_an_error_with_the_servers_reason(server: RestDouble, table: Table) -> None:
    failed = {"status": "failed", "error": {"message": "no memory\n\x1b[31m", "type": "Oops", "code": 500}}
    server.on("POST", PLAN, Answer(200, failed))
    with pytest.raises(StorageError, match="no memory") as raised:
        table.scan().plan()
    assert "\n" not in raised.value.message
    server.on("POST", PLAN, Answer(200, {"status": "submitted", "plan-id": "p"}))
    server.on("GET", f"{PLAN}/p", Answer(200, failed))
    with pytest.raises(StorageError, match="no memory"):
        table.scan().plan()
    server.on("GET", f"{PLAN}/p", Answer(200, {"status": "cancelled"}))
    with pytest.raises(MetadataFormatError, match="cancelled"):
        table.scan().plan()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(400, "BadRequestException"), InvalidInputError),
        (problem(403, "ForbiddenException"), StoragePermissionError),
        (problem(404, "NoSuchTableException"), NoSuchTableError),
        (problem(406, "UnsupportedOperationException"), UnsupportedFeatureError),
        (problem(500, "InternalServerError"), StorageUnavailableError),
    ],
)
def test_a_refused_plan_is_the_error_of_its_status(server: RestDouble, table: Table, answer: Answer, kind: type[IcefloeError]) -> None:
    server.on("POST", PLAN, answer)
    with pytest.raises(kind):
        table.scan().plan()


def test_a_plan_that_the_server_dropped_is_made_again_once(server: RestDouble, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **tasks(**{"plan-tasks": ["b"]})}))
    gone = problem(404, "NoSuchPlanTaskException")
    server.on("POST", TASKS, gone, Answer(200, tasks(file("/x/2"))))
    assert paths(table) == ["/x/2"]
    assert len(server.of("POST", PLAN)) == 2
    server.on("POST", TASKS, gone)
    with pytest.raises(StorageError, match="dropped the plan"):
        table.scan().plan()


def test_a_page_that_cannot_be_fetched_cancels_the_plan(server: RestDouble, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **tasks(**{"plan-tasks": ["b", "c"]})}))
    server.on("POST", TASKS, problem(403, "ForbiddenException"))
    with pytest.raises(StoragePermissionError):
        table.scan().plan()
    assert len(server.of("DELETE", f"{PLAN}/p")) == 1


def test_a_residual_that_the_server_leaves_out_is_the_whole_filter(server: RestDouble, table: Table) -> None:
    task = {"data-file": file()}
    residual = {"type": "lt", "term": "n", "value": 9}
    server.on(
        "POST",
        PLAN,
        Answer(
            200,
            {"status": "completed", "file-scan-tasks": [task, {**task, "residual-filter": residual}, {**task, "residual-filter": True}]},
        ),
    )
    residuals = [str(task.residual) for task in table.scan("n > 1 AND n < 9").plan_files()]
    assert residuals == ["n > 1 AND n < 9", "n < 9", "TRUE"]


def test_delete_files_of_pages_are_matched_to_their_files(server: RestDouble, table: Table) -> None:
    def delete(path: str, **more: Any) -> dict[str, Any]:
        return {**file(path), "content": "position-deletes", **more}

    first = {
        "file-scan-tasks": [{"data-file": file("/x/1"), "delete-file-references": [1]}],
        "delete-files": [delete("/d/1"), delete("/d/2")],
    }
    vectors = [delete("/d/v", **{"file-format": "puffin", "content-offset": at, "content-size-in-bytes": 5}) for at in (4, 9)]
    second = {
        "file-scan-tasks": [
            {"data-file": file("/x/2"), "delete-file-references": [0, 1]},
            {"data-file": file("/x/3"), "delete-file-references": [2]},
            {"data-file": file("/x/4")},
        ],
        "delete-files": [delete("/d/2"), *vectors],
    }
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **first, "plan-tasks": ["b"]}))
    server.on("POST", TASKS, Answer(200, second))
    plan = table.scan().plan()
    found = {task.file.file_path: [(one.file_path, one.content_offset) for one in task.delete_files] for task in plan.tasks()}
    assert found == {"/x/1": [("/d/2", None)], "/x/2": [("/d/2", None), ("/d/v", 4)], "/x/3": [("/d/v", 9)], "/x/4": []}
    assert len(plan.delete_files) == 4


HOSTILE: list[Callable[[], dict[str, Any]]] = [
    lambda: tasks(file(**{"spec-id": 7})),
    lambda: tasks(file(content="position-deletes")),
    lambda: tasks(file(partition=[1])),
    lambda: tasks(file(partition="x")),
    lambda: tasks(file(partition={"1000": [[]]}), file(partition=[{}])),
    lambda: tasks(file(partition=None)),
    lambda: tasks(file(**{"record-count": -1})),
    lambda: tasks(file(**{"file-size-in-bytes": 10**30})),
    lambda: tasks(file(**{"file-format": "exe"})),
    lambda: tasks(file(**{"sort-order-id": 10**12})),
    lambda: tasks(file(**{"split-offsets": ["a"]})),
    lambda: {"file-scan-tasks": [{"data-file": file(), "delete-file-references": [0]}]},
    lambda: {
        "file-scan-tasks": [{"data-file": file(), "delete-file-references": [-1]}],
        "delete-files": [file(content="equality-deletes")],
    },
    lambda: {"file-scan-tasks": [], "delete-files": [file()]},
    lambda: {"file-scan-tasks": [], "delete-files": [file(content="equality-deletes")]},
    lambda: {"file-scan-tasks": [{"data-file": file(), "residual-filter": {"type": "eq", "term": "nothing", "value": 1}}]},
    lambda: {"file-scan-tasks": [{"data-file": file(), "residual-filter": [[[]]]}]},
    lambda: {"file-scan-tasks": "all"},
    lambda: {"file-scan-tasks": [{}]},
    lambda: tasks(**{"plan-tasks": ["a", "a"]}),
    lambda: {"status": "done"},
    lambda: {"status": "submitted", "plan-id": None},
]


@pytest.mark.parametrize("content", HOSTILE)
def test_what_cannot_be_a_plan_of_the_table_is_refused(server: RestDouble, table: Table, content: Callable[[], dict[str, Any]]) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **content()}))
    server.on("POST", TASKS, Answer(200, tasks(**{"plan-tasks": ["a"]})))
    with pytest.raises(MetadataFormatError):
        table.scan("n > 0").plan()


@pytest.mark.parametrize("with_file", [True, False])
def test_plan_tasks_that_never_end_are_given_up(server: RestDouble, table: Table, monkeypatch: pytest.MonkeyPatch, with_file: bool) -> None:
    """Each page names the next one, always another."""
    monkeypatch.setattr(server_planned_scans, "MOST_PAGES" if with_file else "MOST_EMPTY_PAGES", 30)
    count = [0]

    def following(_: Request) -> Answer:
        count[0] += 1
        files = [file(f"/x/{count[0]}")] if with_file else []
        return Answer(200, tasks(*files, **{"plan-tasks": [f"task-{count[0]}"]}))

    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **tasks(**{"plan-tasks": ["first"]})}))
    server.on("POST", TASKS, call=following)
    with pytest.raises(MetadataFormatError, match=r"sends more than 30" if with_file else r"after 31 pages without a file"):
        table.scan().plan()
    assert count[0] <= 31
    assert len(server.of("DELETE", f"{PLAN}/p")) == 1


def test_a_long_chain_of_pages_keeps_its_order(server: RestDouble, table: Table) -> None:
    def following(request: Request) -> Answer:
        number = int(request.json["plan-task"])
        return Answer(200, tasks(file(f"/x/{number}"), **({"plan-tasks": [str(number + 1)]} if number < 300 else {})))

    server.on("POST", PLAN, Answer(200, {"status": "completed", **tasks(**{"plan-tasks": ["1"]})}))
    server.on("POST", TASKS, call=following)
    assert paths(table) == [f"/x/{number}" for number in range(1, 301)]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 200])
def test_a_stream_that_is_none_is_an_error_that_names_the_catalog_and_the_table(server: RestDouble, table: Table, content: bytes) -> None:
    streamed = Answer(200, content, {"Content-Type": f"{MEDIA_TYPE}; charset=utf-8"})
    server.on("POST", PLAN, streamed)
    with pytest.raises(MetadataFormatError, match=r"db\.t by the server of catalog 'r' is not of this table"):
        table.scan().plan()
    server.on("POST", PLAN, Answer(200, {"status": "completed", "plan-id": "p", **tasks(**{"plan-tasks": ["b"]})}))
    server.on("POST", TASKS, streamed)
    with pytest.raises(MetadataFormatError, match=r"db\.t by the server of catalog 'r' is not of this table"):
        table.scan().plan()
    assert len(server.of("DELETE", f"{PLAN}/p")) == 1


def test_a_planned_file_outside_the_allowed_locations_is_not_read(server: RestDouble, table: Table) -> None:
    server.on("POST", PLAN, Answer(200, {"status": "completed", **tasks(file("http://169.254.169.254/latest"))}))
    with pytest.raises(LocationNotAllowedError):
        table.scan().to_arrow()


def test_the_credentials_of_a_plan_are_those_of_its_files_and_are_renewed_by_its_id(server: RestDouble, table: Table) -> None:
    def credential(key: str, expires_ms: int) -> dict[str, Any]:
        config = {"s3.access-key-id": key, "s3.secret-access-key": "s", "s3.session-token-expires-at-ms": str(expires_ms)}
        return {"prefix": "s3://lake/", "config": config}

    now_ms = int(time.time() * 1000)
    server.on(
        "POST",
        PLAN,
        Answer(200, {"status": "completed", "plan-id": "p", **tasks(file()), "storage-credentials": [credential("one", now_ms - 1)]}),
    )
    asked: list[Request] = []

    def vend(request: Request) -> Answer:
        asked.append(request)
        return Answer(200, {"storage-credentials": [credential("two", now_ms + 60_000)]})

    server.on("GET", f"{OneTable.path}/credentials", call=vend)
    access = table.scan().request().io.access  # type: ignore[attr-defined]
    assert access.settings_for("s3://lake/x").properties["s3.access-key-id"] == "two"
    assert asked[0].query == {"planId": "p"}
    assert table.io.access.settings_for("s3://lake/x").properties.get("s3.access-key-id") is None  # type: ignore[attr-defined]


def test_a_table_without_a_snapshot_is_not_requested(server: RestDouble, stored: OneTable) -> None:
    table = RestCatalog("r", uri=server.uri, **{MODE: "server"}).load_table("db.t")
    assert table.scan("n > 3").to_arrow().num_rows == 0
    assert not server.of("POST", PLAN)


def test_a_scan_that_the_protocol_has_no_form_for_is_planned_here(server: RestDouble, table: Table) -> None:
    for scan in (
        table.scan(tolerant=True),
        table.scan(selected_fields=("n", "_last_updated_sequence_number")),
        table.incremental_append_scan(),
    ):
        assert not scan.is_planned_by_server
        assert len(scan.plan_files()) == 1
    assert not server.of("POST", PLAN)
