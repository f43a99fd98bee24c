"""`UpdateSchema`: changes of a table's columns, started by `table.update_schema()`, which are collected and committed together.

`spec/schema/schema_evolution.py` has the effect and the rules of each change. Spec: Schema Evolution.
"""

from typing import Any, Self

import pyarrow as pa

from icefloe.commit.evolve_schema import check_partitions_and_order, schema_requirements, schema_updates, start_schema_update
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import InvalidInputError
from icefloe.operations.pending_change import Commit, PendingChange
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.schema.arrow_schema import schema_from_arrow
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.schema_change import (
    AddColumn,
    ColumnPath,
    ColumnPosition,
    DeleteColumn,
    MoveColumn,
    RenameColumn,
    ReplaceWith,
    SchemaChange,
    SetDefault,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
)
from icefloe.spec.types import IcebergType, type_from_text


class UpdateSchema(PendingChange):
    """Changes of the columns, committed at the end of a `with` block or by `commit()`. Each change sees the result of the previous changes.

    An invalid change raises its error at once.

    A column is named by its dotted name, or by the tuple of its names if one of them contains a dot.
    """

    def __init__(
        self, base: TableMetadata, commit: Commit, *, allow_incompatible_changes: bool = False, case_sensitive: bool = True
    ) -> None:
        self._base = base
        self._commit = commit
        self._allow_incompatible = allow_incompatible_changes
        self._case_sensitive = case_sensitive
        self._evolving = start_schema_update(base, allow_incompatible=allow_incompatible_changes, case_sensitive=case_sensitive)
        self._changes: list[SchemaChange] = []

    def add_column(
        self, path: ColumnPath, field_type: IcebergType | str, doc: str | None = None, required: bool = False, default_value: Any = None
    ) -> Self:
        """Add a column at the end of the table or of a struct.

        Args:
            path: the column's name; `place.lat` is added to the struct `place`, to the struct of a list's elements, or to the struct of a map's values.
            field_type: its type, or the text of a type, such as `"string"`.
            doc: its documentation.
            required: whether it must have values.
            default_value: the value that existing rows get, and later rows that are written without the column; `{}` for a struct. Requires format version 3.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the name is taken, the struct does not exist, the default is not a value of the type, or the type or a default needs a
                newer format version.
            InvalidInputError: the column is required without a default, and incompatible changes are not allowed.
        """
        return self._apply(
            AddColumn(
                path=path,
                field_type=_type_of(field_type),
                doc=doc,
                required=required,
                default=default_value,
            )
        )

    def set_default_value(self, path: ColumnPath, default_value: Any) -> Self:
        """Set the value that rows get if they are written without the column from now on; existing rows keep their values.

        Args:
            path: the column's dotted name, or the tuple of its names.
            default_value: the value; None is null.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the default is not a value of the column's type, or the table's format version is below 3.
        """
        return self._apply(SetDefault(path=path, default=default_value))

    def rename_column(self, path_from: ColumnPath, new_name: str) -> Self:
        """Rename a column, which keeps its values.

        Args:
            path_from: the column's dotted name, or the tuple of its names.
            new_name: the new name, without the names of the structs that contain the column.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist, or the new name is taken.
        """
        return self._apply(RenameColumn(path=path_from, new_name=new_name))

    def delete_column(self, path: ColumnPath) -> Self:
        """Delete a column: its values are no longer read, not even by a new column of the same name.

        Args:
            path: the column's dotted name, or the tuple of its names.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist, or it must not be deleted, such as an identifier field.
        """
        return self._apply(DeleteColumn(path=path))

    def update_column(
        self, path: ColumnPath, field_type: IcebergType | str | None = None, required: bool | None = None, doc: str | None = None
    ) -> Self:
        """Change a column's type, nullability or documentation.

        The type can widen: int to long, float to double, decimal to more digits; from format version 3 on also date to timestamp or timestamp_ns, and
        unknown to any type.

        Args:
            path: the column's dotted name, or the tuple of its names.
            field_type: its new type, or the text of a type; None keeps the type.
            required: whether it must have values; None changes nothing.
            doc: its documentation; None keeps the documentation.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the type cannot be widened to the new type.
            InvalidInputError: an optional column becomes required without `allow_incompatible_changes`.
        """
        kind = None if field_type is None else _type_of(field_type)
        return self._apply(UpdateColumn(path=path, field_type=kind, required=required, doc=doc))

    def make_column_optional(self, path: ColumnPath) -> Self:
        """Allow nulls in a column.

        Args:
            path: the column's dotted name, or the tuple of its names.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist.
        """
        return self._apply(UpdateColumn(path=path, required=False))

    def move_first(self, path: ColumnPath) -> Self:
        """Move a column to the first place of its struct, or of the table.

        Args:
            path: the column's dotted name, or the tuple of its names.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: the column does not exist.
        """
        return self._apply(MoveColumn(path=path, place=ColumnPosition.FIRST))

    def move_before(self, path: ColumnPath, before_path: ColumnPath) -> Self:
        """Move a column directly before another column of the same struct.

        Args:
            path: the column's dotted name, or the tuple of its names.
            before_path: the other column.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: a column does not exist, or they are not in the same struct.
        """
        return self._apply(MoveColumn(path=path, place=ColumnPosition.BEFORE, beside=before_path))

    def move_after(self, path: ColumnPath, after_path: ColumnPath) -> Self:
        """Move a column directly after another column of the same struct.

        Args:
            path: the column's dotted name, or the tuple of its names.
            after_path: the other column.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: a column does not exist, or they are not in the same struct.
        """
        return self._apply(MoveColumn(path=path, place=ColumnPosition.AFTER, beside=after_path))

    def set_identifier_fields(self, *fields: ColumnPath) -> Self:
        """Set the columns that together identify a row, instead of the previous ones.

        Args:
            *fields: required columns of primitive types other than float and double.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: a column does not exist, or cannot identify rows.
        """
        return self._apply(SetIdentifierFields(paths=fields))

    def union_by_name(self, new_schema: Schema | Any) -> Self:
        """Make the schema accept rows of another schema: add the columns that are missing, as optional columns, and widen types that are narrower.

        Args:
            new_schema: a `Schema` or an Arrow schema.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: columns of the same name have types that cannot be joined; each is listed.
            InvalidInputError: `new_schema` is no schema.
        """
        return self._apply(UnionByName(schema=_schema_of(new_schema)))

    def replace_with(self, new_schema: Schema | Any) -> Self:
        """Replace the schema by another one, with its columns in its order. Columns of the same name keep their values.

        Args:
            new_schema: a `Schema` or an Arrow schema.

        Returns:
            This update.

        Raises:
            InvalidSchemaError: a type cannot be widened, a column becomes required, or a new required column has no default; each is listed. With
                `allow_incompatible_changes` these changes are allowed, and a column whose type cannot be widened becomes a new column.
            InvalidInputError: `new_schema` is no schema.
        """
        return self._apply(ReplaceWith(schema=_schema_of(new_schema)))

    def schema(self) -> Schema:
        """Return the schema that results from the changes so far. The commit assigns its id.

        Raises:
            InvalidSchemaError, InvalidInputError: as for `commit`.
        """
        schema = self._evolving.build()
        check_partitions_and_order(self._base, schema)
        return schema

    def commit(self) -> None:
        """Commit the changes. If other writers committed meanwhile, the changes are applied to the newer table, as long as its schema is unchanged.

        Raises:
            InvalidSchemaError, InvalidInputError: the changes together violate a rule, or a partition spec or the sort order forbids them.
            CommitConflictError: another writer changed the schema. Nothing was changed: refresh the table and check again.
            CommitUnknownError: the catalog's reply was lost; the commit may or may not have happened.
        """
        self._commit(MetadataChange(self._updates, schema_requirements(self._base)))

    def _updates(self, base: TableMetadata) -> Any:
        return schema_updates(base, self._changes, allow_incompatible=self._allow_incompatible, case_sensitive=self._case_sensitive)

    def _apply(self, change: SchemaChange) -> Self:
        self._evolving.apply(change)
        self._changes.append(change)
        return self


def _type_of(kind: IcebergType | str) -> IcebergType:
    return type_from_text(kind) if isinstance(kind, str) else kind


def _schema_of(schema: Schema | Any) -> Schema:
    if isinstance(schema, pa.Schema):
        schema = schema_from_arrow(schema, keep_ids=False)
    if not isinstance(schema, Schema):
        raise InvalidInputError(f"{schema!r} is no schema", next_step="pass an icefloe Schema or a pyarrow Schema")
    return schema
