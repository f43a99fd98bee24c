"""Version probes: an unproven version of Spark must correctly read a small table with known rows before Icefloe reads anything else with it.

`spark/runtime/spark_versions.py` lists the proven versions; `spark/sql_probe.py` probes SQL statements.
"""

import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import EngineError, IcefloeError, Problem
from icefloe.spark.bridge.gateway import class_folder, gateway_of
from icefloe.spark.runtime.spark_versions import WITHOUT_JAVA_CLASSES, check_version, is_proven, proven_text
from icefloe.version import __version__

LOG = logging.getLogger(__name__)
_PROBED = "_icefloe_probed"  # attribute of the gateway: the probes that have run, or are running, in this JVM

# A probe: a function that runs statements on tables in an empty folder, and yields the problems that it finds.
Probe = Callable[[Path], Iterator[Problem]]


def probe_scans(spark: SparkSession) -> None:
    """On a version of Spark that is not proven, read a small table once, and compare the rows with the known rows.

    The table has partitions, a renamed column and deleted rows, and is read by Spark's own scan. See `run_probe` for when it is not read.

    Raises:
        EngineError: A row is missing or wrong, the scan failed, or the version is too old.
    """
    run_probe(spark, "scans", _scan_problems)


def run_probe(spark: SparkSession, what: str, probe: Probe) -> None:
    """On a version of Spark that is not proven, run a probe, unless it has run in this JVM or has passed in another process.

    If executors may be on other machines, which do not see the probe's files, the probe is not run, and a warning is logged.

    Args:
        spark: A classic session.
        what: What is probed, for messages and for the name of the file that records the success, for example `scans`.
        probe: The probe.

    Raises:
        EngineError: The probe found a problem, or the version is too old.
    """
    probed = gateway_of(spark).__dict__.setdefault(_PROBED, set())
    if what in probed:
        return
    if is_proven(spark.version):
        probed.add(what)
        return
    check_version(spark.version)
    probed.add(what)  # before the probe has passed, because the probe itself calls this function
    unproven = f"Spark {spark.version} is not a version that Icefloe is proven on, which are {proven_text()}"
    if not str(spark.sparkContext.master).startswith("local"):
        LOG.warning("%s; %s were not probed, as executors on other machines do not see this one's files", unproven, what)
        return
    folder = class_folder(gateway_of(spark), spark.version)
    passed = folder.with_name(f"{folder.name}-{what}-passed-{__version__}")  # beside the folder, which contains only the sealed files
    if not passed.is_file():
        with tempfile.TemporaryDirectory(prefix="icefloe-probe-", ignore_cleanup_errors=True) as folder_of_probe:
            problems = list(probe(Path(folder_of_probe)))
        if problems:
            probed.discard(what)
            raise EngineError(
                f"{unproven}: the probe of {what} on a small table failed, so this version is refused",
                problems=problems,
                next_step=f"use a proven version; {WITHOUT_JAVA_CLASSES}",
            )
        _note(passed)
    LOG.warning("%s; the probe of %s passed", unproven, what)


def compare_rows(where: str, action: Callable[[], Sequence[Any]], expected: Sequence[tuple[Any, ...]] | None) -> Iterator[Problem]:
    """Run an action, and yield a problem if it fails, or if its rows are not the expected rows. If `expected` is None, all rows are accepted."""
    try:
        rows = [tuple(row) for row in action()]
    except (IcefloeError, PySparkException, Py4JError, TypeError) as error:
        yield Problem(where=where, what=f"failed: {' '.join(str(error).split())[:500]}")
        return
    if expected is not None and rows != list(expected):
        yield Problem(where=where, what=f"returned {rows}; expected {list(expected)}")


def probe_catalog(folder: Path) -> SqlCatalog:
    """Create a SQLite catalog in a folder, with a namespace `db`, for a probe."""
    catalog = SqlCatalog("probe", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def _scan_problems(folder: Path) -> Iterator[Problem]:
    numbers = range(12)
    rows = pa.table(
        {"id": pa.array(numbers, pa.int64()), "kind": [f"k{number % 3}" for number in numbers], "a": [number / 2 for number in numbers]}
    )
    table = probe_catalog(folder).create_table(
        "db.t", rows.schema, partition_spec=["kind"], properties={"write.delete.mode": "merge-on-read"}
    )
    table.append(rows)
    with table.update_schema() as update:
        update.rename_column("a", "b")
    table.delete("id IN (3, 4)")
    for text, expected in (
        ("true", [(number, f"k{number % 3}", number / 2) for number in numbers if number not in (3, 4)]),
        ("kind = 'k0' AND id < 9", [(0, "k0", 0.0), (6, "k0", 3.0)]),
        ("b > 2.2 AND kind <> 'k2'", [(6, "k0", 3.0), (7, "k1", 3.5), (9, "k0", 4.5), (10, "k1", 5.0)]),
    ):
        yield from compare_rows(f"rows where {text}", partial(_sorted_rows, table, text), expected)


def _sorted_rows(table: Any, text: str) -> list[Any]:
    return sorted(table.scan(text).to_spark().collect())


def _note(passed: Path) -> None:
    try:
        passed.touch()
    except OSError as error:
        LOG.debug("the next process repeats the probe: %s", error)
