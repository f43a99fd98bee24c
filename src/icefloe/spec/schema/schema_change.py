"""Changes of a schema as values, one class for each kind. `schema_evolution.py` applies and refuses them.

A column is named by its dotted name (`address.city`), or by the tuple of its names where a name itself contains a dot. The members of a list and a map are
`element`, `key` and `value`; the fields of a struct inside them may be named without those words. Spec: Schema Evolution.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IcebergType

ColumnPath = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column at the end of the table, or of the struct that the names before the last one refer to.

    `default` is the value of rows that were written before, and of later rows that come without the column; a Python value or a physical one.
    """

    path: ColumnPath
    field_type: IcebergType
    doc: str | None = None
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A new name for a column; a dot in `new_name` is part of the name."""

    path: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumn:
    """The removal of a column. Its id is never used again."""

    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumn:
    """A new type, nullability or doc of a column. None keeps it."""

    path: ColumnPath
    field_type: IcebergType | None = None
    required: bool | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """A new write-default, the value of later rows that come without the column. The value of older rows never changes. None is null."""

    path: ColumnPath
    default: Any


class ColumnPosition(StrEnum):
    """The new position of a moved column in its struct."""

    FIRST = "first"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """A new position in the same struct. `beside` is the column to move before or after."""

    path: ColumnPath
    place: ColumnPosition
    beside: ColumnPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdentifierFields:
    """The columns that together identify a row, replacing the previous ones; none if rows have no identity."""

    paths: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionByName:
    """The columns of another schema: missing ones are added, narrower ones promoted, required ones made optional where the other schema has them optional."""

    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWith:
    """The replacement of the schema: columns of the same name stay the same column, others are added and deleted. The ids of `schema` are ignored."""

    schema: Schema


SchemaChange = (
    AddColumn | RenameColumn | DeleteColumn | UpdateColumn | SetDefault | MoveColumn | SetIdentifierFields | UnionByName | ReplaceWith
)


def path_text(path: ColumnPath) -> str:
    """Return the path as messages show it."""
    return path if isinstance(path, str) else ".".join(path)
