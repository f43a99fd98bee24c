"""Conversion between Spark's Arrow types and the Arrow types of data files, where they differ.

They differ for uuid (text in Spark), fixed (binary), time (nanoseconds), and variant (a struct that Spark recognizes by a key in its metadata).
`icefloe/spec/schema/schema_cast.py` casts rows to a table's schema. Spec: Primitive Types.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import Problem, SchemaMismatchError
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE
from icefloe.spec.types import FixedType, IcebergType, ListType, MapType, StructType, TimeType, UUIDType, VariantType, children

_UUID_BYTES = 16
# Spark recognises a variant by the order of the fields and by the metadata (ArrowUtils.isVariantField).
_SPARK_VARIANT = (
    pa.field("value", pa.binary(), nullable=False),
    pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
)
# Positions of the hyphens in a uuid's text of 8-4-4-4-12 digits, and of its 32 hexadecimal digits.
_HYPHENS = (8, 13, 18, 23)
_DIGITS = [index for index in range(36) if index not in _HYPHENS]
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def with_list_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Repair a batch from Spark: add the single offset that Arrow requires to lists and texts without entries.

    Spark 4.0 omits the offset if a list inside a list, map or struct is empty in the whole batch; reading the missing offset would crash the process.
    """
    columns = batch.columns  # read once, because PyArrow creates new objects at each access
    repaired = [_with_offsets(column) for column in columns]
    if all(repaired_column is column for repaired_column, column in zip(repaired, columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(repaired, schema=batch.schema)


def _with_offsets(array: Any) -> Any:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return array
    if len(array) == 0:
        return pa.array([], kind)
    if not pa.types.is_nested(kind) or array.offset:  # Spark sends no slices
        return array
    if pa.types.is_struct(kind):
        inner = [array.field(index) for index in range(kind.num_fields)]
    else:
        inner = [array.keys, array.items] if pa.types.is_map(kind) else [array.values]
    repaired = [_with_offsets(child) for child in inner]
    if all(repaired_child is child for repaired_child, child in zip(repaired, inner, strict=True)):
        return array
    if pa.types.is_map(kind):
        repaired = [pa.StructArray.from_arrays(repaired, fields=[kind.key_field, kind.item_field])]
    buffer_count = 1 if pa.types.is_struct(kind) else 2  # the buffers of validity, and of a list's offsets
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:buffer_count], array.null_count, children=repaired)


def needs_conversion(kind: IcebergType) -> bool:
    """Return whether the Arrow type that Spark uses for an Iceberg type differs from the Arrow type in data files."""
    return isinstance(kind, UUIDType | FixedType | TimeType | VariantType) or any(
        needs_conversion(field.field_type) for field in children(kind)
    )


def to_spark_form(array: Any, kind: IcebergType) -> Any:
    """Convert an Arrow array with the type of data files to the type that Spark uses; see this module.

    Args:
        array: An array or chunked array.
        kind: The Iceberg type of the values.
    """
    if not needs_conversion(kind):
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
    if isinstance(kind, VariantType):
        return _variant(array, _SPARK_VARIANT)
    if isinstance(kind, StructType):
        return _struct(array, [(index, field.field_type) for index, field in enumerate(kind.fields)], to_spark_form)
    return _collection(array, kind, to_spark_form)


def from_spark_form(array: Any, kind: IcebergType, column: str) -> Any:
    """Convert an Arrow array from Spark to the Arrow type of data files. Fields of structs are matched by name.

    Args:
        array: An array.
        kind: The Iceberg type of the values.
        column: The name of the column, for errors.

    Raises:
        SchemaMismatchError: A text is not a uuid, or the length of a binary value differs from the column's.
    """
    if not needs_conversion(kind):
        return array
    if isinstance(kind, UUIDType) and _is_text(array.type):
        return _uuids(array, column)
    if isinstance(kind, FixedType) and not pa.types.is_fixed_size_binary(array.type):
        lengths = pc.unique(pc.binary_length(array).drop_null()).to_pylist()
        wrong_lengths = [length for length in lengths if length != kind.length]
        if wrong_lengths:
            raise _mismatch(column, f"has a value of {wrong_lengths[0]} bytes, not of {kind}")
        return array.cast(pa.binary(kind.length))
    if isinstance(kind, VariantType) and pa.types.is_struct(array.type):
        return _variant(array, tuple(VARIANT_STORAGE.fields))
    if isinstance(kind, StructType) and pa.types.is_struct(array.type):
        kinds = {field.name: field.field_type for field in kind.fields}
        inner = [kinds.get(field.name) for field in array.type.fields]
        return _struct(array, list(enumerate(inner)), lambda part, field_type: from_spark_form(part, field_type, column))
    return _collection(array, kind, lambda part, field_type: from_spark_form(part, field_type, column))


def scaled_decimals(unscaled: Any, kind: Any) -> Any:
    """Convert an Arrow array of 64-bit unscaled values to decimals of the Arrow type `kind`, without creating a Python object per value."""
    low = np.frombuffer(unscaled.buffers()[1], np.int64, len(unscaled), 8 * unscaled.offset) if len(unscaled) else np.empty(0, np.int64)
    words = np.empty((len(low), 2), "<i8")
    words[:, 0], words[:, 1] = low, low >> 63  # two's complement: the upper word repeats the sign
    plain = pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)])
    return pc.if_else(unscaled.is_valid(), plain, pa.scalar(None, kind)) if unscaled.null_count else plain


def _struct(array: Any, kinds: Sequence[tuple[int, IcebergType | None]], convert: Callable[[Any, IcebergType], Any]) -> Any:
    arrays = [array.field(index) if kind is None else convert(array.field(index), kind) for index, kind in kinds]
    fields = [pa.field(old.name, new.type, old.nullable) for old, new in zip(array.type.fields, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=pc.is_null(array))


def _variant(array: Any, fields: Sequence[Any]) -> Any:
    """Return the struct of a variant with its two fields in the order of `fields`. Fields of a null variant become empty, because they must not be null."""
    parts = [pc.fill_null(array.field(field.name), b"") for field in fields]
    return pa.StructArray.from_arrays(parts, fields=list(fields), mask=pc.is_null(array))


def _collection(array: Any, kind: IcebergType, convert: Callable[[Any, IcebergType], Any]) -> Any:
    """Convert the values of an array of lists or maps. Its validity and offsets are reused, so that the complete child arrays are converted."""
    if isinstance(kind, ListType) and pa.types.is_list(array.type):
        values, old = convert(array.values, kind.element), array.type.value_field
        arrow_type = pa.list_(pa.field(old.name, values.type, old.nullable))
        return pa.Array.from_buffers(arrow_type, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    if isinstance(kind, MapType) and pa.types.is_map(array.type):
        keys, items = convert(array.keys, kind.key_type), convert(array.items, kind.value_type)
        arrow_type = pa.map_(keys.type, pa.field(array.type.item_field.name, items.type, array.type.item_field.nullable))
        entries = pa.StructArray.from_arrays([keys, items], fields=[arrow_type.key_field, arrow_type.item_field])
        return pa.Array.from_buffers(arrow_type, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return array


def _uuid_texts(array: Any) -> Any:
    """Convert 16-byte values to lower-case uuid texts, without creating a Python object per value."""
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


def _uuids(array: Any, column: str) -> Any:
    """Convert uuid texts, with or without hyphens, to 16-byte values."""
    digits = pc.replace_substring(pc.fill_null(array.cast(pa.string()), "0" * 32), "-", "")
    matches = pc.match_substring_regex(digits, "^[0-9a-fA-F]{32}$")
    if not pc.all(matches).as_py() and len(array):
        raise _mismatch(column, f"has the value {array[matches.index(False).as_py()].as_py()!r}, which is not a uuid")
    digits = pa.concat_arrays([digits])
    codes = np.frombuffer(digits.buffers()[2], np.uint8, 32 * len(array)) if len(array) else np.empty(0, np.uint8)
    nibbles = np.where(codes <= ord("9"), codes - ord("0"), (codes | 32) - ord("a") + 10).astype(np.uint8).reshape(-1, 2)
    raw = np.ascontiguousarray(nibbles[:, 0] << 4 | nibbles[:, 1])
    plain = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_UUID_BYTES), len(array), [None, pa.py_buffer(raw)])
    return pc.if_else(array.is_valid(), plain, pa.scalar(None, plain.type)) if array.null_count else plain


def _is_text(arrow: Any) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _mismatch(column: str, what: str) -> SchemaMismatchError:
    return SchemaMismatchError("the rows do not fit the table", problems=[Problem(where=column, what=what)])
