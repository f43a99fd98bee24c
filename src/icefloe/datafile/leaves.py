"""The leaf columns of a schema, in the order in which Parquet stores them.

Spec: Parquet, Nested Types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, UnknownType, VariantType, children

# The group that repeats inside a list's and a map's own group. Spec: Parquet, Nested Types.
_REPEATED_GROUP: dict[type[IcebergType], str] = {ListType: "list", MapType: "key_value"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A primitive column. `path` are the names on the way to it, `stored_path` Parquet's name for it, which also has the groups that repeat.

    `steps` are the positions from the top-level column down through structs; `repeated` where a list or map is on the way.
    """

    field: NestedField
    kind: PrimitiveType
    path: tuple[str, ...]
    stored_path: str
    steps: tuple[int, ...]
    repeated: bool
    # Which of the columns of a Parquet row group it is.
    place: int

    @property
    def field_id(self) -> int:
        return self.field.field_id

    def column_of(self, table: Any) -> Any:
        """The leaf's values in an Arrow table of the schema, null where a struct around it is null. Not for repeated leaves."""
        column = table.column(self.steps[0])
        return pc.struct_field(column, list(self.steps[1:])) if len(self.steps) > 1 else column


# The columns of a variant in a row group, metadata and value. It is no leaf here, as it has no metrics.
_VARIANT_COLUMNS = 2


def leaves_of(schema: Schema) -> tuple[Leaf, ...]:
    """Every leaf, depth first: the order of the column chunks in a Parquet row group. Unknown columns are in no file."""
    return tuple(_walk(schema.fields, (), (), (), False, _Counter()))


class _Counter:
    """Columns of a row group passed so far."""

    passed = 0

    def take(self, columns: int) -> int:
        self.passed += columns
        return self.passed - columns


def _walk(
    fields: tuple[NestedField, ...],
    path: tuple[str, ...],
    stored: tuple[str, ...],
    steps: tuple[int, ...],
    repeated: bool,
    counter: _Counter,
) -> Iterator[Leaf]:
    for position, field in enumerate(fields):
        here, kept, way = (*path, field.name), (*stored, field.name), (*steps, position)
        kind = field.field_type
        if isinstance(kind, UnknownType):
            continue
        if isinstance(kind, VariantType):
            counter.take(_VARIANT_COLUMNS)
        elif isinstance(kind, PrimitiveType):
            yield Leaf(field, kind, here, ".".join(kept), way, repeated, counter.take(1))
        else:
            group = _REPEATED_GROUP.get(type(kind))
            yield from _walk(children(kind), here, (*kept, group) if group else kept, way, repeated or group is not None, counter)
