"""What a reader wants from each record: columns by field id, whatever order, names and extra fields the writer chose.

A column takes one Python value a record. Strings, bytes and fixed stay `bytes`, numbers int or float, booleans bool; None where null or not written.
Turning this into steps is `decode_steps.py`. Layer: kernel.avro. Spec: Column Projection; Appendix A, Avro.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """A primitive, into column `column`."""

    column: str


@dataclass(frozen=True, slots=True)
class Numbers:
    """An array of numbers, as a tuple."""

    column: str


@dataclass(frozen=True, slots=True)
class IdMap:
    """A whole map from field id to number or bytes, as a dict."""

    column: str


@dataclass(frozen=True, slots=True)
class Slots:
    """Single values of such a map, each into a column of its own: pairs of field id and column."""

    columns: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """An array of records, as a tuple of tuples in the order of `fields`, whose columns name nothing outside."""

    column: str
    fields: "tuple[WantedField, ...]"


@dataclass(frozen=True, slots=True)
class Struct:
    """A record inside the record; it may want nothing."""

    fields: "tuple[WantedField, ...]"


@dataclass(frozen=True, slots=True)
class Span:
    """A value, and where its bytes lie, for the compiled reader only.

    The places are the columns `<column>.start` and `<column>.stop`, counted over the uncompressed blocks from the batch's first.
    """

    column: str
    shape: "Shape"


Shape = Value | Numbers | IdMap | Slots | Rows | Struct | Span


@dataclass(frozen=True, slots=True)
class WantedField:
    """A field by its id. `names` find it where the writer gave no ids at all in that record; `required` refuses a writer without it."""

    field_id: int
    names: tuple[str, ...]
    shape: Shape
    required: bool = False


def columns_of(shape: Shape) -> tuple[str, ...]:
    """The columns a shape fills, in order."""
    if isinstance(shape, Struct):
        return tuple(column for wanted in shape.fields for column in columns_of(wanted.shape))
    if isinstance(shape, Slots):
        return tuple(column for _, column in shape.columns)
    if isinstance(shape, Span):
        return (*span_columns(shape), *columns_of(shape.shape))
    return (shape.column,)


def span_columns(shape: Span) -> tuple[str, str]:
    """Where a span begins, and where it ends."""
    return f"{shape.column}.start", f"{shape.column}.stop"


def matched_fields(record: Any, wanted: tuple[WantedField, ...]) -> dict[int, WantedField]:
    """The wanted fields that a writer's record has, by their place in it.

    Raises:
        ValueError: it lacks a required one, or has one twice.
    """
    found = _matches(record["fields"], wanted)
    for want in wanted:
        matches = sum(one is want for one in found.values())
        if matches > 1 or (want.required and not matches):
            wrong = "lacks" if not matches else f"has {matches} times"
            raise ValueError(f"the schema of {record.get('name')!r} {wrong} field {want.field_id} ({want.names[0] if want.names else '?'})")
    return found


def _matches(fields: list[dict[str, Any]], wanted: tuple[WantedField, ...]) -> dict[int, WantedField]:
    with_ids = any("field-id" in field for field in fields)
    if with_ids:
        by_id = {want.field_id: want for want in wanted}
        return {index: by_id[field["field-id"]] for index, field in enumerate(fields) if field.get("field-id") in by_id}
    by_name = {name: want for want in wanted for name in want.names}
    return {index: by_name[field["name"]] for index, field in enumerate(fields) if field.get("name") in by_name}
