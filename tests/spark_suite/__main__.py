"""Spark's own tests on Icefloe's tables, with their results compared to the list of expected differences.

    python -m tests.spark_suite                            everything: files of SQL, then suites in Scala
    python -m tests.spark_suite "subquery/*.sql"           files of SQL by pattern
    python -m tests.spark_suite "DeltaBased*"              suites by pattern
    python -m tests.spark_suite "*SchemaPruningSuite.select a single complex field"   tests whose names contain a text
    python -m tests.spark_suite --resume                   continue a run that was stopped

A file of SQL runs on Iceberg tables. Where a result is not the one that Spark's suite expects, the file runs again on Spark's own Parquet tables, in a JVM
without Icefloe, and the two have to be the same. A suite in Scala checks its results itself. The exit code is 1 if a result differs from the list, and 2 if
Maven or a JDK is missing.
"""

import argparse
import fnmatch
import signal
import sys
import tomllib
import zipfile
from pathlib import Path

import pyspark
from tests.jvm_suite.differences import Outcome, report
from tests.jvm_suite.fetched import MissingToolError
from tests.jvm_suite.run import Run, add_silent_seconds
from tests.spark_suite.compared import compared, read_golden, unlike_golden
from tests.spark_suite.fetched import FETCHED, FOLDER, GOLDEN, INPUTS, fetch
from tests.spark_suite.sql_file import uses_tables

LIST = Path(__file__).parent / "expected.toml"
# Suites are compiled for one version of Spark; files of SQL run on any.
SPARK_OF_SUITES = "4.2."
FILES_IN_ONE_JVM, SUITES_IN_ONE_JVM = 30, 4
PRUNING = "org.apache.spark.sql.execution.datasources.parquet.ParquetV1SchemaPruningSuite"
CONNECTOR = "org.apache.spark.sql.connector."
SQL = f"{CONNECTOR}DataSourceV2SQLSuiteV1Filter"


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the JVM is ended too
    parser = argparse.ArgumentParser(prog="make test-spark-suite", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("patterns", nargs="*", metavar="FILE|SUITE[.TEST]", help="what to run; * matches any text")
    parser.add_argument("--resume", action="store_true", help="keep the results of files and suites that ran to their end before")
    add_silent_seconds(parser)
    arguments = parser.parse_args()
    try:
        fetch()
    except MissingToolError as error:
        print(f"make test-spark-suite: {error}", file=sys.stderr)
        return 2
    left_out = [pattern for group in tomllib.loads(LIST.read_text())["left_out"] for pattern in group["names"]]
    wanted = arguments.patterns or ["*"]
    files = [name for name in files_of_sql() if _is_wanted(name, wanted) and not _matches(name, left_out)]
    parts = [pattern.partition(".") for pattern in wanted if not pattern.endswith(".sql")]
    names = [name for name in suites() if any(fnmatch.fnmatchcase(simple_name(name), part[0]) for part in parts)]
    names = [name for name in names if not _matches(simple_name(name), left_out)]
    tests = sorted({part[2] for part in parts if part[2]})
    if names and not pyspark.__version__.startswith(SPARK_OF_SUITES):
        print(
            f"suites in Scala run on Spark {SPARK_OF_SUITES}x alone, and this is {pyspark.__version__}: only files of SQL run",
            file=sys.stderr,
        )
        names = []
    if not files and not names:
        print(f"nothing of Spark's tests matches {' '.join(wanted)}", file=sys.stderr)
        return 2
    found = {**_run_files(files, arguments), **_run_suites(names, tests, left_out, arguments)}
    return report(found, LIST, len(files) + len(names), class_of, is_whole=not tests, every_class=not arguments.patterns and bool(names))


def files_of_sql() -> list[str]:
    """Return Spark's files of SQL that use tables or temporary views."""
    return sorted(name for path in INPUTS.rglob("*.sql") if uses_tables(INPUTS, name := str(path.relative_to(INPUTS))))


def suites() -> list[str]:
    """Return the suites in Scala whose tables can be Icefloe's: those of nested fields that scans leave out, of SQL, and of row-level operations."""
    with zipfile.ZipFile(next(FETCHED.jars.glob("spark-sql_*-tests.jar"))) as jar:
        names = [name.removesuffix(".class").replace("/", ".") for name in jar.namelist() if name.endswith("Suite.class")]
    return [PRUNING, SQL, *sorted(name for name in names if name.startswith((f"{CONNECTOR}DeltaBased", f"{CONNECTOR}GroupBased")))]


def simple_name(suite: str) -> str:
    return suite.rpartition(".")[2]


def class_of(method: str) -> str:
    """Return the file or the suite in `file.sql.12` or `Suite.name of the test`, or in a pattern of them."""
    return method.rpartition(".")[0] if ".sql." in method else method.partition(".")[0]


def _is_wanted(file: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns if pattern.endswith(".sql") or pattern == "*")


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _run_files(files: list[str], arguments: argparse.Namespace) -> dict[str, Outcome]:
    version = pyspark.__version__
    run = Run(FOLDER, FOLDER / f"iceberg-{version}", "tests.spark_suite.replay", {"tables": "iceberg"}, arguments.silent_seconds)
    run.run(files, FILES_IN_ONE_JVM, resume=arguments.resume)
    differing = {file: unlike_golden(read_golden((GOLDEN / f"{file}.out").read_text()), run.results_of(file)) for file in files}
    judge = Run(FOLDER, FOLDER / f"parquet-{version}", "tests.spark_suite.replay", {"tables": "parquet"}, arguments.silent_seconds)
    judge.run([file for file in files if differing[file]], FILES_IN_ONE_JVM, resume=True)  # the same in each run
    found = {}
    for file in files:
        found.update(compared(file, judge.results_of(file) if differing[file] else [], run.results_of(file), only=differing[file]))
    return found


def _run_suites(names: list[str], tests: list[str], left_out: list[str], arguments: argparse.Namespace) -> dict[str, Outcome]:
    run = Run(
        FOLDER,
        FOLDER / "suites",
        "tests.spark_suite.session",
        {"methods": tests, "left_out": [fnmatch.translate(pattern) for pattern in left_out]},
        arguments.silent_seconds,
    )
    run.run(names, SUITES_IN_ONE_JVM, resume=arguments.resume)
    found = {}
    for result in (result for name in names for result in run.results_of(name)):
        method = f"{simple_name(result['class'])}.{result['method']}"
        status = "not run" if result["status"] == "skipped" else result["status"]
        found[method] = Outcome(method, status, result["reason"], result["seconds"])
    return found


if __name__ == "__main__":
    sys.exit(main())
