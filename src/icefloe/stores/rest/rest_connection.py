"""`RestConnection`: the requests to a REST catalog, with the user's configuration and the configuration from the server.

The server's configuration is fetched at the first request. Some choices are reserved to the user's configuration: who gets credentials, which classes are
loaded, which locations are trusted, and how the connection is made. Spec: REST catalog, CatalogConfig.
"""

import logging
import re
import threading
from collections.abc import Iterator, Mapping
from copy import copy
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from icefloe.errors import InvalidPropertyError, MetadataFormatError, NoSuchCatalogError, in_one_line
from icefloe.spec.identifier import Identifier
from icefloe.stores.request_key import new_key
from icefloe.stores.rest import settings
from icefloe.stores.rest.auth_sessions import auth_session
from icefloe.stores.rest.http_client import AuthSession, HttpClient
from icefloe.stores.rest.http_reply import NOT_FOUND, Reply
from icefloe.stores.rest.load_result import texts
from icefloe.stores.rest.oauth2 import NoAuth, StaticToken
from icefloe.stores.rest.origins import OAUTH2_SERVER_URI, URI, TrustedOrigins
from icefloe.stores.rest.rest_paths import DEFAULT_ENDPOINTS, DEFAULT_SEPARATOR, VIEW_ENDPOINTS, Endpoint, RestPaths

LOG = logging.getLogger(__name__)
# The limits of a listing: pages, total bytes, and consecutive empty pages.
MOST_PAGES, MOST_BYTES, MOST_EMPTY_PAGES = 10_000, 512 * 1024 * 1024, 100
# The maximum length of a page token in characters.
_LONGEST_TOKEN = 65_536
# Prefixes of properties that a server's defaults and overrides may set; only the user can set other properties.
_OF_SERVER = (
    "s3.",
    "gcs.",
    "adls.",
    "client.region",
    "client.refresh-credentials",
    "hdfs.",
    "table-default.",
    "table-override.",
    "view-default.",
    "view-override.",
    "rest-page-size",
    "rest-table-cache.",
    "signer.",
)
_NAMES_OF_SERVER = (
    settings.PREFIX,
    settings.NAMESPACE_SEPARATOR,
    settings.VIEW_ENDPOINTS,
    settings.SCAN_PLANNING_MODE,
    settings.PLANNING_TIMEOUT_MS,
    settings.SNAPSHOT_LOADING_MODE,
    settings.METRICS_REPORTING,
    "default-namespace",
)
_SEPARATOR = re.compile(r"(?:%[0-9A-Fa-f]{2}|[A-Za-z0-9._~!$&'()*+,;=:@-]){1,12}")
_PREFIX = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=:@/-]*")
# Characters that stay unencoded in a prefix; characters that end a path, and a backslash, are refused.
_IN_PREFIX = "._~%!$&'()*+,;=:@/-?#\\"


class _Config(msgspec.Struct, rename="kebab"):
    defaults: dict[str, Any] | None = None
    overrides: dict[str, Any] | None = None
    endpoints: list[str] | None = None
    idempotency_key_lifetime: str | float | None = None


class _Page(msgspec.Struct, rename="kebab"):
    next_page_token: str | int | None = None
    namespaces: list[msgspec.Raw] | None = None
    identifiers: list[msgspec.Raw] | None = None


class RestConnection:
    """A connection to a REST catalog, for any number of threads. After pickling it connects again in the other process, with the token that it has.

    Args:
        name: The name of the catalog.
        properties: The user's own properties.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.own_properties = dict(properties)
        if not properties.get(URI):
            raise InvalidPropertyError(f"catalog {name!r} has no uri", next_step="give it one, such as https://host/catalog")
        self.trusted = TrustedOrigins.of(properties, name)
        self.client = HttpClient(properties[URI], properties)
        self.auth = auth_session(properties, self.client, self.trusted)
        header = properties.get(f"{settings.HEADER_PREFIX}{settings.DELEGATION_HEADER}")
        delegation = properties.get(settings.ACCESS_DELEGATION, header or "vended-credentials,remote-signing").replace(" ", "")
        # Headers of requests whose responses may contain credentials or a signer for files.
        self.delegation: Mapping[str, str] = {} if delegation in ("", "none") else {settings.DELEGATION_HEADER: delegation}
        self._lock = threading.Lock()
        self._paths: RestPaths | None = None
        self._properties: dict[str, str] = {}
        self._has_idempotency = False

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def for_requests(self, *, has_own_token: bool = False) -> "RestConnection":
        """Return the connection without the user's properties, for a process that only sends requests; the authentication is kept.

        An OAuth2 session is kept with its secret, because a job may last longer than a token, and many servers do not exchange tokens for clients without a
        secret.

        Args:
            has_own_token: Whether each request uses the token that the server sent with a table, so that no other authentication is needed.
        """
        reduced = copy(self)
        if has_own_token:
            reduced.auth = NoAuth()
        reduced._lock = threading.Lock()
        reduced.own_properties = {}
        reduced._properties = {}
        return reduced

    @property
    def paths(self) -> RestPaths:
        """The endpoints of the server. Raises `IcefloeError` if the server's configuration cannot be fetched."""
        return self._fetch_configuration()[0]

    @property
    def properties(self) -> Mapping[str, str]:
        """The server's defaults, the user's properties and the server's overrides; later ones override earlier ones."""
        return self._fetch_configuration()[1]

    @property
    def has_idempotency(self) -> bool:
        """Whether the server supports idempotency keys, so that it carries out a repeated request only once."""
        self._fetch_configuration()
        return self._has_idempotency

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self.client.close()

    def _fetch_configuration(self) -> tuple[RestPaths, Mapping[str, str]]:
        if self._paths is None:
            with self._lock:
                if self._paths is None:
                    self._configure()
        assert self._paths is not None  # noqa: S101  set above
        return self._paths, self._properties

    def _configure(self) -> None:
        warehouse = self.own_properties.get("warehouse")
        reply = self.client.send("GET", "v1/config", auth=self.auth, query={"warehouse": warehouse} if warehouse else None)
        if reply.status == NOT_FOUND:
            raise NoSuchCatalogError(
                f"the server of catalog {self.name!r} has no warehouse {in_one_line(warehouse or '')!r}, or is no REST catalog: "
                f"{reply.message or 'status 404'}",
                next_step="check the catalog properties uri and warehouse",
            )
        if not reply.is_success:
            raise reply.error(f"the configuration of catalog {self.name!r} could not be read from {self.client.uri}")
        config = reply.parse(_Config)
        defaults, overrides = self._accept(texts(config.defaults)), self._accept(texts(config.overrides))
        properties = {**defaults, **self.own_properties, **overrides}
        prefix, separator = properties.get(settings.PREFIX) or "", properties.get(settings.NAMESPACE_SEPARATOR) or DEFAULT_SEPARATOR
        prefix = (
            quote(prefix, safe=_IN_PREFIX) if prefix.isprintable() else prefix
        )  # the name of a warehouse may contain spaces, or letters of any script
        if not _SEPARATOR.fullmatch(separator) or not _PREFIX.fullmatch(prefix) or ".." in unquote(prefix).split("/"):
            raise MetadataFormatError(
                f"the server of catalog {self.name!r} sent a prefix or a namespace separator that cannot be part of a path",
                next_step="correct the server's configuration",
            )
        if config.endpoints:
            endpoints = frozenset(" ".join(endpoint.split()) for endpoint in config.endpoints)
        else:
            has_views = settings.is_on(properties, settings.VIEW_ENDPOINTS, default=False)
            endpoints = frozenset(DEFAULT_ENDPOINTS | VIEW_ENDPOINTS if has_views else DEFAULT_ENDPOINTS)
        self._has_idempotency = bool(config.idempotency_key_lifetime)
        self._properties = properties
        self._paths = RestPaths(catalog=self.name, endpoints=endpoints, prefix=prefix.strip("/"), separator=separator)

    def _accept(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the properties that the server may set. Raises `LocationNotAllowedError` for an address that would receive the user's credentials."""
        for name in (URI, OAUTH2_SERVER_URI):
            text = given.get(name)
            if text:
                self.trusted.resolve(text, f"the server of catalog {self.name!r} ({name})")
        uri = given.get(URI)
        if uri:
            self.client.uri = self.trusted.resolve(uri, "the server").rstrip("/")
        return {name: text for name, text in given.items() if name.startswith(_OF_SERVER) or name in _NAMES_OF_SERVER}

    def request(
        self,
        endpoint: Endpoint,
        identifier: Identifier = (),
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        key: str | None = None,
        plan_id: str = "",
        is_repeatable: bool = False,
    ) -> Reply:
        """Send the request of an operation, and return the response, even if it is an error.

        Args:
            endpoint: The operation.
            identifier: The namespace, table or view.
            body: The value to send as JSON.
            query: The query parameters.
            headers: Additional headers.
            token: The bearer token that the server sent with the table.
            key: The idempotency key; by default a new key if the server supports keys and the operation changes something.
            plan_id: The id of a scan's plan.
            is_repeatable: Whether the operation may be carried out twice.

        Raises:
            UnsupportedFeatureError: the server does not have the operation.
            IcefloeError: the server's configuration or the credentials are not available.
        """
        path = self.paths.path(endpoint, identifier, plan_id=plan_id)
        all_headers = dict(headers or {})
        has_key = self.has_idempotency and endpoint.verb in ("POST", "DELETE") and endpoint not in _WITHOUT_KEY
        if has_key:
            all_headers["Idempotency-Key"] = key or new_key()
        auth: AuthSession = StaticToken(token) if token else self.auth
        content = b"" if body is None else msgspec.json.encode(body)
        return self.client.send(
            endpoint.verb, path, auth=auth, query=query, content=content, headers=all_headers, is_repeatable=is_repeatable or has_key
        )

    def sign(self, identifier: Identifier, address: str | None, body: object, *, headers: Mapping[str, str], token: str | None) -> Reply:
        """Request the signature for a request to a store from the server, and return the response.

        Args:
            identifier: The table.
            address: The address of the signing endpoint from the server; None for the endpoint in the protocol.
            body: The request to sign.
            headers: Additional headers.
            token: The bearer token that the server sent with the table.

        Raises:
            LocationNotAllowedError: the origin of the address is not among the trusted origins.
        """
        path = (
            self.paths.path(Endpoint.SIGN, identifier)
            if address is None
            else self.trusted.resolve(address, "the remote signing of a table")
        )
        auth: AuthSession = StaticToken(token) if token else self.auth
        content = msgspec.json.encode(body)
        return self.client.send("POST", path, auth=auth, content=content, headers=headers, is_repeatable=True)

    def pages(self, endpoint: Endpoint, identifier: Identifier = (), query: Mapping[str, str] | None = None) -> Iterator[Reply]:
        """Yield the pages of a listing; the last page may be an error.

        Raises:
            MetadataFormatError: the server repeats a page, or the listing exceeds the limits.
        """
        size = settings.number(self.properties, settings.PAGE_SIZE, 0)
        parameters = {**(query or {}), **({"pageSize": str(size)} if size else {}), "pageToken": ""}
        seen = set[str]()
        received = empty = 0
        while len(seen) < MOST_PAGES and received <= MOST_BYTES and empty <= MOST_EMPTY_PAGES:
            reply = self.request(endpoint, identifier, query=parameters)
            yield reply
            page = reply.parse(_Page) if reply.is_success else _Page()
            if page.next_page_token is None or page.next_page_token == "":
                return
            token = str(page.next_page_token)
            if token in seen or len(token) > _LONGEST_TOKEN:
                break
            seen.add(token)
            received += len(reply.content)
            empty = 0 if page.namespaces or page.identifiers else empty + 1
            parameters["pageToken"] = token
        raise MetadataFormatError(
            f"the server of catalog {self.name!r} repeats the pages of {endpoint.value}, or sends ever new ones: {len(seen):,} were read, the last "
            f"{empty:,} of them without a name",
            next_step="report it to the server's maintainers; the catalog property rest-page-size makes pages larger",
        )

    def __repr__(self) -> str:
        return f"RestConnection({self.name!r}, {self.client.uri!r})"


# Operations without an idempotency key: the protocol does not have it, or they may be carried out twice.
_WITHOUT_KEY = frozenset(
    {
        Endpoint.CREATE_VIEW,
        Endpoint.REPORT_METRICS,
        Endpoint.SIGN,
        Endpoint.PLAN,
        Endpoint.CANCEL_PLAN,
        Endpoint.FETCH_TASKS,
    }
)
