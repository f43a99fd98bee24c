"""The changes of one commit put together: every update in order, with the rules that join them.

Each update is a value that is applied to one version and gives the next, touching no other value: `table_updates.py`, `update_layout.py`,
`snapshot_updates.py`,
`update_statistics.py`; as JSON, `update_json.py`.
What must hold for a change to be right is `requirement.py`; what every version keeps, `invariants.py`; the metadata log, which follows from the commit and not
from a change, `metadata_log.py`. Spec: REST catalog, TableUpdate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icefloe.kernel.metadata.invariants import check_change
from icefloe.kernel.metadata.layout_updates import (
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
from icefloe.kernel.metadata.snapshot_updates import AddSnapshot, RemoveSnapshotRef, RemoveSnapshots, SetSnapshotRef
from icefloe.kernel.metadata.statistics_updates import RemovePartitionStatistics, RemoveStatistics, SetPartitionStatistics, SetStatistics
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.table_updates import (
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
    """Every update of one commit in order, with the rules that join them, and the invariants of the result.

    An id of -1 is the schema, spec or order that the same commit added last; a snapshot that was current only within the commit is not in the snapshot log.
    Snapshots before an upgrade of the format version are held to the rules of the version that they were made in.

    Raises:
        InvalidInputError: an update cannot be applied, or the result would break a rule of the format.
    """
    checked = changed = metadata
    added_ids: dict[type, int | None] = {}
    for update in updates:
        if isinstance(update, UpgradeFormatVersion) and changed.snapshots is not checked.snapshots:
            check_change(checked, changed)
            checked = changed
        changed = _last_added(update, added_ids).apply(changed, now_ms)
        match update:
            case AddSchema():
                added_ids[SetCurrentSchema] = schema_id_of(changed, update.schema)
            case AddPartitionSpec():
                added_ids[SetDefaultSpec] = spec_id_of(changed, update.spec)
            case AddSortOrder():
                added_ids[SetDefaultSortOrder] = sort_order_id_of(changed, update.sort_order)
    passing = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshot)} - {changed.current_snapshot_id}
    if passing:
        changed = replace(changed, snapshot_log=changed.snapshot_log.where(lambda entry: entry.snapshot_id not in passing))
    check_change(checked, changed)
    return changed


def _last_added(update: Update, added_ids: Mapping[type, int | None]) -> Update:
    added = added_ids.get(type(update))
    match update:
        case SetCurrentSchema(schema_id=-1) if added is not None:
            return SetCurrentSchema(added)
        case SetDefaultSpec(spec_id=-1) if added is not None:
            return SetDefaultSpec(added)
        case SetDefaultSortOrder(sort_order_id=-1) if added is not None:
            return SetDefaultSortOrder(added)
    return update
