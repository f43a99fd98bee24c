"""The server reads only, for the right host and token only, and whatever a table contains is text on its pages."""

import html
import re
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit

import pyarrow as pa
import pytest
from starlette.responses import HTMLResponse, Response
from starlette.testclient import TestClient
from tests.explorer.conftest import Served, base_of, page

from icefloe import SqlCatalog
from icefloe.errors import NoSuchTableError
from icefloe.explorer.page import MOST_BYTES, SECTIONS
from icefloe.explorer.server import CatalogTables, OneTable, ServedLinks, application, is_allowed_host
from icefloe.explorer.standalone import standalone
from icefloe.spec.identifier import dotted, to_identifier
from icefloe.table import Table

LONG_NAME = "w" * 1_000_000
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202e"
TOKEN = "t0ken"  # noqa: S105


def test_the_first_page_leads_to_the_only_table(client: TestClient, orders: Table) -> None:
    response = client.get("/", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, f"{base_of(orders)}/overview")


def test_the_first_page_of_a_catalog_lists_its_tables(catalog_client: TestClient) -> None:
    content = page(catalog_client, "/")
    (target,) = re.findall(r'href="(/t/[^"]*)"', content)
    assert catalog_client.get(target).status_code == 200


@pytest.mark.parametrize(
    "path", ["/t/other/overview", "/t/lake.shop.orders/nothing", "/nothing", "/assets/../server.py", "/assets/page.py"]
)
def test_what_is_not_there_is_a_page_of_its_own(client: TestClient, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert "Traceback" not in response.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_allowed(client: TestClient, orders: Table, method: str) -> None:
    assert client.request(method, f"{base_of(orders)}/overview").status_code == 405


def test_every_response_has_a_policy_that_runs_and_loads_nothing_else(client: TestClient, orders: Table) -> None:
    for path in ("/", f"{base_of(orders)}/history", "/nothing", "/assets/explorer.js"):
        headers = client.get(path, follow_redirects=False).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_no_page_has_inline_scripts_or_styles_or_remote_addresses(client: TestClient, orders: Table) -> None:
    for section in SECTIONS:
        content = page(client, f"{base_of(orders)}/{section.name}")
        assert not re.search(r"<script(?![^>]*\bsrc=\"/assets/)|<style|\sstyle=|\son[a-z]+=|javascript:", content)
        assert not re.search(r"(?:src|href)=\"(?!/|#)", content)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.7:8080", "", "localhost:x"])
def test_a_request_by_another_host_name_is_refused(client: TestClient, orders: Table, host: str) -> None:
    assert client.get(f"{base_of(orders)}/history", headers={"host": host}).status_code == 421


def test_host_names_are_compared_without_port_and_case() -> None:
    hosts = frozenset({"localhost", "127.0.0.1", "[::1]"})
    assert all(is_allowed_host(host, hosts, any_address=False) for host in ("LOCALHOST:1", "127.0.0.1", "[::1]:80"))
    assert not any(is_allowed_host(host, hosts, any_address=False) for host in ("192.168.0.1", "[fe80::1]", "localhost.", "a"))
    assert is_allowed_host("192.168.0.1:80", hosts, any_address=True)
    assert not is_allowed_host("evil.example", hosts, any_address=True)


def test_a_server_with_a_token_needs_it_once_and_keeps_it_in_a_cookie(orders: Table) -> None:
    with TestClient(application(OneTable(lambda: orders), token=TOKEN), base_url="http://localhost") as client:
        path = f"{base_of(orders)}/history"
        assert client.get(path).status_code == 401
        assert client.get(f"{path}?token=wrong").status_code == 401
        assert client.get(path, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        response = client.get(f"{path}?token={TOKEN}&from=1", follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (303, f"{path}?from=1")
        cookie = response.headers["set-cookie"].lower()
        assert all(word in cookie for word in ("icefloe_token_80", "httponly", "samesite=strict"))
        assert client.get(path).status_code == 200
        assert TOKEN not in client.get(path).text


@pytest.mark.parametrize(
    "start", ["//evil.example/t", "/%2Fevil.example/t", "/%5Cevil.example/t", "/\\evil.example", "///evil.example", "//evil.example:80"]
)
def test_a_right_token_leads_to_no_other_host(orders: Table, start: str) -> None:
    with TestClient(application(OneTable(lambda: orders), token=TOKEN), base_url="http://localhost") as client:
        location = client.get(f"http://localhost{start}?token={TOKEN}&a=b", follow_redirects=False).headers["location"]
    assert urlsplit(urljoin("http://localhost/", location.replace("\\", "/"))).hostname == "localhost"
    assert TOKEN not in location


class NamesOfServer(CatalogTables):
    """The tables of a catalog behind a server, whose names have dots, slashes and signs of URLs; each is the table of the fixture."""

    def __init__(self, table: Table, names: list[tuple[str, ...]]) -> None:
        self.tables = {dotted(name): table for name in names}

    def open(self, name: str) -> Table:
        to_identifier(name, of_server=True)
        if name not in self.tables:
            raise NoSuchTableError(f"there is no table {name}")
        return self.tables[name]

    def front(self) -> Response:
        return HTMLResponse("".join(f'<a href="{ServedLinks(name).to("overview")}">' for name in self.tables))


NAMES_OF_SERVER = [
    ("db", "raw/orders"),
    ("a.b", "c"),
    ("a/b", "history"),
    ("db", "x/overview"),
    ("..", "../t"),
    ("db", "a?b=1#c"),
    ("db", "50% ü/"),
]


@pytest.mark.parametrize("name", NAMES_OF_SERVER, ids=dotted)
def test_a_name_with_a_slash_or_a_dot_has_its_pages(orders: Table, name: tuple[str, ...]) -> None:
    tables = NamesOfServer(orders, NAMES_OF_SERVER)
    with TestClient(application(tables, token=TOKEN), base_url="http://localhost") as client:
        address = ServedLinks(dotted(name)).to("overview")
        response = client.get(f"{address}?token={TOKEN}&a=b", follow_redirects=False)
        assert (response.status_code, urlsplit(unquote(response.headers["location"]).removesuffix("?a=b")).netloc) == (303, "")
        assert unquote(urlsplit(response.headers["location"]).path) == unquote(address)
        first = client.get(response.headers["location"])
        assert first.status_code == 200
        assert address in client.get("/").text
        links = set(re.findall(r'href="(/t/[^"?]*)"', first.text))
        assert len(links) > 3
        for section in ("overview", "history"):
            link = ServedLinks(dotted(name)).to(section)
            assert link in links
            assert client.get(link).status_code == 200
        for start in (f"/t/{quote(dotted(name), safe='')}", f"/t/{quote(dotted(name), safe='/')}"):
            response = client.get(start, follow_redirects=False)
            assert (response.status_code, response.headers["location"]) == (303, address)
        assert client.get(f"/t/{quote(dotted(name), safe='')}/nothing").status_code == 404


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Return a table whose names and values are markup, and with a name, a value, a property and a comment of a megabyte each."""
    folder = tmp_path_factory.mktemp("hostile")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("db")
    schema = pa.schema([(HOSTILE, pa.string()), ("n", pa.int64()), (LONG_NAME, pa.string())])
    table = catalog.create_table("db.hostile", schema, partition_spec=[HOSTILE], properties={HOSTILE: HOSTILE, "long": "x" * 1_000_000})
    for value in (HOSTILE, "<b>"):
        table.append(pa.table({HOSTILE: [value], "n": [1], LONG_NAME: ["y" * 1_000_000]}, schema=schema))
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "tag<script>").commit()
    with table.update_schema() as update:
        update.update_column("n", doc="z" * 1_000_000)
    return catalog.load_table("db.hostile")


@pytest.mark.parametrize(
    "query", ["", "?where=n+%3C+%27%3Cscript%3E%27", "?kind=metadata", "?kind=manifest-list", "?kind=file", "?snapshot=%3Cscript%3E"]
)
def test_names_and_values_that_are_markup_are_text(served: Served, hostile: Table, query: str) -> None:
    client = served(hostile)
    for section in SECTIONS:
        response = client.get(f"{base_of(hostile)}/{section.name}{query}")
        assert "<script>" not in response.text
        assert "<img" not in response.text
        assert "<b>" not in response.text
        assert "\u202e" not in response.text
        assert len(response.content) < MOST_BYTES
        assert not any(letter * 2_000 in response.text for letter in "wxyz")


def test_the_file_without_a_server_has_hostile_names_as_text_too(hostile: Table) -> None:
    content = standalone(hostile, 0, typed=HOSTILE, where="n > 0")
    assert content.count("<script") == 1
    assert content.count("</script>") == 1
    assert html.escape("<script>alert(1)") in content
    assert len(content.encode()) < MOST_BYTES


def test_a_path_outside_of_the_table_is_not_read(client: TestClient, orders: Table, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"secret": 1}')
    for name in ("path", "file", "location", "log", "manifest"):
        response = client.get(f"{base_of(orders)}/contents?kind=metadata&{name}={secret}")
        assert '"secret"' not in response.text


def test_a_fault_is_a_page_without_its_trace(orders: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icefloe.explorer.server.table_page", lambda *_: 1 / 0)
    with TestClient(application(OneTable(lambda: orders)), base_url="http://localhost", raise_server_exceptions=False) as client:
        response = client.get(f"{base_of(orders)}/history")
    assert response.status_code == 500
    assert "ZeroDivisionError" not in response.text
