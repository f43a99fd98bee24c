"""Java's `RESTCatalogServer`, of Iceberg's own test fixtures: fetched by Maven into a folder that git ignores, and started for a test session."""

import hashlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POM = Path(__file__).parent / "rest_fixture" / "pom.xml"
FOLDER = ROOT / ".rest-fixture"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
START_S = 120


def jars() -> Path:
    """Return the folder of the server's jars, fetched at first use; skip the test where there is no Maven or no Java."""
    missing = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"Java's REST server needs {', '.join(missing)} (Debian: apt-get install maven openjdk-17-jre-headless)")
    folder, stamp = FOLDER / "jars", FOLDER / "stamp"
    wanted = hashlib.sha256(POM.read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(FOLDER, ignore_errors=True)
        folder.mkdir(parents=True)
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(POM), COPY_DEPENDENCIES, f"-DoutputDirectory={folder}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode:
            pytest.skip(f"Maven did not fetch Java's REST server: {(fetched.stdout + fetched.stderr)[-500:]}")
        stamp.write_text(wanted)
    return folder


@contextmanager
def java_rest_server(warehouse: Path) -> Iterator[str]:
    """Run the server over a warehouse, and yield its address."""
    folder = jars()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": str(warehouse),
        "CATALOG_URI": f"jdbc:sqlite:{warehouse}.db",
        "CATALOG_CLIENTS": "1",
        "CATALOG_JDBC_STRICT__MODE": "true",
    }
    log = warehouse.with_suffix(".log").open("wb")
    process = subprocess.Popen(
        ["java", "-Xmx512m", "-cp", f"{folder}/*", MAIN], env={**os.environ, **settings}, stdout=log, stderr=subprocess.STDOUT
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(30)
        log.close()


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        assert process.poll() is None, "Java's REST server ended"
        try:
            with urllib.request.urlopen(f"{address}/v1/config", timeout=5):  # noqa: S310
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"Java's REST server did not start within {START_S} s")
