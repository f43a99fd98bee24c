"""Puts manifests together into a new snapshot: its manifest list, its summary, the updates and what they require.


Spec: Snapshots; Manifest Lists; Sequence Numbers; First Row ID Assignment; Snapshot Row IDs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from icefloe.errors import CommitConflictError, Problem
from icefloe.kernel.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.kernel.commit.manifest_merge_manager import ManifestMergeManager, manifest_counts
from icefloe.kernel.commit.staged_snapshot import WAP_ID, check_wap_id_is_new
from icefloe.kernel.manifest.manifest_reader import fill_counts
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.manifest_list.manifest_list_reader import has_required_row_id, read_manifest_summaries
from icefloe.kernel.manifest_list.manifest_list_writer import append_to_manifest_list, write_manifest_list
from icefloe.kernel.manifest_list.row_ids import assign_first_row_ids
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.encryption import refuse_encrypted, refuse_plain_files
from icefloe.kernel.metadata.manifests import read_manifests, spec_schema
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.naming import manifest_list_name
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, AssertTableUUID, Requirement
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.kernel.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.partitioning.partition_spec import partition_path


def parent_snapshot(base: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot a commit to `branch` builds on: its head, or main's for a branch that is to be made; None for the first one.

    Raises:
        UnsupportedFeatureError: that snapshot is encrypted, or the table's new files are to be.
    """
    ref = base.refs.get(branch) or base.refs.get(MAIN)
    found = base.snapshot_by_id(ref.snapshot_id) if ref else None
    refuse_encrypted(found)
    refuse_plain_files(base)
    return found


def path_of_partition(base: TableMetadata) -> Callable[[int, tuple[Any, ...]], str]:
    """The function from a spec id and a partition tuple to the partition's folder."""

    def path(spec_id: int, values: tuple[Any, ...]) -> str:
        return partition_path(base.spec_by_id(spec_id), spec_schema(base, spec_id), values)

    return path


def snapshot_attempt(
    base: TableMetadata,
    context: CommitContext,
    *,
    number: int,
    now_ms: int,
    new_manifests: Sequence[ManifestFile],
    kept: Sequence[ManifestFile] | None,
    summary: Mapping[str, str],
    read: Read,
    manifests: ManifestMergeManager,
    replaced: int = 0,
) -> Attempt:
    """The attempt that adds a snapshot of `written` + `already_written` + `kept` manifests, merged as `manifests` says.

    `kept` None keeps every manifest of the parent, whose list is then carried over without decoding it, where nothing is merged. It may hold manifests that are
    among the written ones, in the places of those they are made of: `replaced` says how many. `number` counts attempts from 0.
    """
    _check_branch(base, context)
    parent = parent_snapshot(base, context.branch)
    in_place = {manifest.manifest_path for manifest in kept or ()}
    new = [manifest for manifest in new_manifests if manifest.manifest_path not in in_place]
    listed = _listed(base, parent, new, kept, read, manifests)
    content, next_row_id = _manifest_list(base, context, parent, listed)
    summary = {**summary, **manifest_counts(listed.manifests, context, kept=listed.carried, replaced=replaced + listed.replaced)}
    location = f"{context.metadata_location}/{manifest_list_name(context.snapshot_id, number, context.commit_uuid)}"
    snapshot = Snapshot(
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=base.next_sequence_number,
        timestamp_ms=max(now_ms, base.last_updated_ms),
        manifest_list=location,
        summary=summary,
        schema_id=base.current_schema_id,
    )
    if next_row_id is not None:
        snapshot = replace(snapshot, first_row_id=base.next_row_id, added_rows=next_row_id - base.next_row_id)
    ref = base.refs.get(context.branch)
    updates: tuple[Update, ...] = (AddSnapshot(snapshot),)
    requirements: tuple[Requirement, ...] = (AssertTableUUID(base.table_uuid),)
    if not context.stage_only:
        updates = (*updates, SetSnapshotRef(context.branch, _moved(ref, context.snapshot_id)))
        requirements = (*requirements, AssertRefSnapshotId(context.branch, ref.snapshot_id if ref else None))
    own = manifests.own(listed.manifests)
    return Attempt(
        snapshot_id=context.snapshot_id,
        summary=summary,
        manifests=own,
        manifest_files=manifests.new_files(own),
        manifest_lists=(NewFile(location=location, content=content),),
        updates=updates,
        requirements=requirements,
    )


def _check_branch(base: TableMetadata, context: CommitContext) -> None:
    """Another writer may have removed the branch since the commit was begun, or given its name to a tag; or taken the wap id."""
    ref = base.refs.get(context.branch)
    if (ref is None and context.branch != MAIN and not context.makes_branch) or (ref is not None and not ref.is_branch):
        raise CommitConflictError(
            f"the branch {context.branch!r} was to be there, and is {'gone' if ref is None else 'a tag'}: another writer removed it",
            snapshot_id=None if ref is None else ref.snapshot_id,
            problems=(
                Problem(where="expected", what=f"a branch {context.branch}"),
                Problem(where="found", what="no such branch" if ref is None else f"a tag {context.branch} at snapshot {ref.snapshot_id}"),
            ),
            next_step="a retry will fail again: refresh the table, and write to another branch, or make this one again",
        )
    wap_id = context.snapshot_properties.get(WAP_ID)
    if context.stage_only and wap_id is not None:
        check_wap_id_is_new(base, wap_id)


def _moved(ref: SnapshotRef | None, snapshot_id: int) -> SnapshotRef:
    """The branch at another snapshot, with all else as it was."""
    return SnapshotRef(snapshot_id=snapshot_id) if ref is None else replace(ref, snapshot_id=snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    """What a manifest list is made of: its manifests, and the bytes and path of an older list whose `carried` manifests follow them as they are."""

    manifests: Sequence[ManifestFile]
    replaced: int = 0
    old_list: tuple[bytes, str] | None = None
    carried: int = 0


def _listed(
    base: TableMetadata,
    parent: Snapshot | None,
    new: Sequence[ManifestFile],
    kept: Sequence[ManifestFile] | None,
    read: Read,
    manifests: ManifestMergeManager,
) -> _Listed:
    if kept is None and parent is not None:
        carried = _carried_over(base, parent, new, read, manifests)
        if carried is not None:
            return carried
    old = kept if kept is not None else read_manifests(parent, read) if parent else ()
    merged = manifests.merged(base, [*new, *old], read)
    return _Listed(manifests=[_counted(manifest, base.format_version, read) for manifest in merged.manifests], replaced=merged.replaced)


def _carried_over(
    base: TableMetadata, parent: Snapshot, new: Sequence[ManifestFile], read: Read, manifests: ManifestMergeManager
) -> _Listed | None:
    """The new manifests before the parent's own list; None where each of its manifests must be looked at.

    A list from before an upgrade may lack the counts that v2 requires, and has no row ids, which v3 gives to every data manifest.
    """
    if parent.manifest_list is None or (base.format_version > 1 and parent.sequence_number == 0):
        return None
    if base.format_version > 2 and parent.first_row_id is None:
        return None
    content = read(parent.manifest_list)
    lines = read_manifest_summaries(content, parent.manifest_list)
    if base.format_version > 2 and not all(map(has_required_row_id, lines)):
        return None
    if not manifests.leaves(base, new, lines):
        return None
    return _Listed(manifests=new, old_list=(content, parent.manifest_list), carried=len(lines))


def _manifest_list(base: TableMetadata, context: CommitContext, parent: Snapshot | None, listed: _Listed) -> tuple[bytes, int | None]:
    """The bytes of the manifest list, and the next row id after it, which is None before v3."""
    assigns_row_ids = base.format_version > 2
    manifests, next_row_id = listed.manifests, None
    if assigns_row_ids:
        manifests, next_row_id = assign_first_row_ids(manifests, base.next_row_id)
    commit = _ListHeader(
        format_version=base.format_version,
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=base.next_sequence_number,
        first_row_id=base.next_row_id if assigns_row_ids else None,
        codec=table_properties.AVRO_CODEC.read(base.properties),
    )
    if listed.old_list is not None:
        return append_to_manifest_list(*listed.old_list, manifests, **commit), next_row_id
    return write_manifest_list(manifests, **commit), next_row_id


class _ListHeader(TypedDict):
    format_version: int
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None
    codec: str


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
