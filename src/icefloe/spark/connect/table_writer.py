"""Rows that come through the data source `icefloe` become data files of a table, and one commit on Spark's driver.

Spec: Writing Data Files; Snapshots.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from icefloe.errors import IcefloeError, InvalidInputError, StorageError, UnsupportedFeatureError
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.ports import FileIO
from icefloe.spark.connect.connect_options import AS_OF, SNAPSHOT_ID, TAG, Asked, Known, is_location, opened
from icefloe.spark.connect.connect_writer import Nowhere
from icefloe.spark.write.data_file_job import TaskFiles, TaskWriter
from icefloe.spark.write.failed_attempt_cleanup import delete_files_of_operation, delete_lost_attempts
from icefloe.spark.write.schema_check import check_fits
from icefloe.spark.write.write_options import write_options
from icefloe.spark.write.written_files import WrittenFiles
from icefloe.table.rows.write_context import check_branch, write_target
from icefloe.table.table import Table

# Options of writes that spread, sort or check rows, or change the table's columns.
_OF_OTHER_WRITES = frozenset(
    {"distribution-mode", "advisory-partition-size", "use-table-distribution-and-ordering", "output-sort-order-id"}
    | {"merge-schema", "mergeschema", "check-ordering", "check-nullability"}
)


@dataclass
class FilesMessage(WriterCommitMessage):
    """What one task wrote; nothing where it had no rows."""

    written: tuple[TaskFiles, ...]


class TableWriter(DataSourceArrowWriter):
    """Writes in tasks, commits on the driver. Made on the driver, before any row is looked at.

    Raises:
        SchemaMismatchError: the columns do not fit the table.
        InvalidInputError, NoSuchSnapshotError: the options ask for what cannot be written.
    """

    def __init__(self, asked: Asked, known: Known, rows: StructType, *, overwrite: bool) -> None:
        _check(asked, overwrite=overwrite)
        self._asked, self._known, self._overwrite = asked, known, overwrite
        table = _writable(asked, known)
        check_branch(table.handle, table.metadata, self._branch)
        check_fits(rows, table.schema())
        self._io: FileIO = table.io
        options = write_options(asked.properties, {}, table.metadata, table.full_name)
        self._isolation: dict[str, Any] = {"isolation_level": options.isolation_level, "validate_from_snapshot_id": options.validate_from}
        self._task = TaskWriter(options.form.of(write_target(table.handle, table.metadata)), Nowhere())  # type: ignore[arg-type]  # all that is asked of it is `add`

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in tasks. A task that fails deletes its own files."""
        found = self._task.files_of(iterator)
        return FilesMessage(() if found is None else (found,))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """One snapshot of all files. Raises as `Table.append`, `Table.overwrite`, `Table.dynamic_partition_overwrite`."""
        written = [one for message in messages if isinstance(message, FilesMessage) for one in message.written]
        files = WrittenFiles(tuple(file for one in written for file in one.files))
        delete_lost_attempts(None, self._task.target, {file.file_path for file in files.files}, (one.attempt for one in written))
        table = self._table_to_commit_to(files.files)
        form: dict[str, Any] = {"snapshot_properties": self._asked.snapshot_properties, "branch": self._branch}
        if not self._overwrite:
            table.append(files, **form)
        elif self._asked.overwrite_mode == "dynamic":
            table.dynamic_partition_overwrite(files, **form, **self._isolation)
        else:
            table.overwrite(files, self._asked.where or AlwaysTrue(), **form, **self._isolation)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes what tasks wrote, unless all of them ended well: then the commit was begun, which deletes what may be deleted itself."""
        if all(isinstance(message, FilesMessage) for message in messages):
            return
        delete_files_of_operation(self._task.target)

    def _table_to_commit_to(self, files: Iterable[DataFile]) -> Table:
        try:
            table = _writable(self._asked, self._known)
            check_branch(table.handle, table.metadata, self._branch)
        except IcefloeError:
            self._delete(files)  # no commit was begun, so no metadata names them
            raise
        return table

    def _delete(self, files: Iterable[DataFile]) -> None:
        for file in files:
            with suppress(StorageError):
                self._io.delete(file.file_path)

    @property
    def _branch(self) -> str:
        return self._asked.branch or MAIN


def _check(asked: Asked, *, overwrite: bool) -> None:
    lost = sorted(set(asked.properties) & _OF_OTHER_WRITES)
    if lost:
        raise UnsupportedFeatureError(
            f"{' and '.join(lost)}: rows that the data source writes come as they are, in columns that the table has",
            table=asked.table or asked.path,
            next_step="write with df.writeTo(...) to a table of an attached catalog",
        )
    given = {
        SNAPSHOT_ID: asked.snapshot_id,
        TAG: asked.tag,
        AS_OF: asked.as_of_ms,
        "columns": None if asked.columns == ("*",) else asked.columns,
    }
    wrong = [name for name, value in given.items() if value is not None]
    if asked.where is not None and (not overwrite or asked.overwrite_mode == "dynamic"):
        wrong.append("where")
    if wrong:
        raise InvalidInputError(
            f"{' and '.join(wrong)} of a write mean nothing",
            next_step="leave them out; a write takes branch, and where with mode overwrite says which rows are replaced",
        )


def _writable(asked: Asked, known: Known) -> Table:
    if asked.path is not None and is_location(asked.path):
        raise InvalidInputError(
            f"{asked.path} is the location of a table, and a write needs its catalog",
            next_step='name the table in its catalog: option("catalog", NAME), option("table", "namespace.table")',
        )
    found = opened(asked, known)
    if not isinstance(found, Table):
        raise InvalidInputError("a table without its catalog takes no writes", table=asked.table, next_step="name its catalog")
    return found
