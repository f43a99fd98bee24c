"""Metrics of a data file: the leaf columns of a schema, the configured metrics of each, and the metrics of a newly written Parquet file.

`Leaf` is a column that can have metrics. `MetricsMode` has the metrics that a column gets according to the properties `write.metadata.metrics.*` and the sort
order. The metrics of a Parquet file are sizes, counts and bounds from its footer, and values that were observed while its rows were written.
`metrics_collector.py` computes the metrics of ORC and Avro files, and `footer_metrics.py` reads the footers of other writers' files.
Spec: Parquet, Nested Types; Data File Fields (column_sizes to split_offsets); Appendix D; Field-level Metrics and Statistics.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.spec.bounds import truncate_lower_bound, truncate_upper_bound
from icefloe.spec.metadata.table_properties import METRICS_DEFAULT, METRICS_MAX_INFERRED_COLUMNS, column_metrics_modes
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER, SortOrder
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
    children,
)
from icefloe.spec.values import decimal_bytes, from_bytes, to_bytes

# Name of the repeated group inside the group of a list or a map. Spec: Parquet, Nested Types.
_REPEATED_GROUP: dict[type[IcebergType], str] = {ListType: "list", MapType: "key_value"}
# A variant has two columns in a row group, metadata and value. It is not a leaf here, because it has no metrics.
_VARIANT_COLUMNS = 2
_TRUNCATE = re.compile(r"truncate\((\d+)\)")
# The maximum length in bytes. If a minimum or maximum is longer, Arrow omits both from the footer (`max_statistics_size`).
MAX_FOOTER_STATISTIC_BYTES = 4096

# Mappings of counts that several files of a table share.
_MAX_SHARED = 4096

# Geometries have no bounds, because their bytes have no order.
_WITHOUT_BOUNDS = (GeometryType, GeographyType)

# The minimum and maximum of a column in a footer: bool, int, float or bytes. Their order is the order of the Iceberg type's values.
_Extremes = tuple[Any, Any]

# A function from a column's minimum and maximum in a footer to its bounds. The upper bound is None if no value of the truncated width exceeds the maximum.
BoundsInBytes = Callable[[Any, Any], tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column at any level of a schema, which can have metrics.

    Attributes:
        field: The field of the schema.
        kind: Its type.
        path: The names from the top-level column down to the field.
        stored_path: Its dotted path in Parquet, which includes repeated groups.
        steps: The positions from the top-level column down through structs.
        repeated: Whether it is inside a list or map.
        place: The index of its column in a Parquet row group.
    """

    field: NestedField
    kind: PrimitiveType
    path: tuple[str, ...]
    stored_path: str
    steps: tuple[int, ...]
    repeated: bool
    place: int

    @property
    def field_id(self) -> int:
        """Return the field id of the column."""
        return self.field.field_id

    def column_of(self, table: Any) -> Any:
        """Return the column's values in an Arrow table of the schema, with null where a struct around it is null. The column must not be `repeated`."""
        column = table.column(self.steps[0])
        return pc.struct_field(column, list(self.steps[1:])) if len(self.steps) > 1 else column


def leaves_of(schema: Schema) -> tuple[Leaf, ...]:
    """Return all leaves, depth first, which is the order of column chunks in a Parquet row group. Files have no columns of unknown type."""
    return tuple(_walk(schema.fields, (), (), (), False, _Counter()))


class _Counter:
    """A counter that assigns indexes to the columns of a row group."""

    count = 0

    def take(self, columns: int) -> int:
        """Reserve the next columns, and return the index of the first of them."""
        self.count += columns
        return self.count - columns


def _walk(
    fields: tuple[NestedField, ...],
    path: tuple[str, ...],
    stored: tuple[str, ...],
    steps: tuple[int, ...],
    repeated: bool,
    counter: _Counter,
) -> Iterator[Leaf]:
    for position, field in enumerate(fields):
        field_path, stored_path, field_steps = (*path, field.name), (*stored, field.name), (*steps, position)
        kind = field.field_type
        if isinstance(kind, UnknownType):
            continue
        if isinstance(kind, VariantType):
            counter.take(_VARIANT_COLUMNS)
        elif isinstance(kind, PrimitiveType):
            yield Leaf(field, kind, field_path, ".".join(stored_path), field_steps, repeated, counter.take(1))
        else:
            group = _REPEATED_GROUP.get(type(kind))
            inner_path = (*stored_path, group) if group else stored_path
            yield from _walk(children(kind), field_path, inner_path, field_steps, repeated or group is not None, counter)
    if all(isinstance(field.field_type, UnknownType) for field in fields):
        counter.take(1)  # the placeholder, see `file_fields`


@dataclass(frozen=True, slots=True)
class MetricsMode:
    """The kinds of metrics that a column has in manifests.

    Attributes:
        counts: Whether it has sizes and counts.
        bounds: Whether it has bounds too.
        width: The code points or bytes to which bounds are truncated; None for whole bounds.
    """

    counts: bool
    bounds: bool
    width: int | None = None


_NONE = MetricsMode(counts=False, bounds=False)
_NAMED = {"none": _NONE, "counts": MetricsMode(counts=True, bounds=False), "full": MetricsMode(counts=True, bounds=True)}
# The minimum metrics of a sorted column, because sorting is useful only with bounds. JAVA: MetricsConfig.
_SORTED = MetricsMode(counts=True, bounds=True, width=16)


def _parse_mode(text: str) -> MetricsMode:
    """Parse the mode `none`, `counts`, `full` or `truncate(n)`, which `table_properties.py` has validated."""
    truncate = _TRUNCATE.fullmatch(text)
    return MetricsMode(counts=True, bounds=True, width=int(truncate.group(1))) if truncate else _NAMED[text]


def columns_with_modes(
    schema: Schema, properties: Mapping[str, str], sort_order: SortOrder = UNSORTED_SORT_ORDER
) -> tuple[tuple[Leaf, MetricsMode], ...]:
    """Return every leaf of the schema, in the order of `leaves_of`, with its metrics mode.

    The mode that a property sets for the column is used first. Without it, a column has the default mode, and a column of the sort order has bounds even if
    that mode has none. If no property sets the default mode, only the first 100 columns (another property sets their number) have the built-in mode and all
    others have no metrics, so that the statistics of very wide tables stay small. Modes for columns that do not exist are ignored. JAVA: MetricsConfig.

    Raises:
        InvalidPropertyError: A property has an invalid mode.
    """
    default = _parse_mode(METRICS_DEFAULT.read(properties))
    limit = METRICS_MAX_INFERRED_COLUMNS.read(properties)
    inferred = None if METRICS_DEFAULT.name in properties or _size(schema) <= limit else set(_first_ids(schema.fields, limit))
    ordered = {field.source_id for field in sort_order.fields if field.transform.preserves_order}
    column_modes = {name: _parse_mode(text) for name, text in column_metrics_modes(properties).items()}

    def mode(leaf: Leaf) -> MetricsMode:
        unsorted_mode = default if inferred is None or leaf.field_id in inferred else _NONE
        return _SORTED if leaf.field_id in ordered and not unsorted_mode.bounds else unsorted_mode

    return tuple((leaf, column_modes.get(".".join(leaf.path), mode(leaf))) for leaf in leaves_of(schema))


def _size(schema: Schema) -> int:
    """Return the number of columns that count towards the limit: also structs, but not lists and maps. JAVA: TypeUtil.getProjectedIds."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetrics:
    """The metrics of a file, by field id; sizes and offsets are in bytes, and None if the file format does not have them."""

    record_count: int
    column_sizes: dict[int, int] | None
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: tuple[int, ...] | None

    def as_fields(self) -> dict[str, Any]:
        """Return the metrics as keyword arguments of a `DataFile`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class _FooterColumn:
    """A column that has metrics. `place` is its index in a row group; `bounds` is the function that computes its bounds, None if it has none."""

    field_id: int
    place: int
    kind: PrimitiveType
    bounds: BoundsInBytes | None
    is_float: bool


class ParquetMetrics:
    """A calculator of the metrics of a table's Parquet files, from their footers and from observations of their rows.

    Files with equal counts share a mapping, because a commit may have very many files.
    """

    def __init__(self, columns: Sequence[tuple[Leaf, MetricsMode]]) -> None:
        """Prepare the columns; columns without counts have no metrics."""
        counted = [(leaf, mode) for leaf, mode in columns if mode.counts]
        self._columns = tuple(_footer_column(leaf, mode) for leaf, mode in counted)
        self._field_ids = tuple(column.field_id for column in self._columns)
        flat = [(leaf, mode) for leaf, mode in counted if not leaf.repeated]
        self._floats = tuple(leaf for leaf, _ in flat if isinstance(leaf.kind, FloatType | DoubleType))
        self._texts = tuple(leaf for leaf, mode in flat if mode.bounds and isinstance(leaf.kind, StringType | BinaryType | FixedType))
        self._shared: dict[tuple[int | None, ...], dict[int, int]] = {}
        self._no_nans = {leaf.field_id: 0 for leaf in self._floats}

    def observe(self, table: Any, observations: "RowObservations") -> None:
        """Record in `observations` what a footer lacks about the rows of the next row group, an Arrow table of the schema."""
        for leaf in self._floats:
            nans = count_nans(leaf.column_of(table))
            observations.nan_counts[leaf.field_id] = observations.nan_counts.get(leaf.field_id, 0) + nans
        for leaf in self._texts:
            extremes = _long_extremes(leaf.column_of(table))
            if extremes is not None:
                observations.extremes[(observations.row_groups, leaf.field_id)] = extremes
        observations.row_groups += 1

    def has_plain_values(self, table: Any) -> bool:
        """Return True if a table has no NaN and no value that is too long for a footer, so that the rows of its slices need not be observed."""
        return not any(count_nans(leaf.column_of(table)) for leaf in self._floats) and not any(
            _has_long_values(leaf.column_of(table)) for leaf in self._texts
        )

    def plain_observations(self) -> "RowObservations":
        """Return the observations of rows without NaN and without long values, for which `has_plain_values` returned True."""
        return RowObservations(nan_counts=self._no_nans)

    def of(self, footer: Any, observations: "RowObservations") -> FileMetrics:
        """Return the metrics of a newly written file; `footer` is its `pyarrow.parquet.FileMetaData`."""
        sizes: list[int] = []
        value_counts: list[int] = []
        null_counts: list[int | None] = []
        lower_bounds: dict[int, bytes] = {}
        upper_bounds: dict[int, bytes] = {}
        row_groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
        for column in self._columns:
            chunks = [row_group.column(column.place) for row_group in row_groups]
            statistics = [chunk.statistics for chunk in chunks]
            sizes.append(sum([chunk.total_compressed_size for chunk in chunks]))
            value_counts.append(sum([chunk.num_values for chunk in chunks]))
            nulls = [statistic.null_count for statistic in statistics if statistic is not None and statistic.has_null_count]
            null_counts.append(sum(nulls) if len(nulls) == len(statistics) else None)
            extremes = _extremes_of_file(column, statistics, observations) if column.bounds is not None else None
            if extremes is not None and column.bounds is not None:
                low, high = column.bounds(*extremes)
                lower_bounds[column.field_id] = low
                if high is not None:
                    upper_bounds[column.field_id] = high
        return FileMetrics(
            record_count=footer.num_rows,
            column_sizes=self._by_id(sizes),
            value_counts=self._by_id(value_counts),
            null_value_counts=self._by_id(null_counts),
            nan_value_counts=self._no_nans if observations.nan_counts == self._no_nans else dict(observations.nan_counts),
            lower_bounds=lower_bounds,
            upper_bounds=upper_bounds,
            split_offsets=split_offsets(footer),
        )

    def _by_id(self, values: Sequence[int | None]) -> dict[int, int]:
        """Return the values by field id. `values` has one value for each column; None is left out."""
        key = tuple(values)
        shared = self._shared.get(key)
        if shared is None:
            shared = {field_id: value for field_id, value in zip(self._field_ids, values, strict=True) if value is not None}
            if len(self._shared) < _MAX_SHARED:
                self._shared[key] = shared
        return shared


def _footer_column(leaf: Leaf, mode: MetricsMode) -> _FooterColumn:
    has_bounds = mode.bounds and not leaf.repeated and not isinstance(leaf.kind, _WITHOUT_BOUNDS)
    return _FooterColumn(
        field_id=leaf.field_id,
        place=leaf.place,
        kind=leaf.kind,
        bounds=bounds_in_bytes(leaf.kind, mode.width) if has_bounds else None,
        is_float=isinstance(leaf.kind, FloatType | DoubleType),
    )


@dataclass(slots=True)
class RowObservations:
    """What is observed while the rows of a file are written, because its footer lacks it: NaN counts, and extremes of values that are too long for it."""

    nan_counts: dict[int, int] = dataclasses.field(default_factory=dict)
    # by row group and field id
    extremes: dict[tuple[int, int], _Extremes] = dataclasses.field(default_factory=dict)
    row_groups: int = 0


def _long_extremes(column: Any) -> _Extremes | None:
    """Return the extremes of an Arrow column of texts or bytes, if one of its values is too long for a footer; otherwise None."""
    if not _has_long_values(column):
        return None
    extremes = pc.min_max(column.cast(pa.large_binary()))
    return extremes["min"].as_py(), extremes["max"].as_py()


def _has_long_values(column: Any) -> bool:
    if column.nbytes <= MAX_FOOTER_STATISTIC_BYTES:
        return False  # no value can be too long, so that a file of few rows need not compute lengths
    longest = pc.max(pc.binary_length(column)).as_py()
    return longest is not None and longest > MAX_FOOTER_STATISTIC_BYTES


def count_nans(column: Any) -> int:
    """Return the number of NaN values of an Arrow float column.

    If a value is NaN the sum is NaN too. So for most columns only the sum is computed, which is much cheaper than testing each value.
    """
    total = pc.sum(column).as_py()
    if total is None or not math.isnan(total):
        return 0
    return int(pc.sum(pc.is_nan(column)).as_py() or 0)


def split_offsets(footer: Any) -> tuple[int, ...]:
    """Return the offset of each row group: the offset of its first column's dictionary page, or else of its first data page."""
    first_columns = (footer.row_group(index).column(0) for index in range(footer.num_row_groups))
    return tuple(column.dictionary_page_offset or column.data_page_offset for column in first_columns)


def _extremes_of_file(column: _FooterColumn, statistics: Iterable[Any], observations: RowObservations) -> _Extremes | None:
    """Return the minimum and maximum over all row groups; None if those of a row group are unknown, because a bound must be valid for every row."""
    extremes: list[_Extremes] = []
    for index, statistic in enumerate(statistics):
        observed = observations.extremes.get((index, column.field_id)) if observations.extremes else None
        if observed is not None:
            extremes.append(observed)
        elif statistic is not None and statistic.has_min_max:
            extremes.append((_comparable(column.kind, statistic.min_raw), _comparable(column.kind, statistic.max_raw)))
        elif statistic is None or (statistic.num_values > 0 and not column.is_float):
            # A float column without extremes has only NaN, which bounds ignore; for any other type the extremes are unknown.
            return None
    if not extremes:
        return None
    return extremes[0] if len(extremes) == 1 else (min(low for low, _ in extremes), max(high for _, high in extremes))


def _comparable(kind: PrimitiveType, raw: Any) -> Any:
    """Return a footer's raw value as a value that sorts in the order of the type: a decimal as its unscaled integer, any other value unchanged."""
    if isinstance(kind, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def set_bounds(metrics: FileMetrics, leaf: Leaf, mode: MetricsMode, extremes: tuple[Any, Any]) -> None:
    """Set the bounds of a column, truncated to the mode's width. Extremes are values as in a footer: bool, int (decimals unscaled), float or bytes."""
    low, high = bounds_in_bytes(leaf.kind, mode.width)(*extremes)
    metrics.lower_bounds[leaf.field_id] = low
    if high is not None:
        metrics.upper_bounds[leaf.field_id] = high


@lru_cache(maxsize=1024)
def bounds_in_bytes(kind: PrimitiveType, width: int | None) -> BoundsInBytes:
    """Return a function from a column's minimum and maximum, as `set_bounds` takes them, to its serialized bounds, truncated to `width`."""
    if width is None or not isinstance(kind, StringType | BinaryType | FixedType):
        return lambda low, high: (_serialize(kind, _value_of(kind, low)), _serialize(kind, _value_of(kind, high)))

    def truncate(low: Any, high: Any) -> tuple[bytes, bytes | None]:
        lower = truncate_lower_bound(kind, _value_of(kind, low), width)
        upper = truncate_upper_bound(kind, _value_of(kind, high), width)
        return _serialize(kind, lower), None if upper is None else _serialize(kind, upper)

    return truncate


def physical_value(kind: PrimitiveType, raw: Any) -> Any:
    """Convert a footer's raw value to the physical value: bool, int (decimals unscaled), float or bytes."""
    return from_bytes(kind, _serialize(kind, _value_of(kind, raw)))


def _value_of(kind: PrimitiveType, raw: Any) -> Any:
    return str(raw, "utf-8") if isinstance(kind, StringType) else raw


def _serialize(kind: PrimitiveType, value: Any) -> bytes:
    """Return the single-value serialization of a footer's value: decimals are unscaled integers and UUIDs are bytes, so that no such objects are created."""
    if isinstance(kind, DecimalType):
        return decimal_bytes(value)
    if isinstance(kind, UUIDType):
        return bytes(value)
    return to_bytes(kind, value)
