"""The column `readable_metrics`: one struct for each column of the table, with the metrics of that column in a file. Bounds are values of the column's type.

Spec: Data File Fields; Appendix D, binary single-value serialization.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icefloe.errors import FormatError
from icefloe.spec.arrow_values import array_of_chunks, numpy_of, offsets_of
from icefloe.spec.geo_bounds import geospatial_bound_from_bytes
from icefloe.spec.schema.arrow_types import field_to_arrow, type_to_arrow
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import GeographyType, GeometryType, LongType, NestedField, PrimitiveType, StringType, StructType, children
from icefloe.spec.values import bounds_to_array

READABLE_METRICS = "readable_metrics"
# The members of each struct: the name, the manifest's map with the values, and the documentation.
_COUNTS = (
    ("column_size", "column_sizes", "Bytes on disk"),
    ("value_count", "value_counts", "Values, nulls and NaN too"),
    ("null_value_count", "null_value_counts", "Nulls"),
    ("nan_value_count", "nan_value_counts", "NaNs"),
)
_BOUNDS = (("lower_bound", "lower_bounds", "Lower bound"), ("upper_bound", "upper_bounds", "Upper bound"))
# The columns that are read from manifests.
METRICS_MAPS = frozenset(name for _, name, _ in (*_COUNTS, *_BOUNDS))
_SHAPES = (GeometryType, GeographyType)

_Values = Callable[[str, int], Any]


def readable_metrics_field(schema: Schema, first_id: int) -> NestedField:
    """Return the field of `readable_metrics`: a struct for each primitive column of a table, sorted by dotted name.

    Bounds of geometry columns are text, because they are the corners of a box, not geometries.

    Args:
        schema: The table's schema.
        first_id: The first of the consecutive field ids that the column and its members get.
    """
    ids = count(first_id)
    columns = [_column_field(ids, name, column) for name, column in sorted(_columns(schema).items())]
    return NestedField(next(ids), READABLE_METRICS, StructType(*columns), False, "What is known of each column")


def _columns(schema: Schema) -> dict[str, NestedField]:
    """Return every column that may have metrics, by its dotted name."""
    return {".".join(path): field for path, field in walk(schema.fields) if isinstance(field.field_type, PrimitiveType)}


def _column_field(ids: Iterator[int], name: str, column: NestedField) -> NestedField:
    own_id = next(ids)
    bound = StringType() if isinstance(column.field_type, _SHAPES) else column.field_type
    members = [NestedField(next(ids), member, LongType(), False, doc) for member, _, doc in _COUNTS]
    members += [NestedField(next(ids), member, bound, False, doc) for member, _, doc in _BOUNDS]
    return NestedField(own_id, name, StructType(*members), False, f"Metrics of the column {name}")


def readable_metrics(entries: Any, schema: Schema, target: NestedField) -> Any:
    """Return the values of the column `readable_metrics` as an Arrow array of structs, one for each entry.

    Args:
        entries: Manifest entries, from `manifest_reader.read_columns` with all maps.
        schema: The table's schema.
        target: The result of `readable_metrics_field`.
    """
    values = _values_by_column(entries)
    columns = _columns(schema)
    rows = len(entries)
    fields = children(target.field_type)
    arrays = [_column_struct(columns[field.name], field, values, rows) for field in fields]
    if not arrays:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, fields=[field_to_arrow(field) for field in fields])


def _column_struct(column: NestedField, target: NestedField, values: _Values, rows: int) -> Any:
    arrow = type_to_arrow(target.field_type)
    arrays = [values(name, column.field_id) for _, name, _ in _COUNTS]
    arrays += [_bounds(column, values(name, column.field_id)) for _, name, _ in _BOUNDS]
    fields = [arrow.field(place) for place in range(arrow.num_fields)]
    columns = [pa.nulls(rows, field.type) if array is None else array.cast(field.type) for array, field in zip(arrays, fields, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _bounds(column: NestedField, stored: Any) -> Any | None:
    """Return the bounds of a column as values of its type; null if the stored bytes are not a value of the type."""
    kind = column.field_type
    if stored is None or not isinstance(kind, PrimitiveType):
        return None
    if isinstance(kind, _SHAPES):
        return pa.array([_corner(data) for data in stored.to_pylist()], pa.string())
    return bounds_to_array(kind, stored)


def _corner(data: bytes | None) -> str | None:
    try:
        return None if data is None else str(geospatial_bound_from_bytes(data))
    except FormatError:
        return None


# ---- maps by column id, column by column ----


def _values_by_column(entries: Any) -> _Values:
    """Return a function from the name of a map, such as `lower_bounds`, and a field id to the column's values.

    The values are an Arrow array with one value for each entry, null if the entry's map lacks the field id; None if all maps lack it. The keys of each map are
    sorted once, so that the time does not grow with the number of columns times the number of entries.
    """
    sorted_maps: dict[str, _SortedMap] = {name: _SortedMap(array_of_chunks(entries[name])) for name in METRICS_MAPS}
    return lambda name, field_id: sorted_maps[name].values_of(field_id)


class _SortedMap:
    """An Arrow array of maps from field ids to values, with all entries sorted by field id."""

    def __init__(self, maps: Any) -> None:
        offsets = offsets_of(maps) if len(maps) else np.zeros(1, np.int32)
        entries = slice(int(offsets[0]), int(offsets[-1]))
        keys = numpy_of(maps.keys.cast(pa.int64()))[entries]
        self._rows = len(maps)
        self._order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._row_of = np.repeat(np.arange(self._rows), np.diff(offsets))
        self._items = maps.items[entries]

    def values_of(self, field_id: int) -> Any | None:
        """Return one value for each map, null if it lacks the field id; None if all maps lack it."""
        start, stop = np.searchsorted(self._keys, [field_id, field_id + 1])
        if start == stop:
            return None
        places = self._order[start:stop]
        # If a key is repeated in a map, the last value counts, as in a dict.
        source = np.full(self._rows, -1, np.int64)
        source[self._row_of[places]] = places
        return self._items.take(pa.array(source, mask=source < 0))
