"""Push-down of `ORDER BY column, ... LIMIT n`: the scan reads only the files that may have one of the first n rows; Spark sorts and limits their rows.

`bridge/java/OrderedLimit.java` finds such queries in Spark's plans, and `scan/first_rows.py` chooses the files. Spec: Scan Planning.
"""

from collections.abc import Sequence

from icefloe.scan.first_rows import RowOrder, files_of_first_rows, is_sorted_as_bounds
from icefloe.scan.scan_plan import ScanPlan
from icefloe.spark.bridge.messages import FirstRows
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import BooleanExpression, all_of
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import PrimitiveType


def order_of(rows: FirstRows, schema: Schema) -> RowOrder | None:
    """Return the order of the first rows; None if the first column is no column of the table, or Spark sorts its type otherwise than bounds."""
    column = next((field for field in schema.fields if field.name == rows["column"]), None)
    if column is None or not isinstance(column.field_type, PrimitiveType) or not is_sorted_as_bounds(column.field_type):
        return None
    return RowOrder(
        field_id=column.field_id,
        kind=column.field_type,
        is_descending=rows["is_descending"],
        nulls_first=rows["nulls_first"],
        is_only_column=rows["is_only_column"],
    )


def plan_of_first_rows(
    plan: ScanPlan, rows: FirstRows, order: RowOrder, filters: Sequence[BooleanExpression | None], metadata: TableMetadata
) -> ScanPlan:
    """Return the plan without the files that cannot have one of the first rows.

    Args:
        plan: The planned files, with the statistics of the first column of the order.
        rows: The order and the number of rows.
        order: The result of `order_of`.
        filters: The conditions of the query on the rows; None for a condition without an Iceberg expression, which some rows of any file may not meet.
        metadata: The metadata of the table.
    """
    conditions = [condition for condition in filters if condition is not None]
    if len(conditions) < len(filters):
        return plan
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    row_filter = bind(all_of(conditions), plan.schema)
    return plan.without_later_files(files_of_first_rows(plan, order, rows["count"], row_filter=row_filter, specs=specs))
