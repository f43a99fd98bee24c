"""`icefloe serve --sts-role` on moto: clients without keys of their own read and write with temporary credentials."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.emulators import KEY, SECRET, ObjectStore

from icefloe import load_catalog
from icefloe.server.access_control import Grant
from icefloe.server.users_file import add_user
from icefloe.testing.catalog_suite import SCHEMA, numbers, rows

pytestmark = pytest.mark.emulator

ROLE = "arn:aws:iam::123456789012:role/tables"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
START_S = 90


@pytest.fixture
def server(s3: ObjectStore, tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a server over a catalog in SQLite with its tables in moto; return its address and the tokens of its users."""
    configuration = {"catalog": {"lake": {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{s3.bucket}/w", **s3.properties}}}
    (tmp_path / "icefloe.yaml").write_text(json.dumps(configuration))
    tokens = {name: add_user(str(tmp_path / "users.yaml"), name, (Grant.of(name),)) for name in ("read", "write", "admin")}
    command = [str(Path(sys.executable).with_name("icefloe")), "serve", "--catalog", "lake", "--port", "0", "--users", "users.yaml"]
    command += ["--sts-role", ROLE, "--sts-endpoint", s3.properties["s3.endpoint"]]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path) as process:
        try:
            yield address_of(process, tmp_path / "log"), tokens
        finally:
            process.terminate()
            process.wait(60)


def address_of(process: "subprocess.Popen[bytes]", log: Path) -> str:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        for line in log.read_text().splitlines():
            if " at http://" in line:
                return line.partition(" at ")[2].split(" ")[0]
        time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


def loaded(address: str, token: str, path: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}", "X-Iceberg-Access-Delegation": "vended-credentials"}
    request = urllib.request.Request(f"{address}/v1/namespaces/db/tables/t{path}", headers=headers)  # noqa: S310  loopback
    with DIRECT.open(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_clients_without_keys_write_and_read_with_credentials_of_the_token_service(
    server: tuple[str, dict[str, str]], s3: ObjectStore, tmp_path: Path
) -> None:
    address, tokens = server
    admin = load_catalog("lake", type="rest", uri=address, token=tokens["admin"])
    admin.create_namespace("db")
    admin.create_table("db.t", SCHEMA)
    writer = load_catalog("lake", type="rest", uri=address, token=tokens["write"])
    writer.load_table("db.t").append(rows(1, 2))
    assert numbers(load_catalog("lake", type="rest", uri=address, token=tokens["read"]).load_table("db.t")) == [1, 2]
    table = loaded(address, tokens["write"])
    credentials = table["storage-credentials"][0]
    assert credentials["prefix"] == f"{s3.bucket}/w/db/t"
    assert credentials["config"]["s3.access-key-id"].startswith("ASIA"), "a key of the token service, and not of the server"
    assert int(credentials["config"]["s3.session-token-expires-at-ms"]) > time.time() * 1000
    reader = loaded(address, tokens["read"], "/credentials")["storage-credentials"][0]
    assert reader["config"]["s3.access-key-id"] != credentials["config"]["s3.access-key-id"]
    for text in (json.dumps(table), json.dumps(reader), (tmp_path / "log").read_text()):
        assert SECRET not in text
        assert KEY not in text
    for name in ("s3.secret-access-key", "s3.session-token"):
        assert credentials["config"][name] not in (tmp_path / "log").read_text()
