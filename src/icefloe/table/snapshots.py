"""Snapshots under the module name of PyIceberg: `from icefloe.table.snapshots import Operation`."""

from icefloe.spec.metadata.snapshot import Operation, Snapshot, Summary
from icefloe.spec.metadata.table_history import MetadataLogEntry, SnapshotLogEntry

__all__ = ["MetadataLogEntry", "Operation", "Snapshot", "SnapshotLogEntry", "Summary"]
