"""Puts manifests together into a new snapshot: its manifest list, its summary, the updates and what they require.

Floor: kernel.commit. Spec: Snapshots; Manifest Lists; Sequence Numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from icefloe.kernel.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.kernel.manifest.read import fill_counts
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.manifest_list.write import append_to_manifest_list, write_manifest_list
from icefloe.kernel.metadata import properties
from icefloe.kernel.metadata.manifests import read_manifests
from icefloe.kernel.metadata.naming import manifest_list_name
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import SnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update_snapshots import AddSnapshot, SetSnapshotRef


def parent_snapshot(base: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot a commit to `branch` builds on; None for the first one."""
    ref = base.refs.get(branch)
    return base.snapshot_by_id(ref.snapshot_id) if ref else None


def snapshot_attempt(
    base: TableMetadata,
    context: CommitContext,
    *,
    number: int,
    now_ms: int,
    written: Sequence[tuple[NewFile, ManifestFile]],
    already_written: Sequence[ManifestFile],
    kept: Sequence[ManifestFile] | None,
    summary: Mapping[str, str],
    read: Read,
) -> Attempt:
    """The attempt that adds a snapshot of `written` + `already_written` + `kept` manifests.

    `kept` None keeps every manifest of the parent, whose list is then carried over without decoding it. `number` counts attempts from 0.
    """
    parent = parent_snapshot(base, context.branch)
    parent_id = parent.snapshot_id if parent else None
    new_manifests = (*already_written, *(manifest for _, manifest in written))
    write: Callable[..., bytes] = write_manifest_list
    listed: Sequence[ManifestFile] = new_manifests
    if kept is None and parent is not None and parent.manifest_list is not None and not _is_from_v1(base, parent):
        write = partial(append_to_manifest_list, read(parent.manifest_list), parent.manifest_list)
    else:
        old = kept if kept is not None else read_manifests(parent, read) if parent else ()
        listed = (*new_manifests, *(_counted(manifest, base.format_version, read) for manifest in old))
    content = write(
        listed,
        format_version=base.format_version,
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=base.next_sequence_number,
        codec=properties.AVRO_CODEC.read(base.properties),
    )
    location = f"{context.metadata_location}/{manifest_list_name(context.snapshot_id, number, context.commit_uuid)}"
    snapshot = Snapshot(
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent_id,
        sequence_number=base.next_sequence_number,
        timestamp_ms=max(now_ms, base.last_updated_ms),
        manifest_list=location,
        summary=summary,
        schema_id=base.current_schema_id,
    )
    ref = base.refs.get(context.branch)
    new_ref = SnapshotRef(
        snapshot_id=context.snapshot_id,
        type="branch",
        min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
        max_ref_age_ms=ref.max_ref_age_ms if ref else None,
    )
    return Attempt(
        snapshot_id=context.snapshot_id,
        summary=summary,
        manifests=new_manifests,
        manifest_files=tuple(file for file, _ in written),
        manifest_list=NewFile(location=location, content=content),
        updates=(AddSnapshot(snapshot), SetSnapshotRef(context.branch, new_ref)),
        requirements=(AssertTableUUID(base.table_uuid), AssertRefSnapshotId(context.branch, ref.snapshot_id if ref else None)),
    )


def _is_from_v1(base: TableMetadata, snapshot: Snapshot) -> bool:
    """Whether a v2 table's snapshot was made before its upgrade, so that its list may lack what v2 requires."""
    return base.format_version > 1 and snapshot.sequence_number == 0


def _counted(manifest: ManifestFile, format_version: int, read: Read) -> ManifestFile:
    """The manifest with the counts that v2 requires and a v1 list may lack."""
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    return fill_counts(read(manifest.manifest_path), manifest) if format_version > 1 and None in counts else manifest
