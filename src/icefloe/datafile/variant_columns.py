"""Choose the columns into which the variants of a Parquet file are shredded, from its first rows.

The columns are those that Java chooses, but never of the types time, uuid and timestamp in nanoseconds, because Spark's reader fails on them.
`variant_shredder.py` splits variants into the columns. JAVA: VariantShreddingAnalyzer of 1.12. Spec: Parquet, Variant Shredding.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from icefloe.spec import variant_bytes as form

# The limits of columns, as in Java: fields in fewer than a tenth of the variants have no column, and an object has at most so many fields with columns.
_MIN_FREQUENCY = 0.1
_MAX_FIELDS = 300
_MAX_DEPTH = 50
_MAX_OBSERVED_FIELDS = 1000
_MAX_DIGITS = 38
# Labels of containers beside the kinds of primitive values.
_OBJECT, _ARRAY = -2, -1
_INTEGERS = (form.INT8, form.INT16, form.INT32, form.INT64)
_DECIMALS = (form.DECIMAL4, form.DECIMAL8, form.DECIMAL16)
# The columns of values with a fixed width: the Arrow type and numpy's type by the kind of the values.
FIXED_WIDTH: Mapping[int, tuple[Any, str]] = {
    form.INT8: (pa.int8(), "i1"),
    form.INT16: (pa.int16(), "<i2"),
    form.INT32: (pa.int32(), "<i4"),
    form.INT64: (pa.int64(), "<i8"),
    form.FLOAT: (pa.float32(), "<f4"),
    form.DOUBLE: (pa.float64(), "<f8"),
    form.DATE: (pa.date32(), "<i4"),
    form.TIMESTAMPTZ: (pa.timestamp("us", "UTC"), "<i8"),
    form.TIMESTAMP: (pa.timestamp("us"), "<i8"),
}


@dataclass(slots=True)
class _Observed:
    """The values at one path of the observed variants: how many there are of each kind, the digits of decimals, the fields of objects, elements of arrays."""

    kinds: Counter[int] = field(default_factory=Counter)
    integer_digits: int = 0
    scale: int = 0
    fields: "dict[str, _Observed]" = field(default_factory=dict)
    element: "_Observed | None" = None

    def observe(self, names: form.VariantNames, value: bytes, depth: int = 0) -> None:
        """Count a value and the values inside it. Raises `FormatError` if it is damaged."""
        basic, kind = form.basic_type(value), value[0] >> 2
        if basic == form.PRIMITIVE and kind == form.NULL:
            return
        if basic == form.SHORT_STRING:
            kind = form.STRING
        elif basic != form.PRIMITIVE:
            kind = _OBJECT if basic == form.OBJECT else _ARRAY
        self.kinds[form.TRUE if kind == form.FALSE else kind] += 1
        if kind in _DECIMALS:
            number = int.from_bytes(value[2 : 2 + form.DECIMAL_WIDTHS[kind]], "little", signed=True)
            self.integer_digits = max(self.integer_digits, len(str(abs(number))) - value[1])
            self.scale = max(self.scale, value[1])
        elif kind == _OBJECT and depth < _MAX_DEPTH:
            for name, inner in form.object_fields(names, value).items():
                if name in self.fields or len(self.fields) < _MAX_OBSERVED_FIELDS:
                    self.fields.setdefault(name, _Observed()).observe(names, inner, depth + 1)
        elif kind == _ARRAY and depth < _MAX_DEPTH:
            self.element = self.element or _Observed()
            for inner in form.array_elements(value):
                self.element.observe(names, inner, depth + 1)

    def typed_value(self, variants: int) -> Any:
        """Return the Arrow type of the column for values of one type; None without such a column. `variants` is the number of observed variants."""
        kind = self._common_kind()
        if kind == _OBJECT:
            inner = [(name, typed) for name, part in self._frequent_fields(variants) if (typed := part.typed_value(variants)) is not None]
            return pa.struct([pa.field(name, group_type(typed), nullable=False) for name, typed in inner]) if inner else None
        if kind == _ARRAY:
            typed = None if self.element is None else self.element.typed_value(variants)
            return None if typed is None else pa.list_(pa.field("element", group_type(typed), nullable=False))
        if kind in _DECIMALS:
            scale = min(self.scale, max(0, _MAX_DIGITS - self.integer_digits))
            return pa.decimal128(max(1, min(self.integer_digits + self.scale, _MAX_DIGITS)), scale)
        if kind in FIXED_WIDTH:
            return FIXED_WIDTH[kind][0]
        return {form.TRUE: pa.bool_(), form.STRING: pa.string(), form.BINARY: pa.binary()}.get(kind)

    def _common_kind(self) -> int:
        """Return the kind of all values, and the widest one of integers or decimals of several widths; that of null for values of several types."""
        for family in (_INTEGERS, _DECIMALS):
            if self.kinds and self.kinds.keys() <= set(family):
                return max(self.kinds, key=family.index)
        return next(iter(self.kinds)) if len(self.kinds) == 1 else form.NULL

    def _frequent_fields(self, variants: int) -> "list[tuple[str, _Observed]]":
        frequent = [(name, part) for name, part in self.fields.items() if part.kinds.total() >= _MIN_FREQUENCY * variants]
        frequent.sort(key=lambda item: (-item[1].kinds.total(), item[0]))
        return sorted(frequent[:_MAX_FIELDS], key=lambda item: item[0])


def infer_typed_value(variants: Any) -> Any:
    """Return the Arrow type of the column `typed_value` for an Arrow array of unshredded variants; None if the variants are not worth shredding.

    Raises:
        FormatError: A variant is damaged.
    """
    observed = _Observed()
    for variant in variants.to_pylist():
        if variant is not None:
            observed.observe(form.read_names(variant["metadata"]), variant["value"])
    return observed.typed_value(observed.kinds.total())


def group_type(typed: Any) -> Any:
    """Return the Arrow type of a part of a shredded variant, whose values are in `typed_value`, or encoded in `value`."""
    return pa.struct([pa.field("value", pa.binary()), pa.field("typed_value", typed)])


def shredded_type(typed: Any) -> Any:
    """Return the Arrow type of a variant in a file, with a column `typed_value` of the type `typed`."""
    return pa.struct([pa.field("metadata", pa.binary(), nullable=False), *group_type(typed).fields])


def stored_paths(kind: Any, path: str) -> list[str]:
    """Return the dotted paths in Parquet of the columns of a shredded variant, depth first. `path` is that of the variant."""
    if pa.types.is_struct(kind):
        return [stored for part in kind.fields for stored in stored_paths(part.type, f"{path}.{part.name}")]
    return stored_paths(kind.value_type, f"{path}.list.element") if pa.types.is_list(kind) else [path]
