"""`WritableTable`: a table that Spark can append to, overwrite, and delete from by a filter; and `SparkWriteBuilder`, a write to such a table.

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

from icefloe.errors import ReadOnlyTableError, UnsupportedFeatureError
from icefloe.operations.staging import branch_named
from icefloe.operations.write_result import WriteResult
from icefloe.spark.bridge.callback import THIS, ConnectorObject, connector_method
from icefloe.spark.bridge.catalyst_plan import rows_of, session_of
from icefloe.spark.bridge.messages import Expression, MergeReads, WriteInfo
from icefloe.spark.scan.filter_pushdown import to_expressions
from icefloe.spark.scan.readable_table import ReadableTable
from icefloe.spark.scan.spark_cache import recache
from icefloe.spark.scan.table_selector import TableSelection
from icefloe.spark.write.sql_write import Write, branch_of, options_of_write, run_write, statement_counts
from icefloe.spark.write.stream_write import output_mode, write_epoch
from icefloe.spark.write.write_options import WriteOptions
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.table.epoch_changes import OutputMode


class WritableTable(ReadableTable):
    """Base class of loaded tables: runs appends, overwrites, and deletes by a filter.

    Attributes:
        snapshot_properties: entries for the snapshot's summary, in addition to the entries from options and settings.
        is_committed_later: whether writes to the table are committed later, with its creation.
    """

    is_committed_later = False
    _selected: TableSelection
    _query_of_epochs: str | None = None  # the stream whose epochs were written to this table
    snapshot_properties: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def name(self) -> str:
        """Return the table's name in SQL."""

    @abstractmethod
    def parts(self) -> Sequence[str]:
        """Return the parts of the table's name in statements: catalog, namespace, table, branch. Empty for a table that only options describe."""

    def recache(self) -> None:
        """Make Spark drop cached rows of the table, which it does by itself only after statements that it runs. Call it after a commit."""
        if self.parts():
            recache(self._spark, self.parts())

    def frame(self, rows: Any) -> DataFrame:
        """Convert a Java Dataset to a DataFrame of the same session."""
        return DataFrame(rows, self.session_of(rows.sparkSession()))

    def session_of(self, session: Any) -> SparkSession:
        """Return the Python session for the Java session that runs a write, whose settings the write uses."""
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
        """Parse the options of a statement, with the settings of a session as defaults; without `spark`, of the session to which the catalog is attached."""
        table = self._selected.table
        write_options = options_of_write(spark or self._spark, options, table.metadata, table.full_name)
        return replace(write_options, snapshot_properties={**write_options.snapshot_properties, **self.snapshot_properties})

    @connector_method
    def can_delete_where(self, predicates: list[Expression]) -> bool:
        """Return whether `delete_where` can delete by these predicates: each has an Iceberg expression, and the table is not read-only."""
        return not self._selected.is_past and None not in to_expressions(predicates, self._selected.table.schema())

    @connector_method
    def delete_where(self, predicates: list[Expression]) -> dict[str, int | None] | None:
        """Delete the rows that match all predicates, commit, and return the counts of `statement_counts`."""
        self._check_writable()
        properties = self._options({}).snapshot_properties
        with branch_named(is_named=self._selected.branch is not None):
            result = self._selected.table.delete(self._filter_of(predicates), properties, branch=self._selected.write_branch)
        return statement_counts(result)

    @connector_method
    def truncate_table(self) -> bool:
        """Delete all rows, commit, and return True."""
        self.delete_where([])
        return True

    @connector_method
    def new_write_builder(self, info: WriteInfo) -> "SparkWriteBuilder":
        """Return a builder for a write with the options in `info`."""
        return SparkWriteBuilder(self, info["options"], info["queryId"])

    def write(self, spark: SparkSession, rows: Callable[[], DataFrame], builder: "SparkWriteBuilder") -> WriteResult | None:
        """Write rows and commit them.

        Args:
            spark: the session whose settings complete the write's options.
            rows: a function that returns the rows; it is called after the checks of the table.
            builder: the write's options, and which rows it replaces.

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

    def write_epoch(self, builder: "SparkWriteBuilder", epoch: int, rows: DataFrame) -> WriteResult | None:
        """Write and commit the rows of an epoch of a stream, see `stream_write.write_epoch`. Spark loads the table once, when the stream starts."""
        self._check_writable()
        table = self._selected.table.refresh()
        options = options_of_write(rows.sparkSession, builder.options, table.metadata, table.full_name)
        mode = output_mode(self._spark, builder.query_id)
        write = Write(
            rows=rows,
            options=options,
            branch=branch_of(options, self._selected.branch, table.full_name),
            overwrite_filter=AlwaysTrue() if mode is OutputMode.COMPLETE else None,
            upserts=mode is OutputMode.UPDATE,
        )
        result = write_epoch(table, write, builder.query_id, epoch, mode, is_first=self._query_of_epochs != builder.query_id)
        self._query_of_epochs = builder.query_id
        return result

    def _run(self, write: Write) -> WriteResult | None:
        return run_write(self._selected.table, write, self._selected.table.transaction)

    def _filter_of(self, predicates: Sequence[Any]) -> BooleanExpression:
        expressions = to_expressions(predicates, self._selected.table.schema())
        return all_of([expression for expression in expressions if expression is not None]) if expressions else AlwaysTrue()


class SparkWriteBuilder(ConnectorObject):
    """A write to a table: Spark sets which rows it replaces, then passes the new rows. It implements Spark's `WriteBuilder`, `Write` and `V1Write`.

    Attributes:
        options: the write's options, by name.
        query_id: the id of the stream that writes; for any other write a random one.
        overwrite_predicates: Spark's predicates for the rows to replace; None for an append.
        whole_partitions: True if the write replaces the partitions that contain its rows.
        merge_reads: for a MERGE that only inserts, which rows of the table it has read (see `MergeReads`); None for any other write.
    """

    interfaces: ClassVar[tuple[str, ...]] = (
        "write.SupportsOverwriteV2",
        "write.SupportsDynamicOverwrite",
        "org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend",
        "write.V1Write",
    )

    def __init__(self, table: WritableTable, options: Mapping[str, str], query_id: str) -> None:
        self._table = self.owner = table
        self.options = options
        self.query_id = query_id
        self.overwrite_predicates: Sequence[Any] | None = None
        self.whole_partitions = False
        self.merge_reads: MergeReads | None = None

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        name = self._table.name()
        return {
            "build": THIS,
            "toInsertableRelation": THIS,
            "description": f"write to {name}",
            "toString": name,
            "isCommittedLater": self._table.is_committed_later,
        }

    @connector_method
    def can_overwrite(self, predicates: list[Expression]) -> bool:
        """Return whether the write can replace the rows that match these predicates: each has an Iceberg expression."""
        return self._table.can_delete_where(predicates)

    @connector_method
    def overwrite(self, predicates: list[Expression]) -> str:
        """Make the write replace the rows that match all predicates. Returns `THIS`, for the builder itself."""
        self.overwrite_predicates = predicates
        return THIS

    @connector_method
    def truncate(self) -> str:
        """Make the write replace all rows."""
        return self.overwrite([])

    @connector_method
    def overwrite_dynamic_partitions(self) -> str:
        """Make the write replace the partitions that contain its rows."""
        self.whole_partitions = True
        return THIS

    @connector_method
    def to_streaming(self) -> "StreamWrite":
        """Return the write of a stream."""
        return StreamWrite(self._table, self)

    @connector_method
    def run(self, session: JavaObject, query: JavaObject, merge_reads: MergeReads | None) -> dict[str, int | None] | None:
        """Write and commit the rows of a query, and return the counts of `statement_counts`. Spark also plans a MERGE that only inserts as an append.

        Args:
            session: the Java session that runs the write.
            query: the optimized plan of the rows.
            merge_reads: for a MERGE that only inserts, which rows of the table its query reads (see `MergeReads`); None for any other write.
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
        """Write and commit the rows of a Java Dataset, and return the counts of `statement_counts`."""
        frame = self._table.frame(rows)
        return statement_counts(self._table.write(frame.sparkSession, lambda: frame, self))


class StreamWrite(ConnectorObject):
    """The write of a stream, of which Spark creates one for each epoch. It implements Spark's `StreamingWrite`."""

    interfaces: ClassVar[tuple[str, ...]] = ("write.streaming.StreamingWrite",)

    def __init__(self, table: WritableTable, builder: SparkWriteBuilder) -> None:
        self._table = self.owner = table
        self._builder = builder

    @connector_method
    def create_streaming_writer_factory(self, _: dict[str, Any]) -> None:
        """Refuse Spark's own way to write rows, which only continuous streams and sessions without Java's `StreamWriteStrategy` take."""
        raise UnsupportedFeatureError(
            f"a stream writes to {self._table.name()} in micro-batches, and in a session to which a catalog is attached",
            next_step='trigger micro-batches: .trigger(processingTime="1 second"); attach the catalog with icefloe.spark.attach',
        )

    @connector_method
    def write_epoch(self, epoch: int, rows: JavaObject) -> dict[str, int | None] | None:
        """Write and commit the rows of an epoch, and return the counts of `statement_counts` and the number of rows; None if nothing was written."""
        result = self._table.write_epoch(self._builder, epoch, self._table.frame(rows))
        if result is None:
            return None
        self._table.recache()
        num_rows = result.inserted_records + result.rows_updated + result.rows_unchanged
        return {**(statement_counts(result) or {}), "num_rows": num_rows}
