"""The Arrow schema of a data file, and the conversion of rows to it before they are written: unknown columns left out, types replaced.

Each format has its own Arrow types for columns (`parquet_appender.py`, `orc_appender.py`, `avro_appender.py`). Spec: Appendix A.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.errors import UnsupportedTypeError
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType

# Function from a primitive type to the Arrow type that a format stores.
PrimitiveToArrow = Callable[[IcebergType], Any]
# Function from a field to the metadata of its Arrow field.
FieldMetadata = Callable[[NestedField], dict[str, str]]


def file_fields(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
    """Return the fields that a file has: those whose type is not unknown, at every level.

    Raises:
        UnsupportedTypeError: The element of a list or value of a map is of unknown type; no file format can store it.
    """
    return tuple(
        replace(field, field_type=_without_unknown(field.field_type, field.name))
        for field in fields
        if not isinstance(field.field_type, UnknownType)
    )


def _without_unknown(kind: IcebergType, name: str) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*file_fields(kind.fields))
    if isinstance(kind, ListType):
        return replace(kind, element=_check_known(kind.element, name))
    if isinstance(kind, MapType):
        return replace(kind, key_type=_check_known(kind.key_type, name), value_type=_check_known(kind.value_type, name))
    return kind


def _check_known(kind: IcebergType, name: str) -> IcebergType:
    if isinstance(kind, UnknownType):
        raise UnsupportedTypeError(
            f"column {name!r} has elements or values of unknown type, which no data file can store", next_step="give them a type first"
        )
    return _without_unknown(kind, name)


def file_arrow_schema(fields: tuple[NestedField, ...], primitive: PrimitiveToArrow, attributes: FieldMetadata) -> Any:
    """Return the Arrow schema of these fields in a format's files."""

    def arrow(field: NestedField) -> Any:
        return pa.field(field.name, nested(field.field_type), nullable=not field.required, metadata=attributes(field))

    def nested(kind: IcebergType) -> Any:
        if isinstance(kind, StructType):
            return pa.struct([arrow(inner) for inner in kind.fields])
        if isinstance(kind, ListType):
            return pa.list_(arrow(kind.element_field))
        if isinstance(kind, MapType):
            return pa.map_(arrow(kind.key_field), arrow(kind.value_field))
        return primitive(kind)

    return pa.schema([arrow(field) for field in fields])


def to_file_schema(table: Any, fields: tuple[NestedField, ...], file_schema: Any) -> Any:
    """Return an Arrow table, whose columns have field ids, with the columns and types of `file_schema`."""
    projector = Projector("", {})
    batches = [
        pa.RecordBatch.from_arrays(
            projector.struct(batch.column, columns_by_id(batch.schema), fields, file_schema, batch.num_rows), schema=file_schema
        )
        for batch in table.to_batches()
    ]
    return pa.Table.from_batches(batches, schema=file_schema)


def with_nulls_below(array: Any) -> Any:
    """Return the array with null in every field of a null struct, at every level.

    Arrow's ORC writer writes a value below a null struct if the field itself has no nulls, and shifts the values after it. If the array is a slice, it also
    reads the validity of a struct's fields at the wrong offset and loses values; therefore slices are copied.
    """
    kind = array.type
    if array.offset:
        array = pa.concat_arrays([array, array.slice(0, 0)])
    if pa.types.is_struct(kind) and kind.num_fields:
        below = [with_nulls_below(inner) for inner in array.flatten()]
        fields = [field.with_type(inner.type) for field, inner in zip(kind.fields, below, strict=True)]
        return pa.StructArray.from_arrays(below, fields=fields, mask=pc.is_null(array) if array.null_count else None)
    if pa.types.is_list(kind):
        values = with_nulls_below(array.values)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [with_nulls_below(array.keys), with_nulls_below(array.items)], fields=[kind.key_field, kind.item_field]
        )
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return array
