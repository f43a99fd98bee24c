"""`Engine`: the protocol by which rows of a table are read and written, in this process or by Spark, so that this layer does not import Spark.

Engines are found by the type of the rows or by name, through the package's entry points (`icefloe.engines`). The in-process engine is
`icefloe.table.available_engines`; Spark's is `icefloe.spark.spark_engine`.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.column_sketches import SketchedColumn
from icefloe.datafile.compact_files import CompactedFiles, FilesToCompact
from icefloe.datafile.copy_data_file import RewrittenFile
from icefloe.datafile.copy_file_group import RewriteGroup, RewrittenGroup
from icefloe.datafile.deletes.delete_file_output import WrittenDeletes
from icefloe.datafile.deletes.merge_deletes import DeletesToMerge
from icefloe.datafile.foreign_files import FooterRequest
from icefloe.datafile.partition_of_file import FileToAdd
from icefloe.datafile.write_target import WriteTarget
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.ports import FileIO
from icefloe.spec.puffin.theta_sketch import ThetaSketch
from icefloe.spec.schema.name_mapping import NameMapping
from icefloe.spec.schema.schema import Schema
from icefloe.table.write_result import WriteResult


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
class FilesRequest:
    """What every rewrite of existing files needs."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    target: WriteTarget
    # Every schema of the table: the key columns of an equality delete may have been dropped since.
    schemas: Sequence[Schema] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteRequest(FilesRequest):
    """Files to copy without the rows for which `delete_filter` is true."""

    tasks: Sequence[FileScanTask]
    delete_filter: BooleanExpression  # bound to `schema`


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGroupsRequest(FilesRequest):
    """Groups of files whose remaining and new rows are written together."""

    groups: Sequence[RewriteGroup]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRequest(FilesRequest):
    """Files to compact. `at_once` is the number of items that are compacted at once in this process."""

    work: Sequence[FilesToCompact]
    at_once: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDeletesRequest(FilesRequest):
    """Data files whose deletes are written again; `at_once` is that of `CompactionRequest`."""

    work: Sequence[DeletesToMerge]
    at_once: int = 1


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
class SketchRequest:
    """Columns whose distinct values are counted, in the rows of the tasks of a scan that selects them."""

    scan: ScanRequest
    tasks: Sequence[FileScanTask]
    columns: tuple[SketchedColumn, ...]


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
    """The rows of an upsert, checked, in the engine's own form. `keys` is None if no row has a key without nulls: then no row matches.

    `here` has the same rows in the form of the in-process engine, if they are few and another engine has them.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableRequest:
    """Manifests that no kept snapshot has, and all manifests of kept snapshots: `pyarrow.Table`s of `MANIFEST_FIELDS`."""

    table_name: str
    gone: Any
    kept: Any
    io: FileIO


class Engine(Protocol):
    """Reads and writes rows; it decides nothing about the table."""

    name: str

    def environment(self) -> Mapping[str, str]:
        """Return the writer as snapshot summaries name it: `engine-name`, `engine-version` and, if there is one, `app-id`. Spec: Appendix F, Other Fields."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the engine's running session, such as `spark.wap.id`; None if it is not set, or no session runs."""

    def accepts(self, rows: object) -> bool:
        """Return whether this engine can write rows of this type."""

    def is_active(self) -> bool:
        """Return whether the engine is already running, so that its use starts nothing."""

    def write(self, rows: Any, target: WriteTarget) -> list[DataFile]:
        """Write the rows as data files. Raises `SchemaMismatchError` before anything is written if they do not fit."""

    def rewrite(self, request: RewriteRequest) -> list[RewrittenFile]:
        """Copy each task's file without the deleted rows, in the task's own partition."""

    def rewrite_groups(self, request: RewriteGroupsRequest) -> list[RewrittenGroup]:
        """Write the rows of each group as files of its own, in the order of the groups. After a failure none of these files remains."""

    def compact(self, request: CompactionRequest) -> list[CompactedFiles]:
        """Write the live rows of each item as files of its own, in the order of the items. After a failure none of these files remains."""

    def merge_deletes(self, request: MergeDeletesRequest) -> list[WrittenDeletes]:
        """Write the deletes of each item as files of its own, in the order of the items. After a failure none of these files remains."""

    def positions(self, request: PositionsRequest) -> list[NDArray[np.int64]]:
        """Return for each task, in order, the positions of the rows of its file that match and are not deleted yet, ascending from 0."""

    def read(self, request: ScanRequest) -> Any:
        """Return the rows in the engine's own form: an Arrow table, a Spark DataFrame."""

    def sketches(self, request: SketchRequest) -> Sequence[ThetaSketch]:
        """Return a sketch of the values of each column, in the order of the columns."""

    def files_to_add(self, locations: Sequence[str], request: FooterRequest, spec: PartitionSpec, table_name: str) -> list[FileToAdd]:
        """Read the footers of another writer's files, and return the files in the order of the locations. Raises as `FilesToAdd`, for the first wrong one."""

    def unreachable(self, request: UnreachableRequest) -> Any:
        """Return an `unreachable_files.Unreachable`: the files that removed manifests name and no live entry of a kept one does.

        Every kept manifest must be readable.
        """

    def each(self, function: Callable[[Any], Any], items: Sequence[Any], description: str) -> Iterator[Any]:
        """Yield the results of a function for items, in their order. The function, the items and the results pickle; `description` is for people."""

    def orphans(self, request: Any) -> Generator[Any, None, None]:
        """Yield the files that nothing references, as tables of `path_spill.LISTED`, for an `orphan_search.OrphanRequest`; see `find_in_process`."""

    def upsert_source(self, rows: Any, schema: Schema, key_ids: Sequence[int], *, updates: bool) -> UpsertSource:
        """Check the rows and determine the values of their keys. Nothing is written.

        Raises:
            SchemaMismatchError: the rows do not fit the schema, or lack a column of it that they are to update.
            InvalidInputError: two rows have the same key.
        """

    def check_runs_statements(self, operation: str) -> None:
        """Raise `UnsupportedFeatureError` if the engine cannot run a statement in this process, such as an `update` or a `merge`."""

    def run_statement(self, table: Any, statement: Statement) -> WriteResult:
        """Run a statement about a `Table`, and commit its changes. Raises `UnsupportedFeatureError` if the engine does not support SQL."""

    def upsert(self, request: UpsertRequest) -> UpsertedRows:
        """Find the rows that match, in one join, and write the new form of those that differ and the rows to insert.

        Raises:
            InvalidInputError: a key matches several rows of the table that it would update.
        """
