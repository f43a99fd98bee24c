"""`TableAnswers`: one table as Spark SQL loaded it: what it is, how it is scanned, and how rows are written to it.

UPDATE and MERGE are `row_level.py`. Floor: spark. Spec: Schemas and Data Types; Partitioning; Row-level Deletes.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression, all_of
from icefloe.kernel.metadata.manifests import table_partition_type
from icefloe.kernel.metadata.properties import ACCEPT_ANY_SCHEMA, AUTO_SCHEMA_EVOLUTION
from icefloe.kernel.schema.metadata_columns import METADATA_COLUMNS, partition_column
from icefloe.kernel.schema.schema import Schema
from icefloe.spark.sql.alter_table import takes_change
from icefloe.spark.sql.answers import answer
from icefloe.spark.sql.definitions import columns_struct, partitioning_of, table_properties
from icefloe.spark.sql.gathered_source import OF_INSERTS, merged_rows
from icefloe.spark.sql.pushed_filters import expressions_of
from icefloe.spark.sql.row_level import RowLevelAnswers
from icefloe.spark.sql.scan_answers import ScanAnswers, ScanQuestion
from icefloe.spark.sql.scan_plans import ScanPlans
from icefloe.spark.sql.selectors import Selected
from icefloe.spark.sql.writing import Write, branch_of, run_write, understood
from icefloe.spark.types import schema_to_struct

_CAPABILITIES = ("BATCH_READ", "BATCH_WRITE", "V1_BATCH_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
# Capabilities that a property gives; Spark before 4.1 does not know the second.
_ASKED_FOR = {"ACCEPT_ANY_SCHEMA": ACCEPT_ANY_SCHEMA, "AUTOMATIC_SCHEMA_EVOLUTION": AUTO_SCHEMA_EVOLUTION}
# What Spark keeps of a row that it updates: where it was, and its identity.
_KEPT = ("_file", "_pos", "_row_id")


class TableAnswers(RowLevelAnswers):
    """A table, or a branch, tag or snapshot of one."""

    def __init__(self, spark: SparkSession, catalog_name: str, selected: Selected) -> None:
        super().__init__(spark, selected)
        self._catalog_name = catalog_name
        self._plans = ScanPlans(spark)

    @answer
    def describe(self, _: Any) -> dict[str, Any]:
        selected = self._selected
        metadata, scan = selected.table.metadata, selected.scan()
        return {
            "name": self._name(),
            "version": f"{selected.table.metadata_location} {selected.text()}",
            "schema": columns_struct(scan.as_held(scan.schema())).json(),
            "properties": table_properties(metadata, selected.table.metadata_location),
            "partitioning": partitioning_of(metadata.spec(), metadata.schema()),
            "capabilities": [*_CAPABILITIES, *(name for name, known in _ASKED_FOR.items() if known.read(metadata.properties))],
            "metadata_columns": self._metadata_columns(),
        }

    def _name(self) -> str:
        return f"{self._catalog_name}.{'.'.join(self._selected.table.name())}"

    def _metadata_columns(self) -> list[dict[str, Any]]:
        partition = partition_column(table_partition_type(self._selected.table.metadata))
        columns = [*(column for name, column in METADATA_COLUMNS.items() if name != "_deleted"), partition]
        own = set(self._selected.table.schema().names)
        struct = schema_to_struct(Schema(*(column for column in columns if column.name not in own)), field_ids=False)
        return [
            {
                "name": field.name,
                "type": field.dataType.json(),
                "nullable": field.nullable,
                "comment": field.metadata.get("comment"),
                "metadata": json.dumps(
                    {"__preserve_on_delete": True, "__preserve_on_update": field.name in _KEPT, "__preserve_on_reinsert": False}
                ),
            }
            for field in struct.fields
        ]

    @answer
    def takes_change(self, change: Mapping[str, Any]) -> bool:
        """Whether a statement WITH SCHEMA EVOLUTION may make a change of a column; where not, its rows are cast to the column as it is."""
        return takes_change(self._spark, self._selected.table, change)

    @answer
    def filters(self, asked: Mapping[str, Any]) -> list[bool]:
        """For each predicate whether it holds on every row of the files that are planned with it, so that Spark need not test it."""
        return self._question(asked).held()

    @answer
    def aggregate(self, asked: Mapping[str, Any]) -> str | None:
        """The schema of the answer, where metadata alone has it."""
        return self._question(asked).aggregate_schema()

    @answer
    def scan(self, asked: Mapping[str, Any]) -> ScanAnswers:
        question = self._question(asked)
        if asked.get("operation") is not None:
            self._row_level_scans.append(question)
        return ScanAnswers(question)

    def _question(self, asked: Mapping[str, Any]) -> ScanQuestion:
        return ScanQuestion(spark=self._spark, selected=self._selected, asked=asked, plans=self._plans)

    @answer
    def can_delete(self, predicates: list[Any]) -> bool:
        return not self._selected.is_past and None not in expressions_of(predicates, self._selected.table.schema())

    @answer
    def delete(self, predicates: list[Any]) -> None:
        self._check_writable()
        properties = self._options({}).snapshot_properties
        self._selected.table.delete(self._filter_of(predicates), properties, branch=self._selected.write_branch)

    @answer
    def write(self, given: Any) -> None:
        """Rows of a Dataset: appended, or in the place of those that the filters or the rows' partitions say."""
        self._write(json.loads(given[0]), lambda: DataFrame(given[1], self._spark))

    @answer
    def write_query(self, given: Any) -> None:
        """The same of the rows of a query in a session; those to append may be the rows of a MERGE that only inserts."""
        asked = json.loads(given[0])
        joins = OF_INSERTS if asked["mode"] == "append" else ()
        self._write(asked, lambda: merged_rows(self._spark, given[1], given[2], joins))

    def _write(self, asked: Mapping[str, Any], rows: Callable[[], DataFrame]) -> None:
        self._check_writable()
        table = self._selected.table
        options = understood(self._spark, asked["options"], table.metadata, table.full_name)
        self._run(
            Write(
                rows=rows(),
                options=options,
                branch=branch_of(options, self._selected.branch, table.full_name),
                overwrite_filter=self._filter_of(asked["filters"]) if asked["mode"] == "overwrite" else None,
                whole_partitions=asked["mode"] == "overwrite partitions",
            )
        )

    def _run(self, write: Write) -> None:
        run_write(self._selected.table, write)

    def _filter_of(self, predicates: list[Any]) -> BooleanExpression:
        found = expressions_of(predicates, self._selected.table.schema())
        return all_of([one for one in found if one is not None]) if found else AlwaysTrue()
