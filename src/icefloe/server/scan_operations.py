"""The operations of scan planning by the server. Spec: REST catalog, planTableScan, fetchPlanningResult, cancelPlanning, fetchScanTasks."""

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from icefloe.errors import IcefloeError, NoSuchSnapshotError
from icefloe.operations.data_scan import DataScan
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_task_stream import MEDIA_TYPE, written_stream
from icefloe.server.error_response import NOT_FOUND, RefusedRequest, bad_request, error_model
from icefloe.server.planned_scans import files_of
from icefloe.server.request import NO_CONTENT, Answer, Call, accepts, decode_segment
from icefloe.server.scan_task_json import ScanTaskJson
from icefloe.server.served_catalog import ServedCatalog
from icefloe.spec.expressions.expression_json import expression_from_json
from icefloe.spec.identifier import dotted
from icefloe.spec.schema.json_shape import Key, a_boolean, a_long, a_string, anything, array_of
from icefloe.table.table import Table

_KEYS = (
    Key("snapshot-id", a_long, required=False),
    Key("start-snapshot-id", a_long, required=False),
    Key("end-snapshot-id", a_long, required=False),
    Key("select", array_of(a_string), required=False),
    Key("filter", anything, required=False),
    Key("min-rows-requested", a_long, required=False),
    Key("case-sensitive", a_boolean, required=False),
    Key("use-snapshot-schema", a_boolean, required=False),
    Key("stats-fields", array_of(a_string), required=False),
)
# The most characters of a plan's id, which is a segment of a path. A scan with a longer id is planned while the client waits.
LONGEST_PLAN_ID = 4000
# A page of a stream has the files of this many pages of JSON, because it costs less to write and to read than a request.
PAGES_OF_STREAM = 5
# About the most bytes of columns in a page of a stream, so that statistics of many columns do not make it too long for a client.
BYTES_OF_STREAM = 1 << 26
VARIES = {"Vary": "Accept"}


def plan_table_scan(served: ServedCatalog, call: Call) -> Answer:
    """Plan a scan, and return its first files, or an id for polling if it takes too long. Spec: REST catalog, planTableScan."""
    table = served.catalog.load_table(call.table())
    request = _request(table, call.json_object(*_KEYS) if call.content is not None else {}, served.filter_values)
    # Each request gets its own id, so that a client which cancels its plan does not cancel the same plan of another client.
    plan_id = served.plan_ids.seal({"plan": request, "once": secrets.token_urlsafe(8)})
    scan = _scan(table, request)  # made now, so that a wrong request is refused before it is planned
    wait_s = served.plan_wait_s if len(plan_id) <= LONGEST_PLAN_ID else served.longest_wait_s
    plan = _plan_scan(served, call, table, request, wait_s, scan)
    if plan is None:
        return Answer(content={"status": "submitted", "plan-id": plan_id})
    return _completed_answer(served, table, request, plan, call, plan_id)


def fetch_planning_result(served: ServedCatalog, call: Call) -> Answer:
    """Return the first files of a plan, or the status that it is not ready yet. Spec: REST catalog, fetchPlanningResult."""
    table, request, plan_id = _planned_request(served, call)
    if served.plans.is_cancelled(plan_id):
        return Answer(content={"status": "cancelled"})
    try:
        plan = _plan_scan(served, call, table, request, served.plan_wait_s)
    except IcefloeError as error:
        return Answer(content={"status": "failed", **error_model(error).as_json()})
    if plan is None:
        return Answer(content={"status": "submitted"})
    return _completed_answer(served, table, request, plan, call)


def cancel_planning(served: ServedCatalog, call: Call) -> Answer:
    """Cancel a plan. Spec: REST catalog, cancelPlanning."""
    _, request, plan_id = _planned_request(served, call)
    served.plans.cancel(plan_id, _key(served, request))
    return NO_CONTENT


def fetch_scan_tasks(served: ServedCatalog, call: Call) -> Answer:
    """Return a page of the files of a plan. Spec: REST catalog, fetchScanTasks."""
    table = served.catalog.load_table(call.table())
    page = served.plan_ids.open(call.json_object(Key("plan-task", a_string))["plan-task"])
    if not isinstance(page, dict) or "files" not in page or page["plan"].get("table") != _identity(table):
        raise RefusedRequest(NOT_FOUND, "NoSuchPlanTaskException", f"Plan task does not exist for table {dotted(call.table())}")
    request = page["plan"]
    plan = _plan_scan(served, call, table, request, served.longest_wait_s)
    if plan is None:
        raise RefusedRequest(503, "ServiceUnavailableException", "the scan is not planned yet", ("Retry-After", "1"))
    start, stop = page["files"]
    return _page(table, request, plan, (start, stop), {}, call)


def _request(table: Table, content: Mapping[str, Any], most_values: int) -> dict[str, Any]:
    """Return the normalised request: with its snapshot, and without the parts that do not affect which files are planned.

    Args:
        table: The table.
        content: The body of the request.
        most_values: The most literals and conditions that the filter may have.

    Raises:
        RefusedRequest: The request has both a snapshot and a range of snapshots, only one end of a range, a negative number of rows, or a filter that is null
            or has too many values.
    """
    if (content.get("min-rows-requested") or 0) < 0:
        raise bad_request(f"min-rows-requested is {content['min-rows-requested']}; it is a whole number from 0")
    if _has_more_values(content.get("filter"), most_values):
        raise bad_request(
            f"the filter has more than {most_values} literals and conditions, which this server plans with at most; "
            "plan with a wider filter, such as a range, and test the rows that are read"
        )
    start, end, snapshot_id = (content.get(name) for name in ("start-snapshot-id", "end-snapshot-id", "snapshot-id"))
    if snapshot_id is not None and (start is not None or end is not None):
        raise bad_request(
            "a scan is of one snapshot, snapshot-id, or of the rows that were appended after start-snapshot-id up to end-snapshot-id"
        )
    if (start is None) != (end is None):
        raise bad_request("start-snapshot-id and end-snapshot-id go together")
    request: dict[str, Any] = {"table": _identity(table), "snapshot": end if end is not None else snapshot_id}
    if request["snapshot"] is None:
        request["snapshot"] = table.metadata.current_snapshot_id
    if start is not None:
        request["after"] = start
    for name, key, default in (("filter", "filter", True), ("case-sensitive", "case", True), ("use-snapshot-schema", "own-schema", False)):
        if name in content and content[name] != default:
            request[key] = content[name]
    if "filter" in content and content["filter"] is None:
        raise bad_request("the filter is null; leave it out for a scan of all rows")
    for name, key in (("min-rows-requested", "rows"), ("stats-fields", "statistics")):
        if content.get(name):
            request[key] = content[name]
    return request


def _has_more_values(row_filter: Any, most: int) -> bool:
    """Return whether the JSON of a filter has more than `most` literals and conditions. The count stops there."""
    values, rest = 0, [row_filter]
    while rest and values <= most:
        value = rest.pop()
        values += 1
        if isinstance(value, list):
            values += len(value)
        elif isinstance(value, dict):
            rest += value.values()
    return values > most


def _identity(table: Table) -> str:
    """Return the name and the UUID of a table. The UUID does not suffice: a copy under another name has the same UUID and snapshots, but other files."""
    return f"{dotted(table.name())} {table.metadata.table_uuid}"


def _scan(table: Table, request: Mapping[str, Any], *, with_filter: bool = True) -> DataScan:
    """Return the scan of a request.

    Raises:
        IcefloeError: The snapshot does not exist, or the filter is wrong.
    """
    scan = DataScan(
        table_name=dotted(table.name()),
        metadata=table.metadata,
        io=table.io,
        snapshot_id=request["snapshot"],
        by_table_schema=not request.get("own-schema", False),
        case_sensitive=request.get("case", True),
    )
    if request["snapshot"] is not None and scan.snapshot() is None:
        raise NoSuchSnapshotError(f"Cannot find snapshot with ID {request['snapshot']}")
    if with_filter and "filter" in request:
        scan = scan.filter(expression_from_json(request["filter"], scan.schema(), case_sensitive=scan.case_sensitive))
    return scan if "after" not in request else scan.appended_after(request["after"])


def _key(served: ServedCatalog, request: Mapping[str, Any]) -> str:
    """Return the key of the plan of a request. All clients that send the request share the plan."""
    return served.plan_ids.seal(request)


def _plan_scan(
    served: ServedCatalog, call: Call, table: Table, request: Mapping[str, Any], wait_s: float, scan: DataScan | None = None
) -> ScanPlan | None:
    io = served.file_io(call, table)

    def make() -> ScanPlan:
        own_scan = _scan(table, request) if scan is None else scan
        return replace(own_scan, io=io).plan(include_statistics="statistics" in request, enough_rows=request.get("rows"))

    return served.plans.plan(_key(served, request), make, wait_s, reads_all=io is table.io)


def _completed_answer(
    served: ServedCatalog, table: Table, request: Mapping[str, Any], plan: ScanPlan, call: Call, plan_id: str | None = None
) -> Answer:
    """Return the response with the first files of a plan, and the ids of the pages with its other files."""
    files = sum(map(len, plan.parts))
    size = _stream_files(plan, served.files_of_page) if accepts(call.headers.get("accept", ""), MEDIA_TYPE) else served.files_of_page
    members: dict[str, Any] = {"status": "completed"}
    if plan_id is not None:
        members["plan-id"] = plan_id
    if files > size:
        pages = [{"plan": request, "files": [start, min(start + size, files)]} for start in range(size, files, size)]
        members["plan-tasks"] = [served.plan_ids.seal(page) for page in pages]
    credentials = served.access_to(table.metadata.location, table.name(), call).get("storage-credentials")
    if credentials:
        members["storage-credentials"] = credentials
    return _page(table, request, plan, (0, size), members, call)


def _stream_files(plan: ScanPlan, files_of_page: int) -> int:
    """Return the number of files in one page of a stream."""
    indices = sum(part.delete_indices.nbytes for part in plan.parts if part.delete_indices is not None)
    length = sum(int(part.entries.nbytes) for part in plan.parts) + indices
    return min(PAGES_OF_STREAM * files_of_page, 1 + sum(map(len, plan.parts)) * BYTES_OF_STREAM // max(length, 1))


def _page(
    table: Table, request: Mapping[str, Any], plan: ScanPlan, places: tuple[int, int], members: Mapping[str, Any], call: Call
) -> Answer:
    """Return a response with a range of the files of a plan, as a stream if the client accepts it.

    Args:
        table: The table.
        request: The normalised request.
        plan: The plan.
        places: The position of the first file in the plan, and the position after the last file.
        members: The other members of the response.
        call: The request as it was received.
    """
    parts = [part for part in files_of(plan, *places) if len(part)]
    schema = _scan(table, request, with_filter=False).schema()
    names = request.get("statistics", ())
    field_ids = (schema.find_id(name, case_sensitive=request.get("case", True)) for name in names)
    statistics = sorted({field_id for field_id in field_ids if field_id is not None and schema.find_type(field_id).is_primitive})
    writer = ScanTaskJson(table.metadata, statistics)
    if not (parts and accepts(call.headers.get("accept", ""), MEDIA_TYPE)):
        start = b"{" + (msgspec.json.encode(members)[1:-1] + b"," if members else b"")
        return Answer(body=start + writer.page(parts) + b"}", headers=VARIES)
    used = [part.delete_indices for part in parts if part.delete_indices is not None]
    deletes = np.unique(np.concatenate(used)) if used else np.empty(0, dtype=np.int64)
    if len(deletes):
        members = {**members, "delete-files": [writer.delete_file(plan.delete_files[place]) for place in deletes.tolist()]}
    return Answer(body=written_stream(parts, members, statistics, deletes), headers={**VARIES, "Content-Type": MEDIA_TYPE})


def _planned_request(served: ServedCatalog, call: Call) -> tuple[Table, dict[str, Any], str]:
    """Return the table, the normalised request and the plan id of a request about a plan.

    Raises:
        RefusedRequest: The server has not made the plan id for this table.
    """
    table = served.catalog.load_table(call.table())
    plan_id = decode_segment(call.path["plan_id"])
    opened = served.plan_ids.open(plan_id)
    if not isinstance(opened, dict) or "once" not in opened or opened["plan"].get("table") != _identity(table):
        raise RefusedRequest(NOT_FOUND, "NoSuchPlanIdException", f"Plan does not exist for table {dotted(call.table())}")
    return table, opened["plan"], plan_id
