"""Nessie, an independent catalog server with Iceberg's REST protocol: its server is fetched by Maven into a folder that git ignores; tables are in moto."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from tests.emulators import KEY, SECRET, moto, new_bucket, running

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".nessie"
VERSION = "0.99.0"
LEAST_JAVA = 21
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
ARTIFACT = f"org.projectnessie.nessie:nessie-quarkus:{VERSION}:jar:runner"


def java() -> str:
    """Return the program of a Java runtime that is new enough; skip the test where there is none."""
    found = [*filter(None, [shutil.which("java")]), *map(str, Path("/usr/lib/jvm").glob("*/bin/java"))]
    for program in found:
        shown = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
        version = re.search(r'version "(\d+)', shown)
        if version and int(version[1]) >= LEAST_JAVA:
            return program
    pytest.skip(f"Nessie needs Java {LEAST_JAVA} or newer")


def server_jar() -> Path:
    """Return the server, fetched at first use; skip the test where there is no Maven."""
    if shutil.which("mvn") is None:
        pytest.skip("Nessie is fetched by Maven (Debian: apt-get install maven)")
    jar = FOLDER / f"nessie-quarkus-{VERSION}-runner.jar"
    if not jar.exists():
        fetched = subprocess.run(
            ["mvn", "-q", "-B", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={FOLDER}"], capture_output=True, text=True, check=False
        )
        if fetched.returncode:
            pytest.skip(f"Maven did not fetch Nessie: {(fetched.stdout + fetched.stderr)[-500:]}")
    return jar


@contextmanager
def nessie() -> Iterator[str]:
    """Run the server without a database, with one warehouse in moto, and yield its address."""
    jar = server_jar()
    with moto() as store:
        s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "{port}",
            "quarkus.management.port": "0",
            "quarkus.oidc.tenant-enabled": "false",
            "quarkus.otel.sdk.disabled": "true",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": "lake",
            "nessie.catalog.warehouses.lake.location": f"s3://{new_bucket(store)}/lake",
            f"{s3}.endpoint": store,
            f"{s3}.region": "us-east-1",
            f"{s3}.path-style-access": "true",
            f"{s3}.access-key": "urn:nessie-secret:quarkus:store-key",
            "store-key.name": KEY,
            "store-key.secret": SECRET,
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        with running([java(), "-Xmx768m", *options, "-jar", str(jar)]) as port:
            address = f"http://127.0.0.1:{port}/iceberg"
            try:
                with urlopen(f"{address}/v1/config", timeout=60):  # noqa: S310  an address on this machine
                    pass
            except (HTTPError, URLError) as error:
                pytest.skip(f"Nessie did not start: {error}")
            yield address
