"""`Engine`: the small protocol by which a table's rows are read and written, in-process or on Spark, without this floor importing Spark.

Engines are found by the type of the rows handed in or by name, through the package's entry points (`icefloe.engines`). The in-process engine is
`icefloe.table.in_process_engine`; Spark's is `icefloe.spark.spark_engine`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.copy_data_file import RewrittenFile
from icefloe.datafile.copy_file_group import RewriteGroup, RewrittenGroup
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FileToAdd
from icefloe.datafile.write_target import WriteTarget
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema
from icefloe.table.write_result import WriteResult

VERSION = version("icefloe")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What an engine needs to turn planned files into rows."""

    table_name: str
    plan: ScanPlan
    schema: Schema  # the table schema the rows are read with
    projection: Schema  # the part of it asked for, in order
    row_filter: BooleanExpression  # bound to `schema`; applied to every row
    specs: Mapping[int, PartitionSpec]
    io: FileIO
    # Every schema the table has had. A reader that tests filters by the column names of old files must know which names meant another column then.
    schemas: Sequence[Schema] = ()
    # Field ids of the columns of files that have none.
    name_mapping: NameMapping | None = None
    limit: int | None = None
    # Ids of required columns that files of the plan may lack, by the schemas that these were written with. Such a file is refused.
    may_be_missing: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest:
    """Files to copy without the rows for which `delete_filter` is true."""

    tasks: Sequence[FileScanTask]
    delete_filter: BooleanExpression  # bound to `schema`
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    target: WriteTarget
    # Every schema the table has had: equality deletes may be by a column that was dropped since.
    schemas: Sequence[Schema] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroupsRequest:
    """Groups of files whose remaining and new rows are written together; all else as in `RewriteRequest`."""

    groups: Sequence[RewriteGroup]
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    target: WriteTarget
    schemas: Sequence[Schema] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionsRequest:
    """Files in which to find the rows for which `delete_filter` is true. Each task's `delete_files` are applied first."""

    table_name: str
    tasks: Sequence[FileScanTask]
    delete_filter: BooleanExpression  # bound to `schema`
    schema: Schema
    specs: Mapping[int, PartitionSpec]
    io: FileIO
    # As in `ScanRequest`.
    schemas: Sequence[Schema] = ()
    name_mapping: NameMapping | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValues:
    """What values the rows of an upsert have in one key column: all of them where they are few, else the least and the greatest; None where not known.

    As filters take them: times as counts of their unit, UUIDs as bytes.
    """

    field_id: int
    values: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertSource:
    """The rows of an upsert, checked, in the engine's own form. `keys` is None where no row has a whole key: then none matches.

    `here` is the same rows in the form of the in-process engine, where they are few and another engine has them.
    """

    rows: Any
    keys: tuple[KeyValues, ...] | None
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
    """What an upsert found and wrote: `positions`, one a task, ascending, are the rows of its file that `added` has in their new form."""

    positions: tuple[NDArray[np.int64], ...]
    added: tuple[DataFile, ...]
    updated: int
    inserted: int
    unchanged: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of SQL about one table: `{target}` in the text stands for it, `{source}` for the rows of `source`."""

    operation: str  # update, merge
    text: str
    branch: str
    snapshot_properties: Mapping[str, str]
    source: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableRequest:
    """Manifests that no kept snapshot has, and all that kept ones have: `pyarrow.Table`s of `kernel.manifest_list.columns.MANIFEST_FIELDS`."""

    table_name: str
    gone: Any
    kept: Any
    io: FileIO


class Engine(Protocol):
    """Moves rows; decides nothing about the table."""

    name: str

    def environment(self) -> Mapping[str, str]:
        """Who writes, as snapshot summaries tell it: `engine-name`, `engine-version`, and `app-id` where there is one. Spec: Appendix F, Other Fields."""

    def setting(self, name: str) -> str | None:
        """A setting of the engine's running session, such as `spark.wap.id`; None where it is not set, or nothing runs."""

    def accepts(self, rows: object) -> bool:
        """Whether `rows` is of a type this engine writes."""

    def is_active(self) -> bool:
        """Whether the engine is already running, so that using it starts nothing."""

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Writes the rows as data files. Raises `SchemaMismatchError` before anything is written where they do not fit."""

    def rewrite(self, request: RewriteRequest) -> list[RewrittenFile]:
        """Copies each task's file without the deleted rows, in the task's own partition."""

    def rewrite_groups(self, request: RewriteGroupsRequest) -> list[RewrittenGroup]:
        """Writes the rows of each group as files of its own, in the order of the groups. After a failure none of these files is left."""

    def positions(self, request: PositionsRequest) -> list[NDArray[np.int64]]:
        """For each task, in their order: where in its file the rows lie that match and are not deleted yet, ascending from 0."""

    def read(self, request: ScanRequest) -> Any:
        """The rows in the engine's own form: an Arrow table, a Spark DataFrame."""

    def files_to_add(self, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str) -> list[FileToAdd]:
        """Reads the footers of files that another writer made, in the order of the locations. Raises as `FilesToAdd`, for the first that does not fit."""

    def unreachable(self, request: UnreachableRequest) -> Any:
        """An `unreachable_files.Unreachable`: what the manifests that go name, and no live entry of a kept one does. Every kept one must be readable."""

    def upsert_source(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Checks the rows and what their keys are. Nothing is written.

        Raises:
            SchemaMismatchError: the rows do not fit the schema, or lack a column of it that they are to update.
            InvalidInputError: two rows have the same key.
        """

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """Runs a statement about a `Table` and commits what it changes. Raises `UnsupportedFeatureError` where the engine knows no SQL."""

    def upsert(self, request: UpsertRequest) -> UpsertedRows:
        """Finds the rows that match, in one join, and writes the new form of those that differ and the rows to insert.

        Raises `InvalidInputError` where a key matches several rows of the table, all of which it cannot replace.
        """
