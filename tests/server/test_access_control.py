"""Who may do what: tokens, roles in namespaces, and every operation of the protocol tried with each role."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from tests.server.conftest import SCHEMA, Served, serve
from tests.stores.glue_double import Glue

from icefloe.catalog import load_catalog
from icefloe.catalog.glue_catalog import GlueCatalog
from icefloe.errors import IcefloeError, InvalidInputError, StoragePermissionError
from icefloe.server.access_control import Grant, User, Users, new_token, token_digest
from icefloe.server.access_tokens import PREFIX, AccessTokens
from icefloe.server.application import HANDLERS, application
from icefloe.server.request import NO_CONTENT, Answer, Call
from icefloe.server.request_handler import RequestHandler
from icefloe.server.rest_operations import OPERATIONS, RestOperation, Role
from icefloe.server.server_settings import ServerLimits, ServerSettings
from icefloe.server.signed_text import SignedText
from icefloe.server.users_file import add_user, read_token, read_users

TOKENS = {name: new_token() for name in ("admin", "reader", "writer", "sales", "stranger")}
GRANTS = {
    "admin": ["admin"],
    "reader": ["read"],
    "writer": ["write"],
    "sales": ["admin:sales", "read:open.data"],
    "stranger": ["read:nowhere"],
}
USERS = Users.of(
    User(name=name, token_sha256=token_digest(TOKENS[name]), grants=tuple(map(Grant.of, grants))) for name, grants in GRANTS.items()
)


@pytest.fixture
def guarded(warehouse: Path) -> Iterator[Served]:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, USERS), warehouse)
    for namespace in (["db"], ["sales"], ["sales", "eu"], ["open"], ["open", "data"]):
        served.ask("POST", "/namespaces", {"namespace": namespace}, token=TOKENS["admin"])
    for namespace in ("db", "sales", "open%1Fdata"):
        served.ask("POST", f"/namespaces/{namespace}/tables", {"name": "t", "schema": SCHEMA}, token=TOKENS["admin"])
        served.ask("POST", f"/namespaces/{namespace}/views", view_body("v"), token=TOKENS["admin"])
    yield served
    catalog.close()


def view_body(name: str, **properties: str) -> dict[str, Any]:
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1,
        "summary": {},
        "default-namespace": ["db"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    return {"name": name, "schema": {"type": "struct", "fields": []}, "view-version": version, "properties": properties}


def path_of(operation: RestOperation, namespace: str = "db") -> str:
    return operation.path.format(namespace=namespace, table="t", view="v", function="f", **{"plan-id": "x"})


def body_of(operation: RestOperation, namespace: str = "db") -> Any:
    name = {"namespace": namespace.split("%1F"), "name": "t"}
    if operation.method != "POST":
        return None
    if operation.name == "createNamespace":
        return {"namespace": [*namespace.split("%1F"), "new"]}
    if operation.name in ("renameTable", "renameView"):
        return {"source": {**name, "name": "t" if operation.name == "renameTable" else "v"}, "destination": {**name, "name": "u"}}
    if operation.name == "commitTransaction":
        return {"table-changes": [{"identifier": name, "requirements": [], "updates": []}]}
    return {}


def status(served: Served, operation: RestOperation, token: str | None, namespace: str = "db") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return served.client.request(
        operation.method, path_of(operation, namespace), json=body_of(operation, namespace), headers=headers
    ).status_code


GUARDED = [operation for operation in OPERATIONS if operation.role > Role.ANY]


def test_every_operation_needs_a_token_but_the_one_that_gives_tokens(guarded: Served) -> None:
    for operation in OPERATIONS:
        for token in (None, "x", TOKENS["admin"][:-1], TOKENS["admin"] + "x"):
            expected = 400 if operation.name == "getToken" else 401
            assert status(guarded, operation, token) == expected, operation.name


def test_a_reader_can_do_nothing_that_changes_a_table_or_a_namespace(guarded: Served) -> None:
    before = sorted(path.name for path in guarded.warehouse.rglob("*.json"))
    refused = {operation.name for operation in GUARDED if status(guarded, operation, TOKENS["reader"]) == 403}
    assert refused == {operation.name for operation in GUARDED if operation.role > Role.READ}
    assert len(refused) == 15
    assert sorted(path.name for path in guarded.warehouse.rglob("*.json")) == before
    assert guarded.catalog.list_tables("db") == [("db", "t")]


def test_no_body_is_read_of_a_user_without_the_role(guarded: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    async def recorded(request: Any, _: int) -> bytes:
        read.append(request.url.path)
        return await request.body()

    monkeypatch.setattr(RequestHandler, "_body", staticmethod(recorded))
    for operation in GUARDED:
        if operation.role > Role.READ:
            assert status(guarded, operation, TOKENS["reader"]) == 403, operation.name
        if "{namespace}" in operation.path:
            assert status(guarded, operation, TOKENS["stranger"]) == 403, operation.name
    assert read == []
    status(guarded, next(one for one in GUARDED if one.name == "createNamespace"), TOKENS["sales"])
    assert read == ["/v1/namespaces"]  # a role in another namespace shows only after the body was decoded


def test_a_writer_changes_tables_and_no_namespace(guarded: Served) -> None:
    refused = {operation.name for operation in GUARDED if operation.role > Role.WRITE}
    for operation in GUARDED:
        if operation.name in refused:
            assert status(guarded, operation, TOKENS["writer"]) == 403, operation.name
    assert refused == {"createNamespace", "dropNamespace", "updateProperties", "registerTable", "unregisterTable", "registerView"}
    assert status(guarded, next(one for one in GUARDED if one.name == "dropTable"), TOKENS["writer"]) == 204


@pytest.mark.parametrize("namespace", ["db", "open", "missing"])
def test_nothing_is_done_outside_the_namespaces_of_a_token_and_the_response_reveals_nothing_about_them(
    guarded: Served, namespace: str
) -> None:
    for operation in GUARDED:
        if operation.name == "listNamespaces":
            continue
        answer = guarded.client.request(
            operation.method,
            path_of(operation, namespace),
            json=body_of(operation, namespace),
            headers={"Authorization": f"Bearer {TOKENS['sales']}"},
        )
        assert answer.status_code == 403, operation.name


def test_only_namespaces_are_listed_that_lead_to_one_of_the_token(guarded: Served) -> None:
    assert guarded.ask("GET", "/namespaces", token=TOKENS["sales"])["namespaces"] == [["open"], ["sales"]]
    assert guarded.ask("GET", "/namespaces?parent=open", token=TOKENS["sales"])["namespaces"] == [["open", "data"]]
    assert guarded.ask("GET", "/namespaces", token=TOKENS["stranger"])["namespaces"] == []
    guarded.ask("GET", "/namespaces?parent=db", token=TOKENS["sales"], expect=403)


def test_a_role_holds_in_the_namespaces_below(guarded: Served) -> None:
    guarded.ask("POST", "/namespaces/sales%1Feu/tables", {"name": "t", "schema": SCHEMA}, token=TOKENS["sales"])
    guarded.ask("GET", "/namespaces/open%1Fdata/tables/t", token=TOKENS["sales"])
    guarded.ask("DELETE", "/namespaces/open%1Fdata/tables/t", token=TOKENS["sales"], expect=403)


def test_both_names_of_a_rename_and_every_table_of_a_transaction_are_checked(guarded: Served) -> None:
    here, there = {"namespace": ["sales"], "name": "t"}, {"namespace": ["db"], "name": "u"}
    guarded.ask("POST", "/tables/rename", {"source": here, "destination": there}, token=TOKENS["sales"], expect=403)
    guarded.ask(
        "POST",
        "/tables/rename",
        {"source": {**there, "name": "t"}, "destination": {**here, "name": "u"}},
        token=TOKENS["sales"],
        expect=403,
    )
    changes = [{"identifier": name, "requirements": [], "updates": []} for name in (here, {**there, "name": "t"})]
    guarded.ask("POST", "/transactions/commit", {"table-changes": changes}, token=TOKENS["sales"], expect=403)


def test_an_admin_of_a_namespace_gets_no_hold_of_the_folder_of_another(guarded: Served) -> None:
    token, other = TOKENS["sales"], guarded.catalog.load_table("db.t")
    folder = f"{guarded.warehouse}/db/t"
    guarded.ask("POST", "/namespaces/sales/tables", {"name": "x", "schema": SCHEMA, "location": folder}, token=token, expect=403)
    guarded.ask("POST", "/namespaces/sales/properties", {"updates": {"location": f"{guarded.warehouse}/db"}}, token=token, expect=403)
    guarded.ask("POST", "/namespaces/sales/register", {"name": "x", "metadata-location": other.metadata_location}, token=token, expect=403)
    for update in (
        {"action": "set-location", "location": folder},
        {"action": "set-properties", "updates": {"write.data.path": f"{folder}/data"}},
        {"action": "set-statistics", "statistics": statistics_at(f"{folder}/metadata/s.puffin")},
        {"action": "add-snapshot", "snapshot": snapshot_at(f"{folder}/metadata/snap.avro")},
    ):
        guarded.ask("POST", "/namespaces/sales/tables/t", {"requirements": [], "updates": [update]}, token=token, expect=403)


@pytest.mark.parametrize("name", ["write.metadata.path", "write.data.path"])
def test_no_view_is_written_into_the_folder_of_another_namespace(guarded: Served, name: str) -> None:
    token, folder = TOKENS["sales"], f"{guarded.warehouse}/db/t/metadata"
    before = sorted(guarded.warehouse.rglob("*"))
    for path in (folder, f"file://{folder}", "../../db/t/metadata"):
        guarded.ask("POST", "/namespaces/sales/views", view_body("w", **{name: path}), token=token, expect=403)
        update = {"action": "set-properties", "updates": {name: path}}
        guarded.ask("POST", "/namespaces/sales/views/v", {"requirements": [], "updates": [update]}, token=token, expect=403)
    assert sorted(guarded.warehouse.rglob("*")) == before
    own = f"{guarded.warehouse}/sales/w/files"
    view = guarded.ask("POST", "/namespaces/sales/views", view_body("w", **{name: own}), token=token)
    moved = {**view["metadata"], "properties": {name: folder}}
    forged = Path(guarded.warehouse, "sales", "forged.metadata.json")
    forged.write_text(json.dumps(moved))
    guarded.ask("POST", "/namespaces/sales/register-view", {"name": "x", "metadata-location": str(forged)}, token=token, expect=403)
    guarded.ask("DELETE", "/namespaces/sales/views/w", token=token, expect=204)
    guarded.ask("POST", "/namespaces/sales/register-view", {"name": "x", "metadata-location": view["metadata-location"]}, token=token)


def test_metrics_reports_are_shown_to_those_who_may_read_the_table(guarded: Served) -> None:
    def report(number: int) -> dict[str, Any]:
        return {
            "report-type": "commit-report",
            "table-name": "t",
            "snapshot-id": number,
            "sequence-number": number,
            "operation": "append",
            "metrics": {"total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": number}},
        }

    def shown(user: str) -> list[Any]:
        answer = guarded.client.get("/reports", headers={"Authorization": f"Bearer {TOKENS[user]}"})
        assert answer.status_code == 200
        reports: list[Any] = answer.json()["reports"]
        return reports

    assert shown("admin") == []
    before_ms = time.time_ns() // 1_000_000
    guarded.ask("POST", "/namespaces/db/tables/t/metrics", report(1), token=TOKENS["writer"], expect=204)
    guarded.ask("POST", "/namespaces/sales/tables/t/metrics", report(2), token=TOKENS["sales"], expect=204)
    guarded.ask("POST", "/namespaces/open%1Fdata/tables/t/metrics", report(3), token=TOKENS["reader"], expect=204)
    guarded.ask("POST", "/namespaces/db/tables/t/metrics", report(4), token=TOKENS["sales"], expect=403)
    guarded.ask("POST", "/namespaces/db/tables/missing/metrics", report(5), token=TOKENS["writer"], expect=404)
    every = shown("admin")
    assert all(before_ms <= entry.pop("received-ms") <= time.time_ns() // 1_000_000 for entry in every)
    assert every == [
        {"user": "reader", "table": {"namespace": ["open", "data"], "name": "t"}, "report": report(3)},
        {"user": "sales", "table": {"namespace": ["sales"], "name": "t"}, "report": report(2)},
        {"user": "writer", "table": {"namespace": ["db"], "name": "t"}, "report": report(1)},
    ]
    numbers = {user: [entry["report"]["snapshot-id"] for entry in shown(user)] for user in TOKENS}
    assert numbers == {"admin": [3, 2, 1], "reader": [3, 2, 1], "writer": [3, 2, 1], "sales": [3, 2], "stranger": []}
    assert guarded.client.get("/reports").status_code == 401


def statistics_at(path: str) -> dict[str, Any]:
    return {"snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}


def snapshot_at(path: str) -> dict[str, Any]:
    return {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 4102444800000,
        "manifest-list": path,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }


def test_client_credentials_give_a_token_that_runs_out(guarded: Served) -> None:
    form = {"grant_type": "client_credentials", "client_id": "reader", "client_secret": TOKENS["reader"], "scope": "catalog"}
    answer = guarded.client.post("/v1/oauth/tokens", data=form)
    token = answer.json()["access_token"]
    assert (answer.json()["token_type"], answer.json()["expires_in"], answer.json()["scope"]) == ("bearer", 3600, "catalog")
    guarded.ask("GET", "/namespaces", token=token)
    guarded.ask("DELETE", "/namespaces/db/tables/t", token=token, expect=403)
    exchange = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": token, "subject_token_type": "x"}
    guarded.ask("GET", "/namespaces", token=guarded.client.post("/v1/oauth/tokens", data=exchange).json()["access_token"])
    wrong = guarded.client.post("/v1/oauth/tokens", data={**form, "client_secret": "x"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert guarded.client.post("/v1/oauth/tokens", data={"grant_type": "password"}).json()["error"] == "unsupported_grant_type"
    basic = guarded.client.post("/v1/oauth/tokens", data={"grant_type": "client_credentials"}, auth=("reader", TOKENS["reader"]))
    assert basic.status_code == 200


def test_an_access_token_is_of_one_server_one_secret_and_one_hour() -> None:
    user = USERS.by_name["reader"]
    tokens = AccessTokens(USERS, b"a")
    token = tokens.token_of(user)
    assert tokens.user_of(token) is user
    assert AccessTokens(USERS, b"b").user_of(token) is None
    assert AccessTokens(USERS, b"a").user_of(AccessTokens(USERS, b"a", lifetime_s=-1).token_of(user)) is None
    assert tokens.user_of(PREFIX + SignedText(b"a", "plan").seal({"user": "reader"})) is None
    changed = Users.of([User(name="reader", token_sha256=token_digest("other"), grants=user.grants)])
    assert AccessTokens(changed, b"a").user_of(token) is None
    head, signed = token.split(".")
    for forged in (
        head,
        f"{head}.",
        f"{head}.{signed[:-1]}",
        f"{head}.{signed[::-1]}",
        f"{head}.{signed}xxxx",
        f"{head}.{signed[20:]}",
        f"{head}.é",
    ):
        assert tokens.user_of(forged) is None


def test_tokens_are_in_the_file_as_digests_alone_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    token = add_user(str(path), "etl", (Grant.of("write:sales"), Grant.of("read")))
    other = add_user(str(path), "bi", (Grant.of("read"),))
    assert token not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    users = read_users(str(path))
    assert users.of_token(token) is users.by_name["etl"]
    assert [str(grant) for grant in users.by_name["etl"].grants] == ["write:sales", "read"]
    assert token not in repr(users)
    again = add_user(str(path), "etl", (Grant.of("read"),))
    assert read_users(str(path)).of_token(token) is None
    assert read_users(str(path)).of_token(again) is not None
    assert read_users(str(path)).of_token(other) is not None
    path.chmod(0o666)
    with pytest.raises(StoragePermissionError, match="may change the file"):
        read_users(str(path))


@pytest.mark.parametrize(
    "text", ["users: [a]", "users: {a: {grants: [read]}}", "users: {a: {token-sha256: x, grants: [read]}}", "{", "a: b", ""]
)
def test_a_damaged_file_of_users_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.yaml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InvalidInputError):
        read_users(str(path))


def test_a_token_file_has_one_long_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = new_token()
    path.write_text(f"{token}\n")
    path.chmod(0o600)
    users = read_token(str(path))
    assert str(users.by_name["admin"].grants[0]) == "admin"
    assert users.of_token(token) is not None
    path.chmod(0o440)  # a secret that an orchestrator mounts for a group
    assert read_token(str(path)).of_token(token) is not None
    for mode, text in ((0o604, "may read the token"), (0o620, "may change the file")):
        path.chmod(mode)
        with pytest.raises(StoragePermissionError, match=text):
            read_token(str(path))
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(InvalidInputError, match="fewer than 32"):
        read_token(str(path))


def test_users_that_are_added_at_the_same_time_are_all_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "users.yaml")
    names = [f"user{number}" for number in range(8)]
    program = "import sys; from icefloe.server.users_file import *; from icefloe.server.access_control import Grant\n"
    program += "for number in range(5): add_user(sys.argv[1], f'{sys.argv[2]}.{number}', (Grant.of('read'),))"
    processes = [subprocess.Popen([sys.executable, "-c", program, path, name]) for name in names[:3]]
    threads = [threading.Thread(target=add_user, args=(path, name, (Grant.of("read"),))) for name in names[3:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert set(read_users(path).by_name) == {*names[3:], *(f"{name}.{number}" for name in names[:3] for number in range(5))}


def test_a_process_that_ended_while_it_added_a_user_prevents_no_other_one(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    elsewhere = tmp_path / "elsewhere"
    for part in (f"{path}.{os.getpid()}.part", f"{path}.part"):
        Path(part).write_text("damaged")
    add_user(str(path), "etl", (Grant.of("read"),))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    Path(f"{path}.part").symlink_to(elsewhere)
    add_user(str(path), "bi", (Grant.of("read"),))
    assert set(read_users(str(path)).by_name) == {"etl", "bi"}
    assert not elsewhere.exists()


@pytest.mark.parametrize("name", ["missing/users.yaml", "users.yaml"])
def test_a_file_of_users_that_cannot_be_written_is_an_error_with_its_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "users.yaml.part").mkdir()
    with pytest.raises(IcefloeError) as failed:
        add_user(str(tmp_path / name), "etl", (Grant.of("read"),))
    assert str(tmp_path) in str(failed.value)


@pytest.mark.parametrize("text", ["", "owner", "read:", "read:a/b", "read:..", ":x"])
def test_a_grant_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        Grant.of(text)


def settings(served: Served, **more: Any) -> ServerSettings:
    return ServerSettings(catalog=served.catalog, key=b"k", **more)


def test_a_server_without_authentication_is_on_loopback_alone(served: Served) -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        settings(served, host=host)
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.com"):  # noqa: S104  none is listened on
        with pytest.raises(InvalidInputError, match="loopback"):
            settings(served, host=host)
        with pytest.raises(InvalidInputError, match="plain text"):
            settings(served, host=host, users=USERS)
        settings(served, host=host, users=USERS, behind_tls=True)
        settings(served, host=host, users=USERS, tls_certificate="c", tls_key="k")


@pytest.mark.parametrize(("behind_tls", "address"), [(False, "http://lake.example:8181"), (True, "https://lake.example:8181")])
def test_clients_send_their_tokens_to_the_proxy_that_ends_tls(
    served: Served, monkeypatch: pytest.MonkeyPatch, behind_tls: bool, address: str
) -> None:
    addresses: list[str] = []

    def keep_address(_: object, call: Call) -> Answer:
        addresses.append(call.base_url)
        return NO_CONTENT

    monkeypatch.setitem(HANDLERS, "getConfig", keep_address)
    app = application(settings(served, users=USERS, behind_tls=behind_tls))
    TestClient(app).get("/v1/config", headers={"Host": "lake.example:8181", "Authorization": f"Bearer {TOKENS['reader']}"})
    assert addresses == [address]


def test_several_workers_need_a_catalog_that_they_share(served: Served) -> None:
    with pytest.raises(InvalidInputError, match="PostgreSQL"):
        settings(served, workers=2)


def test_web_pages_cannot_use_a_server_without_authentication(served: Served) -> None:
    assert served.client.get("/v1/config", headers={"Host": "rebound.example"}).status_code == 403
    assert served.client.get("/v1/config", headers={"Origin": "https://page.example"}).status_code == 403
    plain = served.client.post("/v1/namespaces", content='{"namespace": ["a"]}', headers={"Content-Type": "text/plain"})
    assert plain.status_code == 400
    assert not served.catalog.list_namespaces()


def test_a_user_has_so_many_requests_and_guesses_are_slower(warehouse: Path) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, USERS, ServerLimits(requests_per_second=0.5, refused_per_second=0.5)), warehouse)
    served.ask("GET", "/config", token=TOKENS["reader"])
    answer = served.client.get("/v1/config", headers={"Authorization": f"Bearer {TOKENS['reader']}"})
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "2")
    served.ask("GET", "/config", token=TOKENS["writer"])
    served.ask("GET", "/config", token=new_token(), expect=401)
    served.ask("GET", "/config", token=new_token(), expect=429)
    catalog.close()


def test_clients_behind_one_proxy_get_tokens_whatever_others_guess(warehouse: Path) -> None:
    catalog = load_catalog("lake", warehouse=str(warehouse))
    served = Served(catalog, serve(catalog, USERS, ServerLimits(requests_per_second=1, refused_per_second=0.5)), warehouse)

    def status(name: str, secret: str) -> int:
        form = {"grant_type": "client_credentials", "client_id": name, "client_secret": secret}
        return served.client.post("/v1/oauth/tokens", data=form).status_code

    assert [status("reader", new_token()) for _ in range(3)] == [401, 429, 429]
    assert status("reader", TOKENS["reader"]) == 200
    assert [status("writer", TOKENS["writer"]) for _ in range(3)] == [200, 200, 429]  # the limit of the user
    long = served.client.post("/v1/oauth/tokens", data={"grant_type": "x" * 100_000})
    assert long.status_code == 413
    catalog.close()


@pytest.fixture
def in_glue(warehouse: Path) -> Served:
    catalog = GlueCatalog("lake", warehouse=str(warehouse))
    catalog.store._glue = Glue()
    users = Users.of([User(name="etl", token_sha256=token_digest(TOKENS["writer"]), grants=(Grant.of("write:sales"),))])
    return Served(catalog, serve(catalog, users), warehouse)


def test_a_writer_of_one_database_of_aws_creates_tables_in_the_folder_of_the_database(in_glue: Served) -> None:
    created = in_glue.ask("POST", "/namespaces/sales/tables", {"name": "orders", "schema": SCHEMA}, token=TOKENS["writer"])
    assert created["metadata"]["location"] == f"{in_glue.warehouse}/sales.db/orders"
    assert in_glue.catalog.load_table("sales.orders").append(pa.table({"id": [1], "day": pa.array([2], pa.int32()), "name": ["a"]}))
    planned = in_glue.ask("POST", "/namespaces/sales/tables/orders/plan", {}, token=TOKENS["writer"])
    assert len(planned["file-scan-tasks"]) == 1


@pytest.mark.parametrize("folder", ["sales/x", "hr.db/x", "hr.db", "x"])
def test_a_writer_of_one_database_of_aws_names_no_folder_outside_of_it(in_glue: Served, folder: str) -> None:
    body = {"name": "x", "schema": SCHEMA, "location": f"{in_glue.warehouse}/{folder}"}
    in_glue.ask("POST", "/namespaces/sales/tables", body, token=TOKENS["writer"], expect=403)
