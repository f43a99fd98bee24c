"""Which metrics each column of a table gets, from the `write.metadata.metrics.*` properties and the sort order.

Computing them is `file_metrics.py`; the properties are kernel.metadata.properties.
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
    """`counts`: sizes and counts are kept. `bounds`: lower and upper bounds too, cut to `width` code points or bytes (None: whole)."""

    counts: bool
    bounds: bool
    width: int | None = None


NONE = MetricsMode(counts=False, bounds=False)
_NAMED = {"none": NONE, "counts": MetricsMode(counts=True, bounds=False), "full": MetricsMode(counts=True, bounds=True)}
# What a sorted column gets at least: its bounds are what sorting is for. JAVA: MetricsConfig.
_SORTED = MetricsMode(counts=True, bounds=True, width=16)


def parse_mode(text: str) -> MetricsMode:
    """`none`, `counts`, `full` or `truncate(n)`, as `properties.py` has checked it."""
    found = _TRUNCATE.fullmatch(text)
    return MetricsMode(counts=True, bounds=True, width=int(found.group(1))) if found else _NAMED[text]


def metrics_modes(
    schema: Schema, leaves: Sequence[Leaf], properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER
) -> list[MetricsMode]:
    """The mode of each leaf.

    A column's own mode wins; a property that names no column is let be. Sorted columns have bounds otherwise. Where no default is set, only the first 100
    columns (a property) get the built-in one, so that very wide tables do not drown in statistics. JAVA: MetricsConfig.

    Raises:
        InvalidPropertyError: a mode that is none.
    """
    default = parse_mode(METRICS_DEFAULT.read(properties))
    limit = METRICS_MAX_INFERRED_COLUMNS.read(properties)
    inferred = None if METRICS_DEFAULT.name in properties or _size(schema) <= limit else set(_first_ids(schema.fields, limit))
    ordered = {field.source_id for field in sort_order.fields if field.transform.preserves_order}
    own = {name: parse_mode(text) for name, text in column_metrics_modes(properties).items()}

    def mode(leaf: Leaf) -> MetricsMode:
        found = default if inferred is None or leaf.field_id in inferred else NONE
        return _SORTED if leaf.field_id in ordered and not found.bounds else found

    return [own.get(".".join(leaf.path), mode(leaf)) for leaf in leaves]


def _size(schema: Schema) -> int:
    """How many columns the limit counts: structs too, but neither lists nor maps. JAVA: TypeUtil.getProjectedIds."""
    return sum(isinstance(field.field_type, PrimitiveType | VariantType | StructType) for _, field in walk(schema.fields))


def _first_ids(fields: Sequence[NestedField], limit: int) -> Iterator[int]:
    """The first leaves: those of a struct itself before those of the structs inside it. JAVA: MetricsConfig.limitFieldIds."""
    for place, field_id in enumerate(_breadth_first(fields)):
        if place >= limit:
            return
        yield field_id


def _breadth_first(fields: Sequence[NestedField]) -> Iterator[int]:
    yield from (field.field_id for field in fields if isinstance(field.field_type, PrimitiveType | VariantType))
    for field in fields:
        yield from _breadth_first(children(field.field_type))
