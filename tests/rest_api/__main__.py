"""Generated requests (schemathesis) against `icefloe serve`: for every operation of Iceberg's OpenAPI document, valid ones, invalid ones and sequences of them.

    ICEFLOE_REST_OPENAPI=rest-catalog-open-api.yaml python -m tests.rest_api [arguments of `schemathesis run`]

Each response must have a status and a form that the document gives the operation, and none may be a fault of the server. The document is not part of the
project. The exit code is 1 if a check fails, and 2 if the document or schemathesis is missing.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.rck.__main__ import address_of
from tests.server.openapi import ANYWHERE, VARIABLE, document

from icefloe.catalog import Catalog, load_catalog
from icefloe.errors import IcefloeError

ROOT = Path(__file__).parents[2]
SCHEMATHESIS = ROOT / ".venvs" / "rest-api" / "bin" / "schemathesis"
FOLDER = ROOT / ".rest-api"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# Requests generated for each operation and phase, and the seed, so that a run can be repeated.
EXAMPLES, SEED = 60, 1
# What the catalog has. Half of the generated requests name it, so that they come further than that it is not found; what they drop is created again.
KNOWN = {"namespace": "accounting", "table": "t", "view": "v"}
RECREATED_EVERY_S = 0.5


def main() -> int:
    if document() is None:
        print(f"make test-rest-api: {VARIABLE} names no copy of Iceberg's rest-catalog-open-api.yaml. Next: set it", file=sys.stderr)
        return 2
    if not SCHEMATHESIS.exists():
        print("make test-rest-api: schemathesis is not installed. Next: python3 scripts/setup rest-api", file=sys.stderr)
        return 2
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    described = FOLDER / "openapi.json"
    described.write_text(json.dumps(for_this_server(document())))
    with served() as address:
        command = [str(SCHEMATHESIS), "run", str(described), "--url", address, "--checks", CHECKS, "--max-examples", str(EXAMPLES)]
        command += ["--seed", str(SEED), "--continue-on-failure", "--request-timeout", "60", *sys.argv[1:]]
        return int(subprocess.run(command, cwd=FOLDER, check=False).returncode != 0)


@contextmanager
def served() -> Iterator[str]:
    """Serve a catalog with a table and a view of rows, and yield its address."""
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="icefloe-rest-api-") as folder:
        os.makedirs(f"{folder}/warehouse")
        catalog = load_catalog("default", warehouse=f"{folder}/warehouse")
        _create(catalog)
        thread = threading.Thread(target=_keep, args=(catalog, ended))
        command = [str(Path(sys.executable).with_name("icefloe")), "serve", "--warehouse", f"{folder}/warehouse", "--port", "0"]
        with open(FOLDER / "server.log", "w+") as log, subprocess.Popen([*command, "--rate-limit", "0"], stdout=log, stderr=log) as server:
            try:
                thread.start()
                yield address_of(server, Path(log.name))
            finally:
                ended.set()
                thread.join()
                server.send_signal(signal.SIGTERM)
                server.wait(60)
                catalog.close()


def _create(catalog: Catalog) -> None:
    """Create what the requests name, where it is missing."""
    namespace, table, view = KNOWN.values()
    catalog.create_namespace_if_not_exists(namespace)
    if not catalog.table_exists((namespace, table)):
        catalog.create_table((namespace, table), pa.schema([("id", pa.int64())])).append(pa.table({"id": [1, 2]}))
    if not catalog.view_exists((namespace, view)):
        catalog.create_view((namespace, view), "SELECT 1 AS one", pa.schema([("one", pa.int32())]))


def _keep(catalog: Catalog, ended: threading.Event) -> None:
    while not ended.wait(RECREATED_EVERY_S):
        with suppress(IcefloeError):  # the server changed something meanwhile; the next time is soon
            _create(catalog)


def for_this_server(described: Any) -> Any:
    """Return the document for a server without a prefix, with the responses that any request may get, and errors as clients read them."""
    paths = {}
    for path, item in described["paths"].items():
        operations = {}
        for key, value in item.items():
            if key == "parameters":
                operations[key] = [parameter for parameter in value if not str(parameter.get("$ref", "")).endswith("/prefix")]
                continue
            responses = {str(status): {"description": "any request"} for status in ANYWHERE}
            responses |= {
                str(status): _response(described, response, is_head=key == "head") for status, response in value["responses"].items()
            }
            operations[key] = {**value, "responses": responses}
        paths[path.replace("/{prefix}", "")] = operations
    parameters = {name: _often(value, KNOWN.get(name)) for name, value in described["components"]["parameters"].items()}
    components = {**described["components"], "parameters": parameters}
    return {**described, "paths": paths, "components": components, "security": []}


def _often(parameter: Any, known: str | None) -> Any:
    """Return a parameter of which half of the values are one that is known."""
    return parameter if known is None else {**parameter, "schema": {"anyOf": [{"const": known}, parameter["schema"]]}}


def _response(described: Any, response: Any, *, is_head: bool) -> Any:
    """Return a response without content for HEAD, which has none. In operations on views the document leaves out the wrapper of errors that clients read."""
    while "$ref" in response:
        response = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
    if is_head:
        return {name: value for name, value in response.items() if name != "content"}
    content = response.get("content", {}).get("application/json", {})
    if str(content.get("schema", {}).get("$ref", "")).endswith("/ErrorModel"):
        wrapped = {"$ref": "#/components/schemas/IcebergErrorResponse"}
        return {**response, "content": {"application/json": {**content, "schema": wrapped}}}
    return response


if __name__ == "__main__":
    sys.exit(main())
