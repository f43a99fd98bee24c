"""Requests to a REST catalog: configuration, endpoints, pages, tags, retries, and errors of a hostile or failing server."""

import gzip
import os
import pickle
import ssl
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.combinations import combinations
from tests.stores.rest.rest_double import Answer, OneTable, Request, RestDouble, problem

from icefloe.catalog.catalog_loader import load_catalog
from icefloe.catalog.rest_catalog import RestCatalog
from icefloe.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    IcefloeError,
    InvalidPropertyError,
    LocationNotAllowedError,
    MetadataFormatError,
    NamespaceAlreadyExistsError,
    NoSuchCatalogError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotFoundError,
    StoragePermissionError,
    StorageUnavailableError,
    UnsupportedFeatureError,
)
from icefloe.server.served_locations import strict_properties
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField
from icefloe.stores.request_key import new_key
from icefloe.stores.rest import http_client
from icefloe.stores.rest.rest_paths import Endpoint
from icefloe.stores.rest.rest_store import RestCatalogStore

TOKEN = {"token": "tttt"}
SECRET = {"token": "very-secret-token"}


def opened(server: RestDouble, **properties: str) -> RestCatalog:
    return RestCatalog("r", uri=server.uri, **properties)


def configure(server: RestDouble, **config: Any) -> None:
    server.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}, **config}))


def test_a_catalog_is_opened_by_its_type_or_its_address(server: RestDouble) -> None:
    assert isinstance(load_catalog("r", type="rest", uri=server.uri), RestCatalog)
    assert isinstance(load_catalog("r", uri=f"{server.uri}/"), RestCatalog)
    assert [request.path for request in server.requests] == ["/v1/config", "/v1/config"]


def test_overrides_win_over_own_properties_and_these_over_defaults(server: RestDouble) -> None:
    configure(
        server,
        defaults={"rest-page-size": "3", "table-default.a": "server", "s3.region": "x"},
        overrides={"prefix": "w/1", "table-override.b": "server"},
    )
    catalog = opened(server, warehouse="w", **{"table-default.a": "own", "table-override.b": "own"})
    assert server.requests[0].query == {"warehouse": "w"}
    assert catalog.configured_properties({}) == {"a": "own", "b": "server"}
    server.on("GET", "/v1/w/1/namespaces", Answer(200, {"namespaces": [["b"], ["a"]]}))
    assert catalog.list_namespaces() == [("a",), ("b",)]
    assert server.requests[-1].query == {"pageSize": "3", "pageToken": ""}


@pytest.mark.parametrize(
    "name", ["rest.auth.type", "auth.impl", "credential", "token", "io.allowed-schemes", "io.location-policy", "header.x", "ssl.cabundle"]
)
def test_a_server_cannot_set_what_is_the_users_to_choose(server: RestDouble, name: str) -> None:
    configure(server, defaults={name: "os.system"}, overrides={name: "os.system"})
    assert name not in opened(server).properties


@pytest.mark.parametrize("name", ["uri", "oauth2-server-uri"])
def test_a_server_cannot_send_credentials_to_another_host(server: RestDouble, name: str) -> None:
    for address in ("https://evil.example/x", "//evil.example", "https://user@127.0.0.1/", "file:///etc/passwd"):
        configure(server, overrides={name: address})
        if address.startswith("//"):
            continue
        with pytest.raises(LocationNotAllowedError, match=r"rest\.trusted-origins"):
            opened(server, credential="id:secret-of-mine", **TOKEN)
    configure(server, overrides={name: "https://evil.example/x"})
    opened(server, **TOKEN, **{"rest.trusted-origins": "https://evil.example"})


def test_a_redirect_is_not_followed(server: RestDouble) -> None:
    server.on("GET", "/v1/config", Answer(307, headers={"Location": "http://127.0.0.1:1/v1/config"}))
    with pytest.raises(IcefloeError, match="307"):
        opened(server, **TOKEN)


def test_a_prefix_is_used_as_the_server_has_encoded_it(server: RestDouble) -> None:
    configure(server, overrides={"prefix": "main%7Clake"})
    server.on("GET", "/v1/main%7Clake/namespaces", Answer(200, {"namespaces": [["db"]]}))
    assert opened(server).list_namespaces() == [("db",)]


@pytest.mark.parametrize(
    "override",
    [{"prefix": "../x"}, {"prefix": "a/%2E%2e/x"}, {"prefix": "a b?"}, {"namespace-separator": "/"}, {"namespace-separator": "?x"}],
)
def test_a_prefix_or_separator_that_leads_elsewhere_is_refused(server: RestDouble, override: dict[str, str]) -> None:
    configure(server, overrides=override)
    with pytest.raises(MetadataFormatError, match="prefix"):
        opened(server)


def test_an_unknown_warehouse_is_no_such_catalog(server: RestDouble) -> None:
    server.on("GET", "/v1/config", problem(404, "NoSuchWarehouseException", "no warehouse w"))
    with pytest.raises(NoSuchCatalogError, match="no warehouse w"):
        opened(server, warehouse="w")


def test_a_server_that_cannot_be_reached_is_unavailable() -> None:
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1"):
        RestCatalog("r", uri="http://127.0.0.1:1", **{"rest.client.max-retries": "0"})


@pytest.mark.parametrize("uri", ["ftp://x", "https://user:pass@host/", "nothing", "https://"])
def test_an_address_that_is_none_is_refused(uri: str) -> None:
    with pytest.raises(InvalidPropertyError, match="uri"):
        RestCatalog("r", uri=uri)


def test_only_endpoints_of_the_server_are_used(server: RestDouble, stored: OneTable) -> None:
    catalog = opened(server)
    assert not catalog.keeps_views
    assert catalog.table_exists("db.t")
    assert not server.of("HEAD", stored.path), "an old server has no HEAD"
    with pytest.raises(UnsupportedFeatureError, match="views"):
        catalog.list_views("db")
    configure(server, endpoints=[str(endpoint) for endpoint in Endpoint])
    server.on("HEAD", stored.path, Answer(204))
    assert opened(server).table_exists("db.t")
    assert len(server.of("HEAD", stored.path)) == 1
    configure(server, endpoints=["GET /v1/{prefix}/namespaces"])
    with pytest.raises(UnsupportedFeatureError, match="tables"):
        opened(server).load_table("db.t")


def test_pages_are_read_to_the_end(server: RestDouble) -> None:
    def page(request: Request) -> Answer:
        number = int(request.query["pageToken"] or 0)
        names = [{"namespace": ["db"], "name": f"t{number}"}]
        return Answer(200, {"identifiers": names, **({"next-page-token": str(number + 1)} if number < 4 else {})})

    server.on("GET", "/v1/namespaces/db/tables", call=page)
    assert [name[-1] for name in opened(server).list_tables("db")] == ["t0", "t1", "t2", "t3", "t4"]
    server.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": [], "next-page-token": "again"}))
    with pytest.raises(MetadataFormatError, match="repeats"):
        opened(server).list_tables("db")


def test_levels_of_a_namespace_are_encoded_and_joined_by_the_separator(server: RestDouble) -> None:
    catalog = opened(server)
    server.on("GET", "/v1/namespaces/a%20b%1Fc%26/tables", Answer(200, {"identifiers": []}))
    assert catalog.list_tables(("a b", "c&")) == []
    configure(server, overrides={"namespace-separator": "%2E"})
    server.on("GET", "/v1/namespaces/a%2Ec/tables", Answer(200, {"identifiers": []}))
    server.on("GET", "/v1/namespaces", Answer(200, {"namespaces": []}))
    assert opened(server).list_tables("a.c") == []
    assert opened(server).list_namespaces("a.c") == []
    assert server.requests[-1].query["parent"] == "a.c"


def test_a_second_load_of_the_same_version_is_an_answer_without_a_body(server: RestDouble, stored: OneTable) -> None:
    catalog = opened(server)
    first = catalog.load_table("db.t")
    second = catalog.load_table("db.t")
    assert second.metadata == first.metadata
    assert server.requests[-1].headers["if-none-match"] == '"0-all"'
    with second.transaction() as transaction:
        transaction.set_properties({"a": "1"})
    third = catalog.load_table("db.t")
    assert third.properties["a"] == "1"
    assert server.requests[-1].headers["if-none-match"] == '"1-all"', "the answer to the commit has the tag of the next load"
    third.metadata.properties["mine"] = "x"  # type: ignore[index]
    assert "mine" not in catalog.load_table("db.t").properties, "what one caller changes no other caller gets"


def test_the_cache_is_bounded_and_can_be_switched_off(server: RestDouble, stored: OneTable) -> None:
    store = RestCatalogStore("r", {"uri": server.uri, "rest-table-cache.max-entries": "0"})
    for _ in range(2):
        store.load(("db", "t"))
    assert all("if-none-match" not in request.headers for request in server.of("GET", stored.path))
    store = RestCatalogStore("r", {"uri": server.uri, "rest-table-cache.expire-after-write-ms": "0"})
    for _ in range(2):
        store.load(("db", "t"))
    assert all("if-none-match" not in request.headers for request in server.of("GET", stored.path))
    store = RestCatalogStore("r", {"uri": server.uri, "rest-table-cache.max-entries": "2"})
    for name in ("a", "b", "c"):
        server.on("GET", f"/v1/namespaces/db/tables/{name}", call=stored.load)
        store.load(("db", name))
    for name in ("c", "b", "a"):
        store.load(("db", name))
    last = [server.of("GET", f"/v1/namespaces/db/tables/{name}")[-1] for name in ("a", "b", "c")]
    assert ["if-none-match" in request.headers for request in last] == [False, True, True], (
        "the table that was loaded longest ago is dropped"
    )


def test_a_request_is_sent_again_only_where_it_can_do_nothing_twice(server: RestDouble) -> None:
    catalog = opened(server)
    server.on("GET", "/v1/namespaces", problem(500, "X"), Answer(200, {"namespaces": []}))
    assert catalog.list_namespaces() == []
    server.on("POST", "/v1/namespaces", problem(500, "X"), Answer(200, {"namespace": ["a"]}))
    with pytest.raises(CommitUnknownError):
        catalog.create_namespace("a")
    assert len(server.of("POST", "/v1/namespaces")) == 1
    server.on(
        "POST", "/v1/namespaces", problem(429, "X"), problem(503, "X", headers={"Retry-After": "1"}), Answer(200, {"namespace": ["a"]})
    )
    catalog.create_namespace("a")
    assert len(server.of("POST", "/v1/namespaces")) == 4


def test_with_an_idempotency_key_a_lost_request_is_sent_again_under_the_same_key(server: RestDouble) -> None:
    configure(server, **{"idempotency-key-lifetime": "PT30M"})
    catalog = opened(server)
    server.on("POST", "/v1/namespaces", Answer(hangs_up=True), problem(502, "X"), Answer(200, {"namespace": ["a"]}))
    catalog.create_namespace("a")
    keys = [request.headers["idempotency-key"] for request in server.of("POST", "/v1/namespaces")]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0][14] == "7"
    catalog.create_namespace("b")
    assert server.requests[-1].headers["idempotency-key"] != keys[0]


CHANGES: dict[str, tuple[tuple[str, str], Answer, Callable[[RestCatalog], object]]] = {
    "create a namespace": (
        ("POST", "/v1/namespaces"),
        problem(409, "NamespaceAlreadyExistsException"),
        lambda catalog: catalog.create_namespace("a"),
    ),
    "drop a namespace": (
        ("DELETE", "/v1/namespaces/a"),
        problem(404, "NoSuchNamespaceException"),
        lambda catalog: catalog.drop_namespace("a"),
    ),
    "create a table": (
        ("POST", "/v1/namespaces/db/tables"),
        problem(409, "AlreadyExistsException"),
        lambda catalog: catalog.create_table("db.n", Schema(NestedField(1, "n", LongType()))),
    ),
    "register a table": (
        ("POST", "/v1/namespaces/db/register"),
        problem(409, "AlreadyExistsException"),
        lambda catalog: catalog.register_table("db.n", "s3://b/n.metadata.json"),
    ),
    "unregister a table": (
        ("POST", "/v1/namespaces/db/tables/t/unregister"),
        problem(404, "NoSuchTableException"),
        lambda catalog: catalog.unregister_table("db.t"),
    ),
    "rename a table": (
        ("POST", "/v1/tables/rename"),
        problem(404, "NoSuchTableException"),
        lambda catalog: catalog.rename_table("db.t", "db.u"),
    ),
    "drop a table": (
        ("DELETE", "/v1/namespaces/db/tables/t"),
        problem(404, "NoSuchTableException"),
        lambda catalog: catalog.drop_table("db.t"),
    ),
    "purge a table": (
        ("DELETE", "/v1/namespaces/db/tables/t"),
        problem(404, "NoSuchTableException"),
        lambda catalog: catalog.purge_table("db.t"),
    ),
    "register a view": (
        ("POST", "/v1/namespaces/db/register-view"),
        problem(409, "AlreadyExistsException"),
        lambda catalog: catalog.register_view("db.v", "s3://b/v.metadata.json"),
    ),
    "rename a view": (
        ("POST", "/v1/views/rename"),
        problem(404, "NoSuchViewException"),
        lambda catalog: catalog.rename_view("db.v", "db.w"),
    ),
    "drop a view": (
        ("DELETE", "/v1/namespaces/db/views/v"),
        problem(404, "NoSuchViewException"),
        lambda catalog: catalog.drop_view("db.v"),
    ),
}


@pytest.mark.parametrize(("change", "has_keys"), combinations([*CHANGES], [True, False]))
def test_a_change_whose_reply_is_lost_is_unknown_whatever_its_repeat_gets(server: RestDouble, change: str, has_keys: bool) -> None:
    lifetime = {"idempotency-key-lifetime": "PT30M"} if has_keys else {}
    configure(server, endpoints=[str(endpoint) for endpoint in Endpoint], **lifetime)
    route, error, make = CHANGES[change]
    catalog = opened(server)
    for lost in (Answer(hangs_up=True), problem(502, "X")):
        server.on(*route, lost, error)
        with pytest.raises(CommitUnknownError, match="may or may not have been"):
            make(catalog)
    server.on(*route, error)
    with pytest.raises((NotFoundError, AlreadyExistsError)):
        make(catalog)
    assert len(server.of(*route)) == (5 if has_keys else 3)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"metadata-location": "s3://b/x", "metadata": {}}'])
@pytest.mark.parametrize("change", ["create a table", "register a table", "register a view"])
def test_a_success_that_cannot_be_read_leaves_a_creation_unknown(server: RestDouble, change: str, body: bytes) -> None:
    configure(server, endpoints=[str(endpoint) for endpoint in Endpoint])
    route, _, make = CHANGES[change]
    server.on(*route, Answer(200, body))
    with pytest.raises(CommitUnknownError, match="may or may not have been"):
        make(opened(server))


def test_a_request_that_was_refused_for_the_load_was_not_begun(server: RestDouble) -> None:
    configure(server, **{"idempotency-key-lifetime": "PT30M"})
    taken = problem(409, "NamespaceAlreadyExistsException")
    server.on("POST", "/v1/namespaces", problem(429, "X"), problem(503, "X", headers={"Retry-After": "1"}), taken)
    with pytest.raises(NamespaceAlreadyExistsError):
        opened(server).create_namespace("a")


def test_keys_are_uuids_of_version_7_in_the_order_of_time() -> None:
    keys = [new_key() for _ in range(100)]
    assert len(set(keys)) == 100
    assert all(len(key) == 36 and key[14] == "7" and key[19] in "89ab" for key in keys)
    assert sorted(key[:13] for key in keys) == [key[:13] for key in keys]


def test_the_text_of_an_error_is_bounded_escaped_and_without_secrets(server: RestDouble, stored: OneTable) -> None:
    catalog = opened(server, **SECRET)
    hostile = "\x1b[31mfail\r\nNext: rm -rf /\u202e " + "very-secret-token " + "x" * 100_000
    server.on("GET", stored.path, problem(400, "Bad\x1b[0m", hostile))
    with pytest.raises(IcefloeError) as failed:
        catalog.load_table("db.t")
    text = str(failed.value)
    assert len(text) < 1200
    assert "very-secret-token" not in text
    assert not set("\x1b\r\u202e") & set(text)
    assert "\nNext: rm" not in text


@pytest.mark.parametrize("body", [b"<html>" + b"x" * 200_000, b"\xff\xfe", b'{"error": 5}', b"[" * 100_000, b""])
def test_an_error_body_of_any_form_is_an_error_of_its_status(server: RestDouble, stored: OneTable, body: bytes) -> None:
    server.on("GET", stored.path, Answer(403, body, {"Content-Type": "text/html"}))
    with pytest.raises(StoragePermissionError, match="403"):
        opened(server).load_table("db.t")


@pytest.mark.parametrize("body", [b"{}", b"<html>", b'{"metadata": 5}', b"[" * 100_000, b'{"metadata": {"format-version": 2}}', b"\xff"])
def test_an_answer_that_is_not_of_the_protocol_is_refused(server: RestDouble, stored: OneTable, body: bytes) -> None:
    server.on("GET", stored.path, Answer(200, body))
    with pytest.raises(IcefloeError):
        opened(server).load_table("db.t")


def test_a_missing_table_lists_the_tables_of_its_namespace(server: RestDouble, stored: OneTable) -> None:
    with pytest.raises(NoSuchTableError, match=r"db\.t"):
        opened(server).load_table("db.u")


def test_a_catalog_and_its_tables_work_in_another_process(server: RestDouble, stored: OneTable) -> None:
    catalog = opened(server, **TOKEN)
    table = pickle.loads(pickle.dumps(catalog)).load_table("db.t")
    assert pickle.loads(pickle.dumps(table.io)).exists(table.location()) is False


def test_a_server_elsewhere_cannot_lead_to_files_of_this_machine(
    server: RestDouble, stored: OneTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icefloe.catalog.rest_catalog.is_on_this_machine", lambda uri: False)
    with pytest.raises(LocationNotAllowedError, match=r"io\.allowed-schemes"):
        opened(server).load_table("db.t")
    opened(server, **{"io.allowed-schemes": "file"}).load_table("db.t")
    opened(server, warehouse=str(stored.location)).load_table("db.t")


def test_the_policy_of_locations_that_a_server_in_front_sets_holds(server: RestDouble, stored: OneTable, tmp_path: Path) -> None:
    assert stored.metadata is not None
    stored.metadata = replace(stored.metadata, properties={"write.data.path": str(tmp_path / "elsewhere")})
    rows = pa.table({"n": [1]})
    catalog = opened(server)
    catalog.properties = strict_properties(catalog.properties)
    with pytest.raises(LocationNotAllowedError, match="elsewhere"):
        catalog.load_table("db.t").append(rows)
    assert not (tmp_path / "elsewhere").exists()
    catalog.properties = strict_properties(catalog.properties, [str(tmp_path / "elsewhere")])
    catalog.load_table("db.t").append(rows)
    assert list((tmp_path / "elsewhere").iterdir())


def test_a_warehouse_that_is_a_name_is_no_folder(server: RestDouble) -> None:
    assert opened(server, warehouse="lake").warehouse_folder(("db",)) is None
    assert opened(server, warehouse="s3://lake").warehouse_folder(("db",)) == "s3://lake/db"
    assert opened(server, warehouse="lake").location_policy().warehouse is None


def test_names_of_a_misspelt_property_are_refused() -> None:
    with pytest.raises(InvalidPropertyError, match="oauth2-server-uri"):
        RestCatalog("r", uri="http://127.0.0.1:1", **{"oauth2-server-url": "x"})


def test_functions_are_listed_and_loaded(server: RestDouble) -> None:
    configure(server, endpoints=[str(endpoint) for endpoint in Endpoint])
    server.on("GET", "/v1/namespaces/a%1Fb/functions", Answer(200, {"identifiers": [["a", "b", "plus one"], ["a", "b", "add"]]}))
    definition = {"definition-id": "int", "parameters": [{"type": "int", "name": "x"}], "return-type": "int", "versions": []}
    metadata = {"function-uuid": "u", "format-version": 1, "definitions": [definition], "definition-log": [], "doc": "adds one"}
    server.on("GET", "/v1/namespaces/a%1Fb/functions/plus%20one", Answer(200, {"metadata-location": "s3://x/f.json", "metadata": metadata}))
    catalog = opened(server)
    assert catalog.list_functions("a.b") == [("a", "b", "add"), ("a", "b", "plus one")]
    function = catalog.load_function(("a", "b", "plus one"))
    assert (function.doc, function.metadata_location, function.definitions) == ("adds one", "s3://x/f.json", (definition,))
    with pytest.raises(NotFoundError, match=r"the functions of the namespace 'a.b'"):
        catalog.load_function("a.b.none")
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_functions("none")


def test_a_server_without_functions_is_an_error_that_names_the_operation(server: RestDouble) -> None:
    with pytest.raises(UnsupportedFeatureError, match="functions"):
        opened(server).list_functions("a")


def zeros(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(megabytes)), packer.flush()])


COMPRESSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "longer than the limit": ("gzip", lambda: zeros(20), "longer than 16777216 bytes"),
    "compressed twice": ("gzip, gzip", lambda: gzip.compress(zeros(20)), "'gzip, gzip', which was not requested"),
    "another codec": ("zstd", lambda: b"x", "'zstd', which was not requested"),
    "cut short": ("gzip", lambda: gzip.compress(b"{}" * 100)[:-4], "cut short"),
    "with more behind it": ("gzip", lambda: gzip.compress(b"{}") + b"x", "continues after"),
    "no gzip": ("gzip", lambda: b"{}", "incorrect header"),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_a_compressed_answer_is_bounded_before_it_is_in_memory(server: RestDouble, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MOST_BYTES", 1 << 24)
    encoding, content, shown = COMPRESSED[name]
    server.on("GET", "/v1/namespaces", Answer(200, content(), {"Content-Encoding": encoding}))
    with opened(server, **{"rest.client.max-retries": "0"}) as catalog, pytest.raises(StorageUnavailableError, match=shown):
        catalog.list_namespaces()
    assert server.of("GET", "/v1/namespaces")[0].headers["accept-encoding"] == "gzip"


def test_a_compressed_answer_is_read_and_one_without_a_body_has_none(server: RestDouble) -> None:
    content = gzip.compress(b'{"namespaces":[["a"]], "more": "' + b"x" * 3_000_000 + b'"}')
    server.on("GET", "/v1/namespaces", Answer(200, content, {"Content-Encoding": "gzip"}))
    server.on("HEAD", "/v1/namespaces/a/tables/t", Answer(200, b"", {"Content-Encoding": "gzip"}))
    configure(server, endpoints=["GET /v1/{prefix}/namespaces", "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}"])
    with opened(server) as catalog:
        assert catalog.list_namespaces() == [("a",)]
        assert catalog.table_exists("a.t")
    assert server.of("HEAD", "/v1/namespaces/a/tables/t")


def test_certificates_of_the_machine_are_loaded_once_and_again_after_they_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    loaded = mock.Mock(side_effect=ssl.create_default_context)
    monkeypatch.setattr(ssl, "create_default_context", loaded)
    first, second = (http_client._tls({}) for _ in range(2))
    assert first is second
    os.utime(trusted, ns=(1, 1))
    assert http_client._tls({}) is not first
    assert loaded.call_count == 2
