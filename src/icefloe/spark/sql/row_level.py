"""`RowLevelAnswers`: UPDATE, MERGE and DELETE as Spark turned them into rows: checked, computed by one job, committed as one snapshot.

How the rows are computed is `gathered_source.py`'s, the job is `spark/changed_rows.py`, the commit `table/rows/row_level.py`. Floor: spark.
Spec: Row-level Deletes; Row Lineage.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from icefloe.errors import ReadOnlyTableError
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression, any_of
from icefloe.kernel.partitioning.partition_spec import check_known_transforms
from icefloe.kernel.schema.metadata_columns import FILE, POS, ROW_ID
from icefloe.spark.changed_rows import row_places, write_changed_rows
from icefloe.spark.sql.answers import Answers, answer
from icefloe.spark.sql.gathered_source import OF_MERGE, merged_rows
from icefloe.spark.sql.scan_answers import ScanQuestion
from icefloe.spark.sql.selectors import Selected
from icefloe.spark.sql.writing import branch_of, understood
from icefloe.spark.write_options import WriteOptions
from icefloe.table.commits.commit_loop import CommitReport, commit
from icefloe.table.engines import engine_named
from icefloe.table.handle import LoadedMetadata
from icefloe.table.result import WriteResult
from icefloe.table.rows.row_level import ChangedRows, Command, RowLevel, check_row_level, row_level_result
from icefloe.table.rows.write_target import commit_context, write_target


class RowLevelAnswers(Answers):
    """The part of a loaded table that changes rows. Rows are those of the metadata that was loaded, which the commit is planned on."""

    def __init__(self, spark: SparkSession, selected: Selected) -> None:
        self._spark = spark
        self._selected = selected
        self._row_level_scans: list[ScanQuestion] = []
        self.snapshot_properties: Mapping[str, str] = {}  # besides those of options and settings
        self.written: WriteResult | None = None  # of the statement that ran

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

    @answer
    def check_row_level(self, command: str) -> None:
        self._check_writable()
        asked = Command[command]
        # Whether a DELETE goes by metadata alone is not known yet; where it does not, it is refused when its rows are asked for.
        if asked is not Command.DELETE:
            check_row_level(self._selected.table.handle, self._selected.table.metadata, asked)

    @answer
    def row_id_columns(self, _: Any) -> list[str]:
        return [FILE.name, POS.name]

    @answer
    def row_level_columns(self, _: Any) -> list[str]:
        return [ROW_ID.name] if self._selected.table.metadata.format_version > 2 else []

    @answer
    def row_level(self, given: Any) -> None:
        """Runs a statement: the places of the columns in the rows, in JSON, and the session and the query by which Spark computes the rows."""
        self._check_writable()
        asked = json.loads(given[0])
        table, command = self._selected.table, Command[asked["command"]]
        base, handle, engine = table.metadata, table.handle, engine_named("spark")
        check_row_level(handle, base, command)
        check_known_transforms(base.spec())
        options = self._options(asked["options"])
        context = commit_context(
            handle, base, options.snapshot_properties, branch_of(options, self._selected.branch, table.full_name), engine
        )
        places = row_places(asked["row"] or (), asked["row_id"], asked["metadata"] or ())
        rows = merged_rows(self._spark, given[1], given[2], OF_MERGE if command is Command.MERGE else ())
        changed: ChangedRows = write_changed_rows(rows, places, options.form.of(write_target(handle, base)))
        action = RowLevel(handle, engine, base, command, self._row_filter(), changed, context)
        report = self._commit(action)
        self.written = row_level_result(action, command, changed, engine.name, report.attempt, report.attempts)

    def _commit(self, action: RowLevel) -> CommitReport:
        table = self._selected.table
        return commit(table.handle, action, LoadedMetadata(metadata=table.metadata, location=table.metadata_location))

    def _row_filter(self) -> BooleanExpression:
        """What every row fulfils that the statement looked at."""
        return any_of([question.scan.row_filter for question in self._row_level_scans]) if self._row_level_scans else AlwaysTrue()
