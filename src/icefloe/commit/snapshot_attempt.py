"""The new snapshot of an attempt: its manifest list, summary, metadata updates and requirements. JAVA: SnapshotProducer.apply, SnapshotSummary.

The actions of this package pass the manifests; `new_manifest.py` merges small ones.
Spec: Snapshots (`summary`); Manifest Lists; Sequence Numbers; First Row ID Assignment; Snapshot Row IDs; Appendix F, Optional Snapshot Summary Fields;
Appendix F, Metrics; Appendix F, Other Fields.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypedDict

from icefloe.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.commit.new_manifest import ManifestMergeManager, manifest_counts
from icefloe.commit.staged_snapshot import WAP_ID, check_wap_id_is_new
from icefloe.errors import CommitConflictError, Problem
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.manifest.manifest_reader import fill_counts
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestFile
from icefloe.spec.manifest_list.manifest_list_reader import has_required_row_id, read_manifest_summaries
from icefloe.spec.manifest_list.manifest_list_writer import append_to_manifest_list, assign_first_row_ids, can_append, write_manifest_list
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.encryption import refuse_encrypted, refuse_plain_files
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.naming import manifest_list_name
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, AssertTableUUID, Requirement
from icefloe.spec.metadata.snapshot import Snapshot, Summary, count_of
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_schema
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import partition_path

# For each total: its key, the key of the count that is added to it, and the key of the count that is subtracted.
_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
_NAN = float("nan")  # the same object for all NaNs, because sets compare by identity first

_CONTENT, _RECORDS, _BYTES = attrgetter("content"), attrgetter("record_count"), attrgetter("file_size_in_bytes")
_SPEC, _PARTITION = attrgetter("spec_id"), attrgetter("partition")

# Partition tuples by spec id. A set of pairs is avoided: it would create one more object for each partition, and make the garbage collector run.
_Partitions = defaultdict[int, set[tuple[Any, ...]]]


def parent_snapshot(base: TableMetadata, branch: str) -> Snapshot | None:
    """Return the parent of a new snapshot of a branch: its head, or the head of main for a new branch; None if there is no snapshot.

    Raises:
        UnsupportedFeatureError: the parent is encrypted, or the table requires that new files are encrypted.
    """
    ref = base.refs.get(branch) or base.refs.get(MAIN)
    parent = base.snapshot_by_id(ref.snapshot_id) if ref else None
    refuse_encrypted(parent)
    refuse_plain_files(base)
    return parent


def path_of_partition(base: TableMetadata) -> Callable[[int, tuple[Any, ...]], str]:
    """Return a function from a spec id and a partition tuple to the partition in folder form, such as `day=2024-05-01`."""

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
    kept_manifests: Sequence[ManifestFile] | None,
    operation: str,
    added: Iterable[DataFile] = (),
    deleted: Iterable[DataFile] = (),
    further_summary: Mapping[str, str] | None = None,
    read: Read,
    merge_manager: ManifestMergeManager,
    replaced_count: int = 0,
) -> Attempt:
    """Return the attempt that adds a snapshot of `new_manifests` and `kept_manifests`, after merging.

    Args:
        base: the current metadata of the table.
        context: the ids and the branch of the commit.
        number: the number of the attempt, from 0.
        now_ms: the current time, in milliseconds since 1970-01-01 UTC.
        new_manifests: the manifests that the commit wrote.
        kept_manifests: the other manifests, newest first. Manifests of `new_manifests` that were rewritten can be among them, in the places of their sources.
            None keeps all manifests of the parent; if nothing is merged then, the bytes of the parent's manifest list are copied without decoding.
        operation: `append`, `replace`, `overwrite` or `delete`.
        added: data and delete files that are added, which the summary counts.
        deleted: data and delete files that are removed, which the summary counts too.
        further_summary: entries of the summary besides the counts of files and manifests.
        read: returns the bytes of a metadata file.
        merge_manager: merges the manifests, and has the files of the new manifests.
        replaced_count: how many manifests of the parent were rewritten.

    Raises:
        CommitConflictError: another writer removed the branch.
        InvalidInputError: the wap id is used already.
    """
    _check_branch(base, context)
    parent = parent_snapshot(base, context.branch)
    parts = _list_parts(base, parent, new_manifests, kept_manifests, read, merge_manager)
    content, listed, next_row_id = _manifest_list(base, context, parent, parts)
    counts = manifest_counts(parts.manifests, context, kept_count=parts.copied_count, replaced_count=replaced_count + parts.replaced_count)
    summary = build_summary(
        operation,
        added=added,
        deleted=deleted,
        previous=parent.summary if parent else None,
        extra=context.snapshot_properties,
        partition_path=path_of_partition(base),
    )
    summary = {**summary, **(further_summary or {}), **counts}
    location = f"{context.metadata_location}/{manifest_list_name(context.snapshot_id, number, context.commit_uuid)}"
    updates: tuple[Update, ...] = (AddSnapshot(_snapshot(base, context, parent, now_ms, location, summary, next_row_id)),)
    requirements: tuple[Requirement, ...] = (AssertTableUUID(base.table_uuid),)
    ref = base.refs.get(context.branch)
    if not context.stage_only:
        updates = (*updates, SetSnapshotRef(context.branch, _with_snapshot(ref, context.snapshot_id)))
        requirements = (*requirements, AssertRefSnapshotId(context.branch, ref.snapshot_id if ref else None))
    created = merge_manager.manifests_of_commit(parts.manifests)
    return Attempt(
        snapshot_id=context.snapshot_id,
        summary=summary,
        manifests=created,
        listed_manifests=_as_listed(listed, created, base.next_sequence_number),
        manifest_files=merge_manager.new_files(created),
        manifest_lists=(NewFile(location=location, content=content),),
        updates=updates,
        requirements=requirements,
    )


def _as_listed(listed: Sequence[ManifestFile], created: Sequence[ManifestFile], sequence_number: int) -> tuple[ManifestFile, ...]:
    """Return the created manifests as lines of the manifest list, with sequence numbers and first row ids."""
    paths = {manifest.manifest_path for manifest in created}
    return tuple(
        replace(manifest, sequence_number=sequence_number) if manifest.sequence_number == UNASSIGNED_SEQ else manifest
        for manifest in listed
        if manifest.manifest_path in paths
    )


def _snapshot(
    base: TableMetadata,
    context: CommitContext,
    parent: Snapshot | None,
    now_ms: int,
    manifest_list: str,
    summary: Mapping[str, str],
    next_row_id: int | None,
) -> Snapshot:
    snapshot = Snapshot(
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=base.next_sequence_number,
        timestamp_ms=max(now_ms, base.last_updated_ms),
        manifest_list=manifest_list,
        summary=Summary(summary),
        schema_id=base.current_schema_id,
    )
    if next_row_id is None:
        return snapshot
    return replace(snapshot, first_row_id=base.next_row_id, added_rows=next_row_id - base.next_row_id)


def _check_branch(base: TableMetadata, context: CommitContext) -> None:
    """Check that another writer has not removed the branch, created a tag of its name, or used the wap id."""
    ref = base.refs.get(context.branch)
    if (ref is None and context.branch != MAIN and not context.makes_branch) or (ref is not None and not ref.is_branch):
        raise CommitConflictError(
            f"the branch {context.branch!r} {'does not exist any more' if ref is None else 'is a tag now'}: another writer removed it",
            snapshot_id=None if ref is None else ref.snapshot_id,
            problems=(
                Problem(where="expected", what=f"a branch {context.branch}"),
                Problem(where="found", what="no such branch" if ref is None else f"a tag {context.branch} at snapshot {ref.snapshot_id}"),
            ),
            next_step="a retry will fail again: refresh the table, and write to another branch, or create this one again",
        )
    wap_id = context.snapshot_properties.get(WAP_ID)
    if context.stage_only and wap_id is not None:
        check_wap_id_is_new(base, wap_id)


def _with_snapshot(ref: SnapshotRef | None, snapshot_id: int) -> SnapshotRef:
    """Return the ref moved to another snapshot, with the same retention; a new branch if there is no ref."""
    return SnapshotRef(snapshot_id=snapshot_id) if ref is None else replace(ref, snapshot_id=snapshot_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListParts:
    """The parts of a new manifest list: manifests, followed by the lines of the parent's list, which are copied without decoding.

    `parent_list` has the bytes and the path of the parent's list, `copied_count` the number of its lines.
    """

    manifests: Sequence[ManifestFile]
    replaced_count: int = 0
    parent_list: tuple[bytes, str] | None = None
    copied_count: int = 0


def _list_parts(
    base: TableMetadata,
    parent: Snapshot | None,
    new_manifests: Sequence[ManifestFile],
    kept_manifests: Sequence[ManifestFile] | None,
    read: Read,
    merge_manager: ManifestMergeManager,
) -> _ListParts:
    kept_paths = {manifest.manifest_path for manifest in kept_manifests or ()}
    new = [manifest for manifest in new_manifests if manifest.manifest_path not in kept_paths]
    if kept_manifests is None and parent is not None:
        copied = _copied_list(base, parent, new, read, merge_manager)
        if copied is not None:
            return copied
    older = kept_manifests if kept_manifests is not None else read_manifests(parent, read) if parent else ()
    merged = merge_manager.merge(base, [*new, *older], read)
    manifests = [_with_counts(manifest, base.format_version, read) for manifest in merged.manifests]
    return _ListParts(manifests=manifests, replaced_count=merged.replaced_count)


def _copied_list(
    base: TableMetadata, parent: Snapshot, new: Sequence[ManifestFile], read: Read, merge_manager: ManifestMergeManager
) -> _ListParts | None:
    """Return the new manifests followed by the lines of the parent's list; None if these lines cannot be copied and must be decoded.

    A list from before an upgrade of the format version, or of another writer, may lack the counts that version 2 requires, or the row ids of version 3.
    """
    if parent.manifest_list is None or (base.format_version > 1 and parent.sequence_number == 0):
        return None
    if base.format_version > 2 and parent.first_row_id is None:
        return None
    content = read(parent.manifest_list)
    if base.format_version > 1 and not can_append(content, parent.manifest_list, base.format_version):
        return None
    parent_summaries = read_manifest_summaries(content, parent.manifest_list)
    if base.format_version > 2 and not all(map(has_required_row_id, parent_summaries)):
        return None
    if not merge_manager.keeps_all(base, new, parent_summaries):
        return None
    return _ListParts(manifests=new, parent_list=(content, parent.manifest_list), copied_count=len(parent_summaries))


def _manifest_list(
    base: TableMetadata, context: CommitContext, parent: Snapshot | None, list_parts: _ListParts
) -> tuple[bytes, Sequence[ManifestFile], int | None]:
    """Return the bytes of the manifest list, its manifests without the copied ones, and the table's next row id after them (None before version 3)."""
    assigns_row_ids = base.format_version > 2
    manifests, next_row_id = list_parts.manifests, None
    if assigns_row_ids:
        manifests, next_row_id = assign_first_row_ids(manifests, base.next_row_id)
    header = _ListHeader(
        format_version=base.format_version,
        snapshot_id=context.snapshot_id,
        parent_snapshot_id=parent.snapshot_id if parent else None,
        sequence_number=base.next_sequence_number,
        first_row_id=base.next_row_id if assigns_row_ids else None,
        codec=table_properties.AVRO_CODEC.read(base.properties),
    )
    if list_parts.parent_list is not None:
        return append_to_manifest_list(*list_parts.parent_list, manifests, **header), manifests, next_row_id
    return write_manifest_list(manifests, **header), manifests, next_row_id


class _ListHeader(TypedDict):
    format_version: int
    snapshot_id: int
    parent_snapshot_id: int | None
    sequence_number: int
    first_row_id: int | None
    codec: str


def _with_counts(manifest: ManifestFile, format_version: int, read: Read) -> ManifestFile:
    """Return the manifest with all counts that version 2 requires. A version 1 list may lack them; the manifest is read then."""
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    return fill_counts(read(manifest.manifest_path), manifest) if format_version > 1 and None in counts else manifest


@dataclass(slots=True)
class _FileCounts:
    """Counts of the files that a commit adds, or of the files that it removes."""

    data_files: int = 0
    records: int = 0
    bytes: int = 0
    position_delete_files: int = 0
    deletion_vectors: int = 0
    equality_delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    partitions: _Partitions = field(default_factory=lambda: defaultdict(set))

    def add_all(self, files: Iterable[DataFile]) -> None:
        """Add files to the counts. Data files are counted in bulk, which is ten times as fast for a hundred thousand files."""
        all_files = tuple(files)
        data = all_files if set(map(_CONTENT, all_files)) <= {FileContent.DATA} else ()
        self.data_files += len(data)
        self.records += sum(map(_RECORDS, data))
        self.bytes += sum(map(_BYTES, data))
        specs = set(map(_SPEC, data))
        for spec_id in specs:
            files_of_spec = data if len(specs) == 1 else [file for file in data if file.spec_id == spec_id]
            self.partitions[spec_id].update(_with_one_nan(set(map(_PARTITION, files_of_spec))))
        if not data:
            for file in all_files:
                self._add(file)

    def _add(self, file: DataFile) -> None:
        # For a deletion vector only its own bytes are counted, because a Puffin file can contain many vectors.
        is_part = file.content_size_in_bytes is not None and is_deletion_vector(file)
        self.bytes += (file.content_size_in_bytes or 0) if is_part else file.file_size_in_bytes
        self.partitions[file.spec_id].update(_with_one_nan((file.partition,)))
        if file.content == FileContent.DATA:
            self.data_files += 1
            self.records += file.record_count
        elif file.content == FileContent.EQUALITY_DELETES:
            self.equality_delete_files += 1
            self.equality_deletes += file.record_count
        else:
            self.position_deletes += file.record_count
            if is_deletion_vector(file):
                self.deletion_vectors += 1
            else:
                self.position_delete_files += 1

    @property
    def delete_files(self) -> int:
        """The number of delete files, including deletion vectors. Spec: Appendix F."""
        return self.position_delete_files + self.deletion_vectors + self.equality_delete_files


def _with_one_nan(partitions: Collection[tuple[Any, ...]]) -> Collection[tuple[Any, ...]]:
    if float not in set(map(type, chain.from_iterable(partitions))):
        return partitions
    return [tuple(_NAN if value != value else value for value in values) for values in partitions]  # noqa: PLR0124  NaN


def build_summary(
    operation: str,
    *,
    added: Iterable[DataFile] = (),
    deleted: Iterable[DataFile] = (),
    previous: Mapping[str, str] | None,
    extra: Mapping[str, str] | None = None,
    partition_path: Callable[[int, tuple[Any, ...]], str] | None = None,
) -> dict[str, str]:
    """Return the summary of a snapshot that adds and removes these files.

    Counts of 0 are omitted, except for totals. A total is omitted if the parent's summary lacks it or has an invalid value, because computing it would require
    to read all manifests.

    Args:
        operation: `append`, `replace`, `overwrite` or `delete`.
        added: data and delete files that are added.
        deleted: data and delete files that are removed.
        previous: the summary of the parent; None for the first snapshot of a table.
        extra: further entries, from an engine or a user; they do not replace the counts.
        partition_path: returns a partition in folder form. If files of several specs change, changed partitions are counted by these folders, as Java does, so
            that equal folders of two specs count once.

    Spec: Appendix F, Snapshot Summary Fields.
    """
    added_counts, removed_counts = _FileCounts(), _FileCounts()
    added_counts.add_all(added)
    removed_counts.add_all(deleted)
    counts = {
        "added-data-files": added_counts.data_files,
        "deleted-data-files": removed_counts.data_files,
        "added-delete-files": added_counts.delete_files,
        "removed-delete-files": removed_counts.delete_files,
        "added-equality-delete-files": added_counts.equality_delete_files,
        "removed-equality-delete-files": removed_counts.equality_delete_files,
        "added-position-delete-files": added_counts.position_delete_files,
        "removed-position-delete-files": removed_counts.position_delete_files,
        "added-dvs": added_counts.deletion_vectors,
        "removed-dvs": removed_counts.deletion_vectors,
        "added-records": added_counts.records,
        "deleted-records": removed_counts.records,
        "added-files-size": added_counts.bytes,
        "removed-files-size": removed_counts.bytes,
        "added-position-deletes": added_counts.position_deletes,
        "removed-position-deletes": removed_counts.position_deletes,
        "added-equality-deletes": added_counts.equality_deletes,
        "removed-equality-deletes": removed_counts.equality_deletes,
    }
    computed_keys = {"operation", "changed-partition-count", *counts, *(key for key, _, _ in _TOTALS)}
    return {
        "operation": operation,
        **{key: text for key, text in (extra or {}).items() if key not in computed_keys},
        **{key: str(count) for key, count in counts.items() if count},
        "changed-partition-count": str(_changed_partitions(added_counts.partitions, removed_counts.partitions, partition_path)),
        **_totals(counts, previous),
    }


def _changed_partitions(added: _Partitions, removed: _Partitions, partition_path: Callable[[int, tuple[Any, ...]], str] | None) -> int:
    changed = {spec_id: added.get(spec_id, set()) | removed.get(spec_id, set()) for spec_id in {*added, *removed}}
    if partition_path is None or len(changed) < 2:
        return sum(map(len, changed.values()))
    return len({partition_path(spec_id, values) for spec_id, partitions in changed.items() for values in partitions})


def _totals(counts: Mapping[str, int], previous: Mapping[str, str] | None) -> dict[str, str]:
    totals = {}
    for key, added_key, removed_key in _TOTALS:
        before = "0" if previous is None else previous.get(key)
        total = count_of(before)
        if total is None:
            continue
        after = total + counts[added_key] - counts[removed_key]
        if after >= 0:  # a negative total shows that the parent's total was wrong
            totals[key] = str(after)
    return totals
