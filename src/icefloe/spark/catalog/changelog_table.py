"""`ChangelogTable`: the metadata table `changes` in SQL, over a range of snapshots; and the procedure `create_changelog_view`, which creates a view of it.

`icefloe.metadata_tables.changes` defines and computes the rows. Spec: Snapshots.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pyspark.sql import SparkSession

from icefloe.catalog.catalog import Catalog
from icefloe.errors import InvalidInputError, UnsupportedFeatureError
from icefloe.metadata_tables.changes import changes
from icefloe.metadata_tables.schemas import changes_metadata_columns, changes_schema
from icefloe.operations.loaded_table import TableReader
from icefloe.procedures.procedure import Flag, Procedure, Rows, Text, Texts, procedure
from icefloe.spark.catalog.spark_metadata_table import MetadataTableScan, SparkMetadataTable, frame_of
from icefloe.spark.scan.read_options import PushedQuery
from icefloe.spark.scan.spark_scan import metadata_columns
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, with_options
from icefloe.spec.metadata.table_history import ancestors
from icefloe.spec.schema.arrow_schema import schema_to_arrow
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

    def _rows(self) -> Any:
        snapshot_range = changes_range(self._selected.table, self._query["options"], self._snapshot_id())
        return _rows(self._selected.table, snapshot_range, columns=self._columns or ["_change_ordinal"])


def changes_range(table: TableReader, options: Mapping[str, str], end: int | None = None) -> tuple[int | None, int | None] | None:
    """Determine the range of snapshots from read options.

    Args:
        table: the table.
        options: read options: `start-snapshot-id` or `start-timestamp`, exclusive; `end-snapshot-id` or `end-timestamp`, inclusive. Timestamps are
            milliseconds since 1970-01-01 UTC.
        end: id of the snapshot in the table's name; None if the name has no snapshot.

    Returns:
        The ids of the snapshots before the first change and of the last change; None if no snapshot is in the range.

    Raises:
        InvalidInputError: a value is not a number, the start or the end is set twice, or the start is not before the end.
    """
    ends = {key.lower(): _number(key, value) for key, value in options.items() if key.lower() in RANGE_OPTIONS}
    end_in_name = [] if end is None else ["a snapshot, branch or tag of the table"]
    for names in (["start-snapshot-id", "start-timestamp"], ["end-snapshot-id", "end-timestamp"]):
        alternatives = [name for name in names if name in ends] + (end_in_name if names[0].startswith("end") else [])
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
    last_id = ends.get("end-snapshot-id", table.metadata.current_snapshot_id if end is None else end)
    history = [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in ancestors(table.metadata, last_id)]
    if end_ms is not None:
        history = [(snapshot_id, time_ms) for snapshot_id, time_ms in history if time_ms <= end_ms]
        last_id = history[0][0] if history else None
    start_id = ends.get("start-snapshot-id")
    if start_ms is not None:
        start_id = next((snapshot_id for snapshot_id, time_ms in history if time_ms <= start_ms), None)
    return None if last_id is None or start_id == last_id else (start_id, last_id)


def _rows(table: TableReader, snapshot_range: tuple[int | None, int | None] | None, **options: Any) -> Any:
    if snapshot_range is None:
        schema = changes_schema(table.metadata)
        all_columns = Schema(*schema.fields, *changes_metadata_columns(table.metadata))
        return schema_to_arrow(all_columns).empty_table().select(options.get("columns") or schema.names)
    return changes(table, start_snapshot_id=snapshot_range[0], end_snapshot_id=snapshot_range[1], **options)


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
        if net_changes:
            raise UnsupportedFeatureError("net changes over several snapshots are not computed", next_step="leave net_changes out")
        schema = loaded.schema()
        identifier_names = [name for name in map(schema.find_column_name, sorted(schema.identifier_field_ids)) if name is not None]
        columns = list(identifier_columns) if identifier_columns is not None else identifier_names
        updates = compute_updates if compute_updates is not None else identifier_columns is not None
        if updates and not columns:
            raise InvalidInputError(
                f"{loaded.full_name} has no identifier fields, by which updates are found",
                table=loaded.full_name,
                next_step="give identifier_columns, or ALTER TABLE ... SET IDENTIFIER FIELDS",
            )
        rows = _rows(loaded, changes_range(loaded, options or {}), carry_overs=False, identifier_columns=columns if updates else ())
        view = changelog_view or f"`{loaded.name()[-1]}_changes`"
        frame_of(spark, rows, changes_schema(loaded.metadata)).createOrReplaceTempView(view)
        return [(view,)]

    return {create_changelog_view.name: create_changelog_view}
