"""`ChangelogTable`: the metadata table `changes` in SQL, over a range of snapshots; and the procedure `create_changelog_view`, which creates a view of it.

`icefloe.spark.scan.change_feed` reads the rows. Spec: Snapshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError
from icefloe.metadata_tables.schemas import changes_metadata_columns
from icefloe.operations.change_feed.change_scan import ChangeScan, DeduplicationMode
from icefloe.operations.change_feed.snapshot_range import Bound, time_bound
from icefloe.operations.loaded_table import TableReader
from icefloe.procedures.procedure import Flag, Procedure, Rows, Text, Texts, procedure
from icefloe.spark.catalog.spark_metadata_table import MetadataTableScan, SparkMetadataTable
from icefloe.spark.scan.change_feed import changes_frame
from icefloe.spark.scan.read_options import PushedQuery, check_read_options, warn_of_read_options
from icefloe.spark.scan.readable_table import metadata_columns
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, TableSelection, with_options
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import ListType, NestedField, StringType

CHANGES = "changes"
Names = Annotated[Sequence[str], ListType(element_id=2, element=StringType(), element_required=False)]


class ChangelogTable(SparkMetadataTable):
    """The metadata table `changes` in Spark SQL. It has metadata columns with the data file and the position where each row is, or was."""

    interfaces: ClassVar[tuple[str, ...]] = ("catalog.SupportsMetadataColumns", "catalog.SupportsRead")

    def metadata_fields(self) -> Sequence[NestedField]:
        """Return the metadata columns with the data file and position of a row."""
        return changes_metadata_columns(self._selected.table.metadata)

    def constants(self) -> Mapping[str, Any]:
        """Return the constant results of Spark's methods, by name."""
        return {
            **super().constants(),
            "metadataColumns": metadata_columns(self.metadata_fields()),
            "canRenameConflictingMetadataColumns": True,
        }

    def scan(self, query: PushedQuery) -> "ChangelogScan":
        """Return a scan of the changes in the range of snapshots that the read options select."""
        with_metadata_columns = replace(self._metadata_table, schema=Schema(*self._metadata_table.schema.fields, *self.metadata_fields()))
        selected = with_options(self._selected, query["options"], takes_range=True)
        return ChangelogScan(self._spark, selected, with_metadata_columns, query)


class ChangelogScan(MetadataTableScan):
    """A scan of the metadata table `changes`."""

    def _frame(self) -> DataFrame:
        names = self._columns or ["_change_ordinal"]
        end = self._selected.selected_snapshot_id()
        return changes_frame(self._spark, changes_in(self._selected.table, self._query["options"], end).select(*names))


def changes_in(table: TableReader, options: Mapping[str, str], end: int | None = None, **more: Any) -> ChangeScan:
    """Return a scan of the changes in the range of snapshots that read options select; copied rows are changes, unless `more` has another mode.

    Args:
        table: the table.
        options: read options: `start-snapshot-id` or `start-timestamp`, exclusive; `end-snapshot-id` or `end-timestamp`, inclusive. Timestamps are
            milliseconds since 1970-01-01 UTC.
        end: id of the snapshot that the table's name or another option selects; None if neither does.
        **more: arguments of `table.changes`.

    Raises:
        InvalidInputError: a value is not a number, the start or the end is set twice, or the start is not before the end.
    """
    ends = {key.lower(): _number(key, value) for key, value in options.items() if key.lower() in RANGE_OPTIONS}
    selected_end = [] if end is None else ["a snapshot, branch or tag of the table"]
    for names in (["start-snapshot-id", "start-timestamp"], ["end-snapshot-id", "end-timestamp"]):
        alternatives = [name for name in names if name in ends] + (selected_end if names[0].startswith("end") else [])
        if len(alternatives) > 1:
            raise InvalidInputError(
                f"the changes of {table.full_name} are read with {' and '.join(alternatives)}",
                table=table.full_name,
                next_step="give one of them",
            )
    start_ms, end_ms = ends.get("start-timestamp"), ends.get("end-timestamp")
    if start_ms is not None and end_ms is not None and start_ms >= end_ms:
        raise InvalidInputError(
            f"the changes of {table.full_name} are read from {start_ms} ms to {end_ms} ms, and a range begins before it ends",
            table=table.full_name,
            next_step="give a start-timestamp that is less than end-timestamp",
        )
    start: Bound | None = ends.get("start-snapshot-id") if start_ms is None else time_bound(start_ms * 1000)
    last: Bound | None = ends.get("end-snapshot-id", end) if end_ms is None else time_bound(end_ms * 1000)
    return table.changes(start, last, **{"deduplication_mode": DeduplicationMode.NONE, **more})


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInputError(
            f"the read option {name} is {text!r}, which is not a whole number",
            next_step="give a snapshot id, or milliseconds since 1970-01-01 UTC",
        ) from None


def session_procedures(spark: SparkSession) -> Mapping[str, Procedure]:
    """Return the procedures that change a session, by name; all others are in `icefloe.procedures`."""

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
        """Create a temporary view of the rows that snapshots added and deleted, without rows that were only copied."""
        loaded = catalog.load_table(table)
        of_read = options or {}
        check_read_options(of_read)
        warn_of_read_options(spark, of_read)
        scan = changes_in(
            loaded,
            of_read,
            with_options(TableSelection(table=loaded), of_read, takes_range=True).selected_snapshot_id(),
            deduplication_mode=DeduplicationMode.NET_CHANGES if net_changes else DeduplicationMode.DROP_CARRYOVERS,
            compute_updates=compute_updates if compute_updates is not None else identifier_columns is not None,
            identifier_columns=identifier_columns,
        )
        view = changelog_view or f"`{loaded.name()[-1]}_changes`"
        changes_frame(spark, scan).createOrReplaceTempView(view)
        return [(view,)]

    return {create_changelog_view.name: create_changelog_view}
