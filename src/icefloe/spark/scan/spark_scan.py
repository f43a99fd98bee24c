"""Spark's scans: `ConnectorScan` is the base class of all of them, and `SparkScan` is the scan of a table's rows.

`pushed_scan.py` has the query of a scan and its planned files, and `read_strategy.py` reads the rows. `bridge/java/SparkRule.java` replaces a scan in the
query's plan by the result of its method `rows` before Spark runs the query. Spec: Scan Planning; Column Projection.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 Spark's users know it by this letter
from pyspark.sql.types import ArrayType, DataType, MapType
from pyspark.sql.types import StructType as SparkStruct

from icefloe.operations.data_scan import DataScan
from icefloe.operations.engine import ScanRequest
from icefloe.scan.filter_estimate import kept_share
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.callback import ConnectorObject, connector_method
from icefloe.spark.bridge.messages import Expression, FirstRows
from icefloe.spark.scan.aggregate_pushdown import one_row
from icefloe.spark.scan.native_scan import keep_in_jvm, optimized_plan, stored_bytes
from icefloe.spark.scan.optimizer_statistics import (
    column_statistics,
    distinct_values,
    exact_distinct_values,
    needs_bounds_of_keys,
    unique_columns,
)
from icefloe.spark.scan.ordered_limit import order_of
from icefloe.spark.scan.pushed_scan import PushedScan
from icefloe.spark.scan.read_options import (
    PushedQuery,
    estimates_sizes,
    reports_statistics,
    session_for,
)
from icefloe.spark.scan.read_strategy import plan_of_rows, planned_rows
from icefloe.spark.scan.scan_plans import BYTES_OF_A_FILE_IN_THE_JVM
from icefloe.spark.types.spark_types import column_named, has_geo_type, wkb_to_geo
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.metadata.snapshot_manifests import table_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.transforms import IdentityTransform
from icefloe.spec.schema.metadata_columns import DELETED, METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType, ListType, NestedField, StructType
from icefloe.spec.types import MapType as IcebergMap


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
