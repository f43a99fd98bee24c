"""The footers of data files, read by this process or by Spark's tasks: which columns each file has, by field id, and which columns are unsigned integers.

`read_strategy.py` needs them if there are column defaults, a name mapping, or structs that old versions of Spark read wrongly.
Spec: Column Projection; Default values.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from icefloe.datafile.field_ids import has_ids, id_of, inner_fields
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.map_job import map_in_tasks
from icefloe.spec.ports import FileIO

# The maximum number of footers that the driver reads in threads; if there are more, Spark's tasks read them.
MOST_ON_DRIVER = 256
FOOTER_THREADS = 8
# The field ids of a file's columns at all levels; None for a file without field ids.
FieldIds = frozenset[int] | None


class StoredFields(NamedTuple):
    """The columns of a data file: their field ids (None if the file has no ids), and by field id the width in bits of each unsigned integer column."""

    ids: FieldIds
    unsigned: dict[int, int]


def stored_fields(spark: SparkSession, io: FileIO, tasks: Sequence[FileScanTask], table_name: str) -> list[StoredFields]:
    """Read the field ids and the unsigned integer columns from the footer of each task's file. The result is in the order of the tasks.

    Args:
        spark: A classic session; Spark's tasks read the footers if there are more than `MOST_ON_DRIVER` files.
        io: The table's storage.
        tasks: The scan tasks.
        table_name: The name of the table, for the description of the job.

    Raises:
        NoSuchFileError, DataFileFormatError: A file is missing or damaged.
        EngineError: Spark's job failed for another reason.
    """
    if len(tasks) <= MOST_ON_DRIVER:
        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
            return list(pool.map(partial(fields_in, io), tasks))
    return list(map_in_tasks(spark, f"read footers of {table_name}", partial(fields_in, io), tasks, len(tasks) // FOOTER_THREADS))


def fields_in(io: FileIO, task: FileScanTask) -> StoredFields:
    """Read the field ids and the unsigned integer columns from the footer of a scan task's file. Raises the errors of `opened_stored_file`."""
    with opened_stored_file(io, task) as stored:
        columns = stored.schema
    types = dict(_types(columns))
    ids = frozenset(types) if has_ids(columns) or not len(columns) else None
    return StoredFields(ids, {key: kind.bit_width for key, kind in types.items() if pa.types.is_unsigned_integer(kind)})


def _types(columns: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for column in columns:
        field_id = id_of(column)
        if field_id is not None:
            yield field_id, column.type
        yield from _types(inner_fields(column.type))
