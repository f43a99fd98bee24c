"""`Engine`: the protocol of engines that read and write a table's rows, in this process or by Spark. Because of it, this layer does not import Spark.

`available_engines.py` has the in-process engine, and chooses engines by the type of the rows, by name, or by the amount of work. Spark's engine is
`icefloe.spark.spark_engine`.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.write_target import WriteTarget
from icefloe.operations.write_result import WriteResult
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_properties import NAME_MAPPING
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

# Bytes of data files for one task of a cluster that reads some of their columns. Tasks are large, because Python workers collect garbage after each task.
BYTES_PER_TASK = 128 * 1024 * 1024
# The number of threads that read files in parallel. Arrow's native code reads them, outside of the interpreter's lock.
READ_THREADS = min(8, os.cpu_count() or 1)


def tasks_of_bytes(size: int) -> int:
    """Return the number of cluster tasks into which the reading of `size` bytes of data files is divided."""
    return -(-size // BYTES_PER_TASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A request to an engine to read the rows of planned files: the files, the columns, and the filter."""

    table_name: str
    plan: ScanPlan
    schema: Schema  # the table schema that rows are read with
    projection: Schema  # the columns to return, in this order
    row_filter: BooleanExpression  # bound to `schema`; applied to every row
    specs: Mapping[int, PartitionSpec]
    io: FileIO
    # Every schema of the table. Readers that filter by the column names in old files need them, because a name may have belonged to another column then.
    schemas: Sequence[Schema] = ()
    # Maps column names to field ids in files without field ids.
    name_mapping: NameMapping | None = None
    limit: int | None = None
    # Field ids of required columns that files of the plan may lack, because they were written with older schemas. Reading such a file is an error.
    may_be_missing: frozenset[int] = frozenset()

    @classmethod
    def of_table(
        cls,
        metadata: TableMetadata,
        io: FileIO,
        table_name: str,
        plan: ScanPlan,
        *,
        schema: Schema,
        projection: Schema,
        row_filter: BooleanExpression,
        may_be_missing: frozenset[int],
        limit: int | None = None,
    ) -> "ScanRequest":
        """Return a request to read planned files of a table, with its partition specs, schemas and name mapping."""
        return cls(
            table_name=table_name,
            plan=plan,
            schema=schema,
            projection=projection,
            row_filter=row_filter,
            specs=metadata.specs(),
            io=io,
            schemas=metadata.schemas,
            name_mapping=NAME_MAPPING.read(metadata.properties),
            limit=limit,
            may_be_missing=may_be_missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """The values of one key column in the rows of an upsert, from which a filter of the table's files is made.

    Values are as filter literals: dates are days since 1970, times and timestamps are counts of their unit, UUIDs are bytes.

    Attributes:
        field_id: The field id of the column.
        values: All distinct values if they are few; otherwise None.
        low: The least value; None if `values` is set, or the value is unknown.
        high: The greatest value; None if `values` is set, or the value is unknown.
    """

    field_id: int
    values: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSource:
    """The checked rows of an upsert, as the engine that joins them with the table's rows needs them.

    Attributes:
        rows: The rows; the type depends on the engine: `ArrowRows`, or Spark's `SparkRows`.
        keys: The values of the key columns; None if every key has a null, so that no row matches.
        join: A function that joins the rows with the table's rows, and writes data files with the rows that replace differing rows and the rows to insert.
            It raises `InvalidInputError` if a key matches several rows of the table that it would update.
        here: The same rows for the in-process engine, if the rows of another engine are few and have been read to this process; otherwise None.
    """

    rows: Any
    keys: tuple[KeyValues, ...] | None
    join: "Callable[[UpsertRequest], UpsertedRows]"
    here: "UpsertSource | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertRequest:
    """A request to an engine to join the rows of an upsert with the live rows of planned files, and to write the result.

    Rows of a file that the residual filter of its task excludes cannot match.
    """

    source: UpsertSource
    scan: ScanRequest  # a scan of all columns, whose plan has the tasks
    tasks: Sequence[FileScanTask]
    key_ids: tuple[int, ...]
    updates: bool  # whether matching rows that differ are replaced
    inserts: bool  # whether rows without a match are added
    keeps_row_ids: bool  # whether replaced rows keep their row id
    target: WriteTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertedRows:
    """The result of an upsert's join.

    Attributes:
        positions: For each task of the request, the positions, ascending, of the rows of its file that are replaced.
        added: The data files with the new rows.
        updated: The number of source rows that replace rows.
        inserted: The number of source rows without a match that were added.
        unchanged: The number of source rows whose match has the same values.
    """

    positions: tuple[NDArray[np.int64], ...]
    added: tuple[DataFile, ...]
    updated: int
    inserted: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An UPDATE or MERGE statement on one table. In its text, `{target}` represents the table, and `{source}` the rows of `source`."""

    operation: str  # `update` or `merge`
    text: str
    branch: str
    snapshot_properties: Mapping[str, str]
    source: Any = None


class Engine(Protocol):
    """An engine that reads and writes rows. It does not decide what is read or committed."""

    name: str

    def environment(self) -> Mapping[str, str]:
        """Return the summary entries of snapshots that this engine writes: `engine-name`, `engine-version` and, if its session runs in this process, `app-id`.

        Spec: Appendix F, Other Fields.
        """

    def setting(self, name: str) -> str | None:
        """Return a setting of the engine's running session, such as `spark.wap.id`; None if it is not set, or no session runs."""

    def accepts(self, rows: object) -> bool:
        """Return whether this engine can write rows of this type."""

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write the rows as data files. If they do not fit the table, raise `SchemaMismatchError` before anything is written."""

    def read(self, request: ScanRequest) -> Any:
        """Return the rows as an Arrow table or a Spark DataFrame, depending on the engine."""

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        description: str,
        *,
        tasks: int | None = None,
        threads: int = 1,
        target: WriteTarget | None = None,
        combine: Callable[[Any, Any], Any] | None = None,
    ) -> Iterator[Any]:
        """Call a function for items in parallel, and yield its results in the order of the items; with `combine`, yield one combined result.

        Args:
            function: A function of an item and, if there is a `target`, of the `WritingTask` that writes. Function, items and results must be picklable.
            items: The arguments of the calls. Without items nothing is yielded.
            description: A description of the work, for people.
            tasks: The number of cluster tasks; None for about as many as there are items.
            threads: The number of items that this process works on at once.
            target: The write to which the files belong that the function writes; the attribute `added` of its results has the files. Each item is then a
                separate task, and after an error no file of any item remains. None if the function writes no files.
            combine: A picklable function that combines two results into one. The engine chooses where and in which order results are combined.

        Raises:
            IcefloeError: The error that the function raised, for the first item that failed.
        """

    def orphans(self, request: Any) -> Generator[Any, None, None]:
        """Yield the orphan files that an `orphan_search.OrphanRequest` finds, in tables with the schema `path_database.LISTED`; see `find_in_process`."""

    def upsert(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Check the rows of an upsert, determine the values of their keys, and return them as a source. Nothing is written before `UpsertSource.join`.

        Raises:
            SchemaMismatchError: the rows do not fit the schema, or lack a column that would be updated.
            InvalidInputError: two rows have the same key.
        """

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """Run an UPDATE or MERGE statement on a `Table`, and commit its changes. Raises `UnsupportedFeatureError` if the engine does not support SQL."""
