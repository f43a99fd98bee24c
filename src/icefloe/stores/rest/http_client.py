"""`HttpClient`: HTTP requests to a REST catalog, with authentication, retries, limits and TLS. Each response is a `Reply`.

A request is sent again only if it cannot have its effect twice: it was never sent, because no connection was made; the server refused the request because of
its load (429, or 503 with Retry-After); or the request changes nothing, or has an idempotency key. Because a server may have lost the key, the reply to a
repeat has a flag: its error does not show whether the first request had an effect. Redirects are not followed, because they would send credentials to another
host.
Spec: REST catalog, Idempotency-Key, AuthenticationTimeoutResponse.
"""

import io
import random
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from icefloe.errors import InvalidPropertyError
from icefloe.optional_packages import optional_module
from icefloe.stores.rest import settings
from icefloe.stores.rest.http_reply import NO_REPLY, TOKEN_EXPIRED, UNAUTHORIZED, Reply, failed_reply, server_text
from icefloe.version import __version__

if TYPE_CHECKING:
    import httpx

# The maximum size of a body after decompression, of a success and of an error.
MOST_BYTES, MOST_ERROR_BYTES = 1 << 30, 1 << 16
# The number of bytes that are decompressed in one step.
_PART_BYTES = 1 << 20
# The seconds of the first wait between attempts, of the longest wait, and of the longest wait that a server may request.
FIRST_WAIT_S, LONGEST_WAIT_S, LONGEST_RETRY_AFTER_S = 0.2, 20.0, 120.0
_RETRIED = frozenset({408, 425, 500, 502, 503, 504})
_SAFE = frozenset({"GET", "HEAD"})
# Prefixes of the properties that configure the connection.
_OF_CONNECTION = ("rest.client.", "ssl.")
CLIENT_VERSION = f"icefloe {__version__}"


class AuthSession(Protocol):
    """The authentication of requests. Any number of threads may use an object; it can be pickled for another process."""

    def headers(self, method: str, url: str, headers: Mapping[str, str], content: bytes) -> Mapping[str, str]:
        """Return the headers of a request, with the headers that authenticate it added."""

    def renew(self) -> bool:
        """Get new credentials after the server refused the current ones. Return whether there are new credentials now."""

    def secrets(self) -> list[str]:
        """Return the texts that never appear in a message."""


class HttpClient:
    """A client for one address, with a pool of connections that any number of threads share.

    Args:
        uri: The address of the catalog.
        properties: The catalog's properties.
    """

    def __init__(self, uri: str, properties: Mapping[str, str]) -> None:
        self.uri = uri.rstrip("/")
        self._properties = {name: text for name, text in properties.items() if name.startswith(_OF_CONNECTION)}
        self._retries = settings.number(properties, settings.MAX_RETRIES, 5)
        self._secrets = settings.secrets_of(properties)
        own = {name: text for name, text in properties.items() if name.startswith((*_OF_CONNECTION, settings.HEADER_PREFIX))}
        self._own_secrets = settings.secrets_of(own)
        self._common = {"Accept": "application/json", "X-Client-Version": CLIENT_VERSION, "User-Agent": CLIENT_VERSION}
        self._common |= {
            name.removeprefix(settings.HEADER_PREFIX): text for name, text in properties.items() if name.startswith(settings.HEADER_PREFIX)
        }
        self._pool: httpx.Client | None = None
        self._lock = threading.Lock()
        _httpx()  # so that a missing package is an error now, and not at the first request

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in ("_pool", "_lock")}
        return {
            **state,
            "_secrets": self._own_secrets,
        }  # another process needs the user's properties for its requests; the authentication object has its own secrets

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pool = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        auth: AuthSession,
        query: Mapping[str, str] | None = None,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        is_repeatable: bool = False,
        secrets: Sequence[str] = (),
    ) -> Reply:
        """Send a request, repeat it if that is safe, and return the response, even if it is an error.

        Args:
            method: The HTTP method.
            path: The encoded path below the catalog's address; or a complete address.
            auth: The authentication.
            query: The query parameters, not encoded.
            content: The body.
            headers: Additional headers.
            content_type: The media type of the body.
            is_repeatable: Whether the request may be sent again even if the server may have carried it out.
            secrets: Secrets in the body, which are removed from errors.

        Raises:
            IcefloeError: the credentials are not available.
        """
        url = path if "://" in path else f"{self.uri}/{path}"
        if query:
            url += "?" + "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in query.items())
        named = f"{method} {path.partition('?')[0]}"
        all_headers = {**self._common, **(headers or {})}
        if content:
            all_headers["Content-Type"] = content_type
        has_renewed = is_repeat = False
        for attempt in range(self._retries + 1):
            reply = self._send_once(named, method, url, auth, all_headers, content, secrets)
            if reply.status in (UNAUTHORIZED, TOKEN_EXPIRED) and not has_renewed and auth.renew():
                has_renewed = True
                reply = self._send_once(named, method, url, auth, all_headers, content, secrets)
            if is_repeat:
                reply = replace(reply, was_repeated=True)
            if reply.is_success or attempt == self._retries or not self._may_repeat(reply, method in _SAFE or is_repeatable):
                return reply
            is_repeat = is_repeat or (reply.is_unknown and not reply.is_refused_for_load)
            time.sleep(_wait(attempt, reply))
        raise AssertionError("unreachable")

    def _may_repeat(self, reply: Reply, is_repeatable: bool) -> bool:
        if reply.status == NO_REPLY:
            return is_repeatable or not reply.was_sent
        if reply.is_refused_for_load:
            return True
        return is_repeatable and reply.status in _RETRIED

    def _send_once(
        self, named: str, method: str, url: str, auth: AuthSession, headers: Mapping[str, str], content: bytes, in_body: Sequence[str]
    ) -> Reply:
        sent = auth.headers(method, url, headers, content)
        secrets = [*self._secrets, *auth.secrets(), *in_body]
        library = _httpx()
        try:
            request = self._connect().build_request(method, url, content=content or None, headers=dict(sent))
            response = self._connect().send(request, stream=True)
            try:
                received = {name.lower(): text for name, text in response.headers.items()}
                status = response.status_code
                is_success = 200 <= status < 300 or status == 304
                body = _read_body(response, MOST_BYTES if is_success else MOST_ERROR_BYTES)
            finally:
                response.close()
        except (library.HTTPError, library.InvalidURL, library.StreamError, zlib.error, UnicodeError, OSError) as error:
            unsent = (library.ConnectError, library.ConnectTimeout, library.PoolTimeout, library.UnsupportedProtocol, library.InvalidURL)
            was_sent = not isinstance(error, unsent)
            text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Reply(request=named, status=NO_REPLY, message=server_text(text, secrets), was_sent=was_sent)
        if body is None:
            too_long = f"the answer is longer than {MOST_BYTES} bytes"
            return (
                Reply(request=named, status=NO_REPLY, message=too_long)
                if is_success
                else failed_reply(named, status, b"", received, secrets)
            )
        if is_success:
            return Reply(request=named, status=status, content=body, headers=received)
        return failed_reply(named, status, body, received, secrets)

    def _connect(self) -> "httpx.Client":
        with self._lock:
            if self._pool is None:
                self._pool = _new_pool(self._properties)
                weakref.finalize(self, self._pool.close)  # users need not close a catalog
            return self._pool


def _httpx() -> Any:
    return optional_module("httpx", extra="rest", feature="a REST catalog")


def _read_body(response: "httpx.Response", most: int) -> bytes | None:
    """Return the decompressed body; None if it is longer than `most` bytes."""
    # The parts of a long body are not collected in a list, so that it is in memory only once.
    body = io.BytesIO()
    for part in _decompress(response):
        if body.tell() + len(part) > most:
            return None
        body.write(part)
    return body.getvalue()


def _decompress(response: "httpx.Response") -> Iterator[bytes]:
    """Yield the decompressed parts of a body. httpx would decompress each received part in one step, which can turn a few kilobytes into gigabytes."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        yield from response.iter_raw()
        return
    if encoding != "gzip":
        raise _httpx().DecodingError(f"the answer has the encoding {encoding[:100]!r}, which was not requested")
    gzip, has_begun = zlib.decompressobj(zlib.MAX_WBITS | 16), False
    for part in response.iter_raw():
        rest, has_begun = part, True
        while rest and not gzip.eof:
            yield gzip.decompress(rest, _PART_BYTES)
            rest = gzip.unconsumed_tail
        if gzip.eof and (rest or gzip.unused_data):
            raise _httpx().DecodingError("the answer continues after the end of its gzip data")
    yield gzip.flush()
    if has_begun and not gzip.eof:  # a response to HEAD has the header, but no body
        raise _httpx().DecodingError("the answer is cut short")


def _wait(attempt: int, reply: Reply) -> float:
    """Return the seconds before the next attempt: the time that the server requests, or doubling waits with jitter."""
    backoff: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**attempt) * random.SystemRandom().uniform(0.5, 1.0)
    retry_after = reply.headers.get("retry-after", "").strip()
    if retry_after.isdecimal() and len(retry_after) < 6:
        return max(backoff, min(float(retry_after), LONGEST_RETRY_AFTER_S))
    if retry_after:
        try:
            return max(backoff, min(parsedate_to_datetime(retry_after).timestamp() - time.time(), LONGEST_RETRY_AFTER_S))
        except (ValueError, TypeError, OverflowError):
            return backoff
    return backoff


def _new_pool(properties: Mapping[str, str]) -> "httpx.Client":
    connect_s = settings.number(properties, settings.CONNECT_TIMEOUT_MS, 10_000, 1) / 1000
    read_s = settings.number(properties, settings.SOCKET_TIMEOUT_MS, 60_000, 1) / 1000
    most = settings.number(properties, settings.MAX_CONNECTIONS, 100, 1)
    library = _httpx()
    pool: httpx.Client = library.Client(
        headers={"Accept-Encoding": "gzip"},  # set by the connection pool and not signed, because proxies change it
        verify=_tls(properties),
        proxy=_proxy(properties),
        timeout=library.Timeout(read_s, connect=connect_s, pool=None),
        limits=library.Limits(max_connections=most, max_keepalive_connections=most),
        follow_redirects=False,
        trust_env=True,
    )
    return pool


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    bundle, certificate = properties.get(settings.CA_BUNDLE), properties.get(settings.CLIENT_CERTIFICATE)
    try:
        if not bundle and not certificate:
            paths = ssl.get_default_verify_paths()
            return _tls_of_this_machine(paths, tuple(Path(path).stat().st_mtime_ns for path in (paths.cafile, paths.capath) if path))
        context = ssl.create_default_context(cafile=bundle or None)
        if certificate:
            context.load_cert_chain(certificate, properties.get(settings.CLIENT_KEY) or None)
    except (OSError, ssl.SSLError) as error:
        raise InvalidPropertyError(
            f"the certificates of the catalog properties {settings.CA_BUNDLE} and {settings.CLIENT_CERTIFICATE} cannot be read: {error}",
            next_step="name files in PEM form that this user can read",
        ) from error
    return context


@lru_cache(maxsize=1)
def _tls_of_this_machine(paths: ssl.DefaultVerifyPaths, changed: tuple[int, ...]) -> ssl.SSLContext:  # noqa: ARG001  keys of the cache
    # To load the certificates that a machine trusts takes 30 ms; they are loaded again after they have changed.
    return ssl.create_default_context()


def _proxy(properties: Mapping[str, str]) -> "httpx.Proxy | None":
    host = properties.get(settings.PROXY_HOST)
    if not host:
        return None
    port = settings.number(properties, settings.PROXY_PORT, 8080, 1)
    user, password = properties.get(settings.PROXY_USERNAME), properties.get(settings.PROXY_PASSWORD)
    proxy: httpx.Proxy = _httpx().Proxy(f"http://{host}:{port}", auth=(user, password or "") if user else None)
    return proxy
