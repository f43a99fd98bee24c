"""The types and defaults that a schema may have in each format version.

Whatever a table already contains is read in any version; these rules are for schemas that are added to a table.
Spec: Primitive Types (added by version); Default values; Appendix E; Version 3: Extended Types and Capabilities.
"""

from icefloe.errors import InvalidSchemaError, Problem
from icefloe.spec.schema.nesting import check_write_nesting
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import GeographyType, GeometryType, IcebergType, TimestampNanoType, TimestamptzNanoType, UnknownType, VariantType

# The first format version with the type; every type that is not listed is in version 1. Spec: Primitive Types.
FIRST_VERSION_OF_TYPE: dict[type[IcebergType], int] = {
    UnknownType: 3,
    VariantType: 3,
    TimestampNanoType: 3,
    TimestamptzNanoType: 3,
    GeometryType: 3,
    GeographyType: 3,
}
# The alternative in older versions.
_INSTEAD: dict[type[IcebergType], str] = {
    UnknownType: "; give the column a type, since it contains only nulls",
    TimestampNanoType: "; timestamp keeps microseconds (in Arrow timestamp('us'))",
    TimestamptzNanoType: "; timestamptz keeps microseconds (in Arrow timestamp('us', 'UTC'))",
}
# The first version whose readers fill in the default of a column that a file lacks. Spec: Appendix E, Version 3.
FIRST_VERSION_OF_DEFAULTS = 3


def schema_version_problems(schema: Schema, format_version: int) -> list[Problem]:
    """Return every column, nested ones too, that a table of this format version may not have, with the first version that may.

    A `write-default` is allowed in any version, as in Java: only writers use it, so older readers miss nothing.
    """
    problems = []
    for path, field in walk(schema.fields):
        first = FIRST_VERSION_OF_TYPE.get(type(field.field_type), 1)
        if format_version < first:
            instead = _INSTEAD.get(type(field.field_type), "")
            problems.append(Problem(where=".".join(path), what=f"type {field.field_type} needs format version {first}{instead}"))
        if field.initial_default is not None and format_version < FIRST_VERSION_OF_DEFAULTS:
            problems.append(Problem(where=".".join(path), what=f"an initial-default needs format version {FIRST_VERSION_OF_DEFAULTS}"))
    return problems


def check_schema_version(schema: Schema, format_version: int) -> None:
    """Refuse a schema that is nested too deeply or has columns that a table of this format version may not have.

    Raises:
        InvalidSchemaError: Every such column is listed.
    """
    check_write_nesting(schema)
    problems = schema_version_problems(schema, format_version)
    if problems:
        columns = ", ".join(dict.fromkeys(problem.where for problem in problems))
        raise InvalidSchemaError(
            f"a table of format version {format_version} cannot have the columns {columns}",
            problems=problems,
            next_step="use format version 3 (the table property format-version), or choose other types",
        )
