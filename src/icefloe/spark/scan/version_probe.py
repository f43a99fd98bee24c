"""What a version of Spark that Icefloe is not proven on must read right before anything else is read with it: a small table whose rows are known.

Which versions are proven is `versions.py`; statements of SQL are tried by `spark/sql_probe.py`.
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
from icefloe.spark.bridge.gateway import gateway_of
from icefloe.spark.bridge.java_compiler import compiled_folder
from icefloe.spark.runtime.spark_versions import WITHOUT_GLUE, check_version, is_proven, proven_text
from icefloe.table.engine import VERSION

LOG = logging.getLogger(__name__)
_TRIED = "_icefloe_tried"  # on the gateway: what was tried in this JVM, or is being tried

# Tries something in a folder of its own, and tells what went wrong.
Trial = Callable[[Path], Iterator[Problem]]


def try_scan(spark: SparkSession) -> None:
    """On a version that is not proven, once: reads partitions, a renamed column and deleted rows by Spark's own scan, and compares with what is known.

    Raises:
        EngineError: a row is missing or wrong, or the scan failed; what was tried, what came of it, and which versions are proven.
    """
    try_once(spark, "scans", _scans)


def try_once(spark: SparkSession, what: str, trial: Trial) -> None:
    """Runs a trial on a version that is not proven, unless it passed before, here or in an earlier process. Raises `EngineError` where it fails."""
    tried = gateway_of(spark).__dict__.setdefault(_TRIED, set())
    if what in tried or is_proven(spark.version):
        return
    check_version(spark.version)
    tried.add(what)  # before it has passed, as the trial comes here itself
    said = f"Spark {spark.version} is not a version that Icefloe is proven on, which are {proven_text()}"
    if not str(spark.sparkContext.master).startswith("local"):
        LOG.warning("%s; %s were not tried, as executors on other machines do not see this one's files", said, what)
        return
    folder = compiled_folder(spark)
    passed = folder.with_name(f"{folder.name}-{what}-passed-{VERSION}")  # beside the folder, which holds the sealed files alone
    if not passed.is_file():
        with tempfile.TemporaryDirectory(prefix="icefloe-trial-", ignore_cleanup_errors=True) as tried_in:
            problems = list(trial(Path(tried_in)))
        if problems:
            tried.discard(what)
            raise EngineError(
                f"{said}: {what} were tried on a small table, and went wrong, so nothing is done with it",
                problems=problems,
                next_step=f"use a proven version; {WITHOUT_GLUE}",
            )
        _note(passed)
    LOG.warning("%s; a trial of %s went well", said, what)


def told(where: str, action: Callable[[], Sequence[Any]], expected: Sequence[tuple[Any, ...]] | None) -> Iterator[Problem]:
    """The problem with an action's rows, if there is one; rows that nothing is expected of are any."""
    try:
        found = [tuple(row) for row in action()]
    except (IcefloeError, PySparkException, Py4JError, TypeError) as error:
        yield Problem(where=where, what=f"failed: {' '.join(str(error).split())[:500]}")
        return
    if expected is not None and found != list(expected):
        yield Problem(where=where, what=f"gave {found}, and {list(expected)} is right")


def trial_catalog(folder: Path) -> SqlCatalog:
    """A catalog of its own in the folder, with the namespace `db`."""
    catalog = SqlCatalog("trial", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace("db")
    return catalog


def _scans(folder: Path) -> Iterator[Problem]:
    numbers = range(12)
    rows = pa.table(
        {"id": pa.array(numbers, pa.int64()), "kind": [f"k{number % 3}" for number in numbers], "a": [number / 2 for number in numbers]}
    )
    table = trial_catalog(folder).create_table(
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
        yield from told(f"rows where {text}", partial(_sorted_rows, table, text), expected)


def _sorted_rows(table: Any, text: str) -> list[Any]:
    return sorted(table.scan(text).to_spark().collect())


def _note(passed: Path) -> None:
    try:
        passed.touch()
    except OSError as error:
        LOG.debug("what was tried is tried again by the next process: %s", error)
