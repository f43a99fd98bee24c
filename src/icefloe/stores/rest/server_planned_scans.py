"""`RestScanPlanner`: server-side planning of a table's scans by a REST catalog, synchronous or polled, with files in pages.

If a plan is given up, because the caller was interrupted, it takes too long or a page cannot be fetched, it is cancelled, so that the server can drop it.
Spec: REST catalog, planTableScan, fetchPlanningResult, cancelPlanning, fetchScanTasks.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from icefloe.errors import IcefloeError, InvalidFilterError, MetadataFormatError, NoSuchTableError, StorageError, StorageUnavailableError
from icefloe.scan.scan_plan import ScanPlan
from icefloe.scan.scan_task_stream import MEDIA_TYPE, ScanTaskStream
from icefloe.scan.server_plan import PlanRequest
from icefloe.spec.expressions.bind import BoundPredicate, PredicateOperator
from icefloe.spec.expressions.expression_json import expression_to_json
from icefloe.spec.expressions.predicate import AlwaysTrue, And, BooleanExpression, all_of
from icefloe.spec.identifier import Identifier, dotted
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_reply import NOT_FOUND, Reply, server_text
from icefloe.stores.rest.load_result import SentCredential, as_credentials, check_unrestricted
from icefloe.stores.rest.rest_connection import RestConnection
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.scan_tasks import Page, ScanTaskReader, ScanTasks, Tasks
from icefloe.stores.rest.table_access import TableAccess

COMPLETED, SUBMITTED, FAILED = "completed", "submitted", "failed"
# The seconds of the first wait for a plan, and of the longest wait between two requests.
FIRST_POLL_S, LONGEST_POLL_S = 0.05, 5.0
# The maximum milliseconds that a server may have clients wait for a plan; only the user can set a longer time.
MOST_OF_SERVER_MS = 3_600_000
# The number of parallel requests for pages, and the maximum of pages in a plan.
_THREADS, MOST_PAGES = 4, 100_000
# The maximum of consecutive pages without files; with more, the server's listing counts as endless.
MOST_EMPTY_PAGES = 1_000
# The maximum number of values in a set that are sent. Servers do not prune by each of many values, and Icefloe's server refuses filters with too many values.
MOST_VALUES = 10_000
# The number of times that a scan is planned again if the server drops its plan meanwhile.
_TRIES = 2
# The header value by which Icefloe's server sends files as a stream; other servers ignore it and send JSON.
ACCEPT = {"Accept": f"{MEDIA_TYPE}, application/json;q=0.9"}


class _ErrorModel(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class _PlanResult(ScanTasks, rename="kebab"):
    """The response to a request for a plan: its status, and if `completed` its first files."""

    status: str = ""
    plan_id: str | None = None
    storage_credentials: list[SentCredential] | None = None
    error: _ErrorModel | None = None


@dataclass(slots=True)
class _PageNode:
    """A page of a server's scan plan, and the pages that its plan tasks lead to."""

    page: Page | None = None
    following: list["_PageNode"] = field(default_factory=list)

    def in_order(self) -> list[Page]:
        """Return this page and all pages that follow it, without recursion, because a server may chain a hundred thousand pages."""
        pages, nodes = [], [self]
        while nodes:
            node = nodes.pop()
            pages += [] if node.page is None else [node.page]
            nodes += reversed(node.following)
        return pages


class _PlanDroppedError(Exception):
    """The server no longer has a scan plan, or a page of it."""


class RestScanPlanner:
    """The planner for the scans of a table, which sends requests to its server. See `ServerPlanner`.

    Args:
        connection: The catalog.
        identifier: The table.
        access: The access to the table's files; credentials in a plan replace it.
    """

    def __init__(self, connection: RestConnection, identifier: Identifier, access: TableAccess) -> None:
        self._connection = connection
        self._identifier = identifier
        self._access = access
        own_ms = settings.number(connection.own_properties, settings.PLANNING_TIMEOUT_MS, 0)
        asked_ms = settings.number(connection.properties, settings.PLANNING_TIMEOUT_MS, 300_000, 1)
        self._timeout_ms = min(asked_ms, max(own_ms, MOST_OF_SERVER_MS))

    def plan(self, request: PlanRequest) -> ScanPlan:
        """Plan a scan on the server, and return its files. See `ServerPlanner.plan`.

        Raises:
            NoSuchTableError: the table was dropped.
            InvalidInputError, StoragePermissionError, StorageError: the server refuses the scan, or failed to plan it.
            StorageUnavailableError: the plan is not ready in time, or the server cannot be reached.
            MetadataFormatError: the response does not follow the protocol, or does not fit this table.
        """
        sent, unsent = _sendable(request.row_filter)
        for attempt in range(_TRIES):
            try:
                return self._request_plan(request, _body(request, sent), ScanTaskReader(request, unsent, self._connection.name))
            except _PlanDroppedError as error:
                if attempt == _TRIES - 1:
                    raise StorageError(
                        f"{self._what()} failed: the server dropped the plan before its files were fetched",
                        next_step="try again; the server's own log has the cause if it lasts",
                    ) from error
        raise AssertionError("unreachable")

    def _request_plan(self, request: PlanRequest, body: dict[str, Any], reader: ScanTaskReader) -> ScanPlan:
        reply = self._send(Endpoint.PLAN, body=body)
        if reply.status == NOT_FOUND:
            raise NoSuchTableError(
                f"{self._what()} failed: {reply.message or 'the table does not exist any longer'}", table=request.table_name
            )
        result, stream = self._result(reply, reader)
        plan_id = result.plan_id or ""
        try:
            if result.status == SUBMITTED:
                result, stream = self._poll(plan_id, reader)
            plan = reader.plan(self._pages(result, stream, reader))
        except BaseException:
            self._cancel(plan_id)
            raise
        credentials = as_credentials(result.storage_credentials)
        return replace(plan, access=self._access.of_plan(plan_id, credentials)) if credentials else plan

    def _result(self, reply: Reply, reader: ScanTaskReader) -> tuple[_PlanResult, ScanTaskStream | None]:
        if not reply.is_success:
            raise reply.error(f"{self._what()} failed")
        result, stream = self._parse_reply(reply, _PlanResult, reader)
        return self._check(result), stream

    def _check(self, result: _PlanResult) -> _PlanResult:
        """Return the result if the plan is ready or can be polled. Raises `IcefloeError` for any other status."""
        if result.status == FAILED:
            error = result.error or _ErrorModel()
            secrets = [*self._access.secrets(), *self._connection.auth.secrets()]
            text = server_text(error.message or error.type or "it gave no reason", secrets)
            raise StorageError(f"{self._what()} failed at the server: {text}", next_step="the server's own log has the cause")
        if result.status not in (COMPLETED, SUBMITTED) or (result.status == SUBMITTED and not result.plan_id):
            raise MetadataFormatError(
                f"{self._what()} failed: the server sent the status {server_text(result.status, [])!r}",
                next_step="report it to the server's maintainers",
            )
        return result

    def _parse_reply(self, reply: Reply, kind: type[Tasks], reader: ScanTaskReader) -> tuple[Tasks, ScanTaskStream | None]:
        """Return the JSON of a response, and its stream of files if there is one. Raises `UnsupportedFeatureError` for read restrictions."""
        if reply.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
            self._check_unrestricted(reply.parse(dict[str, msgspec.Raw]))
            return reply.parse(kind), None
        tasks, stream = reader.read_stream(reply.content, kind)
        self._check_unrestricted(msgspec.json.decode(stream.response, type=dict[str, msgspec.Raw]))
        return tasks, stream

    def _check_unrestricted(self, members: Mapping[str, msgspec.Raw]) -> None:
        check_unrestricted(members, "table", self._identifier, self._connection.name)

    def _poll(self, plan_id: str, reader: ScanTaskReader) -> tuple[_PlanResult, ScanTaskStream | None]:
        """Poll until the plan is ready, and return it."""
        deadline, wait_s = time.monotonic() + self._timeout_ms / 1000, FIRST_POLL_S
        while True:
            time.sleep(max(0.0, min(wait_s, deadline - time.monotonic())))
            reply = self._send(Endpoint.FETCH_PLAN, plan_id=plan_id)
            if reply.status == NOT_FOUND:
                raise _PlanDroppedError
            if not reply.is_success:
                raise reply.error(f"{self._what()} failed")
            result, stream = self._parse_reply(reply, _PlanResult, reader)
            if result.status != SUBMITTED:
                return self._check(result), stream
            if time.monotonic() >= deadline:
                raise StorageUnavailableError(
                    f"{self._what()} failed: the plan is not ready after {self._timeout_ms} ms",
                    next_step=f"raise the catalog property {settings.PLANNING_TIMEOUT_MS}, or narrow the filter",
                )
            wait_s = min(2 * wait_s, LONGEST_POLL_S)

    def _pages(self, first: ScanTasks, stream: ScanTaskStream | None, reader: ScanTaskReader) -> Iterable[Page]:
        """Fetch all pages. Return them in the order of their tasks; further pages from a page follow it.

        Raises:
            MetadataFormatError: the server repeats tasks, or exceeds the limits.
        """
        root = _PageNode()
        seen: set[str] = set()
        empty = 0
        waiting: dict[Future[tuple[Page, Sequence[str]]], _PageNode] = {}
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="icefloe-plan")

        def submit(tasks: Iterable[str], parent: _PageNode) -> None:
            for task in tasks:
                if task in seen or len(seen) >= MOST_PAGES:
                    raise self._endless(f"the server repeats plan tasks, or sends more than {MOST_PAGES:,}")
                seen.add(task)
                node = _PageNode()
                parent.following.append(node)
                waiting[threads.submit(self._page, task, reader)] = node

        try:
            submit(first.plan_tasks or (), root)
            root.page = reader.page(first, stream)
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    node = waiting.pop(future)
                    node.page, more = future.result()
                    empty = 0 if any(map(len, node.page.parts)) else empty + 1
                    if more and empty > MOST_EMPTY_PAGES:
                        raise self._endless(f"the server sends further plan tasks after {empty:,} pages without a file")
                    submit(more, node)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # after an interrupt, requests that are running are not awaited
        return root.in_order()

    def _endless(self, text: str) -> MetadataFormatError:
        return MetadataFormatError(f"{self._what()} failed: {text}", next_step="report it to the server's maintainers")

    def _page(self, task: str, reader: ScanTaskReader) -> tuple[Page, Sequence[str]]:
        reply = self._send(Endpoint.FETCH_TASKS, body={"plan-task": task})
        if reply.status == NOT_FOUND:
            raise _PlanDroppedError
        if not reply.is_success:
            raise reply.error(f"the files of a scan of table {dotted(self._identifier)!r} could not be fetched")
        tasks, stream = self._parse_reply(reply, ScanTasks, reader)
        return reader.page(tasks, stream), tasks.plan_tasks or ()

    def _send(self, endpoint: Endpoint, *, body: object = None, plan_id: str = "") -> Reply:
        return self._connection.request(
            endpoint,
            self._identifier,
            body=body,
            headers={**ACCEPT, **(self._connection.delegation if endpoint is not Endpoint.FETCH_TASKS else {})},
            token=self._access.token,
            plan_id=plan_id,
            is_repeatable=True,
        )

    def _cancel(self, plan_id: str) -> None:
        if plan_id and self._connection.paths.has(Endpoint.CANCEL_PLAN):
            with suppress(IcefloeError):
                self._send(Endpoint.CANCEL_PLAN, plan_id=plan_id)

    def _what(self) -> str:
        return f"the planning of a scan of table {dotted(self._identifier)!r} by the server of catalog {self._connection.name!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": self._connection.for_requests()}

    def __repr__(self) -> str:
        return f"RestScanPlanner({dotted(self._identifier)!r})"


def _sendable(row_filter: BooleanExpression) -> tuple[BooleanExpression, BooleanExpression]:
    """Divide a bound filter into the part that is sent to the server, and the rest, which is only evaluated here.

    The rest are terms without a JSON form, such as a comparison with an infinite number, and sets of many values. For IN, the range of the set is sent.
    """
    sent: list[BooleanExpression] = []
    unsent: list[BooleanExpression] = []
    for term in row_filter.terms if isinstance(row_filter, And) else (row_filter,):
        wider = _without_set(term)
        try:
            expression_to_json(wider)
        except InvalidFilterError:
            unsent.append(term)
        else:
            sent.append(wider)
            if wider is not term:
                unsent.append(term)
    return all_of(sent), all_of(unsent)


def _without_set(term: BooleanExpression) -> BooleanExpression:
    """Replace an IN with very many values by their range, and a NOT IN by IS NOT NULL, which match at least the same rows; return other terms unchanged."""
    if not isinstance(term, BoundPredicate) or len(term.values) <= MOST_VALUES:
        return term
    if term.operation is PredicateOperator.NOT_IN:
        return replace(term, operation=PredicateOperator.NOT_NULL, values=())
    first, last = term.values[:1], term.values[-1:]
    return And(
        replace(term, operation=PredicateOperator.GT_EQ, values=first), replace(term, operation=PredicateOperator.LT_EQ, values=last)
    )


def _body(request: PlanRequest, sent: BooleanExpression) -> dict[str, Any]:
    names = [request.schema.find_column_name(field_id) for field_id in request.statistics]
    optional: dict[str, Any] = {
        "select": list(request.columns),
        "filter": None if isinstance(sent, AlwaysTrue) else expression_to_json(sent),
        "min-rows-requested": request.enough_rows,
        "stats-fields": [name for name in names if name is not None],
    }
    body: dict[str, Any] = {"case-sensitive": request.case_sensitive, "use-snapshot-schema": request.uses_snapshot_schema}
    if request.after is None:
        body["snapshot-id"] = request.snapshot_id
    else:
        body |= {"start-snapshot-id": request.after, "end-snapshot-id": request.snapshot_id}
    return body | {name: value for name, value in optional.items() if value not in (None, [])}
