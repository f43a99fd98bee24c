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
    """The addition of a column at the end of the table or of a struct. `path` ends with the name of the column, after the names of the struct.

    `default` is the value of existing rows, and of new rows without the column. It is a Python value or a physical value.
    """

    path: ColumnPath
    field_type: IcebergType
    doc: str | None = None
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """The renaming of a column. A dot in `new_name` is part of the name."""

    path: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumn:
    """The deletion of a column. Its id is never used again."""

    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumn:
    """A change of the type, nullability or doc of a column. None means no change."""

    path: ColumnPath
    field_type: IcebergType | None = None
    required: bool | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """A new write-default of a column: the value of new rows that lack the column. None is null. Existing rows keep their value."""

    path: ColumnPath
    default: Any


class ColumnPosition(StrEnum):
    """The new position of a moved column: first in its struct or table, or before or after another column."""

    FIRST = "first"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """The move of a column within its struct or table. With BEFORE and AFTER, `beside` is the column next to its new position."""

    path: ColumnPath
    place: ColumnPosition
    beside: ColumnPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdentifierFields:
    """New identifier fields, which together identify a row, instead of the present ones. Empty `paths` remove them."""

    paths: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionByName:
    """The union of the schema with another schema, so that rows of the other schema can be written.

    Missing columns are added, narrower types are promoted, and required columns become optional if they are optional in the other schema.
    """

    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWith:
    """The replacement of the schema by another. Columns of the same name keep their field ids; all other columns are deleted or added.

    The field ids of `schema` are ignored.
    """

    schema: Schema


SchemaChange = (
    AddColumn | RenameColumn | DeleteColumn | UpdateColumn | SetDefault | MoveColumn | SetIdentifierFields | UnionByName | ReplaceWith
)


def path_text(path: ColumnPath) -> str:
    """Return the path as text for messages."""
    return path if isinstance(path, str) else ".".join(path)
