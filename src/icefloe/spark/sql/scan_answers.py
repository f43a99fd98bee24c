"""`ScanAnswers`: one scan of a query: planned with the filters that Spark pushed, its rows as a plan of Spark's own, its size for Spark's optimizer.

Planning is the kernel's, the rows are `spark/scan.py`'s. Spark tests its filters on every row besides, unless `vouched` says that they hold. Floor: spark.
Spec: Scan Planning; Column Projection.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType
from pyspark.sql.types import StructType as SparkStruct

from icefloe.errors import InvalidInputError
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.metadata.manifests import table_partition_type
from icefloe.kernel.schema.metadata_columns import METADATA_COLUMNS, PARTITION_NAME, partition_column
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import IcebergType, ListType, NestedField, StructType
from icefloe.kernel.types import MapType as IcebergMap
from icefloe.spark.scan import read
from icefloe.spark.sql.answers import Answers, answer
from icefloe.spark.sql.pushed_filters import pruning_filter
from icefloe.spark.sql.selectors import Selected
from icefloe.table.engine import ScanRequest
from icefloe.table.scan import DataScan


class ScanAnswers(Answers):
    """A scan that Spark's optimizer made; nothing is planned before its size or its rows are asked for."""

    def __init__(self, spark: SparkSession, selected: Selected, asked: Mapping[str, Any]) -> None:
        """`asked` holds `filters`, `schema` (Spark's JSON of the columns wanted), `options` and perhaps `limit`."""
        self._spark = spark
        self._selected = selected
        self._wanted = SparkStruct.fromJson(json.loads(asked["schema"]))
        self._scan = with_options(selected, asked["options"]).scan()
        self._filters = asked.get("filters") or ()

    @cached_property
    def _filter(self) -> BooleanExpression:
        return pruning_filter(self._filters, self._scan.schema())

    @cached_property
    def request(self) -> ScanRequest:
        """The planned files and the columns; no filter of rows, which is Spark's."""
        scan = self._scan.filter(self._filter)
        return replace(self._scan, limit=None).request(projection_of(self._scan, self._wanted), plan=scan.plan())

    @answer
    def description(self, _: Any) -> str:
        return f"Icefloe {self._selected.table.full_name} [{self._filter}]"

    @answer
    def rows(self, _: Any) -> Any:
        """Spark's logical plan of the rows, optimized, its columns in the order asked for."""
        return read(self._spark, self.request)._jdf.queryExecution().optimizedPlan()

    @answer
    def statistics(self, _: Any) -> dict[str, Any]:
        """Rows (before deletes), bytes as Spark will have them in memory, and distinct values by column where a statistics file counted them."""
        plan = self.request.plan
        records = plan.records_after_deletes
        rows = plan.records_before_deletes if records is None else records
        return {"rows": rows, "bytes": rows * self._wanted_width(), "distinct": {}}

    def _wanted_width(self) -> int:
        """Bytes of one row, by Spark's own reckoning of its types."""
        struct = self._spark._jsparkSession.parseDataType(self._wanted.json())
        return int(struct.defaultSize()) + 8


def with_options(selected: Selected, options: Mapping[str, str]) -> Selected:
    """The selection that a read's options make: `snapshot-id`, `branch`, `tag` or `as-of-timestamp` (milliseconds).

    Raises:
        InvalidInputError: several of them, or one beside a selector in the name.
        NoSuchSnapshotError: there is no such snapshot.
    """
    known = {"snapshot-id": "snapshot_id", "branch": "branch", "tag": "tag", "as-of-timestamp": "as_of_ms"}
    given = {known[key.lower()]: value for key, value in options.items() if key.lower() in known}
    if not given:
        return selected
    if len(given) > 1 or selected.is_past or selected.branch is not None:
        raise InvalidInputError(
            f"{selected.table.full_name} is read with {', '.join(sorted(given))}, and only one snapshot can be",
            next_step="give one of snapshot-id, branch, tag and as-of-timestamp",
        )
    return replace(
        selected,
        branch=given.get("branch"),
        tag=given.get("tag"),
        snapshot_id=int(given["snapshot_id"]) if "snapshot_id" in given else None,
        as_of_ms=int(given["as_of_ms"]) if "as_of_ms" in given else None,
    )


def projection_of(scan: DataScan, wanted: SparkStruct) -> Schema:
    """The part of the scan's schema that Spark wants, in Spark's order; metadata columns by their names."""
    schema, partition = scan.schema(), table_partition_type(scan.metadata)
    metadata = {**METADATA_COLUMNS, PARTITION_NAME: partition_column(partition)}
    own = {field.name: field for field in schema.fields}
    fields = []
    for field in wanted.fields:
        found = own.get(field.name) or metadata[field.name]
        fields.append(replace(found, field_type=_cut(found.field_type, field.dataType)))
    return Schema(*fields, schema_id=schema.schema_id)


def _cut(kind: IcebergType, wanted: DataType) -> IcebergType:
    """The type without the nested fields that Spark does not want."""
    if isinstance(kind, StructType) and isinstance(wanted, SparkStruct):
        return StructType(*_kept(kind.fields, wanted))
    if isinstance(kind, ListType) and isinstance(wanted, ArrayType):
        return replace(kind, element=_cut(kind.element, wanted.elementType))
    if isinstance(kind, IcebergMap) and isinstance(wanted, MapType):
        return replace(kind, value_type=_cut(kind.value_type, wanted.valueType), key_type=_cut(kind.key_type, wanted.keyType))
    return kind


def _kept(fields: Sequence[NestedField], wanted: SparkStruct) -> list[NestedField]:
    own = {field.name: field for field in fields}
    return [replace(own[field.name], field_type=_cut(own[field.name].field_type, field.dataType)) for field in wanted.fields]
