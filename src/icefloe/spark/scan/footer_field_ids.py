"""The footers of data files, read by this process or by Spark's tasks: which columns each file has, by field id, and which columns are unsigned integers.

`file_columns.py` needs them if there are column defaults, a name mapping, variants, structs that old versions of Spark read wrongly, or an
accelerator.
Spec: Column Projection; Default values.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from icefloe.bounded_cache import BoundedCache
from icefloe.datafile.field_ids import has_ids, id_of, inner_fields
from icefloe.datafile.stored_file import opened_stored_file
from icefloe.datafile.variant_shredding import is_variant
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spark.jobs.map_job import map_in_tasks
from icefloe.spec.ports import FileIO

# The maximum number of footers that the driver reads in threads; if there are more, Spark's tasks read them.
MOST_ON_DRIVER = 256
FOOTER_THREADS = 8
# Bytes at which a cache counts the fields of a file, and each field of it.
_BYTES_OF_A_FILE, _BYTES_OF_A_FIELD = 1024, 64
# The field ids of a file's columns at all levels; None for a file without field ids.
FieldIds = frozenset[int] | None


class StoredFields(NamedTuple):
    """The columns of a data file: their field ids (None if the file has no ids), and by field id the width in bits of each unsigned integer column.

    `unread` has by field id what a column of the file has and Spark's reader does not read: in shredded variants types that its variants lack, and times not in
    microseconds.
    """

    ids: FieldIds
    unsigned: dict[int, int]
    unread: dict[int, str]


def stored_fields(
    spark: SparkSession, io: FileIO, tasks: Sequence[FileScanTask], table_name: str, known: BoundedCache[Hashable, Any] | None = None
) -> list[StoredFields]:
    """Read the `StoredFields` from the footer of each task's file. The result is in the order of the tasks.

    Args:
        spark: A classic session; Spark's tasks read the footers if there are more than `MOST_ON_DRIVER` files.
        io: The table's storage.
        tasks: The scan tasks.
        table_name: The name of the table, for the description of the job.
        known: The fields of files that were read before, to which newly read fields are added; None for no cache.

    Raises:
        NoSuchFileError, DataFileFormatError: A file is missing or damaged.
        EngineError: Spark's job failed for another reason.
    """
    if known is None:
        return _read_fields(spark, io, tasks, table_name)
    # A file that `add_files` has given to a table may be another one than a dropped table had by the same name.
    keys = [("fields", task.file.file_path, task.file.file_size_in_bytes, task.file.record_count) for task in tasks]
    fields_of_files = [known.get(key) for key in keys]
    unread = [place for place, fields in enumerate(fields_of_files) if fields is None]
    if unread:
        for place, fields in zip(unread, _read_fields(spark, io, [tasks[place] for place in unread], table_name), strict=True):
            fields_of_files[place] = fields
            known.put(keys[place], fields, _BYTES_OF_A_FILE + _BYTES_OF_A_FIELD * len(fields.ids or ()))
    return [fields for fields in fields_of_files if fields is not None]


def _read_fields(spark: SparkSession, io: FileIO, tasks: Sequence[FileScanTask], table_name: str) -> list[StoredFields]:
    if len(tasks) <= MOST_ON_DRIVER:
        with ThreadPoolExecutor(FOOTER_THREADS, thread_name_prefix="icefloe-footers") as pool:
            return list(pool.map(partial(fields_in, io), tasks))
    return list(map_in_tasks(spark, f"read footers of {table_name}", partial(fields_in, io), tasks, len(tasks) // FOOTER_THREADS))


def fields_in(io: FileIO, task: FileScanTask) -> StoredFields:
    """Read the `StoredFields` from the footer of a scan task's file. Raises the errors of `opened_stored_file`."""
    with opened_stored_file(io, task) as stored:
        columns = stored.schema
    types = dict(_types(columns))
    ids = frozenset(types) if has_ids(columns) or not len(columns) else None
    unsigned = {key: kind.bit_width for key, kind in types.items() if pa.types.is_unsigned_integer(kind)}
    return StoredFields(ids, unsigned, {key: text for key, kind in types.items() if (text := _unread(kind))})


def _unread(kind: Any) -> str:
    if pa.types.is_time(kind):
        return "" if kind.unit == "us" else f"times in {kind.unit}"
    text = _type_beyond_spark(kind) if is_variant(_storage(kind)) else ""
    return text and f"{text} values in columns of a shredded variant"


def _storage(kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _type_beyond_spark(kind: Any) -> str:
    """Return a type of values inside a shredded variant that Spark's variants do not have; an empty text if there is none."""
    if isinstance(kind, pa.UuidType) or pa.types.is_fixed_size_binary(kind):
        return "uuid"
    if pa.types.is_time(kind):
        return "time"
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return "nanosecond"
    return next((text for field in inner_fields(kind) if (text := _type_beyond_spark(field.type))), "")


def _types(columns: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    for column in columns:
        field_id = id_of(column)
        if field_id is not None:
            yield field_id, column.type
        yield from _types(inner_fields(column.type))
