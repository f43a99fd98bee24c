"""Branches and tags under the module name of PyIceberg: `from icefloe.table.refs import SnapshotRef`."""

from icefloe.spec.metadata.snapshot_ref import MAIN as MAIN_BRANCH
from icefloe.spec.metadata.snapshot_ref import SnapshotRef, SnapshotRefType

__all__ = ["MAIN_BRANCH", "SnapshotRef", "SnapshotRefType"]
