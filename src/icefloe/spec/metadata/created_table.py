"""The metadata of a table that a commit creates, built from the updates of the commit alone, which a REST catalog receives after a staged create.

The first schema, partition spec and sort order that the updates add get the first ids of their kind. Then every update is applied as for an existing table.
JAVA: TableMetadata.buildFromEmpty. Spec: REST catalog, createTable (`stage-create`), updateTable.
"""

from collections.abc import Sequence

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.invariants import check_change
from icefloe.spec.metadata.layout_updates import AddPartitionSpec, AddSchema, AddSortOrder
from icefloe.spec.metadata.metadata_updates import Update, apply_updates
from icefloe.spec.metadata.new_table import check_version
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.snapshot_updates import AddSnapshot
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import AssignUUID, SetLocation, UpgradeFormatVersion
from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionSpec, check_spec
from icefloe.spec.partitioning.sort_order import SortOrder, check_sort_order
from icefloe.spec.partitioning.spec_evolution import assign_field_ids
from icefloe.spec.schema.schema import Schema, check_unambiguous
from icefloe.spec.schema.version_rules import check_schema_version


def created_table(updates: Sequence[Update], *, table_uuid: str, now_ms: int) -> TableMetadata:
    """Return the metadata of the table that the updates of one commit create.

    Args:
        updates: The updates, of which one adds the schema and one sets the location.
        table_uuid: The UUID of the table if no update assigns one.
        now_ms: Time of the commit, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidInputError: No update adds a schema or sets a location, an update cannot be applied, or the result would violate a rule of the format.
        UnsupportedFormatVersionError: Icefloe does not write the format version.
    """
    versions = [update.format_version for update in updates if isinstance(update, UpgradeFormatVersion)]
    uuids = [update.uuid for update in updates if isinstance(update, AssignUUID)]
    locations = [update.location for update in updates if isinstance(update, SetLocation)]
    if not locations:
        raise InvalidInputError("the updates of a new table set no location", next_step="add the update set-location")
    version = versions[0] if versions else table_properties.FORMAT_VERSION.read({})
    check_version(version)
    schema, last_column_id = _first_schema(updates, version)
    spec = _first_spec(updates, schema)
    order = _first_order(updates, schema)
    # Snapshots of a staged table are older than its commit. The table's creation time must not be later, because no snapshot may be older than the last change.
    made_ms = min([now_ms, *(update.snapshot.timestamp_ms for update in updates if isinstance(update, AddSnapshot))])
    metadata = TableMetadata(
        format_version=version,
        table_uuid=uuids[0] if uuids else table_uuid,
        location=locations[0].rstrip("/"),
        last_sequence_number=0,
        last_updated_ms=made_ms,
        last_column_id=last_column_id,
        schemas=RawEntries.of(SCHEMAS, (schema,)),
        current_schema_id=schema.schema_id,
        partition_specs=RawEntries.of(PARTITION_SPECS, (spec,)),
        default_spec_id=spec.spec_id,
        last_partition_id=spec.last_assigned_field_id,
        sort_orders=RawEntries.of(SORT_ORDERS, (order,)),
        default_sort_order_id=order.order_id,
    )
    check_change(None, metadata)
    return apply_updates(metadata, updates, now_ms)


def _first_schema(updates: Sequence[Update], format_version: int) -> tuple[Schema, int]:
    """Return the first schema that the updates add, with the schema id 0, and the last column id of the table."""
    first = next((update for update in updates if isinstance(update, AddSchema)), None)
    if first is None:
        raise InvalidInputError("the updates of a new table add no schema", next_step="add the updates add-schema and set-current-schema")
    check_schema_version(first.schema, format_version)
    check_unambiguous(first.schema)
    schema = Schema(*first.schema.fields, schema_id=0, identifier_field_ids=first.schema.identifier_field_ids)
    return schema, schema.highest_field_id if first.last_column_id is None else first.last_column_id


def _first_spec(updates: Sequence[Update], schema: Schema) -> PartitionSpec:
    """Return the first partition spec that the updates add, with the spec id 0; the unpartitioned spec if they add none."""
    first = next((update.spec for update in updates if isinstance(update, AddPartitionSpec)), PartitionSpec())
    spec = PartitionSpec(*assign_field_ids(first, (), FIRST_PARTITION_FIELD_ID - 1).fields, spec_id=0)
    check_spec(spec, schema, is_new=True)
    return spec


def _first_order(updates: Sequence[Update], schema: Schema) -> SortOrder:
    """Return the first sort order that the updates add, with the id 1, or with 0 if it has no fields; the unsorted order if they add none."""
    first = next((update.sort_order for update in updates if isinstance(update, AddSortOrder)), SortOrder())
    order = SortOrder(*first.fields)
    check_sort_order(order, schema)
    return order
