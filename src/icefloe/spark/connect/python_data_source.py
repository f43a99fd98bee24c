"""The Python data source `icefloe`: Spark's tasks read and write a table with Python code, without a JVM in this process.

`connect_options.py` parses its options, `spark/scan/python_scan.py` reads the rows of a task, and `table_writer.py` writes them. `stream_reader.py` and
`stream_writer.py` do the same for streams. `register.py` registers it.
Spec: Data File Fields; Scan Planning; Column Projection; Writing Data Files.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamWriter, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.errors import NoSuchFileError, SchemaMismatchError
from icefloe.operations.data_scan import DataScan
from icefloe.operations.warnings_once import warn_once
from icefloe.spark.connect.connect_filters import as_row_filter
from icefloe.spark.connect.connect_options import (
    READ_ID,
    RegisteredCatalogs,
    SourceOptions,
    load_table,
    load_table_at,
    parse_options,
    to_scan,
)
from icefloe.spark.connect.stream_reader import StreamReader, stream_reader
from icefloe.spark.connect.stream_writer import stream_writer
from icefloe.spark.connect.table_writer import TableWriter
from icefloe.spark.connect.task_partitions import (
    BYTES_PER_TASK,
    UNUSED_BY_PYTHON,
    TasksPartition,
    bytes_per_task,
    check_types,
    pack_tasks,
    rows_of_tasks,
)
from icefloe.spark.jobs.task_errors import UNSEEN_FILE, TaskErrors
from icefloe.spark.scan.python_scan import TaskReader
from icefloe.spark.scan.read_options import UNUSED_BY_QUERIES
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.predicate import And, BooleanExpression
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.ports import FileIO

FORMAT = "icefloe"
# Options of Java's Iceberg that have no effect on a query.
UNUSED_BY_SOURCE = {**UNUSED_BY_QUERIES, **UNUSED_BY_PYTHON}


class IcefloeSource(DataSource):
    """Spark's data source: `spark.read.format("icefloe").load("catalog.namespace.table")`, and `df.write.format("icefloe")` with the same options.

    Attributes:
        registered: Catalogs and storages of the session.
        pushes_filters: Whether the reader accepts pushed filters; if `spark.sql.python.filterPushdown.enabled` is off, Spark refuses readers that accept them.
    """

    registered: ClassVar[RegisteredCatalogs] = RegisteredCatalogs()
    pushes_filters: ClassVar[bool] = False
    # Options with the metadata file that was current when Spark requested the columns, so that Spark later plans from the same file.
    _pinned: tuple[SourceOptions, FileIO] | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns to read as a Spark struct."""
        # `icefloe.spark.table` requests the columns, and unpacks the error. The methods below are called in users' actions, where errors are not packed.
        with TaskErrors(self.registered.error_key, self.options.get(READ_ID)).carry():
            try:
                scan = self._scan()
            except NoSuchFileError as error:  # this process runs on Spark's server, which may be another machine
                raise NoSuchFileError(error.message, table=error.table, path=error.path, next_step=UNSEEN_FILE) from error
            return schema_to_struct(scan.as_held(scan.projection()), field_ids=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`, which Spark takes from the method `schema` or the user has set."""
        scan = self._scan().select(*schema.names)
        check_types(schema, schema_to_struct(scan.projection(), field_ids=False), scan.table_name)
        options = {name.lower(): text for name, text in self.options.items()}
        for name in options.keys() & UNUSED_BY_SOURCE.keys():
            warn_once("", "read option", name, UNUSED_BY_SOURCE[name])
        return (PushingReader if self.pushes_filters else SourceReader)(scan, schema, bytes_per_task(options, scan.metadata.properties))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that appends the rows, or with `overwrite` replaces all rows of the table."""
        return TableWriter(parse_options(self.options), self.registered, schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 Spark's name
        """Return a reader of the columns in `schema` for a stream. It reads what is committed later, whatever metadata Spark took the columns from."""
        return stream_reader(self.options, self.registered, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 Spark's name
        """Return a writer for a stream that appends the rows of each epoch, or with `overwrite` replaces all rows of the table by them."""
        return stream_writer(self.options, self.registered, schema, overwrite=overwrite)

    def _scan(self) -> DataScan:
        if self._pinned is not None:
            options, io = self._pinned
            return to_scan(load_table_at(options, io), options)
        options = parse_options(self.options)
        table = load_table(options, self.registered)
        self._pinned = options.pin(table), table.io
        return to_scan(table, options)


class IcebergSource(IcefloeSource):
    """The same data source under the name `iceberg`, for programs that use this name although Java's Iceberg is not installed."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "iceberg"


class SourceReader(DataSourceReader):
    """The reader of the data source: it plans the scan on the driver, and reads rows in Spark's tasks, to which the table's metadata is not sent."""

    def __init__(self, scan: DataScan, schema: StructType, bytes_per_task: int = BYTES_PER_TASK) -> None:
        self._bytes_per_task = bytes_per_task
        self._scan: DataScan | None = scan
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
        """Plan the scan, and return a partition for each Spark task."""
        scan = self._planned_scan()
        plan = (scan if self._row_filter is None else scan.filter(self._row_filter)).plan()
        return [TasksPartition(tasks) for tasks in pack_tasks(plan.tasks(), bytes_per_task=self._bytes_per_task)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, with the Arrow types that Spark expects for the columns."""
        if not isinstance(partition, TasksPartition):  # Spark passes a partition object of its own if a plan has no files
            return
        yield from rows_of_tasks(self._rows, partition.tasks, self._schema)

    def _planned_scan(self) -> DataScan:
        if self._scan is None:
            raise SchemaMismatchError("a reader can plan only in the process that created it")
        return self._scan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scan": None}


class PushingReader(SourceReader):
    """A reader to which Spark pushes filters."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 Spark's name
        """Use the filters that can be translated to row filters for planning and reading. Yield all other filters, which Spark evaluates itself."""
        accepted: list[BooleanExpression] = []
        for spark_filter in filters:
            expression = as_row_filter(spark_filter, self._rows.schema)
            if expression is None:
                yield spark_filter
            else:
                accepted.append(expression)
        if accepted:
            self._row_filter = accepted[0] if len(accepted) == 1 else And(*accepted)
