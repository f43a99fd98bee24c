"""The answer of the server to a request that takes longer than it waits."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import SCHEMA, Served, serve
from tests.server.test_access_control import view_body

from icefloe.catalog import load_catalog
from icefloe.server.request_handler import _timed_out
from icefloe.server.rest_operations import OPERATIONS, RestOperation, Role
from icefloe.server.server_settings import ServerLimits
from icefloe.stores.sql_store import SqlCatalogStore


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_only_requests_that_change_nothing_are_to_be_repeated(operation: RestOperation) -> None:
    answer = _timed_out(operation)
    is_change = operation.role >= Role.WRITE
    assert (answer.code, "Retry-After" in dict(answer.headers)) == ((504, False) if is_change else (503, True))
    assert ("unknown whether it happens" in answer.message) == is_change


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/v1/namespaces/db/tables/t", None, 503, "ServiceUnavailableException"),
        ("POST", "/v1/namespaces/db/views", view_body("v"), 504, "CommitStateUnknownException"),
        ("POST", "/v1/namespaces/db/tables", {"name": "u", "schema": SCHEMA}, 504, "ServiceUnavailableException"),
        ("POST", "/v1/namespaces/db/tables/t", {"requirements": [], "updates": []}, 504, "CommitStateUnknownException"),
    ],
)
def test_a_slow_operation_has_a_response_in_time_and_runs_to_its_end(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any, status: int, kind: str
) -> None:
    with load_catalog("lake", warehouse=str(warehouse)) as catalog:
        served = Served(catalog, serve(catalog, limits=ServerLimits(request_s=1, requests_per_second=0)), warehouse)
        served.create()
        may_end, ended = threading.Event(), threading.Event()
        store: Any = SqlCatalogStore
        for name in ("load", "namespace_properties"):
            monkeypatch.setattr(store, name, slow(getattr(store, name), may_end, ended))
        began = time.monotonic()
        answer = served.client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["error"]["type"], "Retry-After" in answer.headers) == (status, kind, status == 503)
        assert time.monotonic() - began < 20
        assert not ended.is_set()
        may_end.set()
        assert ended.wait(20)


def slow(method: Any, may_end: threading.Event, ended: threading.Event) -> Any:
    def call(*arguments: Any) -> Any:
        may_end.wait(20)
        try:
            return method(*arguments)
        finally:
            ended.set()

    return call
