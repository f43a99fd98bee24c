"""`TableMetadata`: the whole content of a table's metadata file, as one immutable value.

`metadata_reader.py` parses its JSON, `metadata_writer.py` writes it, `metadata_updates.py` changes it, `invariants.py` has its rules, and `new_table.py`
creates that of a new table. A snapshot contains only the location of its manifest list, which is read elsewhere. Spec: Table Metadata Fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from icefloe.errors import MetadataFormatError
from icefloe.spec.metadata.encrypted_key import ENCRYPTION_KEYS, EncryptedKey
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.raw_entries import EntryKind, RawEntries
from icefloe.spec.metadata.snapshot import SNAPSHOTS, Snapshot
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.statistics_file import PARTITION_STATISTICS, STATISTICS, PartitionStatisticsFile, StatisticsFile
from icefloe.spec.metadata.table_history import METADATA_LOG, SNAPSHOT_LOG, MetadataLogEntry, SnapshotLogEntry
from icefloe.spec.partitioning.partition_spec import PartitionSpec
from icefloe.spec.partitioning.sort_order import SortOrder
from icefloe.spec.schema.json_shape import MAX_LONG
from icefloe.spec.schema.schema import Schema

T = TypeVar("T")

ROW_LINEAGE_VERSION = 3  # the format version from which on rows have row ids. Spec: Row Lineage

# The kind of each list of `TableMetadata`, by the name of the field.
LISTS: dict[str, EntryKind[Any]] = {
    "schemas": SCHEMAS,
    "partition_specs": PARTITION_SPECS,
    "sort_orders": SORT_ORDERS,
    "snapshots": SNAPSHOTS,
    "snapshot_log": SNAPSHOT_LOG,
    "metadata_log": METADATA_LOG,
    "statistics": STATISTICS,
    "partition_statistics": PARTITION_STATISTICS,
    "encryption_keys": ENCRYPTION_KEYS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The metadata of one version of a table. Times are in milliseconds since 1970-01-01 UTC; ids are unique within their list.

    Lists are `RawEntries`. The constructor converts plain sequences. Entries of lists that were read from a file are decoded at first use (`raw_entries.py`),
    which raises `MetadataFormatError` if an entry is invalid.
    """

    format_version: int
    table_uuid: str | None  # None only in a version 1 table whose writer did not assign a uuid
    location: str
    last_sequence_number: int  # the highest sequence number assigned so far; 0 in version 1
    last_updated_ms: int
    last_column_id: int
    schemas: RawEntries[Schema]
    current_schema_id: int
    partition_specs: RawEntries[PartitionSpec]
    default_spec_id: int
    last_partition_id: int
    sort_orders: RawEntries[SortOrder]
    default_sort_order_id: int
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: RawEntries[Snapshot] = field(default_factory=lambda: RawEntries(SNAPSHOTS, ()))
    snapshot_log: RawEntries[SnapshotLogEntry] = field(default_factory=lambda: RawEntries(SNAPSHOT_LOG, ()))
    metadata_log: RawEntries[MetadataLogEntry] = field(default_factory=lambda: RawEntries(METADATA_LOG, ()))
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    statistics: RawEntries[StatisticsFile] = field(default_factory=lambda: RawEntries(STATISTICS, ()))
    partition_statistics: RawEntries[PartitionStatisticsFile] = field(default_factory=lambda: RawEntries(PARTITION_STATISTICS, ()))
    next_row_id: int = 0  # the next row id to assign; 0 before version 3
    encryption_keys: RawEntries[EncryptedKey] = field(default_factory=lambda: RawEntries(ENCRYPTION_KEYS, ()))
    unknown: Mapping[str, msgspec.Raw] = field(default_factory=dict)  # unknown top-level keys, kept for the next writer

    def __post_init__(self) -> None:
        for name, kind in LISTS.items():
            entries = getattr(self, name)
            if not isinstance(entries, RawEntries):
                object.__setattr__(self, name, RawEntries.of(kind, entries))

    def for_caller(self) -> "TableMetadata":
        """Return a copy that shares no mutable values with this metadata: dictionaries of properties and references, and decoded entries of lists."""
        return replace(
            self,
            properties=dict(self.properties),
            refs=dict(self.refs),
            snapshots=self.snapshots.fresh(),
            statistics=self.statistics.fresh(),
            encryption_keys=self.encryption_keys.fresh(),
        )

    def schema(self) -> Schema:
        """Return the current schema."""
        return self.schema_by_id(self.current_schema_id)

    def spec(self) -> PartitionSpec:
        """Return the default partition spec, which new data is written with."""
        return self.spec_by_id(self.default_spec_id)

    def sort_order(self) -> SortOrder:
        """Return the default sort order."""
        return _require(self.sort_orders.get(self.default_sort_order_id), "sort order", self.default_sort_order_id)

    def schema_by_id(self, schema_id: int) -> Schema:
        """Return the schema of this id.

        Raises:
            MetadataFormatError: the table has no such schema.
        """
        return _require(self.schemas.get(schema_id), "schema", schema_id)

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """Return the partition spec of this id.

        Raises:
            MetadataFormatError: the table has no such partition spec.
        """
        return _require(self.partition_specs.get(spec_id), "partition spec", spec_id)

    def specs(self) -> dict[int, PartitionSpec]:
        """Return every partition spec by its id."""
        return {spec.spec_id: spec for spec in self.partition_specs}

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot with this id; None if it never existed or has expired."""
        return self.snapshots.get(snapshot_id)

    def snapshot_by_name(self, name: str) -> Snapshot | None:
        """Return the snapshot that a branch or tag refers to; None if there is no such branch or tag."""
        ref = self.refs.get(name)
        return None if ref is None else self.snapshots.get(ref.snapshot_id)

    def current_snapshot(self) -> Snapshot | None:
        """Return the current snapshot, the head of `main`; None if the table has none."""
        return None if self.current_snapshot_id is None else self.snapshots.get(self.current_snapshot_id)

    def encryption_key(self, key_id: str) -> EncryptedKey | None:
        """Return the encryption key of this id, or None."""
        return next((key for key in self.encryption_keys if key.key_id == key_id), None)

    def with_changes(self, now_ms: int, **changes: object) -> "TableMetadata":
        """Return the metadata with changed fields and the time `now_ms` as `last_updated_ms`, which never decreases, even if the writer's clock is behind."""
        return replace(self, last_updated_ms=max(now_ms, self.last_updated_ms), **changes)  # type: ignore[arg-type]

    @property
    def next_sequence_number(self) -> int:
        """Return the sequence number of the next snapshot; 0 in version 1, which has no sequence numbers.

        Raises:
            MetadataFormatError: The last sequence number is the greatest 64-bit number, so that no snapshot can be added.

        Spec: Sequence Numbers.
        """
        if self.last_sequence_number >= MAX_LONG:
            raise MetadataFormatError(
                f"the table's last-sequence-number is {self.last_sequence_number}, the highest of 64 bits: no snapshot can have a higher one",
                next_step="no writer of Iceberg counts so far: restore an earlier metadata file, or copy the rows to a new table",
            )
        return self.last_sequence_number + 1 if self.format_version > 1 else 0


def _require(entry: T | None, kind: str, entry_id: int) -> T:
    if entry is None:
        raise MetadataFormatError(f"the table's metadata has no {kind} {entry_id}")
    return entry
