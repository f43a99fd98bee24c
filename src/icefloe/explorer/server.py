"""The server of the page: an ASGI application that only reads.

It listens on loopback unless the user names another address, and requires a token, because other users of the machine can reach loopback too. A web page of
another origin must not read it: the Host header must be an address or name for which the server was started, so that a name which is rebound to loopback is
refused. No other page may frame it, errors are pages without traces, and all routes are GET, so that no request changes a table.
"""

import hmac
import secrets
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from icefloe.catalog.catalog import Catalog
from icefloe.display.markup import Markup, element
from icefloe.errors import IcefloeError
from icefloe.explorer.computed_results import OpenedTable, Results
from icefloe.explorer.page import ICON, MOST_BYTES, SCRIPT, SECTIONS, STYLE, asset, catalog_page, notice_page, table_page
from icefloe.explorer.section import Links, PageRequest, fault
from icefloe.inspect.catalog_contents import listing
from icefloe.io.loopback import is_loopback
from icefloe.operations.loaded_table import TableReader

PARAMETER = "token"
# Seconds for which a loaded table is used before it is loaded again from the catalog.
_FRESH_S = 2.0
_MOST_TABLES, _MOST_LISTED = 64, 2_000
# Seconds after which the browser loads an incomplete page again.
_AGAIN_S = 1
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class ServedLinks(Links):
    """The addresses of the pages of one table."""

    table: str

    def to(self, page: str, **query: object) -> str:
        kept = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"/t/{quote(self.table, safe='')}/{page}" + (f"?{urlencode(kept)}" if kept else "")


class OpenTables:
    """The tables that a server shows: one table, or those of a catalog."""

    home: str | None = "/"  # the address of the list of tables; None if there is only one table

    @abstractmethod
    def open(self, name: str) -> TableReader | None:
        """Return a table at its current metadata file; None if there is no table of this name.

        Raises:
            IcefloeError: The table cannot be loaded.
        """

    @abstractmethod
    def front(self) -> Response:
        """Return the first page."""


@dataclass(slots=True)
class _Loaded:
    """A cache of recently loaded tables by name. Any number of threads may use it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _tables: dict[str, tuple[float, TableReader]] = field(default_factory=dict)

    def get(self, name: str, load: Callable[[], TableReader]) -> TableReader:
        """Return a table. It is loaded again if the cached one is older than `_FRESH_S`."""
        with self._lock:
            loaded = self._tables.get(name)
        if loaded is not None and time.monotonic() - loaded[0] < _FRESH_S:
            return loaded[1]
        reader = load()
        with self._lock:
            self._tables.pop(name, None)
            self._tables[name] = (time.monotonic(), reader)
            while len(self._tables) > _MOST_TABLES:
                del self._tables[next(iter(self._tables))]
        return reader


@dataclass(slots=True)
class OneTable(OpenTables):
    """The `OpenTables` of a server for one table. `load` returns the table at its current metadata file, and is called again after `_FRESH_S` seconds."""

    load: Callable[[], TableReader]
    _loaded: _Loaded = field(default_factory=_Loaded)
    home: str | None = None

    def open(self, name: str) -> TableReader | None:
        reader = self._loaded.get("", self.load)
        return reader if reader.full_name == name else None

    def front(self) -> Response:
        return RedirectResponse(ServedLinks(self._loaded.get("", self.load).full_name).to("overview"), 303)


@dataclass(slots=True)
class CatalogTables(OpenTables):
    """The `OpenTables` of a server for all tables of a catalog."""

    catalog: Catalog
    _loaded: _Loaded = field(default_factory=_Loaded)

    def open(self, name: str) -> TableReader | None:
        return self._loaded.get(name, lambda: self.catalog.load_table(self.catalog.levels(name)))

    def front(self) -> Response:
        spaces: list[tuple[str, Sequence[tuple[str, str]]]] = []
        count = more = 0
        for space in listing(self.catalog).namespaces:
            shown = space.tables[: max(_MOST_LISTED - count, 0)]
            count, more = count + len(shown), more + len(space.tables) - len(shown)
            spaces.append((space.name, [(name, ServedLinks(name).to("overview")) for name in shown]))
        return HTMLResponse(catalog_page(self.catalog.name, spaces, more))


class Guard:
    """The outermost layer of the server. It adds security headers to every response.

    It refuses requests for other hosts, requests without the token, and all methods except GET and HEAD.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], token: str | None) -> None:
        self._app = app
        self._hosts = hosts
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = HttpRequest(scope, receive)
        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, _with_headers(send))

    def _refusal(self, request: HttpRequest) -> Response | None:
        """Return the response to a refused request, or to the first request with the token; None for a request that is let through."""
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This server only reads.", 405, {"Allow": "GET, HEAD"})
        if not is_allowed_host(request.headers.get("host", ""), self._hosts, any_address=self._token is not None):
            return PlainTextResponse("This host name is not one that the server was started for.", 421)
        if self._token is None:
            return None
        given = request.query_params.get(PARAMETER)
        if given is not None and _equal(given, self._token):
            # The token is removed from the address, so that it is not in the browser's history or in links.
            rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != PARAMETER])
            # A path that begins with two slashes, or a slash and a backslash, would name another host. `request.url.path` ends at a `?` in a table's name.
            path = quote("/" + request.scope["path"].lstrip("/\\"))
            response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(cookie_name(request), self._token, httponly=True, samesite="strict")
            return response
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        token = request.cookies.get(cookie_name(request), "")
        if _equal(token, self._token) or (scheme.lower() == "bearer" and _equal(bearer.strip(), self._token)):
            return None
        return PlainTextResponse("Open the address with the token that icefloe explore printed.", 401)


def cookie_name(request: HttpRequest) -> str:
    """Return the name of the cookie that has the token. The name has the port, because browsers share cookies among all ports of a host."""
    return f"icefloe_token_{request.url.port or 80}"


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def is_allowed_host(header: str, hosts: frozenset[str], *, any_address: bool) -> bool:
    """Return whether a Host header names this server.

    Args:
        header: The value of the header.
        hosts: The names of the server besides loopback.
        any_address: Whether any numeric address is allowed, because a token protects the server.
    """
    host = header.strip().lower()
    if host.startswith("["):
        name, _, port = host.partition("]")
        name = f"{name}]"
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdecimal()):
        return False
    if is_loopback(name) or name in hosts:
        return True
    is_numeric = name.startswith("[") or (name.count(".") == 3 and all(part.isdecimal() for part in name.split(".")))
    return any_address and is_numeric


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def application(
    tables: OpenTables,
    *,
    typed: str = "",
    arguments: str = "",
    hosts: frozenset[str] = frozenset(),
    token: str | None = None,
    now_ms: Callable[[], int] | None = None,
) -> Starlette:
    """Return the ASGI application.

    Args:
        tables: The tables that it shows.
        typed: The name of the only table as the user typed it, for commands.
        arguments: The options of commands that select the catalog.
        hosts: Allowed names in the Host header besides those of loopback, without ports.
        token: The token that every request must have; None for no token.
        now_ms: Returns the current time in milliseconds since 1970.
    """
    site = _Site(tables, typed, arguments, now_ms or (lambda: time.time_ns() // 1_000_000))
    return Starlette(
        routes=[
            Route("/", site.home),
            Route("/t/{table}", site.redirect),
            Route("/t/{table:path}/{section}", site.table),
            Route("/assets/{name}", _asset),
        ],
        middleware=[Middleware(Guard, hosts=hosts, token=token)],
        exception_handlers={HTTPException: _http_error, IcefloeError: _table_error, Exception: _fault},
    )


class _Site:
    """Responds to the requests for pages of tables, and for the page of the catalog."""

    def __init__(self, tables: OpenTables, typed: str, arguments: str, now_ms: Callable[[], int]) -> None:
        self._tables = tables
        self._typed = typed
        self._arguments = arguments
        self._now_ms = now_ms
        self._results = Results()
        self._sections = {section.name: section for section in SECTIONS}

    def home(self, _: HttpRequest) -> Response:
        """Return the page of the catalog, or a redirect to the only table."""
        return self._tables.front()

    def redirect(self, request: HttpRequest) -> Response:
        """Redirect to the first page of a table."""
        return RedirectResponse(ServedLinks(request.path_params["table"]).to("overview"), 303)

    def table(self, request: HttpRequest) -> Response:
        """Return a page of a table."""
        name = request.path_params["table"]
        section = self._sections.get(request.path_params["section"])
        reader = None if section is None else self._tables.open(name)
        if section is None or reader is None:
            whole = f"{name}/{request.path_params['section']}"  # a table's name may have slashes, which the server decodes
            if self._tables.open(whole) is None:
                raise HTTPException(404)
            return RedirectResponse(ServedLinks(whole).to("overview"), 303)
        opened = OpenedTable(reader, self._results, self._typed or name, self._arguments, request.query_params.get("snapshot") or None)
        page_request = PageRequest(opened=opened, links=ServedLinks(name), query=dict(request.query_params), now_ms=self._now_ms())
        page, waits = table_page(page_request, section, self._tables.home)
        if len(content := page.encode("utf-8", "replace")) > MOST_BYTES:
            content = notice_page(
                section.title, element("p", "This page would be larger than a browser should get. Choose a smaller part.")
            ).encode()
        return HTMLResponse(content, headers={"Refresh": str(_AGAIN_S)} if waits else None)


def _asset(request: HttpRequest) -> Response:
    name = request.path_params["name"]
    kind = {STYLE: "text/css", SCRIPT: "text/javascript", ICON: "image/svg+xml"}.get(name)
    if kind is None:
        raise HTTPException(404)
    return Response(asset(name), media_type=kind)


async def _http_error(_: HttpRequest, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return HTMLResponse(
        notice_page("Nothing here", element("p", "There is no such page."), element("p", element("a", "To the first page", href="/"))),
        status,
    )


async def _table_error(_: HttpRequest, error: Exception) -> Response:
    shown = fault(error) if isinstance(error, IcefloeError) else None
    return HTMLResponse(notice_page("This cannot be shown", shown, element("p", element("a", "To the first page", href="/"))), 404)


async def _fault(_: HttpRequest, __: Exception) -> Response:
    text: Markup = element("p", "A fault of Icefloe. The log of the command has its details.")
    return HTMLResponse(notice_page("This page could not be made", text), 500)


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(24)
