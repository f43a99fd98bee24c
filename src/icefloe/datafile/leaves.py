"""`Leaf`: a leaf column of a schema; and all of them in the order in which Parquet stores them.

Spec: Parquet, Nested Types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, UnknownType, VariantType, children

# Name of the repeated group inside the group of a list or a map. Spec: Parquet, Nested Types.
_REPEATED_GROUP: dict[type[IcebergType], str] = {ListType: "list", MapType: "key_value"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column. `path` has the names from the top-level column down; `stored_path` is Parquet's name, which includes repeated groups.

    `steps` are the positions from the top-level column down through structs; `repeated` is true inside a list or map.
    """

    field: NestedField
    kind: PrimitiveType
    path: tuple[str, ...]
    stored_path: str
    steps: tuple[int, ...]
    repeated: bool
    # Its index among the columns of a Parquet row group.
    place: int

    @property
    def field_id(self) -> int:
        """Return the field id of the column."""
        return self.field.field_id

    def column_of(self, table: Any) -> Any:
        """Return the leaf's values in an Arrow table of the schema, null if a struct around it is null. Not for repeated leaves."""
        column = table.column(self.steps[0])
        return pc.struct_field(column, list(self.steps[1:])) if len(self.steps) > 1 else column


# Columns of a variant in a row group: metadata and value. A variant is not a leaf here, because it has no metrics.
_VARIANT_COLUMNS = 2


def leaves_of(schema: Schema) -> tuple[Leaf, ...]:
    """Return every leaf, depth first: the order of the column chunks in a Parquet row group. Columns of unknown type are in no file."""
    return tuple(_walk(schema.fields, (), (), (), False, _Counter()))


class _Counter:
    """Counter of the columns of a row group."""

    count = 0

    def take(self, columns: int) -> int:
        """Count further columns, and return the index of the first."""
        self.count += columns
        return self.count - columns


def _walk(
    fields: tuple[NestedField, ...],
    path: tuple[str, ...],
    stored: tuple[str, ...],
    steps: tuple[int, ...],
    repeated: bool,
    counter: _Counter,
) -> Iterator[Leaf]:
    for position, field in enumerate(fields):
        field_path, stored_path, field_steps = (*path, field.name), (*stored, field.name), (*steps, position)
        kind = field.field_type
        if isinstance(kind, UnknownType):
            continue
        if isinstance(kind, VariantType):
            counter.take(_VARIANT_COLUMNS)
        elif isinstance(kind, PrimitiveType):
            yield Leaf(field, kind, field_path, ".".join(stored_path), field_steps, repeated, counter.take(1))
        else:
            group = _REPEATED_GROUP.get(type(kind))
            inner_path = (*stored_path, group) if group else stored_path
            yield from _walk(children(kind), field_path, inner_path, field_steps, repeated or group is not None, counter)
