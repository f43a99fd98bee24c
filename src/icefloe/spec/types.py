"""Iceberg types as values: primitive types, variant, and structs, lists and maps with field ids. Types without children can be parsed from text.

`values.py` has the binary and JSON forms of values, and `schema/` has whole schemas.
Spec: Schemas and Data Types; Nested Types; CRS; Edge-Interpolation Algorithm.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from icefloe.errors import InvalidSchemaError

# The maximum precision of decimals. Spec: Primitive Types.
MAX_DECIMAL_PRECISION = 38
# The default reference system of geometry and geography, and the default algorithm of geography. Spec: Primitive Types.
DEFAULT_CRS = "OGC:CRS84"
DEFAULT_EDGE_ALGORITHM = "spherical"
EDGE_ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")


@dataclass(frozen=True)
class IcebergType:
    """A type of the format. For primitive types, `str(type)` is the type string of the spec."""

    @property
    def is_primitive(self) -> bool:
        """Whether the type is a primitive."""
        return isinstance(self, PrimitiveType)

    @property
    def is_struct(self) -> bool:
        """Whether the type is a struct."""
        return isinstance(self, StructType)


@dataclass(frozen=True)
class PrimitiveType(IcebergType):
    """A type without children."""

    def __str__(self) -> str:
        return PRIMITIVE_NAMES[type(self)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, repr=False)
class BooleanType(PrimitiveType):
    """True or false."""


@dataclass(frozen=True, repr=False)
class IntegerType(PrimitiveType):
    """32-bit signed integers; `int` in the spec."""


@dataclass(frozen=True, repr=False)
class LongType(PrimitiveType):
    """64-bit signed integers."""


@dataclass(frozen=True, repr=False)
class FloatType(PrimitiveType):
    """32-bit IEEE 754 numbers."""


@dataclass(frozen=True, repr=False)
class DoubleType(PrimitiveType):
    """64-bit IEEE 754 numbers."""


@dataclass(frozen=True, repr=False)
class DecimalType(PrimitiveType):
    """Fixed-point decimals with `precision` digits, of which `scale` are after the decimal point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_DECIMAL_PRECISION or not 0 <= self.scale <= self.precision:
            raise InvalidSchemaError(
                f"decimal({self.precision}, {self.scale}) is not a decimal type: "
                f"precision is 1 to {MAX_DECIMAL_PRECISION}, scale 0 to precision"
            )

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"

    def __repr__(self) -> str:
        return f"DecimalType(precision={self.precision}, scale={self.scale})"


@dataclass(frozen=True, repr=False)
class DateType(PrimitiveType):
    """Dates, as days since 1970-01-01."""


@dataclass(frozen=True, repr=False)
class TimeType(PrimitiveType):
    """Times of day, as microseconds since midnight."""


@dataclass(frozen=True, repr=False)
class TimestampType(PrimitiveType):
    """Timestamps without time zone, as microseconds since 1970-01-01T00:00:00."""


@dataclass(frozen=True, repr=False)
class TimestamptzType(PrimitiveType):
    """Timestamps with time zone, as microseconds since 1970-01-01T00:00:00 UTC."""


@dataclass(frozen=True, repr=False)
class TimestampNanoType(PrimitiveType):
    """Timestamps without time zone, as nanoseconds since 1970-01-01T00:00:00; `timestamp_ns` in the spec. From format version 3 on."""


@dataclass(frozen=True, repr=False)
class TimestamptzNanoType(PrimitiveType):
    """Timestamps with time zone, as nanoseconds since 1970-01-01T00:00:00 UTC; `timestamptz_ns` in the spec. From format version 3 on."""


@dataclass(frozen=True, repr=False)
class StringType(PrimitiveType):
    """UTF-8 text."""


@dataclass(frozen=True, repr=False)
class UUIDType(PrimitiveType):
    """UUIDs."""


@dataclass(frozen=True, repr=False)
class FixedType(PrimitiveType):
    """Byte strings of exactly `length` bytes."""

    length: int

    def __post_init__(self) -> None:
        if not 1 <= self.length < 1 << 31:
            raise InvalidSchemaError(f"fixed[{self.length}] is not a type: the length is from 1 to 2147483647 bytes")

    def __str__(self) -> str:
        return f"fixed[{self.length}]"

    def __repr__(self) -> str:
        return f"FixedType(length={self.length})"


@dataclass(frozen=True, repr=False)
class BinaryType(PrimitiveType):
    """Byte strings of any length."""


@dataclass(frozen=True, repr=False)
class UnknownType(PrimitiveType):
    """The type of columns that only have nulls. They are always optional and are not stored in data files. From format version 3 on."""


@dataclass(frozen=True)
class GeometryType(PrimitiveType):
    """Shapes with straight edges, as WKB, in a coordinate reference system. From format version 3 on.

    The letter case of reference systems is ignored in comparisons, as in Java.
    """

    crs: str = DEFAULT_CRS

    def __post_init__(self) -> None:
        _check_crs("geometry", self.crs, ")")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeometryType) and self.crs.upper() == other.crs.upper()

    def __hash__(self) -> int:
        return hash((GeometryType, self.crs.upper()))

    def __str__(self) -> str:
        # The text of the default has no parameters, because PyIceberg supports only this form.
        return f"geometry({self.crs})" if self.crs.upper() != DEFAULT_CRS else "geometry"


@dataclass(frozen=True)
class GeographyType(PrimitiveType):
    """Shapes on the globe, as WKB. `algorithm` is the interpolation of edges between points. From format version 3 on.

    The letter case of reference systems is ignored in comparisons, as in Java.
    """

    crs: str = DEFAULT_CRS
    algorithm: str = DEFAULT_EDGE_ALGORITHM

    def __post_init__(self) -> None:
        _check_crs("geography", self.crs, ",)")
        if self.algorithm not in EDGE_ALGORITHMS:
            raise InvalidSchemaError(f"{self.algorithm!r} is not an edge algorithm of geography; use one of {', '.join(EDGE_ALGORITHMS)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GeographyType) and (self.crs.upper(), self.algorithm) == (other.crs.upper(), other.algorithm)

    def __hash__(self) -> int:
        return hash((GeographyType, self.crs.upper(), self.algorithm))

    def __str__(self) -> str:
        if self.algorithm != DEFAULT_EDGE_ALGORITHM:
            return f"geography({self.crs}, {self.algorithm})"
        return f"geography({self.crs})" if self.crs.upper() != DEFAULT_CRS else "geography"


def _check_crs(name: str, crs: str, forbidden: str) -> None:
    """Refuse a reference system that cannot be written in the type's text, or that the format forbids. Spec: CRS."""
    if not crs or crs != crs.strip() or any(letter in crs for letter in forbidden):
        raise InvalidSchemaError(
            f"{crs!r} cannot be the CRS of {name}: it is a name such as OGC:CRS84, without blanks around it and without {' or '.join(forbidden)}"
        )
    if crs.startswith("{"):
        raise InvalidSchemaError(
            f"the CRS of {name} may not be a definition in PROJJSON",
            next_step="keep the definition in a table property and write projjson:<name of the property>",
        )


@dataclass(frozen=True)
class VariantType(IcebergType):
    """Values of any structure, which is stored with each value. Variant is neither a primitive nor a nested type. From format version 3 on."""

    def __str__(self) -> str:
        return "variant"


PRIMITIVE_NAMES: dict[type[PrimitiveType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimeType: "time",
    TimestampType: "timestamp",
    TimestamptzType: "timestamptz",
    TimestampNanoType: "timestamp_ns",
    TimestamptzNanoType: "timestamptz_ns",
    UnknownType: "unknown",
    StringType: "string",
    UUIDType: "uuid",
    BinaryType: "binary",
}


_BY_NAME: dict[str, IcebergType] = {name: kind() for kind, name in PRIMITIVE_NAMES.items()} | {"variant": VariantType()}
_FIXED = re.compile(r"fixed\[\s*(\d{1,10})\s*\]", re.ASCII)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", re.ASCII)
# No two parts of the pattern can match the same text, so even a malicious name is matched in linear time.
_SHAPE = re.compile(r"(geometry|geography)\s*(?:\(([^)]*)\))?")
_ALGORITHM = re.compile(r"\w*", re.ASCII)


def type_from_text(text: str) -> IcebergType:
    """Parse the text of a primitive type or variant.

    Raises:
        InvalidSchemaError: The text is not a type.
    """
    kind = _BY_NAME.get(text)
    if kind is not None:
        return kind
    if match := _FIXED.fullmatch(text):
        return FixedType(int(match[1]))
    if match := _DECIMAL.fullmatch(text):
        return DecimalType(int(match[1]), int(match[2]))
    if match := _SHAPE.fullmatch(text):
        return _shape_type(text, match[1], match[2])
    raise _no_type(text)


def _no_type(text: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"{text!r} is not the name of a type")


def _shape_type(text: str, name: str, parameters: str | None) -> IcebergType:
    """Return geometry or geography with the parameters in the type's text, or None for no parameters.

    PyIceberg writes quotes around the parameters, which are removed.

    Raises:
        InvalidSchemaError: The algorithm of a geography is not a word.
    """
    if name == "geometry":
        return GeometryType() if parameters is None else GeometryType(_without_quotes(parameters.strip()))
    if parameters is None:
        return GeographyType()
    crs, comma, algorithm = parameters.partition(",")
    algorithm = _without_quotes(algorithm.strip())
    if not _ALGORITHM.fullmatch(algorithm):
        raise _no_type(text)
    crs = _without_quotes(crs.strip())
    return GeographyType(crs, algorithm.lower()) if comma else GeographyType(crs)


def _without_quotes(parameter: str) -> str:
    return parameter[1:-1] if len(parameter) > 1 and parameter[0] == parameter[-1] and parameter[0] in "'\"" else parameter


@dataclass(frozen=True)
class NestedField:
    """A field of a struct, with a name and an id. The positional arguments are id, name, type, required and doc, as in PyIceberg.

    The type may be passed as text. Defaults are physical values (see `values.py`), or None for no default. `initial_default` is the value of rows in files that
    were written before the column was added, and it never changes. `write_default` is the value that writers store for rows without the column. Defaults need
    format version 3.
    """

    field_id: int
    name: str
    field_type: IcebergType
    required: bool = False
    doc: str | None = None
    initial_default: Any = None
    write_default: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "field_type", _type_or_text(self.field_type))

    @property
    def optional(self) -> bool:
        """Whether nulls are allowed."""
        return not self.required

    def __str__(self) -> str:
        doc = f" ({self.doc})" if self.doc else ""
        return f"{self.field_id}: {self.name}: {'required' if self.required else 'optional'} {self.field_type}{doc}"


@dataclass(frozen=True, init=False)
class StructType(IcebergType):
    """Named fields in order: `StructType(field, field, ...)`.

    Raises:
        InvalidSchemaError: An argument is not a field.
    """

    fields: tuple[NestedField, ...]

    def __init__(self, *fields: NestedField) -> None:
        for field in fields:
            if not isinstance(field, NestedField):
                raise InvalidSchemaError(
                    f"a struct or schema consists of fields, and this is a {type(field).__name__}: {field!r}",
                    next_step="pass one NestedField after the other, with no list around them",
                )
        object.__setattr__(self, "fields", tuple(fields))

    @cached_property
    def by_id(self) -> dict[int, NestedField]:
        """The direct child fields by id."""
        return {field.field_id: field for field in self.fields}

    def field(self, field_id: int) -> NestedField | None:
        """Return the direct child field with an id, or None."""
        return self.by_id.get(field_id)

    def field_by_name(self, name: str, case_sensitive: bool = True) -> NestedField | None:
        """Return the direct child field with a name, or None.

        Args:
            name: The name.
            case_sensitive: Whether the name must match in letter case.
        """
        searched_name = name if case_sensitive else name.lower()
        return next((field for field in self.fields if (field.name if case_sensitive else field.name.lower()) == searched_name), None)

    def __len__(self) -> int:
        return len(self.fields)

    def __bool__(self) -> bool:
        return True  # a struct without fields is true too

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, init=False)
class ListType(IcebergType):
    """`ListType(element_id, element, element_required=True)`: a list. Its element is a field with an id. The type may be passed as text.

    Raises:
        InvalidSchemaError: The element type is missing, or its text is not a type.
    """

    element_id: int
    element: IcebergType
    element_required: bool

    def __init__(
        self,
        element_id: int,
        element: IcebergType | str | None = None,
        element_required: bool = True,
        *,
        element_type: IcebergType | str | None = None,
    ) -> None:
        kind = element if element is not None else element_type
        if kind is None or (element is not None and element_type is not None):
            raise InvalidSchemaError("a list has one type of elements", next_step="pass it as the second argument, or as element_type")
        object.__setattr__(self, "element_id", element_id)
        object.__setattr__(self, "element", _type_or_text(kind))
        object.__setattr__(self, "element_required", element_required)

    @property
    def element_type(self) -> IcebergType:
        """The type of the elements. It is PyIceberg's name of `element`."""
        return self.element

    @property
    def element_field(self) -> NestedField:
        """The element as a field."""
        return NestedField(self.element_id, "element", self.element, self.element_required)

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class MapType(IcebergType):
    """`MapType(key_id, key_type, value_id, value_type, value_required=True)`: a map. Keys are always required. Types may be passed as text."""

    key_id: int
    key_type: IcebergType
    value_id: int
    value_type: IcebergType
    value_required: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_type", _type_or_text(self.key_type))
        object.__setattr__(self, "value_type", _type_or_text(self.value_type))

    @property
    def key_field(self) -> NestedField:
        """The key as a field."""
        return NestedField(self.key_id, "key", self.key_type, True)

    @property
    def value_field(self) -> NestedField:
        """The value as a field."""
        return NestedField(self.value_id, "value", self.value_type, self.value_required)

    def __str__(self) -> str:
        return f"map<{self.key_type}, {self.value_type}>"


def _type_or_text(kind: IcebergType | str) -> IcebergType:
    return type_from_text(kind) if isinstance(kind, str) else kind


def children(kind: IcebergType) -> tuple[NestedField, ...]:
    """Return the direct child fields of a type: a struct's fields, a list's element, or a map's key and value. Other types have no children."""
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    if isinstance(kind, MapType):
        return (kind.key_field, kind.value_field)
    return ()
