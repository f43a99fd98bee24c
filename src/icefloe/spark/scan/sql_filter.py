"""`filter_of_sql`: a condition in Spark's SQL as an Iceberg expression, for arguments of procedures such as `where => 'day = "2024-01-31"'`.

Spark parses and simplifies the condition with the session's settings, which decide whether double quotes enclose text and whether case matters in names.
"""

import json
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe.errors import UnsupportedTypeError
from icefloe.spark.bridge.catalyst import sequence
from icefloe.spark.bridge.catalyst_plan import chain, node
from icefloe.spark.bridge.gateway import scala_object, static_method
from icefloe.spark.scan.filter_pushdown import to_expressions
from icefloe.spark.scan.function_pushdown import LocalDays
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.expressions.predicate import AlwaysFalse, BooleanExpression, all_of
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField

_DATA_SOURCES = "org.apache.spark.sql.execution.datasources.DataSourceStrategy"


def filter_of_sql(spark: SparkSession, text: str, schema: Schema) -> BooleanExpression | None:
    """Translate a condition in Spark's SQL on the columns of a table.

    Args:
        spark: A classic session.
        text: The condition, as after WHERE.
        schema: The schema of the table.

    Returns:
        An expression that is true for exactly the rows for which the condition is true; None if Spark refuses the condition, or if there is no such
        expression, for example for conditions with subqueries, with `bucket`, and on columns for which Spark has no type.
    """
    session = spark._jsparkSession
    try:
        # The rows of an RDD are not known to be none, so that the condition remains in the plan.
        columns = schema_to_struct(Schema(*filter(_has_spark_type, schema.fields)))
        rows = session.createDataFrame(spark.sparkContext._jsc.emptyRDD(), session.parseDataType(columns.json()))
        plan = rows.where(text).queryExecution().optimizedPlan()
    except PySparkException:
        return None
    filters, source, kind = chain(plan, {"Filter"})
    if kind != "LogicalRDD":
        return AlwaysFalse() if kind in ("LocalRelation", "EmptyRelation") else None
    # The names of columns are those of the condition, in any case, until they are replaced by those of the table.
    conditions = scala_object(spark, _DATA_SOURCES).normalizeExprs(
        sequence(spark, [above.condition() for above in filters]), source.output()
    )
    built = [node(spark, "util.V2ExpressionBuilder", conditions.apply(place), True).build() for place in range(len(filters))]
    if not all(option.isDefined() for option in built):
        return None
    predicates = [json.loads(static_method(spark, "PythonBridge", "expressionJson", option.get())) for option in built]
    days = partial(LocalDays, spark, str(spark.conf.get("spark.sql.session.timeZone")))
    expressions = [expression for expression in to_expressions(predicates, schema, days) if expression is not None]
    return all_of(expressions) if len(expressions) == len(built) else None


def _has_spark_type(column: NestedField) -> bool:
    try:
        schema_to_struct(Schema(column))
    except UnsupportedTypeError:
        return False
    return True
