"""`StreamTableWriter`: writes the epochs of a stream to a table through the Python data source, each exactly once. An epoch is a micro-batch.

Spark creates a writer for each epoch and sends it to the tasks, and then another one in a new Python process, which commits the epoch or cleans up after it. So
that the second has what it needs of the first, the messages of the tasks contain it, also the id of the query: Spark passes it to tasks alone.
`commit/stream_epoch.py` decides whether an epoch is committed already. Spec: Writing Data Files; Snapshots.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from icefloe.commit.stream_epoch import StreamEpoch
from icefloe.datafile.write_target import WriteTarget
from icefloe.errors import IcefloeError, InvalidInputError, StorageError, UnsupportedFeatureError
from icefloe.operations.rows.write_context import check_branch, write_target
from icefloe.operations.staging import branch_named, staging_of_write
from icefloe.spark.connect.connect_options import OVERWRITE_MODE, RegisteredCatalogs, SourceOptions, parse_options
from icefloe.spark.connect.connect_writer import NoFinishedFiles
from icefloe.spark.connect.table_writer import check_options, load_writable_table
from icefloe.spark.write.data_file_job import TaskFiles, TaskWriter
from icefloe.spark.write.failed_attempt_cleanup import check_files_exist, delete_files_of_operation, delete_lost_attempts
from icefloe.spark.write.formatted_rows import WrittenFiles
from icefloe.spark.write.schema_check import check_fits
from icefloe.spark.write.write_options import write_options
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.epoch_changes import EpochChanges, OutputMode
from icefloe.table.table import Table

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # before Spark 4.1, which passes rows
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]

# Spark's local property of tasks with the id of the query. The id is part of the checkpoint, so that it is the same after a restart.
QUERY_PROPERTY = "sql.streaming.queryId"


@dataclass
class EpochMessage(WriterCommitMessage):
    """The message of a task to the driver: the query, the write operation of which its files have the id in their names, and the files; none without rows."""

    query_id: str
    operation_uuid: str
    written: tuple[TaskFiles, ...]


class StreamTableWriter(DataSourceStreamArrowWriter):
    """The writer of an epoch: it writes files in Spark's tasks, and commits them on the driver.

    Raises:
        SchemaMismatchError: The columns do not match the table; raised before a row is read.
        InvalidInputError, NoSuchSnapshotError: The options cannot be applied to a stream.
    """

    def __init__(self, options: SourceOptions, registered: RegisteredCatalogs, rows: StructType, *, overwrite: bool) -> None:
        _check_options(options, overwrite=overwrite)
        table = load_writable_table(options, registered)
        check_branch(table.handle, table.metadata, options.branch or MAIN)
        check_fits(rows, table.schema())
        parsed = write_options(options.properties, {}, table.metadata, table.full_name)
        if parsed.key_columns is not None:
            raise UnsupportedFeatureError(
                "key-columns: Spark has no output mode update for Python data sources",
                table=table.full_name,
                next_step='write with foreachBatch and table.upsert(...); or .outputMode("update") on a server of icefloe connect-server',
            )
        self._table: Table | None = table
        self._options: SourceOptions | None = options
        self._mode = OutputMode.COMPLETE if overwrite else OutputMode.APPEND
        self._isolation: dict[str, Any] = {"isolation_level": parsed.isolation_level, "validate_from_snapshot_id": parsed.validate_from}
        self._task = TaskWriter(parsed.form.of(write_target(table.handle, table.metadata)), NoFinishedFiles())  # type: ignore[arg-type]  # only `add` is called

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task; a task that fails deletes its own files.

        Raises:
            UnsupportedFeatureError: Spark has not passed the id of the query.
        """
        query_id = query_of_task()
        task_files = self._task.files_of(iterator)
        return EpochMessage(query_id, self._task.target.operation_uuid, () if task_files is None else (task_files,))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 Spark's name
        """Commit the files of an epoch in one snapshot, unless the table has the epoch already: then delete them.

        Raises:
            StorageError: Spark's driver does not find a local file of a task.
            InvalidInputError: A file is not in the folder of the table's data files, or the tasks are of several queries.
            IcefloeError: The errors of `Table.append` or `Table.overwrite`, and of `is_committed`.
        """
        table, options = self._table_and_options()
        sent = [message for message in messages if isinstance(message, EpochMessage)]
        written = [task_files for message in sent for task_files in message.written]
        files = [file for task_files in written for file in task_files.files]
        queries = sorted({message.query_id for message in sent})
        _check_files(self._task.target, files)
        for target in self._targets(sent):
            delete_lost_attempts(None, target, {file.file_path for file in files}, (task_files.attempt for task_files in written))
        try:
            if len(queries) != 1:
                raise InvalidInputError(f"an epoch is of one query, and its tasks have sent {len(queries)}: {', '.join(queries)}")
            check_files_exist(self._task.target, (file.file_path for file in files))
            branch, properties = options.branch or MAIN, options.snapshot_properties
            with branch_named(is_named=options.branch is not None):
                staging = staging_of_write(table.metadata, properties, branch, table.full_name)
                epoch = StreamEpoch(query_id=queries[0], epoch=batchId, branch=staging.branch or branch)
        except IcefloeError:
            _delete(table, files)  # the commit has not begun, so that no metadata refers to the files
            raise
        changes = EpochChanges(table, epoch, self._mode, searches_history=True)
        summary, rows = {**properties, **epoch.summary}, WrittenFiles(tuple(files))
        with branch_named(is_named=options.branch is not None):
            if self._mode is OutputMode.APPEND:
                changes.append(rows, summary, branch)
            else:
                changes.overwrite(rows, AlwaysTrue(), summary, branch=branch, **self._isolation)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 Spark's signature
        """Delete the files of the tasks, unless all tasks succeeded: then the commit has begun, and decides which files are deleted."""
        sent = [message for message in messages if isinstance(message, EpochMessage)]
        if len(sent) < len(messages):
            for target in self._targets(sent):
                delete_files_of_operation(target)

    def _targets(self, messages: Sequence[EpochMessage]) -> list[WriteTarget]:
        """Return the targets of the writers that were sent to the tasks, which have other ids than this one."""
        uuids = sorted({message.operation_uuid for message in messages})
        return [replace(self._task.target, operation_uuid=operation_uuid) for operation_uuid in uuids]

    def _table_and_options(self) -> tuple[Table, SourceOptions]:
        if self._table is None or self._options is None:
            raise InvalidInputError("a writer can commit only in the process that created it")
        return self._table, self._options

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_table": None, "_options": None}


def stream_writer(options: Mapping[str, str], registered: RegisteredCatalogs, rows: StructType, *, overwrite: bool) -> StreamTableWriter:
    """Return a writer for an epoch of a stream.

    Args:
        options: The options of the write.
        registered: Catalogs of the session.
        rows: The columns of the rows.
        overwrite: Whether the rows replace all rows of the table, in the output mode `complete`.

    Raises:
        UnsupportedFeatureError: Spark is older than 4.1.
        SchemaMismatchError, InvalidInputError, NoSuchSnapshotError: As for `StreamTableWriter`.
    """
    if DataSourceStreamArrowWriter.__name__ != "DataSourceStreamArrowWriter":
        raise UnsupportedFeatureError(
            "Spark passes the rows of a stream to Python data sources as Arrow since 4.1",
            next_step="use Spark 4.1 or later, a server of icefloe connect-server, or foreachBatch with table.append(...)",
        )
    return StreamTableWriter(parse_options(options), registered, rows, overwrite=overwrite)


def query_of_task() -> str:
    """Return the id of the streaming query to which the running task belongs. Raises `UnsupportedFeatureError` if Spark does not pass it."""
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if not query_id:
        raise UnsupportedFeatureError(
            f"this Spark does not pass the id of the query to tasks (the local property {QUERY_PROPERTY}), so that an epoch that comes again is not recognized",
            next_step="write with foreachBatch and table.append(...)",
        )
    return query_id


def _check_options(options: SourceOptions, *, overwrite: bool) -> None:
    refused = ["where"] if options.where is not None else []
    if options.overwrite_mode != "static":
        refused.append(OVERWRITE_MODE)
    if refused:
        raise InvalidInputError(
            f"a stream does not have the option{'s' if len(refused) > 1 else ''} {' and '.join(refused)}",
            next_step='leave them out: .outputMode("append") adds the rows of an epoch, and .outputMode("complete") replaces all rows by them',
        )
    check_options(options, overwrite=overwrite)


def _check_files(target: WriteTarget, files: Sequence[DataFile]) -> None:
    """Raise `InvalidInputError` if a file is not in the folder of the table's data files."""
    for file in files:
        if not file.file_path.startswith(f"{target.data_location}/"):
            raise InvalidInputError(
                f"a task has written {file.file_path}, which is not in the folder of the data files of {target.table_name}",
                table=target.table_name,
                path=file.file_path,
                next_step="the location was changed while the epoch was written; start the query again",
            )


def _delete(table: Table, files: Sequence[DataFile]) -> None:
    for file in files:
        with suppress(StorageError):
            table.io.delete(file.file_path)
