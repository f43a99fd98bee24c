"""`unshred`: reconstruct shredded variants, whose parts a file stores in separate columns, as structs of `metadata` and `value`.

`spec/variant_bytes.py` encodes the values, and `variant_shredder.py` shreds them. Spec: Parquet, Variant Shredding.
"""

from collections.abc import Callable, Sequence
from decimal import Context
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.field_ids import is_list
from icefloe.errors import FormatError, UnsupportedFeatureError
from icefloe.spec import variant_bytes
from icefloe.spec.schema.arrow_extensions import VARIANT_STORAGE

_METADATA, _VALUE, _TYPED = "metadata", "value", "typed_value"
_UUID_BYTES = 16
# Enough digits for any decimal; Python's default context rounds to 28 digits.
_WIDE = Context(prec=100)
# A value for each row; None if the variant, or the field of an object, is missing.
_Values = list[bytes | None]


def is_variant(kind: Any) -> bool:
    """Return True if a file's Arrow type can be a variant: a struct of metadata, and a value or a typed value."""
    if not pa.types.is_struct(kind):
        return False
    names = {field.name for field in kind.fields}
    return _METADATA in names and names <= {_METADATA, _VALUE, _TYPED} and len(names) > 1


def unshred(array: Any) -> Any:
    """Return an Arrow array of a variant group as structs of binary `metadata` and `value`; null where the group is null.

    Raises:
        FormatError: A value and a typed value contradict each other, or a name is not in the metadata.
        UnsupportedFeatureError: A typed value has a type that variants do not have.

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
            variant_bytes.read_names(text) if text is not None and is_valid else _NO_NAMES
            for text, is_valid in zip(metadata.to_pylist(), valid, strict=True)
        ]
        reconstructed = _construct_values(names, array, valid)
        # A variant that is not null must have a value; if it is missing, the variant is a variant null.
        values = pa.array(
            [
                variant_bytes.VARIANT_NULL if value is None and is_valid else value
                for value, is_valid in zip(reconstructed, valid, strict=True)
            ],
            pa.binary(),
        )
    return pa.StructArray.from_arrays([metadata, values], fields=list(VARIANT_STORAGE), mask=missing if array.null_count else None)


_NO_NAMES = variant_bytes.VariantNames(())


def _member(array: Any, name: str) -> Any:
    place = array.type.get_field_index(name)
    return None if place < 0 else array.field(place)


def _binary(array: Any) -> Any:
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _construct_values(names: Sequence[variant_bytes.VariantNames], group: Any, present: Sequence[bool]) -> _Values:
    """Return the encoded variant of each row of a group of `value` and `typed_value` columns; rows that are not `present` are ignored."""
    stored, typed = _member(group, _VALUE), _member(group, _TYPED)
    values: _Values = [None] * len(group) if stored is None else _binary(stored).to_pylist()
    if typed is None:
        return [value if is_present else None for value, is_present in zip(values, present, strict=True)]
    has_typed = [is_present and is_typed for is_present, is_typed in zip(present, typed.is_valid().to_pylist(), strict=True)]
    if pa.types.is_struct(typed.type):
        return _objects(names, values, typed, present, has_typed)
    typed_values = _arrays(names, typed, has_typed) if is_list(typed.type) else _primitives(typed, has_typed)
    for value, is_typed in zip(values, has_typed, strict=True):
        if value is not None and is_typed:
            raise FormatError("a variant has both a value and a typed value, and is not an object")
    return [
        typed_value if is_typed else value if is_present else None
        for typed_value, value, is_typed, is_present in zip(typed_values, values, has_typed, present, strict=True)
    ]


def _objects(
    names: Sequence[variant_bytes.VariantNames], values: _Values, typed: Any, present: Sequence[bool], has_typed: Sequence[bool]
) -> _Values:
    fields = {field.name: _construct_values(names, typed.field(place), has_typed) for place, field in enumerate(typed.type.fields)}
    objects: _Values = []
    for row, is_typed in enumerate(has_typed):
        if not is_typed:
            objects.append(values[row] if present[row] else None)
            continue
        members = {name: part for name, parts in fields.items() if (part := parts[row]) is not None}
        rest = values[row]
        if rest is not None:
            if variant_bytes.basic_type(rest) != variant_bytes.OBJECT:
                raise FormatError("a variant has shredded fields, and a value that is not an object")
            # A field that is in both is read from its own column.
            members = {name: part for name, part in variant_bytes.object_fields(names[row], rest).items() if name not in fields} | members
        objects.append(variant_bytes.object_value(names[row], members))
    return objects


def _arrays(names: Sequence[variant_bytes.VariantNames], typed: Any, has_typed: Sequence[bool]) -> _Values:
    if not pa.types.is_list(typed.type):
        typed = typed.cast(pa.list_(typed.type.value_field))
    offsets = typed.offsets.to_pylist()
    element_names = [_NO_NAMES] * len(typed.values)
    inside = [False] * len(typed.values)
    for row, is_typed in enumerate(has_typed):
        if is_typed:
            for place in range(offsets[row], offsets[row + 1]):
                element_names[place], inside[place] = names[row], True
    elements = _construct_values(element_names, typed.values, inside)
    if any(element is None and is_inside for element, is_inside in zip(elements, inside, strict=True)):
        # Elements must not be missing; a missing element is read as null, as a whole variant is.
        elements = [variant_bytes.VARIANT_NULL if element is None else element for element in elements]
    return [
        variant_bytes.array_value([element for element in elements[offsets[row] : offsets[row + 1]] if element is not None])
        if is_typed
        else None
        for row, is_typed in enumerate(has_typed)
    ]


def _primitives(typed: Any, has_typed: Sequence[bool]) -> _Values:
    if isinstance(typed, pa.ExtensionArray):
        typed = typed.storage
    encode, plain = _encoder(typed)
    return [encode(value) if is_typed else None for value, is_typed in zip(plain.to_pylist(), has_typed, strict=True)]


def _encoder(typed: Any) -> tuple[Callable[[Any], bytes], Any]:
    """Return a function that encodes one value of a typed array, and the array converted to the type whose Python values the function takes."""
    kind, types = typed.type, pa.types
    if types.is_boolean(kind):
        return variant_bytes.bool_value, typed
    if kind in _NUMBERS:
        number, plain = _NUMBERS[kind]
        return lambda value: variant_bytes.number_value(number, value), typed.cast(plain)
    if types.is_timestamp(kind) and kind.unit in ("us", "ns"):
        number = _MOMENTS[kind.unit, kind.tz is not None]
        return lambda value: variant_bytes.number_value(number, value), typed.cast(pa.int64())
    if types.is_decimal(kind):
        return lambda value: variant_bytes.decimal_value(int(value.scaleb(kind.scale, _WIDE)), kind.scale, kind.precision), typed
    if types.is_string(kind) or types.is_large_string(kind):
        return variant_bytes.string_value, typed
    if types.is_binary(kind) or types.is_large_binary(kind):
        return variant_bytes.binary_value, typed
    if types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES:
        return variant_bytes.uuid_value, typed
    raise UnsupportedFeatureError(
        f"a shredded variant has values of type {kind}, which variants do not have", next_step="rewrite the file without shredding"
    )


_NUMBERS = {
    pa.int8(): (variant_bytes.INT8, pa.int8()),
    pa.int16(): (variant_bytes.INT16, pa.int16()),
    pa.int32(): (variant_bytes.INT32, pa.int32()),
    pa.int64(): (variant_bytes.INT64, pa.int64()),
    pa.float32(): (variant_bytes.FLOAT, pa.float32()),
    pa.float64(): (variant_bytes.DOUBLE, pa.float64()),
    pa.date32(): (variant_bytes.DATE, pa.int32()),
    pa.time64("us"): (variant_bytes.TIME, pa.int64()),
}
_MOMENTS = {
    ("us", True): variant_bytes.TIMESTAMPTZ,
    ("us", False): variant_bytes.TIMESTAMP,
    ("ns", True): variant_bytes.TIMESTAMPTZ_NANOS,
    ("ns", False): variant_bytes.TIMESTAMP_NANOS,
}
