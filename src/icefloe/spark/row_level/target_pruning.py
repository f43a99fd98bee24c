"""The keys of a MERGE, and the pruning of its target by their values.

The equalities in the join condition are the keys. The values of a small source for these keys become filters of the target's scan, which skip files, row groups
and rows that cannot match. `bridge/java/GatheredRows.java` computes the values; `broadcast_source.py` reads the source.
Spec: Scan Planning.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.catalyst_plan import catalyst_object, node, python_proxy_behind, with_part

# The maximum number of distinct values of a key that are used for planning individually; with more values, their range is used.
_MOST_LISTED = 1000
# The index of the scan among the parts of a `DataSourceV2ScanRelation`, after the table.
SCAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchKey:
    """An equality in the join condition.

    Attributes:
        target: the side of the equality over the target's columns, a Catalyst expression.
        source: the side of the equality over the source's columns, a Catalyst expression.
        nulls_are_equal: True for `<=>`, False for `=`.
    """

    target: Any
    source: Any
    nulls_are_equal: bool


def match_keys(condition: Any, target_columns: Any, source_columns: Any) -> list[MatchKey]:
    """Find the equalities between target and source that are true for every pair of rows for which the join condition is true.

    Args:
        condition: the join condition, as a Catalyst expression.
        target_columns: Catalyst's `AttributeSet` of the target.
        source_columns: Catalyst's `AttributeSet` of the source.

    Returns:
        A key for each equality between an expression of the target and an expression of the source.
    """
    keys, conjuncts = [], [condition]
    while conjuncts:
        conjunct = conjuncts.pop()
        name = conjunct.nodeName()
        if name == "And":
            conjuncts += [conjunct.right(), conjunct.left()]
        elif name in ("EqualTo", "EqualNullSafe"):
            sides = (conjunct.left(), conjunct.right())
            for target, source in (sides, sides[::-1]):
                if _is_of(target_columns, target) and _is_of(source_columns, source):
                    keys.append(MatchKey(target=target, source=source, nulls_are_equal=name == "EqualNullSafe"))
    return keys


def _is_of(columns: Any, expression: Any) -> bool:
    references = expression.references()
    return not references.isEmpty() and bool(references.subsetOf(columns))


def prune_target(spark: SparkSession, relation: Any, keys: Iterable[MatchKey], source_columns: Any, rows: Any) -> Any:
    """Return the target's scan relation pruned by the keys of a small source: without files, row groups and rows outside of the keys' values.

    Args:
        spark: the Python session.
        relation: the `DataSourceV2ScanRelation` of the target.
        keys: the equalities in the join condition. Only keys whose target side is a plain column prune.
        source_columns: the source's output attributes, in the order of the rows.
        rows: Java's `GatheredRows` object of the source.

    Returns:
        The relation, with a filter node on top if a key prunes.
    """
    predicates: list[Mapping[str, Any]] = []
    conditions = []
    attributes = catalyst_object(spark, "expressions.package").AttributeSeq(source_columns)
    for key in keys:
        if key.target.nodeName() != "AttributeReference" or not key.target.dataType().equals(key.source.dataType()):
            continue
        bound = catalyst_object(spark, "expressions.BindReferences").bindReference(key.source, attributes, False)
        least, greatest, literals_json, has_null = rows.values(bound, _MOST_LISTED)
        literals = json.loads(literals_json)  # the least value, the greatest value, then all values unless there are too many
        if literals[0]["value"] is None or (has_null and key.nulls_are_equal):
            continue
        predicates += _predicates(key.target.name(), literals[:2], literals[2:])
        conditions.append(node(spark, "expressions.GreaterThanOrEqual", key.target, least))
        conditions.append(node(spark, "expressions.LessThanOrEqual", key.target, greatest))
    if not conditions:
        return relation
    scan = python_proxy_behind(spark, relation.scan()).objectOf("narrow", json.dumps([predicates]))
    condition = reduce(lambda left, right: node(spark, "expressions.And", left, right), conditions)
    return node(spark, "plans.logical.Filter", condition, with_part(spark, relation, SCAN, scan))


def bounds_as_predicates(column_name: str, bounds: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return predicates that are true for every value of a column between two literals. They are in the JSON of `bridge/java/ConnectorJson.java`."""
    return _predicates(column_name, bounds, ())


def _predicates(column_name: str, bounds: Sequence[Any], values: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return predicates that are true for every matching row, in the JSON of `ConnectorJson.java`: IN with the values or, without values, a range."""
    column = {"kind": "reference", "parts": [column_name]}
    operands = [("IN", values)] if values else [(">=", bounds[:1]), ("<=", bounds[1:])]
    return [{"kind": "Predicate", "name": name, "children": [column, *literals]} for name, literals in operands]
