"""`WritableTable`: a table to which rows are written, and from which rows are deleted by a filter; and `SparkWriteBuilder`, a write to such a table.

`sql_write.py` checks and commits the rows. `row_level/operation.py` implements DELETE of single rows, UPDATE and MERGE; its `RowLevelTable` extends
`WritableTable`. Spec: Writing Data Files.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from icefloe.errors import ReadOnlyTableError
from icefloe.operations.staging import branch_named
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.callback import THIS, ConnectorObject, connector_method
from icefloe.spark.bridge.catalyst_plan import rows_of, session_of
from icefloe.spark.bridge.messages import Expression, MergeReads, WriteInfo
from icefloe.spark.scan.filter_pushdown import to_expressions
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.scan.spark_scan import ReadableTable
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.write.sql_write import Write, branch_of, options_of_write, run_write, statement_counts
from icefloe.spark.write.write_options import WriteOptions
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, all_of


class WritableTable(ReadableTable):
    """The part of a loaded table that appends, overwrites and deletes by a filter.

    Attributes:
        snapshot_properties: entries for the snapshot's summary, in addition to those from options and settings.
    """

    _selected: TableSelection
    snapshot_properties: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def name(self) -> str:
        """Return the table's name in SQL."""

    @abstractmethod
    def parts(self) -> Sequence[str]:
        """Return the table's name in statements: catalog, namespace, table, branch; empty if it is only known from options."""

    def recache(self) -> None:
        """Make Spark read cached DataFrames of the table again, which it does by itself only after statements that it runs."""
        if self.parts():
            recache(self._spark, self.parts())

    def frame(self, rows: Any) -> DataFrame:
        """Return Java's Dataset as a DataFrame of the Dataset's session."""
        return DataFrame(rows, self.session_of(rows.sparkSession()))

    def session_of(self, session: Any) -> SparkSession:
        """Return the Python session for a Java session, whose settings the write uses."""
        return session_of(self._spark, session)

    def query_rows(self, session: Any, query: Any, *, is_append: bool) -> DataFrame:  # noqa: ARG002 subclasses plan appends otherwise
        """Return the rows of a write's query.

        Args:
            session: the Java session that runs the write.
            query: the logical plan of the rows.
            is_append: True if the write replaces no rows.
        """
        return rows_of(self._spark, session, query)

    def _check_writable(self) -> None:
        if self._selected.is_past:
            raise ReadOnlyTableError(
                f"a tag or a snapshot of {self._selected.table.full_name} takes no writes",
                table=self._selected.table.full_name,
                next_step="write to the table or to a branch, such as t.branch_b",
            )

    def _options(self, options: Mapping[str, str], spark: SparkSession | None = None) -> WriteOptions:
        """Return the options of a statement, completed by the settings of a session as for any write; by default of the attached session."""
        table = self._selected.table
        write_options = options_of_write(spark or self._spark, options, table.metadata, table.full_name)
        return replace(write_options, snapshot_properties={**write_options.snapshot_properties, **self.snapshot_properties})

    @connector_method
    def can_delete_where(self, predicates: list[Expression]) -> bool:
        """Return True if all predicates can be translated to Iceberg expressions, and the table can be written."""
        return not self._selected.is_past and None not in to_expressions(predicates, self._selected.table.schema())

    @connector_method
    def delete_where(self, predicates: list[Expression]) -> dict[str, int | None] | None:
        """Delete the rows that match all predicates, commit, and return the statement's counts."""
        self._check_writable()
        properties = self._options({}).snapshot_properties
        with branch_named(is_named=self._selected.branch is not None):
            result = self._selected.table.delete(self._filter_of(predicates), properties, branch=self._selected.write_branch)
        return statement_counts(result)

    @connector_method
    def truncate_table(self) -> bool:
        """Delete all rows and commit."""
        self.delete_where([])
        return True

    @connector_method
    def new_write_builder(self, info: WriteInfo) -> "SparkWriteBuilder":
        """Return the builder of a write."""
        return SparkWriteBuilder(self, info["options"])

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], builder: "SparkWriteBuilder") -> WriteResult | None:
        """Write rows and commit them.

        Args:
            spark: the session whose settings complete the write's options.
            rows: a function that returns the rows; it is called after the checks of the table.
            builder: the write's options, and the rows that it replaces.

        Returns:
            The result; None if there was nothing to write.
        """
        self._check_writable()
        table = self._selected.table
        options = options_of_write(spark, builder.options, table.metadata, table.full_name)
        return self._run(
            Write(
                rows=rows(),
                options=options,
                branch=branch_of(options, self._selected.branch, table.full_name),
                overwrite_filter=None if builder.overwrite_predicates is None else self._filter_of(builder.overwrite_predicates),
                whole_partitions=builder.whole_partitions,
            )
        )

    def _run(self, write: Write) -> WriteResult | None:
        return run_write(self._selected.table, write)

    def _filter_of(self, predicates: Sequence[Any]) -> BooleanExpression:
        expressions = to_expressions(predicates, self._selected.table.schema())
        return all_of([expression for expression in expressions if expression is not None]) if expressions else AlwaysTrue()


class SparkWriteBuilder(ConnectorObject):
    """A write: its options and the rows that it replaces. It implements Spark's `WriteBuilder` and `Write`, and writes a Dataset (`V1Write`).

    Attributes:
        options: the write's options, by name.
        overwrite_predicates: Spark's predicates for the rows to replace; None for an append.
        whole_partitions: True if the write replaces the partitions that contain its rows.
        merge_reads: for a MERGE that only inserts, the rows of the table that it has read; None for any other write.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("write.SupportsOverwriteV2", "write.SupportsDynamicOverwrite", "write.V1Write")

    def __init__(self, table: WritableTable, options: Mapping[str, str]) -> None:
        self._table = self.owner = table
        self.options = options
        self.overwrite_predicates: Sequence[Any] | None = None
        self.whole_partitions = False
        self.merge_reads: MergeReads | None = None

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        name = self._table.name()
        return {"build": THIS, "toInsertableRelation": THIS, "description": f"write to {name}", "toString": name}

    @connector_method
    def can_overwrite(self, predicates: list[Expression]) -> bool:
        """Return True if the rows that match these predicates can be replaced."""
        return self._table.can_delete_where(predicates)

    @connector_method
    def overwrite(self, predicates: list[Expression]) -> str:
        """Replace the rows that match all predicates."""
        self.overwrite_predicates = predicates
        return THIS

    @connector_method
    def truncate(self) -> str:
        """Replace all rows."""
        return self.overwrite([])

    @connector_method
    def overwrite_dynamic_partitions(self) -> str:
        """Replace the partitions that contain the written rows."""
        self.whole_partitions = True
        return THIS

    @connector_method
    def run(self, session: JavaObject, query: JavaObject, merge_reads: MergeReads | None) -> dict[str, int | None] | None:
        """Write and commit the rows of a query, and return the counts. Spark plans a MERGE that only inserts as an append of its rows.

        Args:
            session: the Java session that runs the write.
            query: the optimized plan of the rows.
            merge_reads: for such a MERGE, the rows of the table that its query reads; None for any other write.
        """
        self.merge_reads = merge_reads
        is_append = self.overwrite_predicates is None and not self.whole_partitions
        result = self._table.write(
            self._table.session_of(session), lambda: self._table.query_rows(session, query, is_append=is_append), self
        )
        self._table.recache()
        return statement_counts(result)

    @connector_method
    def insert(self, rows: JavaObject) -> dict[str, int | None] | None:
        """Write and commit the rows of Java's Dataset, and return the counts."""
        frame = self._table.frame(rows)
        return statement_counts(self._table.write(frame.sparkSession, lambda: frame, self))
