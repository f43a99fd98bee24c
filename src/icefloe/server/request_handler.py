"""`RequestHandler`: the steps of every request: authentication, limits, the body, rights, the idempotency key, the operation, errors, the log.

Operations are plain functions that run in threads, because catalogs and storages block. If the client disconnects or the time is over, a running operation
continues to its end, so that a commit is never interrupted. Spec: REST catalog.
"""

import asyncio
import functools
import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from icefloe.errors import IcefloeError
from icefloe.io.loopback import is_loopback
from icefloe.server.access_control import Access, check_access, check_access_somewhere
from icefloe.server.access_tokens import AccessTokens
from icefloe.server.body_limits import check_amounts
from icefloe.server.error_response import (
    INTERNAL_ERROR,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
    ErrorModel,
    RefusedRequest,
    bad_request,
    error_model,
    forbidden,
    unauthorized_response,
)
from icefloe.server.idempotency_store import IdempotencyStore, checked_key
from icefloe.server.protocol_messages import message_of
from icefloe.server.rate_limit import RateLimit
from icefloe.server.request import Answer, Call, identifier_of, namespace_of
from icefloe.server.request_log import LOG, log_request
from icefloe.server.rest_operations import RestOperation, Role
from icefloe.server.served_catalog import Handler, ServedCatalog
from icefloe.server.server_settings import ServerSettings
from icefloe.spec.identifier import Identifier

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
# The bytes before every JSON value except the first: in a list, in an object, after another value. In texts they are counted too.
_BEFORE_VALUES = (b"[", b"{", b",")
# The most bytes of a token request, whose body is read before its sender is known.
TOKEN_REQUEST_BYTES = 64 * 1024
# Operations whose response is a table or view that can be loaded again, each with the operation that loads it.
LOADED_BY = {
    "createTable": "loadTable",
    "registerTable": "loadTable",
    "updateTable": "loadTable",
    "replaceView": "loadView",
    "registerView": "loadView",
}
# Operations whose namespaces are named in the body, not in the path.
NAMED_BY_BODY = frozenset({"createNamespace", "renameTable", "renameView", "commitTransaction"})


class RequestHandler:
    """Handles the requests of one worker."""

    def __init__(
        self,
        settings: ServerSettings,
        served: ServedCatalog,
        handlers: Mapping[str, Handler],
        keys: IdempotencyStore,
    ) -> None:
        limits = settings.limits
        self._settings = settings
        self._served = served
        self._handlers = handlers
        self._keys = keys
        self.tokens = None if settings.users is None else AccessTokens(settings.users, settings.key)
        self._rate = RateLimit(limits.requests_per_second, 2 * limits.requests_per_second)
        self._refused_rate = RateLimit(limits.refused_per_second, 2 * limits.refused_per_second)
        self._threads = anyio.CapacityLimiter(limits.threads)

    async def respond(self, operation: RestOperation, request: Request) -> Response:
        """Return the response to a request."""
        started, request_id = time.perf_counter(), uuid.uuid4().hex
        fields: dict[str, Any] = {"id": request_id, "operation": operation.name, "client": request.client.host if request.client else ""}
        try:
            async with asyncio.timeout(self._settings.limits.request_s):
                answer = await self._answer(operation, request, fields)
        except TimeoutError:
            answer = _error_answer(_timed_out(operation))
        except ClientDisconnect:
            answer = Answer(status=499)
        except Exception as error:  # noqa: BLE001  every error becomes a response
            answer = _failure(error, request_id)
        fields |= {"ms": round((time.perf_counter() - started) * 1000, 2)}
        log_request(fields, answer.status)
        return _response(answer, request_id, is_head=operation.method == "HEAD")

    async def _answer(self, operation: RestOperation, request: Request, fields: dict[str, Any]) -> Answer:
        access = self._access(operation, request)
        fields["user"] = access.user
        fields |= {name: value for name, value in request.path_params.items() if isinstance(value, str)}
        if operation.name == "getToken":
            return self._token(request, await self._body(request, TOKEN_REQUEST_BYTES))
        call = Call(
            path=request.path_params,
            query=dict(request.query_params),
            headers=dict(request.headers),
            access=access,
            base_url=self._base_url(request),
        )
        # Rights are checked before the body is read, so that a user without rights cannot make the server read and decode it.
        if operation.name in NAMED_BY_BODY:
            check_access_somewhere(operation, access)
        else:
            check_access(operation, call, touched_namespaces(operation, call))
        call = replace(call, body=await self._body(request, self._settings.limits.body_bytes))
        run = functools.partial(self._perform, operation, call, fields["id"])
        # If this coroutine is cancelled, the thread continues, but no longer counts towards the limit of threads.
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self._threads)

    def _perform(self, operation: RestOperation, call: Call, request_id: str) -> Answer:
        """Decode the body, run the operation and encode its response. All run in a thread, so that the event loop stays free."""
        call = replace(call, content=self._content(operation, call))
        if operation.name in NAMED_BY_BODY:
            check_access(operation, call, touched_namespaces(operation, call))
        check_amounts(call.content, self._settings.limits)
        return self._run(operation, call, request_id).encode()

    def _run(self, operation: RestOperation, call: Call, request_id: str) -> Answer:
        """Run an operation; with an idempotency key only once."""
        run = functools.partial(self._handlers[operation.name], self._served, call)
        act = functools.partial(self._answer_of, run, operation, call, request_id)
        key = call.headers.get("idempotency-key")
        if not key or not operation.takes_key:
            return act()
        loader = self._loader(operation, call)
        load = functools.partial(self._answer_of, loader, operation, call, request_id) if loader is not None else None
        return self._keys.once(call.access.user, checked_key(key), _fingerprint(operation, call), act, load)

    @staticmethod
    def _answer_of(run: Callable[[], Answer], operation: RestOperation, call: Call, request_id: str) -> Answer:
        """Return the response of a function. For an error, the message of the response shows only what the user is allowed to know."""
        try:
            return run()
        except IcefloeError as error:
            model = error_model(error)
            return _error_answer(replace(model, message=message_of(error, operation, call)))
        except Exception as error:  # noqa: BLE001  every error becomes a response
            return _failure(error, request_id)

    def _loader(self, operation: RestOperation, call: Call) -> Callable[[], Answer] | None:
        """Return the function that loads what an operation created, for a retry; None if there is nothing to load."""
        name = LOADED_BY.get(operation.name)
        if name is None:
            return None
        kind = "view" if name == "loadView" else "table"
        named = call.content.get("name") if isinstance(call.content, dict) else None
        path = call.path if kind in call.path else {**call.path, kind: quote(str(named or ""), safe="")}
        if isinstance(call.content, dict) and call.content.get("stage-create"):
            return None  # a staged table cannot be loaded before it is committed
        without = {header: value for header, value in call.headers.items() if header != "if-none-match"}
        return functools.partial(self._handlers[name], self._served, replace(call, path=path, headers=without, query={}))

    def _access(self, operation: RestOperation, request: Request) -> Access:
        """Return the rights of the user who sent a request.

        Raises:
            RefusedRequest: The request has no valid token, or the user exceeds a rate limit.
        """
        address = request.client.host if request.client else ""
        if self.tokens is None:
            _check_local(request)
            self._check_rate(self._rate, address)
            return Access()
        if operation.role is Role.NONE:
            return Access(user="", grants=())  # `_token` checks the credentials, which are in the body
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self.tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            self._check_rate(self._refused_rate, address)
            raise unauthorized_response("the request has no valid token; send one in the header Authorization: Bearer")
        self._check_rate(self._rate, f"user {user.name}")
        return user.access

    def _base_url(self, request: Request) -> str:
        """Return the address by which the client reaches the server. It is https if a proxy ends TLS, because clients send their tokens to it."""
        address = request.base_url.replace(scheme="https") if self._settings.behind_tls else request.base_url
        return str(address).rstrip("/")

    @staticmethod
    def _check_rate(limit: RateLimit, caller: str) -> None:
        wait = limit.take(caller)
        if wait is not None:
            raise RefusedRequest(TOO_MANY, "SlowDownException", "too many requests in a second", ("Retry-After", str(wait)))

    @staticmethod
    async def _body(request: Request, most: int) -> bytes:
        length = request.headers.get("content-length", "0")
        body = bytearray()
        if length.isdigit() and int(length) <= most:
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    break
            else:
                return bytes(body)
        raise RefusedRequest(TOO_LARGE, "BadRequestException", f"the body has more than {most} bytes", ("Connection", "close"))

    def _content(self, operation: RestOperation, call: Call) -> Any:
        """Return the JSON of the body; None if there is no body."""
        if not call.body or operation.method in ("GET", "HEAD", "DELETE"):
            return None
        kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise bad_request(f"the body is {kind or 'of no type'}; send JSON with the header Content-Type: {JSON}")
        # Values are counted first: no other thread runs while JSON is decoded, and many empty lists take a hundred times as long as a text.
        most = self._settings.limits.body_values
        if sum(map(call.body.count, _BEFORE_VALUES)) >= most:
            raise RefusedRequest(TOO_LARGE, "BadRequestException", f"the body has more than {most} values")
        try:
            return msgspec.json.decode(call.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the body is not JSON: {error}") from None

    def _token(self, request: Request, body: bytes) -> Answer:
        """Return the response to a token request.

        The request counts for the rate limit of its user. Without valid credentials it counts for its address, which all clients behind a proxy share.
        """
        answer = self._token_answer(request, body)
        user = None if self.tokens is None or answer.status != 200 else self.tokens.user_of(answer.content["access_token"])
        if user is not None:
            self._check_rate(self._rate, f"user {user.name}")
        elif self.tokens is not None:
            self._check_rate(self._refused_rate, request.client.host if request.client else "")
        return answer

    def _token_answer(self, request: Request, body: bytes) -> Answer:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if self.tokens is None:
            return Answer(
                status=400, content={"error": "unauthorized_client", "error_description": "the server has no authentication: send no token"}
            )
        if kind != FORM:
            return Answer(
                status=400, content={"error": "invalid_request", "error_description": f"send a form with the header Content-Type: {FORM}"}
            )
        return self.tokens.answer(body, request.headers.get("authorization", ""))


def touched_namespaces(operation: RestOperation, call: Call) -> Iterator[Identifier]:
    """Yield the namespaces in which the user needs the role of an operation.

    Args:
        operation: The operation.
        call: The request, whose path, query and body name tables, views or namespaces.

    Raises:
        RefusedRequest, InvalidIdentifierError: A name is missing or not valid.
    """
    content = call.content if isinstance(call.content, dict) else {}
    if "namespace" in call.path:
        yield call.namespace()
    elif operation.name == "listNamespaces":
        yield namespace_of(call.query["parent"]) if call.query.get("parent") else ()
    elif operation.name == "createNamespace":
        levels = content.get("namespace")
        yield tuple(levels) if isinstance(levels, list) and all(isinstance(level, str) for level in levels) else ()
    elif operation.name in ("renameTable", "renameView"):
        yield identifier_of(content.get("source"), "$.source")[:-1]
        yield identifier_of(content.get("destination"), "$.destination")[:-1]
    elif operation.name == "commitTransaction":
        changes = content.get("table-changes")
        for at, change in enumerate(changes if isinstance(changes, list) else ()):
            identifier = change.get("identifier") if isinstance(change, dict) else None
            yield identifier_of(identifier, f"$.table-changes[{at}].identifier")[:-1]


def _check_local(request: Request) -> None:
    """Refuse requests of web pages to a server without authentication: those with a host name that resolves to loopback, and those from another origin."""
    host = request.url.hostname or ""
    if not is_loopback(host):
        raise forbidden(f"a server without authentication is reached as localhost, and not as {host!r}")
    if "origin" in request.headers:
        raise forbidden("a server without authentication takes no requests of web pages")


def _fingerprint(operation: RestOperation, call: Call) -> str:
    """Return a digest of the operation, the names and the body of a request."""
    digest = hashlib.sha256()
    for part in (operation.name, *(f"{name}={value}" for values in (call.path, call.query) for name, value in sorted(values.items()))):
        digest.update(part.encode() + b"\0")
    digest.update(call.body)
    return digest.hexdigest()


def _timed_out(operation: RestOperation) -> ErrorModel:
    if operation.commits:
        return ErrorModel(
            code=TIMED_OUT,
            kind="CommitStateUnknownException",
            message="the commit takes longer than the server waits; it is unknown whether it happens",
        )
    if operation.takes_key:  # not the status UNAVAILABLE, after which a client would repeat it
        return ErrorModel(
            code=TIMED_OUT,
            kind="ServiceUnavailableException",
            message="the change takes longer than the server waits; it is unknown whether it happens",
        )
    return ErrorModel(
        code=UNAVAILABLE,
        kind="ServiceUnavailableException",
        message="the request takes longer than the server waits",
        headers=(("Retry-After", "5"),),
    )


def _failure(error: Exception, request_id: str) -> Answer:
    model = error_model(error)
    if model is INTERNAL_ERROR:
        LOG.error("failure", exc_info=error, extra={"fields": {"id": request_id}})
    return _error_answer(model)


def _error_answer(model: ErrorModel) -> Answer:
    return Answer(status=model.code, content=model.as_json(), headers=dict(model.headers))


def _response(answer: Answer, request_id: str, *, is_head: bool) -> Response:
    headers = {"X-Request-Id": request_id, "Cache-Control": "no-store", **answer.headers}
    has_body = answer.status not in (204, 304, 499) and not is_head
    body = answer.body if answer.body is not None else msgspec.json.encode(answer.content)
    return Response(body if has_body else None, answer.status, headers, media_type=JSON if has_body else None)
