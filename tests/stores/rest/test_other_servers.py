"""What other servers leave out of their responses, or send in another JSON type, is taken where its meaning is clear; names are theirs too."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from tests.combinations import combinations
from tests.server.conftest import serve
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem
from typer.testing import CliRunner

import icefloe.inspect as look
from icefloe import repair
from icefloe.catalog.in_memory_catalog import InMemoryCatalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.cli.application import app
from icefloe.errors import (
    IcefloeError,
    InvalidIdentifierError,
    LocationNotAllowedError,
    MetadataFormatError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.inspect.catalog_contents import listing
from icefloe.inspect.view_contents import view_listing
from icefloe.loading.file_load import FileLoad
from icefloe.loading.input_files import find_files
from icefloe.loading.load_request import LoadRequest
from icefloe.procedures.maintain_catalog import table_names
from icefloe.spec.identifier import dotted, to_identifier
from icefloe.stores import namespace_tree
from icefloe.stores.rest import rest_connection
from icefloe.stores.rest.oauth2 import OAuth2Session

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


def opened(server: RestDouble, **properties: str) -> RestCatalog:
    return RestCatalog("r", uri=server.uri, **properties)


ADDRESS = "https://catalog.example/t/current.json"


class Unnamed(OneTable):
    """A table whose server does not name the metadata file, or by one address for every version."""

    named: tuple[str | None, ...] = ()  # what it sends as the name; nothing for no member

    def _body(self) -> dict[str, Any]:
        body = super()._body()
        del body["metadata-location"]
        return body if not self.named else {**body, "metadata-location": self.named[0]}


@pytest.mark.parametrize(("named", "mode"), combinations([(), (None,), ("",), (ADDRESS,)], ["all", "refs"]))
def test_a_table_without_the_name_of_its_metadata_file_is_read_and_written(
    server: RestDouble, tmp_path: Any, named: tuple[str | None, ...], mode: str
) -> None:
    stored = Unnamed(server, str(tmp_path / "t"))
    stored.named = named
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    catalog = opened(server, warehouse=str(tmp_path), **{"snapshot-loading-mode": mode})
    table, same = catalog.load_table("db.t"), catalog.load_table("db.t")
    assert table == same
    table.append(ROWS)
    assert table != same
    table.overwrite(ROWS)
    stored.answers = [problem(500, "InternalServerError")]
    table.append(ROWS)
    stored.before = [problem(409, "CommitFailedException")]
    table.append(ROWS)
    assert stored.commits == 4
    with catalog.transaction() as transaction:
        transaction.load_table("db.t").set_properties({"a": "b"})
    again, _ = catalog.load_tables("db.t", "db.t")
    assert (again.scan().to_arrow().num_rows, again.properties["a"], again.metadata_location) == (6, "b", "".join(filter(None, named)))
    assert again.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1).deleted_files > 0
    assert again.scan().to_arrow().num_rows == 6
    assert again.inspect.snapshots() is not None
    with pytest.raises(UnsupportedFeatureError, match=r"metadata file"):
        again.maintenance.remove_orphan_files()


@pytest.mark.parametrize("named", [(), ("",), (ADDRESS,)])
def test_a_server_before_a_server_that_names_no_version_sends_each_version(
    server: RestDouble, tmp_path: Any, named: tuple[str | None, ...]
) -> None:
    stored = Unnamed(server, str(tmp_path / "t"))
    stored.named = named
    server.on("GET", "/v1/namespaces/db", Answer(200, {"namespace": ["db"], "properties": {}}))
    client = serve(opened(server, warehouse=str(tmp_path), **{"io.allowed-schemes": "file"}))
    seen = []
    for value in ("1", "2"):
        changes = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": value}}]}
        committed = client.post("/v1/namespaces/db/tables/t", json=changes)
        loaded = client.get("/v1/namespaces/db/tables/t", headers={"If-None-Match": committed.headers.get("etag", '"x"')})
        assert (committed.status_code, loaded.status_code) == (200, 200), (committed.text, loaded.text)
        seen += [(answer.json()["metadata"]["properties"]["a"], "etag" in answer.headers) for answer in (committed, loaded)]
    assert seen == [("1", False)] * 2 + [("2", False)] * 2


@pytest.mark.parametrize(
    ("location", "name"), [(None, "not named"), ("https://catalog.example/t/7.json", "https://catalog.example/t/7.json")]
)
@pytest.mark.parametrize("mode", ["all", "refs"])
def test_a_table_whose_metadata_file_only_its_server_reads_is_shown_and_validated(
    server: RestDouble, tmp_path: Any, location: str | None, name: str, mode: str
) -> None:
    stored = Unnamed(server, str(tmp_path / "t"))
    stored.result = {"metadata-location": location}
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": [{"namespace": ["db"], "name": one} for one in ("t", "u")]}))
    server.on("GET", "/v1/namespaces/db/tables/u", call=stored.load)
    catalog = opened(server, warehouse=str(tmp_path), **{"snapshot-loading-mode": mode})
    opened(server, warehouse=str(tmp_path)).load_table("db.t").append(ROWS)
    table = catalog.load_table("db.t")
    for found in (look.validate(table, values=True), look.validate(catalog, "db.t", files=True), look.validate(catalog)):
        rules = [finding.rule for result in found.tables for finding in result.findings]
        assert rules == (["table-registered-twice"] if location and len(found.tables) == 2 else [])
        assert all((result.snapshots, result.files) == (1, 1) for result in found.tables)
    tree, trace, overhead = look.tree(table), look.trace(table), look.overhead(table)
    assert (tree.metadata_size, trace.metadata.file_size) == (None, None)
    assert all(name in str(shown) for shown in (tree, trace, look.table(table)))
    assert [(level.level, level.files, level.missing) for level in overhead.reachable[:2]] == [
        ("metadata files", 0, 0),
        ("manifest lists", 1, 0),
    ]
    assert look.health(table) is not None
    with pytest.raises(UnsupportedFeatureError, match=r"only the catalog's server reads the metadata file of r\.db\.t"):
        look.metadata(table)
    plan = repair.plan(catalog, "db.t")
    assert (plan.repairs, plan.left) == ((), ())


@pytest.mark.parametrize("location", [None, "https://catalog.example/v/7.json"])
def test_a_view_whose_metadata_file_only_its_server_reads_is_loaded(server: RestDouble, tmp_path: Any, location: str | None) -> None:
    with InMemoryCatalog("m", warehouse=f"{tmp_path}/views") as other:
        other.create_namespace("db")
        made = other.create_view("db.v", "SELECT 1 AS n", ROWS.schema)
        metadata = json.loads(gzip.decompress(made.handle.io.read(made.metadata_location)))
    server.on("GET", "/v1/config", Answer(200, {"overrides": {"view-endpoints-supported": True}}))
    server.on("GET", "/v1/namespaces/db/views/v", Answer(200, {"metadata": metadata, "metadata-location": location}))
    view = opened(server).load_view("db.v")
    assert (view.metadata_location, view.location(), view.schema().names) == (location or "", metadata["location"], ["n"])


def test_an_orphan_search_beside_a_table_of_an_unknown_metadata_file_deletes_nothing(server: RestDouble, tmp_path: Any) -> None:
    body = OneTable(server, str(tmp_path / "t"))._body()
    other = {**body["metadata"], "table-uuid": "11111111-2222-3333-4444-555555555556"}
    server.on(
        "GET", "/v1/namespaces/db/tables/u", Answer(200, {"metadata": other, "metadata-location": "https://catalog.example/u/7.json"})
    )
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": [{"namespace": ["db"], "name": one} for one in ("t", "u")]}))
    catalog = opened(server, **{"io.allowed-locations": str(tmp_path / "t")})
    with pytest.raises(LocationNotAllowedError, match=r"db\.u has a folder that overlaps with it(.|\n)*does not name its metadata file"):
        catalog.load_table("db.t").maintenance.remove_orphan_files(older_than=0)


def test_other_tables_are_those_that_still_exist_and_whose_metadata_file_has_the_text(server: RestDouble, tmp_path: Any) -> None:
    body = OneTable(server, str(tmp_path / "t"))._body()
    location = f"{tmp_path}/u/metadata/00001.metadata.json"
    server.on("GET", "/v1/namespaces/db/tables/u", Answer(200, {**body, "metadata-location": location}))
    server.on("GET", "/v1/namespaces/db/tables/gone", problem(404, "NoSuchTableException"))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["db"]]}))
    names = [{"namespace": ["db"], "name": name} for name in ("t", "u", "gone")]
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": names}))
    store = opened(server).store
    assert [table.metadata_location for table in store.other_tables(("db", "t"))] == [location]
    assert [table.metadata_location for table in store.other_tables(("db", "t"), "/u/")] == [location]
    assert store.other_tables(("db", "t"), "/v/") == []


def test_two_tables_without_names_of_files_are_loaded_as_of_one_moment(server: RestDouble, tmp_path: Any) -> None:
    stored = Unnamed(server, str(tmp_path / "t"))
    catalog = opened(server)

    def and_committed(request: Request) -> Answer:
        answer = stored.load(request)
        if len(server.of("GET", stored.path)) == 2:
            opened(server).load_table("db.t").append(ROWS)
        return answer

    server.on("GET", stored.path, call=and_committed)
    tables = catalog.load_tables("db.t", "db.t")
    assert len({table.metadata.current_snapshot_id for table in tables}) == 1


@pytest.mark.parametrize(
    ("expires_in", "seconds"),
    [
        (3599, 3599),
        ("3599", 3599),
        ("3599.0", 3599),
        (3599.5, 3599.5),
        (None, 3600),
        ("", 3600),
        ("soon", 3600),
        (-5, 3600),
        ("nan", 3600),
        (1e300, 3600),
    ],
)
def test_a_lifetime_is_a_number_or_its_text(server: RestDouble, expires_in: Any, seconds: float) -> None:
    server.on("POST", "/token", Answer(200, {"access_token": "t", "token_type": None, "expires_in": expires_in, "ext_expires_in": "1"}))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": []}))
    catalog = opened(server, credential="id:secret", **{"oauth2-server-uri": f"{server.uri}/token"})
    session = catalog.store.connection.auth
    assert isinstance(session, OAuth2Session)
    assert session._expires_at - datetime.now(UTC).timestamp() == pytest.approx(seconds, abs=30)


@pytest.mark.parametrize("answer", [Answer(200, b"<html>"), Answer(200, {"token": "t"}), Answer(200, [])])
def test_the_error_of_a_token_endpoint_names_its_address_and_no_other(server: RestDouble, answer: Answer) -> None:
    server.on("POST", "/token", answer)
    with pytest.raises(MetadataFormatError, match=r"POST .*/token") as failed:
        opened(server, credential="id:secret", **{"oauth2-server-uri": f"{server.uri}/token"})
    assert "check that the catalog property oauth2-server-uri" in str(failed.value)


def test_an_unreachable_token_endpoint_is_named_by_its_property(server: RestDouble) -> None:
    with pytest.raises(StorageUnavailableError, match=r"check the catalog property oauth2-server-uri"):
        opened(server, credential="id:secret", **{"oauth2-server-uri": "http://127.0.0.1:1/token", "rest.client.max-retries": "0"})


def test_null_lists_and_other_types_are_what_they_mean(server: RestDouble, stored: OneTable) -> None:
    config = {"defaults": {"rest-page-size": 5, "a": None}, "overrides": {"view-endpoints-supported": True}, "endpoints": None}
    server.on("GET", "/v1/config", Answer(200, config))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": None, "next-page-token": ""}))
    server.on("GET", "/v1/namespaces/db", Answer(200, {"namespace": ["db"], "properties": {"n": 1, "b": True, "x": None, "t": "text"}}))
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": None, "next-page-token": None}))
    server.on("GET", "/v1/namespaces/db/views", Answer(200, {"identifiers": None}))
    catalog = opened(server)
    assert (catalog.list_namespaces(), catalog.list_tables("db"), catalog.list_views("db")) == ([], [], [])
    assert server.of("GET", "/v1/namespaces")[0].query["pageSize"] == "5"
    assert catalog.load_namespace_properties("db") == {"n": "1", "b": "true", "t": "text"}
    keys = {
        "prefix": "s3",
        "config": {"s3.access-key-id": "k", "s3.path-style-access": True, "s3.session-token-expires-at-ms": 4e12, "x": None},
    }
    stored.result = {"config": {"client.region": None, "s3.n": 3}, "storage-credentials": [keys, {"prefix": "gs"}]}
    access = catalog.store.load(("db", "t")).access
    assert access is not None
    properties = access.settings_for("s3://lake/x").properties
    assert (properties["s3.path-style-access"], properties["s3.n"]) == ("true", "3")
    assert access.secrets() == ["k"]


def test_a_page_token_may_be_a_number(server: RestDouble) -> None:
    def page(request: Request) -> Answer:
        number = int(request.query["pageToken"] or 0)
        return Answer(200, {"namespaces": [[f"n{number}"]], "next-page-token": number + 1 if number < 2 else None})

    server.on("GET", "/v1/namespaces", call=page)
    assert opened(server).list_namespaces() == [("n0",), ("n1",), ("n2",)]


@pytest.mark.parametrize(
    "error",
    [
        {"message": "the cause", "type": None, "code": "400"},
        {"message": "the cause", "code": None},
        {"message": "the cause", "type": "BadRequestException", "code": 400, "stack": None},
    ],
)
def test_the_text_of_an_error_is_found_whatever_is_beside_it(server: RestDouble, error: dict[str, Any]) -> None:
    server.on("GET", "/v1/namespaces", Answer(400, {"error": error}))
    with pytest.raises(IcefloeError, match=r": the cause \(status 400"):
        opened(server).list_namespaces()


@pytest.mark.parametrize(
    ("prefix", "path"),
    [("my warehouse", "my%20warehouse"), ("lager straße", "lager%20stra%C3%9Fe"), ("a%20b", "a%20b"), ("{x}", "%7Bx%7D")],
)
def test_a_prefix_with_other_characters_is_encoded(server: RestDouble, prefix: str, path: str) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {"prefix": prefix}}))
    server.on("GET", f"/v1/{path}/namespaces", Answer(200, {"namespaces": [["db"]]}))
    assert opened(server).list_namespaces() == [("db",)]


@pytest.mark.parametrize("prefix", ["../x", "a b/../x", "a?b", "a#b", "a\\b", "a\nb", "a\x00b", "%2e%2e/x"])
def test_a_prefix_that_leads_elsewhere_is_refused(server: RestDouble, prefix: str) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {"prefix": prefix}}))
    with pytest.raises(MetadataFormatError, match="prefix"):
        opened(server)


@pytest.mark.parametrize(
    ("levels", "path"),
    [
        (("db", "orders.v2"), "db/tables/orders.v2"),
        (("db", "raw/orders"), "db/tables/raw%2Forders"),
        (("a.b", "c\\d", "t"), "a.b%1Fc%5Cd/tables/t"),
        (("a/b", "..", "t."), "a%2Fb%1F../tables/t."),
    ],
)
def test_names_with_dots_and_slashes_are_the_servers(server: RestDouble, stored: OneTable, levels: tuple[str, ...], path: str) -> None:
    server.on("GET", f"/v1/namespaces/{path}", call=stored.load)
    server.on("POST", f"/v1/namespaces/{path}", call=stored.commit)
    catalog = opened(server)
    for name in (levels, list(levels), dotted(levels)):
        table = catalog.load_table(name)
        assert table.name() == levels
    table.append(ROWS)
    assert catalog.load_table(dotted(levels)).scan().to_arrow().num_rows == 2
    assert to_identifier(dotted(levels), of_server=True) == levels


def test_commands_take_names_with_dots_and_slashes(server: RestDouble, stored: OneTable) -> None:
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": [["a.b/c"]]}))
    server.on("GET", "/v1/namespaces/a.b%2Fc", Answer(200, {"namespace": ["a.b/c"], "properties": {}}))
    server.on("GET", "/v1/namespaces/a.b%2Fc/tables", Answer(200, {"identifiers": [{"namespace": ["a.b/c"], "name": "t.json"}]}))
    server.on("GET", "/v1/namespaces/a.b%2Fc/tables/t.json", call=stored.load)
    catalog = opened(server)
    for name in ("`a.b/c`", "`a.b/c`.`t.json`"):
        (result,) = look.validate(catalog, name).tables
        assert (result.table, result.findings) == ("r.`a.b/c`.`t.json`", ())
    for arguments in (
        ["validate", "`a.b/c`"],
        ["validate", "`a.b/c`.`t.json`"],
        ["maintain", "`a.b/c`", "--plan"],
        ["show", "table", "`a.b/c`.`t.json`"],
    ):
        ended = CliRunner().invoke(app, [*arguments, "--uri", server.uri, "--catalog", "r"])
        assert (ended.exit_code, "`a.b/c`" in ended.output) == (0, True), ended.output


@pytest.mark.parametrize("dots", [".", ".."])
def test_a_name_of_dots_alone_is_no_way_up_in_the_address(server: RestDouble, dots: str) -> None:
    for path in ("/v1/namespaces/db/tables", "/v1/namespaces/db", "/v1/namespaces", "/v1"):
        server.on("DELETE", path, Answer(204))
        server.on("DELETE", f"{path}/", Answer(204))
    catalog = opened(server)
    for name, drop in ((("db", dots), catalog.drop_table), ((dots, "t"), catalog.drop_table), ((dots,), catalog.drop_namespace)):
        with pytest.raises((NoSuchTableError, NoSuchNamespaceError)):
            drop(name)
    encoded = dots.replace(".", "%2E")
    sent = [request.path for request in server.requests if request.verb == "DELETE"]
    assert sent == [f"/v1/namespaces/db/tables/{encoded}", f"/v1/namespaces/{encoded}/tables/t", f"/v1/namespaces/{encoded}"]


def test_files_are_loaded_into_a_table_with_a_name_of_the_server(
    server: RestDouble, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("n\n1\n")
    prepared = FileLoad(opened(server), "db.`a.b`", find_files(["a.csv"], None), LoadRequest())
    assert prepared.name == ("db", "a.b")
    with pytest.raises(InvalidIdentifierError):
        FileLoad(InMemoryCatalog("m"), "db.a/b", find_files(["a.csv"], None), LoadRequest())


@pytest.mark.parametrize("name", [("db", ""), ("db", "a\nb"), ("db", " a"), "db..t", "db.", "", ("db", "x" * 300), ("db", 1)])
def test_names_that_no_server_has_are_refused(server: RestDouble, name: Any) -> None:
    with pytest.raises(InvalidIdentifierError):
        opened(server).load_table(name)


def test_pages_that_never_end_are_given_up(server: RestDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_connection, "MOST_PAGES", 20)
    count = [0]

    def page(_: Request, **body: Any) -> Answer:
        count[0] += 1
        return Answer(200, {**body, "next-page-token": f"{count[0]}"})

    server.on("GET", "/v1/namespaces/db/tables", call=lambda one: page(one, identifiers=[{"namespace": ["db"], "name": f"t{count[0]}"}]))
    with pytest.raises(MetadataFormatError, match=r"sends ever new ones: 20 were read"):
        opened(server).list_tables("db")
    monkeypatch.setattr(rest_connection, "MOST_PAGES", 1_000)
    monkeypatch.setattr(rest_connection, "MOST_EMPTY_PAGES", 5)
    count[0] = 0
    server.on("GET", "/v1/namespaces/db/tables", call=lambda one: page(one, identifiers=[]))
    with pytest.raises(MetadataFormatError, match=r"the last 6 of them without a name"):
        opened(server).list_tables("db")
    monkeypatch.setattr(rest_connection, "MOST_BYTES", 5_000)
    count[0] = 0
    server.on("GET", "/v1/namespaces", call=lambda one: page(one, namespaces=[["x" * 900]]))
    with pytest.raises(MetadataFormatError, match=r"sends ever new ones"):
        opened(server).list_namespaces()
    assert count[0] < 10


def test_namespaces_that_are_in_each_other_without_end_are_given_up(
    server: RestDouble, stored: OneTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace_tree, "MOST_LEVELS", 4)

    def nested(request: Request) -> Answer:
        parent = request.query.get("parent", "")
        return Answer(200, {"namespaces": [[*parent.split("\x1f"), "x"] if parent else ["x"]]})

    server.on("GET", "/v1/namespaces", call=nested)
    for depth in range(1, 6):
        server.on("GET", f"/v1/namespaces/{'%1F'.join(['x'] * depth)}/tables", Answer(200, {"identifiers": []}))
    with pytest.raises(MetadataFormatError, match=r"in each other without end"):
        opened(server).store.other_tables(("db", "t"))


WALKS: dict[str, Callable[[RestCatalog], Any]] = {
    "other tables": lambda catalog: catalog.store.other_tables(("db", "t")),
    "maintenance": lambda catalog: list(table_names(catalog, "")),
    "maintenance of a namespace": lambda catalog: list(table_names(catalog, "a")),
    "listing": listing,
    "views": view_listing,
}


@pytest.mark.parametrize("walk", WALKS)
def test_namespaces_that_branch_without_end_are_given_up_by_whatever_follows_them(
    server: RestDouble, monkeypatch: pytest.MonkeyPatch, walk: str
) -> None:
    """Few levels with two namespaces in each are more than can be listed."""
    monkeypatch.setattr(namespace_tree, "MOST_NAMESPACES", 20)
    endless = "/v1/namespaces"

    def respond(request: Request) -> Answer:
        if request.path == endless:
            parent = request.query.get("parent", "").split("\x1f") if request.query.get("parent") else []
            return Answer(200, {"namespaces": [[*parent, "a"], [*parent, "b"]]})
        if request.path.endswith(("/tables", "/views")):
            return Answer(200, {"identifiers": []})
        if request.path == "/v1/config":
            return Answer(200, {"overrides": {"view-endpoints-supported": "true"}})
        return Answer(200, {"namespace": ["a"], "properties": {}})

    monkeypatch.setattr(server, "respond", respond)
    with pytest.raises(MetadataFormatError, match=r"more than 20 namespaces"):
        WALKS[walk](opened(server))
