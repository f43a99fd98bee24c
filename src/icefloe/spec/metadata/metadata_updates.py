"""Applies the updates of one commit in order, with the rules that relate the updates to each other.

Each update is a value with a method `apply`, which returns the next version of the metadata. Updates are defined in `table_updates.py`, `layout_updates.py`,
`snapshot_updates.py` and `statistics_updates.py`, their JSON in `update_json.py`. `requirement.py` has the preconditions of a commit, `invariants.py` the rules
for every version. The metadata log is not changed by an update, but by every commit. Spec: REST catalog, TableUpdate; Table Metadata Fields (`metadata-log`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.invariants import check_change
from icefloe.spec.metadata.layout_updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemovePartitionSpecs,
    RemoveSchemas,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    schema_id_of,
    sort_order_id_of,
    spec_id_of,
)
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.spec.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_history import MetadataLogEntry
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.table_updates import (
    AddEncryptionKey,
    AssignUUID,
    RemoveEncryptionKey,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)

Update = (
    AssignUUID
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)


def apply_updates(metadata: TableMetadata, updates: Sequence[Update], now_ms: int) -> TableMetadata:
    """Apply every update of one commit in order, and check the invariants of the result.

    The id -1 refers to the schema, spec or sort order that the same commit added last. A snapshot that was current only within the commit is not in the
    snapshot log. A snapshot that the commit adds is current from its own timestamp on, even if the clock of a server differs, so that `TIMESTAMP AS OF` this
    time finds it, as in Java. If a commit upgrades the format version, snapshots that it added before are checked by the rules of the old version.

    Args:
        metadata: The base version.
        updates: The updates, in order.
        now_ms: Time of the commit, in milliseconds since 1970-01-01 UTC.

    Raises:
        InvalidInputError: an update cannot be applied, or the result would violate a rule of the format.
    """
    checked = changed = metadata
    added_ids: dict[type, int | None] = {}
    added_at_ms: dict[int, int] = {}
    for update in updates:
        if isinstance(update, UpgradeFormatVersion) and changed.snapshots is not checked.snapshots:
            check_change(checked, changed)
            checked = changed
        time_ms = added_at_ms.get(update.ref.snapshot_id, now_ms) if isinstance(update, SetSnapshotRef) else now_ms
        changed = _with_added_id(update, added_ids).apply(changed, time_ms)
        match update:
            case AddSnapshot():
                added_at_ms[update.snapshot.snapshot_id] = update.snapshot.timestamp_ms
            case AddSchema():
                added_ids[SetCurrentSchema] = schema_id_of(changed, update.schema)
            case AddPartitionSpec():
                added_ids[SetDefaultSpec] = spec_id_of(changed, update.spec)
            case AddSortOrder():
                added_ids[SetDefaultSortOrder] = sort_order_id_of(changed, update.sort_order)
    transient_ids = added_at_ms.keys() - {changed.current_snapshot_id}
    if transient_ids:
        changed = replace(changed, snapshot_log=changed.snapshot_log.without(transient_ids))
    check_change(checked, changed)
    return changed


def creation_updates(metadata: TableMetadata) -> tuple[Update, ...]:
    """Return the updates that create the first metadata of a table, for a catalog that applies updates itself. Spec: REST catalog, CommitTableRequest.

    Args:
        metadata: The first metadata of the table, without snapshots.
    """
    uuid = () if metadata.table_uuid is None else (AssignUUID(metadata.table_uuid),)
    order = metadata.sort_order()
    return (
        *uuid,
        UpgradeFormatVersion(metadata.format_version),
        AddSchema(metadata.schema(), metadata.last_column_id),
        SetCurrentSchema(LAST_ADDED),
        AddPartitionSpec(metadata.spec()),
        SetDefaultSpec(LAST_ADDED),
        AddSortOrder(order),
        SetDefaultSortOrder(LAST_ADDED),
        SetLocation(metadata.location),
        SetProperties(metadata.properties),
    )


def numbered_updates(updates: Sequence[Update], base: TableMetadata, result: TableMetadata) -> tuple[Update, ...]:
    """Return the updates of a commit with the ids that they assign, for a catalog that applies updates itself. Java's client sends updates in this form.

    Nessie uses the id of a schema, and the last column id, as they are sent. Java's server accepts the id -1 only for objects that the commit really adds. So
    an update that adds a schema, spec or sort order that the table has already is left out, and later updates refer to its id.

    Args:
        updates: The updates, in order.
        base: The metadata before them.
        result: The metadata after them.
    """
    if any(isinstance(update, RemoveSchemas | RemovePartitionSpecs) for update in updates):
        return tuple(updates)
    last_column_id = base.last_column_id
    existing: dict[type, int | None] = {}
    numbered: list[Update] = []
    for update in updates:
        match update:
            case AddSchema(schema, given):
                last_column_id = max(last_column_id, schema.highest_field_id, given or 0)
                existing[SetCurrentSchema] = schema_id_of(base, schema) if last_column_id == base.last_column_id else None
                if existing[SetCurrentSchema] is None:
                    schema_id = schema_id_of(result, schema)
                    added = schema if schema_id is None else result.schemas.get(schema_id) or schema
                    numbered.append(AddSchema(added, last_column_id))
            case AddPartitionSpec(spec):
                existing[SetDefaultSpec] = spec_id_of(base, spec)
                if existing[SetDefaultSpec] is None:
                    spec_id = spec_id_of(result, spec)
                    numbered.append(update if spec_id is None else AddPartitionSpec(result.partition_specs.get(spec_id) or spec))
            case AddSortOrder(order):
                existing[SetDefaultSortOrder] = sort_order_id_of(base, order)
                if existing[SetDefaultSortOrder] is None:
                    order_id = sort_order_id_of(result, order)
                    numbered.append(update if order_id is None else AddSortOrder(result.sort_orders.get(order_id) or order))
            case _:
                numbered.append(_with_added_id(update, existing))
    return tuple(numbered)


def _with_added_id(update: Update, added_ids: Mapping[type, int | None]) -> Update:
    """Return an update that refers to the id -1 with the last added id instead. Any other update is returned unchanged."""
    added_id = added_ids.get(type(update))
    match update:
        case SetCurrentSchema(schema_id=-1) if added_id is not None:
            return SetCurrentSchema(added_id)
        case SetDefaultSpec(spec_id=-1) if added_id is not None:
            return SetDefaultSpec(added_id)
        case SetDefaultSortOrder(sort_order_id=-1) if added_id is not None:
            return SetDefaultSortOrder(added_id)
    return update


def with_metadata_log(metadata: TableMetadata, previous_location: str | None, previous_updated_ms: int) -> TableMetadata:
    """Return the metadata with the replaced metadata file added to its metadata log.

    The log is cut to the newest `write.metadata.previous-versions-max` entries, but at least one.

    Args:
        metadata: The new version.
        previous_location: Location of the replaced metadata file; None for a table's first version, which is returned unchanged.
        previous_updated_ms: `last_updated_ms` of the replaced version.
    """
    if previous_location is None:
        return metadata
    max_entries = max(1, table_properties.METADATA_PREVIOUS_VERSIONS_MAX.read(metadata.properties))
    log = metadata.metadata_log.without_first(len(metadata.metadata_log) + 1 - max_entries)
    return replace(metadata, metadata_log=log.with_entries(MetadataLogEntry(previous_updated_ms, previous_location)))


def dropped_metadata_files(before: TableMetadata, after: TableMetadata) -> tuple[str, ...]:
    """Return the locations of metadata files that are in the log of `before` and not in that of `after`.

    Commits delete these files if `write.metadata.delete-after-commit.enabled` is true.
    """
    remaining_files = {entry.metadata_file for entry in after.metadata_log}
    return tuple(entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in remaining_files)
