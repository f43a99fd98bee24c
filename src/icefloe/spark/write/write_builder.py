"""`WritableTable`: a table that Spark SQL writes rows to and deletes rows of by a filter; `SparkWriteBuilder`: one write.

What is written over what is `sql_write.py`; UPDATE and MERGE are `row_level.py`. Spec: Writing Data Files.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.spark.bridge.callback import THIS, ConnectorObject, connector_method
from icefloe.spark.row_level.broadcast_source import OF_INSERTS
from icefloe.spark.row_level.operation import RowLevelTable
from icefloe.spark.scan.filter_pushdown import expressions_of
from icefloe.spark.write.sql_write import Write, branch_of, run_write, understood
from icefloe.table.rows.staged_writes import branch_named


class WritableTable(RowLevelTable):
    """The part of a loaded table that rows are written to."""

    @connector_method
    def can_delete_where(self, predicates: list[Any]) -> bool:
        return not self._selected.is_past and None not in expressions_of(predicates, self._selected.table.schema())

    @connector_method
    def delete_where(self, predicates: list[Any]) -> None:
        self._check_writable()
        properties = self._options({}).snapshot_properties
        with branch_named(is_named=self._selected.branch is not None):
            self._selected.table.delete(self._filter_of(predicates), properties, branch=self._selected.write_branch)

    @connector_method
    def truncate_table(self) -> bool:
        self.delete_where([])
        return True

    @connector_method
    def new_write_builder(self, info: Mapping[str, Any]) -> "SparkWriteBuilder":
        return SparkWriteBuilder(self, info["options"])

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], asked: "SparkWriteBuilder") -> None:
        """Rows of a session: appended, or in the place of those that the predicates or the rows' partitions say."""
        self._check_writable()
        table = self._selected.table
        options = understood(spark, asked.options, table.metadata, table.full_name)
        self._run(
            Write(
                rows=rows(),
                options=options,
                branch=branch_of(options, self._selected.branch, table.full_name),
                overwrite_filter=None if asked.over is None else self._filter_of(asked.over),
                whole_partitions=asked.whole_partitions,
            )
        )

    def _run(self, write: Write) -> None:
        run_write(self._selected.table, write)

    def _filter_of(self, predicates: Sequence[Any]) -> BooleanExpression:
        found = expressions_of(predicates, self._selected.table.schema())
        return all_of([one for one in found if one is not None]) if found else AlwaysTrue()


class SparkWriteBuilder(ConnectorObject):
    """Which rows the written ones replace, and the write itself, which brings a Dataset of them."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.SupportsOverwriteV2", "write.SupportsDynamicOverwrite", "write.V1Write")

    def __init__(self, table: WritableTable, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self.options = options
        self.over: Sequence[Any] | None = None
        self.whole_partitions = False

    def says(self) -> Mapping[str, Any]:
        name = self._table.name()
        return {"build": THIS, "toInsertableRelation": THIS, "description": f"write to {name}", "toString": name}

    @connector_method
    def can_overwrite(self, predicates: list[Any]) -> bool:
        return self._table.can_delete_where(predicates)

    @connector_method
    def overwrite(self, predicates: list[Any]) -> str:
        self.over = predicates
        return THIS

    @connector_method
    def truncate(self) -> str:
        return self.overwrite([])

    @connector_method
    def overwrite_dynamic_partitions(self) -> str:
        self.whole_partitions = True
        return THIS

    @connector_method
    def run(self, session: Any, query: Any) -> None:
        """Writes and commits the rows of a query; those to append may be the rows of a MERGE that only inserts."""
        joins = OF_INSERTS if self.over is None and not self.whole_partitions else ()
        self._table.write(self._table.session_of(session), lambda: self._table.query_rows(session, query, joins), self)
        self._table.recache()

    @connector_method
    def insert(self, rows: Any) -> None:
        """Writes and commits."""
        frame = self._table.frame(rows)
        self._table.write(frame.sparkSession, lambda: frame, self)
