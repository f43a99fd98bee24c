"""A served catalog in this process, and requests to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.server.openapi import check_answer, json_of_answer

from icefloe.catalog import load_catalog
from icefloe.catalog.catalog import Catalog
from icefloe.server.access_control import Users
from icefloe.server.application import application
from icefloe.server.served_locations import strict_properties
from icefloe.server.server_settings import ServerLimits, ServerSettings

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "day", "required": False, "type": "int"},
        {"id": 3, "name": "name", "required": False, "type": "string"},
    ],
}


@dataclass(frozen=True)
class Served:
    """A catalog, and a client of the server in front of it."""

    catalog: Catalog
    client: TestClient
    warehouse: Path

    def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None, expect: int = 200, **headers: str) -> Any:
        """Send a request, check its status, and return the JSON of the response."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        response = self.client.request(method, f"/v1{path}", json=body, headers=sent)
        assert response.status_code == expect, response.text
        return response.json() if response.content else None

    def create(self, name: str = "t", namespace: str = "db", **more: Any) -> Any:
        """Create a table, and its namespace where it is missing."""
        self.client.post("/v1/namespaces", json={"namespace": namespace.split("\x1f")})
        path = f"/namespaces/{namespace.replace(chr(31), '%1F')}/tables"
        return self.ask("POST", path, {"name": name, "schema": SCHEMA, **more})


def serve(catalog: Catalog, users: Users | None = None, limits: ServerLimits | None = None, allowed: tuple[str, ...] = ()) -> TestClient:
    """Return a client of a server for a catalog; without authentication the client is on this machine."""
    catalog.properties = strict_properties(catalog.properties, allowed)
    limits = limits or ServerLimits(requests_per_second=0, refused_per_second=0)
    app = application(ServerSettings(catalog=catalog, users=users, limits=limits, key=b"k" * 32))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    client.event_hooks["response"].append(_check)
    return client


def _check(response: Any) -> None:
    """Check a response against the OpenAPI document, where there is one."""
    content = response.read()
    path = response.request.url.raw_path.decode().partition("?")[0]
    check_answer(response.request.method, path, response.status_code, json_of_answer(response.headers.get("content-type", ""), content))


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    folder = tmp_path / "warehouse"
    folder.mkdir()
    return folder


@pytest.fixture
def served(warehouse: Path) -> Iterator[Served]:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    yield Served(catalog, serve(catalog), warehouse)
    catalog.close()
