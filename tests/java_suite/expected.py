"""The list of expected differences, and the comparison of a run with it. The list is `expected.toml`; its head explains how to read it."""

import fnmatch
import re
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.java_suite import fetched
from tests.jvm_suite.differences import Outcome

LIST = Path(__file__).parent / "expected.toml"
PACKAGE = "org.apache.iceberg."
SPARK_PACKAGE = PACKAGE + "spark."


def class_of(method: str) -> str:
    """Return the class in `package.Class.method`."""
    return method.rpartition(".")[0]


def classes_to_run() -> list[str]:
    """Return every class of tests in the jars, without those that `expected.toml` leaves out."""
    left_out = [pattern for group in tomllib.loads(LIST.read_text())["left_out"] for pattern in group["classes"]]
    found = set()
    for jar in fetched.JARS.glob("iceberg-spark-*-tests.jar"):
        with zipfile.ZipFile(jar) as file:
            for name in file.namelist():
                class_name = name.removesuffix(".class").replace("/", ".")
                is_test = name.endswith(".class") and "$" not in name and class_name.rpartition(".")[2].startswith("Test")
                if is_test and not any(fnmatch.fnmatch(class_name.removeprefix(PACKAGE), pattern) for pattern in left_out):
                    found.add(class_name)
    return sorted(found)


def outcomes(results: Iterable[Mapping[str, Any]]) -> dict[str, Outcome]:
    """Return one outcome for each method, by `package.Class.method` below `org.apache.iceberg.spark`."""
    by_method: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        by_method[f"{result['class'].removeprefix(SPARK_PACKAGE)}.{result['method']}"].append(result)
    return {method: _outcome(method, group) for method, group in by_method.items()}


def _is_other_class(difference: str) -> bool:
    """Return True if an error's class is neither the one that Java's test expects nor one that the list allows instead."""
    found = re.match(r"class: expected (\w+) but was ([\w.$]+)", difference)
    return found is not None and (found[1], found[2].rpartition(".")[2]) not in _other_classes()


@cache
def _other_classes() -> frozenset[tuple[str, str]]:
    return frozenset((group["java"], name) for group in tomllib.loads(LIST.read_text()).get("error_class", ()) for name in group["icefloe"])


def _outcome(method: str, results: list[Mapping[str, Any]]) -> Outcome:
    seconds = sum(result["seconds"] for result in results)
    failed = [f"{result['display']}\n{result['reason']}" for result in results if result["status"] == "failed"]
    of_class = [f"{result['display']}\n{one}" for result in results for one in result["differences"] if _is_other_class(one)]
    if failed or of_class:
        return Outcome(method, "failed", (failed or of_class)[0], seconds)
    words = [one for result in results for one in result["differences"]]
    if words:
        return Outcome(method, "words", "\n".join(words), seconds)
    passed = any(result["status"] == "passed" for result in results)
    return Outcome(method, "passed", "", seconds) if passed else Outcome(method, "not run", results[0]["reason"], seconds)
