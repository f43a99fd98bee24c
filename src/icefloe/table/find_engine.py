"""The engine for rows, found by their type or by name through the package's entry points (`icefloe.engines`); and the engine for work on files."""

import logging
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from icefloe.errors import EngineError, InvalidInputError, NotInstalledError
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.table.engine import Engine
from icefloe.table.in_process_engine import InProcessEngine

LOG = logging.getLogger(__name__)

# Any package may add an engine by naming a class under this entry-point group.
ENGINE_GROUP = "icefloe.engines"

IN_PROCESS = InProcessEngine()

# From this many bytes of files to search or copy, an inactive Spark is worth starting; below it this process is quicker.
WORK_ON_SPARK_BYTES = 1 << 30


@cache
def engine_named(name: str) -> Engine:
    """Return the engine of a name. Raises `EngineError` if there is none, or it cannot be loaded, and `NotInstalledError` if a package for it is missing."""
    if name == IN_PROCESS.name:
        return IN_PROCESS
    points = entry_points(group=ENGINE_GROUP, name=name)
    if not points:
        raise EngineError(
            f"there is no engine named {name!r}", next_step=f"install the package that brings it; known: {', '.join(_names())}"
        )
    try:
        engine: Engine = next(iter(points)).load()()
    except NotInstalledError:
        raise
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}", next_step="install what it needs") from error
    return engine


def engine_for_rows(rows: object) -> Engine:
    """Return the engine that writes rows of this type. Raises `InvalidInputError` if none does."""
    if IN_PROCESS.accepts(rows):
        return IN_PROCESS
    # Engines are loaded one after the other, until one accepts the rows.
    for name in _names():
        try:
            engine = engine_named(name)
        except NotInstalledError as error:
            LOG.debug("rows are not those of %s, which is not installed: %s", name, error)
            continue
        if engine.accepts(rows):
            return engine
    raise InvalidInputError(
        f"rows of type {type(rows).__module__}.{type(rows).__qualname__} cannot be written",
        next_step="pass a Spark DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas DataFrame",
    )


def running_engine() -> Engine:
    """Return Spark if it runs in this process and Icefloe can use it, else the in-process engine. Nothing is started."""
    spark = _spark() if "pyspark" in sys.modules else None
    return spark if spark is not None and spark.is_active() else IN_PROCESS


def engine_for_files(tasks: Sequence[FileScanTask]) -> Engine:
    """Return the engine that searches or copies files: Spark if it runs already or the files are large, else the in-process engine."""
    size = sum(task.file.file_size_in_bytes for task in tasks)
    return (_spark() or IN_PROCESS) if size >= WORK_ON_SPARK_BYTES else running_engine()


def _spark() -> Engine | None:
    """Return Spark's engine; None if Icefloe cannot use it."""
    try:
        return engine_named("spark")
    except (EngineError, NotInstalledError) as error:
        LOG.info("Spark is not available; this process does the work: %s", error)
        return None


def _names() -> list[str]:
    return sorted({point.name for point in entry_points(group=ENGINE_GROUP)})
