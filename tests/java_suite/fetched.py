"""Java Iceberg's tests and what they need, in a folder that git ignores."""

from pathlib import Path

from tests.jvm_suite.fetched import Fetched

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".java-suite"
FETCHED = Fetched(HERE, FOLDER, "Java Iceberg and its tests")
JARS = FETCHED.jars
EXTENSIONS = "META-INF/services/org.junit.jupiter.api.extension.Extension"


def fetch() -> None:
    """Fetch the jars and compile our Java sources, unless both are there and nothing changed. Raises as `Fetched.fetch`."""
    FETCHED.fetch(_prepare)


def class_path() -> str:
    """Everything in front of Spark's own jars."""
    return FETCHED.class_path()


def _prepare() -> None:
    services = FETCHED.classes / EXTENSIONS
    services.parent.mkdir(parents=True)
    services.write_text("icefloe.suite.Results\n")
    FETCHED.run_java("icefloe.suite.Prepare", str(JARS), str(FETCHED.changed))
