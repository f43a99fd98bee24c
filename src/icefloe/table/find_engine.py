"""Finds the engine for rows, by their type or by name, through the package's entry points (group `icefloe.engines`); and the one for work on files."""

import logging
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points

from icefloe.errors import EngineError, InvalidInputError
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.table.engine import Engine
from icefloe.table.in_process_engine import InProcessEngine

LOG = logging.getLogger(__name__)

# Any package may add an engine by naming a class under this entry-point group.
ENGINE_GROUP = "icefloe.engines"

IN_PROCESS = InProcessEngine()

# From this many bytes of files to look through or copy, an inactive Spark is worth starting; below it this process is quicker.
WORK_ON_SPARK_BYTES = 1 << 30


@cache
def engine_named(name: str) -> Engine:
    """The engine of that name. Raises `EngineError` where none is installed, or it cannot be loaded."""
    if name == IN_PROCESS.name:
        return IN_PROCESS
    found = entry_points(group=ENGINE_GROUP, name=name)
    if not found:
        raise EngineError(
            f"there is no engine named {name!r}", next_step=f"install the package that brings it; known: {', '.join(_names())}"
        )
    try:
        engine: Engine = next(iter(found)).load()()
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}", next_step="install what it needs") from error
    return engine


def engine_for_rows(rows: object) -> Engine:
    """The engine that takes rows of this type. Raises `InvalidInputError` where none does."""
    if IN_PROCESS.accepts(rows):
        return IN_PROCESS
    # The engine of the rows' own package is asked; others are not imported for nothing.
    for name in _names():
        engine = engine_named(name)
        if engine.accepts(rows):
            return engine
    raise InvalidInputError(
        f"rows of type {type(rows).__module__}.{type(rows).__qualname__} cannot be written",
        next_step="pass a Spark DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas DataFrame",
    )


def running_engine() -> Engine:
    """Spark where it runs in this process, this process otherwise, also where a Spark runs that Icefloe cannot use. Nothing is started for the answer."""
    spark = _spark() if "pyspark" in sys.modules else None
    return spark if spark is not None and spark.is_active() else IN_PROCESS


def engine_for_files(tasks: Sequence[FileScanTask]) -> Engine:
    """Who looks through files or copies them: Spark where it runs already or they are large; this process otherwise."""
    size = sum(task.file.file_size_in_bytes for task in tasks)
    return (_spark() or IN_PROCESS) if size >= WORK_ON_SPARK_BYTES else running_engine()


def _spark() -> Engine | None:
    """Spark, unless there is none that Icefloe can use."""
    try:
        return engine_named("spark")
    except EngineError as error:
        LOG.info("this process does the work: %s", error)
        return None


def _names() -> list[str]:
    return sorted({point.name for point in entry_points(group=ENGINE_GROUP)})
