"""Rules of the column statistics of files: counts do not contradict each other, and bounds are values of their columns.

A wrong statistic makes engines skip files that have matching rows. All columns of a manifest are checked at once, grouped by type.
Spec: Data File Fields (value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds); Appendix D.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.checks.entry_rules import EntryReport
from icefloe.checks.finding import Severity
from icefloe.checks.manifest_entries import NO_NUMBER, ManifestEntries
from icefloe.checks.rule import Level, Rule, RuleGroup
from icefloe.checks.table_content import TableContent
from icefloe.checks.uniform_metrics import statistics_are_clean
from icefloe.spec.arrow_values import fill_nulls, mask_array, numpy_of, offsets_of, positions_array
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH, DELETE_POS, RESERVED_FIELD_IDS
from icefloe.spec.schema.schema import walk
from icefloe.spec.types import GeographyType, GeometryType, LongType, PrimitiveType, StringType, UnknownType
from icefloe.spec.values import bounds_to_array

_REWRITE = "let icefloe repair measure the file again, or rewrite it"


_rule = RuleGroup(level=Level.ENTRY, section="Data File Fields", next_step=_REWRITE).rule


METRICS_COUNT = _rule(
    "metrics-count",
    Severity.ERROR,
    "Counts of values, nulls and NaNs are not negative, and no column has more nulls or NaNs than values.",
    "Filters for null or not null skip the file though rows of it match.",
)
VALUE_COUNT = _rule(
    "value-count",
    Severity.WARNING,
    "A top-level column has as many values, nulls included, as the file has records.",
    "Engines that compare the counts take the column for all null or without nulls, and skip the file.",
)
BOUND_VALUE = _rule(
    "bound-value",
    Severity.ERROR,
    "A bound is a value of its column's type in single-value serialization, and not NaN.",
    "Engines fail to plan a filter on the column, or skip the file though rows of it match.",
)
BOUND_ORDER = _rule(
    "bound-order",
    Severity.ERROR,
    "The lower bound of a column is not above its upper bound.",
    "Filters on the column skip the file though rows of it match.",
)
METRICS_FIELD = _rule(
    "metrics-field",
    Severity.NOTE,
    "Statistics are of field ids that a schema of the table has.",
    "The statistics are never used; the field may be one that another table has.",
)
RULES = (METRICS_COUNT, VALUE_COUNT, BOUND_VALUE, BOUND_ORDER, METRICS_FIELD)

_RESERVED_TYPES: Mapping[int, PrimitiveType] = {DELETE_FILE_PATH.field_id: StringType(), DELETE_POS.field_id: LongType()}
_SHAPES = (GeometryType, GeographyType, UnknownType)


@dataclass(frozen=True, kw_only=True)
class MetricsContext:
    """The columns of a table whose statistics are checked.

    Attributes:
        types: The type of each primitive field of any schema, by field id.
        field_ids: The field ids of all schemas.
        top_level_ids: The field ids of primitive top-level columns.
    """

    types: Mapping[int, PrimitiveType]
    field_ids: frozenset[int]
    top_level_ids: frozenset[int]

    @cached_property
    def bound_types(self) -> Mapping[int, PrimitiveType]:
        """The types of the columns whose bounds can be compared, by field id; the columns of position delete files included."""
        return {field_id: kind for field_id, kind in {**_RESERVED_TYPES, **self.types}.items() if not isinstance(kind, _SHAPES)}


def metrics_context(content: TableContent) -> MetricsContext:
    """Return the columns of a table. A promoted column has its current type, with which the bounds of the older type can be read too."""
    schemas = [*content.schemas.values()]
    if content.current_schema is not None:
        schemas.append(content.current_schema)
    types, plain = {}, set()
    for schema in schemas:  # the current schema is the last, so that its types win
        for path, field in walk(schema.fields):
            if isinstance(field.field_type, PrimitiveType):
                types[field.field_id] = field.field_type
                if len(path) == 1:
                    plain.add(field.field_id)
    return MetricsContext(types=types, field_ids=frozenset(content.field_ids), top_level_ids=frozenset(plain))


class _Items(NamedTuple):
    """The items of one map column of all entries, such as all lower bounds.

    `owners` has the position of the entry of each item, `keys` the field id of each item, `values` the values as an Arrow array.
    """

    owners: NDArray[np.int64]
    keys: NDArray[np.int64]
    values: Any
    ids: list[int]  # the distinct field ids, ascending
    ranks: NDArray[np.int64]  # the index of each item's field id in `ids`
    width: int  # items of each entry if all entries have the same fields in the same order; otherwise 0


def check_metrics(report: EntryReport, context: MetricsContext) -> None:
    """Add the findings about the column statistics of one manifest to the report."""
    entries = report.entries
    known_ids = context.field_ids | RESERVED_FIELD_IDS.keys()
    if statistics_are_clean(entries, context.bound_types, known_ids, context.top_level_ids):
        return
    counts = {name: _items(entries, name) for name in ("value_counts", "null_value_counts", "nan_value_counts")}
    _counts(report, counts, context)
    lower, upper = _items(entries, "lower_bounds"), _items(entries, "upper_bounds")
    _fields(report, [*counts.items(), ("lower_bounds", lower), ("upper_bounds", upper)], context)
    _bounds(report, lower, upper, context)


def _items(entries: ManifestEntries, name: str) -> _Items:
    maps = entries.columns[name]
    ends = offsets_of(maps).astype(np.int64) if entries.length else np.zeros(2, np.int64)
    start, stop, width = int(ends[0]), int(ends[-1]), int(ends[1] - ends[0])
    keys = numpy_of(fill_nulls(maps.keys, NO_NUMBER))[start:stop]
    values = maps.items.slice(start, stop - start)
    if width and (np.diff(ends) == width).all() and (keys.reshape(-1, width) == keys[:width]).all():
        # All entries have the same fields in the same order, as most writers write them, so that no search is needed.
        first = keys[:width].tolist()
        ids = sorted(set(first))
        ranks = np.tile(np.searchsorted(ids, first), entries.length)
        return _Items(np.repeat(np.arange(entries.length), width), keys, values, ids, ranks, width)
    distinct, ranks = np.unique(keys, return_inverse=True)
    return _Items(np.repeat(np.arange(entries.length), np.diff(ends)[: entries.length]), keys, values, distinct.tolist(), ranks, 0)


def _counts(report: EntryReport, counts: Mapping[str, _Items], context: MetricsContext) -> None:
    values = counts["value_counts"]
    totals = _numbers(values)
    for name, items in counts.items():
        numbers = _numbers(items)
        wrong = (numbers < 0) & (numbers != NO_NUMBER)
        if name != "value_counts":
            total = _align(items, values, totals)
            wrong |= (total != NO_NUMBER) & (numbers > total)
        _add(report, METRICS_COUNT, items, wrong, name, numbers)
    is_plain = _mask(values, context.top_level_ids)
    records = report.entries.numbers("record_count")[values.owners]
    has_columns = report.entries.file_content[values.owners] != 1
    _add(report, VALUE_COUNT, values, is_plain & has_columns & (totals != records) & (totals >= 0), "value_counts", totals)


def _numbers(items: _Items) -> NDArray[np.int64]:
    return numpy_of(fill_nulls(items.values, NO_NUMBER))


def _align(items: _Items, others: _Items, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each item, the number in another map column for the same entry and field id; `NO_NUMBER` if there is none.

    Args:
        items: The items.
        others: The items of the other map column.
        numbers: The numbers of `others`.
    """
    places = _places(items, others)
    return np.where(places >= 0, numbers[places] if len(numbers) else NO_NUMBER, NO_NUMBER)


def _places(items: _Items, others: _Items) -> NDArray[np.int64]:
    """Return, for each item, the position in `others` of the item that has the same entry and field id; -1 if there is none."""
    if np.array_equal(items.keys, others.keys) and np.array_equal(items.owners, others.owners):
        return np.arange(len(items.keys))
    if not len(others.keys):
        return np.full(len(items.keys), -1)
    if items.width and others.width:
        others_of = {key: place for place, key in enumerate(others.keys[: others.width].tolist())}
        places = np.array([others_of.get(key, -1) for key in items.keys[: items.width].tolist()])
        positions = items.owners * others.width + np.tile(places, len(items.keys) // items.width)
        return np.where(np.tile(places >= 0, len(items.keys) // items.width), positions, -1)
    ids = np.unique(np.concatenate([items.keys, others.keys]))
    pairs, other_pairs = (
        numbers_of_kind.owners * len(ids) + np.searchsorted(ids, numbers_of_kind.keys) for numbers_of_kind in (items, others)
    )
    order = np.argsort(other_pairs, kind="stable")
    sorted_pairs = other_pairs[order]
    positions = np.minimum(np.searchsorted(sorted_pairs, pairs), len(order) - 1)
    return np.where(sorted_pairs[positions] == pairs, order[positions], -1)


def _mask(items: _Items, field_ids: AbstractSet[int]) -> NDArray[np.bool_]:
    """Return a mask of the items whose field id is in a set."""
    return np.array([field_id in field_ids for field_id in items.ids], bool)[items.ranks]


def _fields(report: EntryReport, maps: list[tuple[str, _Items]], context: MetricsContext) -> None:
    for name, items in maps:
        unknown_ids = {field_id for field_id in items.ids if field_id not in context.field_ids and field_id not in RESERVED_FIELD_IDS}
        if unknown_ids:
            _add(report, METRICS_FIELD, items, _mask(items, unknown_ids), name, None)
            return  # the other maps have the same fields


def _bounds(report: EntryReport, lower: _Items, upper: _Items, context: MetricsContext) -> None:
    of_upper = {
        kind: (positions, _read_bounds(report, upper, positions, kind, "upper_bounds")) for kind, positions in _by_type(upper, context)
    }
    upper_places = _places(lower, upper)
    for kind, positions in _by_type(lower, context):
        values = _read_bounds(report, lower, positions, kind, "lower_bounds")
        others, opposite = of_upper.get(kind, (positions[:0], values[:0]))
        places = upper_places[positions]
        if not np.array_equal(places, others):
            has_other = places >= 0
            values = values.filter(mask_array(has_other))
            opposite = opposite.take(positions_array(np.searchsorted(others, places[has_other])))
            compared = positions[has_other]
        else:
            compared = positions
        is_above = numpy_of(fill_nulls(pc.greater(values, opposite), False))
        if is_above.any():
            wrong = np.zeros(len(lower.keys), bool)
            wrong[compared[is_above]] = True
            _add(report, BOUND_ORDER, lower, wrong, "lower_bounds", None)


def _by_type(items: _Items, context: MetricsContext) -> Iterator[tuple[PrimitiveType, NDArray[np.int64]]]:
    """Yield each type with the positions of the bounds of all columns of this type."""
    places_by_type: dict[PrimitiveType, list[int]] = {}
    for place, field_id in enumerate(items.ids):
        kind = context.bound_types.get(field_id)
        if kind is not None:
            places_by_type.setdefault(kind, []).append(place)
    for kind, places in places_by_type.items():
        is_of_type = np.zeros(len(items.ids), bool)
        is_of_type[places] = True
        yield kind, np.flatnonzero(is_of_type[items.ranks])


def _read_bounds(report: EntryReport, items: _Items, positions: NDArray[np.int64], kind: PrimitiveType, name: str) -> Any:
    """Convert the bounds of one type to values. An invalid bound becomes null and a finding."""
    stored = items.values.take(positions_array(positions))
    values = bounds_to_array(kind, stored)
    if values.null_count > stored.null_count:
        wrong = np.zeros(len(items.keys), bool)
        wrong[positions[numpy_of(pc.and_(values.is_null(), stored.is_valid()))]] = True
        _add(report, BOUND_VALUE, items, wrong, name, None)
    return values


def _add(report: EntryReport, rule: Rule, items: _Items, wrong: NDArray[np.bool_], name: str, numbers: NDArray[np.int64] | None) -> None:
    """Add a finding for each entry that has a wrong item; the finding is about the first such item of the entry."""
    if not wrong.any():
        return
    positions = np.flatnonzero(wrong)
    owners, firsts = np.unique(items.owners[positions], return_index=True)
    first_of = dict(zip(owners.tolist(), positions[firsts].tolist(), strict=True))
    mask = np.zeros(report.entries.length, bool)
    mask[owners] = True

    def value_text(at: int) -> str | int | None:
        value = items.values[first_of[at]].as_py() if numbers is None else int(numbers[first_of[at]])
        return value[:64].hex() if isinstance(value, bytes) else value

    report.add(
        rule,
        mask,
        lambda at: f"has {name} {value_text(at)} for field id {items.keys[first_of[at]]}",
        where=name,
        actual=value_text,
        field_id=lambda at: int(items.keys[first_of[at]]),
    )
