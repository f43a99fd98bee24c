"""A REST server in this process, for failures that no real server makes on demand: each test writes its responses; requests are recorded."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from icefloe.errors import CommitConflictError
from icefloe.spec.metadata.created_table import created_table
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.metadata_writer import table_metadata_parts
from icefloe.spec.metadata.new_table import new_table_metadata
from icefloe.spec.metadata.requirement import requirement_from_json
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.update_json import update_from_json
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import LongType, NestedField


@dataclass(frozen=True, slots=True)
class Request:
    """A request that arrived."""

    verb: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sends; `hangs_up` closes the connection without an answer, after the request was carried out."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs_up: bool = False

    @property
    def content(self) -> bytes:
        if self.body is None or isinstance(self.body, bytes):
            return self.body or b""
        return json.dumps(self.body).encode()


def problem(status: int, kind: str, message: str = "no", headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, {"error": {"message": message, "type": kind, "code": status}}, headers or {})


Handler = Callable[[Request], Answer]


class RestDouble:
    """Responses by verb and path: a list is used up, one for each request, and its last one stays."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.reports: list[Request] = []
        self._routes: dict[tuple[str, str], list[Answer] | Handler] = {}
        self.uri = ""
        self.on("GET", "/v1/config", Answer(200, {"defaults": {}, "overrides": {}}))

    def on(self, verb: str, path: str, *answers: Answer, call: Handler | None = None) -> None:
        self._routes[verb, path] = call if call is not None else list(answers)

    def of(self, verb: str, path: str) -> list[Request]:
        return [request for request in self.requests if (request.verb, request.path) == (verb, path)]

    def respond(self, request: Request) -> Answer:
        if request.verb == "POST" and request.path.endswith("/metrics"):  # comes in the background, at no certain time
            self.reports.append(request)
            return Answer(204)
        self.requests.append(request)
        route = self._routes.get((request.verb, request.path))
        if route is None:
            return problem(404, "NoSuchTableException", f"nothing at {request.path}")
        if callable(route):
            return route(request)
        return route.pop(0) if len(route) > 1 else route[0]


@contextmanager
def running(double: RestDouble) -> Iterator[RestDouble]:
    class _Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # the body is written after the headers: the client confirms them only after 40 ms

        def _respond(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            answer = double.respond(Request(self.command, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), headers, body))
            if answer.hangs_up:
                self.close_connection = True
                return
            self.send_response(answer.status)
            content = answer.content
            for name, text in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, text)
            if answer.status not in (204, 304) and "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD" and answer.status not in (204, 304):
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _respond  # noqa: N815  the names of http.server

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    double.uri = f"http://127.0.0.1:{server.server_port}"
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class OneTable:
    """The table `db.t` behind the protocol: loads with tags, and commits that check requirements and apply updates; without metadata, one that creates it."""

    path = "/v1/namespaces/db/tables/t"

    def __init__(self, double: RestDouble, location: str, **result: Any) -> None:
        self.metadata: TableMetadata | None = new_table_metadata(
            location=location, schema=Schema(NestedField(1, "n", LongType())), table_uuid="11111111-2222-3333-4444-555555555555", now_ms=1
        )
        self.version = 0
        Path(location, "metadata").mkdir(parents=True)
        self.result = result
        self.commits = 0
        self.answers: list[
            Answer | None
        ] = []  # sent in place of the real one to the next commits, which are carried out unless it is before
        self.before: list[Answer] = []  # sent to the next commits, which are not carried out
        self._write()
        double.on("GET", self.path, call=self.load)
        double.on("POST", self.path, call=self.commit)
        double.on("GET", "/v1/namespaces/db/tables", Answer(200, {"identifiers": [{"namespace": ["db"], "name": "t"}]}))

    @property
    def location(self) -> str:
        assert self.metadata is not None
        return f"{self.metadata.location}/metadata/{self.version:05d}-x.metadata.json"

    def at(self, location: str) -> None:
        """Move the table to another location, as if it had always been there."""
        assert self.metadata is not None
        self.metadata = replace(self.metadata, location=location)

    def _write(self) -> None:
        """Write the metadata file, as a server does, where the table is in a local folder."""
        if "://" in self.location:
            return
        Path(self.location).write_text(json.dumps(self._body()["metadata"]))

    def _body(self) -> dict[str, Any]:
        assert self.metadata is not None
        content = b"".join(bytes(part) for part in table_metadata_parts(self.metadata, gzip=False))
        return {"metadata-location": self.location, "metadata": json.loads(content)}

    def load(self, request: Request) -> Answer:
        if self.metadata is None:
            return problem(404, "NoSuchTableException")
        tag = f'"{self.version}-{request.query.get("snapshots", "all")}"'
        if request.headers.get("if-none-match") == tag:
            return Answer(304, headers={"ETag": tag})
        return Answer(200, {**self._body(), **self.result}, {"ETag": tag})

    def commit(self, request: Request) -> Answer:
        if self.before:
            return self.before.pop(0)
        answer = self._carried_out(request)
        replaced = self.answers.pop(0) if self.answers else None
        return answer if replaced is None else replaced

    def staged(self, double: RestDouble) -> None:
        """Take the table away, and let a staged create return its metadata, which the first commit creates."""
        prepared = {"metadata": self._body()["metadata"]}
        self.metadata = None
        double.on("POST", "/v1/namespaces/db/tables", Answer(200, prepared))

    def _carried_out(self, request: Request) -> Answer:
        try:
            for requirement in request.json["requirements"]:
                requirement_from_json(requirement).check(self.metadata)
        except CommitConflictError as error:
            return problem(409, "CommitFailedException", str(error))
        updates, now_ms = [update_from_json(update) for update in request.json["updates"]], time.time_ns() // 1_000_000
        if self.metadata is None:
            self.metadata = created_table(updates, table_uuid="22222222-2222-3333-4444-555555555555", now_ms=now_ms)
        else:
            self.metadata = apply_updates(self.metadata, updates, max(now_ms, self.metadata.last_updated_ms + 1))
        self.version += 1
        self.commits += 1
        self._write()
        return Answer(200, self._body(), {"ETag": f'"{self.version}-all"'})
