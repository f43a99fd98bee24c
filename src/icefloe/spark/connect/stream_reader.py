"""`StreamReader`: a table as a source of Structured Streaming through the Python data source, without Icefloe's Java classes.

Spark keeps one object in a Python process of the driver for as long as the query runs: it chooses the offsets and plans the batches. Another object is sent to
Spark's tasks once, when the query starts, so that each partition has all that is needed to read its files: the table's schemas, partition specs and access to
its storage may change while the query runs. `spark/scan/stream_batches.py` has the rules, and `python_data_source.py` creates the reader.
Spec: Snapshots; Scan Planning.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from icefloe.operations.warnings_once import warn_once
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.stream_rules import NO_LIMITS
from icefloe.scan.streaming_offset import START, StreamingOffset
from icefloe.similar_names import similar_name
from icefloe.spark.connect.connect_options import OPTION_NAMES, RegisteredCatalogs, is_location, load_table, parse_options
from icefloe.spark.connect.task_partitions import (
    SPLIT_OPTION,
    UNUSED_BY_PYTHON,
    bytes_per_task,
    check_types,
    pack_tasks,
    rows_of_tasks,
    task_reader,
)
from icefloe.spark.scan.python_scan import TaskReader
from icefloe.spark.scan.read_options import (
    CHANGES_MODE,
    MAX_BYTES,
    MAX_FILES,
    MAX_ROWS,
    READ_MODE,
    STREAM_OPTION_NAMES,
    UNUSED_READ_OPTIONS,
    read_mode,
)
from icefloe.spark.scan.stream_batches import StreamBatches
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.table.table import Table

try:
    from pyspark.sql.streaming import datasource as admission  # Spark 4.2 and later pass the begin of a batch and its limit
except ImportError:
    admission = None  # type: ignore[assignment]

# Options of reads that have no effect on a stream of the Python data source.
UNUSED_BY_STREAMS = {**UNUSED_READ_OPTIONS, **UNUSED_BY_PYTHON}
_MOST_FILES = 2**31 - 1  # Spark's limit of files is an integer of 32 bits


@dataclass
class StreamPartition(InputPartition):
    """The scan tasks of a batch that one Spark task reads, and the reader of their files."""

    tasks: tuple[FileScanTask, ...]
    reader: TaskReader


class StreamReader(DataSourceStreamReader):
    """The reader of a stream. In Spark's tasks it has only the columns to read.

    Before Spark 4.2 the end of a batch is the table's current snapshot, because Spark passes neither the begin of the batch nor a limit. So that the first
    batch can be read again, each offset then also contains where a first batch would begin.
    """

    def __init__(self, batches: StreamBatches, columns: StructType, task_bytes: int) -> None:
        self._batches: StreamBatches | None = batches
        self._columns = columns
        self._task_bytes = task_bytes

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Return the offset of a stream that has read nothing."""
        return _as_dict(START)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802 Spark's name
        """Return the end of the next batch; `start` if there is nothing to read.

        Args:
            start: The end of the last batch, or the initial offset.
            limit: That of `getDefaultReadLimit`, or Spark's limit for all that is available. None if Spark passes no arguments, as before 4.2.

        Raises:
            InvalidInputError, NoSuchSnapshotError, ManifestFormatError: As for `MicroBatchPlanner.next_offset`.
        """
        batches = self._planned_batches()
        if limit is None:
            return _as_dict(batches.end_of_everything())
        begin = self._parse(start)
        end = batches.next_offset(begin, NO_LIMITS if isinstance(limit, admission.ReadAllAvailable) else batches.limits)
        return start if end == begin and start is not None else _as_dict(end)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 Spark's name
        """Return one limit of the options, because Spark has one at most. `latestOffset` applies all of them where Spark passes it."""
        limits = self._planned_batches().limits
        if limits.files is not None:
            return admission.ReadMaxFiles(min(limits.files, _MOST_FILES))
        if limits.rows is not None:
            return admission.ReadMaxRows(limits.rows)
        return admission.ReadAllAvailable() if limits.bytes is None else admission.ReadMaxBytes(limits.bytes)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 Spark's name
        """Return the offset of a stream that has read everything, for the progress of the query."""
        latest = self._planned_batches().latest_offset()
        return None if latest is None else _as_dict(latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        """Remember the current snapshot, at which the query ends."""
        self._planned_batches().prepare_for_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the files between two offsets, and return a partition for each Spark task.

        Raises:
            InvalidInputError, NoSuchSnapshotError, ManifestFormatError: As for `MicroBatchPlanner.plan`.
        """
        first, last = self._parse(start), self._parse(end)
        if first == last:
            return []
        request = self._planned_batches().request(first, last, self._columns.names)
        reader = task_reader(request)
        return [StreamPartition(tasks, reader) for tasks in pack_tasks(request.plan.tasks(), bytes_per_task=self._task_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, with the Arrow types that Spark expects for the columns."""
        if isinstance(partition, StreamPartition):
            yield from rows_of_tasks(partition.reader, partition.tasks, self._columns)

    def _parse(self, offset: Any) -> StreamingOffset:
        return self._planned_batches().parse(json.dumps(offset))

    def _planned_batches(self) -> StreamBatches:
        if self._batches is None:
            raise SchemaMismatchError("a reader can plan only in the process that created it")
        return self._batches

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": None}


if admission is not None:
    admission.SupportsTriggerAvailableNow.register(StreamReader)


def stream_reader(options: Mapping[str, str], registered: RegisteredCatalogs, columns: StructType) -> StreamReader:
    """Return the reader of a stream.

    Args:
        options: The options of the read.
        registered: Catalogs of the session.
        columns: The columns to read, with Spark's types.

    Raises:
        InvalidInputError: An option is not valid for a stream.
        UnsupportedFeatureError: An option needs a later version of Spark.
        SchemaMismatchError: The columns are not those of the table.
    """
    named = {name.lower(): text for name, text in options.items()}
    _check_names(named)
    parsed = parse_options(options)
    if parsed.path is not None and is_location(parsed.path):
        table = FileSystemCatalog.table_at(parsed.path, parsed.properties) if not parsed.path.endswith(".json") else None
    else:
        table = load_table(parsed, registered)
    if not isinstance(table, Table):
        raise InvalidInputError(
            f"{parsed.path} is read as a stream, and no catalog has its later snapshots",
            next_step='read the table by its name in a catalog: .option("catalog", NAME).option("table", "namespace.table")',
        )
    if parsed.where is not None:
        raise InvalidInputError(f"the stream of {table.full_name} is read with the option where", next_step="filter the DataFrame")
    if read_mode(named) == CHANGES_MODE:
        raise UnsupportedFeatureError(
            f"the stream of {table.full_name} is read with {READ_MODE} {CHANGES_MODE}, which the Python data source does not have",
            table=table.full_name,
            next_step="read it in a classic session or on a server of icefloe connect-server; or write the changes to files: icefloe changes --follow",
        )
    limits = [name for name in (MAX_FILES, MAX_ROWS, MAX_BYTES) if name in named]
    if limits and admission is None:
        raise UnsupportedFeatureError(
            f"the stream of {table.full_name} is read with {' and '.join(limits)}, and Spark limits the batches of Python data sources since 4.2",
            table=table.full_name,
            next_step="leave it out; or use Spark 4.2 or later, or a server of icefloe connect-server",
        )
    for name in named.keys() & UNUSED_BY_STREAMS.keys():
        warn_once("", "read option", name, UNUSED_BY_STREAMS[name])
    batches = StreamBatches(TableSelection(table=table), named, is_tolerant=parsed.tolerant)
    check_types(columns, schema_to_struct(table.scan(selected_fields=tuple(columns.names)).projection(), field_ids=False), table.full_name)
    return StreamReader(batches, columns, bytes_per_task(named, table.properties))


def _check_names(options: Mapping[str, str]) -> None:
    """Raise `InvalidInputError` for an option that seems to be a misspelt option of a stream. Names with a dot are properties of the catalog."""
    known = (*map(str.lower, STREAM_OPTION_NAMES), *UNUSED_BY_STREAMS, SPLIT_OPTION, *OPTION_NAMES)
    for name in options:
        similar = None if "." in name else similar_name(name, known)
        if similar is not None:
            raise InvalidInputError(f"there is no option {name!r}", next_step=f"write {similar!r}")


def _as_dict(offset: StreamingOffset) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(offset.json)
    return parsed
