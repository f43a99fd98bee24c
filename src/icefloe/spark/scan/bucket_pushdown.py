"""Tests of `lake.system.bucket(n, column)`, which no test of the column says: they leave out the files of other buckets where a table is partitioned by it.

Spark tests every row besides. All other predicates are `filter_pushdown.py`'s. Spec: Partition Transforms (bucket); Scan Planning.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.kernel.arrow_values import filled, numpy_of
from icefloe.kernel.manifest.manifest_columns import partition_column
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec
from icefloe.kernel.partitioning.transforms import BucketTransform
from icefloe.kernel.scan.planned_files import PlannedFiles
from icefloe.kernel.scan.scan_planner import ScanPlan
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import UUIDType
from icefloe.spark.functions.spark_functions import call_of

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BucketTest:
    """Rows of interest have a column, by its field id, in one of these buckets."""

    source_id: int
    transform: BucketTransform
    buckets: frozenset[int]


def bucket_tests(predicates: Iterable[Plain], schema: Schema) -> list[BucketTest]:
    """Those that every row of interest passes: the predicates are true together."""
    found = (_test_of(node, schema) for one in predicates for node in _conjuncts(one))
    return [test for test in found if test is not None]


def in_buckets(plan: ScanPlan, tests: Sequence[BucketTest], metadata: TableMetadata) -> ScanPlan:
    """The plan without files of other buckets; files of specs that do not have them are kept."""
    if not tests:
        return plan
    return plan.without_partitions([_mask(part, tests, metadata.spec_by_id(part.spec_id)) for part in plan.parts])


def _conjuncts(node: Plain) -> Iterator[Plain]:
    if node.get("name") == "AND":
        for child in node["children"]:
            yield from _conjuncts(child)
    else:
        yield node


def _test_of(node: Plain, schema: Schema) -> BucketTest | None:
    sides = list(node.get("children") or ())
    name = node.get("name")
    if name in ("=", "<=>") and sides[0]["is"] == "literal":
        sides.reverse()
    called = call_of(sides[0], "bucket") if name in ("=", "<=>", "IN") and sides else None
    if called is None or called.column["is"] != "reference":
        return None
    column = ".".join(called.column["parts"])
    if any(side["is"] != "literal" or json.loads(side["type"]) != "integer" for side in sides[1:]):
        return None
    values = {side["value"] for side in sides[1:]}
    field_id = schema.find_id(column) if column not in schema.ambiguous_names else None
    # A uuid is text in Spark, and the bucket of that another one.
    if field_id is None or schema.path_of(field_id) != tuple(called.column["parts"]) or isinstance(schema.find_type(field_id), UUIDType):
        return None
    if name == "<=>" and None in values:
        return None
    return BucketTest(field_id, BucketTransform(called.number), frozenset(int(value) for value in values if value is not None))


def _mask(part: PlannedFiles, tests: Sequence[BucketTest], spec: PartitionSpec) -> NDArray[np.bool_]:
    """Which files may have rows of interest."""
    mask = np.ones(len(part), np.bool_)
    for test in tests:
        wanted = pa.array(sorted(test.buckets), pa.int32())
        for field in spec.fields:
            if field.source_id == test.source_id and field.transform == test.transform:
                mask &= numpy_of(filled(pc.is_in(part.entries[partition_column(field.field_id)], wanted), False))
    return mask
