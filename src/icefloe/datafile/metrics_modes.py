"""`MetricsMode`: the metrics of each column of a table, from the properties `write.metadata.metrics.*` and the sort order.

`file_metrics.py` and `metrics_collector.py` compute them; `kernel/metadata/table_properties.py` has the properties.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from icefloe.datafile.leaves import Leaf
from icefloe.kernel.metadata.table_properties import METRICS_DEFAULT, METRICS_MAX_INFERRED_COLUMNS, column_metrics_modes
from icefloe.kernel.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.kernel.schema.schema import Schema, walk
from icefloe.kernel.types import NestedField, PrimitiveType, StructType, VariantType, children

_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """The metrics of a column: with `counts` sizes and counts, with `bounds` also bounds, truncated to `width` code points or bytes (None: whole)."""

    counts: bool
    bounds: bool
    width: int | None = None


NONE = MetricsMode(counts=False, bounds=False)
_NAMED = {"none": NONE, "counts": MetricsMode(counts=True, bounds=False), "full": MetricsMode(counts=True, bounds=True)}
# The least metrics of a sorted column, because sorting is useful only with bounds. JAVA: MetricsConfig.
_SORTED = MetricsMode(counts=True, bounds=True, width=16)


def parse_mode(text: str) -> MetricsMode:
    """Return the mode `none`, `counts`, `full` or `truncate(n)`, which `table_properties.py` has validated."""
    truncate = _TRUNCATE.fullmatch(text)
    return MetricsMode(counts=True, bounds=True, width=int(truncate.group(1))) if truncate else _NAMED[text]


def metrics_modes(
    schema: Schema, leaves: Sequence[Leaf], properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER
) -> list[MetricsMode]:
    """Return the mode of each leaf.

    The mode set for a column comes first; a property that names no column is ignored. Other sorted columns have bounds. If no default mode is set, only the
    first 100 columns (a property) have the built-in one, so that statistics of very wide tables stay small. JAVA: MetricsConfig.

    Raises:
        InvalidPropertyError: A property has an invalid mode.
    """
    default = parse_mode(METRICS_DEFAULT.read(properties))
    limit = METRICS_MAX_INFERRED_COLUMNS.read(properties)
    inferred = None if METRICS_DEFAULT.name in properties or _size(schema) <= limit else set(_first_ids(schema.fields, limit))
    ordered = {field.source_id for field in sort_order.fields if field.transform.preserves_order}
    column_modes = {name: parse_mode(text) for name, text in column_metrics_modes(properties).items()}

    def mode(leaf: Leaf) -> MetricsMode:
        unsorted_mode = default if inferred is None or leaf.field_id in inferred else NONE
        return _SORTED if leaf.field_id in ordered and not unsorted_mode.bounds else unsorted_mode

    return [column_modes.get(".".join(leaf.path), mode(leaf)) for leaf in leaves]


def _size(schema: Schema) -> int:
    """Return the number of columns that the limit counts: structs too, but neither lists nor maps. JAVA: TypeUtil.getProjectedIds."""
    return sum(isinstance(field.field_type, PrimitiveType | VariantType | StructType) for _, field in walk(schema.fields))


def _first_ids(fields: Sequence[NestedField], limit: int) -> Iterator[int]:
    """Yield the ids of the first leaves: the primitive fields of a struct before those of structs inside it. JAVA: MetricsConfig.limitFieldIds."""
    for place, field_id in enumerate(_breadth_first(fields)):
        if place >= limit:
            return
        yield field_id


def _breadth_first(fields: Sequence[NestedField]) -> Iterator[int]:
    yield from (field.field_id for field in fields if isinstance(field.field_type, PrimitiveType | VariantType))
    for field in fields:
        yield from _breadth_first(children(field.field_type))
