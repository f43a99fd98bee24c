"""The types and defaults that a schema may have in each format version.

These rules apply to schemas that are added to a table. Existing schemas are read without these checks.
Spec: Primitive Types (added by version); Default values; Appendix E; Version 3: Extended Types and Capabilities.
"""

from icefloe.errors import InvalidSchemaError, Problem
from icefloe.spec.schema.nesting import check_write_nesting
from icefloe.spec.schema.schema import Schema, walk
from icefloe.spec.types import GeographyType, GeometryType, IcebergType, TimestampNanoType, TimestamptzNanoType, UnknownType, VariantType

# The first format version with the type. Version 1 has every type that is not listed. Spec: Primitive Types.
FIRST_VERSION_OF_TYPE: dict[type[IcebergType], int] = {
    UnknownType: 3,
    VariantType: 3,
    TimestampNanoType: 3,
    TimestamptzNanoType: 3,
    GeometryType: 3,
    GeographyType: 3,
}
# The alternative to the type in older versions.
_INSTEAD: dict[type[IcebergType], str] = {
    UnknownType: "; give the column a type, since it contains only nulls",
    TimestampNanoType: "; timestamp keeps microseconds (in Arrow timestamp('us'))",
    TimestamptzNanoType: "; timestamptz keeps microseconds (in Arrow timestamp('us', 'UTC'))",
}
# The first version whose readers use the default of a column that is missing in a file. Spec: Appendix E, Version 3.
FIRST_VERSION_OF_DEFAULTS = 3


def schema_version_problems(schema: Schema, format_version: int) -> list[Problem]:
    """Return every column, including nested columns, that is not allowed in this format version, with the first version that allows it.

    A `write-default` is allowed in any version, as in Java, because only writers use it: older readers do not need it.
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
    """Refuse a schema that is nested too deeply, or has columns that this format version does not allow.

    Raises:
        InvalidSchemaError: A column is not allowed or is nested too deeply. Every such column is listed.
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
