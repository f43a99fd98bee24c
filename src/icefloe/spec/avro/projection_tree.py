"""The projection of a reader: the columns to read, by field id. The order and names of the writer's fields, and further fields, do not matter.

A column has one Python value per record: `bytes` for strings, bytes and fixed; int or float for numbers; bool for booleans; None for null and for a field that
the writer does not have. `decode_steps.py` compiles a projection into steps. Spec: Column Projection; Appendix A, Avro.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """A primitive value, which becomes the column `column`."""

    column: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array of numbers. In Python, each value is a tuple."""

    column: str


@dataclass(frozen=True, slots=True)
class IdMap:
    """A complete map from field id to number or bytes. In Python, each value is a dict."""

    column: str


@dataclass(frozen=True, slots=True)
class Slots:
    """Single values of a map from field id to number or bytes, each as its own column: pairs of field id and column."""

    columns: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """An array of records. In Python, each value is a tuple of tuples in the order of `fields`. Column names in the records are separate from those outside."""

    column: str
    fields: "tuple[ProjectedField, ...]"


@dataclass(frozen=True, slots=True)
class Struct:
    """A nested record, of which some fields are projected."""

    fields: "tuple[ProjectedField, ...]"


@dataclass(frozen=True, slots=True)
class FieldSpan:
    """A value and the position of its bytes, for the compiled reader only.

    The positions are the columns `<column>.start` and `<column>.stop`, counted over the uncompressed blocks from the first block of the batch.
    """

    column: str
    shape: "Shape"


Shape = Value | Numbers | IdMap | Slots | Rows | Struct | FieldSpan


@dataclass(frozen=True, slots=True)
class ProjectedField:
    """A field to read, by its id.

    `names` are used to find the field in a record without any field ids. If `required`, a schema without the field is refused.
    """

    field_id: int
    names: tuple[str, ...]
    shape: Shape
    required: bool = False


def columns_of(shape: Shape) -> tuple[str, ...]:
    """Return the columns of a shape, in order."""
    if isinstance(shape, Struct):
        return tuple(column for field in shape.fields for column in columns_of(field.shape))
    if isinstance(shape, Slots):
        return tuple(column for _, column in shape.columns)
    if isinstance(shape, FieldSpan):
        return (*span_columns(shape), *columns_of(shape.shape))
    return (shape.column,)


def span_columns(shape: FieldSpan) -> tuple[str, str]:
    """Return the names of the columns with the start and the end of a span."""
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
