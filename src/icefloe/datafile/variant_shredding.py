"""Variants of which a file keeps parts in columns of their own, put together again: a struct of `metadata` and `value` for whatever was shredded.

The bytes are `kernel/variant_bytes.py`. Nothing here writes shredded variants. Spec: Parquet, Variant Shredding.
"""

from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.field_ids import is_list
from icefloe.errors import FormatError, UnsupportedFeatureError
from icefloe.kernel import variant_bytes as form
from icefloe.kernel.schema.arrow_extensions import VARIANT_STORAGE

_METADATA, _VALUE, _TYPED = "metadata", "value", "typed_value"
_UUID_BYTES = 16
# Enough digits for any decimal; Python rounds to 28 by itself.
_WIDE = Context(prec=100)
# A value per row; None where the variant, or the field of an object, is missing.
_Values = list[bytes | None]


def is_variant(kind: Any) -> bool:
    """Whether an Arrow type of a file can be a variant's: a struct with metadata, and with a value or a typed one."""
    if not pa.types.is_struct(kind):
        return False
    names = {field.name for field in kind.fields}
    return _METADATA in names and names <= {_METADATA, _VALUE, _TYPED} and len(names) > 1


def unshredded(array: Any) -> Any:
    """An Arrow array of a file's variant group as `metadata` and `value`, both binary; null where the group is.

    Raises:
        FormatError: value and typed value contradict each other, or a name is not in the metadata.
        UnsupportedFeatureError: a typed value of a type that variants do not have.
    Spec: Variant Shredding, Reconstructing a Shredded Variant.
    """
    metadata = _binary(_member(array, _METADATA))
    typed = _member(array, _TYPED)
    missing = pc.is_null(array)
    if typed is None:
        values = _binary(_member(array, _VALUE))
    else:
        valid = array.is_valid().to_pylist()
        names = [
            form.read_names(text) if text is not None and known else _NO_NAMES
            for text, known in zip(metadata.to_pylist(), valid, strict=True)
        ]
        found = _constructed(names, array, valid)
        # A variant that is there must have a value, if only the variant null.
        values = pa.array(
            [form.VARIANT_NULL if value is None and known else value for value, known in zip(found, valid, strict=True)], pa.binary()
        )
    return pa.StructArray.from_arrays([metadata, values], fields=list(VARIANT_STORAGE), mask=missing if array.null_count else None)


_NO_NAMES = form.VariantNames(())


def _member(array: Any, name: str) -> Any:
    place = array.type.get_field_index(name)
    return None if place < 0 else array.field(place)


def _binary(array: Any) -> Any:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _constructed(names: Sequence[form.VariantNames], group: Any, present: Sequence[bool]) -> _Values:
    """The values of a group of `value` and `typed_value`; nothing is looked at where it is not present."""
    stored, typed = _member(group, _VALUE), _member(group, _TYPED)
    values: _Values = [None] * len(group) if stored is None else _binary(stored).to_pylist()
    if typed is None:
        return [value if here else None for value, here in zip(values, present, strict=True)]
    here = [known and is_typed for known, is_typed in zip(present, typed.is_valid().to_pylist(), strict=True)]
    if pa.types.is_struct(typed.type):
        return _objects(names, values, typed, present, here)
    found = _arrays(names, typed, here) if is_list(typed.type) else _primitives(typed, here)
    for value, is_typed in zip(values, here, strict=True):
        if value is not None and is_typed:
            raise FormatError("a variant has both a value and a typed value, and is no object")
    return [one if is_typed else value if known else None for one, value, is_typed, known in zip(found, values, here, present, strict=True)]


def _objects(names: Sequence[form.VariantNames], values: _Values, typed: Any, present: Sequence[bool], here: Sequence[bool]) -> _Values:
    fields = {field.name: _constructed(names, typed.field(place), here) for place, field in enumerate(typed.type.fields)}
    found: _Values = []
    for row, is_typed in enumerate(here):
        if not is_typed:
            found.append(values[row] if present[row] else None)
            continue
        members = {name: part for name, parts in fields.items() if (part := parts[row]) is not None}
        rest = values[row]
        if rest is not None:
            if form.basic_type(rest) != form.OBJECT:
                raise FormatError("a variant has fields in columns of their own, and a value that is no object")
            # What stands in both is read from its column.
            members = {name: part for name, part in form.object_fields(names[row], rest).items() if name not in fields} | members
        found.append(form.object_value(names[row], members))
    return found


def _arrays(names: Sequence[form.VariantNames], typed: Any, here: Sequence[bool]) -> _Values:
    if not pa.types.is_list(typed.type):
        typed = typed.cast(pa.list_(typed.type.value_field))
    offsets = typed.offsets.to_pylist()
    spread = [_NO_NAMES] * len(typed.values)
    inside = [False] * len(typed.values)
    for row, is_typed in enumerate(here):
        if is_typed:
            for place in range(offsets[row], offsets[row + 1]):
                spread[place], inside[place] = names[row], True
    elements = _constructed(spread, typed.values, inside)
    if any(element is None and is_inside for element, is_inside in zip(elements, inside, strict=True)):
        # An element may not be missing; one that is reads as null, as a whole variant does.
        elements = [form.VARIANT_NULL if element is None else element for element in elements]
    return [
        form.array_value([element for element in elements[offsets[row] : offsets[row + 1]] if element is not None]) if is_typed else None
        for row, is_typed in enumerate(here)
    ]


def _primitives(typed: Any, here: Sequence[bool]) -> _Values:
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    encode, plain = _encoder(typed)
    return [encode(value) if is_typed else None for value, is_typed in zip(plain.to_pylist(), here, strict=True)]


def _encoder(typed: Any) -> tuple[Callable[[Any], bytes], Any]:
    """What makes a value of each element, and the array of elements it takes."""
    kind, types = typed.type, pa.types
    if types.is_boolean(kind):
        return form.bool_value, typed
    if kind in _NUMBERS:
        number, plain = _NUMBERS[kind]
        return lambda value: form.number_value(number, value), typed.cast(plain)
    if types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        number = _MOMENTS[kind.unit, kind.tz is not None]
        return lambda value: form.number_value(number, value), typed.cast(pa.int64())
    if types.is_decimal(kind):
        return lambda value: form.decimal_value(int(value.scaleb(kind.scale, _WIDE)), kind.scale, kind.precision), typed
    if types.is_string(kind) or types.is_large_string(kind):
        return form.string_value, typed
    if types.is_binary(kind) or types.is_large_binary(kind):
        return form.binary_value, typed
    if types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES:
        return form.uuid_value, typed
    raise UnsupportedFeatureError(f"a shredded variant keeps values as {kind}, which variants do not have")


_NUMBERS = {
    pa.int8(): (form.INT8, pa.int8()),
    pa.int16(): (form.INT16, pa.int16()),
    pa.int32(): (form.INT32, pa.int32()),
    pa.int64(): (form.INT64, pa.int64()),
    pa.float32(): (form.FLOAT, pa.float32()),
    pa.float64(): (form.DOUBLE, pa.float64()),
    pa.date32(): (form.DATE, pa.int32()),
    pa.time64("us"): (form.TIME, pa.int64()),
}
_MOMENTS = {
    ("us", True): form.TIMESTAMPTZ,
    ("us", False): form.TIMESTAMP,
    ("ns", True): form.TIMESTAMPTZ_NANOS,
    ("ns", False): form.TIMESTAMP_NANOS,
}
