"""`RowLevelTable` and `RowLevelOperation`: DELETE, UPDATE and MERGE, which Spark rewrites into rows, run as one job and committed as one snapshot.

A row of the rewritten statement has its operation (delete, update, insert), its new values, and the file and position of the old row. `merge_planner.py` plans
the rows of a MERGE, `changed_rows_job.py` writes them, and `operations/rows/row_level_commit.py` commits them.
Spec: Row-level Deletes; Row Lineage.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from icefloe.commit.attempt import Action
from icefloe.errors import CommitInvalidatedError, IcefloeError, UnsupportedFeatureError
from icefloe.maintenance.convert_equality_deletes import CHANGES_NO_ROW
from icefloe.operations.available_engines import engine_named
from icefloe.operations.commit_loop import commit, committed_result
from icefloe.operations.metadata_cache import LoadedMetadata, load_metadata
from icefloe.operations.pending_change import CommitReport
from icefloe.operations.rows.row_level_commit import ChangedRows, Command, RowLevel, check_row_level, insert_rules, row_level_result
from icefloe.operations.rows.table_writes import append
from icefloe.operations.rows.write_context import commit_context, write_target
from icefloe.operations.staging import branch_named
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.callback import THIS, ConnectorObject, connector_method
from icefloe.spark.bridge.catalyst_plan import chain
from icefloe.spark.bridge.messages import RowLevelOperationInfo
from icefloe.spark.bridge.spark_errors import FilesReplacedError
from icefloe.spark.row_level.changed_rows_job import RowOrdinals, Unmatched, none_unmatched, row_ordinals, write_changed_rows
from icefloe.spark.row_level.merge_planner import INSERT_JOINS, MERGE_JOINS, StatementRows, plan_merge_rows
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.readable_table import ReadableTable, ScanSource
from icefloe.spark.write.formatted_rows import RowsInForm
from icefloe.spark.write.sql_write import branch_of, statement_counts
from icefloe.spark.write.write_builder import SparkWriteBuilder, WritableTable
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, any_of
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_properties import DISTRIBUTION_MODE, FANOUT_ENABLED
from icefloe.spec.partitioning.partition_spec import check_known_transforms
from icefloe.spec.partitioning.transforms import VoidTransform
from icefloe.spec.schema.metadata_columns import FILE, POS, ROW_ID

# Spark 4.1 and later count rows by kind of clause, in the plan node that runs the clauses.
_CLAUSES = "MergeRows"
_KINDS = ("Updated", "Deleted")


def unmatched_of(query: Any) -> Unmatched:
    """Return a function that, after the job of a MERGE, returns how many updated and deleted rows matched no source row; see `Unmatched`."""
    _, clauses, name = chain(query, ("Project", "Filter"))
    if name != _CLAUSES:
        return _not_counted
    if not clauses.notMatchedBySourceInstructions().size():
        return none_unmatched
    return _row_counts if clauses.matchedInstructions().size() else _all_unmatched


def _not_counted(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return None, None


def _all_unmatched(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:  # noqa: ARG001
    return updated, deleted


def _row_counts(job: DataFrame, updated: int, deleted: int) -> tuple[int | None, int | None]:
    """Return Spark's counts of unmatched rows for a job; None if Spark has none, or they include tasks that ran twice, so that they do not add up."""
    plan = _clauses_node(job._jdf.queryExecution().executedPlan())
    if plan is None:
        return None, None
    counts: list[int] = []
    for kind, total in zip(_KINDS, (updated, deleted), strict=True):
        matched, unmatched = (_metric(plan, f"numTargetRows{side}{kind}") for side in ("Matched", "NotMatchedBySource"))
        if matched is None or unmatched is None or matched + unmatched != total:
            return None, None
        counts.append(unmatched)
    return counts[0], counts[1]


def _metric(plan: Any, name: str) -> int | None:
    metric = plan.metrics().get(name)
    return int(metric.get().value()) if metric.isDefined() else None


def _clauses_node(plan: Any) -> Any:
    """Find the node of a physical plan that runs the clauses of a MERGE, also inside stages of adaptive execution; None if there is none."""
    name = plan.nodeName()
    if name == _CLAUSES:
        return plan
    if name == "AdaptiveSparkPlan":
        return _clauses_node(plan.executedPlan())
    if name.endswith("QueryStage"):
        return _clauses_node(plan.plan())
    children = plan.children()
    for place in range(children.size()):
        node = _clauses_node(children.apply(place))
        if node is not None:
            return node
    return None


class RowLevelTable(WritableTable):
    """Base class of loaded tables: runs DELETE, UPDATE and MERGE of single rows. Commits are based on the loaded metadata, whose rows Spark has read.

    Attributes:
        written: the result of the last DELETE, UPDATE or MERGE of the table; None before it has run.
    """

    _row_level_scans: list[PushedScan]
    written: WriteResult | None = None

    @connector_method
    def new_row_level_operation_builder(self, info: RowLevelOperationInfo) -> "RowLevelOperationBuilder":
        """Return the builder of a DELETE, UPDATE or MERGE."""
        return RowLevelOperationBuilder(self, Command[info["command"]], info["options"])

    def check_row_level(self, command: Command) -> None:
        """Raise those errors of `row_level` that can be detected before the statement has rows."""
        self._check_writable()
        # A DELETE may need only metadata, which is not known yet; if it needs rows, it is checked when it has them.
        if command is not Command.DELETE:
            check_row_level(self._selected.table.handle, self._selected.table.metadata, command)

    def column_names(self) -> Collection[str]:
        """Return the names of the table's columns."""
        return self._selected.table.metadata.schema().names

    def row_level_columns(self) -> list[str]:
        """Return the metadata columns whose values an updated row keeps."""
        return [ROW_ID.name] if self._selected.table.metadata.format_version > 2 else []

    def query_rows(self, session: Any, query: Any, *, is_append: bool) -> DataFrame:
        """Return the rows of a write's query.

        Spark also runs a MERGE that only inserts as an append. So `merge_planner.py` searches the query of an append for the join of such a MERGE, and improves
        its plan.
        """
        return plan_merge_rows(self._spark, session, query, INSERT_JOINS if is_append else ()).frame

    def statement_rows(self, session: Any, query: Any, command: Command) -> StatementRows:
        """Return the rows of a DELETE, UPDATE or MERGE. The rows of a MERGE are planned by `merge_planner.py`."""
        return plan_merge_rows(self._spark, session, query, MERGE_JOINS if command is Command.MERGE else ())

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], builder: SparkWriteBuilder) -> WriteResult | None:
        """Write rows and commit them. A MERGE that only inserts is committed with the conflict rules of a MERGE. Raises the errors of `row_level`."""
        if builder.merge_reads in (None, "none"):
            return super().write(spark, rows, builder)
        self._check_writable()
        table = self._selected.table
        base, handle = table.metadata, table.handle
        options = self._options(builder.options, spark)
        branch = branch_of(options, self._selected.branch, table.full_name)
        row_filter = self._row_filter() if builder.merge_reads == "scanned" else AlwaysTrue()
        with branch_named(is_named=branch is not None):
            rows_in_form = RowsInForm(rows=rows(), form=options.form)
            prepared = append(
                handle, base, rows_in_form, options.snapshot_properties, branch or MAIN, partial(insert_rules, base, row_filter)
            )
        report = self._commit(prepared.action)
        result = committed_result(prepared.result(report.attempt, report.attempts), report)
        self.written = replace(result, operation=Command.MERGE.value, rows_inserted=result.added_records)
        return self.written

    def row_level(
        self, command: Command, rows: Callable[[], StatementRows], ordinals: RowOrdinals, options: Mapping[str, str], unmatched: Unmatched
    ) -> None:
        """Write the changed rows of a statement and commit them.

        Args:
            command: the kind of statement.
            rows: a function that returns the statement's rows, whose first column is the operation.
            ordinals: the ordinals of the columns in the statement's rows.
            options: the statement's write options.
            unmatched: a function that counts, after the job, the updated and deleted rows of a MERGE that matched no source row.

        Raises:
            ReadOnlyTableError: the table is a tag or a snapshot.
            UnsupportedFeatureError: the table's partition spec has an unknown transform, from a later version of the format.
            CommitInvalidatedError: a concurrent commit made a change that conflicts with the isolation level.
            FilesReplacedError: a concurrent commit only replaced files, so that the statement can run again.
            EngineError: Spark's job failed.
        """
        self._check_writable()
        table = self._selected.table
        base, handle, engine = table.metadata, table.handle, engine_named("spark")
        check_row_level(handle, base, command)
        check_known_transforms(base.spec())
        write_options = self._options(options)
        branch = branch_of(write_options, self._selected.branch, table.full_name)
        with branch_named(is_named=branch is not None):
            context = commit_context(handle, base, write_options.snapshot_properties, branch or MAIN, engine)
        distribution_mode = command.distribution_mode(base)
        properties = {} if distribution_mode is None else {DISTRIBUTION_MODE.name: distribution_mode}
        target = write_options.form.of(write_target(handle, replace(base, properties={**base.properties, **properties})))
        planned = rows()
        # Rows that are grouped by the fields of the spec need no shuffle: each partition is written by one task.
        fields = {(item.source_id, str(item.transform)) for item in base.spec().fields if not isinstance(item.transform, VoidTransform)}
        if fields and fields <= planned.grouped_by:
            target = replace(target, properties={**target.properties, DISTRIBUTION_MODE.name: "none", FANOUT_ENABLED.name: "true"})
        changed: ChangedRows = write_changed_rows(planned.frame, ordinals, target, unmatched)
        action = RowLevel(handle, engine, base, command, self._row_filter(), changed, context, target)
        report = self._commit(action)
        result = row_level_result(action, command, changed, engine.name, report.attempt, report.attempts)
        self.written = committed_result(result, report)

    def _commit(self, action: Action) -> CommitReport:
        table = self._selected.table
        try:
            return commit(table.handle, action, LoadedMetadata(metadata=table.metadata, location=table.metadata_location))
        except CommitInvalidatedError as error:
            if not self._changed_no_row(error.snapshot_id):
                raise
            raise FilesReplacedError(
                error.message,
                table=table.full_name,
                path=error.path,
                snapshot_id=error.snapshot_id,
                problems=error.problems,
                next_step=error.next_step,
            ) from error

    def _changed_no_row(self, snapshot_id: int | None) -> bool:
        """Return whether a snapshot that was committed after the statement had read the table has the same rows as its parent. False if unknown."""
        table = self._selected.table
        # An error may contain a snapshot that the statement has read, for example one that a rollback has removed from the branch.
        if snapshot_id is None or table.metadata.snapshot_by_id(snapshot_id) is not None:
            return False
        try:
            newer = load_metadata(table.handle).metadata.snapshot_by_id(snapshot_id)
        except IcefloeError:  # the original conflict is raised
            return False
        return newer is not None and (newer.operation == "replace" or newer.summary.get(CHANGES_NO_ROW) == "true")

    def _row_filter(self) -> BooleanExpression:
        """Return a filter that matches every row that the statement's recorded scans have read; it matches all rows if no scan is recorded."""
        return any_of([pushed.scan.row_filter for pushed in self._row_level_scans]) if self._row_level_scans else AlwaysTrue()


class RowLevelOperationBuilder(ConnectorObject):
    """Creates the `RowLevelOperation` of a DELETE, UPDATE or MERGE, after checking that the table supports it."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.RowLevelOperationBuilder",)

    def __init__(self, table: RowLevelTable, command: Command, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self._command = command
        self._options = options

    @connector_method
    def build(self) -> "RowLevelOperation":
        """Return the operation. Raises the errors of `RowLevelTable.check_row_level`."""
        self._table.check_row_level(self._command)
        return RowLevelOperation(self._table, self._command, self._options)


class RowLevelOperation(ScanSource):
    """A DELETE, UPDATE or MERGE that Spark rewrites into rows (`SupportsDelta`). Java's `SparkCommand` calls `run` instead of Spark's delta write."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.SupportsDelta", "write.DeltaWriteBuilder", "write.DeltaWrite")

    def __init__(self, table: RowLevelTable, command: Command, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self._command = command
        self._options = options

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {
            "command": self._command.name,
            "description": self._text(),
            "toString": self._text(),
            "rowId": [FILE.name, POS.name],
            "requiredMetadataAttributes": self._table.row_level_columns(),
            "newWriteBuilder": THIS,
            "build": THIS,
        }

    def _text(self) -> str:
        return f"{self._command.name} of {self._table.name()}"

    def _read_table(self) -> tuple[ReadableTable, str | None]:
        return self._table, self._command.name

    @connector_method
    def to_batch(self) -> None:
        """Raise `UnsupportedFeatureError`, because Spark calls this method for its own delta write, which it uses only without Java's `SparkRule`."""
        raise UnsupportedFeatureError(
            f"rows of {self._text()} are written by Icefloe", next_step="attach the catalog to this session with icefloe.spark.attach"
        )

    @connector_method
    def run(self, session: JavaObject, query: JavaObject, projections: JavaObject) -> dict[str, int | None] | None:
        """Run the statement, commit it, and return the counts of `statement_counts`.

        Args:
            session: the Java session that runs the statement.
            query: the optimized plan of the statement's rows.
            projections: Spark's `WriteDeltaProjections`, with the ordinals of the row's columns, of the row id's columns and of the metadata columns.
        """
        row, metadata = (
            _column_ordinals(projection.get()) if projection.isDefined() else []
            for projection in (projections.rowProjection(), projections.metadataProjection())
        )
        # If a statement refers to metadata columns, its columns include all of them; Spark's rows for such a MERGE have too few metadata columns.
        table_columns = [(name, ordinal) for name, ordinal in row if name in self._table.column_names()]
        if self._command is Command.MERGE and len(table_columns) < len(row):
            raise UnsupportedFeatureError(
                f"{self._text()}: Spark makes no rows of a MERGE that names metadata columns of its target",
                next_step="look for the keys of these rows in the source: USING (SELECT ... FROM the table WHERE _pos ...)",
            )
        ordinals = row_ordinals(table_columns, _column_ordinals(projections.rowIdProjection()), metadata)
        unmatched = unmatched_of(query) if self._command is Command.MERGE else none_unmatched
        self._table.row_level(
            self._command, lambda: self._table.statement_rows(session, query, self._command), ordinals, self._options, unmatched
        )
        self._table.recache()
        return statement_counts(self._table.written)


def _column_ordinals(projection: Any) -> list[tuple[str, int]]:
    names = [field["name"] for field in json.loads(projection.schema().json())["fields"]]
    return list(zip(names, map(int, filter(None, projection.colOrdinals().mkString(",").split(","))), strict=True))
