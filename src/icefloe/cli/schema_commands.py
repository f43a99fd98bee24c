"""The commands `schema ...`, `spec ...` and `sort`: the columns of a table, its partition spec and its sort order.

Changes of columns keep existing files as they are. Spec: Schema Evolution; Partition Evolution; Sorting.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import typer

from icefloe.cli.command_group import PlainGroup
from icefloe.cli.layout_text import comma_separated, sort_order_from_texts
from icefloe.cli.shared_options import complete_column
from icefloe.cli.table_command import changes_table, looks_at_table
from icefloe.display.report import Column, Facts, Part, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.errors import InvalidInputError, InvalidSchemaError, MetadataFormatError
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.nested_values import nested_from_json, nested_to_json
from icefloe.spec.partitioning.partition_spec import PartitionSpec, partition_spec_from_text, spec_to_json
from icefloe.spec.partitioning.sort_order import SortDirection, SortOrder, sort_order_to_json
from icefloe.spec.schema.column_text import columns_from_text, type_from_text
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.schema.schema_json import schema_to_json
from icefloe.spec.types import BooleanType, DoubleType, FloatType, IcebergType, IntegerType, LongType, PrimitiveType, children
from icefloe.table.table import Table

schema_app = typer.Typer(help="Columns: show, add, rename, widen, move and drop them.", no_args_is_help=True, cls=PlainGroup)
spec_app = typer.Typer(help="Partition fields: show, add, rename and remove them.", no_args_is_help=True, cls=PlainGroup)

ColumnName = Annotated[
    str, typer.Argument(metavar="COLUMN", help="A column; of a struct as place.lat.", show_default=False, autocompletion=complete_column)
]
ColumnNames = Annotated[
    list[str],
    typer.Argument(metavar="COLUMN...", help="Columns; of a struct as place.lat.", show_default=False, autocompletion=complete_column),
]
NewName = Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name, without the struct that it is in.", show_default=False)]
NewColumns = Annotated[
    str,
    typer.Argument(metavar="COLUMNS", help="Such as \"age int, place.height double comment 'in metres'\".", show_default=False),
]
TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="A wider type, such as long for an int column.", show_default=False)]
Default = Annotated[
    str | None,
    typer.Option("--default", metavar="VALUE", help="The value of existing rows, and of new ones without it; from format version 3 on."),
]
DefaultValue = Annotated[
    str | None,
    typer.Argument(metavar="[VALUE]", help="The value of new rows that come without the column; null by default.", show_default=False),
]
Comment = Annotated[str, typer.Argument(metavar="TEXT", help="The documentation of the column.", show_default=False)]
First = Annotated[bool, typer.Option("--first", help="To the first place of the table or struct.")]
Before = Annotated[str | None, typer.Option("--before", metavar="COLUMN", help="Right before this column.")]
After = Annotated[str | None, typer.Option("--after", metavar="COLUMN", help="Right after this column.")]
SchemaId = Annotated[int | None, typer.Option("--schema-id", metavar="N", help="Another schema of the table; the current one by default.")]
FieldTexts = Annotated[list[str], typer.Argument(metavar="FIELD...", help='Such as "day(time)" or "bucket(16, id)".', show_default=False)]
FieldName = Annotated[str, typer.Argument(metavar="FIELD", help="The partition field's name.", show_default=False)]
FieldNames = Annotated[list[str], typer.Argument(metavar="FIELD...", help="The names of partition fields.", show_default=False)]
NewFieldName = Annotated[str, typer.Argument(metavar="NEW_NAME", help="Its new name.", show_default=False)]
SortKeys = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY...]", help='Such as "time desc nulls last"; without any the order is shown.')
]
Unsorted = Annotated[bool, typer.Option("--unsorted", help="Remove the sort order.")]

_JSON_LITERALS = (BooleanType, IntegerType, LongType, FloatType, DoubleType)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaView(Reportable):
    """A schema of a table. Its JSON is the schema as metadata files store it, which `icefloe create --schema-file` can read."""

    table: str
    schema: Schema

    def report(self, most: int | None = MOST_LINES) -> Report:
        identifiers = set(self.schema.identifier_field_ids)
        columns = [Column("id", is_number=True), Column("name", whole=True), Column("type"), Column("required", rank=1)]
        fields = list(walk(self.schema.fields))
        with_key, with_doc = bool(identifiers), any(field.doc for _, field in fields)
        with_defaults = any(field.initial_default is not None or field.write_default is not None for _, field in fields)
        columns += [Column("key", rank=2)] if with_key else []
        columns += [Column("initial default", rank=3), Column("write default", rank=3)] if with_defaults else []
        columns += [Column("doc", rank=4)] if with_doc else []
        rows = []
        for path, field in fields:
            is_nested = bool(children(field.field_type))
            kind = type(field.field_type).__name__.removesuffix("Type").lower() if is_nested else str(field.field_type)
            row = [str(field.field_id), ".".join(path), kind, "yes" if field.required else "no"]
            row += ["yes" if field.field_id in identifiers else ""] if with_key else []
            row += (
                [_default_text(field.field_type, value) for value in (field.initial_default, field.write_default)] if with_defaults else []
            )
            row += [field.doc or ""] if with_doc else []
            rows.append(tuple(row))
        return Report(f"schema {self.schema.schema_id} of {self.table}", (grid("", tuple(columns), rows, most),))

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as metadata files store it, with the name of the table."""
        return {"table": self.table, **schema_to_json(self.schema)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecView(Reportable):
    """The partition specs of a table. Their JSON is as metadata files store them."""

    table: str
    current: PartitionSpec
    specs: tuple[PartitionSpec, ...]
    source_names: dict[int, str]

    def report(self, most: int | None = MOST_LINES) -> Report:
        columns = (
            Column("field id", is_number=True),
            Column("name", whole=True),
            Column("transform", whole=True),
            Column("column", whole=True),
        )
        parts: list[Part] = []
        for spec in self.specs:
            title = f"spec {spec.spec_id}{', current' if spec.spec_id == self.current.spec_id else ''}"
            rows = [(str(f.field_id), f.name, str(f.transform), _source_name(self.source_names, f.source_id)) for f in spec.fields]
            parts.append(grid(title, columns, rows, most) if rows else Facts((), f"{title}: not partitioned"))
        return Report(f"partition specs of {self.table}", tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the specs as metadata files store them."""
        return {
            "table": self.table,
            "default-spec-id": self.current.spec_id,
            "partition-specs": [spec_to_json(spec) for spec in self.specs],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrderView(Reportable):
    """The sort order of new files. Its JSON is as metadata files store it."""

    table: str
    order: SortOrder
    source_names: dict[int, str]

    def report(self, most: int | None = MOST_LINES) -> Report:
        title = f"sort order {self.order.order_id} of {self.table}"
        if self.order.is_unsorted:
            return Report(f"{title}: not sorted", ())
        columns = (
            Column("column", whole=True),
            Column("transform", whole=True),
            Column("direction", whole=True),
            Column("nulls", whole=True),
        )
        rows = [
            (_source_name(self.source_names, key.source_id), str(key.transform), str(key.direction), str(key.null_order))
            for key in self.order.fields
        ]
        return Report(title, (grid("", columns, rows, most),))

    def to_dict(self) -> dict[str, Any]:
        """Return the sort order as metadata files store it."""
        return {"table": self.table, **sort_order_to_json(self.order)}


@schema_app.command("show")
@looks_at_table
def show_schema(opened: TableReader, schema_id: SchemaId = None) -> Reportable:
    """Show the columns with their ids and defaults; with --json as the format stores them."""
    schemas = opened.schemas()
    if schema_id is not None and schema_id not in schemas:
        raise InvalidInputError(
            f"{opened.full_name} has no schema {schema_id}",
            table=opened.full_name,
            next_step=f"there are: {', '.join(map(str, sorted(schemas)))}",
        )
    return SchemaView(table=opened.full_name, schema=opened.schema() if schema_id is None else schemas[schema_id])


@schema_app.command("add")
@changes_table
def add_columns(
    opened: Table, columns: NewColumns, default: Default = None, first: First = False, before: Before = None, after: After = None
) -> Reportable:
    """Add columns; existing rows have null in them, or the default."""
    added = columns_from_text(columns, "COLUMNS").fields
    with opened.update_schema() as update:
        for field in added:
            value = None if default is None else _default_of(field.field_type, default)
            update.add_column(field.name, field.field_type, field.doc, field.required, value)
        if first or before or after:
            # Each added column is moved after the previous one, so that they keep their order.
            _move(update, added[0].name, first=first, before=before, after=after)
            for previous, field in pairwise(added):
                update.move_after(field.name, previous.name)
    return _schema_view(opened)


@schema_app.command("rename")
@changes_table
def rename_column(opened: Table, column: ColumnName, new_name: NewName) -> Reportable:
    """Rename a column, which keeps its values."""
    opened.update_schema().rename_column(column, new_name).commit()
    return _schema_view(opened)


@schema_app.command("widen")
@changes_table
def widen_column(opened: Table, column: ColumnName, kind: TypeName) -> Reportable:
    """Change a column's type to a wider one: int to long, float to double, decimal to more digits, date to timestamp."""
    opened.update_schema().update_column(column, type_from_text(kind)).commit()
    return _schema_view(opened)


@schema_app.command("drop")
@changes_table
def drop_columns(opened: Table, columns: ColumnNames) -> Reportable:
    """Drop columns: their values are no longer read. Earlier snapshots still have them."""
    with opened.update_schema() as update:
        for column in columns:
            update.delete_column(column)
    return _schema_view(opened)


@schema_app.command("move")
@changes_table
def move_column(opened: Table, column: ColumnName, first: First = False, before: Before = None, after: After = None) -> Reportable:
    """Move a column to another place of the table, or of its struct."""
    with opened.update_schema() as update:
        _move(update, column, first=first, before=before, after=after)
    return _schema_view(opened)


@schema_app.command("comment")
@changes_table
def comment_column(opened: Table, column: ColumnName, text: Comment) -> Reportable:
    """Set the documentation of a column."""
    opened.update_schema().update_column(column, doc=text).commit()
    return _schema_view(opened)


@schema_app.command("allow-nulls")
@changes_table
def allow_nulls(opened: Table, column: ColumnName) -> Reportable:
    """Allow nulls in a required column."""
    opened.update_schema().make_column_optional(column).commit()
    return _schema_view(opened)


@schema_app.command("default")
@changes_table
def set_default(opened: Table, column: ColumnName, value: DefaultValue = None) -> Reportable:
    """Set the value of new rows that come without a column; from format version 3 on. Existing rows are unchanged."""
    default = None if value is None else _default_of(opened.schema().find_field(column).field_type, value)
    opened.update_schema().set_default_value(column, default).commit()
    return _schema_view(opened)


@schema_app.command("key")
@changes_table
def set_key(opened: Table, columns: ColumnNames) -> Reportable:
    """Set the columns that together identify a row, such as the key of upserts."""
    opened.update_schema().set_identifier_fields(*columns).commit()
    return _schema_view(opened)


@spec_app.command("show")
@looks_at_table
def show_spec(opened: TableReader) -> Reportable:
    """Show the partition specs: the current one for new files, and those of existing files."""
    return _spec_view(opened)


@spec_app.command("add")
@changes_table
def add_partition_fields(opened: Table, fields: FieldTexts) -> Reportable:
    """Partition new files by further fields; existing files are unchanged."""
    schema = opened.schema()
    with opened.update_spec() as update:
        for text in comma_separated(fields):
            field = partition_spec_from_text(schema, [text]).fields[0]
            has_own_name = " as " in f" {text.lower()} "
            update.add_field(schema.find_column_name(field.source_id) or "", field.transform, field.name if has_own_name else None)
    return _spec_view(opened)


@spec_app.command("remove")
@changes_table
def remove_partition_fields(opened: Table, fields: FieldNames) -> Reportable:
    """Stop partitioning new files by a field."""
    with opened.update_spec() as update:
        for field in fields:
            update.remove_field(field)
    return _spec_view(opened)


@spec_app.command("rename")
@changes_table
def rename_partition_field(opened: Table, field: FieldName, new_name: NewFieldName) -> Reportable:
    """Rename a partition field."""
    opened.update_spec().rename_field(field, new_name).commit()
    return _spec_view(opened)


@changes_table
def sort(opened: Table, keys: SortKeys = None, unsorted: Unsorted = False) -> Reportable:
    """Show the sort order of new files, or replace it."""
    if keys and unsorted:
        raise InvalidInputError("both sort keys and --unsorted are given", next_step="choose one")
    if keys or unsorted:
        order = sort_order_from_texts(opened.schema(), comma_separated(keys))
        with opened.replace_sort_order() as update:
            for key in order.fields:
                add = update.asc if key.direction is SortDirection.ASC else update.desc
                add(opened.schema().find_column_name(key.source_id) or "", key.transform, key.null_order)
    return SortOrderView(table=opened.full_name, order=opened.sort_order(), source_names=_column_names(opened))


def _move(update: Any, column: str, *, first: bool, before: str | None, after: str | None) -> None:
    if sum((first, before is not None, after is not None)) != 1:
        raise InvalidInputError(f"one new place of {column} is needed", next_step="pass --first, --before COLUMN or --after COLUMN")
    if first:
        update.move_first(column)
    elif before is not None:
        update.move_before(column, before)
    else:
        update.move_after(column, after)


def _default_of(kind: IcebergType, text: str) -> Any:
    """Parse a default value of a column. It is written as in the JSON of metadata files, but text, dates and decimals without quotes.

    Raises:
        InvalidSchemaError: The text is not a value of the type.
    """
    try:
        is_literal = isinstance(kind, _JSON_LITERALS) or not isinstance(kind, PrimitiveType)
        return nested_from_json(kind, json.loads(text) if is_literal else text)
    except (ValueError, MetadataFormatError) as error:
        raise InvalidSchemaError(f"{text!r} is not a value of type {kind}", next_step="write it as in JSON, dates as 2024-01-31") from error


def _default_text(kind: IcebergType, value: Any) -> str:
    if value is None:
        return ""
    shown = nested_to_json(kind, value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _schema_view(opened: TableReader) -> Reportable:
    return SchemaView(table=opened.full_name, schema=opened.schema())


def _spec_view(opened: TableReader) -> Reportable:
    specs = sorted(opened.specs().values(), key=lambda spec: (spec.spec_id != opened.spec().spec_id, spec.spec_id))
    return SpecView(table=opened.full_name, current=opened.spec(), specs=tuple(specs), source_names=_column_names(opened))


def _source_name(names: Mapping[int, str], source_id: int) -> str:
    return names.get(source_id, f"column {source_id}")


def _column_names(opened: TableReader) -> dict[int, str]:
    """Return the dotted name of every column by its id, including dropped columns."""
    schemas = (*opened.metadata.schemas, opened.schema())
    return {field.field_id: ".".join(path) for schema in schemas for path, field in walk(schema.fields)}
