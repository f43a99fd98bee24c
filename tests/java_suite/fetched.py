"""Dependencies of the run: jars from Maven, and the Java sources of this folder compiled against them, in a folder that git ignores."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pyspark

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = ROOT / ".java-suite"
JARS, CLASSES, CHANGED = FOLDER / "jars", FOLDER / "classes", FOLDER / "changed"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
EXTENSIONS = "META-INF/services/org.junit.jupiter.api.extension.Extension"


class MissingToolError(Exception):
    """A tool that the run needs is not installed, or did not do its part. The text has the next step."""


def fetch() -> None:
    """Fetch the jars and compile our Java sources, unless both are there and nothing changed.

    Raises:
        MissingToolError: Maven or a Java compiler is missing, or one of them failed.
    """
    stamp, wanted = FOLDER / "stamp", _fingerprint()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    missing = [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(
            f"not installed: {', '.join(missing)}. The run needs Maven, which fetches Java Iceberg's tests, and a JDK of version 17 or later. "
            "Next: install them (Debian: apt-get install maven openjdk-17-jdk-headless) and run it again"
        )
    for folder in (JARS, CLASSES, CHANGED):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    print("fetching Java Iceberg and its tests with Maven", flush=True)
    _run(["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), COPY_DEPENDENCIES, f"-DoutputDirectory={JARS}"], "Maven did not fetch the jars")
    print("compiling the Java side of the run", flush=True)
    sources = sorted(str(path) for path in (HERE / "java").rglob("*.java"))
    class_path = f"{JARS}/*:{SPARK_JARS}/*"
    _run(["javac", "-nowarn", "-d", str(CLASSES), "-cp", class_path, *sources], "the Java sources of the run do not compile")
    services = CLASSES / EXTENSIONS
    services.parent.mkdir(parents=True)
    services.write_text("icefloe.suite.Results\n")
    _run(
        ["java", "-cp", f"{CLASSES}:{class_path}", "icefloe.suite.Prepare", str(JARS), str(CHANGED)],
        "the tests' classes could not be changed",
    )
    stamp.write_text(wanted)


def class_path() -> str:
    """Everything in front of Spark's own jars: our classes, then changed ones, then what Maven fetched."""
    return ":".join([str(CLASSES), str(CHANGED), *(str(jar) for jar in sorted(JARS.glob("*.jar")))])


def _fingerprint() -> str:
    digest = hashlib.sha256(pyspark.__version__.encode())
    for path in sorted([HERE / "pom.xml", Path(__file__), *(HERE / "java").rglob("*.java")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(command: list[str], failure: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise MissingToolError(f"{failure}:\n{(ended.stdout + ended.stderr)[-3000:]}")
