"""The keys of a MERGE: the equalities by which rows of its target are looked up, and what their values in a small source say of the target's rows.

The values are found by `bridge/java/GatheredRows.java`; the source is read by `broadcast_source.py`. Spec: Scan Planning.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.catalyst_plan import catalyst_object, node, python_proxy_behind, with_part

# Values of a key that plan the target's scan one by one, not as a range.
_MOST_LISTED = 1000
# The place of the scan in `DataSourceV2ScanRelation`, after the table.
_SCAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An equality: expressions of the target's columns and of the source's."""

    target: Any
    source: Any
    nulls_are_equal: bool


def keys_of(condition: Any, target_columns: Any, source_columns: Any) -> list[Key]:
    """The equalities that must hold where the condition does; columns are Spark's sets of them."""
    found, left = [], [condition]
    while left:
        one = left.pop()
        name = one.nodeName()
        if name == "And":
            left += [one.right(), one.left()]
        elif name in ("EqualTo", "EqualNullSafe"):
            sides = (one.left(), one.right())
            for target, source in (sides, sides[::-1]):
                if _is_of(target_columns, target) and _is_of(source_columns, source):
                    found.append(Key(target=target, source=source, nulls_are_equal=name == "EqualNullSafe"))
    return found


def _is_of(columns: Any, side: Any) -> bool:
    references = side.references()
    return not references.isEmpty() and bool(references.subsetOf(columns))


def narrowed(spark: SparkSession, target: Any, keys: Iterable[Key], columns: Any, rows: Any) -> Any:
    """The target's scan without files and row groups in which no key of the source can be. `rows` are `GatheredRows` of the source's columns."""
    predicates: list[Mapping[str, Any]] = []
    tests = []
    places = catalyst_object(spark, "expressions.package").AttributeSeq(columns)
    for key in keys:
        if key.target.nodeName() != "AttributeReference" or not key.target.dataType().equals(key.source.dataType()):
            continue
        place = catalyst_object(spark, "expressions.BindReferences").bindReference(key.source, places, False)
        least, greatest, said, has_null = rows.values(place, _MOST_LISTED)
        ends_and_values = json.loads(said)
        if ends_and_values[0]["value"] is None or (has_null and key.nulls_are_equal):
            continue
        predicates += _predicates(key.target.name(), ends_and_values[:2], ends_and_values[2:])
        tests.append(node(spark, "expressions.GreaterThanOrEqual", key.target, least))
        tests.append(node(spark, "expressions.LessThanOrEqual", key.target, greatest))
    if not tests:
        return target
    scan = python_proxy_behind(spark, target.scan()).made("narrowed", json.dumps([predicates]))
    test = reduce(lambda one, other: node(spark, "expressions.And", one, other), tests)
    return node(spark, "plans.logical.Filter", test, with_part(spark, target, _SCAN, scan))


def _predicates(name: str, ends: Sequence[Any], values: Sequence[Any]) -> list[Mapping[str, Any]]:
    """What is true of the column in every row that matches, as Spark would push it. `values` are none where they are too many."""
    column = {"is": "reference", "parts": [name]}
    said = [("IN", values)] if values else [(">=", ends[:1]), ("<=", ends[1:])]
    return [{"is": "Predicate", "name": test, "children": [column, *literals]} for test, literals in said]
