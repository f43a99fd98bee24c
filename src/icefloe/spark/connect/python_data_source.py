"""The Python data source `icefloe`: a table read and written through Python in Spark's tasks, with no JVM at hand.

What is asked for tells `options.py`; the rows of a task come from `datafile.read` and go to `datafile.write`. Registered by `register.py`.
Spec: Scan Planning; Column Projection; Writing Data Files.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import SchemaMismatchError
from icefloe.kernel.expressions.predicate import And, BooleanExpression
from icefloe.kernel.metadata.table_properties import NAME_MAPPING, SPLIT_SIZE
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.spark.connect.connect_filters import as_row_filter
from icefloe.spark.connect.connect_options import READ_ID, Asked, Known, asked_for, opened, reopened, scan_of
from icefloe.spark.connect.read_tasks import BYTES_PER_TASK, packed
from icefloe.spark.connect.table_writer import TableWriter
from icefloe.spark.jobs.task_errors import TaskErrors
from icefloe.spark.scan.python_scan import TaskReader
from icefloe.spark.scan.read_options import UNUSED_READ_OPTIONS
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.table.data_scan import DataScan
from icefloe.table.warnings_once import warn_once

FORMAT = "icefloe"
SPLIT_OPTION = "split-size"
# Options of Java's that this source does not act on, beside those that no read does.
UNUSED_BY_SOURCE = UNUSED_READ_OPTIONS | dict.fromkeys(
    ("file-open-cost", "vectorization-enabled", "batch-size", "aggregate-push-down-enabled"),
    "the data source reads files through Python, in batches of Arrow's, and leaves aggregates to Spark",
)
# Until Spark 4.1 the times of Arrow's schema are in UTC unless told otherwise; from 4.2 on the zone must be told.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


class IcefloeSource(DataSource):
    """`spark.read.format("icefloe").load("catalog.namespace.table")`, and `df.write.format("icefloe")` with the same options.

    `known` is what a session was told; `pushes_filters` whether Spark may hand its filters down: it refuses a reader that takes them where its setting
    `spark.sql.python.filterPushdown.enabled` is off.
    """

    known: ClassVar[Known] = Known()
    pushes_filters: ClassVar[bool] = False
    # The read as it was when Spark asked for its columns: what it plans later is of the same metadata file.
    _fixed: tuple[Asked, FileIO] | None = None

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns asked for. Raises as `opened` and `scan_of`, and `UnsupportedTypeError`."""
        with self._errors().carried():
            scan = self._scan()
            return schema_to_struct(scan.as_held(scan.projection()), field_ids=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of a schema that Spark was given, or that `schema` gave it."""
        with self._errors().carried():
            scan = self._scan().select(*schema.names)
            _check_types(schema, schema_to_struct(scan.projection(), field_ids=False), scan.table_name)
            given = {name.lower(): text for name, text in self.options.items()}
            for name in given.keys() & UNUSED_BY_SOURCE.keys():
                warn_once("", "read option", name, UNUSED_BY_SOURCE[name])
            properties = scan.metadata.properties if SPLIT_OPTION not in given else {SPLIT_SIZE.name: given[SPLIT_OPTION]}
            bytes_per_task = SPLIT_SIZE.read(properties) or BYTES_PER_TASK
            return (PushingReader if self.pushes_filters else TableReader)(scan, schema, self._errors(), bytes_per_task)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Appends the rows, or puts them in the place of the table's."""
        with self._errors().carried():
            return TableWriter(asked_for(self.options), self.known, schema, overwrite=overwrite)

    def _errors(self) -> TaskErrors:
        return TaskErrors(self.known.error_key, self.options.get(READ_ID))

    def _scan(self) -> DataScan:
        if self._fixed is not None:
            asked, io = self._fixed
            return scan_of(reopened(asked, io), asked)
        asked = asked_for(self.options)
        table = opened(asked, self.known)
        self._fixed = asked.fixed(table), table.io
        return scan_of(table, asked)


class IcebergSource(IcefloeSource):
    """The same under the name that Java's format has, for programs that say it, where Java's is not there."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "iceberg"


@dataclass
class TasksPartition(InputPartition):
    """What one Spark task reads."""

    tasks: tuple[FileScanTask, ...]


class TableReader(DataSourceReader):
    """Plans on the driver; reads in tasks, to which the metadata does not travel."""

    def __init__(self, scan: DataScan, schema: StructType, errors: TaskErrors, bytes_per_task: int = BYTES_PER_TASK) -> None:
        self._errors = errors
        self._bytes_per_task = bytes_per_task
        self._plan_of: DataScan | None = scan
        self._row_filter: BooleanExpression | None = None
        self._schema = schema
        table_schema, mapping = scan.schema(), NAME_MAPPING.read(scan.metadata.properties)
        self._rows = TaskReader(
            scan.io,
            table_schema,
            scan.projection(),
            {spec.spec_id: spec for spec in scan.metadata.partition_specs},
            mapping,
            DeleteLoader(scan.io, schemas=scan.metadata.schemas, name_mapping=mapping),
        )

    def partitions(self) -> Sequence[InputPartition]:
        """The planned files, cut and packed."""
        with self._errors.carried():
            scan = self._planned_scan()
            plan = (scan if self._row_filter is None else scan.filter(self._row_filter)).plan()
            return [TasksPartition(tasks) for tasks in packed(plan.tasks(), bytes_per_task=self._bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in the Arrow form that Spark gives the columns."""
        if not isinstance(partition, TasksPartition):  # what Spark makes up where a plan has no files
            return
        form = to_arrow_schema(self._schema, **_IN_UTC)
        with self._errors.carried():
            for task in partition.tasks:
                for batch in self._rows.rows(task):
                    yield _in_form(batch, form)

    def _planned_scan(self) -> DataScan:
        if self._plan_of is None:
            raise SchemaMismatchError("a reader plans where it was made")
        return self._plan_of

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan_of": None}


class PushingReader(TableReader):
    """A reader that takes Spark's filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 Spark's name
        """Takes the filters that mean the same here; gives the others back."""
        taken: list[BooleanExpression] = []
        for found in filters:
            expression = as_row_filter(found, self._rows.schema)
            if expression is None:
                yield found
            else:
                taken.append(expression)
        if taken:
            self._row_filter = taken[0] if len(taken) == 1 else And(*taken)


def _in_form(batch: pa.RecordBatch, form: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly the types that Spark expects."""
    arrays = [array if array.type == field.type else array.cast(field.type) for array, field in zip(batch.columns, form, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=form)


def _check_types(given: StructType, found: StructType, table_name: str) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in found}
    wrong = [
        f"{field.name} is {kinds.get(field.name)}, not {field.dataType.simpleString()}"
        for field in given
        if kinds.get(field.name) != field.dataType.simpleString()
    ]
    if wrong:
        raise SchemaMismatchError(
            f"the columns that Spark was given are not those of {table_name}: {', '.join(wrong)}",
            table=table_name,
            next_step="read without .schema(...) and cast the columns; choose some with the option columns",
        )
