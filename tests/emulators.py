"""Emulators of object stores, which run for the tests on free loopback ports: moto for S3 and Glue, azurite for Azure, fake-gcs-server for Google.

`scripts/emulators` installs azurite and fake-gcs-server into `.emulators`, by npm and Go; moto is a package of `.venvs/object-stores`. Tests whose emulator is
not there are skipped with the reason.
"""

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest

ROOT = Path(__file__).parents[1]
EMULATORS = ROOT / ".emulators"
# Seconds to wait for a server, which starts slowly on a loaded machine.
START_S = 90
KEY, SECRET = "AKIAEMULATOR", "secret-of-the-emulator"
# The account and the key that azurite has by default, as its documentation lists them.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
# gcsfs first requests by gRPC whether a bucket is zonal, which fake-gcs-server does not reply to. Spark's workers have the variable only if it is set before
# Spark starts, which may be before the emulator does.
os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """A running emulator of an object store: the location of an empty bucket, and the catalog properties that reach it."""

    bucket: str
    properties: Mapping[str, str] = field(repr=False)


@contextmanager
def moto() -> Iterator[str]:
    """Start moto's server, and yield its address."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("s3fs") is None:
        pytest.skip("moto and s3fs are not installed: run make test-object-stores")
    with running([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "{port}"]) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def azurite() -> Iterator[str]:
    """Start azurite's server of blobs, and yield a connection string."""
    program = EMULATORS / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists() or importlib.util.find_spec("adlfs") is None:
        pytest.skip("azurite or adlfs is not installed: run make test-object-stores")
    options = ["--blobHost", "127.0.0.1", "--blobPort", "{port}", "--silent", "--skipApiVersionCheck", "--inMemoryPersistence"]
    with running([str(program), *options]) as port:
        yield (
            f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};"
            f"BlobEndpoint=http://127.0.0.1:{port}/{AZURE_ACCOUNT};"
        )


@contextmanager
def fake_gcs() -> Iterator[str]:
    """Start fake-gcs-server, and yield its address."""
    program = EMULATORS / "bin" / "fake-gcs-server"
    if not program.exists() or importlib.util.find_spec("gcsfs") is None:
        pytest.skip("fake-gcs-server or gcsfs is not installed: run make test-object-stores")
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory", "-external-url", address, "-log-level", "error"]
    with running([str(program), "-port", "{port}", *options], port):
        yield address


@contextmanager
def running(command: list[str], port: int | None = None) -> Iterator[int]:
    """Start a server and yield its port, which replaces `{port}` in the command; skip the test if it does not start."""
    port = port or _free_port()
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([part.replace("{port}", str(port)) for part in command], stdout=log, stderr=log, env=environment)
        try:
            until = time.monotonic() + START_S
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    pytest.skip(f"{command[0]} did not start: {log.read()[-500:].decode(errors='replace')}")
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def s3_properties(address: str) -> dict[str, str]:
    """Return the properties of a catalog whose files are in moto."""
    return {
        "s3.endpoint": address,
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
    }


def new_bucket(address: str) -> str:
    """Create an empty bucket in moto, and return its name."""
    name = f"b{uuid.uuid4().hex}"
    connection = HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request(
        "PUT", f"/{name}", headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request"}
    )
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()
    return name


def forward(handler: BaseHTTPRequestHandler, upstream: str, body: bytes) -> None:
    """Send a proxy's request to the host and port `upstream`, and its answer to the client."""
    hop_by_hop = ("transfer-encoding", "connection")
    connection = HTTPConnection(upstream, timeout=60)
    connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
    for name, value in handler.headers.items():
        if name.lower() not in hop_by_hop:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    content = answer.read()
    handler.send_response(answer.status)
    length = answer.getheader("Content-Length") if handler.command == "HEAD" else str(len(content))
    for name, value in answer.getheaders():
        if name.lower() not in (*hop_by_hop, "content-length"):
            handler.send_header(name, value)
    handler.send_header("Content-Length", length or "0")
    handler.end_headers()
    handler.wfile.write(content)
    connection.close()


class RequestLog:
    """A proxy in front of an emulator that lists the requests: method, path and range."""

    def __init__(self, address: str) -> None:
        self.requests: list[tuple[str, str, str]] = []
        lock = Lock()
        upstream = address.removeprefix("http://")
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # the body is written after the headers: the client confirms them only after 40 ms

            def do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    requests.append((self.command, self.path, self.headers.get("Range") or ""))
                forward(self, upstream, body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do  # noqa: N815  the names of http.server

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def of(self, part: str) -> list[tuple[str, str, str]]:
        """Return the requests whose path contains a text."""
        return [request for request in self.requests if part in request[1]]

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
