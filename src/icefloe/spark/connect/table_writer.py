"""Writing by the data source `icefloe`: tasks write data files of a table, and Spark's driver commits them together.

Spec: Writing Data Files; Snapshots.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from icefloe.errors import IcefloeError, InvalidInputError, StorageError, UnsupportedFeatureError
from icefloe.operations.rows.write_context import check_branch, write_target
from icefloe.spark.connect.connect_options import AS_OF, SNAPSHOT_ID, TAG, RegisteredCatalogs, SourceOptions, is_location, load_table
from icefloe.spark.connect.connect_writer import NoFinishedFiles
from icefloe.spark.write.data_file_job import TaskFiles, TaskWriter
from icefloe.spark.write.failed_attempt_cleanup import check_files_exist, delete_files_of_operation, delete_lost_attempts
from icefloe.spark.write.formatted_rows import WrittenFiles
from icefloe.spark.write.schema_check import check_fits
from icefloe.spark.write.write_options import write_options
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.ports import FileIO
from icefloe.table.table import Table

# Options of writes that distribute, sort or check rows, or change the table's columns.
_UNSUPPORTED_OPTIONS = frozenset(
    {"distribution-mode", "advisory-partition-size", "use-table-distribution-and-ordering", "output-sort-order-id"}
    | {"merge-schema", "mergeschema", "check-ordering", "check-nullability"}
)


@dataclass
class FilesMessage(WriterCommitMessage):
    """The message of a task to the driver: the files that it wrote; none if it had no rows."""

    written: tuple[TaskFiles, ...]


class TableWriter(DataSourceArrowWriter):
    """The writer of the data source: it writes files in Spark's tasks, and commits them on the driver.

    Raises:
        SchemaMismatchError: The columns do not match the table; raised before a row is read.
        InvalidInputError, NoSuchSnapshotError: The options cannot be applied to a write.
    """

    def __init__(self, options: SourceOptions, registered: RegisteredCatalogs, rows: StructType, *, overwrite: bool) -> None:
        check_options(options, overwrite=overwrite)
        self._options, self._registered, self._overwrite = options, registered, overwrite
        table = load_writable_table(options, registered)
        check_branch(table.handle, table.metadata, self._branch)
        check_fits(rows, table.schema())
        self._io: FileIO = table.io
        form_options = write_options(options.properties, {}, table.metadata, table.full_name)
        self._isolation: dict[str, Any] = {
            "isolation_level": form_options.isolation_level,
            "validate_from_snapshot_id": form_options.validate_from,
        }
        self._task = TaskWriter(form_options.form.of(write_target(table.handle, table.metadata)), NoFinishedFiles())  # type: ignore[arg-type]  # only `add` is called

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task; a task that fails deletes its own files."""
        task_files = self._task.files_of(iterator)
        return FilesMessage(() if task_files is None else (task_files,))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit all files in one snapshot.

        Raises:
            StorageError: Spark's driver does not find a local file of a task.
            IcefloeError: The errors of `Table.append`, `Table.overwrite` or `Table.dynamic_partition_overwrite`.
        """
        written = [task_files for message in messages if isinstance(message, FilesMessage) for task_files in message.written]
        files = WrittenFiles(tuple(file for task_files in written for file in task_files.files))
        attempts = (task_files.attempt for task_files in written)
        delete_lost_attempts(None, self._task.target, {file.file_path for file in files.files}, attempts)
        table = self._table_to_commit_to(files.files)
        form: dict[str, Any] = {"snapshot_properties": self._options.snapshot_properties, "branch": self._branch}
        if not self._overwrite:
            table.append(files, **form)
        elif self._options.overwrite_mode == "dynamic":
            table.dynamic_partition_overwrite(files, **form, **self._isolation)
        else:
            table.overwrite(files, self._options.where or AlwaysTrue(), **form, **self._isolation)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the files of the tasks, unless all tasks succeeded: then the commit has begun, and decides which files are deleted."""
        if all(isinstance(message, FilesMessage) for message in messages):
            return
        delete_files_of_operation(self._task.target)

    def _table_to_commit_to(self, files: Sequence[DataFile]) -> Table:
        try:
            check_files_exist(self._task.target, (file.file_path for file in files))
            table = load_writable_table(self._options, self._registered)
            check_branch(table.handle, table.metadata, self._branch)
        except IcefloeError:
            self._delete(files)  # the commit has not begun, so that no metadata refers to the files
            raise
        return table

    def _delete(self, files: Iterable[DataFile]) -> None:
        for file in files:
            with suppress(StorageError):
                self._io.delete(file.file_path)

    @property
    def _branch(self) -> str:
        return self._options.branch or MAIN


def check_options(options: SourceOptions, *, overwrite: bool) -> None:
    """Raise `InvalidInputError` or `UnsupportedFeatureError` for options that a write by the data source does not have."""
    unsupported = sorted(set(options.properties) & _UNSUPPORTED_OPTIONS)
    if unsupported:
        raise UnsupportedFeatureError(
            f"{' and '.join(unsupported)}: the data source writes rows as they are, in the columns of the table",
            table=options.table or options.path,
            next_step="write with df.writeTo(...) to a table of an attached catalog",
        )
    read_options = {
        SNAPSHOT_ID: options.snapshot_id,
        TAG: options.tag,
        AS_OF: options.as_of_ms,
        "columns": None if options.columns == ("*",) else options.columns,
    }
    refused = [name for name, value in read_options.items() if value is not None]
    if options.where is not None and (not overwrite or options.overwrite_mode == "dynamic"):
        refused.append("where")
    if refused:
        raise InvalidInputError(
            f"a write does not have the option{'s' if len(refused) > 1 else ''} {' and '.join(refused)}",
            next_step="leave them out; a write takes branch, and with mode overwrite where, the filter of the rows that are replaced",
        )


def load_writable_table(options: SourceOptions, registered: RegisteredCatalogs) -> Table:
    """Load the table that the options name from its catalog. Raises `InvalidInputError` if they do not name a catalog."""
    if options.path is not None and is_location(options.path):
        raise InvalidInputError(
            f"{options.path} is the location of a table, and a write needs its catalog",
            next_step='name the table in its catalog: option("catalog", NAME), option("table", "namespace.table")',
        )
    table = load_table(options, registered)
    if not isinstance(table, Table):
        raise InvalidInputError("a table without its catalog is read-only", table=options.table, next_step="name its catalog")
    return table
