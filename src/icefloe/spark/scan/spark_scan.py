"""The Python side of Spark's scan builder and scans: `ScanSource` receives the pushed query; `SparkScan` is the scan of a table's rows.

`ReadableTable` and `ConnectorScan` are the base classes of all tables and scans in Spark SQL; the classes for metadata tables are in `spark/catalog`.
`PushedScan` is the query that Spark pushed, with the filters, planned files and aggregates that result from it. `bridge/java/SparkRule.java` replaces a scan in
the query's plan by the result of its method `rows` before Spark runs the query.

`icefloe/scan` plans scans, `read_strategy.py` reads the rows, and `aggregate_pushdown.py` computes aggregates from metadata. Spark also evaluates every filter
on the rows, except filters that are true for every row of the planned files. Spec: Scan Planning; Column Projection.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import UnsupportedFeatureError
from icefloe.operations.data_scan import DataScan
from icefloe.operations.engine import ScanRequest
from icefloe.scan.filter_estimate import kept_share
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.callback import ConnectorObject, PythonCallback, connector_method
from icefloe.spark.bridge.messages import Expression, FirstRows, ReadQuery
from icefloe.spark.scan.aggregate_pushdown import AggregateNotPushed, aggregate_values, needs_statistics, one_row, parse_aggregates
from icefloe.spark.scan.filter_pushdown import bucket_filters, prune_buckets, to_expressions, true_of_all_rows
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.native_scan import keep_in_jvm, optimized_plan, stored_bytes
from icefloe.spark.scan.optimizer_statistics import (
    column_statistics,
    distinct_values,
    exact_distinct_values,
    needs_bounds_of_keys,
    unique_columns,
)
from icefloe.spark.scan.ordered_limit import order_of, plan_of_first_rows
from icefloe.spark.scan.read_options import (
    OPTIONS_OF_CLAUSE,
    PushedQuery,
    check_read_mode,
    check_read_options,
    estimates_sizes,
    is_tolerant,
    planning_mode,
    pushes_aggregates,
    reports_statistics,
    session_for,
    warn_of_read_options,
    warn_of_settings,
)
from icefloe.spark.scan.read_strategy import plan_of_rows, planned_rows
from icefloe.spark.scan.scan_plans import BYTES_OF_A_FILE_IN_THE_JVM, ScanPlans
from icefloe.spark.scan.table_sample import plan_of_sample
from icefloe.spark.scan.table_selector import TableSelection, with_options
from icefloe.spark.types.spark_types import column_named, has_geo_type, schema_to_struct, wkb_to_geo
from icefloe.spec.expressions.bind import bind, predicates
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression, NotNull, all_of
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.metadata_columns import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import IcebergType, ListType, NestedField, StructType
from icefloe.spec.types import MapType as IcebergMap


class ScanSource(ConnectorObject, ABC):
    """A table or row-level operation from which Spark builds scans. `bridge/java/SparkScanBuilder.java` collects the query that Spark pushes down."""

    @connector_method
    def remaining_filters(self, query: ReadQuery) -> list[int]:
        """Return the indexes of the pushed predicates that Spark must evaluate on every row."""
        table, operation = self._read_table()
        return [index for index, holds in enumerate(table.filters({**query, "operation": operation})) if not holds]

    @connector_method
    def aggregate_schema(self, query: ReadQuery) -> str | None:
        """Return the schema of the aggregates in Spark's JSON if they can be computed from metadata only; otherwise None."""
        table, operation = self._read_table()
        return table.aggregate({**query, "operation": operation})

    @connector_method
    def build_scan(self, query: ReadQuery) -> PythonCallback:
        """Return a scan for the pushed query.

        Raises:
            InvalidInputError: An option of the read seems misspelt.
        """
        table, operation = self._read_table()
        is_stream = query.get("is_stream", False)
        if operation is None:
            table.check_read(query, is_stream=is_stream)
        return (table.stream_scan if is_stream else table.scan)(
            {**query, "operation": operation, "schema": table.read_schema(query.get("schema"))}
        )

    @abstractmethod
    def _read_table(self) -> tuple["ReadableTable", str | None]:
        """Return the table to read, and the name of the row-level operation that reads it; the name is None for a query."""


class ReadableTable(ScanSource):
    """A table that Spark can read.

    Unless a subclass overrides `filters` and `aggregate`, Spark evaluates all pushed filters on every row too, and computes aggregates from the rows.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsRead",)
    _spark: SparkSession
    prunes_nested = False  # whether a scan may leave out parts of nested columns
    has_changes = False  # whether the rows are changes of another table

    @abstractmethod
    def schema_json(self) -> str:
        """Return the table's columns as a struct in Spark's JSON."""

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return for each pushed predicate whether it is true for every row of the planned files, so that Spark need not evaluate it."""
        return [False for _ in query["filters"]]

    def aggregate(self, _: PushedQuery) -> str | None:
        """Return the schema of the aggregates in Spark's JSON if they can be computed from metadata only; otherwise None."""
        return None

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the table's metadata columns, which a query may use by name, but which `*` does not include."""
        return ()

    @abstractmethod
    def scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan of a pushed query."""

    def stream_scan(self, _: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the table. Raises `UnsupportedFeatureError` unless the table can be read as a stream."""
        raise UnsupportedFeatureError("this table cannot be read as a stream", next_step="read it with spark.read")

    def check_read(self, query: ReadQuery, *, is_stream: bool) -> None:
        """Warn about settings and options without effect. Raises `InvalidInputError` for an option that seems misspelt, or a read mode of other tables."""
        warn_of_settings(self._spark, query["settings"])
        warn_of_read_options(self._spark, query["options"], is_stream=is_stream, has_changes=self.has_changes)
        check_read_options(query["options"], *(OPTIONS_OF_CLAUSE if self.has_changes else ()))
        if not self.has_changes:
            check_read_mode(query["options"], str(self.constants()["name"]), is_stream=is_stream)

    def read_schema(self, required: str | None) -> str:
        """Return the columns to read as a struct in Spark's JSON. Unless `prunes_nested`, needed columns are read with all their nested fields.

        Args:
            required: The columns that Spark needs, without unneeded nested fields, as a struct in Spark's JSON; None for all columns.
        """
        if required is None or self.prunes_nested:
            return required or self.schema_json()
        fields_by_name = {field["name"]: field for field in json.loads(self.schema_json())["fields"]}
        fields_by_name |= {field.name: field.jsonValue() for field in spark_fields(self.metadata_fields())}
        fields = [fields_by_name[field["name"]] for field in json.loads(required)["fields"]]
        return json.dumps({"type": "struct", "fields": fields})

    def _read_table(self) -> tuple["ReadableTable", str | None]:
        return self, None


@dataclass(frozen=True, kw_only=True)
class PushedScan:
    """A query that Spark pushed to a scan of a table, with the filters, files and aggregates that result from it.

    Attributes:
        spark: The session of the query.
        selected: The table and its state that the name or a time travel clause selects; options of the query may select another state.
        query: The pushed query; see `PushedQuery`.
        plans: The plans of the table, which statements may share.
    """

    spark: SparkSession
    selected: TableSelection
    query: PushedQuery
    plans: ScanPlans

    @cached_property
    def key(self) -> tuple[str, str]:
        """Two texts, of the selection and of the query. Together with the state of the table, they determine all that a scan computes."""
        return self.selected.text(), json.dumps(self.query)

    @cached_property
    def scan(self) -> DataScan:
        """The scan of the selected snapshot, with the schema that Spark has read and with all pushed filters that have an Iceberg expression."""
        if not self.filters:
            return self._unfiltered_scan
        return self._unfiltered_scan.filter(all_of([expression for expression in self._expressions if expression is not None]))

    @cached_property
    def _unfiltered_scan(self) -> DataScan:
        selection = with_options(self.selected, self.query["options"])
        scan = replace(selection.scan(), tolerant=is_tolerant(self.query))
        if self.query.get("operation") is not None or LAST_UPDATED_SEQUENCE_NUMBER.name in self.query.get("schema", ""):
            scan = scan.planned_here()  # these options need the sequence numbers of files, which a server does not send
        # Spark has read the columns of the table before it passes options.
        return scan if selection is self.selected else replace(scan, by_table_schema=True)

    @cached_property
    def filters(self) -> Sequence[Mapping[str, Any]]:
        """The pushed predicates, in the JSON of `bridge/java/ConnectorJson.java`."""
        return self.query.get("filters") or ()

    @cached_property
    def _expressions(self) -> list[BooleanExpression | None]:
        """The Iceberg expression for each pushed predicate; None if there is no such expression."""
        return self._to_expressions(self.filters)

    def _to_expressions(self, predicates: Sequence[Mapping[str, Any]]) -> list[BooleanExpression | None]:
        zone = self.query.get("zone")
        return to_expressions(predicates, self._unfiltered_scan.schema(), None if zone is None else partial(LocalDays, self.spark, zone))

    def plan(self, *, include_statistics: bool = False) -> ScanPlan:
        """Return the planned files, without files whose buckets do not match, that are not in a sample, or that cannot have one of the first rows.

        Args:
            include_statistics: Whether the plan has the statistics of all columns, and not only of the columns in the filter.
        """
        mode = planning_mode(self.query, self.selected.table.metadata.properties)
        rows: FirstRows | None = self.query.get("first_rows")
        order = None if rows is None else order_of(rows, self._unfiltered_scan.schema())
        ordered = frozenset[int]() if order is None else frozenset([order.field_id])
        plan = self.plans.plan(self.scan, mode, include_statistics=include_statistics, statistics_of=ordered)
        plan = prune_buckets(plan, bucket_filters(self.filters, plan.schema), self.scan.metadata)
        if "sample" in self.query:
            plan = plan_of_sample(plan, self.query["sample"])
        if rows is None or order is None:
            return plan
        return plan_of_first_rows(plan, rows, order, self._to_expressions(rows["filters"]), self.scan.metadata)

    def first_files(self, limit: int) -> ScanPlan:
        """Return a plan of as many of the first files as are needed for `limit` rows. Use it only if Spark evaluates no filter on the rows.

        Without filters, only the manifests of these files are read; with filters, the whole scan is planned first.
        """
        if self.filters or "sample" in self.query:
            return self.plan().first_files(limit)
        mode = planning_mode(self.query, self.selected.table.metadata.properties)
        return self.plans.plan(self.scan, mode, enough_rows=limit).first_files(limit)

    def filters_true_of_all_rows(self) -> list[bool]:
        """Return for each pushed filter whether it is true for every row of the planned files, so that Spark need not evaluate it.

        For the scan of a row-level operation, Spark must evaluate all filters, so that the results are False.
        """
        if self.query.get("operation") is not None:
            return [False for _ in self.filters]
        return self.plans.get_or_compute(("filters", *self.key), self._filters_true_of_all_rows)

    def _filters_true_of_all_rows(self) -> list[bool]:
        if not any(self._expressions):
            return [False for _ in self._expressions]
        are_true = true_of_all_rows(self.plan(), self._expressions, self.scan.metadata)
        schema = self._unfiltered_scan.schema()
        if not any("`" in path[-1] for path, _ in walk(schema.fields) if len(path) > 1):
            return are_true
        # A filter on a struct field that Spark does not evaluate fails if another field of the struct has a backtick in its name (seen on 4.3).
        are_tested = (() if expression is None else predicates(bind(expression, schema)) for expression in self._expressions)
        return [is_true and all(len(test.path) == 1 for test in tests) for is_true, tests in zip(are_true, are_tested, strict=True)]

    def non_null_columns(self) -> frozenset[int]:
        """Return for a query the ids of top-level columns that a query filters by IS NOT NULL and that have no nulls in the planned files."""
        if self.query.get("operation") is not None:
            return frozenset()
        filters = zip(self._expressions, self.filters_true_of_all_rows(), strict=True)
        tests = (
            bind(expression, self._unfiltered_scan.schema()) for expression, holds in filters if holds and isinstance(expression, NotNull)
        )
        return frozenset(test.field.field_id for bound in tests for test in predicates(bound) if len(test.path) == 1)

    def aggregates(self) -> tuple[SparkStruct, list[tuple[NestedField | None, Any]]]:
        """Compute the pushed aggregates from metadata.

        Returns:
            The Spark struct of the aggregates; and for each aggregate a tuple of the column whose type the value has (None for a count), and the value.

        Raises:
            AggregateNotPushed: Metadata does not have the exact value of an aggregate, the push-down is turned off, or a row-level operation reads the table.
        """
        if self.query.get("operation") is not None or not pushes_aggregates(self.query):
            raise AggregateNotPushed
        aggregates = parse_aggregates(self.query["aggregation"], self.scan.schema())
        rows = None if self.filters or "sample" in self.query or needs_statistics(aggregates) else self.scan.listed_rows()
        values = (
            [rows for _ in aggregates]
            if rows is not None
            else aggregate_values(aggregates, self.plan(include_statistics=needs_statistics(aggregates)))
        )
        columns = [None if kind.startswith("Count") else field for kind, field in aggregates]
        types = [LongType() if field is None else schema_to_struct(Schema(field), field_ids=False)[0].dataType for field in columns]
        struct = SparkStruct([StructField(f"aggregate {index}", kind) for index, kind in enumerate(types)])
        return struct, list(zip(columns, values, strict=True))

    def aggregate_schema(self) -> str | None:
        """Return the struct of the pushed aggregates in Spark's JSON; None if `aggregates` cannot compute them."""
        try:
            return self.aggregates()[0].json()
        except AggregateNotPushed:
            return None


class ConnectorScan(ConnectorObject):
    """Base class of scans. A subclass adds the method `rows`, which returns Spark's optimized logical plan of the rows, with the columns of `readSchema`."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.SupportsReportStatistics", "read.SupportsRuntimeV2Filtering")

    def __init__(self, query: PushedQuery) -> None:
        self._schema: str = query["schema"]

    def constants(self) -> Mapping[str, Any]:
        """Return results of the scan's Java methods, by method name, that never change, so that Java caches them: here the schema of the rows."""
        return {"readSchema": self._schema}

    @property
    def _struct(self) -> SparkStruct:
        return SparkStruct.fromJson(json.loads(self._schema))

    @connector_method
    def filter_attributes(self) -> list[str]:
        """Return the names of the columns with one value per file; here there are none.

        Spark's own file scan, which replaces this scan, prunes files by the values that a join has for these columns.
        """
        return []

    @connector_method
    def of_first_rows(self, rows: FirstRows) -> "ConnectorScan | None":  # noqa: ARG002
        """Return a scan of fewer files that may have the first rows of a query with ORDER BY and LIMIT; None to read all files, as here."""
        return None


class SparkScan(ConnectorScan):
    """The scan of a table's rows. It is planned when Spark gets it; in a row-level operation, when Spark first needs the size or the rows.

    Attributes:
        row_level_scans: The scans that a row-level operation of the table has read, whose filters limit the conflicts of its commit; None if the table does not
            record them.
    """

    row_level_scans: list[PushedScan] | None = None

    def __init__(self, pushed: PushedScan) -> None:
        super().__init__(pushed.query)
        self._pushed = pushed

    @connector_method
    def note_merge_target(self) -> None:
        """Record that a MERGE that only inserts reads its target with this scan. Java calls it, because Spark builds such a scan as for a query."""
        if self.row_level_scans is not None:
            self.row_level_scans.append(self._pushed)

    @cached_property
    def request(self) -> ScanRequest:
        """The planned files and the columns to read. It has no filter, because Spark filters the rows itself."""
        scan, limit = self._pushed.scan, self._pushed.query.get("limit")
        plan = self._pushed.plan() if limit is None else self._pushed.first_files(limit)
        unfiltered = replace(scan, row_filter=AlwaysTrue(), limit=None)
        columns = self._projection
        if self._hides_deleted:
            columns = Schema(*(field for field in columns.fields if field.field_id != DELETED.field_id), schema_id=columns.schema_id)
        return unfiltered.request(columns, plan=plan)

    @cached_property
    def _projection(self) -> Schema:
        return projection_of(self._pushed.scan, self._struct)

    @property
    def _hides_deleted(self) -> bool:
        """Whether deleted rows must be left out although `_deleted` is read: in a row-level operation, which would write them again; a query returns them."""
        return self._pushed.query.get("operation") is not None and DELETED.field_id in self._projection

    def state(self) -> str | None:
        """Return a text of the table's state, for which Java may reuse this scan for an equal query; None if the scan may not be reused."""
        return None if self._pushed.query.get("operation") is not None else self._pushed.plans.state

    def constants(self) -> Mapping[str, Any]:
        """Return the results that never change: the schema and, except in a row-level operation, the results that Spark's optimizer always requests."""
        pushed = self._pushed
        if pushed.query.get("operation") is not None:
            return super().constants()
        key = (f"constants of {type(self).__name__}", *pushed.key)
        return {**super().constants(), **pushed.plans.get_or_compute(key, self._optimizer_constants)}

    def _optimizer_constants(self) -> dict[str, Any]:
        return {"estimateStatistics": self.estimate_statistics(), "filterAttributes": self.filter_attributes()}

    @connector_method
    def description(self) -> str:
        """Return a text with the table and its filter, for EXPLAIN."""
        planned = ", planned by the server" if self._pushed.scan.is_planned_by_server else ""
        return f"Icefloe {self._pushed.selected.table.full_name} [{self._pushed.scan.row_filter}]{planned}"

    @connector_method
    def rows(self) -> Any:
        """Return Spark's optimized logical plan of the rows, or of the one row of pushed aggregates."""
        pushed = self._pushed
        if "aggregation" in pushed.query:
            rows = one_row(pushed.spark, *pushed.aggregates())
        else:
            session = session_for(pushed.spark, pushed.query, pushed.selected.table.metadata.properties)
            if not self._hides_deleted and not has_geo_type(self._struct):
                plan, deleted_bytes = plan_of_rows(session, self.request, self._kept, pushed.plans.deletes, pushed.non_null_columns())
                # A copy of the session has the settings at the time of the copy, which are not part of the query.
                if deleted_bytes is not None and session is pushed.spark:
                    keep_in_jvm(session, plan, BYTES_OF_A_FILE_IN_THE_JVM * (1 + self.request.plan.files.num_rows) + deleted_bytes)
                return plan
            rows = planned_rows(session, self.request, self._kept, pushed.plans.deletes)
            if self._hides_deleted:
                columns = set(rows.columns)
                rows = rows.select(*(column_named(name) if name in columns else F.lit(False).alias(name) for name in self._struct.names))
        return optimized_plan(wkb_to_geo(rows, self._struct))

    @connector_method
    def narrow(self, predicates: list[Expression]) -> "SparkScan":
        """Return a scan of the same columns with additional pushed predicates, so that more files are pruned."""
        return SparkScan(self._with_filters(predicates))

    def _with_filters(self, predicates: Sequence[Mapping[str, Any]]) -> PushedScan:
        return replace(self._pushed, query={**self._pushed.query, "filters": [*self._pushed.filters, *predicates]})

    @connector_method
    def of_first_rows(self, rows: FirstRows) -> "SparkScan | None":
        """Return a scan of the files that may have one of the first rows; None if these are all files."""
        pushed = self._pushed
        is_of_rows = pushed.query.get("operation") is None and {"aggregation", "limit"}.isdisjoint(pushed.query)
        if not is_of_rows or order_of(rows, pushed.scan.schema()) is None or self.request.plan.files.num_rows < 2:
            return None
        scan = SparkScan(replace(pushed, query={**pushed.query, "first_rows": rows}))
        return scan if scan.request.plan.skipped_by_order.files else None

    @connector_method
    def estimate_statistics(self) -> dict[str, Any]:
        """Plan the scan, and return its numbers of rows and bytes and the known statistics of its columns, for Spark's optimizer."""
        if "aggregation" in self._pushed.query:
            return statistics(1, self._width())
        request = self.request
        files = request.plan.files
        total = pc.sum(files["record_count"]).as_py() or 0
        # An estimate: a position delete file may also delete rows of other files, and the number of rows that equality deletes delete is unknown.
        deleted = min(
            total, sum(file.record_count for file in request.plan.delete_files if file.content is not FileContent.EQUALITY_DELETES)
        )
        rows = total - deleted
        size = partial(stored_bytes, files, request.projection.fields, request.schema, deleted=deleted)
        if self._pushed.query.get("uses_statistics"):  # Spark itself estimates how many rows filters keep
            return statistics(rows, size(), self._column_statistics(rows))
        # The number 0 is reported only for a scan without files, because live rows may remain even if delete files have as many rows as the planned files.
        kept = max(min(1, total), int(rows * self._kept))
        result = statistics(kept, size(kept=self._kept))
        if not self._estimates:  # without this key, a join of this scan has no size estimate
            return result
        distinct = {} if "sample" in self._pushed.query else exact_distinct_values(self._pushed.scan)  # those of all rows
        return result | {"uniqueColumns": unique_columns(self._plan_with_keys(), request.projection, distinct)}

    def _plan_with_keys(self) -> ScanPlan:
        """Return the plan of the scan, planned again with the statistics of all columns if only they may show that a column is a key."""
        request = self.request
        if self._pushed.query.get("limit") is not None or not needs_bounds_of_keys(request.plan, request.projection):
            return request.plan
        return self._pushed.plan(include_statistics=True)

    @cached_property
    def _estimates(self) -> bool:
        return estimates_sizes(self._pushed.query)

    @cached_property
    def _kept(self) -> float:
        """The estimated share of the rows that the pushed filters keep."""
        return kept_share(self.request.plan, self._distinct) if self._estimates else 1.0

    @cached_property
    def _distinct(self) -> dict[int, int]:
        """The known numbers of distinct values, by field id."""
        return distinct_values(self._pushed.scan)

    def _column_statistics(self, rows: int) -> dict[str, dict[str, Any]]:
        """Return the statistics of the columns that are read, by column name; `rows` is the number of rows after deletes.

        They are empty for a query with a limit, which does not need the whole plan, and if the session has turned them off, because statistics are most of the
        bytes of a manifest.
        """
        pushed = self._pushed
        if pushed.query.get("limit") is not None or not reports_statistics(pushed.query):
            return {}
        plan = pushed.plan(include_statistics=True)
        return column_statistics(plan, pushed.scan.metadata, self.request.projection.fields, rows=rows, distinct=self._distinct)

    @connector_method
    def partitioned_files(self) -> Any:
        """Return a Java object `PartitionedFiles`, which reads the files instead of `rows`. Only `RuntimeFilteredScan` has one; here the result is None."""
        return None

    @connector_method
    def filter_attributes(self) -> list[str]:
        """Return the names of the columns with one value per planned file, by which Spark may prune files at run time."""
        if "aggregation" in self._pushed.query:
            return []
        return constant_columns(self.request.plan, self._pushed.scan.metadata, self.request.projection)

    def _width(self) -> int:
        """Return the size of a row in bytes that Spark estimates from the types of the columns."""
        struct = self._pushed.spark._jsparkSession.parseDataType(self._schema)
        return int(struct.defaultSize()) + 8


def spark_fields(fields: Sequence[NestedField]) -> Sequence[StructField]:
    """Convert columns to fields of a Spark struct, without field ids."""
    return schema_to_struct(Schema(*fields), field_ids=False).fields


def metadata_columns(fields: Sequence[NestedField]) -> list[dict[str, Any]]:
    """Describe metadata columns for Spark's connector interface: a dict for each column, with `name`, `dataType` (in Spark's JSON), `isNullable` and `comment`.

    The descriptions have no metadata JSON, which Spark would parse for every reference to a table. Without it, Spark preserves the values of metadata columns
    for updated rows, as row-level operations need for the columns that identify rows.
    """
    return [
        {
            "name": field.name,
            "dataType": field.dataType.json(),
            "isNullable": field.nullable,
            "comment": field.metadata.get("comment"),
        }
        for field in spark_fields(fields)
    ]


def statistics(rows: int | None, size: int, columns: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the statistics of a scan as a dict for `bridge/java`, which converts it to Spark's `Statistics`.

    Args:
        rows: The number of rows; None if unknown.
        size: The bytes of the rows in files.
        columns: The known fields of Spark's `ColumnStatistics`, by column name.
    """
    return {"numRows": rows, "sizeInBytes": size, "columnStats": columns or {}}


def projection_of(scan: DataScan, read_struct: SparkStruct) -> Schema:
    """Return the part of a scan's schema that Spark reads, with the metadata columns that it reads.

    Args:
        scan: The scan.
        read_struct: The columns in Spark's order, without unneeded nested fields. A name that is no column of the table is that of a metadata column.
    """
    schema, partition = scan.schema(), table_partition_type(scan.metadata)
    metadata = {**METADATA_COLUMNS, PARTITION_NAME: partition_column(partition)}
    by_name = {field.name: field for field in schema.fields}
    fields = []
    for spark_field in read_struct.fields:
        field = by_name.get(spark_field.name) or metadata[spark_field.name]
        fields.append(replace(field, field_type=_read_type(field.field_type, spark_field.dataType)))
    return Schema(*fields, schema_id=schema.schema_id)


def _read_type(kind: IcebergType, read_struct: DataType) -> IcebergType:
    """Return the type `kind` with only the nested fields that the Spark type `read_struct` has."""
    if isinstance(kind, StructType) and isinstance(read_struct, SparkStruct):
        return StructType(*_cut_fields(kind.fields, read_struct))
    if isinstance(kind, ListType) and isinstance(read_struct, ArrayType):
        return replace(kind, element=_read_type(kind.element, read_struct.elementType))
    if isinstance(kind, IcebergMap) and isinstance(read_struct, MapType):
        return replace(
            kind, value_type=_read_type(kind.value_type, read_struct.valueType), key_type=_read_type(kind.key_type, read_struct.keyType)
        )
    return kind


def _cut_fields(fields: Sequence[NestedField], read_struct: SparkStruct) -> list[NestedField]:
    by_name = {field.name: field for field in fields}
    return [
        replace(by_name[field.name], field_type=_read_type(by_name[field.name].field_type, field.dataType)) for field in read_struct.fields
    ]


def constant_columns(plan: ScanPlan, metadata: TableMetadata, columns: Schema) -> list[str]:
    """Return the names of the columns with a single value in each planned file: those with an identity partition field in every spec of the plan."""
    constant_ids: set[int] | None = None
    for part in plan.parts:
        fields = metadata.spec_by_id(part.spec_id).fields
        ids_of_spec = {field.source_id for field in fields if isinstance(field.transform, IdentityTransform)}
        constant_ids = ids_of_spec if constant_ids is None else constant_ids & ids_of_spec
    return [field.name for field in columns.fields if field.field_id in (constant_ids or ())]
