"""Conversion of Python values and numpy arrays to Arrow and back without pandas.

`pyarrow.array`, `pyarrow.scalar` and `to_numpy` import pandas first, which takes as long as planning a scan of 30,000 files.
`values.py` defines the meaning of the values. It implements no section of the specification, only memory layout.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

# The type code of `array.array` for each of Arrow's fixed-width types. `array.array` refuses values of other types, or beyond the width.
_CODES = {pa.int32(): "i", pa.int64(): "q", pa.float32(): "f", pa.float64(): "d"}
# The memory of manifests' columns. Arrow's default pool, mimalloc, takes huge pages of 2 MiB for each thread and size of array, of which short columns fill
# little: 25 MB when four threads read 100 manifests.
MALLOC = pa.system_memory_pool()
# Zeros that arrays of nulls share as their values.
_ZEROS = pa.py_buffer(bytes(2**20))


def array_of(values: Sequence[Any], kind: Any) -> Any:
    """Return Python values as an array of an Arrow type, None as null; text may be passed as UTF-8 bytes too.

    Raises:
        TypeError, ValueError, OverflowError, pyarrow.ArrowException: A value does not fit the type.
    """
    if None not in values:
        return _array(values, kind, None)
    validity = [value is not None for value in values]
    if not any(validity):
        return pa.nulls(len(values), kind)
    placeholder = next(value for value in values if value is not None)
    return _array([placeholder if value is None else value for value in values], kind, np.array(validity, dtype=bool))


def scalar_of(value: Any, kind: Any) -> Any:
    """Return one value as a scalar of an Arrow type. Raises the errors of `array_of`."""
    return array_of((value,), kind)[0]


def null_longs(length: int) -> Any:
    """Return an int64 Arrow array of `length` nulls. Arrays that are not too long share their memory."""
    if length * 8 > len(_ZEROS):
        return pa.nulls(length, pa.int64())
    return pa.Array.from_buffers(pa.int64(), length, [_ZEROS.slice(0, (length + 7) // 8), _ZEROS.slice(0, length * 8)])


def fill_nulls(values: Any, value: Any) -> Any:
    """Return an Arrow array with its nulls replaced by a value."""
    return pc.coalesce(values, scalar_of(value, values.type), memory_pool=MALLOC) if values.null_count else values


def numbers_array(numbers: NDArray[Any], kind: Any, validity: NDArray[np.bool_] | None = None) -> Any:
    """Return numpy numbers, or a mask, as an array of an Arrow type with the same width. Values are null where `validity` is False; None for no nulls."""
    data = np.packbits(numbers, bitorder="little") if pa.types.is_boolean(kind) else np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(kind, len(numbers), [validity_buffer(validity), pa.py_buffer(data)])


def positions_array(positions: NDArray[np.integer[Any]]) -> Any:
    """Return positions of rows as the Arrow array that `take` needs."""
    return numbers_array(positions.astype(np.int64, copy=False), pa.int64())


def numpy_of(values: Any) -> NDArray[Any]:
    """Return the values of a fixed-width Arrow array without nulls, chunked or not, as a numpy array.

    It is a view of Arrow's memory if possible, else a copy.
    """
    plain = array_of_chunks(values)
    start, end = plain.offset, plain.offset + len(plain)
    data = plain.buffers()[1] or b""
    if pa.types.is_boolean(plain.type):
        return np.unpackbits(np.frombuffer(data, np.uint8), count=end if len(plain) else 0, bitorder="little")[start:].view(bool)
    # A buffer that was received over a network may be longer than its values, and its length need not be a multiple of their width.
    return np.frombuffer(data, _CODES[plain.type], count=end if len(plain) else 0)[start:end]


def chunks_of(values: Any) -> list[Any]:
    """Return the chunks of an Arrow array, chunked or not."""
    return list(values.chunks) if isinstance(values, pa.ChunkedArray) else [values]


def array_of_chunks(values: Any) -> Any:
    """Return a chunked array as one array, without a copy if it has one chunk."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks, memory_pool=MALLOC) if values.num_chunks else values.combine_chunks()


def offsets_of(lists: Any) -> NDArray[np.int32]:
    """Return the offsets of an Arrow list array: where the items of each list begin in its `values`, and at the end where the last list ends."""
    if not len(lists):  # Arrow allows an empty offsets buffer
        return np.zeros(1, dtype=np.int32)
    end = lists.offset + len(lists) + 1
    return np.frombuffer(lists.buffers()[1], np.int32, count=end)[lists.offset : end]


def validity_buffer(validity: NDArray[np.bool_] | None) -> Any:
    """Return the Arrow validity bitmap for a mask; None, which means no nulls, stays None."""
    return None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))


def mask_array(mask: NDArray[np.bool_]) -> Any:
    """Return a mask as an Arrow array."""
    return numbers_array(mask, pa.bool_())


def _array(values: Sequence[Any], kind: Any, validity: NDArray[np.bool_] | None) -> Any:
    """Convert values without None to an array. Where `validity` is False, the value is a placeholder for null."""
    if kind in _CODES:
        return pa.Array.from_buffers(kind, len(values), [validity_buffer(validity), pa.py_buffer(array(_CODES[kind], values))])
    if pa.types.is_boolean(kind):
        if set(map(type, values)) - {bool}:
            raise TypeError("a Boolean value is neither True nor False")
        return numbers_array(np.array(values, dtype=bool), kind, validity)
    if kind == pa.binary():
        return pa.Array.from_buffers(kind, len(values), [validity_buffer(validity), _offsets(values), pa.py_buffer(b"".join(values))])
    if kind == pa.string():
        if set(map(type, values)) == {str} and (joined := "".join(values)).isascii():
            # In ASCII text each character is one byte, so all values are encoded together.
            return pa.Array.from_buffers(kind, len(values), [validity_buffer(validity), _offsets(values), pa.py_buffer(joined.encode())])
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return _array(encoded, pa.binary(), validity).cast(kind)
    if pa.types.is_list(kind):
        items = array_of(list(chain.from_iterable(values)), kind.value_type)
        return pa.Array.from_buffers(kind, len(values), [validity_buffer(validity), _offsets(values)], children=[items])
    nullable = (
        values if validity is None else [value if is_known else None for value, is_known in zip(values, validity.tolist(), strict=True)]
    )
    return pa.array(nullable, kind)


def _offsets(values: Sequence[Any]) -> Any:
    return pa.py_buffer(array("i", accumulate(map(len, values), initial=0)))
