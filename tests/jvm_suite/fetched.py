"""What a suite is run with: jars from Maven, and its Java sources compiled against them, in a folder that git ignores."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyspark

SHARED_SOURCES = Path(__file__).parent / "java"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class MissingToolError(Exception):
    """A tool that the run needs is not installed, or did not do its part. The text has the next step."""


class Fetched:
    """The folders of a suite.

    Args:
        suite: The package of the suite, with `pom.xml` and `java/`.
        folder: Where everything is kept until one of these or PySpark changes.
        tests: What Maven fetches, for messages.
    """

    def __init__(self, suite: Path, folder: Path, tests: str) -> None:
        self.suite, self.folder, self.tests = suite, folder, tests
        self.jars, self.classes, self.changed = folder / "jars", folder / "classes", folder / "changed"

    def fetch(self, prepare: Callable[[], None]) -> None:
        """Fetch the jars, compile the Java sources and call `prepare`, unless all is there and nothing changed.

        Raises:
            MissingToolError: Maven or a Java compiler is missing, or one of them failed.
        """
        stamp, wanted = self.folder / "stamp", self._fingerprint()
        if stamp.is_file() and stamp.read_text() == wanted:
            return
        missing = [tool for tool in ("mvn", "javac", "java") if shutil.which(tool) is None]
        if missing:
            raise MissingToolError(
                f"not installed: {', '.join(missing)}. The run needs Maven, which fetches {self.tests}, and a JDK of version 17 or later. "
                "Next: install them (Debian: apt-get install maven openjdk-17-jdk-headless) and run it again"
            )
        for folder in (self.jars, self.classes, self.changed):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        print(f"fetching {self.tests} with Maven", flush=True)
        self.call(
            ["mvn", "-q", "-B", "-f", str(self.suite / "pom.xml"), COPY_DEPENDENCIES, f"-DoutputDirectory={self.jars}"],
            "Maven did not fetch the jars",
        )
        print("compiling the Java side of the run", flush=True)
        self.call(
            ["javac", "-nowarn", "-d", str(self.classes), "-cp", f"{self.jars}/*:{SPARK_JARS}/*", *map(str, self._sources())],
            "the Java sources of the run do not compile",
        )
        prepare()
        stamp.write_text(wanted)

    def run_java(self, main: str, *arguments: str) -> None:
        """Run a class of the suite, which writes changed copies of the tests' classes."""
        class_path = f"{self.classes}:{self.jars}/*:{SPARK_JARS}/*"
        self.call(["java", "-cp", class_path, main, *arguments], "the tests' classes could not be changed")

    def class_path(self) -> str:
        """Everything in front of Spark's own jars: our classes, then changed ones, then what Maven fetched."""
        return ":".join([str(self.classes), str(self.changed), *(str(jar) for jar in sorted(self.jars.glob("*.jar")))])

    def _sources(self) -> list[Path]:
        return sorted([*(self.suite / "java").rglob("*.java"), *SHARED_SOURCES.rglob("*.java")])

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(pyspark.__version__.encode())
        for path in [self.suite / "pom.xml", self.suite / "fetched.py", Path(__file__), *self._sources()]:
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def call(self, command: list[str], failure: str) -> None:
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise MissingToolError(f"{failure}:\n{(ended.stdout + ended.stderr)[-3000:]}")
