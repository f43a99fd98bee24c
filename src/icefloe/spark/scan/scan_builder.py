"""Base classes of what Spark SQL reads: `ReadableTable`, `SparkScanBuilder` and `ConnectorScan`, Spark's interfaces of a table, a scan builder and a scan.

`bridge/java/SparkRule.java` replaces a scan by its `rows` before Spark runs the query. The scan of a table's rows is `pushed_scan.py`,
those of metadata tables are in `spark/catalog`. Spec: Scan Planning.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from icefloe.kernel.schema.metadata_columns import FILE, POS, ROW_ID
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import NestedField
from icefloe.spark.bridge.callback import ConnectorObject, PythonCallback, connector_method
from icefloe.spark.bridge.messages import Aggregation, Expression, ReadOptions
from icefloe.spark.scan.read_options import PushedQuery, check_read_options, warn_of_read_options, warn_of_settings
from icefloe.spark.types.spark_types import schema_to_struct

# The metadata columns that Spark preserves for an updated row: its place and its identity.
_PRESERVED_ON_UPDATE = (FILE.name, POS.name, ROW_ID.name)


class ReadableTable(ConnectorObject, ABC):
    """A table that Spark can read.

    Unless a subclass overrides `filters` and `aggregate`, pushed filters only prune, Spark evaluates them on every row too, and no aggregate is pushed
    down.
    """

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsRead",)
    _spark: SparkSession
    prunes_nested = False  # whether a scan may leave out parts of nested columns

    @abstractmethod
    def schema_json(self) -> str:
        """Return the columns, in Spark's JSON."""

    def filters(self, query: PushedQuery) -> list[bool]:
        """Return for each pushed predicate whether it is true of every row of the planned files, so that Spark need not evaluate it."""
        return [False for _ in query["filters"]]

    def aggregate(self, _: PushedQuery) -> str | None:
        """Return the schema of the aggregates in Spark's JSON, where metadata alone has their values; else None."""
        return None

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the metadata columns: a query may name them, and `*` does not select them."""
        return ()

    @abstractmethod
    def scan(self, query: PushedQuery) -> PythonCallback:
        """Return the scan of a pushed query."""

    @connector_method
    def new_scan_builder(self, query: ReadOptions) -> "SparkScanBuilder":
        """Return a scan builder.

        Args:
            query: `options` of the read, and the `zone`, the `settings` and the kind of optimizer of the session.
        """
        warn_of_settings(self._spark, query["settings"])
        warn_of_read_options(self._spark, query["options"])
        check_read_options(query["options"])
        return SparkScanBuilder(self, {**query, "operation": None})


class SparkScanBuilder(ConnectorObject):
    """Spark's scan builder: it collects the filters, columns, limit and aggregates that Spark pushes down."""

    interfaces: ClassVar[tuple[str, ...]] = (
        "read.SupportsPushDownV2Filters",
        "read.SupportsPushDownRequiredColumns",
        "read.SupportsPushDownLimit",
        "read.SupportsPushDownAggregates",
    )

    def __init__(self, table: ReadableTable, query: PushedQuery) -> None:
        self._table = self.owner = table
        self._query = dict(query)
        self._schema = table.schema_json()

    @connector_method
    def push_predicates(self, predicates: list[Expression]) -> list[int]:
        """Return the indexes of the predicates that Spark must evaluate on every row."""
        self._query["filters"] = predicates
        return [index for index, holds in enumerate(self._table.filters(dict(self._query))) if not holds]

    @connector_method
    def pushed_predicates(self) -> list[int]:
        """Return the indexes of the pushed predicates, which are all; Spark shows them in EXPLAIN."""
        return list(range(len(self._query.get("filters", ()))))

    @connector_method
    def prune_columns(self, required: str) -> None:
        """Set the columns to read.

        Args:
            required: A struct in Spark's JSON, without nested fields that the query does not need.
        """
        if self._table.prunes_nested:
            self._schema = required
        else:
            fields_by_name = {field["name"]: field for field in json.loads(self._schema)["fields"]}
            fields_by_name |= {field.name: field.jsonValue() for field in spark_fields(self._table.metadata_fields())}
            fields = [fields_by_name[field["name"]] for field in json.loads(required)["fields"]]
            self._schema = json.dumps({"type": "struct", "fields": fields})

    @connector_method
    def push_limit(self, limit: int) -> bool:
        """Use a limit for planning, and return False: Spark must still limit the rows."""
        self._query["limit"] = limit
        return False

    @connector_method
    def support_complete_push_down(self, aggregation: Aggregation) -> bool:
        """Return True if the metadata determines the whole result of an aggregation."""
        return self._table.aggregate({**self._query, "aggregation": aggregation}) is not None

    @connector_method
    def push_aggregation(self, aggregation: Aggregation) -> bool:
        """Push an aggregation down, and return True if the metadata determines its result."""
        schema = self._table.aggregate({**self._query, "aggregation": aggregation})
        if schema is None:
            return False
        self._query["aggregation"], self._schema = aggregation, schema
        return True

    @connector_method
    def build(self) -> PythonCallback:
        """Return the scan of the pushed query."""
        return self._table.scan({**self._query, "schema": self._schema})


class ConnectorScan(ConnectorObject):
    """Spark's scan. A subclass adds `rows`: Spark's optimized logical plan of the rows, with the columns of `readSchema` in their order."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.SupportsReportStatistics", "read.SupportsRuntimeV2Filtering")

    def __init__(self, query: PushedQuery) -> None:
        self._schema: str = query["schema"]

    def constants(self) -> Mapping[str, Any]:
        """Return the schema of the rows."""
        return {"readSchema": self._schema}

    @property
    def _struct(self) -> StructType:
        return StructType.fromJson(json.loads(self._schema))

    @connector_method
    def filter_attributes(self) -> list[str]:
        """Return the columns with one value per file.

        Spark's own scan, which replaces this one, prunes files by the values that a join finds in these columns.
        """
        return []


def spark_fields(fields: Sequence[NestedField]) -> Sequence[StructField]:
    """Convert columns to fields of a Spark struct."""
    return schema_to_struct(Schema(*fields), field_ids=False).fields


def metadata_columns(fields: Sequence[NestedField]) -> list[dict[str, Any]]:
    """Describe metadata columns in the form of Spark's connector."""
    return [
        {
            "name": field.name,
            "dataType": field.dataType.json(),
            "isNullable": field.nullable,
            "comment": field.metadata.get("comment"),
            "metadataInJSON": json.dumps(
                {"__preserve_on_delete": True, "__preserve_on_update": field.name in _PRESERVED_ON_UPDATE, "__preserve_on_reinsert": False}
            ),
        }
        for field in spark_fields(fields)
    ]


def statistics(rows: int | None, size: int, columns: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """Return the statistics of a scan for Spark's optimizer.

    Args:
        rows: The number of rows; None where it is not known.
        size: Bytes that the rows take in files.
        columns: The fields of Spark's `ColumnStatistics` that are known, by column name.
    """
    return {"numRows": rows, "sizeInBytes": size, "columnStats": columns or {}}
