"""The endpoint for load balancers."""

import threading
from collections.abc import Callable

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.server.conftest import Served

from icefloe.errors import StorageUnavailableError
from icefloe.server import health
from icefloe.server.health import Health


def client_of(read: Callable[[], object], clock: Callable[[], float]) -> TestClient:
    return TestClient(Starlette(routes=[Route("/health", Health(read, clock).respond)]))


def test_a_server_whose_catalog_can_be_read_is_well(served: Served) -> None:
    response = served.client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_any_number_of_requests_read_the_catalog_once_in_a_second() -> None:
    now, reads, is_away = [0.0], [0], [False]

    def read() -> None:
        reads[0] += 1
        if is_away[0]:
            raise StorageUnavailableError("the database is away")

    with client_of(read, lambda: now[0]) as client:
        assert {client.get("/health").status_code for _ in range(20)} == {200}
        assert reads == [1]
        is_away[0] = True
        now[0] = 0.9
        assert client.get("/health").status_code == 200
        now[0] = 1.0
        assert {client.get("/health").status_code for _ in range(20)} == {503}
        assert reads == [2]


def test_a_catalog_that_does_not_reply_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONGEST_S", 0.05)
    replied = threading.Event()
    try:
        with client_of(lambda: replied.wait(30), lambda: 0.0) as client:
            response = client.get("/health")
            replied.set()
    finally:
        replied.set()
    assert (response.status_code, response.json()) == (503, {"status": "unavailable"})


def test_a_catalog_that_does_not_reply_has_one_thread_however_many_requests_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LONGEST_S", 0.02)
    monkeypatch.setattr(health, "COUNTS_S", 0.0)
    replied, reads = threading.Event(), []

    def read() -> None:
        reads.append(1)
        replied.wait(30)

    with client_of(read, lambda: 0.0) as client:
        try:
            assert [client.get("/health").status_code for _ in range(4)] == [503] * 4
            assert len(reads) == 1
        finally:
            replied.set()
        monkeypatch.setattr(health, "LONGEST_S", 30.0)
        assert client.get("/health").status_code == 200
