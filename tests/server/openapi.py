"""The responses of the server against the OpenAPI document of Iceberg's REST catalogs, where the environment names a copy of it.

ICEFLOE_REST_OPENAPI=/path/to/rest-catalog-open-api.yaml checks every response that the tests of this folder get, and those of the server in the tests of
the REST catalog. A stream of planned files is checked as the JSON that has the same members. The document is not part of the project.
"""

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from icefloe.scan.scan_task_stream import MEDIA_TYPE
from icefloe.spec.manifest.manifest_columns import STATISTICS

VARIABLE = "ICEFLOE_REST_OPENAPI"
# Statuses that a server may return to any request, and that the document has in no operation. Spec: RFC 9110.
ANYWHERE = frozenset({405, 413, 429})
# The status of a request whose client hung up, which no client gets.
HUNG_UP = 499
# Responses that the document leaves out, although the operation needs them as its neighbours do.
LEFT_OUT = frozenset({("viewExists", 403), ("signRequest", 404)})


def document() -> Any:
    """Return the document; None where the environment names none."""
    path = os.environ.get(VARIABLE)
    return _read(path) if path else None


@cache
def _read(path: str) -> Any:
    read = _plain(yaml.safe_load(Path(path).read_text()))
    schemas = read["components"]["schemas"]
    partition, table = schemas["ContentFile"]["properties"]["partition"], schemas["TableMetadata"]["properties"]
    # Null is a partition value of the format, and a table of version 3 without a snapshot has null. JAVA: ContentFileParser, TableMetadataParser.
    partition["items"] = {"anyOf": [partition["items"], {"type": "null"}]}
    table["current-snapshot-id"] = {**table["current-snapshot-id"], "type": ["integer", "null"]}
    has_null = {"properties": {"current-snapshot-id": {"type": "null"}}, "required": ["current-snapshot-id"]}
    schemas["TableMetadata"] |= {"if": has_null, "then": {"properties": {"format-version": {"minimum": 3}}}}
    return read


def _plain(value: Any) -> Any:
    """Return the document in the words of JSON Schema: null where a value is nullable, and any form where several of `oneOf` may fit, as of numbers."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {("anyOf" if key == "oneOf" else key): _plain(item) for key, item in value.items()}
    if plain.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    return plain


@cache
def _routes() -> list[tuple[str, re.Pattern[str], Any]]:
    routes = []
    for path, item in document()["paths"].items():
        pattern = re.compile(re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(path.replace("/{prefix}", ""))))
        routes += [(method.upper(), pattern, operation) for method, operation in item.items() if method != "parameters"]
    return routes


def check_answer(method: str, path: str, status: int, body: Any) -> None:
    """Fail where a response does not have the form that the document gives it."""
    if document() is None:
        return
    operation = next((operation for verb, pattern, operation in _routes() if verb == method and pattern.fullmatch(path)), None)
    if operation is None or status in ANYWHERE:
        return
    if (operation["operationId"], status) in LEFT_OUT:
        return
    responses = operation["responses"]
    response = responses.get(status) or responses.get(str(status)) or responses.get(f"{status // 100}XX")
    assert response is not None, f"{operation['operationId']} has no answer {status}"
    while "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    if schema is None or method == "HEAD":
        assert body is None, f"{operation['operationId']} answers {status} with a body"
        return
    if schema.get("$ref", "").endswith("/ErrorModel") and isinstance(body, dict) and "error" in body:
        body = body["error"]  # the document leaves out the wrapper that clients read, in operations on views alone
    error = best_match(Draft202012Validator({**schema, "components": document()["components"]}).iter_errors(body))
    assert error is None, f"{operation['operationId']} {status}: {error.json_path}: {error.message[:500]}"


def json_of_answer(content_type: str, content: bytes) -> Any:
    """Return the JSON of a response, or that of the files in a stream of planned files; None for another response, and one without content."""
    kind = content_type.partition(";")[0]
    if kind == MEDIA_TYPE:
        return json_of_stream(content)
    return json.loads(content) if content and kind == "application/json" else None


def json_of_stream(content: bytes) -> Any:
    """Return the response that a stream of planned files represents, read as any library of Arrow reads it. Partition values are as in their columns."""
    with pa.ipc.open_stream(content) as reading:
        metadata, batches = reading.schema.metadata, list(reading)
    response, layout = json.loads(metadata[b"icefloe.response"]), json.loads(metadata[b"icefloe.layout"])
    tasks = [_task(row, spec_id, layout) for spec_id, batch in zip(layout["spec-ids"], batches, strict=True) for row in batch.to_pylist()]
    return {**response, "file-scan-tasks": tasks}


def _task(row: dict[str, Any], spec_id: int, layout: Any) -> Any:
    file: dict[str, Any] = {"content": "data", "spec-id": spec_id, "file-format": layout["file-formats"][row["file_format"]].lower()}
    file["partition"] = [
        _json_value(value) for name, value in row.items() if name.startswith("partition.") and name.endswith(f".{spec_id}")
    ]
    for name in ("file_path", "record_count", "file_size_in_bytes", "split_offsets", "sort_order_id", "first_row_id"):
        if row.get(name) is not None:
            file[name.replace("_", "-")] = row[name]
    for name, statistic in STATISTICS.items():
        values = {
            int(key.rpartition(".")[2]): value for key, value in row.items() if key.rpartition(".")[0] == statistic and value is not None
        }
        if values:
            file[name.replace("_", "-")] = {"keys": list(values), "values": [_json_value(value) for value in values.values()]}
    residual = layout["residual-filters"][row["residual"]]
    references = {"delete-file-references": row["delete_files"]} if row.get("delete_files") else {}
    return {"data-file": file, "residual-filter": residual, **references}


def _json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex().upper()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


class CheckedApplication:
    """An ASGI application whose responses are checked where there is a document; `problems` are those of another form."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.problems: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or document() is None:
            await self._application(scope, receive, send)
            return
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)
            await send(message)

        await self._application(scope, receive, keep)
        status = next((message["status"] for message in sent if message["type"] == "http.response.start"), None)
        if status not in (None, HUNG_UP):
            self._check(scope, status, sent)

    def _check(self, scope: Any, status: int, sent: list[Any]) -> None:
        headers = dict(header for message in sent for header in message.get("headers", ()))
        content = b"".join(message.get("body", b"") for message in sent)
        path = scope["raw_path"].decode().partition("?")[0]
        try:
            check_answer(scope["method"], path, status, json_of_answer(headers.get(b"content-type", b"").decode(), bytes(content)))
        except Exception as error:  # noqa: BLE001  the client has its response already; the test fails when the server ends
            self.problems.append(f"{scope['method']} {path}: {type(error).__name__}: {error}")
