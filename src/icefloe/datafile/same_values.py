"""`differing`: in which rows two columns of one type hold different values; nulls equal each other, as NaN does, and 0.0 equals -0.0.

What an upsert asks of rows whose keys match; the keys are `row_keys.py`. Spec: Nested Types; Primitive Types.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.field_ids import is_list
from icefloe.kernel.arrow_values import array_of_chunks, numpy_of, offsets_of

Mask = NDArray[np.bool_]


def differing(left: Any, right: Any) -> Mask:
    """One truth value per row of two Arrow arrays of the same type and length: whether the values differ.

    Lists are compared element by element, maps key by key, whatever order their entries have, structs member by member, variants by their bytes.
    """
    left, right = _plain(left), _plain(right)
    if pa.types.is_null(left.type):
        return np.zeros(len(left), np.bool_)
    known = numpy_of(left.is_valid())
    found: Mask = known != numpy_of(right.is_valid())
    both = np.flatnonzero(known & ~found)
    if not len(both):
        return found
    if len(both) < len(left):
        left, right = left.take(pa.array(both)), right.take(pa.array(both))
    found = found.copy()
    found[both] = _values_differ(left, right)
    return found


def _values_differ(left: Any, right: Any) -> Mask:
    """As `differing`, where no value is null."""
    kind = left.type
    if pa.types.is_struct(kind):
        parts = (differing(pc.struct_field(left, [place]), pc.struct_field(right, [place])) for place in range(kind.num_fields))
        found: Mask = np.logical_or.reduce([np.zeros(len(left), np.bool_), *parts])
        return found
    if pa.types.is_map(kind):
        return _maps_differ(left, right)
    if is_list(kind):
        return _lists_differ(left, right, ("values",))
    if pa.types.is_floating(kind):
        numbers, others = numpy_of(left), numpy_of(right)
        return np.asarray((numbers != others) & ~(np.isnan(numbers) & np.isnan(others)))
    return numpy_of(pc.not_equal(left, right))


def _maps_differ(left: Any, right: Any) -> Mask:
    """Spark does not keep the order of entries, so maps that differ as they stand are looked at again with their entries sorted."""
    found = _lists_differ(left, right, ("keys", "items"))
    places = np.flatnonzero(found & (numpy_of(_lengths(left)) == numpy_of(_lengths(right))))
    if not len(places):
        return found
    again = [_sorted_entries(array_of_chunks(array.take(pa.array(places)))) for array in (left, right)]
    found[places] = _lists_differ(again[0], again[1], ("keys", "items"))
    return found


def _sorted_entries(maps: Any) -> Any:
    """Maps without nulls, each with its entries by ascending key; as they are where the keys have no order."""
    keys, items = _inside(maps, "keys"), _inside(maps, "items")
    lengths = np.diff(offsets_of(maps))
    plain = _plain(keys)
    plain = plain.cast(pa.binary()) if pa.types.is_fixed_size_binary(plain.type) else plain
    if pa.types.is_nested(plain.type):
        return maps
    owners = pa.array(np.repeat(np.arange(len(maps)), lengths))
    order = pc.sort_indices(pa.table({"map": owners, "key": plain}), sort_keys=[("map", "ascending"), ("key", "ascending")])
    starts = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.MapArray.from_arrays(starts, keys.take(order), items.take(order), type=maps.type)


def _lists_differ(left: Any, right: Any, parts: tuple[str, ...]) -> Mask:
    lengths = numpy_of(_lengths(left))
    found: Mask = lengths != numpy_of(_lengths(right))
    same = np.flatnonzero(~found & (lengths > 0))
    if not len(same):
        return found
    # Taken anew, so that the elements of the rows to compare stand side by side, from the first on.
    chosen, others = (array_of_chunks(array.take(pa.array(same))) for array in (left, right))
    inner = [differing(_inside(chosen, part), _inside(others, part)) for part in parts]
    owners = np.repeat(same, lengths[same])
    found = found.copy()
    found[owners[np.logical_or.reduce(inner)]] = True
    return found


def _lengths(array: Any) -> Any:
    if pa.types.is_map(array.type):
        return pa.array(np.diff(offsets_of(array)))
    return pc.list_value_length(array).cast(pa.int32())


def _inside(array: Any, part: str) -> Any:
    """The elements, keys or items of the rows of an array without nulls."""
    if part == "values" and pa.types.is_fixed_size_list(array.type):
        return array.flatten()
    bounds = offsets_of(array)
    return getattr(array, part).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _plain(array: Any) -> Any:
    array = array_of_chunks(array)
    return array.storage if isinstance(array, pa.ExtensionArray) else array
