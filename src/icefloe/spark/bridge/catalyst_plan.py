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
    """Create a plan node or expression of a Catalyst class, such as `plans.logical.Filter`, from the arguments of its constructor."""
    return java_class(spark, f"{CATALYST}.{path}")(*parts)


def catalyst_object(spark: SparkSession, path: str) -> Any:
    """Return a Scala `object` of Catalyst, such as `plans.LeftSemi`."""
    return scala_object(spark, f"{CATALYST}.{path}")


def some(spark: SparkSession, value: Any) -> Any:
    """Return a Scala `Option` with the value; `None` becomes an empty one."""
    return java_class(spark, "scala.Option").apply(value)


def chain(plan: Any, names: Collection[str]) -> tuple[list[Any], Any, str]:
    """Walk down a plan as long as its nodes have one of `names`. Return these nodes from the top, the first other node, and the other node's name."""
    nodes = []
    while (name := plan.nodeName()) in names:
        nodes.append(plan)
        plan = plan.children().apply(0)
    return nodes, plan, name


def stack_nodes(spark: SparkSession, nodes: Sequence[Any], plan: Any) -> Any:
    """Return a plan in which copies of `nodes`, which are listed from the top, are above `plan`."""
    for parent in reversed(nodes):
        plan = parent.withNewChildren(sequence(spark, [plan]))
    return plan


def with_part(spark: SparkSession, plan_node: Any, index: int, part: Any) -> Any:
    """Return a copy of a node with one constructor argument replaced, by index. The number of arguments of a class differs between versions of Spark."""
    parts = plan_node.productIterator().toArray(scala_object(spark, "scala.reflect.ClassTag").AnyRef())
    parts[index] = part
    return plan_node.makeCopy(parts)


def rows_of(spark: SparkSession, session: Any, plan: Any) -> DataFrame:
    """Return a lazy DataFrame of a logical plan, which runs in the given Java session."""
    return DataFrame(java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(session, plan), session_of(spark, session))


def session_of(spark: SparkSession, session: Any) -> SparkSession:
    """Return the Python session for a Java session: `spark` if it is the same, otherwise a new one, as for the copy of a session in `foreachBatch`."""
    return spark if session == spark._jsparkSession else SparkSession(spark.sparkContext, session)


def python_proxy_behind(spark: SparkSession, part: Any) -> Any:
    """Return the `PythonProxy` of an object in a plan, such as a scan or a relation; None if the object does not belong to Icefloe."""
    return static_method(spark, "PythonProxy", "behind", part)
