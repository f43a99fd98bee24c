"""Versions of Spark: proven versions, on which Icefloe is tested; older versions, which are refused; and newer versions, which are probed.

`scan/version_probe.py` probes newer versions. This module is imported before the other modules of this package, because they need PySpark, and interfaces that
an older PySpark does not have.
"""

import os
import re
from importlib.util import find_spec
from types import ModuleType

from icefloe.errors import EngineError, NotInstalledError
from icefloe.optional_packages import install_command, optional_module

# The versions on which the Spark tests run.
PROVEN_VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
# Environment variables of a process with Spark Connect: the address that the user sets, and the variable that PySpark sets with the first session.
CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
# The features that work even if Icefloe's Java classes cannot be compiled.
WITHOUT_JAVA_CLASSES = (
    "without the Java classes table.scan().to_arrow() reads, and so does spark.read.format('icefloe') after icefloe.spark.register(spark, NAME=catalog); "
    "please report this message"
)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def check_version(version: str) -> None:
    """Raise `EngineError` for a version older than the oldest proven version, because it lacks interfaces for reading and writing.

    Args:
        version: The version of Spark or PySpark, such as `4.3.0`.

    Raises:
        EngineError: The version is too old; the next step lists the features that work with it.
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
    """Return whether a version is proven: its major and minor version are those of a version on which the tests run. Vendors' releases count too."""
    return _numbers(version) in _PROVEN


def is_older(version: str, other: str) -> bool:
    """Return True if a version of Spark is older than another, by major and minor version; False if a text is not a version."""
    numbers, others = _numbers(version), _numbers(other)
    return numbers is not None and others is not None and numbers < others


def proven_text() -> str:
    """Return the proven versions as text for messages."""
    *others, last = PROVEN_VERSIONS
    return f"{', '.join(others)} and {last}"


def _numbers(version: str) -> tuple[int, int] | None:
    """Return the major and minor version at the beginning of a text; None if there is no version."""
    match = _VERSION.match(version)
    return None if match is None else (int(match[1]), int(match[2]))


def _full_pyspark() -> ModuleType:
    """Import PySpark. Raises `NotInstalledError` if it is missing, or if it is the package pyspark-client, which has no Py4J."""
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
