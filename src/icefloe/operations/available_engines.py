"""The engines that read and write rows: `InProcessEngine`, and the choice between this engine and engines of other packages.

The in-process engine reads and writes Arrow rows without a JVM, with the same data-file code that Spark's tasks run. Other engines, such as Spark's, are
classes that packages register as entry points (`icefloe.engines`). An engine is chosen by the type of the rows, by name, or by the amount of work. Spec: Column
Projection; Writing data files.
"""

import logging
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.metadata import entry_points
from itertools import islice, starmap
from threading import Event
from typing import Any, NoReturn

import pyarrow as pa

from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_batches, write_sorted
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.write_target import WriteTarget, WritingTask
from icefloe.display.progress import count_pieces, progress
from icefloe.errors import EngineError, IcefloeError, InvalidInputError, NotInstalledError, StorageError, UnsupportedFeatureError
from icefloe.operations.arrow_upsert import upsert_arrow
from icefloe.operations.engine import READ_THREADS, Engine, ScanRequest, Statement, UpsertSource
from icefloe.operations.orphans.orphan_search import OrphanRequest
from icefloe.operations.orphans.orphan_search import find_in_process as orphans_in_process
from icefloe.operations.pandas_rows import arrow_of_frame
from icefloe.operations.parallel_requests import side_by_side
from icefloe.operations.upsert_source import arrow_source
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.version import __version__

LOG = logging.getLogger(__name__)

# Any package may add an engine by naming a class under this entry-point group.
ENGINE_GROUP = "icefloe.engines"
# The number of bytes of rows from which on a write shows its progress.
LONG_WRITE_BYTES = 1 << 26


class InProcessEngine:
    """Reads and writes rows as Arrow tables, in this process."""

    name = "in-process"

    def environment(self) -> Mapping[str, str]:
        return {"engine-name": "icefloe", "engine-version": __version__}

    def setting(self, name: str) -> str | None:  # noqa: ARG002
        """Return None, because the in-process engine has no session."""
        return None

    def accepts(self, rows: object) -> bool:
        """Return whether the rows are Arrow or pandas data, or can be converted to Arrow."""
        return isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or _is_frame(rows) or _exports_arrow(rows)

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write Arrow or pandas rows in the table's sort order. Columns are matched by name.

        The rows of a `RecordBatchReader` are not sorted, because a stream may not fit in memory; its files have the sort order id of unsorted files.

        Raises:
            SchemaMismatchError: the rows do not fit the table's columns.
        """
        if isinstance(rows, pa.RecordBatchReader):
            unsorted = replace(target, sort_order_id=UNSORTED_ORDER_ID)
            with closing(count_pieces(f"write {target.table_name}", "batches", rows, 0)) as batches:
                cast = (cast_to_schema(pa.Table.from_batches([batch]), target.schema) for batch in batches)
                return write_batches(unsorted, (batch for table in cast for batch in table.to_batches()), partition_id=0, task_id=0)
        table = arrow_table(rows, target.schema)
        if table.nbytes < LONG_WRITE_BYTES:
            return write_sorted(target, cast_to_schema(table, target.schema), partition_id=0, task_id=0)
        with progress(f"write {table.num_rows:,} rows into {target.table_name}", "rows"):
            return write_sorted(target, cast_to_schema(table, target.schema), partition_id=0, task_id=0)

    def read(self, request: ScanRequest) -> pa.Table:
        """Return all rows as one Arrow table."""
        reader = self.read_batches(request)
        return reader.read_all()

    def upsert(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Return the checked source of an upsert; see `Engine.upsert`. The rows of a `RecordBatchReader` are read into memory."""
        return arrow_source(arrow_table(rows, schema), schema, key_ids, updates=updates, join=upsert_arrow)

    def run_statement(self, table: Any, statement: Statement) -> NoReturn:  # noqa: ARG002
        """Raise `UnsupportedFeatureError`, because only Spark runs SQL statements."""
        raise UnsupportedFeatureError(
            f"{statement.operation.upper()} is run by Spark, not in this process",
            next_step="start a session with icefloe.spark.session(), or use table.upsert, table.delete and table.overwrite",
        )

    def read_batches(self, request: ScanRequest) -> pa.RecordBatchReader:
        """Return the rows as a stream in the order of the plan. Files are read ahead in parallel."""
        schema = schema_to_arrow(request.projection)
        return pa.RecordBatchReader.from_batches(schema, _limit(_read_ahead(request), request.limit))

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        description: str,
        *,
        tasks: int | None = None,  # noqa: ARG002
        threads: int = 1,
        target: WriteTarget | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Iterator[Any]:
        """Call a function for items in threads of this process, and yield the results in the order of the items; see `Engine.map`."""
        if target is not None:
            return iter(_write_all(function, items, description, min(threads, READ_THREADS), target))
        results = map(function, items) if threads < 2 else side_by_side(function, items, threads)
        if combine is None or not items:
            return results
        with closing(count_pieces(description, "files", results, len(items))) as counted_results:
            return iter((reduce(combine, counted_results),))

    def orphans(self, request: OrphanRequest) -> Generator[Any, None, None]:
        """Yield the orphan files; see `Engine.orphans`. Threads list folders and read manifests; the paths are compared in a database on the local disk."""
        return orphans_in_process(request)


IN_PROCESS = InProcessEngine()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """Chooses the engine if the caller names none: Spark if the work is worth a Spark job, otherwise the in-process engine.

    A job takes seconds. So Spark reads manifests or footers only if there are many of them and a session is running. Spark reads data files of any size if a
    session is running, and a session is started only for many bytes.

    Attributes:
        uses_spark: Whether Spark may be chosen at all.
        bytes_to_start: A Spark session is started to read, search or copy files of at least this many bytes.
        footers: Spark reads the footers of files to add if there are at least this many files.
        manifests: Spark finds the files that become unused with expired snapshots if there are at least this many manifests.
        manifest_bytes: Spark checks manifests if they have at least this many bytes.
        checked_files: Spark checks data files and delete files if there are at least this many.
        live_files: Spark searches for orphan files if the table has at least this many live files.
    """

    uses_spark: bool = True
    bytes_to_start: int = 1 << 30
    footers: int = 2_000
    manifests: int = 1_000
    manifest_bytes: int = 64 * 1024 * 1024
    checked_files: int = 10_000
    live_files: int = 100_000

    def running(self) -> Engine:
        """Return Spark's engine if a session runs in this process and Icefloe can use it, else the in-process engine. No session is started."""
        spark = self._spark() if "pyspark" in sys.modules else None
        return spark if spark is not None and "app-id" in spark.environment() else IN_PROCESS

    def for_many(self, count: int, least: int, name: str | None = None) -> Engine:
        """Return the engine for work on `count` items: the named one, or without a name Spark if a session is running and `count` is at least `least`.

        In all other cases it is the in-process engine. Raises `EngineError` if there is no engine with the name.
        """
        return engine_named(name) if name is not None else self.running() if count >= least else IN_PROCESS

    def for_bytes(self, size: int, name: str | None = None) -> Engine:
        """Return the engine to read files of `size` bytes: the named one, or without a name Spark if a session is running or `size` is worth starting one.

        In all other cases it is the in-process engine. Raises `EngineError` if there is no engine with the name.
        """
        if name is not None:
            return engine_named(name)
        return (self._spark() or IN_PROCESS) if size >= self.bytes_to_start else self.running()

    def for_files(self, tasks: Sequence[FileScanTask], name: str | None = None) -> Engine:
        """Return the engine to read, search or copy the files of these tasks. It is chosen by their size, as in `for_bytes`."""
        return self.for_bytes(sum(task.file.file_size_in_bytes for task in tasks), name)

    def for_statements(self, operation: str) -> Engine:
        """Return the engine that runs SQL statements in this process, such as an `update` or a `merge`.

        Raises:
            UnsupportedFeatureError: No classic Spark session runs in this process.
            NotInstalledError: Spark is not installed.
        """
        engine = engine_named("spark")
        if not self.uses_spark or "app-id" not in engine.environment():
            raise UnsupportedFeatureError(
                f"{operation.upper()} is run by Spark, and no classic session of it runs in this process",
                next_step="start one with icefloe.spark.session() in a process without Spark Connect, or use table.upsert, table.delete and table.overwrite",
            )
        return engine

    def _spark(self) -> Engine | None:
        """Return Spark's engine; None if it must not be used or Spark is not installed. No session is started."""
        try:
            return engine_named("spark") if self.uses_spark else None
        except (EngineError, NotInstalledError) as error:
            LOG.info("Spark is not available; this process does the work: %s", error)
            return None


_choices = [EngineChoice()]


def engine_choice() -> EngineChoice:
    """Return the `EngineChoice` of this process."""
    return _choices[-1]


@contextmanager
def choosing_engines(choice: EngineChoice) -> Iterator[None]:
    """Return a context in which `engine_choice` returns another `EngineChoice`, in all threads of this process."""
    _choices.append(choice)
    try:
        yield
    finally:
        _choices.remove(choice)


@cache
def engine_named(name: str) -> Engine:
    """Return the engine with a name. Raises `EngineError` if it does not exist or cannot be loaded, `NotInstalledError` if it needs a missing package."""
    if name == IN_PROCESS.name:
        return IN_PROCESS
    points = entry_points(group=ENGINE_GROUP, name=name)
    if not points:
        raise EngineError(
            f"there is no engine named {name!r}", next_step=f"install the package that brings it; known: {', '.join(_engine_names())}"
        )
    try:
        engine: Engine = next(iter(points)).load()()
    except NotInstalledError:
        raise
    except ImportError as error:
        raise EngineError(f"engine {name!r} cannot be loaded: {error}", next_step="install what it needs") from error
    return engine


def engine_for_rows(rows: object) -> Engine:
    """Return the engine that writes rows of this type. Raises `InvalidInputError` if no engine does."""
    if IN_PROCESS.accepts(rows):
        return IN_PROCESS
    # Engines are loaded one by one, until one accepts the rows.
    for name in _engine_names():
        try:
            engine = engine_named(name)
        except NotInstalledError as error:
            LOG.debug("rows are not those of %s, which is not installed: %s", name, error)
            continue
        if engine.accepts(rows):
            return engine
    raise InvalidInputError(
        f"rows of type {type(rows).__module__}.{type(rows).__qualname__} cannot be written",
        next_step="pass a Spark DataFrame, a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame, or a DuckDB relation; "
        "of a Polars LazyFrame its collect()",
    )


def _engine_names() -> list[str]:
    return sorted({point.name for point in entry_points(group=ENGINE_GROUP)})


def _write_all(function: Callable[..., Any], items: Sequence[Any], description: str, threads: int, target: WriteTarget) -> list[Any]:
    """Call a function that writes files for all items in threads, and return the results in the order of the items.

    After an error or Ctrl-C the other calls stop, and all written files are deleted.
    """
    outcomes: dict[int, Any] = {}
    stopped = Event()

    def write(number: int, item: Any) -> None:
        outcomes[number] = function(item, WritingTask(number, is_stopped=stopped.is_set))

    def write_all() -> Generator[None]:
        if threads < 2:
            yield from starmap(write, enumerate(items))
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="icefloe-rewrite") as pool:
            try:
                # Waits for the items in the order in which they finish, so that an error stops the others at once.
                yield from (future.result() for future in as_completed([pool.submit(write, *numbered) for numbered in enumerate(items)]))
            except BaseException:
                stopped.set()
                pool.shutdown(cancel_futures=True)
                raise

    try:
        with closing(write_all()) as work, closing(count_pieces(description, "files", work, len(items))) as counted_work:
            for _ in counted_work:
                pass
    except BaseException:
        for file in (file for outcome in outcomes.values() for file in outcome.added):
            with suppress(StorageError):
                target.io.delete(file.file_path)
        raise
    return [outcomes[number] for number in range(len(items))]


def arrow_table(rows: Any, schema: Schema | None = None, names: Collection[str] | None = None) -> pa.Table:
    """Convert rows of Arrow, pandas, or another library that exports Arrow (such as Polars or DuckDB) to one Arrow table.

    Args:
        rows: The rows.
        schema: The schema whose types pandas rows are converted to; None for the types that Arrow infers.
        names: The names of the needed columns of pandas rows; None for all.

    Raises:
        InvalidInputError: The rows are of a type that cannot be converted to Arrow.
        SchemaMismatchError: See `arrow_of_frame`.
    """
    if _is_frame(rows):
        return arrow_of_frame(rows, schema, names)
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if isinstance(rows, pa.Table):
        return rows
    if _exports_arrow(rows):
        try:
            return pa.table(rows)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"rows of type {type(rows).__module__}.{type(rows).__qualname__} cannot be taken as Arrow: {error}",
                next_step="cast these columns to a type that Arrow has; of a Series pass its to_frame()",
            ) from error
    raise InvalidInputError(
        f"rows of type {type(rows).__module__}.{type(rows).__qualname__} cannot be used here",
        next_step="pass a pyarrow Table, RecordBatch or RecordBatchReader, a pandas or Polars DataFrame, or a DuckDB relation; "
        "of a Spark DataFrame its toArrow(), of a Polars LazyFrame its collect()",
    )


def _exports_arrow(rows: object) -> bool:
    """Return whether the rows have the Arrow PyCapsule interface, such as Polars frames and DuckDB relations. Spark's DataFrames do not count."""
    return hasattr(type(rows), "__arrow_c_stream__") and not type(rows).__module__.startswith("pyspark.")


def _is_frame(rows: object) -> bool:
    """Return whether the rows are a pandas DataFrame.

    If they are, pandas has been imported already. This test does not import it, because that takes a third of a second.
    """
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def _read_ahead(request: ScanRequest) -> Iterator[pa.RecordBatch]:
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)

    def read_file(task: FileScanTask) -> list[pa.RecordBatch]:
        return list(_read_task(request, task, deletes))

    tasks = iter(request.plan.tasks())
    if request.limit is not None:
        # The first file often has enough rows for the limit; reading ahead would read files that are not needed.
        for task in tasks:
            yield from _read_task(request, task, deletes)
        return
    with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="icefloe-read") as pool:
        waiting = [pool.submit(read_file, task) for task in islice(tasks, READ_THREADS)]
        while waiting:
            batches = waiting.pop(0).result()
            waiting.extend(pool.submit(read_file, task) for task in islice(tasks, 1))
            yield from batches


def _read_task(request: ScanRequest, task: FileScanTask, deletes: DeleteLoader) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_task(
            request.io,
            task,
            schema=request.schema,
            projection=request.projection,
            specs=request.specs,
            name_mapping=request.name_mapping,
            deletes=deletes,
        )
    except IcefloeError as error:
        error.table = error.table or request.table_name
        raise


def _limit(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    remaining = limit
    for batch in batches:
        if remaining <= 0:
            return
        yield batch.slice(0, remaining)
        remaining -= batch.num_rows
