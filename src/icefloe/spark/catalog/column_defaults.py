"""Column defaults between Spark's SQL and Iceberg's values: what a statement gives, and how a table's default is shown to Spark again.

Iceberg keeps values, not expressions: what means another value at another time is refused. Spec: Default values.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.kernel.types import (
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
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from icefloe.kernel.values import to_human
from icefloe.spark.scan.filter_pushdown import literal_value

# Words of SQL that mean another value each time.
_CHANGING = re.compile(
    r"\b(current_\w+|curdate|now|local_?timestamp|localtime|user|session_user|rand\w*|uuid|unix_timestamp|shuffle|monotonically_increasing_id)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
CURRENT_DEFAULT, EXISTS_DEFAULT = "CURRENT_DEFAULT", "EXISTS_DEFAULT"


def given_default(given: Mapping[str, Any] | None, column: str) -> Any:
    """The value of `DEFAULT ...` at a new column, as the schema takes it; None for none. Raises `UnsupportedFeatureError`."""
    if given is None:
        return None
    _check_fixed(given.get("getSql"), column)
    if given.get("getValue") is None:
        return None
    found = literal_value(given["getValue"])
    if found is None and given["getValue"]["value"] is not None:
        raise UnsupportedFeatureError(
            f"column {column} cannot have the default {given.get('getSql')}: only single values can be defaults",
            next_step="leave the default out",
        )
    return found


def evaluated_default(spark: SparkSession, sql: str, kind: IcebergType, type_text: str, column: str) -> Any:
    """The value of the text of a `SET DEFAULT`, computed by Spark once. Raises `UnsupportedFeatureError`, `InvalidInputError`."""
    _check_fixed(sql, column)
    if not isinstance(kind, PrimitiveType):
        raise UnsupportedFeatureError(f"column {column} cannot have a default: it is no single value", next_step="leave the default out")
    # As numbers, where Python's own dates would pass through its time zone.
    through = {DateType: f"unix_date(({sql}))", TimestamptzType: f"unix_micros(({sql}))"}.get(type(kind))
    if isinstance(kind, TimestampType):
        through = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', CAST(({sql}) AS TIMESTAMP_NTZ))"
    try:
        found = spark.range(1).selectExpr(through or f"CAST(({sql}) AS {type_text})").collect()[0][0]
    except PySparkException as error:
        raise InvalidInputError(f"column {column} cannot have the default {sql}: {str(error).splitlines()[0]}") from error
    return bytes(found) if isinstance(found, bytearray) else found


def default_texts(kind: IcebergType, initial: Any, write: Any) -> dict[str, str]:
    """The keys by which Spark's own columns say their defaults; empty without one, and for values that Spark cannot say."""
    current, exists = _sql_of(kind, write), _sql_of(kind, initial)
    if current is None or exists is None or (write is None and initial is None):
        return {}
    return {CURRENT_DEFAULT: current, EXISTS_DEFAULT: exists}


def _check_fixed(sql: str | None, column: str) -> None:
    found = _CHANGING.search(_QUOTED.sub("''", sql or ""))
    if found:
        raise UnsupportedFeatureError(
            f"column {column} cannot have the default {sql}: Iceberg keeps a value, and {found[0]} is another one each time",
            next_step="give a fixed value",
        )


def _sql_of(kind: IcebergType, value: Any) -> str | None:
    """The literal of a physical value in Spark's SQL; None where there is none."""
    if value is None:
        return "NULL"
    form = _LITERALS.get(type(kind))
    if isinstance(kind, DecimalType):
        return f"CAST('{value}' AS DECIMAL({kind.precision}, {kind.scale}))"
    return None if form is None else form(kind, value)


def _quoted(text: str) -> str:
    """The literal of a text; as bytes where `spark.sql.parser.escapedStringLiterals` decides what its signs mean."""
    return f"CAST(X'{text.encode().hex()}' AS STRING)" if "'" in text or "\\" in text else f"'{text}'"


_LITERALS: Mapping[type[IcebergType], Callable[[Any, Any], str]] = {
    BooleanType: lambda _, value: str(value).lower(),
    IntegerType: lambda _, value: str(value),
    LongType: lambda _, value: f"CAST('{value}' AS BIGINT)",
    FloatType: lambda _, value: f"CAST('{float(value)!r}' AS FLOAT)",
    DoubleType: lambda _, value: f"CAST('{float(value)!r}' AS DOUBLE)",
    StringType: lambda _, value: _quoted(value),
    UUIDType: lambda _, value: _quoted(str(value)),
    BinaryType: lambda _, value: f"X'{value.hex()}'",
    FixedType: lambda _, value: f"X'{value.hex()}'",
    DateType: lambda kind, value: f"DATE'{to_human(kind, value)}'",
    TimestampType: lambda kind, value: f"TIMESTAMP_NTZ'{to_human(kind, value)}'",
    TimestamptzType: lambda kind, value: f"TIMESTAMP_LTZ'{to_human(kind, value)}'",
}
