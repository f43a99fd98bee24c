"""`RowLevelTable` and `RowLevelOperation`: UPDATE, MERGE and DELETE as Spark turned them into rows: checked, computed by one job, committed as one snapshot.

How the rows are computed is `broadcast_source.py`'s, the job is `spark/row_level/changed_rows_job.py`, the commit `table/rows/row_level_commit.py`.
Spec: Row-level Deletes; Row Lineage.
"""

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.errors import ReadOnlyTableError, UnsupportedFeatureError
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression, any_of
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.kernel.metadata.table_properties import DISTRIBUTION_MODE
from icefloe.kernel.partitioning.partition_spec import check_known_transforms
from icefloe.kernel.schema.metadata_columns import FILE, POS, ROW_ID
from icefloe.spark.bridge.callback import THIS, ConnectorObject, connector_method
from icefloe.spark.bridge.catalyst_plan import session_of
from icefloe.spark.row_level.broadcast_source import OF_MERGE, merge_rows_of
from icefloe.spark.row_level.changed_rows_job import RowPlaces, Unmatched, none_unmatched, row_places, write_changed_rows
from icefloe.spark.row_level.merge_counts import unmatched_of
from icefloe.spark.scan.cached_tables import recache
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.scan_builder import ReadableTable, SparkScanBuilder
from icefloe.spark.scan.table_selector import Selected
from icefloe.spark.write.sql_write import branch_of, understood
from icefloe.spark.write.write_options import WriteOptions
from icefloe.table.commits.commit_loop import CommitReport, commit
from icefloe.table.find_engine import engine_named
from icefloe.table.rows.row_level_commit import ChangedRows, Command, RowLevel, check_row_level, row_level_result
from icefloe.table.rows.staged_writes import branch_named
from icefloe.table.rows.write_context import commit_context, write_target
from icefloe.table.table_handle import LoadedMetadata
from icefloe.table.write_result import WriteResult


class RowLevelTable(ReadableTable):
    """The part of a loaded table that changes rows. Rows are those of the metadata that was loaded, which the commit is planned on."""

    def __init__(self, spark: SparkSession, selected: Selected) -> None:
        self._spark = spark
        self._selected = selected
        self._row_level_scans: list[PushedScan] = []
        self.snapshot_properties: Mapping[str, str] = {}  # besides those of options and settings
        self.written: WriteResult | None = None  # of the statement that ran

    @abstractmethod
    def name(self) -> str:
        """The table's name in SQL."""

    @abstractmethod
    def parts(self) -> Sequence[str]:
        """The name that statements have for it, its catalog first, a branch last; nothing where only options name it."""

    def recache(self) -> None:
        """After a statement that Spark did not run itself."""
        if self.parts():
            recache(self._spark, self.parts())

    def frame(self, rows: Any) -> DataFrame:
        """Rows that Spark hands over, as a DataFrame of their session."""
        return DataFrame(rows, self.session_of(rows.sparkSession()))

    def session_of(self, session: Any) -> SparkSession:
        """A session of Java's that runs a statement, by whose settings rows are written."""
        return session_of(self._spark, session)

    def _check_writable(self) -> None:
        if self._selected.is_past:
            raise ReadOnlyTableError(
                f"a tag or a snapshot of {self._selected.table.full_name} takes no writes",
                table=self._selected.table.full_name,
                next_step="write to the table or to a branch, such as t.branch_b",
            )

    def _options(self, options: Mapping[str, str]) -> WriteOptions:
        """A statement's options and the session's settings for it, as those of any write."""
        table = self._selected.table
        found = understood(self._spark, options, table.metadata, table.full_name)
        return replace(found, snapshot_properties={**found.snapshot_properties, **self.snapshot_properties})

    @connector_method
    def new_row_level_operation_builder(self, info: Mapping[str, Any]) -> "RowLevelOperationBuilder":
        return RowLevelOperationBuilder(self, Command[info["command"]], info["options"])

    def check_row_level(self, command: Command) -> None:
        """Raises what the statement would, as far as that is known before there are rows."""
        self._check_writable()
        # Whether a DELETE goes by metadata alone is not known yet; where it does not, it is refused when its rows are asked for.
        if command is not Command.DELETE:
            check_row_level(self._selected.table.handle, self._selected.table.metadata, command)

    def column_names(self) -> Collection[str]:
        """The columns that rows are written to."""
        return self._selected.table.metadata.schema().names

    def row_level_columns(self) -> list[str]:
        """The metadata columns that a row keeps."""
        return [ROW_ID.name] if self._selected.table.metadata.format_version > 2 else []

    def query_rows(self, session: Any, query: Any, joins: Collection[str] = ()) -> DataFrame:
        """The rows of a query that Spark hands over with its session, as planned or better, where it has one of these joins."""
        return merge_rows_of(self._spark, session, query, joins)

    def row_level(
        self, command: Command, rows: Callable[[], DataFrame], places: RowPlaces, given: Mapping[str, str], unmatched: Unmatched
    ) -> None:
        """Runs a statement with these options. The first column of its rows says what becomes of each."""
        self._check_writable()
        table = self._selected.table
        base, handle, engine = table.metadata, table.handle, engine_named("spark")
        check_row_level(handle, base, command)
        check_known_transforms(base.spec())
        options = self._options(given)
        branch = branch_of(options, self._selected.branch, table.full_name)
        with branch_named(is_named=branch is not None):
            context = commit_context(handle, base, options.snapshot_properties, branch or MAIN, engine)
        own = command.distribution_mode(base)
        properties = {} if own is None else {DISTRIBUTION_MODE.name: own}
        target = options.form.of(write_target(handle, replace(base, properties={**base.properties, **properties})))
        changed: ChangedRows = write_changed_rows(rows(), places, target, unmatched)
        action = RowLevel(handle, engine, base, command, self._row_filter(), changed, context, target)
        report = self._commit(action)
        self.written = row_level_result(action, command, changed, engine.name, report.attempt, report.attempts)

    def _commit(self, action: RowLevel) -> CommitReport:
        table = self._selected.table
        return commit(table.handle, action, LoadedMetadata(metadata=table.metadata, location=table.metadata_location))

    def _row_filter(self) -> BooleanExpression:
        """What every row fulfils that the statement looked at."""
        return any_of([question.scan.row_filter for question in self._row_level_scans]) if self._row_level_scans else AlwaysTrue()


class RowLevelOperationBuilder(ConnectorObject):
    """A statement before it is known to be one that can run."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.RowLevelOperationBuilder",)

    def __init__(self, table: RowLevelTable, command: Command, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self._command = command
        self._options = options

    @connector_method
    def build(self) -> "RowLevelOperation":
        self._table.check_row_level(self._command)
        return RowLevelOperation(self._table, self._command, self._options)


class RowLevelOperation(ConnectorObject):
    """A statement that Spark turns into rows: what becomes of each, its new values, and where it was. Java's `SparkCommand` asks it to `run`."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.SupportsDelta", "write.DeltaWriteBuilder", "write.DeltaWrite")

    def __init__(self, table: RowLevelTable, command: Command, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self._command = command
        self._options = options

    def says(self) -> Mapping[str, Any]:
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

    @connector_method
    def new_scan_builder(self, asked: Mapping[str, Any]) -> SparkScanBuilder:
        return SparkScanBuilder(self._table, {**asked, "operation": self._command.name})

    @connector_method
    def to_batch(self) -> None:
        """Asked where Java's `SparkRule` is not in the session."""
        raise UnsupportedFeatureError(
            f"rows of {self._text()} are written by Icefloe", next_step="attach the catalog to this session with icefloe.spark.attach"
        )

    @connector_method
    def run(self, session: Any, query: Any, projections: Any) -> None:
        """Runs the statement: Spark's session and query, and what it says of the places of the query's columns."""
        joins = OF_MERGE if self._command is Command.MERGE else ()
        row, metadata = (
            _places(one.get()) if one.isDefined() else [] for one in (projections.rowProjection(), projections.metadataProjection())
        )
        # A statement that names metadata columns has all of them among its columns. What Spark makes of these in a MERGE has too few of them.
        own = [(name, place) for name, place in row if name in self._table.column_names()]
        if self._command is Command.MERGE and len(own) < len(row):
            raise UnsupportedFeatureError(
                f"{self._text()}: Spark makes no rows of a MERGE that names metadata columns of its target",
                next_step="look for the keys of these rows in the source: USING (SELECT ... FROM the table WHERE _pos ...)",
            )
        places = row_places(own, _places(projections.rowIdProjection()), metadata)
        unmatched = unmatched_of(query) if self._command is Command.MERGE else none_unmatched
        self._table.row_level(self._command, lambda: self._table.query_rows(session, query, joins), places, self._options, unmatched)
        self._table.recache()


def _places(projection: Any) -> list[tuple[str, int]]:
    names = [field["name"] for field in json.loads(projection.schema().json())["fields"]]
    return list(zip(names, map(int, filter(None, projection.colOrdinals().mkString(",").split(","))), strict=True))
