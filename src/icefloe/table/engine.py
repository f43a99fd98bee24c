"""`Engine`: the small protocol by which a table's rows are read and written, in-process or on Spark, without this floor importing Spark.

Engines are found by the type of the rows handed in or by name, through the package's entry points (`icefloe.engines`). The in-process engine is
`icefloe.table.in_process`; Spark's is `icefloe.spark.engine`. Floor: table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from icefloe.datafile.rewrite import RewrittenFile
from icefloe.datafile.target import WriteTarget
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.plan import ScanPlan
from icefloe.kernel.schema.name_mapping import NameMapping
from icefloe.kernel.schema.schema import Schema

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

    def positions(self, request: PositionsRequest) -> list[NDArray[np.int64]]:
        """For each task, in their order: where in its file the rows lie that match and are not deleted yet, ascending from 0."""

    def read(self, request: ScanRequest) -> Any:
        """The rows in the engine's own form: an Arrow table, a Spark DataFrame."""
