"""Connections of clients that send nothing, too little or too slowly: they shut out no other client, without a token and with one."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from tests.server.test_access_control import TOKENS, USERS

from icefloe.catalog import load_catalog
from icefloe.server.serve import server_config
from icefloe.server.served_locations import strict_properties
from icefloe.server.server_settings import ServerLimits, ServerSettings
from icefloe.stores.sql_store import SqlCatalogStore

MOST = 10
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW_TOKEN = (
    b"POST /v1/oauth/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nx"
)


@contextmanager
def running(folder: Path, **limits: Any) -> Iterator[tuple[str, int, uvicorn.Server]]:
    """Run a server with users, and yield its host, its port and itself."""
    (folder / "w").mkdir()
    with load_catalog("lake", warehouse=str(folder / "w")) as catalog:
        catalog.properties = strict_properties(catalog.properties)
        most = ServerLimits(**{"connections": MOST, "refused_per_second": 0, "requests_per_second": 0, **limits})
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 4096
        )  # few responses fill it; the system's own would take those of 20,000 requests
        host, port = listening.getsockname()
        server = uvicorn.Server(server_config(ServerSettings(catalog=catalog, users=USERS, limits=most, key=b"k" * 32), port, None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield host, port, server
        server.should_exit = True
        thread.join(20)
        listening.close()


def wait_until(is_true: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def is_closed(connection: socket.socket) -> bool:
    """Wait until the server closes a connection, with or without a reset."""
    connection.settimeout(60)
    with suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True


def send_slowly(connection: socket.socket, content: bytes) -> None:
    for byte in content:
        connection.sendall(bytes([byte]))
        time.sleep(0.1)


def namespaces(host: str, port: int) -> int:
    with httpx.Client(trust_env=False) as client:
        headers = {"Authorization": f"Bearer {TOKENS['admin']}"}
        return client.get(f"http://{host}:{port}/v1/namespaces", headers=headers, timeout=120).status_code


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /health HT", SLOW_TOKEN, REQUEST, REQUEST + b"GET"],
    ids=["nothing", "half a head", "half a body", "idle", "idle, then a head"],
)
def test_connections_that_wait_for_their_client_shut_no_client_out(tmp_path: Path, sent: bytes) -> None:
    with running(tmp_path) as (host, port, server), ExitStack() as connections:
        for _ in range(3 * MOST):
            connection = connections.enter_context(socket.create_connection((host, port)))
            connection.sendall(sent)
            if sent.startswith(REQUEST):
                assert b" 200 " in connection.recv(10_000)
        for _ in range(3):
            assert namespaces(host, port) == 200
        assert len(server.server_state.connections) <= MOST + 1


@pytest.mark.parametrize(
    "sent", [b"", b"GET /health HT", REQUEST, REQUEST + b"G"], ids=["nothing", "half a head", "idle", "idle, then a head"]
)
def test_a_connection_without_a_whole_head_in_time_is_closed(tmp_path: Path, sent: bytes) -> None:
    with running(tmp_path, idle_s=1) as (host, port, server), socket.create_connection((host, port)) as connection:
        connection.sendall(sent)
        connection.settimeout(20)
        with suppress(ConnectionResetError):
            while connection.recv(10_000):
                pass
        wait_until(lambda: not server.server_state.connections)


def test_a_head_that_is_sent_byte_by_byte_has_no_more_time(tmp_path: Path) -> None:
    with running(tmp_path, idle_s=1) as (host, port, server), socket.create_connection((host, port)) as connection:
        began = time.monotonic()
        with pytest.raises(OSError):  # broken pipe or reset
            send_slowly(connection, REQUEST * 5)
        assert time.monotonic() - began < 15
        wait_until(lambda: not server.server_state.connections)


def test_a_client_that_reads_no_response_keeps_no_connection(tmp_path: Path) -> None:
    with running(tmp_path, idle_s=1) as (host, port, server), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((host, port))
        connection.settimeout(5)
        with suppress(OSError):  # full buffers, or a reset
            connection.sendall(REQUEST * 100_000)
        wait_until(lambda: not server.server_state.connections)
        assert server.server_state.total_requests < 100_000


def test_a_worker_has_time_to_start_on_a_busy_machine(tmp_path: Path) -> None:
    with load_catalog("lake", warehouse=str(tmp_path)) as catalog:
        config = server_config(ServerSettings(catalog=catalog, key=b"k" * 32), 0, None)
        assert config.timeout_worker_healthcheck >= 60


def test_a_request_that_runs_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, answers = threading.Event(), threading.Event(), []
    listed = SqlCatalogStore.list_namespaces

    def slow(self: SqlCatalogStore, *arguments: Any) -> Any:
        begun.set()
        may_end.wait(120)
        return listed(self, *arguments)

    monkeypatch.setattr(SqlCatalogStore, "list_namespaces", slow)
    with running(tmp_path) as (host, port, server), ExitStack() as connections:
        asking = threading.Thread(target=lambda: answers.append(namespaces(host, port)))
        asking.start()
        assert begun.wait(20)
        idle = [connections.enter_context(socket.create_connection((host, port))) for _ in range(3 * MOST)]
        assert is_closed(idle[0]), "it was given up for a later one"
        may_end.set()
        asking.join()
        assert answers == [200]
        assert len(server.server_state.connections) <= MOST + 1
