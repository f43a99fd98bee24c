"""Requests that attack the server: names, locations, bodies, headers; nothing outside the warehouse is read, registered or deleted."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import SCHEMA, Served, serve
from tests.server.test_access_control import snapshot_at, statistics_at

from icefloe.catalog import load_catalog
from icefloe.server import request_handler
from icefloe.server.access_control import new_token
from icefloe.server.request import Answer
from icefloe.server.request_handler import RequestHandler
from icefloe.server.request_log import JsonFormatter
from icefloe.server.server_settings import ServerLimits

NAMES = ["..", ".", "a/b", "a\\b", "a\0b", "", " a", "a.b", "x" * 300, "a\x1b[2J", "a\nb"]
ENCODED = ["%2e%2e", "a%2Fb", "a%5Cb", "a%00b", "%20a", "a.b", "%FF%FE", "t%2Fmetrics", "..%2F..%2Fetc", "x" * 300, "%1B%5B2J"]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_warehouse(served: Served, name: str) -> None:
    served.ask("POST", "/namespaces", {"namespace": ["db"]})
    before = sorted(served.warehouse.parent.rglob("*"))
    served.ask("POST", "/namespaces", {"namespace": [name]}, expect=400)
    served.ask("POST", "/namespaces/db/tables", {"name": name, "schema": SCHEMA}, expect=400)
    served.ask("POST", "/namespaces/db/register", {"name": name, "metadata-location": f"{served.warehouse}/x.json"}, expect=400)
    rename = {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": [name], "name": "t"}}
    served.ask("POST", "/tables/rename", rename, expect=400)
    assert sorted(served.warehouse.parent.rglob("*")) == before


@pytest.mark.parametrize("name", ENCODED)
def test_no_encoded_name_in_a_path_is_another_path(served: Served, name: str) -> None:
    served.create()
    for method, path in (
        ("GET", f"/v1/namespaces/db/tables/{name}"),
        ("DELETE", f"/v1/namespaces/{name}"),
        ("POST", f"/v1/namespaces/db/tables/{name}"),
    ):
        request = served.client.build_request(method, "http://localhost/", json={} if method == "POST" else None)
        request.url = request.url.copy_with(raw_path=path.encode())
        assert served.client.send(request).status_code in (400, 404), path
    assert served.catalog.list_tables("db") == [("db", "t")]


def outside(served: Served) -> list[str]:
    folder = served.warehouse.parent
    (folder / "elsewhere" / "metadata").mkdir(parents=True, exist_ok=True)
    link = served.warehouse / "link"
    if not link.is_symlink():
        link.symlink_to(folder / "elsewhere")
    return [
        f"{folder}/elsewhere",
        f"file://{folder}/elsewhere",
        f"{served.warehouse}/../elsewhere",
        f"{served.warehouse}/link",
        f"{served.warehouse}/link/deeper",
        f"{served.warehouse}-neighbour/x",
        str(served.warehouse),
        "/",
        "/etc",
        "relative/folder",
        "../elsewhere",
        "http://169.254.169.254/latest/meta-data",
        "http:/169.254.169.254/latest",
        "s3://other-bucket/x",
        "gs://other-bucket/x",
        "hdfs://internal:8020/x",
        "abfss://c@internal.example/x",
        "memory://x",
        "\0",
    ]


def partition_statistics_at(path: str) -> dict[str, Any]:
    return {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1}


def refused(served: Served, method: str, path: str, body: Any) -> None:
    response = served.client.request(method, f"/v1{path}", json=body)
    assert response.status_code in (400, 403), (body, response.text)


def test_no_location_outside_the_warehouse_can_be_named(served: Served) -> None:
    served.create()
    table = served.catalog.load_table("db.t")
    for place in outside(served):
        refused(served, "POST", "/namespaces/db/tables", {"name": "x", "schema": SCHEMA, "location": place})
        refused(served, "POST", "/namespaces/db/tables", {"name": "x", "schema": SCHEMA, "location": place, "stage-create": True})
        refused(served, "POST", "/namespaces", {"namespace": ["n"], "properties": {"location": place}})
        refused(served, "POST", "/namespaces/db/properties", {"updates": {"location": place}})
        if place == str(served.warehouse):
            continue  # a file there is in the warehouse
        refused(served, "POST", "/namespaces/db/register", {"name": "x", "metadata-location": f"{place}/metadata/v1.metadata.json"})
        refused(served, "POST", "/namespaces/db/register-view", {"name": "x", "metadata-location": f"{place}/metadata/v1.metadata.json"})
        for update in (
            {"action": "set-location", "location": place},
            {"action": "set-statistics", "statistics": statistics_at(f"{place}/s.puffin")},
            {"action": "set-partition-statistics", "partition-statistics": partition_statistics_at(f"{place}/s.parquet")},
            {"action": "add-snapshot", "snapshot": snapshot_at(f"{place}/snap.avro")},
        ):
            refused(served, "POST", "/namespaces/db/tables/t", {"requirements": [], "updates": [update]})
    assert served.catalog.load_table("db.t").metadata_location == table.metadata_location
    assert served.catalog.list_tables("db") == [("db", "t")]
    assert os.listdir(served.warehouse.parent / "elsewhere") == ["metadata"]


def test_a_forged_metadata_file_in_the_warehouse_is_no_way_out(served: Served) -> None:
    victim = served.warehouse.parent / "elsewhere"
    victim.mkdir()
    (victim / "kept.parquet").write_text("x")
    served.create()
    table = served.catalog.load_table("db.t")
    content = json.loads(Path(table.metadata_location).read_text())
    forged = served.warehouse / "db" / "forged" / "metadata"
    forged.mkdir(parents=True)
    for change in ({"location": str(victim)}, {"properties": {"write.data.path": str(victim)}}):
        (forged / "v1.metadata.json").write_text(json.dumps({**content, "location": f"{served.warehouse}/db/forged", **change}))
        served.ask("POST", "/namespaces/db/register", {"name": "x", "metadata-location": f"{forged}/v1.metadata.json"}, expect=403)
    (forged / "v1.metadata.json").write_text("{")
    served.ask("POST", "/namespaces/db/register", {"name": "x", "metadata-location": f"{forged}/v1.metadata.json"}, expect=400)
    assert (victim / "kept.parquet").exists()


def test_a_folder_that_the_operator_allows_can_be_named(warehouse: Path) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    other = warehouse.parent / "other"
    served = Served(catalog, serve(catalog, allowed=(str(other),)), warehouse)
    served.create(location=f"{other}/t")
    assert (other / "t" / "metadata").is_dir()
    catalog.close()


@pytest.mark.parametrize(
    "body",
    [b"{", b"[1]", b"nul", b'{"namespace": 7}', b'{"namespace": ["a"], "properties": {"a": 1}}', b"[" * 100_000, b"\xff", b'"x"', b"null"],
)
def test_a_body_that_is_not_what_the_protocol_has_is_a_bad_request(served: Served, body: bytes) -> None:
    response = served.client.post("/v1/namespaces", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["type"] == "BadRequestException"


def test_a_long_body_is_refused_whatever_it_claims(warehouse: Path) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, limits=ServerLimits(body_bytes=1000, requests_per_second=0)), warehouse)
    long = json.dumps({"namespace": ["a" * 2000]})
    headers = {"Content-Type": "application/json"}
    assert served.client.post("/v1/namespaces", content=long, headers=headers).status_code == 413
    assert served.client.post("/v1/namespaces", content=iter([long.encode()] * 10), headers=headers).status_code == 413
    assert served.client.post("/v1/namespaces", content="x", headers={**headers, "Content-Length": "-7"}).status_code in (400, 413)
    catalog.close()


@pytest.mark.parametrize("body", ["[" + "[]," * 400 + "[]]", '{"a": [' + "1," * 800 + "1]}", "[" + "{}," * 400 + "{}]"])
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(warehouse: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, limits=ServerLimits(body_values=800, requests_per_second=0)), warehouse)
    headers = {"Content-Type": "application/json"}
    allowed = json.dumps({"namespace": ["db"], "properties": {str(number): "v" for number in range(700)}})
    assert served.client.post("/v1/namespaces", content=allowed, headers=headers).status_code == 200
    monkeypatch.setattr(request_handler.msgspec.json, "decode", pytest.fail)
    assert served.client.post("/v1/namespaces", content=body, headers=headers).status_code == 413
    catalog.close()


def test_bodies_are_decoded_and_responses_encoded_beside_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[bool] = []

    def recorded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                beside.append(True)
            else:
                beside.append(False)
            return real(*values)

        return call

    monkeypatch.setattr(RequestHandler, "_content", recorded(RequestHandler._content))
    monkeypatch.setattr(Answer, "encode", recorded(Answer.encode))
    served.create()
    served.ask("GET", "/namespaces/db/tables/t")
    assert len(beside) == 6
    assert all(beside)


def test_an_unknown_path_or_method_is_an_error_in_json(served: Served) -> None:
    for method, path, status in (
        ("GET", "/v2/config", 404),
        ("PATCH", "/v1/namespaces", 405),
        ("GET", "/v1/namespaces/", 404),
        ("GET", "//v1/config", 404),
    ):
        request = served.client.build_request(method, "http://localhost/")
        request.url = request.url.copy_with(raw_path=path.encode())
        response = served.client.send(request)
        assert (response.status_code, response.json()["error"]["code"]) == (status, status)


def test_the_response_to_a_fault_of_the_server_has_no_detail_of_it(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(served.catalog.store, "list_namespaces", fail)
    with caplog.at_level(logging.ERROR, "icefloe.server"):
        response = served.client.get("/v1/namespaces")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["X-Request-Id"] in str([getattr(record, "fields", {}) for record in caplog.records])


def test_no_token_and_no_line_break_of_a_client_is_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    token = new_token()
    with caplog.at_level(logging.DEBUG):
        served.client.get("/v1/namespaces/a%0Ab", headers={"Authorization": f"Bearer {token}"}, params={"pageToken": token})
        served.client.post("/v1/oauth/tokens", data={"client_secret": token, "grant_type": "client_credentials"})
    lines = [JsonFormatter().format(record) for record in caplog.records if record.name == "icefloe.server"]
    assert len(lines) == 2
    assert not any(token in line or "\n" in line for line in lines)
    assert json.loads(lines[0])["operation"] == "loadNamespaceMetadata"
