"""Which versions of Spark there are: those that Icefloe is proven on, older ones, which are refused, and newer ones, which are tried.

What a newer version is tried with is `trial.py`. Imported before any other module of this package, which need what an older PySpark lacks.
"""

import re

import pyspark

from icefloe.errors import EngineError

# The Spark tests are run on these.
PROVEN_VERSIONS = ("4.0.5", "4.1.4", "4.2.1", "4.3.0")
# What works where the Java classes of Icefloe do not compile.
WITHOUT_JAVA_CLASSES = (
    "without the Java classes table.scan().to_arrow() reads, and so does spark.read.format('icefloe') after icefloe.spark.register(spark, NAME=catalog); "
    "please report what is said here"
)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def check_version(version: str) -> None:
    """Refuses what is older than the oldest proven version: it lacks interfaces that reading and writing need.

    Raises:
        EngineError: the version is too old, with what works there all the same.
    """
    numbers = _numbers(version)
    if numbers is not None and numbers < min(_PROVEN):
        oldest = ".".join(map(str, min(_PROVEN)))
        raise EngineError(
            f"Spark {version} is older than {oldest}, the oldest that Icefloe reads and writes with",
            next_step=f"install pyspark {oldest} or later; on this one rows come and go as Arrow or pandas, by "
            "table.append(df.toPandas()) and spark.createDataFrame(table.scan().to_pandas())",
        )


def is_proven(version: str) -> bool:
    """Whether it is a patch release, of a vendor too, of a version that the tests are run on."""
    return _numbers(version) in _PROVEN


def proven_text() -> str:
    """The proven versions as a text for messages."""
    *others, last = PROVEN_VERSIONS
    return f"{', '.join(others)} and {last}"


def _numbers(version: str) -> tuple[int, int] | None:
    """Major and minor version; None where the text is not understood."""
    found = _VERSION.match(version)
    return None if found is None else (int(found[1]), int(found[2]))


_PROVEN = frozenset(numbers for version in PROVEN_VERSIONS if (numbers := _numbers(version)) is not None)

check_version(pyspark.__version__)
