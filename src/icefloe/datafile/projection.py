"""`Projector`: convert the columns of a file to a schema of the table: find them by field id, rename, reorder, promote, fill in defaults.

`data_file_reader.py` opens the files. Spec: Column Projection; Schema Evolution.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.field_ids import id_of, inner_fields, is_list
from icefloe.datafile.variant_shredding import is_variant, unshred
from icefloe.errors import DataFileFormatError, FormatError
from icefloe.spec.schema.default_values import initial_default_column
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
from icefloe.spec.values import physical_array

_NANOS_PER_MICRO = 1000


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A field of a file at any level, with its field id (None if it has none). Its Parquet leaf columns are those from `first_leaf` to before `end_leaf`."""

    field_id: int | None
    arrow: Any
    first_leaf: int
    end_leaf: int
    inner: tuple["FileColumn", ...]

    @property
    def by_id(self) -> dict[int, "FileColumn"]:
        """Return the fields directly inside this one, by field id."""
        return {column.field_id: column for column in self.inner if column.field_id is not None}


def file_columns(arrow_schema: Any) -> FileColumn:
    """Return the columns of a file as the inner fields of a root field without an id."""
    return _column(pa.field("", pa.struct(list(arrow_schema))), 0)


def _column(arrow: Any, first_leaf: int) -> FileColumn:
    inner: list[FileColumn] = []
    leaf = first_leaf
    for child in inner_fields(arrow.type):
        inner.append(_column(child, leaf))
        leaf = inner[-1].end_leaf
    return FileColumn(id_of(arrow), arrow, first_leaf, leaf if inner else first_leaf + 1, tuple(inner))


def wanted_leaves(root: FileColumn, fields: Iterable[NestedField]) -> set[int]:
    """Return the indexes of the Parquet leaf columns that must be read for these fields. Fields that the file lacks need no leaf."""
    leaves: set[int] = set()
    by_id = root.by_id
    for field in fields:
        column = by_id.get(field.field_id)
        if column is None:
            continue
        # For a struct or list without projected fields, one leaf is read, because it shows which values are null and how long lists are.
        leaves |= _leaves_inside(column, field.field_type) or {column.first_leaf}
    return leaves


def _leaves_inside(column: FileColumn, kind: IcebergType) -> set[int]:
    if isinstance(kind, PrimitiveType):
        return {column.first_leaf}
    if isinstance(kind, VariantType):
        return set(range(column.first_leaf, column.end_leaf))
    if isinstance(kind, MapType) and len(column.inner) == 2:
        # The keys of a map are always read.
        return set(range(column.inner[0].first_leaf, column.inner[0].end_leaf)) | wanted_leaves(column, children(kind))
    return wanted_leaves(column, children(kind))


@dataclass(frozen=True, slots=True)
class Projector:
    """A converter of a file's batches to the projected fields. `constants` has the physical values of identity partition columns, by field id.

    With `floors_nanoseconds`, timestamps in nanoseconds are rounded down if the table's column has microseconds; without it, a fraction of a microsecond is an
    error.
    """

    path: str
    constants: Mapping[int, Any]
    floors_nanoseconds: bool = False

    def struct(
        self, source: Any, columns: Mapping[int, tuple[int, Any]], fields: Iterable[NestedField], targets: Any, length: int, above: str = ""
    ) -> list[Any]:
        """Return one array for each field.

        Args:
            source: A function that returns the array of the file's column at an index.
            columns: The index and Arrow field of the file's columns, by field id.
            fields: The fields to return.
            targets: The Arrow fields of the result.
            length: The number of rows.
            above: For errors: the dotted name of the column that contains the fields, and a dot; empty for top-level columns.

        Raises:
            DataFileFormatError: A column cannot be read as its field, or a required column without a default is missing.
        """
        arrays = []
        for field, target in zip(fields, targets, strict=True):
            column = columns.get(field.field_id)
            if column is not None:
                arrays.append(self.array(source(column[0]), column[1], field, target.type, above))
            else:
                arrays.append(self._missing(field, target.type, length, above))
        return arrays

    def _missing(self, field: NestedField, target: Any, length: int, above: str) -> Any:
        """Return the values of a field that the file does not have. Spec: Column Projection."""
        if field.field_id in self.constants and isinstance(field.field_type, PrimitiveType):
            value = physical_array(field.field_type, [self.constants[field.field_id]]).cast(target)
            return pa.repeat(value[0], length)
        if field.initial_default is not None:
            values = initial_default_column(field, length)
            return values if values.type == target else values.cast(target)
        if field.required:
            raise lacks_required(self.path, field, above)
        return pa.nulls(length, target)

    def array(self, array: Any, arrow: Any, field: NestedField, target: Any, above: str = "") -> Any:
        """Convert an array of the file to the Arrow type `target` of the field.

        Args:
            array: The array.
            arrow: The file's Arrow field, whose inner fields have ids.
            field: The field.
            target: The type of the result.
            above: The same as in `struct`.
        """
        kind = field.field_type
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), target)
        if isinstance(kind, PrimitiveType):
            return self._primitive(array, field, target, above)
        if isinstance(kind, VariantType) and is_variant(array.type):
            return self._variant(array, f"{above}{field.name}")
        if array.type == target and same_ids(arrow, kind):
            return array
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        inside = f"{above}{field.name}."
        if isinstance(kind, StructType) and pa.types.is_struct(array.type):
            return self._struct(array, arrow, kind, target, inside)
        if isinstance(kind, ListType) and is_list(array.type):
            return self._list(array, arrow, kind, target, inside)
        if isinstance(kind, MapType) and pa.types.is_map(array.type):
            return self._map(array, arrow, kind, target, inside)
        raise self._mismatch(field, array.type, above)

    def _struct(self, array: Any, arrow: Any, kind: StructType, target: Any, inside: str) -> Any:
        columns = columns_by_id(arrow.type.fields)
        arrays = self.struct(array.field, columns, kind.fields, target.fields, len(array), inside)
        if not arrays:
            return pa.Array.from_buffers(target, len(array), [array.buffers()[0]], offset=array.offset)
        return pa.StructArray.from_arrays(arrays, fields=list(target.fields), mask=pc.is_null(array))

    def _list(self, array: Any, arrow: Any, kind: ListType, target: Any, inside: str) -> Any:
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        array = _without_hidden_values(array, array.values)
        # All values of the child array are converted, so that validity and offsets stay the same.
        values = self.array(array.values, arrow.type.value_field, kind.element_field, target.value_type, inside)
        return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[values])

    def _map(self, array: Any, arrow: Any, kind: MapType, target: Any, inside: str) -> Any:
        array = _without_hidden_values(array, array.keys)
        # `keys` and `items` are the complete child arrays, as `values` is for a list.
        keys = self.array(array.keys, arrow.type.key_field, kind.key_field, target.key_type, inside)
        items = self.array(array.items, arrow.type.item_field, kind.value_field, target.item_type, inside)
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return pa.Array.from_buffers(target, len(array), array.buffers()[:2], offset=array.offset, children=[entries])

    def _variant(self, array: Any, name: str) -> Any:
        try:
            return unshred(array)
        except FormatError as error:
            raise DataFileFormatError(
                f"column {name!r} of {self.path} contains an invalid variant: {error.message}", path=self.path
            ) from error

    def _primitive(self, array: Any, field: NestedField, target: Any, above: str) -> Any:
        if isinstance(field.field_type, UnknownType):
            # Values of a column of unknown type are ignored. Spec: Parquet (Appendix A).
            return pa.nulls(len(array), target)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if array.type == target:
            return array
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not is_readable_as(array.type, field.field_type):
            raise self._mismatch(field, array.type, above)
        if self.floors_nanoseconds and pa.types.is_timestamp(array.type) and array.type.unit == "ns" and target.unit == "us":
            return _floor(array, target)
        try:
            return array.cast(target)
        except pa.ArrowInvalid as error:
            raise DataFileFormatError(
                f"column {above + field.name!r} of {self.path} contains a value that is not a {field.field_type}: {error}", path=self.path
            ) from error

    def _mismatch(self, field: NestedField, stored_type: Any, above: str) -> DataFileFormatError:
        return DataFileFormatError(
            f"column {above + field.name!r} (field id {field.field_id}) of {self.path} is stored as {stored_type}, which cannot be read as {field.field_type}",
            path=self.path,
            next_step="rewrite the file with the type of the table, or delete it from the table",
        )


def _without_hidden_values(array: Any, values: Any) -> Any:
    """Return the same lists or maps with a child array that has no values of other rows. `values` are the values of the rows of `array`.

    A slice shares the child array of the complete array. A value of other rows may not fit the target, and converting all values for each of many slices would
    take quadratic time.
    """
    if len(array) and len(values) == array.offsets[-1].as_py() - array.offsets[0].as_py():
        return array
    return pa.concat_arrays([array])  # copies the rows of the slice


def lacks_required(path: str, field: NestedField, above: str = "") -> DataFileFormatError:
    """Return the error for a file that lacks a required column without a default; for `above` see `Projector.struct`. Spec: Column Projection."""
    return DataFileFormatError(
        f"{path} lacks the required column {above + field.name!r} (field id {field.field_id}), which has no default",
        path=path,
        next_step="make the column optional (update_schema().make_column_optional), or leave it out of the columns that are read; "
        "a required column added to a table with rows needs a default",
    )


def _floor(array: Any, target: Any) -> Any:
    """Round timestamps in nanoseconds down to microseconds."""
    nanos = array.cast(pa.int64())
    # Arrow's integer division rounds towards zero, so that for a negative number with a remainder the quotient is one too high.
    micros = pc.divide(nanos, _NANOS_PER_MICRO)
    too_high = pc.less(pc.subtract(nanos, pc.multiply(micros, _NANOS_PER_MICRO)), 0)
    return pc.subtract(micros, too_high.cast(pa.int64())).cast(target)


def columns_by_id(fields: Iterable[Any]) -> dict[int, tuple[int, Any]]:
    """Return the index and the Arrow field of each field that has an id, by id."""
    columns = {}
    for position, field in enumerate(fields):
        field_id = id_of(field)
        if field_id is not None:
            columns[field_id] = (position, field)
    return columns


def same_ids(arrow: Any, kind: IcebergType) -> bool:
    """Return True if the ids inside a file's Arrow field are the ids of the type, in the same order: two columns may have swapped names."""
    inner, fields = inner_fields(arrow.type), children(kind)
    return len(inner) == len(fields) and all(
        id_of(child) == field.field_id and same_ids(child, field.field_type) for child, field in zip(inner, fields, strict=True)
    )


def is_readable_as(arrow: Any, kind: IcebergType) -> bool:
    """Return True if a column of an Arrow type can be read as the Iceberg type: the same type with another width or encoding, or a promotion in the spec.

    A column of Arrow's null type, which writers use if every value is null, can be read as any type.
    """
    types = pa.types
    if types.is_null(arrow):
        return True
    if isinstance(kind, DecimalType):
        return bool(types.is_decimal(arrow)) and arrow.scale == kind.scale and arrow.precision <= kind.precision
    return any(test(arrow) for test in _READABLE_TYPES[type(kind)])


def _is_text(arrow: Any) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def _is_bytes(arrow: Any) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) or pa.types.is_fixed_size_binary(arrow))


def _is_small_integer(arrow: Any) -> bool:
    return bool(pa.types.is_integer(arrow) and arrow.bit_width <= 32)


def _is_float(arrow: Any) -> bool:
    return bool(pa.types.is_float16(arrow) or pa.types.is_float32(arrow))


_READABLE_TYPES: Mapping[type[IcebergType], tuple[Any, ...]] = {
    BooleanType: (pa.types.is_boolean,),
    # Some writers keep the unsigned types of their rows; a value outside of the table's type is an error when it is read.
    IntegerType: (_is_small_integer,),
    LongType: (pa.types.is_integer,),
    FloatType: (_is_float,),
    DoubleType: (_is_float, pa.types.is_float64),
    DateType: (pa.types.is_date,),
    # ORC stores times of day as plain numbers, and so do some writers of Parquet.
    TimeType: (pa.types.is_time, pa.types.is_int64),
    # Not all writers set Parquet's flag `adjusted to UTC`, but the microseconds mean the same. Int96 of old Spark versions has no zone.
    TimestampType: (pa.types.is_timestamp, pa.types.is_date),
    TimestamptzType: (pa.types.is_timestamp,),
    TimestampNanoType: (pa.types.is_timestamp, pa.types.is_date),
    TimestamptzNanoType: (pa.types.is_timestamp,),
    GeometryType: (_is_bytes,),
    GeographyType: (_is_bytes,),
    # Some writers omit Parquet's string annotation.
    StringType: (_is_text, pa.types.is_binary),
    UUIDType: (_is_bytes,),
    FixedType: (_is_bytes,),
    BinaryType: (_is_bytes, _is_text),
}
