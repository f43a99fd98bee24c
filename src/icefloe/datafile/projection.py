"""Columns of a file brought to the form the table's schema gives them now: found by field id, renamed, reordered, promoted, filled in.

Opening files is `read.py`. Spec: Column Projection; Schema Evolution.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.field_ids import id_of, inner_fields, is_list
from icefloe.datafile.variant_shredding import is_variant, unshredded
from icefloe.errors import DataFileFormatError, FormatError
from icefloe.kernel.schema.default_values import initial_default_column
from icefloe.kernel.types import (
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
    PrimitiveType,
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
    children,
)
from icefloe.kernel.values import physical_array

_NANOS_PER_MICRO = 1000


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A field of a file: its id (None where the file gives none), its place among the Parquet leaves (`first_leaf` up to, not with, `end_leaf`)."""

    field_id: int | None
    arrow: Any
    first_leaf: int
    end_leaf: int
    inner: tuple["FileColumn", ...]

    @property
    def by_id(self) -> dict[int, "FileColumn"]:
        return {column.field_id: column for column in self.inner if column.field_id is not None}


def file_columns(arrow_schema: Any) -> FileColumn:
    """A file's columns as the members of a root without id."""
    return _column(pa.field("", pa.struct(list(arrow_schema))), 0)


def _column(arrow: Any, first_leaf: int) -> FileColumn:
    inner: list[FileColumn] = []
    leaf = first_leaf
    for child in inner_fields(arrow.type):
        inner.append(_column(child, leaf))
        leaf = inner[-1].end_leaf
    return FileColumn(id_of(arrow), arrow, first_leaf, leaf if inner else first_leaf + 1, tuple(inner))


def wanted_leaves(root: FileColumn, fields: Iterable[NestedField]) -> set[int]:
    """The Parquet leaves that must be read for these fields."""
    leaves: set[int] = set()
    by_id = root.by_id
    for field in fields:
        column = by_id.get(field.field_id)
        if column is None:
            continue
        found = _leaves_inside(column, field.field_type)
        # A struct or list of which nothing is wanted still says where it is null and how long it is: one leaf tells.
        leaves |= found or {column.first_leaf}
    return leaves


def _leaves_inside(column: FileColumn, kind: IcebergType) -> set[int]:
    if isinstance(kind, PrimitiveType):
        return {column.first_leaf}
    if isinstance(kind, VariantType):
        return set(range(column.first_leaf, column.end_leaf))
    if isinstance(kind, MapType) and len(column.inner) == 2:
        # A map without its keys is none.
        return set(range(column.inner[0].first_leaf, column.inner[0].end_leaf)) | wanted_leaves(column, children(kind))
    return wanted_leaves(column, children(kind))


@dataclass(frozen=True, slots=True)
class Projector:
    """Brings batches of one file to the fields asked for. `constants` holds the physical value of identity partition columns, by field id."""

    path: str
    constants: Mapping[int, Any]
    floors_nanoseconds: bool = False

    def struct(
        self, source: Any, columns: Mapping[int, tuple[int, Any]], fields: Iterable[NestedField], targets: Any, length: int
    ) -> list[Any]:
        """One array per field. `source(i)` gives the i-th array at hand, `columns` its place and Arrow field by field id, `targets` the Arrow fields wanted."""
        arrays = []
        for field, target in zip(fields, targets, strict=True):
            found = columns.get(field.field_id)
            if found is not None:
                arrays.append(self.array(source(found[0]), found[1], field, target.type))
            else:
                arrays.append(self._missing(field, target.type, length))
        return arrays

    def _missing(self, field: NestedField, target: Any, length: int) -> Any:
        if field.field_id in self.constants and isinstance(field.field_type, PrimitiveType):
            value = physical_array(field.field_type, [self.constants[field.field_id]]).cast(target)
            return pa.repeat(value[0], length)
        if field.initial_default is not None:
            found = initial_default_column(field, length)
            return found if found.type == target else found.cast(target)
        if field.required:
            raise lacks_required(self.path, field)
        return pa.nulls(length, target)

    def array(self, array: Any, arrow: Any, field: NestedField, target: Any) -> Any:
        """An array of the file as the field's Arrow type `target`. `arrow` is the file's Arrow field, which carries the ids inside."""
        kind = field.field_type
        if isinstance(kind, PrimitiveType):
            return self._primitive(array, field, target)
        if isinstance(kind, VariantType) and is_variant(array.type):
            return self._variant(array, field)
        if array.type == target and same_ids(arrow, kind):
            return array
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if isinstance(kind, StructType) and pa.types.is_struct(array.type):
            return self._struct(array, arrow, kind, target)
        if isinstance(kind, ListType) and is_list(array.type):
            return self._list(array, arrow, kind, target)
        if isinstance(kind, MapType) and pa.types.is_map(array.type):
            return self._map(array, arrow, kind, target)
        raise self._mismatch(field, array.type)

    def _struct(self, array: Any, arrow: Any, kind: StructType, target: Any) -> Any:
        columns = columns_by_id(arrow.type.fields)
        arrays = self.struct(array.field, columns, kind.fields, target.fields, len(array))
        if not arrays:
            return pa.Array.from_buffers(target, len(array), [array.buffers()[0]], offset=array.offset)
        return pa.StructArray.from_arrays(arrays, fields=list(target.fields), mask=pc.is_null(array))

    def _list(self, array: Any, arrow: Any, kind: ListType, target: Any) -> Any:
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        # The values under the offsets, all of them: validity and offsets are kept as they stand.
        values = self.array(array.values, arrow.type.value_field, kind.element_field, target.value_type)
        return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[values])

    def _map(self, array: Any, arrow: Any, kind: MapType, target: Any) -> Any:
        # `keys` and `items` are the whole child arrays, as `values` is of a list.
        keys = self.array(array.keys, arrow.type.key_field, kind.key_field, target.key_type)
        items = self.array(array.items, arrow.type.item_field, kind.value_field, target.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[entries])

    def _variant(self, array: Any, field: NestedField) -> Any:
        try:
            return unshredded(array)
        except FormatError as error:
            raise DataFileFormatError(
                f"column {field.name!r} of {self.path} holds a variant that is none: {error.message}", path=self.path
            ) from error

    def _primitive(self, array: Any, field: NestedField, target: Any) -> Any:
        if isinstance(field.field_type, UnknownType):
            # Whatever stands there is to be passed over. Spec: Parquet (Appendix A).
            return pa.nulls(len(array), target)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if array.type == target:
            return array
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not may_become(array.type, field.field_type):
            raise self._mismatch(field, array.type)
        if self.floors_nanoseconds and pa.types.is_timestamp(array.type) and array.type.unit == "ns" and target.unit == "us":
            return _floored(array, target)
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise DataFileFormatError(
                f"column {field.name!r} of {self.path} holds a value that is no {field.field_type}: {error}", path=self.path
            ) from error

    def _mismatch(self, field: NestedField, found: Any) -> DataFileFormatError:
        return DataFileFormatError(
            f"column {field.name!r} (field id {field.field_id}) of {self.path} is stored as {found}, which cannot be read as {field.field_type}",
            path=self.path,
        )


def lacks_required(path: str, field: NestedField) -> DataFileFormatError:
    """Return the error for a file that lacks a required column without a default. Spec: Column Projection."""
    return DataFileFormatError(
        f"{path} lacks the required column {field.name!r} (field id {field.field_id}), which has no default",
        path=path,
        next_step="make the column optional (update_schema().make_column_optional), or leave it out of the columns that are read; "
        "a required column added to a table with rows needs a default",
    )


def _floored(array: Any, target: Any) -> Any:
    """Timestamps in nanoseconds cut to whole microseconds, downwards."""
    numbers = array.cast(pa.int64())
    # Arrow's integer division goes towards zero, so those below zero that were cut are one too high.
    near = pc.divide(numbers, _NANOS_PER_MICRO)
    too_high = pc.less(pc.subtract(numbers, pc.multiply(near, _NANOS_PER_MICRO)), 0)
    return pc.subtract(near, too_high.cast(pa.int64())).cast(target)


def columns_by_id(fields: Iterable[Any]) -> dict[int, tuple[int, Any]]:
    """The place and the Arrow field of each field that has an id."""
    found = {}
    for position, field in enumerate(fields):
        number = id_of(field)
        if number is not None:
            found[number] = (position, field)
    return found


def same_ids(arrow: Any, kind: IcebergType) -> bool:
    """Whether the ids inside a file's Arrow field are those of the type, in its order: two columns may have swapped their names."""
    inner, wanted = inner_fields(arrow.type), children(kind)
    return len(inner) == len(wanted) and all(
        id_of(child) == field.field_id and same_ids(child, field.field_type) for child, field in zip(inner, wanted, strict=True)
    )


def may_become(arrow: Any, kind: IcebergType) -> bool:
    """Whether a column stored so may be read as the type: the type itself in another width or wrapping, or a promotion of the spec."""
    types = pa.types
    if isinstance(kind, DecimalType):
        return bool(types.is_decimal(arrow)) and arrow.scale == kind.scale and arrow.precision <= kind.precision
    return any(test(arrow) for test in _STORED_AS[type(kind)])


def _is_text(arrow: Any) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _is_bytes(arrow: Any) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow))


def _is_small_integer(arrow: Any) -> bool:
    return bool(pa.types.is_integer(arrow) and (arrow.bit_width < 32 or arrow == pa.int32()))


def _is_float(arrow: Any) -> bool:
    return bool(pa.types.is_float16(arrow) or pa.types.is_float32(arrow))


_STORED_AS: Mapping[type[IcebergType], tuple[Any, ...]] = {
    BooleanType: (pa.types.is_boolean,),
    IntegerType: (_is_small_integer,),
    LongType: (_is_small_integer, pa.types.is_int64, pa.types.is_uint32),
    FloatType: (_is_float,),
    DoubleType: (_is_float, pa.types.is_float64),
    DateType: (pa.types.is_date,),
    # ORC has no times of day, only the number; so do Parquet files of some writers.
    TimeType: (pa.types.is_time, pa.types.is_int64),
    # Whether a file says `adjusted to UTC` differs between writers; the microseconds mean the same. Int96, as old Spark wrote it, comes without zone.
    TimestampType: (pa.types.is_timestamp, pa.types.is_date),
    TimestamptzType: (pa.types.is_timestamp,),
    TimestampNanoType: (pa.types.is_timestamp, pa.types.is_date),
    TimestamptzNanoType: (pa.types.is_timestamp,),
    GeometryType: (_is_bytes,),
    GeographyType: (_is_bytes,),
    # Some writers leave out Parquet's string annotation.
    StringType: (_is_text, pa.types.is_binary),
    UUIDType: (_is_bytes,),
    FixedType: (_is_bytes,),
    BinaryType: (_is_bytes, _is_text),
}
