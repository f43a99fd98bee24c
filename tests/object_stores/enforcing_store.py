"""An S3 that enforces credentials, in front of moto, which does not: it gives temporary ones as a token service (STS), and refuses them once they have expired.

Each request must be signed by a key that is valid now: the store computes the signature again by botocore. The token service returns keys for AssumeRole that
are valid for a few seconds, which AWS's own does not do.
"""

import secrets
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.emulators import KEY, SECRET, forward

pytest.importorskip("botocore", reason="botocore is not installed: run make test-object-stores")
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROLE = "arn:aws:iam::123456789012:role/tables"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key that the token service gave."""

    key: str
    secret: str
    token: str
    until: float


@dataclass
class Seen:
    """What the store has seen: keys by the number of their accepted requests, the paths of accepted requests, and the reasons of refusals."""

    accepted: dict[str, int] = field(default_factory=dict)
    paths: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


class EnforcingStore:
    """The proxy. `lifetime_s` is that of issued keys; `latency_s` is waited before each answer to a request for an object."""

    def __init__(self, address: str, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.latency_s = 0.0
        self.issued: dict[str, IssuedKey] = {}
        self.seen = Seen()
        self.lock = threading.Lock()
        upstream = address.removeprefix("http://")
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # the body is written after the headers: the client confirms them only after 40 ms

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.command == "POST" and self.path == "/" and b"Action=AssumeRole" in body:
                    self._answer(200, store.assume_role(parse_qs(body.decode())))
                    return
                reason = store.refusal(self.command, self.path, dict(self.headers.items()), body)
                if reason is not None:
                    self._answer(403, f"<Error><Code>{reason}</Code><Message>refused</Message></Error>")
                    return
                time.sleep(store.latency_s)
                forward(self, upstream, body)

            def _answer(self, status: int, text: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do  # noqa: N815  the names of http.server

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def assume_role(self, query: dict[str, list[str]]) -> str:
        """Issue a key, and return the response of the token service."""
        assert query["RoleArn"] == [ROLE]
        issued = IssuedKey(
            f"ASIA{secrets.token_hex(8).upper()}", secrets.token_hex(20), secrets.token_hex(60), time.time() + self.lifetime_s
        )
        with self.lock:
            self.issued[issued.key] = issued
        expiry = datetime.fromtimestamp(issued.until, UTC).isoformat().replace("+00:00", "Z")
        return (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>'
            f"<AccessKeyId>{issued.key}</AccessKeyId><SecretAccessKey>{issued.secret}</SecretAccessKey>"
            f"<SessionToken>{issued.token}</SessionToken><Expiration>{expiry}</Expiration></Credentials>"
            f"<AssumedRoleUser><Arn>{ROLE}/icefloe</Arn><AssumedRoleId>A:icefloe</AssumedRoleId></AssumedRoleUser>"
            "</AssumeRoleResult></AssumeRoleResponse>"
        )

    def refusal(self, method: str, path: str, headers: dict[str, str], body: bytes) -> str | None:
        """Return the error code for a request; None for one that is signed by a key that is valid now."""
        by_name = {name.lower(): value for name, value in headers.items()}
        reason, key = self._checked(method, path, by_name, body)
        with self.lock:
            if reason is None:
                self.seen.accepted[key] = self.seen.accepted.get(key, 0) + 1
                self.seen.paths.append((method, path))
            else:
                self.seen.refused.append(reason)
        return reason

    def _checked(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[str | None, str]:
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if scheme != "AWS4-HMAC-SHA256":
            return "AccessDenied", ""
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        key, date, region, *_ = parts["Credential"].split("/")
        if key == KEY:
            secret, token = SECRET, None
        elif key in self.issued:
            issued = self.issued[key]
            secret, token = issued.secret, issued.token
            if headers.get("x-amz-security-token") != token:
                return "InvalidToken", key
            if time.time() > issued.until:
                return "ExpiredToken", key
        else:
            return "InvalidAccessKeyId", key
        signed = parts["SignedHeaders"].split(";")
        is_right = compare_digest(
            self._signature(method, path, headers, signed, body, Credentials(key, secret, token), region), parts["Signature"]
        )
        return (None if is_right and date else "SignatureDoesNotMatch"), key

    def _signature(
        self, method: str, path: str, headers: dict[str, str], signed: list[str], body: bytes, credentials: Credentials, region: str
    ) -> str:
        request = AWSRequest(
            method=method,
            url=f"http://{headers['host']}{path}",
            data=body,
            headers={name: headers[name] for name in signed if name in headers},
        )
        request.context["timestamp"] = headers["x-amz-date"]
        auth: Any = S3SigV4Auth(credentials, "s3", region)
        auth._should_sha256_sign_payload = lambda _: False
        canonical = "\n".join(
            [
                method,
                auth._normalize_url_path(path.partition("?")[0]),
                auth.canonical_query_string(request),
                auth.canonical_headers(auth.headers_to_sign(request)) + "\n",
                ";".join(signed),
                headers["x-amz-content-sha256"],
            ]
        )
        signature: str = auth.signature(auth.string_to_sign(request, canonical), request)
        return signature

    def secrets(self) -> list[str]:
        """Return every secret that the token service has given, and the root's own."""
        with self.lock:
            return [SECRET, *(text for issued in self.issued.values() for text in (issued.secret, issued.token))]

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
