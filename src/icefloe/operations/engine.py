"""`Engine`: the protocol by which rows of a table are read and written, in this process or by Spark, so that this layer does not import Spark.

`available_engines.py` finds engines by the type of the rows, by name or by the amount of work. The in-process engine is there too; Spark's is
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
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema

# Bytes of data files in one task of a cluster, of which only some columns are read. Fewer, larger tasks: Python's workers collect garbage after each.
BYTES_PER_TASK = 128 * 1024 * 1024
# Threads that read files side by side; reading is native code of Arrow, which runs outside the interpreter's lock.
READ_THREADS = min(8, os.cpu_count() or 1)


def tasks_of_bytes(size: int) -> int:
    """Return how many tasks of a cluster the reading of so many bytes of data files is worth."""
    return -(-size // BYTES_PER_TASK)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The input of an engine that reads the rows of planned files."""

    table_name: str
    plan: ScanPlan
    schema: Schema  # the table schema the rows are read with
    projection: Schema  # the projected columns of it, in order
    row_filter: BooleanExpression  # bound to `schema`; applied to every row
    specs: Mapping[int, PartitionSpec]
    io: FileIO
    # Every schema of the table. A reader that applies filters by the column names of old files needs them: a name may have been another column's then.
    schemas: Sequence[Schema] = ()
    # Maps column names to field ids in files without field ids.
    name_mapping: NameMapping | None = None
    limit: int | None = None
    # Ids of required columns that files of the plan may lack, because they were written with older schemas. A file that lacks one is refused.
    may_be_missing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """The values of one key column in the rows of an upsert: all of them if they are few, else the least and the greatest; None if unknown.

    They are in the form of literals of filters: times as counts of their unit, UUIDs as bytes.
    """

    field_id: int
    values: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSource:
    """The rows of an upsert, checked, in the engine's own form.

    Attributes:
        rows: The rows.
        keys: The values of the key columns; None if no row has a key without nulls: then no row matches.
        join: Finds the rows that match, in one join, and writes the new form of those that differ and the rows to insert.
            Raises `InvalidInputError` if a key matches several rows of the table that it would update.
        here: The same rows in the form of the in-process engine, if they are few and another engine has them.
    """

    rows: Any
    keys: tuple[KeyValues, ...] | None
    join: "Callable[[UpsertRequest], UpsertedRows]"
    here: "UpsertSource | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertRequest:
    """Rows to join with those of planned files. Each task's `delete_files` are applied first; rows that its residual rules out cannot match."""

    source: UpsertSource
    scan: ScanRequest  # of all columns; its plan has the tasks
    tasks: Sequence[FileScanTask]
    key_ids: tuple[int, ...]
    updates: bool  # matched rows that differ are replaced
    inserts: bool  # rows without a match are added
    keeps_row_ids: bool  # replaced rows keep their row id
    target: WriteTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertedRows:
    """The result of an upsert's join: `positions` has one ascending array per task: the rows of its file whose new versions are in `added`."""

    positions: tuple[NDArray[np.int64], ...]
    added: tuple[DataFile, ...]
    updated: int
    inserted: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A SQL statement about one table: `{target}` in the text represents the table, `{source}` the rows of `source`."""

    operation: str  # update, merge
    text: str
    branch: str
    snapshot_properties: Mapping[str, str]
    source: Any = None


class Engine(Protocol):
    """Reads and writes rows; it decides nothing about the table."""

    name: str

    def environment(self) -> Mapping[str, str]:
        """Return the writer as snapshot summaries name it: `engine-name`, `engine-version` and, if a session of it runs in this process, its `app-id`.

        Spec: Appendix F, Other Fields.
        """

    def setting(self, name: str) -> str | None:
        """Return a setting of the engine's running session, such as `spark.wap.id`; None if it is not set, or no session runs."""

    def accepts(self, rows: object) -> bool:
        """Return whether this engine can write rows of this type."""

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write the rows as data files. Raises `SchemaMismatchError` before anything is written if they do not fit."""

    def read(self, request: ScanRequest) -> Any:
        """Return the rows in the engine's own form: an Arrow table, a Spark DataFrame."""

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
        """Yield the results of a function for items, in their order; with `combine` one result of all items, if there are any.

        Args:
            function: Takes an item, and with `target` also the `WritingTask` that writes. It pickles, and so do the items and the results.
            items: The items.
            description: What the work is, for people.
            tasks: How many tasks of a cluster the work is worth; None for as many as it has items, within reason.
            threads: How many items are worked on at once in this process.
            target: The write whose data files the function writes, where it writes any: those of a result are its `added`. Each item is a task of its own.
                After a failure no file of any item remains.
            combine: Returns one result of two. It pickles; where and in which order results are combined is the engine's choice.

        Raises:
            IcefloeError: As the function raises it, of the first item that fails.
        """

    def orphans(self, request: Any) -> Generator[Any, None, None]:
        """Yield the files that nothing references, as tables of `path_database.LISTED`, for an `orphan_search.OrphanRequest`; see `find_in_process`."""

    def upsert(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Check the rows of an upsert, and determine the values of their keys. Nothing is written before their join with a table's rows.

        Raises:
            SchemaMismatchError: the rows do not fit the schema, or lack a column of it that they are to update.
            InvalidInputError: two rows have the same key.
        """

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """Run a statement about a `Table`, and commit its changes. Raises `UnsupportedFeatureError` if the engine does not support SQL."""
