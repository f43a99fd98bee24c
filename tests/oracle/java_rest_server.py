"""Java's `RESTCatalogServer`, of Iceberg's own test fixtures: fetched by Maven into a folder that git ignores, and started for a test session."""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.maven_jars import maven_jars

ROOT = Path(__file__).parents[2]
POM = Path(__file__).parent / "rest_fixture" / "pom.xml"
FOLDER = ROOT / ".rest-fixture"
MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
START_S = 120


@contextmanager
def java_rest_server(warehouse: Path) -> Iterator[str]:
    """Run the server over a warehouse, and yield its address."""
    folder = maven_jars(POM, FOLDER, "Java's REST server")
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
