"""Versions of Spark: those that Icefloe is proven on, older ones, which are refused, and newer ones, which are probed.

The probe of a newer version is `scan/version_probe.py`. This module is imported before any other module of this package, because they need PySpark and
interfaces that an older one lacks.
"""

import os
import re
from importlib.util import find_spec
from types import ModuleType

from icefloe.errors import EngineError, NotInstalledError
from icefloe.optional_packages import install_command, optional_module

# The Spark tests are run on these.
PROVEN_VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
# Environment variables of a process that uses Spark Connect: the address that the user sets, and what PySpark sets with the first session.
CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
# The features that work where the Java classes of Icefloe do not compile.
WITHOUT_JAVA_CLASSES = (
    "without the Java classes table.scan().to_arrow() reads, and so does spark.read.format('icefloe') after icefloe.spark.register(spark, NAME=catalog); "
    "please report this message"
)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def check_version(version: str) -> None:
    """Refuse a version older than the oldest proven one: it lacks interfaces that reading and writing need.

    Args:
        version: The version of Spark or PySpark, such as `4.3.0`.

    Raises:
        EngineError: The version is too old; the next step has the features that work there.
    """
    numbers = _numbers(version)
    if numbers is not None and numbers < min(_PROVEN):
        oldest = ".".join(map(str, min(_PROVEN)))
        raise EngineError(
            f"Spark {version} is older than {oldest}, the oldest that Icefloe reads and writes with",
            next_step=f"install pyspark {oldest} or later; with this one, exchange rows as Arrow or pandas, by "
            "table.append(df.toPandas()) and spark.createDataFrame(table.scan().to_pandas())",
        )


def is_proven(version: str) -> bool:
    """Return True for a patch release, a vendor's too, of a version that the tests are run on."""
    return _numbers(version) in _PROVEN


def is_older(version: str, other: str) -> bool:
    """Return True if a version of Spark is older than another, by major and minor version; False where it is not a version."""
    numbers, others = _numbers(version), _numbers(other)
    return numbers is not None and others is not None and numbers < others


def proven_text() -> str:
    """Return the proven versions as text for messages."""
    *others, last = PROVEN_VERSIONS
    return f"{', '.join(others)} and {last}"


def _numbers(version: str) -> tuple[int, int] | None:
    """Return the major and minor version; None where the text is not a version."""
    match = _VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2]))


def _full_pyspark() -> ModuleType:
    """Import PySpark. Raises `NotInstalledError` if it is missing, or is the package pyspark-client, which has no Py4J."""
    uses_connect = any(name in os.environ for name in CONNECT_VARIABLES)
    pyspark = optional_module("pyspark", extra="connect" if uses_connect else "spark", feature="icefloe.spark")
    if find_spec("py4j") is None:
        raise NotInstalledError(
            "icefloe.spark needs the full package pyspark; the installed one has no py4j, as pyspark-client has none",
            next_step=f"uninstall pyspark-client, then run {install_command('connect')}",
        )
    return pyspark


_PROVEN = frozenset(numbers for version in PROVEN_VERSIONS if (numbers := _numbers(version)) is not None)

check_version(_full_pyspark().__version__)
