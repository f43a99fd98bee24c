"""The table `changes` in SQL, with the range that a read's options choose; and `create_changelog_view`, which names changes for the queries of a session.

What changes are is told in `icefloe.inspect.metadata_tables.changes`, which finds them. Spec: Snapshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.inspect.metadata_tables.changes import changes
from icefloe.inspect.metadata_tables.schemas import changes_metadata_columns, changes_schema
from icefloe.kernel.metadata.table_history import ancestors
from icefloe.kernel.schema.arrow_schema import schema_to_arrow
from icefloe.kernel.schema.schema import Schema
from icefloe.kernel.types import ListType, NestedField, StringType
from icefloe.procedures.procedure import Flag, Procedure, Rows, Text, Texts, procedure
from icefloe.spark.catalog.spark_metadata_table import MetadataTableScan, SparkMetadataTable, frame_of
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.scan_builder import metadata_columns
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, with_options
from icefloe.table.table_reader import TableReader

CHANGES = "changes"
Names = Annotated[Sequence[str], ListType(element_id=2, element=StringType(), element_required=False)]


class ChangelogTable(SparkMetadataTable):
    """The table `changes`, whose rows tell by metadata columns where they are or were."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsMetadataColumns", "catalog.SupportsRead")

    def metadata_fields(self) -> Sequence[NestedField]:
        return changes_metadata_columns(self._selected.table.metadata)

    def says(self) -> Mapping[str, Any]:
        return {**super().says(), "metadataColumns": metadata_columns(self.metadata_fields()), "canRenameConflictingMetadataColumns": True}

    def scan(self, asked: PushedQuery) -> "ChangelogScan":
        whole = replace(self._found, schema=Schema(*self._found.schema.fields, *self.metadata_fields()))
        return ChangelogScan(self._spark, with_options(self._selected, asked["options"], takes_range=True), whole, asked)


class ChangelogScan(MetadataTableScan):
    """One read of the changes."""

    def _rows(self) -> Any:
        chosen = changes_range(self._selected.table, self._asked["options"], self._snapshot_id())
        return _rows(self._selected.table, chosen, columns=self._columns or ["_change_ordinal"])


def changes_range(table: TableReader, options: Mapping[str, str], end: int | None = None) -> tuple[int | None, int | None] | None:
    """The ids of the snapshots that options name: changes begin after the first, and end with the second; None where no change lies between.

    `start-snapshot-id` and `end-snapshot-id`, or `start-timestamp` and `end-timestamp` (milliseconds since 1970-01-01 UTC): after the one, up to the other.
    `end` is what the table was named with.

    Raises:
        InvalidInputError: a value is no number, an end of the range is told twice, or a time is the start that does not lie before the end.
    """
    given = {key.lower(): _number(key, value) for key, value in options.items() if key.lower() in RANGE_OPTIONS}
    named = [] if end is None else ["a snapshot, branch or tag of the table"]
    for told in (["start-snapshot-id", "start-timestamp"], ["end-snapshot-id", "end-timestamp"]):
        twice = [name for name in told if name in given] + (named if told[0].startswith("end") else [])
        if len(twice) > 1:
            raise InvalidInputError(
                f"the changes of {table.full_name} are read with {' and '.join(twice)}", table=table.full_name, next_step="give one of them"
            )
    times = given.get("start-timestamp"), given.get("end-timestamp")
    if times[0] is not None and times[1] is not None and times[0] >= times[1]:
        raise InvalidInputError(
            f"the changes of {table.full_name} are read from {times[0]} ms to {times[1]} ms, and a range begins before it ends",
            table=table.full_name,
            next_step="give a start-timestamp that is less than end-timestamp",
        )
    last = given.get("end-snapshot-id", table.metadata.current_snapshot_id if end is None else end)
    line = [(one.snapshot_id, one.timestamp_ms) for one in ancestors(table.metadata, last)]
    if "end-timestamp" in given:
        line = [one for one in line if one[1] <= given["end-timestamp"]]
        last = line[0][0] if line else None
    start = given.get("start-snapshot-id")
    if "start-timestamp" in given:
        start = next((one for one, time in line if time <= given["start-timestamp"]), None)
    return None if last is None or start == last else (start, last)


def _rows(table: TableReader, chosen: tuple[int | None, int | None] | None, **how: Any) -> Any:
    if chosen is None:
        by_default = changes_schema(table.metadata)
        every = Schema(*by_default.fields, *changes_metadata_columns(table.metadata))
        return schema_to_arrow(every).empty_table().select(how.get("columns") or by_default.names)
    return changes(table, start_snapshot_id=chosen[0], end_snapshot_id=chosen[1], **how)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(
            f"the read option {name} is {text!r}, which is no whole number", next_step="give a snapshot's id, or milliseconds since 1970"
        ) from None


def session_procedures(spark: SparkSession) -> Mapping[str, Procedure]:
    """The procedures that do something to a session, by name; all others are in `icefloe.procedures`."""

    @procedure(("changelog_view", StringType()))
    def create_changelog_view(
        catalog: Catalog,
        table: Text,
        changelog_view: Text | None = None,
        options: Texts | None = None,
        compute_updates: Flag | None = None,
        identifier_columns: Names | None = None,
        net_changes: Flag | None = None,
    ) -> Rows:
        """Makes a temporary view of the rows that snapshots added and removed, without those that were only copied."""
        found = catalog.load_table(table)
        if net_changes:
            raise UnsupportedFeatureError("net changes over several snapshots are not computed", next_step="leave net_changes out")
        schema = found.schema()
        own = [name for name in map(schema.find_column_name, sorted(schema.identifier_field_ids)) if name is not None]
        columns = list(identifier_columns) if identifier_columns is not None else own
        updates = compute_updates if compute_updates is not None else identifier_columns is not None
        if updates and not columns:
            raise InvalidInputError(
                f"{found.full_name} has no identifier fields, by which updates are found",
                table=found.full_name,
                next_step="give identifier_columns, or ALTER TABLE ... SET IDENTIFIER FIELDS",
            )
        rows = _rows(found, changes_range(found, options or {}), carry_overs=False, identifier_columns=columns if updates else ())
        view = changelog_view or f"`{found.name()[-1]}_changes`"
        frame_of(spark, rows, changes_schema(found.metadata)).createOrReplaceTempView(view)
        return [(view,)]

    return {create_changelog_view.name: create_changelog_view}
