"""The projection of a reader: the columns to read, by field id. The order and names of the writer's fields, and further fields, do not matter.

A column has one Python value per record: `bytes` for strings, bytes and fixed; int or float for numbers; bool for booleans; None for null and for a field that
the writer does not have. `decode_steps.py` compiles a projection into steps. Spec: Column Projection; Appendix A, Avro.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """The shape of a field with a primitive value, which is read into the column `column`."""

    column: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """The shape of a field that is an array of numbers. In Python, each value of the column is a tuple."""

    column: str


@dataclass(frozen=True, slots=True)
class IdMap:
    """The shape of a map from field id to number or bytes that is read completely. In Python, each value of the column is a dict."""

    column: str


@dataclass(frozen=True, slots=True)
class Slots:
    """The shape of a map from field id to number or bytes of which only some values are read. `columns` has pairs of a field id and a column for its value."""

    columns: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The shape of an array of records. In Python, each value is a tuple of tuples in the order of `fields`. Their columns have names of their own."""

    column: str
    fields: "tuple[ProjectedField, ...]"


@dataclass(frozen=True, slots=True)
class Struct:
    """The shape of a nested record, of which some fields are read. Their columns are those of the outer record."""

    fields: "tuple[ProjectedField, ...]"


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """The shape of a value of which also the position of the encoded bytes is read. Only the compiled reader supports it.

    The positions are the columns `<column>.start` and `<column>.stop`, counted over the uncompressed blocks from the first block of the batch.
    """

    column: str
    shape: "Shape"


Shape = Value | Numbers | IdMap | Slots | Rows | Struct | FieldSpan


@dataclass(frozen=True, slots=True)
class ProjectedField:
    """A field to read, which is found in the writer's schema by its id.

    `names` are used to find the field in a record without any field ids. If `required`, a schema without the field is refused.
    """

    field_id: int
    names: tuple[str, ...]
    shape: Shape
    required: bool = False


def columns_of(shape: Shape) -> tuple[str, ...]:
    """Return the names of the columns that a shape is read into, in order."""
    if isinstance(shape, Struct):
        return tuple(column for field in shape.fields for column in columns_of(field.shape))
    if isinstance(shape, Slots):
        return tuple(column for _, column in shape.columns)
    if isinstance(shape, FieldSpan):
        return (*span_columns(shape), *columns_of(shape.shape))
    return (shape.column,)


def span_columns(shape: FieldSpan) -> tuple[str, str]:
    """Return the names of the two columns with the start and the end of the encoded bytes."""
    return f"{shape.column}.start", f"{shape.column}.stop"


def matched_fields(record: Any, projected: tuple[ProjectedField, ...]) -> dict[int, ProjectedField]:
    """Return the projected fields that a writer's record has, by their index in the record.

    Raises:
        ValueError: the record lacks a required field, or has a field twice.
    """
    matches = _matches(record["fields"], projected)
    for field in projected:
        count = sum(match is field for match in matches.values())
        if count > 1 or (field.required and not count):
            wrong = "lacks" if not count else f"has {count} times"
            name = field.names[0] if field.names else "?"
            raise ValueError(f"the schema of {record.get('name')!r} {wrong} field {field.field_id} ({name})")
    return matches


def _matches(fields: list[dict[str, Any]], projected: tuple[ProjectedField, ...]) -> dict[int, ProjectedField]:
    with_ids = any("field-id" in field for field in fields)
    if with_ids:
        by_id = {match.field_id: match for match in projected}
        return {index: by_id[field["field-id"]] for index, field in enumerate(fields) if field.get("field-id") in by_id}
    by_name = {name: match for match in projected for name in match.names}
    return {index: by_name[field["name"]] for index, field in enumerate(fields) if field.get("name") in by_name}
