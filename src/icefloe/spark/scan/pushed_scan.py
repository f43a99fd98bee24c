"""`PushedScan`: the query that Spark pushed to a scan of a table, with the filters, planned files and aggregates that result from it.

`icefloe/scan` plans scans, and `aggregate_pushdown.py` computes aggregates from metadata. Spark also evaluates every filter on the rows, except filters that
are true for every row of the planned files. Spec: Scan Planning.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.operations.data_scan import DataScan
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.messages import FirstRows
from icefloe.spark.scan.aggregate_pushdown import AggregateNotPushed, aggregate_values, needs_statistics, parse_aggregates
from icefloe.spark.scan.filter_pushdown import bucket_filters, prune_buckets, to_expressions, true_of_all_rows
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.scan.ordered_limit import order_of, plan_of_first_rows
from icefloe.spark.scan.read_options import (
    PushedQuery,
    is_tolerant,
    planning_mode,
    pushes_aggregates,
)
from icefloe.spark.scan.scan_plans import ScanPlans
from icefloe.spark.scan.table_sample import plan_of_sample
from icefloe.spark.scan.table_selector import TableSelection, with_options
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.bind import bind, predicates
from icefloe.spec.expressions.predicate import BooleanExpression, NotNull, all_of
from icefloe.spec.schema.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import NestedField


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
