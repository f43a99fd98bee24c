"""Default values as literals in Spark's SQL, and the metadata of a column with a default. Spec: Default values."""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from icefloe.spec.values import to_human

# The key in a column's metadata with the default for rows that lack the column.
CURRENT_DEFAULT = "CURRENT_DEFAULT"


def default_literal(field_type: IcebergType, value: Any) -> str | None:
    """Return the literal in Spark's SQL for a default value; None for null, and if Spark has no literal for the type."""
    if value is None:
        return "NULL"
    literal = _LITERALS.get(type(field_type))
    if isinstance(field_type, DecimalType):
        return f"CAST('{value}' AS DECIMAL({field_type.precision}, {field_type.scale}))"
    return None if literal is None else literal(field_type, value)


def _quote(text: str) -> str:
    """Return a string literal in SQL; as a cast of bytes if the text has characters whose meaning depends on `spark.sql.parser.escapedStringLiterals`."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)" if "'" in text or "\\" in text else f"'{text}'"


_LITERALS: Mapping[type[IcebergType], Callable[[Any, Any], str]] = {
    BooleanType: lambda _, value: str(value).lower(),
    IntegerType: lambda _, value: str(value),
    LongType: lambda _, value: f"CAST('{value}' AS BIGINT)",
    FloatType: lambda _, value: f"CAST('{float(value)!r}' AS FLOAT)",
    DoubleType: lambda _, value: f"CAST('{float(value)!r}' AS DOUBLE)",
    StringType: lambda _, value: _quote(value),
    UUIDType: lambda _, value: _quote(str(value)),
    BinaryType: lambda _, value: f"X'{value.hex()}'",
    FixedType: lambda _, value: f"X'{value.hex()}'",
    DateType: lambda field_type, value: f"DATE'{to_human(field_type, value)}'",
    TimestampType: lambda field_type, value: f"TIMESTAMP_NTZ'{to_human(field_type, value)}'",
    TimestamptzType: lambda field_type, value: f"TIMESTAMP_LTZ'{to_human(field_type, value)}'",
}
