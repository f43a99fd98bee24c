"""The responses of the server against the OpenAPI document of Iceberg's REST catalogs, where the environment names a copy of it.

ICEFLOE_REST_OPENAPI=/path/to/rest-catalog-open-api.yaml checks every response that the tests of this folder get. The document is not part of the project.
"""

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

VARIABLE = "ICEFLOE_REST_OPENAPI"
# Statuses that a server may return to any request, and that the document has in no operation. Spec: RFC 9110.
ANYWHERE = frozenset({405, 413, 429})
# Responses that the document leaves out, although the operation needs them as its neighbours do.
LEFT_OUT = frozenset({("viewExists", 403), ("signRequest", 404)})


def document() -> Any:
    """Return the document; None where the environment names none."""
    path = os.environ.get(VARIABLE)
    return _read(path) if path else None


@cache
def _read(path: str) -> Any:
    return _plain(yaml.safe_load(Path(path).read_text()))


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
    errors = list(Draft202012Validator({**schema, "components": document()["components"]}).iter_errors(body))
    assert not errors, f"{operation['operationId']} {status}: {errors[0].json_path}: {errors[0].message[:500]}"
