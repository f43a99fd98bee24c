"""`UpdateSchema`: what `table.update_schema()` gives: changes of a table's columns, collected and then committed together.

What each change does and when it is refused is `kernel/schema/schema_evolution.py`. Spec: Schema Evolution.
"""

from typing import Any, Self

import pyarrow as pa

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.evolve_schema import check_partitions_and_order, evolving, schema_requirements, schema_updates
from icefloe.kernel.commit.metadata_change import MetadataChange
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.schema.arrow_schema import schema_from_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.schema.schema_change import (
    AddColumn,
    ColumnPath,
    DeleteColumn,
    MoveColumn,
    Place,
    RenameColumn,
    ReplaceWith,
    SchemaChange,
    SetDefault,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
)
from icefloe.kernel.types import IcebergType
from icefloe.table.pending_change import Commit, PendingChange


class UpdateSchema(PendingChange):
    """Changes of the columns; a wrong one is refused where it is asked for. Use it in a `with` statement, or call `commit()`.

    A column is named by its dotted text, or by the tuple of its names where one of them holds a dot. Each change sees those before it.
    """

    def __init__(
        self, base: TableMetadata, commit: Commit, *, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> None:
        self._base = base
        self._commit = commit
        self._allow_incompatible = allow_incompatible_changes
        self._case_sensitive = case_sensitive
        self._evolving = evolving(base, allow_incompatible=allow_incompatible_changes, case_sensitive=case_sensitive)
        self._changes: list[SchemaChange] = []

    def add_column(
        self, path: ColumnPath, field_type: IcebergType, doc: str | None = None, required: bool = False, default_value: Any = None
    ) -> Self:
        """A new column, at the end. `place.lat` goes into the struct `place`, or that of a list's elements or a map's values.

        `default_value` is what the rows have that are already there, and what later ones have that come without the column; `{}` for a struct. It needs
        format version 3.

        Raises:
            InvalidSchemaError: the name is taken, there is no such struct, the default is none of the type, or type or default are of a newer version.
            InvalidInputError: it is to be required and has no default, and incompatible changes are not allowed.
        """
        return self._apply(AddColumn(path=path, field_type=field_type, doc=doc, required=required, default=default_value))

    def set_default_value(self, path: ColumnPath, default_value: Any) -> Self:
        """What rows have from now on that come without the column; None: null. Rows that are already there keep what they have.

        Raises:
            InvalidSchemaError: the default is none of the column's type, or the table is of a version below 3.
        """
        return self._apply(SetDefault(path=path, default=default_value))

    def rename_column(self, path_from: ColumnPath, new_name: str) -> Self:
        """Another name for the column, which keeps its values. `new_name` is the last name alone. Raises `InvalidSchemaError`."""
        return self._apply(RenameColumn(path=path_from, new_name=new_name))

    def delete_column(self, path: ColumnPath) -> Self:
        """The column and its values are no longer read; a new column of the same name is another column. Raises `InvalidSchemaError`."""
        return self._apply(DeleteColumn(path=path))

    def update_column(
        self, path: ColumnPath, field_type: IcebergType | None = None, required: bool | None = None, doc: str | None = None
    ) -> Self:
        """A wider type (int to long, float to double, decimal to more digits), required or optional, another text; what is None stays.

        From format version 3 on a date may also become a timestamp or timestamp_ns, and an unknown column one of any type.

        Raises:
            InvalidSchemaError: the type would not widen.
            InvalidInputError: it is to be required, without `allow_incompatible_changes`.
        """
        return self._apply(UpdateColumn(path=path, field_type=field_type, required=required, doc=doc))

    def make_column_optional(self, path: ColumnPath) -> Self:
        """The column may hold nulls from now on."""
        return self._apply(UpdateColumn(path=path, required=False))

    def move_first(self, path: ColumnPath) -> Self:
        """The column becomes the first of its struct, or of the table."""
        return self._apply(MoveColumn(path=path, place=Place.FIRST))

    def move_before(self, path: ColumnPath, before_path: ColumnPath) -> Self:
        """The column goes right before another of the same struct. Raises `InvalidSchemaError` where they are not in one struct."""
        return self._apply(MoveColumn(path=path, place=Place.BEFORE, beside=before_path))

    def move_after(self, path: ColumnPath, after_path: ColumnPath) -> Self:
        """The column goes right after another of the same struct. Raises `InvalidSchemaError` where they are not in one struct."""
        return self._apply(MoveColumn(path=path, place=Place.AFTER, beside=after_path))

    def set_identifier_fields(self, *fields: ColumnPath) -> Self:
        """The columns that together identify a row, in place of those before: required, primitive, not floating."""
        return self._apply(SetIdentifierFields(paths=fields))

    def union_by_name(self, new_schema: Schema | Any) -> Self:
        """Makes room for the rows of another schema (Arrow's or Icefloe's): its new columns are added as optional, narrower types widened.

        Raises:
            InvalidSchemaError: columns of one name whose types cannot be joined; each is listed.
        """
        return self._apply(UnionByName(schema=_schema_of(new_schema)))

    def replace_with(self, new_schema: Schema | Any) -> Self:
        """Another schema (Arrow's or Icefloe's) in place of the table's: its columns in its order. Those of the same name keep their values.

        Raises:
            InvalidSchemaError: a type that does not widen, a column that becomes required, or a new required one without a default; each is listed.
                With `allow_incompatible_changes` they are taken, and a column of another type is a new one.
        """
        return self._apply(ReplaceWith(schema=_schema_of(new_schema)))

    def schema(self) -> Schema:
        """The schema as the changes so far make it; its id is given when it is committed. Raises what `commit` would."""
        schema = self._evolving.finished()
        check_partitions_and_order(self._base, schema)
        return schema

    def commit(self) -> None:
        """Commits the changes together. On a table that others wrote to meanwhile they are made again, where its schema is still the same.

        Raises:
            InvalidSchemaError, InvalidInputError: the changes together break a rule, or a partition spec or the sort order forbids them.
            CommitConflictError: another writer changed the schema. Nothing is changed: refresh the table and look again.
        """
        self._commit(MetadataChange(self._updates, schema_requirements(self._base)))

    def _updates(self, base: TableMetadata) -> Any:
        return schema_updates(base, self._changes, allow_incompatible=self._allow_incompatible, case_sensitive=self._case_sensitive)

    def _apply(self, change: SchemaChange) -> Self:
        self._evolving.apply(change)
        self._changes.append(change)
        return self


def _schema_of(given: Schema | Any) -> Schema:
    if isinstance(given, pa.Schema):
        given = schema_from_arrow(given, keep_ids=False)
    if not isinstance(given, Schema):
        raise InvalidInputError(f"{given!r} is no schema", next_step="pass an icefloe Schema or a pyarrow Schema")
    return given
