"""Jars of Java programs that tests run: fetched by Maven at first use, into a folder that git ignores."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


def maven_jars(pom: Path, folder: Path, program: str) -> Path:
    """Return the folder of the jars that a POM depends on; skip the test where there is no Maven or no Java.

    Args:
        pom: The POM, whose dependencies are the jars.
        folder: Where the jars are kept until the POM changes.
        program: What the jars are, for the reason of a skipped test.
    """
    missing = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{program} needs {', '.join(missing)} (Debian: apt-get install maven openjdk-17-jre-headless)")
    jars, stamp = folder / "jars", folder / "stamp"
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        jars.mkdir(parents=True)
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "-f", str(pom), COPY_DEPENDENCIES, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"],
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode:
            pytest.skip(f"Maven did not fetch {program}: {(fetched.stdout + fetched.stderr)[-500:]}")
        stamp.write_text(wanted)
    return jars
