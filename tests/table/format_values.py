"""Random types and values of the whole format in a plain form, and conversions of that form to and from Arrow arrays.

No promotion changes the plain form: whole numbers; floats; `Decimal`; dates, timestamps and `_ns` timestamps as nanoseconds since 1970; times
as microseconds; text; bytes for uuid, fixed, binary, shapes; (metadata, value) for a variant; None. A struct is a dictionary by field id, a list a list, a
map a list of pairs.
"""

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icefloe.spec.schema.arrow_types import field_to_arrow, type_to_arrow
from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)
from icefloe.spec.variant import variant_from_python

Plain = Any
DAY = 86_400 * 10**9
# Nanoseconds in one unit of the stored number of a type.
UNITS: dict[type, int] = {DateType: DAY, TimestampType: 1000, TimestamptzType: 1000, TimestampNanoType: 1, TimestamptzNanoType: 1}
NAN = float("nan")
# Days around the epoch, at the ends of months and years, and far from it within the range of nanoseconds.
DAYS = [-106_000, -366, -1, 0, 1, 17_486, 19_782, 106_000]
# Before 1970 whole seconds, as ORC has no others.
MOMENTS = [-(10**9), 0, 1000, 17_486 * DAY + 81_068 * 10**9, -DAY, 19_782 * DAY + 1000, 100_000 * DAY]
POINTS = [b"\x01\x01\x00\x00\x00" + bytes(16), b"\x01\x01\x00\x00\x00" + bytes(7) + b"\x40" + bytes(7) + b"\xc0"]
SMALL_FLOATS = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), NAN]
VALUES: dict[IcebergType, list[Plain]] = {
    BooleanType(): [True, False],
    IntegerType(): [-(2**31), -11, -1, 0, 1, 2, 34, 2**31 - 1],
    LongType(): [-(2**63), -1, 0, 1, 2, 2**31, 2**40, 2**63 - 1],
    FloatType(): SMALL_FLOATS,
    DoubleType(): [*SMALL_FLOATS, 0.1, 1e300],
    DecimalType(5, 2): [Decimal(text) for text in ("0.00", "-1.25", "7.50", "10.65", "-999.98")],
    DecimalType(12, 2): [Decimal(text) for text in ("0.00", "-1.25", "7.50", "10.65", "9999999999.99")],
    DecimalType(38, 2): [Decimal(text) for text in ("0.00", "-1.25", "7.50", "1" * 36 + ".01", "-" + "9" * 36 + ".98")],
    DateType(): [day * DAY for day in DAYS],
    TimeType(): [0, 1, 81_068 * 10**6, 86_400 * 10**6 - 1],
    TimestampType(): MOMENTS,
    TimestamptzType(): MOMENTS,
    TimestampNanoType(): [*MOMENTS, 1, 1_000_001],
    TimestamptzNanoType(): [*MOMENTS, 1, 1_000_001],
    StringType(): ["", "k", "kiwi", "kiwano", "größe/=&", "\U0001f42c" * 20, "k" * 17 + "z", "\uffff", "null"],
    UUIDType(): [bytes(16), bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), b"\xff" * 16],
    FixedType(3): [b"\x00\x00\x00", b"abc", b"\xff\xff\xff"],
    BinaryType(): [b"", b"\x00\x01\x02\x03", b"\xff" * 20, b"a" * 20],
    GeometryType(): POINTS,
    GeographyType("EPSG:4326", "karney"): POINTS,
    VariantType(): [tuple(variant_from_python(value)) for value in (None, 7, "text", {"a": [1, None, {"b": "c"}]}, [])],
}
LATER = (TimestampNanoType(), TimestamptzNanoType(), GeometryType(), GeographyType("EPSG:4326", "karney"), VariantType(), UnknownType())
EARLIER = tuple(kind for kind in VALUES if kind not in LATER)
KEYS = tuple(kind for kind in EARLIER if not isinstance(kind, FloatType | DoubleType))
WIDER: dict[IcebergType, tuple[IcebergType, ...]] = {
    IntegerType(): (LongType(),),
    FloatType(): (DoubleType(),),
    DecimalType(5, 2): (DecimalType(12, 2), DecimalType(38, 2)),
    DecimalType(12, 2): (DecimalType(38, 2),),
}


def wider(kind: IcebergType, version: int) -> tuple[IcebergType, ...]:
    """Return the types to which a column of the type can be promoted. Spec: Schema Evolution."""
    if version >= 3 and isinstance(kind, DateType):
        return (TimestampType(), TimestampNanoType())
    if version >= 3 and isinstance(kind, UnknownType):
        return (LongType(), StringType(), DateType(), TimestampNanoType())
    return WIDER.get(kind, ())


def types(version: int) -> st.SearchStrategy[IcebergType]:
    """Draw any type of a format version, nested up to two levels; the catalog assigns field ids, which here must differ only within a struct."""
    plain = st.sampled_from(EARLIER + (LATER if version >= 3 else ()))
    return st.one_of(plain, plain, plain, nested(plain), nested(st.one_of(plain, nested(plain))))


def nested(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[IcebergType]:
    # Values of unknown type cannot be elements, because data files omit such columns.
    field = st.tuples(inner.filter(lambda kind: not isinstance(kind, UnknownType)), st.booleans())
    return st.one_of(
        # A struct with only fields of unknown type would be empty in a file, and Parquet has no empty groups.
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
        .filter(lambda found: any(not isinstance(kind, UnknownType) for kind, _ in found))
        .map(lambda found: StructType(*(NestedField(i, f"m{i}", kind, must_be(kind, must)) for i, (kind, must) in enumerate(found)))),
        field.map(lambda found: ListType(element_id=0, element=found[0], element_required=must_be(*found))),
        st.tuples(st.sampled_from(KEYS), field).map(
            lambda found: MapType(key_id=0, key_type=found[0], value_id=1, value_type=found[1][0], value_required=must_be(*found[1]))
        ),
    )


def must_be(kind: IcebergType, required: bool) -> bool:
    return required and not isinstance(kind, UnknownType)


def present(kind: IcebergType) -> st.SearchStrategy[Plain]:
    """Draw values of the type that are not null."""
    if isinstance(kind, StructType):
        return st.fixed_dictionaries({field.field_id: values(field) for field in kind.fields})
    if isinstance(kind, ListType):
        return st.lists(values(kind.element_field), max_size=3)
    if isinstance(kind, MapType):
        pair = st.tuples(values(kind.key_field), values(kind.value_field))
        return st.lists(pair, max_size=2, unique_by=lambda found: repr(found[0]))
    return st.sampled_from(VALUES[kind])


def values(field: NestedField) -> st.SearchStrategy[Plain]:
    if isinstance(field.field_type, UnknownType):
        return st.none()
    found = present(field.field_type)
    return found if field.required else st.one_of(found, found, found, st.none())


def as_arrow(kind: IcebergType, column: list[Plain]) -> pa.Array:
    """Return an Arrow array of plain values."""
    if isinstance(kind, StructType):
        children = [as_arrow(field.field_type, [row and row[field.field_id] for row in column]) for field in kind.fields]
        mask = pa.array([row is None for row in column], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=[field_to_arrow(field) for field in kind.fields], mask=mask)
    if isinstance(kind, VariantType):
        pairs = [row if row is None else {"metadata": row[0], "value": row[1]} for row in column]
        return pa.array(pairs, type_to_arrow(kind))
    if isinstance(kind, ListType):
        items = as_arrow(kind.element, [item for row in column for item in row or ()])
        return pa.ListArray.from_arrays(offsets(column), items, type=type_to_arrow(kind))
    if isinstance(kind, MapType):
        pairs = [pair for row in column for pair in row or ()]
        keys, items = (as_arrow(inner, [pair[at] for pair in pairs]) for at, inner in enumerate((kind.key_type, kind.value_type)))
        return pa.MapArray.from_arrays(offsets(column), keys, items, type=type_to_arrow(kind))
    if isinstance(kind, UnknownType):
        return pa.nulls(len(column))
    if isinstance(kind, DateType):
        return pa.array([value if value is None else value // DAY for value in column], pa.int32()).view(pa.date32())
    if type(kind) in UNITS or isinstance(kind, TimeType):
        unit = UNITS.get(type(kind), 1)
        return pa.array([value if value is None else value // unit for value in column], pa.int64()).view(type_to_arrow(kind))
    return pa.array(column, type_to_arrow(kind))


def offsets(column: list[Plain]) -> pa.Array:
    """Return the offset of each list; null where the list is null."""
    found: list[int | None] = []
    at = 0
    for row in column:
        found.append(None if row is None else at)
        at += len(row or ())
    return pa.array([*found, at], pa.int32())


def of_arrow(kind: IcebergType, array: pa.Array) -> list[Plain]:
    """Return the plain values of an Arrow array, which must have the Arrow type of `kind`."""
    assert array.type.equals(type_to_arrow(kind, uuid_type=pa.uuid())), f"{array.type} for {kind}"
    array = array.storage if isinstance(array, pa.ExtensionArray) else array
    valid = array.is_valid().to_pylist()
    if isinstance(kind, StructType):
        members = [(field.field_id, of_arrow(field.field_type, array.field(at))) for at, field in enumerate(kind.fields)]
        return [{number: column[row] for number, column in members} if valid[row] else None for row in range(len(array))]
    if isinstance(kind, VariantType):
        return [row and (row["metadata"], row["value"]) for row in array.to_pylist()]
    if isinstance(kind, ListType | MapType):
        bounds = array.offsets.to_pylist()
        if isinstance(kind, ListType):
            items = of_arrow(kind.element, array.values)
        else:
            items = list(zip(of_arrow(kind.key_type, array.keys), of_arrow(kind.value_type, array.items), strict=True))
        return [items[bounds[row] : bounds[row + 1]] if valid[row] else None for row in range(len(array))]
    if isinstance(kind, DateType):
        return [value if value is None else value * DAY for value in array.view(pa.int32()).to_pylist()]
    if type(kind) in UNITS or isinstance(kind, TimeType):
        unit = UNITS.get(type(kind), 1)
        return [value if value is None else value * unit for value in array.view(pa.int64()).to_pylist()]
    found: list[Plain] = array.to_pylist()
    return found


def rows_of_arrow(fields: tuple[NestedField, ...], table: pa.Table) -> list[dict[int, Plain]]:
    """Return the rows of a table by field id."""
    assert table.column_names == [field.name for field in fields]
    rows: list[dict[int, Plain]] = []
    for batch in table.to_batches():
        columns = [(field.field_id, of_arrow(field.field_type, batch.column(at))) for at, field in enumerate(fields)]
        rows += [{number: column[at] for number, column in columns} for at in range(batch.num_rows)]
    return rows


def arrow_of_rows(fields: tuple[NestedField, ...], rows: list[dict[int, Plain]]) -> pa.Table:
    columns = [as_arrow(field.field_type, [row[field.field_id] for row in rows]) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema([field_to_arrow(field) for field in fields]))
