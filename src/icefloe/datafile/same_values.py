"""`differing`: find the rows in which two columns of the same type have different values. Nulls are equal, NaN equals NaN, and 0.0 equals -0.0.

An upsert compares the rows with equal keys (`row_keys.py`) in this way, and does not rewrite equal rows. Spec: Nested Types; Primitive Types.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.datafile.field_ids import is_list
from icefloe.spec.arrow_values import array_of_chunks, numpy_of, offsets_of, positions_array

Mask = NDArray[np.bool_]


def differing(left: Any, right: Any, *, zeros_differ: bool = False) -> Mask:
    """Return a mask of the rows in which two Arrow arrays of the same type and length have different values.

    Lists are compared element by element, maps key by key in any order of their entries, structs field by field, variants by their bytes.

    Args:
        left: The first array.
        right: The second array.
        zeros_differ: Whether 0.0 and -0.0 are different values.
    """
    left, right = _plain(left), _plain(right)
    if pa.types.is_null(left.type):
        return np.zeros(len(left), np.bool_)
    left_valid = numpy_of(left.is_valid())
    differ: Mask = left_valid != numpy_of(right.is_valid())
    both = np.flatnonzero(left_valid & ~differ)
    if not len(both):
        return differ
    if len(both) < len(left):
        left, right = left.take(positions_array(both)), right.take(positions_array(both))
    differ = differ.copy()
    differ[both] = _values_differ(left, right, zeros_differ)
    return differ


def _values_differ(left: Any, right: Any, zeros_differ: bool) -> Mask:
    """Return a mask of the rows with different values. Neither array has nulls."""
    kind = left.type
    if pa.types.is_struct(kind):
        parts = (
            differing(pc.struct_field(left, [place]), pc.struct_field(right, [place]), zeros_differ=zeros_differ)
            for place in range(kind.num_fields)
        )
        differ: Mask = np.logical_or.reduce([np.zeros(len(left), np.bool_), *parts])
        return differ
    if pa.types.is_map(kind):
        return _maps_differ(left, right, zeros_differ)
    if is_list(kind):
        return _lists_differ(left, right, ("values",), zeros_differ)
    if pa.types.is_floating(kind):
        numbers, others = numpy_of(left), numpy_of(right)
        is_other = numbers != others
        if zeros_differ:
            is_other |= np.signbit(numbers) != np.signbit(others)
        return np.asarray(is_other & ~(np.isnan(numbers) & np.isnan(others)))
    return numpy_of(pc.not_equal(left, right))


def _maps_differ(left: Any, right: Any, zeros_differ: bool) -> Mask:
    """Return a mask of the rows with different maps. Maps that seem different are compared again with sorted entries, because Spark may reorder entries."""
    differ = _lists_differ(left, right, ("keys", "items"), zeros_differ)
    rows = np.flatnonzero(differ & (numpy_of(_lengths(left)) == numpy_of(_lengths(right))))
    if not len(rows):
        return differ
    left_sorted, right_sorted = (_sorted_entries(array_of_chunks(array.take(positions_array(rows)))) for array in (left, right))
    differ[rows] = _lists_differ(left_sorted, right_sorted, ("keys", "items"), zeros_differ)
    return differ


def _sorted_entries(maps: Any) -> Any:
    """Return maps with their entries sorted by key; unchanged if the key type has no order. None of the maps is null."""
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


def _lists_differ(left: Any, right: Any, parts: tuple[str, ...], zeros_differ: bool) -> Mask:
    """Return a mask of the rows with different lists; for maps, of the rows whose keys or items, as named in `parts`, differ."""
    lengths = numpy_of(_lengths(left))
    differ: Mask = lengths != numpy_of(_lengths(right))
    same_length = np.flatnonzero(~differ & (lengths > 0))
    if not len(same_length):
        return differ
    # The compared rows are copied, so that their elements are adjacent.
    left, right = (array_of_chunks(array.take(positions_array(same_length))) for array in (left, right))
    inner = [differing(_inside(left, part), _inside(right, part), zeros_differ=zeros_differ) for part in parts]
    owners = np.repeat(same_length, lengths[same_length])
    differ = differ.copy()
    differ[owners[np.logical_or.reduce(inner)]] = True
    return differ


def _lengths(array: Any) -> Any:
    if pa.types.is_map(array.type):
        return pa.array(np.diff(offsets_of(array)))
    return pc.list_value_length(array).cast(pa.int32())


def _inside(array: Any, part: str) -> Any:
    """Return the elements of lists, or the keys or items of maps; the array has no nulls."""
    if part == "values" and pa.types.is_fixed_size_list(array.type):
        return array.flatten()
    bounds = offsets_of(array)
    return getattr(array, part).slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _plain(array: Any) -> Any:
    array = array_of_chunks(array)
    return array.storage if isinstance(array, pa.ExtensionArray) else array
