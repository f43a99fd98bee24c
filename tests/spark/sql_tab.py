"""The metrics of Spark's SQL tab, from the store that its page reads."""

import re

from pyspark.sql import SparkSession

_BETWEEN = "\x01"
_METRIC = re.compile(r"SQLPlanMetric\((?P<name>.*),(?P<id>\d+),[^,]*\)")
Metrics = list[tuple[str, dict[str, str]]]  # for each node of the plans of a statement, its name and its metrics by label


def executions(spark: SparkSession) -> int:
    """Return the number of the next execution."""
    for _ in range(2):  # a listener sends values when it receives a plan
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    known = spark._jsparkSession.sharedState().statusStore().executionsList()
    return 1 + int(known.last().executionId()) if known.size() else 0


def metrics_since(spark: SparkSession, first: int) -> Metrics:
    """Return the metrics of the executions from a number on. Texts of whole collections cross to Python, because each value would be two calls to the JVM."""
    store = spark._jsparkSession.sharedState().statusStore()
    nodes: Metrics = []
    for execution in range(first, executions(spark)):
        values = dict(text.split(" -> ", 1) for text in store.executionMetrics(execution).mkString(_BETWEEN).split(_BETWEEN) if text)
        plan = store.planGraph(execution).allNodes()
        for node in (plan.apply(index) for index in range(plan.size())):
            found = map(_METRIC.fullmatch, node.metrics().mkString(_BETWEEN).split(_BETWEEN))
            nodes.append(
                (node.name().strip(), {metric["name"]: values[metric["id"]] for metric in found if metric and metric["id"] in values})
            )
    return nodes


def of_nodes(metrics: Metrics, name: str) -> list[dict[str, str]]:
    return [shown for node, shown in metrics if node.startswith(name)]
