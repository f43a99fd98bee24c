"""Nodes of Spark's logical plans: functions that find, create and combine them through Py4J, at about 0.05 ms a call.

Expressions are in `catalyst.py`. The plans of row-level statements are built in `row_level/` (`broadcast_source.py`, `target_pruning.py`, `operation.py`).
"""

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.bridge.catalyst import sequence
from icefloe.spark.bridge.gateway import java_class, scala_object, static_method

CATALYST = "org.apache.spark.sql.catalyst"


def node(spark: SparkSession, path: str, *parts: Any) -> Any:
    """Create a plan node or expression of a Catalyst class, such as `plans.logical.Filter`."""
    return java_class(spark, f"{CATALYST}.{path}")(*parts)


def catalyst_object(spark: SparkSession, path: str) -> Any:
    """Return a Scala `object` of Catalyst, such as `plans.LeftSemi`."""
    return scala_object(spark, f"{CATALYST}.{path}")


def some(spark: SparkSession, value: Any) -> Any:
    """Return a Scala `Option` of the value, which is empty for None."""
    return java_class(spark, "scala.Option").apply(value)


def chain(plan: Any, names: Collection[str]) -> tuple[list[Any], Any, str]:
    """Return the topmost nodes of a plan that have one of these names, then the first node with any other name, and the name of that node."""
    nodes = []
    while (name := plan.nodeName()) in names:
        nodes.append(plan)
        plan = plan.children().apply(0)
    return nodes, plan, name


def stack_nodes(spark: SparkSession, nodes: Sequence[Any], plan: Any) -> Any:
    """Return a plan with copies of these nodes on top of it."""
    for parent in reversed(nodes):
        plan = parent.withNewChildren(sequence(spark, [plan]))
    return plan


def with_part(spark: SparkSession, plan_node: Any, index: int, part: Any) -> Any:
    """Return a copy of a node with the part at an index replaced. The number of parts of a class differs between versions of Spark."""
    parts = plan_node.productIterator().toArray(scala_object(spark, "scala.reflect.ClassTag").AnyRef())
    parts[index] = part
    return plan_node.makeCopy(parts)


def rows_of(spark: SparkSession, session: Any, plan: Any) -> DataFrame:
    """Return a lazy DataFrame of a plan in a Java session."""
    return DataFrame(java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(session, plan), session_of(spark, session))


def session_of(spark: SparkSession, session: Any) -> SparkSession:
    """Return the Python session for a Java session: the attached one, or for `foreachBatch` that of a copy with its own settings."""
    return spark if session == spark._jsparkSession else SparkSession(spark.sparkContext, session)


def python_proxy_behind(spark: SparkSession, part: Any) -> Any:
    """Return the `PythonProxy` behind a part of a plan, such as a scan; None if the part does not belong to Icefloe."""
    return static_method(spark, "PythonProxy", "behind", part)
