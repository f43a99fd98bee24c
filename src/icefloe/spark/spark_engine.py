"""`SparkEngine`: Spark as an engine of tables, found through the entry point group `icefloe.engines`. Creating the object starts nothing.

Reading is in `scan/`, writing in `write/`, row-level operations in `row_level/`, and the search for orphan files in `maintenance/`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import UnsupportedFeatureError
from icefloe.io.locations import scheme_of
from icefloe.operations.available_engines import IN_PROCESS
from icefloe.operations.engine import ScanRequest, Statement, UpsertedRows, UpsertRequest, UpsertSource
from icefloe.operations.orphans.orphan_search import OrphanRequest
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.connect.connect_writer import write_connect_rows
from icefloe.spark.jobs.map_job import map_in_tasks
from icefloe.spark.maintenance.orphan_files_job import files_of_view, find_orphans
from icefloe.spark.row_level.upsert_job import upsert_rows
from icefloe.spark.row_level.upsert_rows_source import connect_source, spark_source
from icefloe.spark.runtime.start_session import WITHOUT_JVM, active_session, session, uses_connect
from icefloe.spark.scan.read_strategy import read
from icefloe.spark.table_statements import run_statement
from icefloe.spark.write.data_file_job import write_rows
from icefloe.spark.write.file_job import write_in_tasks
from icefloe.spark.write.formatted_rows import RowsInForm, WriteForm, WrittenFiles
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.schema.schema import Schema


class SparkEngine:
    """The engine that reads and writes Spark DataFrames, and runs its work in Spark's tasks. See the protocol `Engine`."""

    name = "spark"

    def environment(self) -> Mapping[str, str]:
        """Return the entries for snapshot summaries: the engine's name, Spark's version, the application's id and name; without a session only two."""
        running = active_session()
        if running is None:
            return {"engine-name": "spark", "engine-version": pyspark.__version__}
        context = running.sparkContext
        return {
            "engine-name": "spark",
            "engine-version": running.version,
            "app-id": context.applicationId,
            "app-name": context.appName or "",
        }

    def setting(self, name: str) -> str | None:
        """Return a setting of the active session, also of Spark Connect; None if it is not set, or there is no session."""
        running = active_session() or SparkSession.getActiveSession()
        value = None if running is None else running.conf.get(name, None)
        return None if value is None else str(value)

    def accepts(self, rows: object) -> bool:
        """Return whether the rows are for this engine: a Spark DataFrame, also of Spark Connect, with or without write options; or files that Spark wrote."""
        return isinstance(rows, DataFrame | RowsInForm | WrittenFiles)

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write a DataFrame as data files.

        Raises:
            UnsupportedFeatureError: The table's files are in memory.
            IcefloeError: Errors of `write_rows` and `write_connect_rows`.
        """
        if isinstance(rows, WrittenFiles):
            return list(rows.files)
        if isinstance(rows, RowsInForm):
            rows, target = rows.rows, rows.form.of(target)
        _check_reachable(target.table_name, target.data_location)
        return write_rows(rows, target) if has_jvm(rows.sparkSession) else write_connect_rows(rows, target)

    def upsert(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Return the checked source of an upsert; see `Engine.upsert`. Rows of Spark Connect are joined in this process. Raises as `spark_source`."""
        if isinstance(rows, RowsInForm):
            return _in_form(spark_source(rows.rows, schema, key_ids, updates=updates, join=_join), rows.form)
        if not has_jvm(rows.sparkSession):
            return connect_source(rows, schema, key_ids, updates=updates)
        return spark_source(rows, schema, key_ids, updates=updates, join=_join)

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """Run a SQL statement on a table; see `Engine.run_statement`. Raises as `Table.update`, and `UnsupportedFeatureError` if the source is of Connect."""
        if statement.source is not None:
            _check_classic(statement.source)
        return run_statement(table, statement)

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        description: str,
        *,
        tasks: int | None = None,
        threads: int = 1,
        target: WriteTarget | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Iterator[Any]:
        """Apply a function to items in Spark's tasks, and yield the results; see `Engine.map`. A client of Connect applies it itself.

        Raises:
            UnsupportedFeatureError: The files that the function writes are in memory.
            IcefloeError: Errors of `map_in_tasks` and `write_in_tasks`.
        """
        if _is_client():
            return IN_PROCESS.map(function, items, description, threads=threads, target=target, combine=combine)
        if target is None:
            return map_in_tasks(session(), description, function, items, tasks, combine)
        _check_reachable(target.table_name, target.data_location)
        return iter(write_in_tasks(session(), description, function, items, target))

    def orphans(self, request: OrphanRequest) -> Generator[Any, None, None]:
        """Find orphan files by Spark's tasks; see `Engine.orphans`.

        This process searches if Spark's tasks cannot: for a client of Spark Connect, a list of files, memory, or local files if Spark runs on a cluster.
        """
        if request.view is not None and not has_jvm(request.view.sparkSession):
            return IN_PROCESS.orphans(replace(request, view=None, files=files_of_view(request)))
        if _is_client() or request.files is not None or scheme_of(request.folder) == "memory" or not _sees_files(session(), request.folder):
            return IN_PROCESS.orphans(request if request.view is None else replace(request, view=None, files=files_of_view(request)))
        return find_orphans(session(), request)

    def read(self, request: ScanRequest) -> DataFrame:
        """Return the rows as a lazy DataFrame of the active session, or of a new session if none is active."""
        return read(session(), request)


def _join(request: UpsertRequest) -> UpsertedRows:
    """Run an upsert by `upsert_rows`. Raises its errors, and `UnsupportedFeatureError` for a table in memory."""
    _check_reachable(request.target.table_name, request.target.data_location)
    return upsert_rows(request)


def _in_form(source: UpsertSource, form: WriteForm) -> UpsertSource:
    """Return the source of an upsert whose new files are in a form."""
    here = None if source.here is None else _in_form(source.here, form)
    return replace(source, join=lambda request: source.join(replace(request, target=form.of(request.target))), here=here)


def _is_client() -> bool:
    """Return True if this process is a client of Spark Connect, which has no session that runs jobs of Icefloe."""
    return uses_connect() and active_session() is None


def _sees_files(spark: SparkSession, location: str) -> bool:
    """Return whether Spark's tasks see the same files at a location as this process; for local files, only if Spark runs on this machine."""
    return scheme_of(location) != "file" or str(spark.sparkContext.master).startswith("local")


def _check_classic(rows: Any) -> None:
    if not has_jvm(rows.sparkSession):
        raise UnsupportedFeatureError(
            "a DataFrame of Spark Connect cannot be the source of MERGE", next_step=f"use table.upsert(df); {WITHOUT_JVM}"
        )


def _check_reachable(table_name: str, location: str) -> None:
    """Raise `UnsupportedFeatureError` for a location in memory, because files in the memory of a task are lost when the task ends."""
    if scheme_of(location) == "memory":
        raise UnsupportedFeatureError(
            f"Spark's tasks cannot reach {location}", table=table_name, next_step="keep the table in files, or write it from Arrow"
        )
