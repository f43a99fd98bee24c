"""A catalog that restricts what may be read of a table sends the whole table: nothing of it is read, shown or written, whatever way it is opened."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from tests.combinations import combinations
from tests.stores.rest.conftest import server
from tests.stores.rest.rest_double import Answer, OneTable, RestDouble
from typer.testing import CliRunner

from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.cli.application import app
from icefloe.errors import IcefloeError, LocationNotAllowedError, UnsupportedFeatureError
from icefloe.explorer.server import CatalogTables, application
from icefloe.repair import plan
from icefloe.stores.rest.rest_paths import Endpoint

__all__ = ["server"]  # a fixture

ROWS = pa.table({"n": pa.array([7_654_321], pa.int64())})
SECRET = "7654321"  # noqa: S105  a value that the catalog withholds
FILTER = {"type": "not-eq", "term": "n", "value": 7_654_321}
RESTRICTED: dict[str, Any] = {"read-restrictions": {"required-row-filter": FILTER}}


@pytest.fixture
def stored(server: RestDouble, tmp_path: Path) -> OneTable:
    """Return the table `db.t` with a row, whose catalog restricts it from now on."""
    listed = [str(endpoint) for endpoint in Endpoint if endpoint is not Endpoint.TABLE_EXISTS]
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": listed}))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    server.on("GET", "/v1/namespaces/db", Answer(200, {"namespace": ["db"]}))
    server.on("GET", "/v1/namespaces/db/views", Answer(200, {"identifiers": []}))
    table = OneTable(server, str(tmp_path / "t"))
    RestCatalog("r", uri=server.uri).load_table("db.t").append(ROWS)
    table.result = RESTRICTED
    return table


def opened(server: RestDouble, **properties: str) -> RestCatalog:
    return RestCatalog("r", uri=server.uri, **properties)


def in_transaction(catalog: RestCatalog) -> None:
    with catalog.transaction() as transaction:
        transaction.load_table("db.t").append(ROWS)


def replaced(catalog: RestCatalog) -> None:
    catalog.replace_table("db.t", ROWS.schema)


WAYS: dict[str, Callable[[RestCatalog], Any]] = {
    "load": lambda catalog: catalog.load_table("db.t"),
    "load several": lambda catalog: catalog.load_tables("db.t"),
    "create if missing": lambda catalog: catalog.create_table_if_not_exists("db.t", ROWS.schema),
    "transaction": in_transaction,
    "replace": replaced,
    "handle": lambda catalog: catalog.handle_of("db.t"),
    "repair": lambda catalog: plan(catalog, "db.t"),
    "register": lambda catalog: catalog.register_table("db.u", "/x/metadata/v1.metadata.json"),
    "create": lambda catalog: catalog.create_table("db.u", ROWS.schema),
    "staged create": lambda catalog: catalog.create_table_transaction("db.u", ROWS.schema),
}


@pytest.mark.parametrize(("way", "mode"), combinations([*WAYS], [{}, {"snapshot-loading-mode": "refs"}, {"scan-planning-mode": "server"}]))
def test_no_way_opens_a_restricted_table(server: RestDouble, stored: OneTable, way: str, mode: dict[str, str]) -> None:
    for path in ("/v1/namespaces/db/register", "/v1/namespaces/db/tables"):
        server.on("POST", path, call=stored.load)
    with pytest.raises(UnsupportedFeatureError, match=r"catalog 'r' restricts what may be read of table 'db\.[tu]'") as refused:
        WAYS[way](opened(server, **mode))
    assert "required-row-filter" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "administrator" in str(refused.value)


@pytest.mark.parametrize(
    "result",
    [
        {"read-restrictions": {"required-column-projections": [{"field-id": 1, "transform": "null"}]}},
        {"read-restrictions": {"required-column-projections": [], "required-row-filter": FILTER}},
        {"read-restrictions": {"required-row-filter": False, "row-limit": 5}},
        {"read-restrictions": {"required-row-filter": {"type": "false"}}},
        {"read-restrictions": {"required-column-projections": True}},
        {"read-restrictions": [FILTER]},
        {"read-restrictions": "all"},
        {"read-restrictions": 1},
        {"read_restrictions": {"required-row-filter": FILTER}},
        {"readRestrictions": {"required-row-filter": FILTER}},
        {"required-masks": {"n": "sha256"}},
        {"required-engine": "trusted"},
        {"requires-attestation": True},
        {"require-audit": 1},
        {"requirements": [{"type": "assert-reader"}]},
        {"restrictions": {"columns": ["n"]}},
        {"must-apply": ["x"]},
    ],
)
def test_every_form_of_a_restriction_is_refused(server: RestDouble, stored: OneTable, result: dict[str, Any]) -> None:
    stored.result = result
    with pytest.raises(UnsupportedFeatureError, match=r"restricts what may be read") as refused:
        opened(server).load_table("db.t")
    assert next(iter(result)) in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "result",
    [
        {"read-restrictions": None},
        {"read-restrictions": {}},
        {"read-restrictions": {"required-column-projections": [], "required-row-filter": None}},
        {"read-restrictions": {"required-row-filter": {"type": "true"}}},
        {"read-restrictions": {"required-row-filter": True}},
        {"requires-attestation": False},
        {"required-masks": {}},
        {"remote-thing": {"required-row-filter": FILTER}, "labels": ["required"]},
    ],
)
def test_what_restricts_nothing_and_other_unknown_members_are_read(server: RestDouble, stored: OneTable, result: dict[str, Any]) -> None:
    stored.result = result
    assert opened(server).load_table("db.t").scan().to_arrow().equals(ROWS)


def test_a_table_that_was_open_before_is_not_refreshed_or_written(server: RestDouble, stored: OneTable) -> None:
    stored.result = {}
    table = opened(server, **{"rest-table-cache.max-entries": "0"}).load_table("db.t")
    stored.result = RESTRICTED
    with pytest.raises(UnsupportedFeatureError, match=r"restricts"):
        table.refresh()
    with pytest.raises(UnsupportedFeatureError, match=r"restricts"):
        table.expire_snapshots(2**53, retain_last=1)


def test_a_plan_of_the_server_with_restrictions_is_refused(server: RestDouble, stored: OneTable) -> None:
    stored.result = {}
    table = opened(server, **{"scan-planning-mode": "server"}).load_table("db.t")
    server.on("POST", f"{OneTable.path}/plan", Answer(200, {"status": "completed", "file-scan-tasks": [], **RESTRICTED}))
    with pytest.raises(UnsupportedFeatureError, match=r"restricts what may be read"):
        table.scan().to_arrow()


@pytest.mark.parametrize("where", ["plan", "page"])
@pytest.mark.parametrize("member", ["read_restrictions", "required-masks"])
def test_an_answer_of_a_plan_that_requires_something_is_refused(server: RestDouble, stored: OneTable, where: str, member: str) -> None:
    stored.result = {}
    table = opened(server, **{"scan-planning-mode": "server"}).load_table("db.t")
    demand = {member: {"n": "sha256"}}
    server.on(
        "POST", f"{OneTable.path}/plan", Answer(200, {"status": "completed", "plan-tasks": ["p"], **(demand if where == "plan" else {})})
    )
    server.on("POST", f"{OneTable.path}/tasks", Answer(200, {"file-scan-tasks": [], **demand}))
    with pytest.raises(UnsupportedFeatureError, match=r"restricts what may be read"):
        table.scan().to_arrow()


def test_what_comes_with_the_answer_to_a_commit_is_not_read_either(server: RestDouble, stored: OneTable) -> None:
    stored.result = {}
    table = opened(server).load_table("db.t")
    changed = {**stored._body(), **RESTRICTED}
    changed["metadata"] = {**changed["metadata"], "properties": {"of": "the server"}}
    stored.answers = [Answer(200, changed)]
    stored.result = RESTRICTED
    table.set_properties({"a": "b"})
    assert dict(table.properties) == {"a": "b"}
    with pytest.raises(UnsupportedFeatureError, match=r"restricts"):
        table.refresh()


UNREADABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "restricted": (RESTRICTED, {}),
    "of a newer version": ({}, {"format-version": 9}),
    "damaged": ({}, {"schemas": 5}),
    "planned in another way": ({"config": {"scan-planning-mode": "server"}}, {}),
}


@pytest.mark.parametrize("kind", UNREADABLE)
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_table_that_cannot_be_read_keeps_its_files_and_hinders_no_other_table(
    server: RestDouble, stored: OneTable, tmp_path: Path, kind: str, is_shared: bool
) -> None:
    stored.result = {}
    members, metadata = UNREADABLE[kind]
    folder = tmp_path if is_shared else tmp_path / "u"
    body = stored._body()
    body["metadata"] = {**body["metadata"], "location": str(folder), "table-uuid": "11111111-2222-3333-4444-555555555556", **metadata}
    names = [{"namespace": ["db"], "name": name} for name in ("t", "u")]
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": names}))
    server.on("GET", "/v1/namespaces/db/tables/u", Answer(200, {"metadata": body["metadata"], **members}))
    catalog = opened(server, **{"io.allowed-locations": str(tmp_path / "t"), "scan-planning-mode": "client"})
    table = catalog.load_table("db.t")
    first = Path(next(iter(table.scan().plan_files())).file.file_path)
    table.overwrite(ROWS)
    table.expire_snapshots(2**53, retain_last=1)
    assert first.exists() is is_shared
    with nullcontext() if not is_shared else pytest.raises(LocationNotAllowedError, match=r"db\.u has a folder that overlaps"):
        table.maintenance.remove_orphan_files(older_than=0, dry_run=False)
    with pytest.raises(IcefloeError):
        catalog.load_table("db.u")


def test_credentials_that_come_with_restrictions_are_not_used(server: RestDouble, stored: OneTable) -> None:
    """A server without an endpoint for credentials sends the whole table for their renewal."""
    listed = [str(endpoint) for endpoint in Endpoint if endpoint is not Endpoint.LOAD_CREDENTIALS]
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, "endpoints": listed}))
    stored.result = {"config": {"s3.access-key-id": "first", "s3.secret-access-key": "x", "s3.session-token-expires-at-ms": "1"}}
    access = opened(server).store.load(("db", "t")).access
    assert access is not None
    stored.result = {**RESTRICTED, "config": {"s3.access-key-id": "second", "s3.secret-access-key": "x"}}
    stored.version += 1
    assert access.settings_for("s3://lake/x").properties["s3.access-key-id"] == "first"


def test_names_of_a_restricted_table_are_shown_and_it_can_be_dropped(server: RestDouble, stored: OneTable) -> None:
    catalog = opened(server)
    server.on("DELETE", OneTable.path, Answer(204))
    assert catalog.list_tables("db") == [("db", "t")]
    assert catalog.table_exists("db.t")
    catalog.drop_table("db.t")


@pytest.mark.parametrize(
    "words",
    [
        ("head", "db.t"),
        ("head", "db.t.files"),
        ("show", "snapshots", "db.t"),
        ("describe", "db.t"),
        ("tree", "db.t"),
        ("validate", "db.t", "--values"),
        ("trace", "db.t"),
        ("health", "db.t"),
        ("repair", "db.t"),
        ("explore", "db.t", "--html", "page.html"),
    ],
)
def test_no_command_shows_anything_of_it(
    server: RestDouble, stored: OneTable, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYICEBERG_CATALOG__R__TYPE", "rest")
    result = CliRunner().invoke(app, [*words, "--catalog", "r", "--uri", server.uri])
    assert result.exit_code == 1
    assert "restricts what may be read" in " ".join(result.output.split()), result.output
    assert SECRET not in result.output
    assert not Path("page.html").exists()


def test_the_explorer_shows_its_name_alone(server: RestDouble, stored: OneTable) -> None:
    with TestClient(application(CatalogTables(opened(server))), base_url="http://localhost", raise_server_exceptions=False) as client:
        assert "db.t" in client.get("/").text
        for page in ("overview", "history", "contents", "data"):
            answer = client.get(f"/t/db.t/{page}")
            assert answer.status_code == 404
            assert SECRET not in answer.text


def test_a_restricted_view_is_refused(server: RestDouble, stored: OneTable) -> None:
    server.on("GET", "/v1/namespaces/db/views/v", Answer(200, {"metadata-location": "/x", "metadata": {}, **RESTRICTED}))
    with pytest.raises(UnsupportedFeatureError, match=r"restricts what may be read of view 'db\.v'"):
        opened(server).load_view("db.v")
