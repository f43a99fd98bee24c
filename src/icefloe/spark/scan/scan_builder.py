"""What all tables and scans of Spark SQL answer alike: `ReadableTable`, a table that can be read; `SparkScanBuilder`, which gathers what a query wants of it;
`ConnectorScan`, the scan.

Java's `SparkRule` asks a scan for its `rows` and puts them in its place before Spark runs the query. Spec: Scan Planning.
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
from icefloe.spark.scan.unused_settings import warn_of_read_options, warn_of_settings
from icefloe.spark.types.spark_types import schema_to_struct

# What a query wants: `options`, the `zone` and Iceberg's `settings` of its session, `operation` where rows are about to be changed, perhaps `filters`, `limit`
# and `aggregation`; for a scan the `schema` of what it reads, in Spark's JSON.
Wanted = Mapping[str, Any]
# What Spark keeps of a row that it updates: where it was, and its identity.
_KEPT = (FILE.name, POS.name, ROW_ID.name)


class ReadableTable(ConnectorObject, ABC):
    """A table that takes Spark's filters for hints, which Spark tests again, and computes no aggregate."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsRead",)
    _spark: SparkSession
    prunes_nested = False  # whether a scan may leave out parts of nested columns

    @abstractmethod
    def schema_json(self) -> str:
        """The columns, in Spark's JSON."""

    def filters(self, wanted: Wanted) -> list[bool]:
        """For each predicate whether it holds on every row of the files that are planned with it, so that Spark need not test it."""
        return [False for _ in wanted["filters"]]

    def aggregate(self, _: Wanted) -> str | None:
        """The schema of the answer, where metadata alone has it."""
        return None

    def metadata_fields(self) -> Sequence[NestedField]:
        """The metadata columns that a query may name where `*` does not have them."""
        return ()

    @abstractmethod
    def scan(self, wanted: Wanted) -> PythonCallback:
        """One scan."""

    @connector_method
    def new_scan_builder(self, asked: Mapping[str, Any]) -> "SparkScanBuilder":
        """`options`, and the `zone` and `settings` of the session."""
        warn_of_settings(self._spark, asked["settings"])
        warn_of_read_options(self._spark, asked["options"])
        return SparkScanBuilder(self, {**asked, "operation": None})


class SparkScanBuilder(ConnectorObject):
    """Gathers what a query wants of a table."""

    interfaces: ClassVar[tuple[str, ...]] = (
        "read.SupportsPushDownV2Filters",
        "read.SupportsPushDownRequiredColumns",
        "read.SupportsPushDownLimit",
        "read.SupportsPushDownAggregates",
    )

    def __init__(self, table: ReadableTable, wanted: Wanted) -> None:
        self._table = self.owner = table
        self._wanted = dict(wanted)
        self._schema = table.schema_json()

    @connector_method
    def push_predicates(self, predicates: list[Any]) -> list[int]:
        """The places of those that Spark must test on every row."""
        self._wanted["filters"] = predicates
        return [place for place, holds in enumerate(self._table.filters(dict(self._wanted))) if not holds]

    @connector_method
    def pushed_predicates(self) -> list[int]:
        """All that were given, which Spark shows."""
        return list(range(len(self._wanted.get("filters", ()))))

    @connector_method
    def prune_columns(self, required: str) -> None:
        if self._table.prunes_nested:
            self._schema = required
        else:
            own = {field["name"]: field for field in json.loads(self._schema)["fields"]}
            own |= {field.name: field.jsonValue() for field in spark_fields(self._table.metadata_fields())}
            fields = [own[field["name"]] for field in json.loads(required)["fields"]]
            self._schema = json.dumps({"type": "struct", "fields": fields})

    @connector_method
    def push_limit(self, limit: int) -> bool:
        """Spark limits the rows too."""
        self._wanted["limit"] = limit
        return False

    @connector_method
    def support_complete_push_down(self, aggregation: Mapping[str, Any]) -> bool:
        return self._table.aggregate({**self._wanted, "aggregation": aggregation}) is not None

    @connector_method
    def push_aggregation(self, aggregation: Mapping[str, Any]) -> bool:
        found = self._table.aggregate({**self._wanted, "aggregation": aggregation})
        if found is None:
            return False
        self._wanted["aggregation"], self._schema = aggregation, found
        return True

    @connector_method
    def build(self) -> PythonCallback:
        return self._table.scan({**self._wanted, "schema": self._schema})


class ConnectorScan(ConnectorObject):
    """A scan, also asked for `rows`: Spark's logical plan of them, optimized, its columns in the order of the schema."""

    interfaces: ClassVar[tuple[str, ...]] = ("read.SupportsReportStatistics", "read.SupportsRuntimeV2Filtering")

    def __init__(self, wanted: Wanted) -> None:
        self._schema: str = wanted["schema"]

    def says(self) -> Mapping[str, Any]:
        return {"readSchema": self._schema}

    @property
    def _struct(self) -> StructType:
        return StructType.fromJson(json.loads(self._schema))

    @connector_method
    def filter_attributes(self) -> list[str]:
        """The columns that have one value in each file: Spark's own scan, which comes in this one's place, leaves out files by what a join finds of them."""
        return []


def spark_fields(fields: Sequence[NestedField]) -> Sequence[StructField]:
    """Return columns as Spark has them."""
    return schema_to_struct(Schema(*fields), field_ids=False).fields


def metadata_columns(fields: Sequence[NestedField]) -> list[dict[str, Any]]:
    """Return metadata columns as Spark's connector describes them."""
    return [
        {
            "name": field.name,
            "dataType": field.dataType.json(),
            "isNullable": field.nullable,
            "comment": field.metadata.get("comment"),
            "metadataInJSON": json.dumps(
                {"__preserve_on_delete": True, "__preserve_on_update": field.name in _KEPT, "__preserve_on_reinsert": False}
            ),
        }
        for field in spark_fields(fields)
    ]


def statistics(rows: int | None, size: int, distinct: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What Spark's optimizer wants to know of a scan: rows, bytes as Spark will have them in memory, and numbers of distinct values by column."""
    counts = {name: {"distinctCount": count} for name, count in (distinct or {}).items()}
    return {"numRows": rows, "sizeInBytes": size, "columnStats": counts}
