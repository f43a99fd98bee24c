"""Changes of a schema as values, one class for each kind of change. `schema_evolution.py` checks and applies them.

A column is specified by its dotted name (`address.city`), or by the tuple of its names if a name itself contains a dot. The children of lists and maps have the
names `element`, `key` and `value`, which may be omitted for the fields of a struct inside them. Spec: Schema Evolution.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType

ColumnPath = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Adds a column at the end of the table, or at the end of a struct: `path` is the names of the struct followed by the name of the column.

    `default` is the value of existing rows, and of new rows without the column. It is a Python value or a physical value.
    """

    path: ColumnPath
    field_type: IcebergType
    doc: str | None = None
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """Renames a column. A dot in `new_name` is part of the name."""

    path: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumn:
    """Deletes a column. Its id is never used again."""

    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumn:
    """Changes the type, nullability or doc of a column. None means no change."""

    path: ColumnPath
    field_type: IcebergType | None = None
    required: bool | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """Sets the write-default, which is the value of new rows without the column. The value of existing rows never changes. None is null."""

    path: ColumnPath
    default: Any


class ColumnPosition(StrEnum):
    """The new position of a column that is moved in its struct."""

    FIRST = "first"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """Moves a column in its struct. `beside` is the column before or after its new position."""

    path: ColumnPath
    place: ColumnPosition
    beside: ColumnPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdentifierFields:
    """Replaces the identifier fields, which together identify a row. Empty if rows have no identity."""

    paths: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionByName:
    """Adjusts the schema to the columns of another schema.

    Missing columns are added, narrower types are promoted, and required columns become optional if they are optional in the other schema.
    """

    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWith:
    """Replaces the schema. Columns keep their field ids if the new schema has a column of the same name; all others are deleted or added.

    The field ids of `schema` are ignored.
    """

    schema: Schema


SchemaChange = (
    AddColumn | RenameColumn | DeleteColumn | UpdateColumn | SetDefault | MoveColumn | SetIdentifierFields | UnionByName | ReplaceWith
)


def path_text(path: ColumnPath) -> str:
    """Return the path as text for messages."""
    return path if isinstance(path, str) else ".".join(path)
