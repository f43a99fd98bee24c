"""Snapshots under the module name of PyIceberg: `from icefloe.table.snapshots import Operation`."""

from icefloe.kernel.metadata.snapshot import (
    Operation,
    Snapshot,
    Summary,
)
from icefloe.kernel.metadata.table_history import (
    MetadataLogEntry,
    SnapshotLogEntry,
)

__all__ = ["MetadataLogEntry", "Operation", "Snapshot", "SnapshotLogEntry", "Summary"]
