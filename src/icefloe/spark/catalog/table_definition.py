"""Conversion of table definitions in Spark's statements to Iceberg: columns, partition transforms and properties.

`spark_table.py` has the opposite direction.

Spec: Schemas and Data Types; Partition Transforms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import InvalidPartitionSpecError, Problem, UnsupportedFeatureError, UnsupportedTypeError
from icefloe.spark.catalog.column_defaults import default_of_column
from icefloe.spark.types.declared_types import check_collation, declared_types, takes_char_as_string
from icefloe.spark.types.spark_types import COMMENT_KEY, struct_to_schema, to_iceberg_type
from icefloe.spec.metadata.sort_keys import FROM_SPARK, sort_order_of
from icefloe.spec.partitioning.sort_order import UNSORTED_SORT_ORDER
from icefloe.spec.schema.default_values import to_default_value
from icefloe.spec.schema.schema import Schema
from icefloe.spec.schema.version_rules import FIRST_VERSION_OF_DEFAULTS
from icefloe.spec.types import IcebergType, NestedField

# Properties of Spark's statements that do not become table properties.
_NOT_PROPERTIES = frozenset(
    {
        *("provider", "location", "owner", "external", "is_managed_location", "comment", "collation", "table_type"),
        *("format", "current-snapshot-id", "metadata-location", "sort-order", "identifier-fields"),
    }
)
_PROVIDERS = ("iceberg", "icefloe")
_FILE_FORMATS = ("parquet", "orc", "avro")


def iceberg_type(data_type: DataType, column: str) -> IcebergType:
    """Return the Iceberg type of a column that a statement adds or changes. Nested ids are preliminary. Raises `UnsupportedTypeError` if there is none."""
    ids, problems = count(1), list[Problem]()
    field_type = to_iceberg_type(data_type, lambda: next(ids), (column,), problems)
    if problems:
        raise UnsupportedTypeError("Iceberg has no counterpart for a type", problems=problems, next_step="choose another type")
    return field_type


def schema_of(spark: SparkSession, columns: Sequence[Mapping[str, Any]]) -> Schema:
    """Return the schema of Spark's columns, with new field ids and their defaults.

    Raises:
        UnsupportedTypeError: Iceberg has no equivalent of a type; see `declared_types`.
        UnsupportedFeatureError: a column is generated, or its default is not a constant.
        InvalidSchemaError: the columns are not a valid schema.
    """
    fields = []
    types = declared_types([(column["name"], column["dataType"]) for column in columns], char_as_string=takes_char_as_string(spark))
    for column, data_type in zip(columns, types, strict=True):
        metadata = {} if column.get("comment") is None else {COMMENT_KEY: column["comment"]}
        fields.append(StructField(column["name"], data_type, column["nullable"], metadata))
        if column.get("generationExpression") or column.get("identityColumnSpec"):
            raise UnsupportedFeatureError(f"column {column['name']} cannot be generated: Iceberg tables have no column expressions")
    schema = struct_to_schema(SparkStruct(fields))
    return Schema(
        *(_with_default(field, default_of_column(spark, column, field)) for field, column in zip(schema.fields, columns, strict=True))
    )


def _with_default(field: NestedField, value: Any) -> NestedField:
    # The table checks whether its format version, which is not known here, allows defaults.
    default = to_default_value(field.field_type, value, field.name, FIRST_VERSION_OF_DEFAULTS)
    return field if default is None else replace(field, initial_default=default, write_default=default)


def partition_texts(transforms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return partition fields as texts for `Catalog.create_table`: `["bucket(16, s)", "day(ts)", "kind"]`.

    Raises `InvalidPartitionSpecError` for a transform that does not have exactly one column.
    """
    return [_partition_text(transform) for transform in transforms]


def _partition_text(transform: Mapping[str, Any]) -> str:
    arguments = transform["arguments"]
    columns = [".".join(part["parts"]) for part in arguments if part["kind"] == "reference"]
    numbers = [part["value"] for part in arguments if part["kind"] == "literal"]
    name = FROM_SPARK.get(transform["name"].lower(), transform["name"].lower())
    if len(columns) != 1 or len(numbers) > 1 or len(columns) + len(numbers) != len(arguments):
        text = f"{transform['name']}({', '.join([*numbers, *columns])})"
        raise InvalidPartitionSpecError(f"{text} is not a partition transform", next_step="give a transform one column: bucket(16, c)")
    return columns[0] if name == "identity" else f"{name}({', '.join([*numbers, *columns])})"


def own_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return those of a statement's properties that are stored as table properties. `USING parquet`, `orc` or `avro` sets the default file format.

    Not stored are the copies of OPTIONS that Spark adds with the prefix `option.`, and properties that only describe the table, which SHOW CREATE TABLE prints.

    Raises:
        UnsupportedFeatureError: the provider is not Iceberg or a file format.
    """
    own = {key: value for key, value in properties.items() if key.lower() not in _NOT_PROPERTIES and not key.startswith("option.")}
    provider = properties.get("provider", "iceberg").lower()
    if provider in _FILE_FORMATS:
        own.setdefault("write.format.default", provider)
    elif provider not in _PROVIDERS:
        raise UnsupportedFeatureError(
            f"USING {provider} does not create an Iceberg table",
            next_step="write USING iceberg; or parquet, orc or avro for the format of its data files",
        )
    return own | ({"comment": properties["comment"]} if "comment" in properties else {})


def definition_of(spark: SparkSession, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition in a CREATE or REPLACE TABLE as arguments for `Catalog.create_table`. Raises the errors of this module's functions."""
    properties = request["properties"]
    check_collation(properties, ".".join(request["table"]))
    schema = schema_of(spark, request["columns"])
    identifiers = [name.strip() for name in properties.get("identifier-fields", "").strip("[]").split(",") if name.strip()]
    if identifiers:
        schema = Schema(*schema.fields, identifier_field_ids=[schema.find_field(name).field_id for name in identifiers])
    order = properties.get("sort-order")
    return {
        "schema": schema,
        "location": properties.get("location"),
        "partition_spec": partition_texts(request["partitioning"]),
        "sort_order": UNSORTED_SORT_ORDER if order is None else sort_order_of(order, schema),
        "properties": own_properties(properties),
    }
