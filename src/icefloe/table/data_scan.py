"""`DataScan`: a read of a table: which snapshot, which rows, which columns; and its rows as Arrow, pandas or Spark.

Planning is the kernel's (`kernel/scan`); rows come from an engine. Spec: Scan Planning; Column Projection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, And, BooleanExpression
from icefloe.kernel.metadata.encryption import refuse_encrypted
from icefloe.kernel.metadata.manifests import table_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_history import ancestors, schemas_of_files, snapshot_as_of, snapshots_between
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_properties import NAME_MAPPING
from icefloe.kernel.ports import FileIO
from icefloe.kernel.scan.file_scan_task import FileScanTask
from icefloe.kernel.scan.scan_context import Parallel
from icefloe.kernel.scan.scan_planner import ScanPlan, plan_scan
from icefloe.kernel.schema.metadata_columns import METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_history import relax_required_fields, required_fields_absent_from_files
from icefloe.kernel.types import NestedField
from icefloe.table.engine import ScanRequest
from icefloe.table.find_engine import IN_PROCESS, engine_named
from icefloe.table.parallel_requests import in_threads

_APPEND = "append"  # the operation of snapshots that only add rows
_METADATA_COLUMNS = frozenset([*METADATA_COLUMNS, PARTITION_NAME])


@dataclass(frozen=True, kw_only=True)
class DataScan:
    """One read of a table. Every method that narrows it returns a new scan."""

    table_name: str
    metadata: TableMetadata
    io: FileIO
    row_filter: BooleanExpression = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool = True
    snapshot_id: int | None = None
    limit: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    # Every branch is written by the one schema that the table has, and so is read by it: as Java does.
    by_table_schema: bool = False
    branch: str | None = None  # whose history a time is looked up in; None for main
    appends: tuple[Snapshot, ...] | None = None  # of an incremental read: the snapshots whose rows are read, as they were appended

    def filter(self, row_filter: str | BooleanExpression) -> "DataScan":
        """Rows must match this as well."""
        return replace(self, row_filter=And(self.row_filter, to_expression(row_filter)))

    def select(self, *names: str) -> "DataScan":
        """Only these columns, in the table's order; metadata columns such as `_pos` come after them."""
        return replace(self, selected_fields=names)

    def use_ref(self, name: str) -> "DataScan":
        """Return a scan of the snapshot that a branch or tag names; a branch is read by the table's schema, a tag by its snapshot's.

        The branch `main` of a table without snapshots has no rows.

        Raises:
            NoSuchSnapshotError: the table has no such branch or tag.
        """
        ref = self.metadata.refs.get(name)
        if ref is None and name == MAIN and self.metadata.current_snapshot_id is None:
            return replace(self, snapshot_id=None, by_table_schema=True, branch=MAIN)
        if ref is None:
            known = ", ".join(sorted(self.metadata.refs)) or "none"
            raise NoSuchSnapshotError(
                f"{self.table_name} has no branch or tag {name!r}", table=self.table_name, next_step=f"there are: {known}"
            )
        return replace(self, snapshot_id=ref.snapshot_id, by_table_schema=ref.is_branch, branch=name if ref.is_branch else None)

    def as_of(self, timestamp_ms: int) -> "DataScan":
        """The snapshot that was current at a time: of `main` by the snapshot log, of another branch by its head's parents. Raises `NoSuchSnapshotError`."""
        if self.branch not in (None, MAIN):
            return self._as_of_on_branch(self.branch, timestamp_ms)
        snapshot = snapshot_as_of(self.metadata, timestamp_ms)
        if snapshot is None:
            log = self.metadata.snapshot_log
            raise NoSuchSnapshotError(
                f"{self.table_name} had no snapshot at {timestamp_ms} ms",
                table=self.table_name,
                next_step=f"its snapshot log begins at {log[0].timestamp_ms} ms"
                if log
                else "its metadata has no snapshot log; choose a snapshot by its id",
            )
        return replace(self, snapshot_id=snapshot.snapshot_id, by_table_schema=False)

    def _as_of_on_branch(self, branch: str, timestamp_ms: int) -> "DataScan":
        line = list(ancestors(self.metadata, self.metadata.refs[branch].snapshot_id))
        found = next((snapshot for snapshot in line if snapshot.timestamp_ms <= timestamp_ms), None)
        if found is None:
            is_whole = not line or line[-1].parent_snapshot_id is None
            raise NoSuchSnapshotError(
                f"the branch {branch!r} of {self.table_name} had no snapshot at {timestamp_ms} ms",
                table=self.table_name,
                next_step=f"its history begins at {line[-1].timestamp_ms if line else 'no'} ms"
                + ("" if is_whole else f"; what was before it, snapshot {line[-1].parent_snapshot_id}, was expired"),
            )
        return replace(self, snapshot_id=found.snapshot_id, by_table_schema=False)

    def appended_after(self, snapshot_id: int | None) -> "DataScan":
        """Return a scan of the rows that snapshots of the operation `append` added after a snapshot, up to the one that the scan reads.

        Rows are read as they were appended, whatever later snapshots deleted, replaced or compacted, in the table's current schema. Without a snapshot's id the
        range begins with the table. The start may have been expired, where its child was not.

        Raises:
            InvalidInputError: the start is no ancestor of the end.
            NoSuchSnapshotError: the end is not in the table.
        Spec: Snapshots (`operation`).
        """
        end = self.snapshot()
        found = snapshots_between(self.metadata, snapshot_id, None if end is None else end.snapshot_id)
        if found is None:
            raise InvalidInputError(
                f"snapshot {snapshot_id} of {self.table_name} is no ancestor of snapshot {None if end is None else end.snapshot_id}",
                table=self.table_name,
                snapshot_id=snapshot_id,
                next_step="name a start that the end was made from: see table.ancestors()",
            )
        appends = tuple(snapshot for snapshot in reversed(found) if snapshot.operation == _APPEND)
        return replace(self, appends=appends, snapshot_id=None if end is None else end.snapshot_id, by_table_schema=True)

    def snapshot(self) -> Snapshot | None:
        """The snapshot to be read; None for a table without one. Raises `NoSuchSnapshotError`."""
        if self.snapshot_id is None:
            return self.metadata.current_snapshot()
        found = self.metadata.snapshot_by_id(self.snapshot_id)
        if found is None:
            raise NoSuchSnapshotError(
                f"{self.table_name} has no snapshot {self.snapshot_id}",
                table=self.table_name,
                next_step="choose one from table.snapshots(); an expired one is gone",
            )
        return found

    def schema(self) -> Schema:
        """The schema rows are read with: the table's, or the snapshot's own where one was asked for by its id, a tag or a time."""
        snapshot = self.snapshot()
        if self.snapshot_id is None or self.by_table_schema or snapshot is None or snapshot.schema_id is None:
            return self.metadata.schema()
        return self.metadata.schema_by_id(snapshot.schema_id)

    def projection(self) -> Schema:
        """The columns asked for: the table's in its order, then metadata columns in the order asked. Raises `InvalidSchemaError` for an unknown one.

        A metadata column (`_file`, `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id`, `_last_updated_sequence_number`) is found where the table has no
        column of that name; `*` means none of them.
        """
        schema = self.schema()
        names = dict.fromkeys(self.selected_fields)
        metadata = [
            name for name in names if schema.find_id(name, case_sensitive=self.case_sensitive) is None and name in _METADATA_COLUMNS
        ]
        if not metadata:
            return schema.select(*names, case_sensitive=self.case_sensitive)
        own = [name for name in names if name not in metadata]
        kept = schema.select(*own, case_sensitive=self.case_sensitive)
        return Schema(*kept.fields, *(self._metadata_column(name) for name in metadata), schema_id=kept.schema_id)

    def as_held(self, schema: Schema) -> Schema:
        """The schema, or a part of it, with columns required only where every file of the snapshot surely has values in them.

        Whoever makes an optional column required says that no row lacks a value; rows are read, and engines told, as files are.
        """
        held = relax_required_fields(schema.fields, schemas_of_files(self.metadata, self.snapshot()))
        return schema if held == schema.fields else Schema(*held, schema_id=schema.schema_id)

    def _metadata_column(self, name: str) -> NestedField:
        return partition_column(table_partition_type(self.metadata)) if name == PARTITION_NAME else METADATA_COLUMNS[name]

    def plan(
        self,
        *,
        explain: bool = False,
        include_statistics: bool = False,
        find_covered: bool = False,
        parallel: Parallel = in_threads,
        prune_in_parallel: bool = False,
    ) -> ScanPlan:
        """The live files that may hold matching rows. With `explain`, every kept and skipped manifest and file gets its reason.

        `find_covered` tells the files that match whole. `parallel` reads manifests side by side, and with `prune_in_parallel` tests their files there too.
        """
        snapshot = self.snapshot()
        refuse_encrypted(snapshot, self.table_name)
        return plan_scan(
            self.metadata,
            snapshot,
            self.row_filter,
            self.io.read,
            case_sensitive=self.case_sensitive,
            parallel=parallel,
            prune_in_parallel=prune_in_parallel,
            explain=explain,
            include_statistics=include_statistics,
            find_covered=find_covered,
            schema=self.schema(),
            appends=self.appends,
        )

    def plan_files(self, *, include_statistics: bool = False) -> Sequence[FileScanTask]:
        """The planned files as tasks. Column statistics of the files are left out unless asked for, as they are most of a manifest."""
        parts = list(self.plan(include_statistics=include_statistics).parts)
        tasks: list[FileScanTask] = []
        while parts:
            # The columns of a part are let go when its tasks are made.
            tasks.extend(parts.pop(0).tasks())
        return tasks

    def to_arrow(self) -> Any:
        """The rows as a `pyarrow.Table`, read in this process."""
        return IN_PROCESS.read(self.request())

    def to_arrow_batch_reader(self) -> Any:
        """The rows as a `pyarrow.RecordBatchReader`, file after file."""
        return IN_PROCESS.read_batches(self.request())

    def to_pandas(self, **options: Any) -> Any:
        """The rows as a `pandas.DataFrame`; options go to `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_spark(self) -> Any:
        """The rows as a Spark DataFrame: Spark's own Parquet scan over the planned files. Starts a session where none is active."""
        return engine_named("spark").read(self.request())

    def count(self) -> int:
        """How many rows match; from metadata alone where all do and there are no deletes but deletion vectors, which say how many rows they delete."""
        if self.limit is None and isinstance(self.row_filter, AlwaysTrue):
            records = self.plan().records_after_deletes
            if records is not None:
                return records
        rows = replace(self, selected_fields=self._filter_columns()).to_arrow_batch_reader()
        return sum(batch.num_rows for batch in rows)

    def _filter_columns(self) -> tuple[str, ...]:
        return (self.schema().fields[0].name,) if self.schema().fields else ("*",)

    def request(self, projection: Schema | None = None, plan: ScanPlan | None = None) -> ScanRequest:
        """What an engine is asked for: the scan's own columns and files unless others are given. Raises `InvalidInputError` for a limit below 0."""
        if self.limit is not None and self.limit < 0:
            raise InvalidInputError(f"limit is {self.limit}; it counts rows, so it is 0 or more")
        schema = self.schema()
        return ScanRequest(
            table_name=self.table_name,
            plan=self.plan() if plan is None else plan,
            schema=self.as_held(schema),
            projection=self.as_held(self.projection() if projection is None else projection),
            row_filter=bind(self.row_filter, schema, case_sensitive=self.case_sensitive),
            specs={spec.spec_id: spec for spec in self.metadata.partition_specs},
            io=self.io,
            schemas=self.metadata.schemas,
            name_mapping=NAME_MAPPING.read(self.metadata.properties),
            limit=self.limit,
            may_be_missing=required_fields_absent_from_files(schema.fields, schemas_of_files(self.metadata, self.snapshot())),
        )
