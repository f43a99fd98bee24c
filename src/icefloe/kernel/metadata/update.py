"""Changes of a table's metadata as values: each applied to one version gives the next, touching no other value.

What must hold for a change to be right is `requirement.py`; what every version keeps, `invariants.py`; the metadata log, which follows from the commit and not
from a change, `metadata_log.py`. Floor: kernel.metadata. Spec: REST catalog, TableUpdate (names and meaning); Table Metadata Fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.metadata import properties as table_properties
from icefloe.kernel.metadata.history import SnapshotLogEntry
from icefloe.kernel.metadata.invariants import CLOCK_TOLERANCE_MS, check_change
from icefloe.kernel.metadata.new_table import check_version
from icefloe.kernel.metadata.raw_entries import RawEntries
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import PartitionSpec, check_spec
from icefloe.kernel.partitioning.sort_order import FIRST_ORDER_ID, SortOrder, check_sort_order
from icefloe.kernel.partitioning.spec_evolution import numbered_spec
from icefloe.kernel.schema.schema import Schema

# In the updates that choose a current schema, spec or order: the one last added by the same commit. Spec: REST catalog.
LAST_ADDED = -1
ROW_LINEAGE_VERSION = 3  # from this format version on, rows have ids. Spec: Row Lineage


@dataclass(frozen=True, slots=True)
class AssignUUID:
    """Gives a table its identity."""

    uuid: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where the table has another uuid."""
        if metadata.table_uuid not in (None, self.uuid):
            raise InvalidInputError(f"the table's uuid is {metadata.table_uuid} and cannot become {self.uuid}")
        return _at(metadata, now_ms, table_uuid=self.uuid)


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion:
    """Raises the format version; the same version is no change."""

    format_version: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` for a lower version, `UnsupportedFormatVersionError` for one that cannot be written."""
        check_version(self.format_version)
        if self.format_version < metadata.format_version:
            raise InvalidInputError(f"a table of format version {metadata.format_version} cannot go back to version {self.format_version}")
        changed = _at(metadata, now_ms, format_version=self.format_version)
        if metadata.format_version < ROW_LINEAGE_VERSION <= self.format_version:
            # No row has an id yet, whatever a key of that name may have meant to an earlier writer. Spec: Row Lineage for Upgraded Tables.
            unknown = {key: raw for key, raw in metadata.unknown.items() if key != "next-row-id"}
            return replace(changed, next_row_id=0, unknown=unknown)
        return changed


@dataclass(frozen=True, slots=True)
class AddSchema:
    """Adds a schema under the next free id. One equal to a known schema is not added again (`schema_id_of` says which it is)."""

    schema: Schema

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        last_column_id = max(metadata.last_column_id, self.schema.highest_field_id)
        if schema_id_of(metadata, self.schema) is not None:
            return _at(metadata, now_ms, last_column_id=last_column_id)
        schema_id = max(metadata.schemas.ids(), default=-1) + 1
        added = Schema(*self.schema.fields, schema_id=schema_id, identifier_field_ids=self.schema.identifier_field_ids)
        return _at(metadata, now_ms, schemas=metadata.schemas.appended(added), last_column_id=last_column_id)


@dataclass(frozen=True, slots=True)
class SetCurrentSchema:
    """Makes a known schema the current one."""

    schema_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none, or the default spec or sort order names a column that it lacks."""
        schema = metadata.schemas.get(self.schema_id)
        if schema is None:
            raise _unknown("schema", self.schema_id)
        check_spec(metadata.spec(), schema)
        check_sort_order(metadata.sort_order(), schema)
        return _at(metadata, now_ms, current_schema_id=self.schema_id)


@dataclass(frozen=True, slots=True)
class AddPartitionSpec:
    """Adds a spec under the next free id, its fields under the ids known for them or fresh ones. An equivalent known spec is kept instead."""

    spec: PartitionSpec

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidPartitionSpecError` where it does not fit the current schema, or v1 could not read it."""
        if spec_id_of(metadata, self.spec) is not None:
            return _at(metadata, now_ms)
        check_spec(self.spec, metadata.schema())
        numbered = numbered_spec(self.spec, metadata.partition_specs, metadata.last_partition_id, format_version=metadata.format_version)
        added = PartitionSpec(*numbered.fields, spec_id=max(metadata.partition_specs.ids(), default=-1) + 1)
        last = max(metadata.last_partition_id, added.last_assigned_field_id)
        return _at(metadata, now_ms, partition_specs=metadata.partition_specs.appended(added), last_partition_id=last)


@dataclass(frozen=True, slots=True)
class SetDefaultSpec:
    """Makes a known spec the one that new data is written with."""

    spec_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none or it does not fit the current schema."""
        spec = metadata.partition_specs.get(self.spec_id)
        if spec is None:
            raise _unknown("partition spec", self.spec_id)
        check_spec(spec, metadata.schema())
        return _at(metadata, now_ms, default_spec_id=self.spec_id)


@dataclass(frozen=True, slots=True)
class AddSortOrder:
    """Adds a sort order under the next free id; an equal known one is kept instead."""

    sort_order: SortOrder

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where it does not fit the current schema."""
        if sort_order_id_of(metadata, self.sort_order) is not None:
            return _at(metadata, now_ms)
        # 0 is the order without fields, and only that one. Spec: Sorting.
        order_id = max((*metadata.sort_orders.ids(), FIRST_ORDER_ID - 1)) + 1 if self.sort_order.fields else FIRST_ORDER_ID - 1
        added = SortOrder(*self.sort_order.fields, order_id=order_id)
        check_sort_order(added, metadata.schema())
        return _at(metadata, now_ms, sort_orders=metadata.sort_orders.appended(added))


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder:
    """Makes a known sort order the default."""

    sort_order_id: int

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where there is none or it does not fit the current schema."""
        order = metadata.sort_orders.get(self.sort_order_id)
        if order is None:
            raise _unknown("sort order", self.sort_order_id)
        check_sort_order(order, metadata.schema())
        return _at(metadata, now_ms, default_sort_order_id=self.sort_order_id)


@dataclass(frozen=True, slots=True)
class AddSnapshot:
    """Adds a snapshot that no branch or tag names yet. From v3 on the row ids it gives are the table's next ones, whatever branch it is for."""

    snapshot: Snapshot

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where its id is taken, its sequence number or its row ids were given before, or its time is before the table's."""
        _check_new_snapshot(metadata, self.snapshot, now_ms)
        return replace(
            metadata,
            snapshots=metadata.snapshots.appended(self.snapshot),
            last_sequence_number=max(metadata.last_sequence_number, self.snapshot.sequence_number),
            last_updated_ms=max(metadata.last_updated_ms, self.snapshot.timestamp_ms),
            next_row_id=_next_row_id(metadata, self.snapshot),
        )


@dataclass(frozen=True, slots=True)
class SetSnapshotRef:
    """Makes a branch or tag, or moves it. For `main` the snapshot becomes the table's current one, which the snapshot log notes."""

    name: str
    ref: SnapshotRef

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `NoSuchSnapshotError` where the snapshot is not in the table, `InvalidInputError` where a tag would become a branch or the reverse."""
        if metadata.snapshots.position(self.ref.snapshot_id) is None:
            raise NoSuchSnapshotError(
                f"{self.name} cannot name snapshot {self.ref.snapshot_id}: it is not in the table", snapshot_id=self.ref.snapshot_id
            )
        known = metadata.refs.get(self.name)
        if known == self.ref:
            return metadata
        if (known is not None and known.type != self.ref.type) or (self.name == MAIN and not self.ref.is_branch):
            raise InvalidInputError(
                f"{self.name} is a branch and cannot be a tag" if known is None or known.is_branch else f"{self.name} is a tag"
            )
        changed = _at(metadata, now_ms, refs={**metadata.refs, self.name: self.ref})
        if self.name != MAIN or metadata.current_snapshot_id == self.ref.snapshot_id:
            return changed
        entry = SnapshotLogEntry(changed.last_updated_ms, self.ref.snapshot_id)
        return replace(changed, current_snapshot_id=self.ref.snapshot_id, snapshot_log=metadata.snapshot_log.appended(entry))


@dataclass(frozen=True, slots=True)
class RemoveSnapshots:
    """Removes snapshots, their statistics files, and the part of the snapshot log before them. Ids that are not there are no error."""

    snapshot_ids: tuple[int, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidInputError` where a branch or tag names one of them: what it names must stay readable."""
        gone = frozenset(self.snapshot_ids)
        named = [f"{name} ({ref.snapshot_id})" for name, ref in metadata.refs.items() if ref.snapshot_id in gone]
        if named:
            raise InvalidInputError(
                f"snapshots that branches or tags name cannot be removed: {', '.join(named)}", next_step="remove or move those names first"
            )
        snapshots = metadata.snapshots.without(gone)
        return _at(
            metadata,
            now_ms,
            snapshots=snapshots,
            snapshot_log=_log_after_removal(metadata, snapshots),
            statistics=metadata.statistics.without(gone),
            partition_statistics=metadata.partition_statistics.without(gone),
        )


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef:
    """Removes a branch or tag; without `main` the table has no current snapshot. A name that is not there is no error."""

    name: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        if self.name not in metadata.refs:
            return metadata
        changed = _at(metadata, now_ms, refs={name: ref for name, ref in metadata.refs.items() if name != self.name})
        if self.name != MAIN:
            return changed
        # The log tells which snapshots were current up to now, and now none is. JAVA: TableMetadata.Builder.removeRef.
        return replace(changed, current_snapshot_id=None, snapshot_log=metadata.snapshot_log.without_first(len(metadata.snapshot_log)))


@dataclass(frozen=True, slots=True)
class SetLocation:
    """Moves where new files of the table go."""

    location: str

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        return _at(metadata, now_ms, location=self.location.rstrip("/"))


@dataclass(frozen=True, slots=True)
class SetProperties:
    """Sets table properties; others stay."""

    updates: Mapping[str, str]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        """Raises `InvalidPropertyError` where a property that Icefloe acts on is not what it may be."""
        table_properties.check_properties(self.updates)
        return _at(metadata, now_ms, properties={**metadata.properties, **self.updates})


@dataclass(frozen=True, slots=True)
class RemoveProperties:
    """Removes table properties; names that are not there are no error."""

    removals: tuple[str, ...]

    def apply(self, metadata: TableMetadata, now_ms: int) -> TableMetadata:
        return _at(metadata, now_ms, properties={name: text for name, text in metadata.properties.items() if name not in self.removals})


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
)


def apply_updates(metadata: TableMetadata, updates: Sequence[Update], now_ms: int) -> TableMetadata:
    """Every update of one commit in order, with the rules that join them, and the invariants of the result.

    An id of -1 is the schema, spec or order that the same commit added last; a snapshot that was current only within the commit is not in the snapshot log.

    Raises:
        InvalidInputError: an update cannot be applied, or the result would break a rule of the format.
    """
    changed = metadata
    added_ids: dict[type, int | None] = {}
    for update in updates:
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
    check_change(metadata, changed)
    return changed


def schema_id_of(metadata: TableMetadata, schema: Schema) -> int | None:
    """The id of the table's schema with the same columns and identifier fields, or None."""
    same = (known for known in metadata.schemas if known.fields == schema.fields)
    return next((known.schema_id for known in same if set(known.identifier_field_ids) == set(schema.identifier_field_ids)), None)


def spec_id_of(metadata: TableMetadata, spec: PartitionSpec) -> int | None:
    """The id of the table's spec that partitions the same way, or None."""
    return next((known.spec_id for known in metadata.partition_specs if known.is_equivalent(spec)), None)


def sort_order_id_of(metadata: TableMetadata, order: SortOrder) -> int | None:
    """The id of the table's sort order with the same fields, or None."""
    return next((known.order_id for known in metadata.sort_orders if known.fields == order.fields), None)


def _at(metadata: TableMetadata, now_ms: int, **changes: object) -> TableMetadata:
    # A writer whose clock is behind must not make the table older than it was.
    return replace(metadata, last_updated_ms=max(now_ms, metadata.last_updated_ms), **changes)  # type: ignore[arg-type]


def _unknown(what: str, wanted: int) -> InvalidInputError:
    if wanted == LAST_ADDED:
        return InvalidInputError(f"{LAST_ADDED} is the {what} last added by the same commit, and this one added none")
    return InvalidInputError(f"the table has no {what} {wanted}")


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


def _check_new_snapshot(metadata: TableMetadata, snapshot: Snapshot, now_ms: int) -> None:
    if metadata.snapshots.position(snapshot.snapshot_id) is not None:
        raise InvalidInputError(f"the table already has a snapshot {snapshot.snapshot_id}", snapshot_id=snapshot.snapshot_id)
    if metadata.format_version == 1 and snapshot.sequence_number:
        raise InvalidInputError(f"a snapshot of format version 1 has no sequence number, and this one has {snapshot.sequence_number}")
    if metadata.format_version > 1 and snapshot.sequence_number <= metadata.last_sequence_number:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and {metadata.last_sequence_number} "
            "is already given: it was made for an older version of the table"
        )
    if metadata.format_version > 1 and snapshot.manifest_list is None:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has no manifest list, which format version {metadata.format_version} requires"
        )
    _check_row_ids(metadata, snapshot)
    if snapshot.timestamp_ms < metadata.last_updated_ms - CLOCK_TOLERANCE_MS:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} is of {snapshot.timestamp_ms} ms, more than a minute before the table's last change "
            f"at {metadata.last_updated_ms} ms",
            next_step="set this machine's clock",
        )
    if snapshot.timestamp_ms > now_ms + CLOCK_TOLERANCE_MS and snapshot.timestamp_ms > metadata.last_updated_ms:
        raise InvalidInputError(f"snapshot {snapshot.snapshot_id} is of {snapshot.timestamp_ms} ms, and now is {now_ms} ms")


def _check_row_ids(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Spec: Snapshot Row IDs."""
    if metadata.format_version < ROW_LINEAGE_VERSION:
        if snapshot.first_row_id is not None:
            raise InvalidInputError(
                f"snapshot {snapshot.snapshot_id} gives row ids, which format version {metadata.format_version} has not"
            )
        return
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} has no first-row-id or no added-rows; format version {metadata.format_version} requires both"
        )
    if snapshot.added_rows < 0:
        raise InvalidInputError(f"snapshot {snapshot.snapshot_id} adds {snapshot.added_rows} rows")
    if snapshot.first_row_id < metadata.next_row_id:
        raise InvalidInputError(
            f"snapshot {snapshot.snapshot_id} gives row ids from {snapshot.first_row_id} on, and those below {metadata.next_row_id} "
            "are already given: it was made for an older version of the table"
        )


def _next_row_id(metadata: TableMetadata, snapshot: Snapshot) -> int:
    """The first row id that is free after the snapshot. It counts from the snapshot's own first id: JAVA adds its rows to the table's counter, which is the
    same where the two are equal, and would give ids twice where the snapshot began later.
    """
    if snapshot.first_row_id is None or snapshot.added_rows is None:
        return metadata.next_row_id
    return max(metadata.next_row_id, snapshot.first_row_id + snapshot.added_rows)


def _log_after_removal(metadata: TableMetadata, snapshots: RawEntries[Snapshot]) -> RawEntries[SnapshotLogEntry]:
    """The log from after its last entry of a snapshot that is gone: time travel must not pass over a hole. Spec: Table Metadata Fields."""
    for position in range(len(metadata.snapshot_log) - 1, -1, -1):
        if snapshots.position(metadata.snapshot_log[position].snapshot_id) is None:
            return metadata.snapshot_log.without_first(position + 1)
    return metadata.snapshot_log
