"""`SparkEngine`: Spark as an engine of tables. Found through the entry point `icefloe.engines`; making one starts nothing.

Reading is `scan.py`, writing `write.py`, copy-on-write `rewrite.py`, finding rows for merge-on-read `positions.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyspark
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from icefloe.datafile.copy_data_file import RewrittenFile
from icefloe.datafile.copy_file_group import RewrittenGroup
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FileToAdd
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import UnsupportedFeatureError
from icefloe.io.locations import scheme_of
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.bridge.gateway import has_jvm
from icefloe.spark.connect.connect_writer import write_connect_rows
from icefloe.spark.maintenance.unreachable_files_job import unreachable
from icefloe.spark.row_level.copy_on_write_job import rewrite_files, rewrite_groups
from icefloe.spark.row_level.position_job import find_positions
from icefloe.spark.row_level.upsert_job import upsert_rows
from icefloe.spark.row_level.upsert_rows_source import spark_source
from icefloe.spark.runtime.start_session import active_session, session
from icefloe.spark.scan.planned_rows import read
from icefloe.spark.table_statements import run_statement
from icefloe.spark.write.added_files import files_to_add
from icefloe.spark.write.data_file_job import write_rows
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.written_files import WrittenFiles
from icefloe.table.engine import (
    PositionsRequest,
    RewriteGroupsRequest,
    RewriteRequest,
    ScanRequest,
    Statement,
    UnreachableRequest,
    UpsertedRows,
    UpsertRequest,
    UpsertSource,
)
from icefloe.table.unreachable_files import Unreachable
from icefloe.table.write_result import WriteResult


class SparkEngine:
    """Rows as Spark DataFrames; the work is done by Spark's tasks."""

    name = "spark"

    def environment(self) -> Mapping[str, str]:
        """Of the running session; of PySpark alone where none runs, and then without the application's id."""
        running = active_session()
        if running is None:
            return {"engine-name": "spark", "engine-version": pyspark.__version__}
        return {"engine-name": "spark", "engine-version": running.version, "app-id": running.sparkContext.applicationId}

    def setting(self, name: str) -> str | None:
        """A setting of the active session, of Spark Connect too; None where it is not set, or no session runs."""
        running = active_session() or SparkSession.getActiveSession()
        found = None if running is None else running.conf.get(name, None)
        return None if found is None else str(found)

    def accepts(self, rows: object) -> bool:
        """Whether it is a Spark DataFrame, of Spark Connect too, or files that Spark's tasks wrote already."""
        return isinstance(rows, DataFrame | RowsInForm | WrittenFiles)

    def is_active(self) -> bool:
        """Whether a classic session runs in this process."""
        return active_session() is not None

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Writes a DataFrame as data files. Raises as `write_rows` and `write_connect_rows`, and `UnsupportedFeatureError` for locations in memory."""
        if isinstance(rows, WrittenFiles):
            return list(rows.files)
        if isinstance(rows, RowsInForm):
            rows, target = rows.rows, rows.form.of(target)
        _check_reachable(target.table_name, target.data_location)
        return write_rows(rows, target) if has_jvm(rows.sparkSession) else write_connect_rows(rows, target)

    def rewrite(self, request: RewriteRequest) -> list[RewrittenFile]:
        """Copies each task's file without the deleted rows, one Spark task a file; results are in the order of the tasks."""
        _check_reachable(request.target.table_name, request.target.data_location)
        return rewrite_files(session(), request)

    def rewrite_groups(self, request: RewriteGroupsRequest) -> list[RewrittenGroup]:
        """See `Engine.rewrite_groups`, one Spark task a group. Raises as `rewrite_groups`, and `UnsupportedFeatureError` for locations in memory."""
        _check_reachable(request.target.table_name, request.target.data_location)
        return rewrite_groups(session(), request)

    def positions(self, request: PositionsRequest) -> list[NDArray[np.int64]]:
        """Where in each task's file the rows lie that match and are not deleted yet, one Spark task a file; in the order of the tasks."""
        return find_positions(session(), request)

    def files_to_add(self, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str) -> list[FileToAdd]:
        """Reads the footers of files that another writer made, many in each Spark task; in the order of the locations."""
        return files_to_add(session(), locations, request, spec, table_name)

    def upsert_source(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """See `Engine.upsert_source`. Raises as `spark_source`, and `UnsupportedFeatureError` for Spark Connect."""
        _check_classic(rows)
        return spark_source(rows, schema, key_ids, updates=updates)

    def upsert(self, request: UpsertRequest) -> UpsertedRows:
        """See `Engine.upsert`: one join, whose tasks write. Raises as `upsert_rows`, and `UnsupportedFeatureError` for locations in memory."""
        _check_reachable(request.target.table_name, request.target.data_location)
        return upsert_rows(request)

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """See `Engine.run_statement`. Raises as `Table.update`, and `UnsupportedFeatureError` for rows of Spark Connect and locations in memory."""
        if statement.source is not None:
            _check_classic(statement.source)
        return run_statement(table, statement)

    def unreachable(self, request: UnreachableRequest) -> Unreachable:
        """What the manifests that go name and kept ones do not: read by Spark's tasks, and joined."""
        return unreachable(session(), request)

    def read(self, request: ScanRequest) -> DataFrame:
        """The rows as a lazy DataFrame of the active session, or of a new one where none is active."""
        return read(session(), request)


def _check_classic(rows: Any) -> None:
    if not has_jvm(rows.sparkSession):
        raise UnsupportedFeatureError(
            "a DataFrame of Spark Connect cannot be upserted", next_step="use a classic session, or pass df.toArrow()"
        )


def _check_reachable(table_name: str, location: str) -> None:
    """What a task writes to its own memory is gone when it ends."""
    if scheme_of(location) == "memory":
        raise UnsupportedFeatureError(
            f"Spark's tasks cannot reach {location}", table=table_name, next_step="keep the table in files, or write it from Arrow"
        )
