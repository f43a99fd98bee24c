"""Changes of a schema as values, one class for each kind. What each does and when it is refused is `schema_evolution.py`.

A column is named by its dotted text (`place.lat`), or by the tuple of its names where a name itself holds a dot. The members of a list and a map are
`element`, `key` and `value`; the fields of a struct inside them may be named without those words. Spec: Schema Evolution.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType

ColumnPath = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """A new column at the end of the table, or of the struct that the names before the last one lead to.

    `default` is what rows have in it that were written before, and from then on what rows have that come without it; a Python value or a physical one.
    """

    path: ColumnPath
    field_type: IcebergType
    doc: str | None = None
    required: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """Another name for a column; a dot in `new_name` is part of the name."""

    path: ColumnPath
    new_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumn:
    """A column is no longer there. Its id is never given again."""

    path: ColumnPath


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateColumn:
    """Another type, required or optional, another text. None leaves it as it is."""

    path: ColumnPath
    field_type: IcebergType | None = None
    required: bool | None = None
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """Another write-default: what rows have from now on that come without the column. What older rows have never changes. None: null."""

    path: ColumnPath
    default: Any


class Place(StrEnum):
    """Where a moved column goes among the columns beside it."""

    FIRST = "first"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveColumn:
    """Another place in the same struct. `beside` is the column to go before or after."""

    path: ColumnPath
    place: Place
    beside: ColumnPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdentifierFields:
    """The columns that together identify a row, all of them; none: rows have no identity."""

    paths: tuple[ColumnPath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionByName:
    """Columns of another schema that are not there are added, narrower ones promoted, required ones made optional where it says so."""

    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceWith:
    """Another schema in place of this one: columns of the same name stay the same column, others come and go. Its ids mean nothing."""

    schema: Schema


SchemaChange = (
    AddColumn | RenameColumn | DeleteColumn | UpdateColumn | SetDefault | MoveColumn | SetIdentifierFields | UnionByName | ReplaceWith
)


def path_text(path: ColumnPath) -> str:
    """The path as messages show it."""
    return path if isinstance(path, str) else ".".join(path)
