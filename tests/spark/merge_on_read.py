"""Delete files and foreign data files committed to a table, for tests of reading them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.commit.attempt import CommitContext
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.row_delta import RowDelta
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_equality_deletes, write_position_deletes, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.operations.rows.table_writes import write_target
from icefloe.operations.table_handle import metadata_folder
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.table import Table


def delete_positions(table: Table, positions: Mapping[str, Sequence[int] | NDArray[np.int64]]) -> None:
    """Delete rows by the location of their data file: with deletion vectors in version 3, with position delete files before."""
    rows_to_delete = [
        RowsToDelete(file=task.file, positions=np.asarray(positions[task.file.file_path], np.int64), delete_files=task.delete_files)
        for task in table.scan().plan_files()
        if len(positions.get(task.file.file_path, ()))
    ]
    target = write_target(table.handle, table.metadata)
    if table.format_version >= 3:
        deletes = DeleteLoader(table.io, schemas=table.metadata.schemas)
        written = write_vectors(target, rows_to_delete, deletes=deletes, partition_id=0, task_id=0)
    else:
        written = write_position_deletes(target, rows_to_delete, specs=table.specs(), partition_id=0, task_id=0, file_scoped=False)
    _commit(table, added_deletes=written.added, removed_deletes=written.superseded)


def delete_keys(table: Table, rows: Any, columns: Sequence[str], partition: tuple[Any, ...] = ()) -> None:
    """Delete by an equality delete file all rows so far that equal one of `rows` in the columns, in one partition of the newest spec."""
    ids = [field_id for name in columns if (field_id := table.schema().find_id(name)) is not None]
    batches = pa.Table.to_batches(rows)
    target = write_target(table.handle, table.metadata)
    written = write_equality_deletes(target, batches, ids, partition=partition, partition_id=0, task_id=0)
    _commit(table, added_deletes=written.added)


def delete_keys_everywhere(table: Table, rows: Any, columns: Sequence[str]) -> None:
    """Delete by keys in every partition that has data files under the newest spec."""
    for partition in {task.file.partition for task in table.scan().plan_files() if task.spec_id == table.spec().spec_id}:
        delete_keys(table, rows, columns, partition)


def add_file(table: Table, path: str, rows: int, size: int) -> None:
    """Add a Parquet file of another writer to an unpartitioned table."""
    _commit(table, added=[DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=rows, file_size_in_bytes=size)])


def add_equality_deletes(table: Table, path: str, rows: int, size: int, equality_ids: Sequence[int]) -> None:
    """Add a Parquet file with keys of another writer, by which rows so far are deleted, to an unpartitioned table."""
    file = DataFile(
        content=FileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        record_count=rows,
        file_size_in_bytes=size,
        equality_ids=tuple(equality_ids),
    )
    _commit(table, added_deletes=[file])


def _commit(table: Table, **changes: Any) -> None:
    context = CommitContext(
        snapshot_id=uuid.uuid4().int >> 65, commit_uuid=str(uuid.uuid4()), metadata_location=metadata_folder(table.metadata)
    )
    table.apply(RowDelta(**changes, context=context, numbers=ManifestNumbers(context)))
