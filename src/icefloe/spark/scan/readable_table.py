"""Base classes of all tables in Spark SQL: `ScanSource` receives the query that Spark pushes down, and `ReadableTable` is a table that Spark can read.

The classes for tables, metadata tables and changes are in `spark/catalog`; `spark_scan.py` has the scans that they return.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from icefloe.errors import UnsupportedFeatureError
from icefloe.spark.bridge.callback import ConnectorObject, PythonCallback, connector_method
from icefloe.spark.bridge.messages import ReadQuery
from icefloe.spark.scan.read_options import (
    OPTIONS_OF_CLAUSE,
    PushedQuery,
    check_read_mode,
    check_read_options,
    warn_of_read_options,
    warn_of_settings,
)
from icefloe.spark.types.spark_types import schema_to_struct
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import NestedField


class ScanSource(ConnectorObject, ABC):
    """A table or row-level operation from which Spark builds scans. `bridge/java/SparkScanBuilder.java` collects the query that Spark pushes down."""

    @connector_method
    def remaining_filters(self, query: ReadQuery) -> list[int]:
        """Return the indexes of the pushed predicates that Spark must evaluate on every row."""
        table, operation = self._read_table()
        return [index for index, holds in enumerate(table.filters({**query, "operation": operation})) if not holds]

    @connector_method
    def aggregate_schema(self, query: ReadQuery) -> str | None:
        """Return the schema of the aggregates in Spark's JSON if they can be computed from metadata only; otherwise None."""
        table, operation = self._read_table()
        return table.aggregate({**query, "operation": operation})

    @connector_method
    def build_scan(self, query: ReadQuery) -> PythonCallback:
        """Return a scan for the pushed query.

        Raises:
            InvalidInputError: An option of the read seems misspelt.
        """
        table, operation = self._read_table()
        is_stream = query.get("is_stream", False)
        if operation is None:
            table.check_read(query, is_stream=is_stream)
        return (table.stream_scan if is_stream else table.scan)(
            {**query, "operation": operation, "schema": table.read_schema(query.get("schema"))}
        )

    @abstractmethod
    def _read_table(self) -> tuple["ReadableTable", str | None]:
        """Return the table to read, and the name of the row-level operation that reads it; the name is None for a query."""


class ReadableTable(ScanSource):
    """A table that Spark can read.

    Unless a subclass overrides `filters` and `aggregate`, Spark evaluates all pushed filters on every row too, and computes aggregates from the rows.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsRead",)
    _spark: SparkSession
    prunes_nested = False  # whether a scan may leave out parts of nested columns
    has_changes = False  # whether the rows are changes of another table

    @abstractmethod
    def schema_json(self) -> str:
        """Return the table's columns as a struct in Spark's JSON."""

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return for each pushed predicate whether it is true for every row of the planned files, so that Spark need not evaluate it."""
        return [False for _ in query["filters"]]

    def aggregate(self, _: PushedQuery) -> str | None:
        """Return the schema of the aggregates in Spark's JSON if they can be computed from metadata only; otherwise None."""
        return None

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the table's metadata columns, which a query may use by name, but which `*` does not include."""
        return ()

    @abstractmethod
    def scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan of a pushed query."""

    def stream_scan(self, _: PushedQuery) -> PythonCallback:
        """Return the scan from which Spark creates a stream of the table. Raises `UnsupportedFeatureError` unless the table can be read as a stream."""
        raise UnsupportedFeatureError("this table cannot be read as a stream", next_step="read it with spark.read")

    def check_read(self, query: ReadQuery, *, is_stream: bool) -> None:
        """Warn about settings and options without effect. Raises `InvalidInputError` for an option that seems misspelt, or a read mode of other tables."""
        warn_of_settings(self._spark, query["settings"])
        warn_of_read_options(self._spark, query["options"], is_stream=is_stream, has_changes=self.has_changes)
        check_read_options(query["options"], *(OPTIONS_OF_CLAUSE if self.has_changes else ()))
        if not self.has_changes:
            check_read_mode(query["options"], str(self.constants()["name"]), is_stream=is_stream)

    def read_schema(self, required: str | None) -> str:
        """Return the columns to read as a struct in Spark's JSON. Unless `prunes_nested`, needed columns are read with all their nested fields.

        Args:
            required: The columns that Spark needs, without unneeded nested fields, as a struct in Spark's JSON; None for all columns.
        """
        if required is None or self.prunes_nested:
            return required or self.schema_json()
        fields_by_name = {field["name"]: field for field in json.loads(self.schema_json())["fields"]}
        fields_by_name |= {field.name: field.jsonValue() for field in spark_fields(self.metadata_fields())}
        fields = [fields_by_name[field["name"]] for field in json.loads(required)["fields"]]
        return json.dumps({"type": "struct", "fields": fields})

    def _read_table(self) -> tuple["ReadableTable", str | None]:
        return self, None


def spark_fields(fields: Sequence[NestedField]) -> Sequence[StructField]:
    """Convert columns to fields of a Spark struct, without field ids."""
    return schema_to_struct(Schema(*fields), field_ids=False).fields


def metadata_columns(fields: Sequence[NestedField]) -> list[dict[str, Any]]:
    """Describe metadata columns for Spark's connector interface: a dict for each column, with `name`, `dataType` (in Spark's JSON), `isNullable` and `comment`.

    The descriptions have no metadata JSON, which Spark would parse for every reference to a table. Without it, Spark preserves the values of metadata columns
    for updated rows, as row-level operations need for the columns that identify rows.
    """
    return [
        {
            "name": field.name,
            "dataType": field.dataType.json(),
            "isNullable": field.nullable,
            "comment": field.metadata.get("comment"),
        }
        for field in spark_fields(fields)
    ]
