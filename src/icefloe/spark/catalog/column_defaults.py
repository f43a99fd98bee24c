"""Conversion of column defaults between Spark's SQL and Iceberg's values: a statement's default to a value, and a table's default to SQL.

Iceberg stores values, not expressions, so that an expression whose value may change is refused. Spec: Default values.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.spark.scan.filter_pushdown import literal_value
from icefloe.spark.types.default_literals import CURRENT_DEFAULT, default_literal
from icefloe.spark.types.spark_types import spark_type
from icefloe.spec.types import DateType, IcebergType, NestedField, PrimitiveType, TimestampType, TimestamptzType

# SQL functions whose value may differ between calls.
_VARIABLE = re.compile(
    r"\b(current_\w+|curdate|now|local_?timestamp|localtime|user|session_user|rand\w*|uuid|unix_timestamp|shuffle|monotonically_increasing_id)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
EXISTS_DEFAULT = "EXISTS_DEFAULT"


def default_of_clause(clause: Mapping[str, Any] | None, column: str) -> Any:
    """Return the value of a new column's `DEFAULT ...` clause.

    Args:
        clause: Spark's `DefaultValue` as a mapping, with its SQL and its value; None for a column without a default.
        column: the column's name, for errors.

    Returns:
        The value as `NestedField.initial_default` has it; None without a default.

    Raises:
        UnsupportedFeatureError: the value is not constant, or its type is not primitive.
    """
    if clause is None:
        return None
    _check_constant(clause.get("getSql"), column)
    if clause.get("getValue") is None:
        return None
    value = literal_value(clause["getValue"])
    if value is None and clause["getValue"]["value"] is not None:
        raise UnsupportedFeatureError(
            f"column {column} cannot have the default {clause.get('getSql')}: only primitive values can be defaults",
            next_step="leave the default out",
        )
    return value


def default_of_column(spark: SparkSession, column: Mapping[str, Any], field: NestedField) -> Any:
    """Return the default of a column in a new table.

    Spark passes a default as SQL and as a value. The SQL is evaluated if they may differ: in CREATE TABLE AS SELECT, the value may be that of an older default
    of the source table, or missing. A column without a clause may have the SQL of a default in its metadata.

    Args:
        spark: the session that computes a default.
        column: Spark's column as a mapping.
        field: the column in the schema.

    Returns:
        The value as `NestedField.initial_default` has it; None without a default.

    Raises:
        UnsupportedFeatureError: the value is not constant, or its type is not primitive.
        InvalidInputError: Spark cannot evaluate it.
    """
    clause = column.get("defaultValue")
    sql = json.loads(column.get("metadataInJSON") or "{}").get(CURRENT_DEFAULT) if clause is None else clause.get("getSql")
    value = default_of_clause(clause, field.name)
    if not isinstance(sql, str) or not sql or (value is not None and sql == default_literal(field.field_type, value)):
        return value
    return evaluated_default(spark, sql, field.field_type, field.name)


def evaluated_default(spark: SparkSession, sql: str, field_type: IcebergType, column: str) -> Any:
    """Evaluate the SQL expression of a default in Spark, once, and return the value.

    The expression may come from another user, because the columns of a query have metadata from files. So it is evaluated only if Spark's analyzer reports that
    it is constant, and then it cannot call Java methods or read tables and files.

    Raises:
        UnsupportedFeatureError: the value is not constant, or the column is not of a primitive type.
        InvalidInputError: Spark cannot evaluate it, or the value does not fit the column.
    """
    _check_constant(sql, column)
    if not isinstance(field_type, PrimitiveType):
        raise UnsupportedFeatureError(
            f"column {column} cannot have a default: its type is not primitive", next_step="leave the default out"
        )
    # Dates and timestamps are evaluated as numbers, because PySpark would convert them with Python's time zone.
    as_number = {DateType: f"unix_date(({sql}))", TimestamptzType: f"unix_micros(({sql}))"}.get(type(field_type))
    if isinstance(field_type, TimestampType):
        as_number = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', CAST(({sql}) AS TIMESTAMP_NTZ))"
    own = spark_type(field_type)
    cast = f"({sql})" if own is None else f"CAST(({sql}) AS {own.simpleString()})"
    try:
        frame = spark.range(1).selectExpr(f"{as_number or cast} AS value")
        if not frame._jdf.queryExecution().analyzed().expressions().head().child().foldable():
            raise UnsupportedFeatureError(
                f"column {column} cannot have the default {sql}: a default of Iceberg is a constant", next_step="give a constant"
            )
        value = frame.collect()[0][0]
    except PySparkException as error:
        raise InvalidInputError(f"column {column} cannot have the default {sql}: {str(error).splitlines()[0]}") from error
    return bytes(value) if isinstance(value, bytearray) else value


def default_texts(field_type: IcebergType, initial: Any, write: Any) -> dict[str, str]:
    """Return the metadata of a Spark column with these initial and write defaults; empty if one of them has no literal in Spark's SQL."""
    current, exists = default_literal(field_type, write), default_literal(field_type, initial)
    if current is None or exists is None:
        return {}
    return {CURRENT_DEFAULT: current, EXISTS_DEFAULT: exists}


def _check_constant(sql: str | None, column: str) -> None:
    variable = _VARIABLE.search(_QUOTED.sub("''", sql or ""))
    if variable:
        raise UnsupportedFeatureError(
            f"column {column} cannot have the default {sql}: a default of Iceberg is a constant, and the value of {variable[0]} changes",
            next_step="give a constant",
        )
