"""The server as a process: several workers over PostgreSQL, TLS, a graceful stop, the command line."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.postgres import PostgresServer
from tests.served_address import DIRECT, served_address
from tests.server.conftest import SCHEMA
from typer.testing import CliRunner

from icefloe.catalog import load_catalog
from icefloe.cli.application import app
from icefloe.server import serve
from icefloe.server.idempotency_store import LOADED_AGAIN
from icefloe.server.request import Answer
from icefloe.server.sql_idempotency_store import KEYS, SqlIdempotencyStore

ICEFLOE = str(Path(sys.executable).with_name("icefloe"))
KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]", Path]]:
    """Run `icefloe serve` and yield its address, its process and its log."""
    log = folder / "server.log"
    with log.open("w") as file, subprocess.Popen([ICEFLOE, "serve", "--port", "0", *arguments], stdout=file, stderr=file) as process:
        try:
            yield served_address(process, log), process, log
        finally:
            process.terminate()
            process.wait(60)


def ask(address: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    request = urllib.request.Request(address + path, None if body is None else json.dumps(body).encode(), sent, method=method)  # noqa: S310  the address is the test's own
    with DIRECT.open(request, timeout=60) as response:
        content = response.read()
        return json.loads(content) if content else None


def test_a_stopped_server_completes_what_runs_and_then_ends(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with serving(tmp_path, "--warehouse", str(tmp_path / "w")) as (address, process, log):
        ask(address, "POST", "/v1/namespaces", {"namespace": ["db"]})
        answers: list[Any] = []

        def create() -> None:
            for number in range(200):
                try:
                    answers.append(
                        ask(address, "POST", "/v1/namespaces/db/tables", {"name": f"t{number}", "schema": SCHEMA})["metadata-location"]
                    )
                except OSError:
                    return

        thread = threading.Thread(target=create)
        thread.start()
        while len(answers) < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        thread.join()
    catalog = load_catalog("default", warehouse=str(tmp_path / "w"))
    assert {catalog.load_table(name).metadata_location for name in catalog.list_tables("db")} == set(answers)
    catalog.close()
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert {line["operation"] for line in lines if line["event"] == "request"} == {"createNamespace", "createTable"}


def test_ctrl_c_stops_the_server_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    with serving(tmp_path, "--warehouse", str(tmp_path / "w")) as (_, process, log):
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert "icefloe: stopped" in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--host", "192.0.2.1"], "listens on loopback alone"),
        (["--workers", "2"], "need a catalog in PostgreSQL"),
        (["--users", "missing.yaml"], "there is no file missing.yaml"),
        (["--tls-cert", "c.pem"], "--tls-cert and --tls-key together"),
        (["--users", "a", "--token-file", "b"], "choose one"),
        (["--sts-seconds", "1"], "cannot be valid for 1 s"),
        (["--server-log", "LOUD"], "--server-log"),
    ],
)
def test_settings_that_are_not_safe_are_refused_before_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.setattr(serve, "serve", lambda *_, **__: pytest.fail("the server was started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").mkdir()
    ended = CliRunner().invoke(app, ["serve", "--warehouse", "w", "--port", "0", *arguments])
    assert ended.exit_code == 1
    assert text in ended.stderr


def test_a_certificate_is_used(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    made = subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl, which makes the certificate, is not installed")
    log = tmp_path / "server.log"
    command = [ICEFLOE, "serve", "--warehouse", str(tmp_path / "w"), "--port", "0", "--tls-cert", str(certificate), "--tls-key", str(key)]
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
        try:
            while " at https://" not in log.read_text():
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            address = log.read_text().partition(" at ")[2].split(" ")[0]
            shown = subprocess.run(
                ["openssl", "s_client", "-connect", address.removeprefix("https://")],
                input=b"",
                capture_output=True,
                timeout=60,
                check=False,
            )
            assert b"CN = localhost" in shown.stdout or b"CN=localhost" in shown.stdout
        finally:
            process.terminate()
            process.wait(60)


def workers_in(log: Path) -> set[int]:
    """Return the processes that have finished requests."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{") and line.endswith("}")]
    return {line["process"] for line in lines if line["event"] == "request"}


@pytest.mark.postgres
@pytest.mark.slow
def test_workers_share_a_catalog_in_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    (tmp_path / "w").mkdir()
    uri = postgres.uri(postgres.new_database())
    with serving(tmp_path, "--catalog", "lake", "--uri", uri, "--warehouse", str(tmp_path / "w"), "--workers", "2") as (
        address,
        process,
        log,
    ):
        ask(address, "POST", "/v1/namespaces", {"namespace": ["db"]}, Idempotency_Key=KEY)
        for _ in range(8):
            ask(address, "POST", "/v1/namespaces", {"namespace": ["db"]}, Idempotency_Key=KEY)
        ask(address, "POST", "/v1/namespaces/db/tables", {"name": "t", "schema": SCHEMA})
        plan_ids = [ask(address, "POST", "/v1/namespaces/db/tables/t/plan", {})["plan-id"] for _ in range(8)]
        for plan_id in plan_ids:  # whichever worker made it
            assert ask(address, "GET", f"/v1/namespaces/db/tables/t/plan/{plan_id}")["status"] == "completed"
        # Which worker gets a connection is the system's choice: with several at once both get some, as soon as both have started.
        until = time.monotonic() + 60
        while time.monotonic() < until:
            threads = [threading.Thread(target=ask, args=(address, "GET", "/v1/namespaces/db/tables/t")) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if len(workers_in(log)) == 2:
                break
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert len(workers_in(log)) == 2
    assert "password" not in log.read_text().lower()


@pytest.mark.postgres
def test_responses_in_the_database_are_those_of_the_first_request(tmp_path: Path, postgres: PostgresServer) -> None:
    catalog = load_catalog("lake", uri=postgres.uri(postgres.new_database()), warehouse=str(tmp_path))
    stores = [SqlIdempotencyStore(catalog.engine, "lake", wait_s=10) for _ in range(2)]
    runs: list[int] = []

    def act() -> Answer:
        runs.append(1)
        time.sleep(0.3)
        return Answer(content={"run": len(runs)}, headers={"ETag": "x"})

    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda store=store: answers.append(store.once("u", KEY, "r", act))) for store in stores * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 1
    assert {json.dumps(answer.content) if answer.body is None else answer.body.decode() for answer in answers} == {
        '{"run": 1}',
        '{"run":1}',
    }
    assert all(answer.headers == {"ETag": "x"} for answer in answers)
    stores[0].once("u", KEY.replace("0", "1"), "r", lambda: Answer(body=b"x" * 100_000), lambda: Answer(body=b"again"))
    long = stores[1].once("u", KEY.replace("0", "1"), "r", act, lambda: Answer(body=b"again"))
    assert long.body == b"again"
    with pytest.raises(ZeroDivisionError):
        stores[0].once("u", KEY.replace("0", "2"), "r", lambda: Answer(status=1 // 0))
    assert stores[1].once("u", KEY.replace("0", "2"), "r", lambda: Answer(status=204)).status == 204
    secret = Answer(body=b"vended-secret", has_credentials=True)
    assert stores[0].once("u", KEY.replace("0", "3"), "r", lambda: secret, lambda: Answer(body=b"again")) is secret
    assert stores[1].once("u", KEY.replace("0", "3"), "r", act, lambda: Answer(body=b"again")).body == b"again"
    with catalog.engine.connect() as connection:
        assert b"vended-secret" not in [row.body for row in connection.execute(select(KEYS))]
    assert LOADED_AGAIN.status == 200
    catalog.close()
