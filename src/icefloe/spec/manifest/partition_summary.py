"""The summaries of partition values that a manifest list contains for each manifest.

Spec: Manifest Lists, `field_summary`.
"""

import math
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Any

from icefloe.spec.manifest.partition_values import primitive
from icefloe.spec.manifest_list.manifest_file import PartitionFieldSummary
from icefloe.spec.types import DoubleType, FloatType, PrimitiveType, StructType
from icefloe.spec.values import to_bytes


def summarise(partition_type: StructType, partitions: Collection[tuple[Any, ...]]) -> tuple[PartitionFieldSummary, ...]:
    """Return one summary for each partition field over all partition tuples. Callers also pass the tuples of deleted files, as Java does."""
    return summarise_values(partition_type, (map(itemgetter(i), partitions) for i in range(len(partition_type.fields))))


def summarise_values(partition_type: StructType, values: Iterable[Iterable[Any]]) -> tuple[PartitionFieldSummary, ...]:
    """Return one summary for each partition field. `values` has for each field its values in all files, which may be repeated."""
    return tuple(_summary(primitive(part.field_type), distinct) for part, distinct in zip(partition_type.fields, values, strict=True))


def _summary(kind: PrimitiveType, values: Iterable[Any]) -> PartitionFieldSummary:
    distinct = set(values)
    contains_null = None in distinct
    distinct.discard(None)
    contains_nan = False
    if isinstance(kind, FloatType | DoubleType):
        numbers = [value for value in distinct if not math.isnan(value)]
        contains_nan = len(numbers) < len(distinct)
        if not numbers:
            return PartitionFieldSummary(contains_null, contains_nan)
        return PartitionFieldSummary(
            contains_null, contains_nan, to_bytes(kind, _lower(min(numbers))), to_bytes(kind, _upper(max(numbers)))
        )
    if not distinct:
        return PartitionFieldSummary(contains_null, contains_nan)
    return PartitionFieldSummary(contains_null, contains_nan, to_bytes(kind, min(distinct)), to_bytes(kind, max(distinct)))


# Python compares both zeros as equal, and a set keeps only the first of them. Iceberg orders -0.0 before 0.0, so the bound is widened to be correct for both.
def _lower(value: float) -> float:
    return -0.0 if value == 0 else value


def _upper(value: float) -> float:
    return 0.0 if value == 0 else value
