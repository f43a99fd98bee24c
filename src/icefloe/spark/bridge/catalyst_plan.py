"""Nodes of Spark's logical plans and expressions, found, made and put together through Py4J. What to make of them is in the rooms beside this one.

A call takes some 0.05 ms.
"""

from collections.abc import Collection, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from icefloe.spark.bridge.gateway import java_class, scala_object
from icefloe.spark.bridge.java_compiler import static_method

CATALYST = "org.apache.spark.sql.catalyst"


def node(spark: SparkSession, path: str, *parts: Any) -> Any:
    """A new plan or expression of a class of Catalyst's, such as `plans.logical.Filter`."""
    return java_class(spark, f"{CATALYST}.{path}")(*parts)


def catalyst_object(spark: SparkSession, path: str) -> Any:
    """An `object` of Catalyst's, such as `plans.LeftSemi`."""
    return scala_object(spark, f"{CATALYST}.{path}")


def some(spark: SparkSession, value: Any) -> Any:
    """A Scala `Option` of the value, empty for None."""
    return java_class(spark, "scala.Option").apply(value)


def chain(plan: Any, names: Collection[str]) -> tuple[list[Any], Any, str]:
    """The nodes of these names from the top of a plan down, each upon the next, then the first of another name, and that name."""
    found = []
    while (name := plan.nodeName()) in names:
        found.append(plan)
        plan = plan.children().apply(0)
    return found, plan, name


def chained(spark: SparkSession, nodes: Sequence[Any], plan: Any) -> Any:
    """The nodes of a chain upon another plan."""
    for one in reversed(nodes):
        plan = one.withNewChildren(java_class(spark, "org.apache.spark.api.python.PythonUtils").toSeq([plan]))
    return plan


def with_part(spark: SparkSession, whole: Any, place: int, part: Any) -> Any:
    """A node with another part at a place. How many parts the classes have is another number in each version of Spark."""
    parts = whole.productIterator().toArray(scala_object(spark, "scala.reflect.ClassTag").AnyRef())
    parts[place] = part
    return whole.makeCopy(parts)


def rows_of(spark: SparkSession, session: Any, plan: Any) -> DataFrame:
    """The rows of a plan in a session of Java's, lazily."""
    return DataFrame(java_class(spark, "org.apache.spark.sql.classic.Dataset").ofRows(session, plan), session_of(spark, session))


def session_of(spark: SparkSession, session: Any) -> SparkSession:
    """Return a session of Java's as one of Python's: the attached one, or a copy of it with settings of its own, such as `foreachBatch` has."""
    return spark if session == spark._jsparkSession else SparkSession(spark.sparkContext, session)


def what_answers(spark: SparkSession, part: Any) -> Any:
    """Java's `Answering` behind a part of a plan, such as a scan; None where it is not Icefloe's."""
    return static_method(spark, "PythonProxy", "behind", part)
