"""The few types that cross between Spark and a task as another Arrow type than a data file holds: uuid as text, fixed as binary, time in nanoseconds.

Everything else crosses as it is. Bringing rows to a table's schema is `kernel.schema.cast`. Floor: spark. Spec: Primitive Types.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.kernel.types import FixedType, IcebergType, ListType, MapType, PrimitiveType, StructType, TimeType, UUIDType, children

_UUID_BYTES = 16
# Where the hyphens of 8-4-4-4-12 stand, and where the 32 hexadecimal digits do.
_HYPHENS = (8, 13, 18, 23)
_DIGITS = [place for place in range(36) if place not in _HYPHENS]
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def differs(kind: IcebergType) -> bool:
    """Whether a column of this type crosses in another form than a file holds it."""
    return isinstance(kind, UUIDType | FixedType | TimeType) or any(differs(field.field_type) for field in children(kind))


def to_spark_form(array: Any, kind: IcebergType) -> Any:
    """An Arrow array of the table's form as the one Spark takes."""
    if not differs(kind):
        return array
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(kind, UUIDType):
        return _uuid_texts(array)
    if isinstance(kind, FixedType):
        return array.cast(pa.binary())
    if isinstance(kind, TimeType):
        return array.cast(pa.time64("ns"))
    return _rebuilt(array, kind)


def _rebuilt(array: Any, kind: IcebergType) -> Any:
    if isinstance(kind, StructType):
        arrays = [to_spark_form(array.field(place), field.field_type) for place, field in enumerate(kind.fields)]
        fields = [pa.field(old.name, new.type, old.nullable) for old, new in zip(array.type.fields, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.is_null(array))
    if isinstance(kind, ListType):
        values, old = to_spark_form(array.values, kind.element), array.type.value_field
        whole = pa.list_(pa.field(old.name, values.type, old.nullable))
        return pa.Array.from_buffers(whole, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    if isinstance(kind, MapType):
        keys, items = to_spark_form(array.keys, kind.key_type), to_spark_form(array.items, kind.value_type)
        whole = pa.map_(keys.type, pa.field(array.type.item_field.name, items.type, array.type.item_field.nullable))
        entries = pa.StructArray.from_arrays([keys, items], fields=[whole.key_field, whole.item_field])
        return pa.Array.from_buffers(whole, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return array


def _uuid_texts(array: Any) -> Any:
    """Fixed binary of 16 bytes as lower-case text of 36 characters, without a Python object per value."""
    count = len(array)
    if array.type != pa.binary(_UUID_BYTES):
        array = array.cast(pa.binary(_UUID_BYTES))
    start = array.offset * _UUID_BYTES
    raw = (
        np.frombuffer(array.buffers()[1], np.uint8, count * _UUID_BYTES, start).reshape(count, _UUID_BYTES)
        if count
        else np.empty((0, 16), np.uint8)
    )
    digits = np.empty((count, 2 * _UUID_BYTES), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[raw >> 4], _HEX[raw & 15]
    text = np.full((count, 36), ord("-"), np.uint8)
    text[:, _DIGITS] = digits
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    plain = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))
    return pc.if_else(array.is_valid(), plain, pa.scalar(None, pa.string())) if array.null_count else plain


def is_text_for_uuid(kind: IcebergType, arrow: Any) -> bool:
    """Whether an Arrow column of text stands for a uuid column."""
    return (
        isinstance(kind, PrimitiveType)
        and isinstance(kind, UUIDType)
        and bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))
    )
