"""Compares the columns of files with those of a table: their types in the table, new columns that the table does not have, and columns that the files lack."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from icefloe.errors import InvalidSchemaError, Problem, SchemaMismatchError
from icefloe.operations.upsert_source import Names, lacking
from icefloe.spec.schema.schema import Schema, renumbered_type, walk
from icefloe.spec.types import IcebergType, ListType, NestedField, StructType


def schema_of(fields: Iterable[NestedField]) -> Schema:
    """Return a schema of the fields, including nested fields, with new field ids from 1 on."""
    numbers = count(1)
    return Schema(
        *(
            replace(field, field_id=next(numbers), field_type=renumbered_type(field.field_type, lambda: next(numbers), {}))
            for field in fields
        )
    )


def with_table_types(fields: Sequence[NestedField], table_fields: Sequence[NestedField]) -> list[NestedField]:
    """Return the fields of files with the types that fields of the same name have in the table, also inside structs and lists. Other fields are unchanged."""
    known = {field.name: field for field in table_fields}
    return [
        replace(
            field,
            field_type=_join_types(known[field.name].field_type, field.field_type, only_known=True),
            required=known[field.name].required,
        )
        if field.name in known
        else field
        for field in fields
    ]


def with_new_columns(table_fields: Sequence[NestedField], fields: Sequence[NestedField]) -> list[NestedField]:
    """Return the table's fields, followed by the fields that only the files have, as optional fields. Inner structs are extended in the same way."""
    given = {field.name: field for field in fields}
    old = [
        replace(field, field_type=_join_types(field.field_type, given[field.name].field_type, only_known=False))
        if field.name in given
        else field
        for field in table_fields
    ]
    known = {field.name for field in table_fields}
    return [*old, *(replace(field, required=False) for field in fields if field.name not in known)]


def _join_types(table_type: IcebergType, file_type: IcebergType, *, only_known: bool) -> IcebergType:
    if isinstance(table_type, StructType) and isinstance(file_type, StructType):
        join = (
            with_table_types(file_type.fields, table_type.fields) if only_known else with_new_columns(table_type.fields, file_type.fields)
        )
        return StructType(*join)
    if isinstance(table_type, ListType) and isinstance(file_type, ListType):
        return replace(table_type, element=_join_types(table_type.element, file_type.element, only_known=only_known))
    return table_type


def check_complete(names_by_file: Mapping[str, Names], loaded: Names, schema: Schema, table: str) -> None:
    """Check that each file of an upsert has every column of the table, and every field of its structs.

    Args:
        names_by_file: The column names of each file, by the path of the file.
        loaded: The names of the columns that are loaded; other columns of the files do not count.
        schema: The schema of the table.
        table: The name of the table, for the error.

    Raises:
        SchemaMismatchError: A file lacks a column, which would become null in the replaced rows.
    """
    for path, names in names_by_file.items():
        missing = list(lacking({name: fields for name, fields in names.items() if name in loaded}, schema.fields))
        if missing:
            new = [name for name in loaded if name not in {field.name for field in schema.fields}]
            raise SchemaMismatchError(
                f"--upsert: the rows to load lack columns of the table, which would become null: {', '.join(map(repr, missing))}",
                table=table,
                path=path,
                problems=[Problem(where=name, what="is a column of the table, and the rows lack it") for name in missing],
                next_step="add the columns to the file, with the table's values where they must not change"
                + (f"; check the spelling of columns that the table does not have: {', '.join(map(repr, new))}" if new else ""),
            )


def check_letter_case(before: Schema, after: Schema, table: str) -> None:
    """Check that no new column differs from another column only in letter case, because Spark could not distinguish them.

    Args:
        before: The schema of the table before the load; empty for a new table.
        after: The schema of the table after the load.
        table: The name of the table, for the error.

    Raises:
        InvalidSchemaError: A new column, or a new field of a struct, differs from another column or field only in letter case.
    """
    old = {path for path, _ in walk(before.fields)}
    paths = [path for path, _ in walk(after.fields)]
    spellings = Counter(tuple(map(str.lower, path)) for path in paths)
    same = [".".join(path) for path in paths if path not in old and spellings[tuple(map(str.lower, path))] > 1]
    if same:
        raise InvalidSchemaError(
            f"new columns differ from other columns only in letter case: {', '.join(map(repr, same))}",
            table=table,
            next_step="rename the columns in the files, load one of them with --schema, or rename those of the table",
        )
