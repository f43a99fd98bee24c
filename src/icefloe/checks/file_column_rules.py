"""Rules of the columns of a data file: their field ids and types, and whether the metrics of the manifest entry agree with the file.

The metrics of the file come from the footer of a Parquet file (`data_file_rules.py`), or from all rows of a file (`row_rules.py`).
Spec: Column Projection; Data File Fields (column_sizes to split_offsets); Appendix D.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.rule import Depth, FindingPlace, Level, RuleGroup, value_text
from icefloe.datafile.field_ids import columns_without_ids, has_ids_on_some
from icefloe.datafile.footer_columns import type_fault
from icefloe.datafile.projection import FileColumn, file_columns
from icefloe.errors import FormatError
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.schema.arrow_schema import plain_type
from icefloe.spec.schema.name_mapping import mapping_for
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import IntegerType, ListType, LongType, MapType, NestedField, PrimitiveType, StructType, TimeType, children
from icefloe.spec.values import from_bytes, to_human

_REWRITE = "rewrite the file with its rows, for example by rewrite_data_files"


_rule = RuleGroup(level=Level.DATA_FILE, section="Data File Fields", next_step=_REWRITE, depth=Depth.DATA).rule


FIELD_ID_TWICE = _rule(
    "field-id-twice",
    Severity.ERROR,
    "No two columns of a data file that are beside each other have one field id.",
    "Engines read different ones of the columns.",
    section="Column Projection",
)
FIELD_IDS_MISSING = _rule(
    "field-ids-missing",
    Severity.ERROR,
    "The columns of a data file have field ids, or the table has a name mapping.",
    "The columns without ids are read as null, or by position.",
    section="Column Projection",
)
COLUMN_TYPE = _rule(
    "column-type",
    Severity.ERROR,
    "Every column of a data file has the type of the table's column, or one that may be promoted to it.",
    "The file cannot be read, or values are read as others.",
    section="Column Projection",
)
COLUMN_UNSIGNED = _rule(
    "column-unsigned",
    Severity.WARNING,
    "A column of int or long is stored as signed integers.",
    "Engines that take the bits for a signed number read great values as negative ones, and Spark's own reader fails on a dictionary of them.",
    section="Column Projection",
)
COLUMN_MISSING = _rule(
    "column-missing",
    Severity.ERROR,
    "A data file has every required column of the schema that it was written with, unless the column has a default or a partition value.",
    "Engines fail to read the file, or read nulls in a required column.",
    section="Column Projection",
)
COLUMN_BOUNDS = _rule(
    "column-bounds",
    Severity.ERROR,
    "The bounds of an entry contain every value of the column that is neither null nor NaN.",
    "Scans with a filter skip the file, and its rows are missing from the result.",
)
ZERO_BOUNDS = _rule(
    "column-bounds-zero",
    Severity.WARNING,
    "Where a bound of an entry is zero, -0.0 counts as less than 0.0.",
    "Scans with a filter for the other zero skip the file, in engines that distinguish them.",
    depth=Depth.VALUES,
)
VALUE_COUNT = _rule(
    "column-value-count",
    Severity.WARNING,
    "The value count of an entry is the number of values of the column, nulls and NaNs included.",
    "Filters with IS NOT NULL may skip the file, and estimates are wrong.",
)
NULL_COUNT = _rule(
    "column-null-count",
    Severity.ERROR,
    "The null count of an entry is the number of nulls in the column.",
    "Scans with IS NULL or IS NOT NULL skip the file, and count(column) from metadata is wrong.",
)
NAN_COUNT = _rule(
    "column-nan-count",
    Severity.ERROR,
    "The NaN count of an entry is the number of NaNs in the column.",
    "Scans for NaN skip the file.",
)
COLUMN_SIZE = _rule(
    "column-size",
    Severity.NOTE,
    "The column sizes of an entry are the bytes of the column in the file.",
    "Engines plan with wrong sizes.",
)
RULES = (
    FIELD_ID_TWICE,
    FIELD_IDS_MISSING,
    COLUMN_TYPE,
    COLUMN_UNSIGNED,
    COLUMN_MISSING,
    COLUMN_BOUNDS,
    ZERO_BOUNDS,
    VALUE_COUNT,
    NULL_COUNT,
    NAN_COUNT,
    COLUMN_SIZE,
)

# The most findings of one rule about one file, which may have a million columns.
_MOST_OF_A_FILE = 100
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """The actual metrics of one column of a file, as far as they are known.

    Attributes:
        kind: The type of the table's column.
        least: The least value that is neither null nor NaN, as a physical value; None if it is unknown or there is no such value.
        greatest: The greatest such value.
        values: The number of values, nulls and NaNs included; None if unknown.
        nulls: The number of nulls; None if unknown.
        nans: The number of NaNs; None if unknown.
        size: The bytes of the column in the file; None if unknown.
        has_exact_zeros: Whether a zero in `least` or `greatest` has the sign that it has in the rows. Footers state -0.0 and 0.0 for any zero.
    """

    kind: PrimitiveType
    least: Any = None
    greatest: Any = None
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    size: int | None = None
    has_exact_zeros: bool = False


def id_findings(arrow_schema: Any, has_mapping: bool, schemas: Sequence[Schema], place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding for columns of a file that have no field id, and for each field id that two columns of the file have.

    Args:
        arrow_schema: The columns of the file, with the field ids of its own metadata.
        has_mapping: Whether the table has a name mapping, which supplies the ids of a file without any.
        schemas: The schemas of the table. Columns of these names must have an id if any column of the file has one.
        place: The common arguments of the findings.
    """
    root = file_columns(arrow_schema)
    if root.inner and not has_mapping and not ids_of(root):
        yield FIELD_IDS_MISSING.finding(f"{value_text(place.get('path'))} has no field ids, and the table has no name mapping", **place)
    # All schemas are searched only for files with ids on some columns. They are rare: nearly all files have ids on every column, or on none.
    looked_up = schemas if has_ids_on_some(arrow_schema) else ()
    without = dict.fromkeys(name for schema in looked_up for name in columns_without_ids(arrow_schema, mapping_for(schema)))
    if without:
        names = ", ".join(map(value_text, islice(without, _MOST_NAMED)))
        yield FIELD_IDS_MISSING.finding(
            f"{value_text(place.get('path'))} has field ids, but none on {names}", where=next(iter(without)), **place
        )
    for number, (name, other, field_id) in enumerate(_repeated_field_ids(root, ())):
        if number == _MOST_OF_A_FILE:
            return
        yield FIELD_ID_TWICE.finding(
            f"the columns {value_text(name)} and {value_text(other)} of {value_text(place.get('path'))} have the field id {field_id}",
            field_id=field_id,
            where=name,
            **place,
        )


def ids_of(column: FileColumn) -> frozenset[int]:
    """Return the field ids of all columns inside of a column, at every depth."""
    ids = {child.field_id for child in column.inner if child.field_id is not None}
    return frozenset(ids.union(*map(ids_of, column.inner)))


def _repeated_field_ids(column: FileColumn, path: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    names: dict[int, str] = {}
    for child in column.inner:
        name = ".".join((*path, child.arrow.name))
        if child.field_id is not None and child.field_id in names:
            yield name, names[child.field_id], child.field_id
        elif child.field_id is not None:
            names[child.field_id] = name
        yield from _repeated_field_ids(child, (*path, child.arrow.name))


def type_findings(
    arrow_schema: Any,
    schemas: Sequence[Schema],
    constants: frozenset[int],
    *,
    floors_nanoseconds: bool,
    place: FindingPlace,
    int96: frozenset[int] = frozenset(),
    written_in: str | None = None,
) -> Iterator[Finding]:
    """Yield a finding for each column of a file whose type does not fit the table's column or is unsigned, and for each required column that is missing.

    Args:
        arrow_schema: The columns of the file, with field ids.
        schemas: The schemas of the table, the current one first. A column is missing only if all of them require it, because the file's own schema is unknown,
            and if it has no initial default.
        constants: Field ids of columns whose value comes from the partition, so that the file need not have them.
        floors_nanoseconds: Whether the file's reader returns all timestamps in nanoseconds, regardless of the file's unit.
        place: The place of the findings: the arguments of `Rule.finding` that they have in common.
        int96: The leaf columns of the type INT96, as `int96_places` returns them.
        written_in: The time zone of an ORC file's local timestamps; see `column_problems`.
    """
    root = file_columns(arrow_schema)
    fields = fields_by_id(schemas)
    fault = partial(type_fault, floors_nanoseconds=floors_nanoseconds, written_in=written_in)
    for number, finding in enumerate(_type_findings(root, fields, place, int96, fault)):
        if number == _MOST_OF_A_FILE:
            break
        yield finding
    by_id = root.by_id
    for field in schemas[0].fields if schemas else ():
        is_required = all(any(other.field_id == field.field_id and other.required for other in schema.fields) for schema in schemas)
        if is_required and field.initial_default is None and field.field_id not in by_id and field.field_id not in constants:
            yield COLUMN_MISSING.finding(
                f"{value_text(place.get('path'))} lacks the required column {value_text(field.name)} (field id {field.field_id})",
                field_id=field.field_id,
                **place,
            )


def fields_by_id(schemas: Sequence[Schema]) -> Mapping[int, NestedField]:
    """Return the fields of all schemas by id. If several schemas have a field, it is taken from the first of them."""
    fields: dict[int, NestedField] = {}
    for schema in schemas:
        for field_id in schema.field_ids:
            fields.setdefault(field_id, schema.find_field(field_id))
    return fields


def _type_findings(
    column: FileColumn, fields: Mapping[int, NestedField], place: FindingPlace, int96: frozenset[int], fault_of: Callable[..., str | None]
) -> Iterator[Finding]:
    for child in column.inner:
        field = None if child.field_id is None else fields.get(child.field_id)
        if field is None:
            continue
        arrow = plain_type(child.arrow.type)
        fault = fault_of(arrow, field.field_type, is_int96=child.first_leaf in int96)
        # ORC and some writers of Parquet store times as plain numbers.
        if fault is not None and not (isinstance(field.field_type, TimeType) and pa.types.is_int64(arrow)):
            yield COLUMN_TYPE.finding(
                f"the column {value_text(field.name)} of {value_text(place.get('path'))} {value_text(fault)}",
                field_id=field.field_id,
                expected=str(field.field_type),
                actual=str(child.arrow.type),
                **place,
            )
        elif (isinstance(field.field_type, IntegerType) and pa.types.is_uint32(arrow)) or (
            isinstance(field.field_type, LongType) and pa.types.is_uint64(arrow)
        ):
            yield COLUMN_UNSIGNED.finding(
                f"the column {value_text(field.name)} ({field.field_type}) of {value_text(place.get('path'))} is stored as {arrow}",
                field_id=field.field_id,
                expected=str(field.field_type),
                actual=str(arrow),
                **place,
            )
        elif isinstance(field.field_type, StructType | ListType | MapType) and children(field.field_type):
            yield from _type_findings(child, fields, place, int96, fault_of)


def metrics_findings(file: DataFile, columns: Mapping[int, ColumnValues], place: FindingPlace) -> Iterator[Finding]:
    """Yield a finding for each metric of a manifest entry that differs from the actual metrics of the file.

    Args:
        file: The file as its entry describes it.
        columns: The actual metrics by field id.
        place: The common arguments of the findings.
    """
    for field_id, column in columns.items():
        yield from _bound_findings(file, field_id, column, place)
        for rule, stated, actual, what in (
            (VALUE_COUNT, file.value_counts, column.values, "values"),
            (NULL_COUNT, file.null_value_counts, column.nulls, "nulls"),
            (NAN_COUNT, file.nan_value_counts, column.nans, "NaNs"),
            (COLUMN_SIZE, file.column_sizes, column.size, "bytes"),
        ):
            count = None if stated is None else stated.get(field_id)
            if count is not None and actual is not None and count != actual:
                yield rule.finding(
                    f"column {field_id} of {value_text(place.get('path'))} has {actual:,} {what}, and its entry states {count:,}",
                    field_id=field_id,
                    expected=actual,
                    actual=count,
                    **place,
                )


def _bound_findings(file: DataFile, field_id: int, column: ColumnValues, place: FindingPlace) -> Iterator[Finding]:
    for name, bounds, value, is_lower in (
        ("lower_bounds", file.lower_bounds, column.least, True),
        ("upper_bounds", file.upper_bounds, column.greatest, False),
    ):
        stored = None if bounds is None else bounds.get(field_id)
        if stored is None or value is None:
            continue
        try:
            bound = from_bytes(column.kind, stored)
        except FormatError as error:
            text, contains = value_text(error.message), False
        else:
            text = value_text(to_human(column.kind, bound))
            contains = not _is_nan(bound) and (bound <= value if is_lower else bound >= value)
        if not contains:
            what = "lower" if is_lower else "upper"
            yield COLUMN_BOUNDS.finding(
                f"the {what} bound of column {field_id} of {value_text(place.get('path'))} is {text}, and the file has the value "
                f"{value_text(to_human(column.kind, value))}",
                where=name,
                field_id=field_id,
                expected=value_text(to_human(column.kind, value)),
                actual=text,
                **place,
            )
        elif column.has_exact_zeros and value == 0 == bound and _is_negative(bound) != is_lower and _is_negative(value) == is_lower:
            what = "lower" if is_lower else "upper"
            yield ZERO_BOUNDS.finding(
                f"the {what} bound of column {field_id} of {value_text(place.get('path'))} is {bound}, and the file has the value {value}",
                where=name,
                field_id=field_id,
                expected=str(value),
                actual=str(bound),
                **place,
            )


def _is_negative(value: Any) -> bool:
    return isinstance(value, float) and math.copysign(1, value) < 0


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
