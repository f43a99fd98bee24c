"""The engines that rows are read and written by: `InProcessEngine`, and those of other packages, found by the type of rows or by name.

The in-process engine has Arrow rows in and out, through the same data-file code that Spark's tasks run, with no JVM. Others, such as Spark's, are classes
that packages name as entry points (`icefloe.engines`). Spec: Column Projection; Writing data files.
"""

import logging
import os
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import entry_points
from itertools import islice
from threading import Event
from typing import Any, NoReturn, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.datafile.column_sketches import column_sketches
from icefloe.datafile.compact_files import CompactedFiles, compact_files
from icefloe.datafile.copy_data_file import RewrittenFile, rewrite_task
from icefloe.datafile.copy_file_group import RewrittenGroup, rewrite_group
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_batches, write_sorted
from icefloe.datafile.deletes.delete_file_output import WrittenDeletes
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.deletes.matching_positions import matching_positions
from icefloe.datafile.deletes.merge_deletes import merge_deletes
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FilesToAdd, FileToAdd
from icefloe.datafile.write_target import WriteTarget
from icefloe.display.progress import counted, progress
from icefloe.errors import EngineError, IcefloeError, InvalidInputError, NotInstalledError, StorageError, UnsupportedFeatureError
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import UNSORTED_ORDER_ID
from icefloe.spec.puffin.theta_sketch import ThetaSketch
from icefloe.spec.schema.arrow_schema import schema_to_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_cast import cast_to_schema
from icefloe.table.arrow_upsert import upsert_arrow
from icefloe.table.engine import (
    CompactionRequest,
    Engine,
    FilesRequest,
    MergeDeletesRequest,
    PositionsRequest,
    RewriteGroupsRequest,
    RewriteRequest,
    ScanRequest,
    SketchRequest,
    Statement,
    UnreachableRequest,
    UpsertedRows,
    UpsertRequest,
    UpsertSource,
)
from icefloe.table.orphans.orphan_search import OrphanRequest
from icefloe.table.orphans.orphan_search import find_in_process as orphans_in_process
from icefloe.table.pandas_rows import arrow_of_frame
from icefloe.table.unreachable_files import Unreachable, find_in_process
from icefloe.table.upsert_source import arrow_source
from icefloe.table.write_result import WriteResult
from icefloe.version import __version__

LOG = logging.getLogger(__name__)

# Any package may add an engine by naming a class under this entry-point group.
ENGINE_GROUP = "icefloe.engines"
# From this many bytes of files to search or copy, an inactive Spark is worth starting; below it this process is quicker.
WORK_ON_SPARK_BYTES = 1 << 30

Rewritten = TypeVar("Rewritten", RewrittenFile, RewrittenGroup)
Written = TypeVar("Written", CompactedFiles, WrittenDeletes)

# From this many bytes of rows on, a write may take long enough to show its progress.
LONG_WRITE_BYTES = 1 << 26
# Threads that read files side by side; reading is native code of Arrow, which runs outside the interpreter's lock.
READ_THREADS = min(8, os.cpu_count() or 1)
# Threads that read footers: on object stores each waits for two replies, and does little else.
FOOTER_THREADS = 16
FOOTERS_AT_ONCE = 32


class InProcessEngine:
    """Reads and writes rows as Arrow tables, in this process."""

    name = "in-process"

    def environment(self) -> Mapping[str, str]:
        return {"engine-name": "icefloe", "engine-version": __version__}

    def setting(self, name: str) -> str | None:  # noqa: ARG002
        """Return None: there is no session."""
        return None

    def accepts(self, rows: object) -> bool:
        """Return whether the rows are Arrow or pandas data, or can be exported as Arrow."""
        return isinstance(rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader) or _is_frame(rows) or _exports_arrow(rows)

    def is_active(self) -> bool:
        """Return True: this process runs."""
        return True

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write Arrow or pandas rows, matched to the table's columns by name, in the table's sort order.

        The rows of a `RecordBatchReader` are written as they come, as a stream may not fit in memory; such files are not marked as sorted.

        Raises:
            SchemaMismatchError: the rows do not fit the table's columns.
        """
        if isinstance(rows, pa.RecordBatchReader):
            unsorted = replace(target, sort_order_id=UNSORTED_ORDER_ID)
            with closing(counted(f"write {target.table_name}", "batches", rows, 0)) as batches:
                cast = (cast_to_schema(pa.Table.from_batches([batch]), target.schema) for batch in batches)
                return write_batches(unsorted, (batch for table in cast for batch in table.to_batches()), partition_id=0, task_id=0)
        table = arrow_table(rows, target.schema)
        if table.nbytes < LONG_WRITE_BYTES:
            return write_sorted(target, cast_to_schema(table, target.schema), partition_id=0, task_id=0)
        with progress(f"write {table.num_rows:,} rows into {target.table_name}", "rows"):
            return write_sorted(target, cast_to_schema(table, target.schema), partition_id=0, task_id=0)

    def rewrite(self, request: RewriteRequest) -> list[RewrittenFile]:
        """See `Engine.rewrite`. After a failure or Ctrl-C no copy remains."""
        deletes = _loader_for(request)
        return _all_or_none(
            request.target,
            len(request.tasks),
            (
                rewrite_task(
                    request.target,
                    task,
                    request.delete_filter,
                    schema=request.schema,
                    specs=request.specs,
                    partition_id=index,
                    task_id=0,
                    deletes=deletes,
                )
                for index, task in enumerate(request.tasks)
            ),
        )

    def rewrite_groups(self, request: RewriteGroupsRequest) -> list[RewrittenGroup]:
        deletes = _loader_for(request)
        return _all_or_none(
            request.target,
            len(request.groups),
            (
                rewrite_group(
                    request.target, group, schema=request.schema, specs=request.specs, partition_id=index, task_id=0, deletes=deletes
                )
                for index, group in enumerate(request.groups)
            ),
        )

    def compact(self, request: CompactionRequest) -> list[CompactedFiles]:
        """See `Engine.compact`. Items are compacted side by side; after a failure or Ctrl-C the others stop at their next batch."""
        return _side_by_side(compact_files, request, f"compact {request.target.table_name}")

    def merge_deletes(self, request: MergeDeletesRequest) -> list[WrittenDeletes]:
        """See `Engine.merge_deletes`. Items are done side by side, as by `compact`."""
        return _side_by_side(merge_deletes, request, f"rewrite deletes of {request.target.table_name}")

    def positions(self, request: PositionsRequest) -> list[NDArray[np.int64]]:
        """See `Engine.positions`. Files are searched side by side."""
        deletes = DeleteLoader(request.io, schemas=request.schemas or (request.schema,), name_mapping=request.name_mapping)

        def find(task: FileScanTask) -> NDArray[np.int64]:
            return matching_positions(
                request.io,
                task,
                request.delete_filter,
                schema=request.schema,
                specs=request.specs,
                name_mapping=request.name_mapping,
                deletes=deletes,
            )

        if len(request.tasks) < 2:
            return [find(task) for task in request.tasks]
        with ThreadPoolExecutor(READ_THREADS, thread_name_prefix="icefloe-find") as pool:
            return list(pool.map(find, request.tasks))

    def read(self, request: ScanRequest) -> pa.Table:
        """Return all rows as one Arrow table."""
        reader = self.read_batches(request)
        return reader.read_all()

    def sketches(self, request: SketchRequest) -> Sequence[ThetaSketch]:
        """See `Engine.sketches`. Files are read ahead side by side."""
        batches = _read_ahead(request.scan)
        with closing(counted(f"count distinct values of {request.scan.table_name}", "batches", batches, 0)) as counted_batches:
            return column_sketches(counted_batches, request.columns)

    def files_to_add(self, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str) -> list[FileToAdd]:  # noqa: ARG002
        """See `Engine.files_to_add`. Footers are read side by side."""
        files = FilesToAdd(request, spec)
        if len(locations) < 2:
            return [files.file_to_add(location) for location in locations]
        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
            # One call a batch: a task of the pool for each of a hundred thousand files would cost more than the files.
            waiting = [
                pool.submit(_footers, locations[start : start + FOOTERS_AT_ONCE], files)
                for start in range(0, len(locations), FOOTERS_AT_ONCE)
            ]
            try:
                return [file for batch in waiting for file in batch.result()]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def upsert_source(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """See `Engine.upsert_source`. The rows of a `RecordBatchReader` are read into memory."""
        return arrow_source(arrow_table(rows, schema), schema, key_ids, updates=updates)

    def upsert(self, request: UpsertRequest) -> UpsertedRows:
        return upsert_arrow(request, READ_THREADS)

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:  # noqa: ARG002
        """Refuse: SQL is run by Spark."""
        self.check_runs_statements(statement.operation)

    def check_runs_statements(self, operation: str) -> NoReturn:
        """Refuse: SQL is run by Spark."""
        raise UnsupportedFeatureError(
            f"{operation.upper()} is run by Spark, not in this process",
            next_step="start a session with icefloe.spark.session(), or use table.upsert, table.delete and table.overwrite",
        )

    def read_batches(self, request: ScanRequest) -> pa.RecordBatchReader:
        """Return the rows as a stream: files are read ahead side by side, and rows keep the order of the plan."""
        schema = schema_to_arrow(request.projection)
        return pa.RecordBatchReader.from_batches(schema, _limited(_read_ahead(request), request.limit))

    def unreachable(self, request: UnreachableRequest) -> Unreachable:
        """See `Engine.unreachable`. Manifests are read side by side."""
        return find_in_process(request, request.io.read)

    def each(self, function: Callable[[Any], Any], items: Sequence[Any], description: str) -> Iterator[Any]:  # noqa: ARG002
        """See `Engine.each`. Items are worked on one after the other."""
        return map(function, items)

    def orphans(self, request: OrphanRequest) -> Generator[Any, None, None]:
        """See `Engine.orphans`. Folders are listed and manifests are read by threads; both are compared on the local disk."""
        return orphans_in_process(request)


IN_PROCESS = InProcessEngine()


@cache
def engine_named(name: str) -> Engine:
    """Return the engine of a name. Raises `EngineError` if there is none, or it cannot be loaded, and `NotInstalledError` if a package for it is missing."""
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
    """Return the engine that writes rows of this type. Raises `InvalidInputError` if none does."""
    if IN_PROCESS.accepts(rows):
        return IN_PROCESS
    # Engines are loaded one after the other, until one accepts the rows.
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


def running_engine() -> Engine:
    """Return Spark if it runs in this process and Icefloe can use it, else the in-process engine. Nothing is started."""
    spark = _spark() if "pyspark" in sys.modules else None
    return spark if spark is not None and spark.is_active() else IN_PROCESS


def engine_for_files(tasks: Sequence[FileScanTask]) -> Engine:
    """Return the engine that searches or copies files: Spark if it runs already or the files are large, else the in-process engine."""
    return engine_for_bytes(sum(task.file.file_size_in_bytes for task in tasks))


def engine_for_bytes(size: int) -> Engine:
    """Return the engine that reads so many bytes of files: Spark if it runs already or they are many, else the in-process engine."""
    return (_spark() or IN_PROCESS) if size >= WORK_ON_SPARK_BYTES else running_engine()


def _spark() -> Engine | None:
    """Return Spark's engine; None if Icefloe cannot use it."""
    try:
        return engine_named("spark")
    except (EngineError, NotInstalledError) as error:
        LOG.info("Spark is not available; this process does the work: %s", error)
        return None


def _engine_names() -> list[str]:
    return sorted({point.name for point in entry_points(group=ENGINE_GROUP)})


def _loader_for(request: FilesRequest) -> DeleteLoader:
    return DeleteLoader(
        request.target.io,
        schemas=request.schemas or (request.schema, *request.target.older_schemas),
        name_mapping=NAME_MAPPING.read(request.target.properties),
    )


def _all_or_none(target: WriteTarget, count: int, outcomes: Iterable[Rewritten]) -> list[Rewritten]:
    """Return every outcome. After a failure or Ctrl-C, delete the files of those before it."""
    done: list[Rewritten] = []
    try:
        with closing(counted(f"rewrite {target.table_name}", "files", outcomes, count)) as counted_outcomes:
            for outcome in counted_outcomes:
                done.append(outcome)
    except BaseException:
        for file in (file for copy in done for file in copy.added):
            with suppress(StorageError):
                target.io.delete(file.file_path)
        raise
    return done


def _side_by_side(write: Callable[..., Written], request: CompactionRequest | MergeDeletesRequest, description: str) -> list[Written]:
    """Return the outcome of each item, in order. After a failure or Ctrl-C the other items stop at their next batch, and no file remains."""
    deletes, stopped = _loader_for(request), Event()

    def written(number: int, work: Any) -> Written:
        return write(
            request.target,
            work,
            schema=request.schema,
            specs=request.specs,
            partition_id=number,
            task_id=0,
            deletes=deletes,
            is_stopped=stopped.is_set,
        )

    with ThreadPoolExecutor(max(1, min(request.at_once, READ_THREADS)), thread_name_prefix="icefloe-rewrite") as pool:
        futures: list[Future[Written]] = []
        try:
            futures += (pool.submit(written, number, work) for number, work in enumerate(request.work))
            # In the order in which they finish, so that a failure stops the others at once.
            results = (future.result() for future in as_completed(futures))
            with closing(counted(description, "files", results, len(futures))) as outcomes:
                for _ in outcomes:
                    pass
            return [future.result() for future in futures]
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            finished = (future.result() for future in futures if not future.cancelled() and future.exception() is None)
            for file in (file for outcome in finished for file in outcome.added):
                with suppress(StorageError):
                    request.target.io.delete(file.file_path)
            raise


def _footers(locations: Sequence[str], files: FilesToAdd) -> list[FileToAdd]:
    return [files.file_to_add(location) for location in locations]


def arrow_table(rows: Any, schema: Schema | None = None, names: Collection[str] | None = None) -> pa.Table:
    """Return Arrow or pandas rows, or those of a library that exports Arrow, as one table.

    Args:
        rows: The rows.
        schema: The columns of the table that pandas rows are converted for; None to take the types that Arrow infers.
        names: The columns of pandas rows that are needed; None for all.

    Raises:
        InvalidInputError: The rows are of another type.
        SchemaMismatchError: As `arrow_of_frame`.
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
    """Return whether the rows have the Arrow PyCapsule interface, as frames of Polars and relations of DuckDB have; those of Spark are its engine's."""
    return hasattr(type(rows), "__arrow_c_stream__") and not type(rows).__module__.startswith("pyspark.")


def _is_frame(rows: object) -> bool:
    """Return whether the rows are a pandas DataFrame.

    pandas is loaded already if they are; importing it for this test would make every start slower by a third of a second.
    """
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(rows, pandas.DataFrame)


def _read_ahead(request: ScanRequest) -> Iterator[pa.RecordBatch]:
    deletes = DeleteLoader(request.io, schemas=request.schemas, name_mapping=request.name_mapping)

    def read_file(task: FileScanTask) -> list[pa.RecordBatch]:
        return list(_read_task(request, task, deletes))

    tasks = iter(request.plan.tasks())
    if request.limit is not None:
        # A limit is often reached by the first file; reading ahead would read files that are not needed.
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


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    remaining = limit
    for batch in batches:
        if remaining <= 0:
            return
        yield batch.slice(0, remaining)
        remaining -= batch.num_rows
