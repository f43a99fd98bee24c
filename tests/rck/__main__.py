"""Java Iceberg's compatibility kit for REST catalogs (RCK) against `icefloe serve`, with the results compared to the list of expected differences.

    python -m tests.rck                              all tests of tables and views
    python -m tests.rck testCompleteCreateTransaction   tests by name

The exit code is 1 if the result of a test differs from the list, and 2 if Maven or a Java runtime is missing.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.served_address import served_address

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".rck"
JARS, REPORTS = FOLDER / "jars", FOLDER / "reports"
CONSOLE = "junit-platform-console-standalone"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
PACKAGE = "org.apache.iceberg.rest."
CLASSES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
# Seconds until the tests have to be over.
RUN_SECONDS = 1800.0


def main() -> int:
    missing = [tool for tool in ("mvn", "java") if shutil.which(tool) is None]
    if missing:
        print(f"make test-rck: not installed: {', '.join(missing)}. Next: apt-get install maven openjdk-17-jre-headless", file=sys.stderr)
        return 2
    fetch()
    shutil.rmtree(REPORTS, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="icefloe-rck-") as folder:
        command = [str(Path(sys.executable).with_name("icefloe")), "serve", "--warehouse", f"{folder}/warehouse", "--port", "0"]
        # The kit gives some tables and views a location in its own temporary folders.
        command += ["--rate-limit", "0", "--allow-location", tempfile.gettempdir()]
        os.makedirs(f"{folder}/warehouse")
        with open(FOLDER / "server.log", "w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
            try:
                run_tests(served_address(server, Path(log.name)), sys.argv[1:])
            finally:
                server.send_signal(signal.SIGTERM)
                server.wait(60)
    return report(is_whole=len(sys.argv) == 1)


def fetch() -> None:
    """Fetch the jars by Maven unless they are there."""
    wanted = hashlib.sha256((HERE / "pom.xml").read_bytes()).hexdigest()
    stamp = FOLDER / "stamp"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    print("fetching the compatibility kit with Maven", flush=True)
    subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), COPY_DEPENDENCIES, f"-DoutputDirectory={JARS}"], check=True)
    stamp.write_text(wanted)


def run_tests(address: str, names: list[str]) -> None:
    console = next(JARS.glob(f"{CONSOLE}*.jar"))
    class_path = ":".join(str(jar) for jar in sorted(JARS.glob("*.jar")) if jar != console)
    selected = [f"--select-class={PACKAGE}{name}" for name in CLASSES]
    if names:
        selected = [f"--select-method={PACKAGE}{CLASSES[not name.startswith('test')]}#{name}" for name in names]
    switches = {
        "rck.local": "false",
        "uri": address,
        "warehouse": "default",
        "rck.requires-namespace-create": "true",
        "rck.supports-variant": "true",
        "org.slf4j.simpleLogger.defaultLogLevel": "off",
    }
    command = [
        "java",
        "-Xmx1g",
        *(f"-D{key}={value}" for key, value in switches.items()),
        "-jar",
        str(console),
        "execute",
        "-cp",
        class_path,
    ]
    command += ["--config", "rck.local=false", "--disable-banner", "--details=none", "--reports-dir", str(REPORTS), *selected]
    with open(FOLDER / "tests.log", "w") as log:
        subprocess.run(command, stdout=log, stderr=log, timeout=RUN_SECONDS, check=False)


def report(*, is_whole: bool) -> int:
    """Print the results, and compare them with the list. Return the exit code."""
    results: dict[str, tuple[str, str]] = {}
    for file in REPORTS.glob("TEST-*.xml"):
        for case in ET.parse(file).getroot().iter("testcase"):  # noqa: S314  the kit wrote it
            name = f"{case.get('classname', '').removeprefix(PACKAGE)}.{case.get('name', '').partition('(')[0]}"
            problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            status = "passed" if problem is None else "skipped" if problem.tag == "skipped" else "failed"
            results[name] = (status, "" if problem is None else (problem.get("message") or problem.text or "").strip())
    listed = tomllib.loads((HERE / "expected.toml").read_text())["difference"]
    expected = {name: group["status"] for group in listed for name in group["tests"]}
    counts = {status: sum(found == status for found, _ in results.values()) for status in ("passed", "failed", "skipped")}
    print(f"{len(results)} tests: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped by the kit")
    differing = {name: result for name, result in results.items() if result[0] != expected.get(name, "passed")}
    for name, (status, text) in sorted(differing.items()):
        print(f"  {name}: {status}, and {expected.get(name, 'passed')} was expected\n    {text[:500]}")
    gone = sorted(expected.keys() - results.keys()) if is_whole else []
    for name in gone:
        print(f"  {name}: did not run, and the list has it")
    return int(bool(differing or gone or not results))


if __name__ == "__main__":
    sys.exit(main())
