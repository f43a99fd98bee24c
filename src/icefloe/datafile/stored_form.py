"""Rows brought from the form in which they are handed around to the one in which a format stores them: unknown columns left out, types replaced.

The stored types themselves are each format's own. Spec: Appendix A.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.projection import Projector, columns_by_id
from icefloe.errors import UnsupportedTypeError
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, StructType, UnknownType

# The Arrow field of a stored column, without its id: made of the field and, for a nested one, of its stored children.
StoredType = Callable[[IcebergType], Any]
Attributes = Callable[[NestedField], dict[str, str]]


def stored_fields(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
    """The fields that a file holds: those whose type is known, at every level.

    Raises:
        UnsupportedTypeError: the element of a list or value of a map is unknown; a file has no place for one without values.
    """
    return tuple(
        replace(field, field_type=_stored(field.field_type, field.name))
        for field in fields
        if not isinstance(field.field_type, UnknownType)
    )


def _stored(kind: IcebergType, name: str) -> IcebergType:
    if isinstance(kind, StructType):
        return StructType(*stored_fields(kind.fields))
    if isinstance(kind, ListType):
        return replace(kind, element=_known(kind.element, name))
    if isinstance(kind, MapType):
        return replace(kind, key_type=_known(kind.key_type, name), value_type=_known(kind.value_type, name))
    return kind


def _known(kind: IcebergType, name: str) -> IcebergType:
    if isinstance(kind, UnknownType):
        raise UnsupportedTypeError(
            f"column {name!r} holds values of an unknown type, which no data file can", next_step="give them a type first"
        )
    return _stored(kind, name)


def stored_schema(fields: tuple[NestedField, ...], primitive: StoredType, attributes: Attributes) -> Any:
    """The Arrow schema of these fields in a format: `primitive` gives the types of those without fields, `attributes` the metadata of each."""

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


def to_stored(table: Any, fields: tuple[NestedField, ...], stored: Any) -> Any:
    """An Arrow table, whose columns have field ids, in the columns and types of `stored`."""
    projector = Projector("", {})
    batches = [
        pa.RecordBatch.from_arrays(
            projector.struct(batch.column, columns_by_id(batch.schema), fields, stored, batch.num_rows), schema=stored
        )
        for batch in table.to_batches()
    ]
    return pa.Table.from_batches(batches, schema=stored)


def with_nulls_below(array: Any) -> Any:
    """The array with null in every field under a null struct, at every level.

    Arrow's ORC writer takes what stands under a null struct for a value where the field itself has no nulls, and shifts the values after it. It also looks for
    the nulls of a struct's fields in the wrong place where the array is a slice of another, and loses values: so slices are copied.
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
