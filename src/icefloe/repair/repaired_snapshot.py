"""`RepairedSnapshot`: the commit that puts right entries and manifests of a branch's newest snapshot, as one snapshot on top of it.

What is changed was planned for exactly that snapshot (`snapshot_planner.py`): on any other the action refuses. A manifest is written again only if one of its
entries changes; a kept entry keeps its sequence numbers, so that deletes apply to it as before. Spec: Snapshots; Manifests; Sequence Numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from icefloe.checks.delete_rules import without_counts
from icefloe.checks.manifest_check import FileTotals, total_of
from icefloe.commit.attempt import Attempt, CommitContext, NewFile, Read
from icefloe.commit.new_manifest import ManifestMergeManager, ManifestNumbers, NewManifest, manifest_target
from icefloe.commit.snapshot_attempt import snapshot_attempt
from icefloe.errors import CommitInvalidatedError, Problem
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntry, ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_entries
from icefloe.spec.manifest.manifest_writer import write_manifest
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, AssertTableUUID
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.snapshot_updates import SetSnapshotRef
from icefloe.spec.metadata.table_metadata import TableMetadata

# The entry of a repair's snapshot summary with the ids of what was done.
REPAIR_KEY = "icefloe.repair"
_TOTAL_KEYS = {
    "total-data-files": "data_files",
    "total-delete-files": "delete_files",
    "total-records": "records",
    "total-files-size": "bytes",
    "total-position-deletes": "position_deletes",
    "total-equality-deletes": "equality_deletes",
}


@dataclass(slots=True)
class ManifestEdits:
    """What changes in one manifest, by the position of an entry. A manifest without any change in here is written again as it is.

    Attributes:
        removed: Entries that become DELETED: their files leave the table.
        left_out: Entries without which the manifest is written: their files stay in the table by another entry.
        values: Fields of files that are set.
        moved: Entries that go to a manifest of another spec, with that spec and the partition.
    """

    removed: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    moved: dict[int, tuple[int, tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltManifest:
    """The live entries of a manifest that is lost, with their own sequence numbers."""

    lost: ManifestFile
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEdits:
    """What changes in a snapshot.

    Attributes:
        snapshot_id: The snapshot.
        repairs: The ids of the repairs.
        operation: The operation of the new snapshot.
        manifests: The manifests of the snapshot, each once, in order.
        totals: The counts of the live files of each, by path; None for one that cannot be read.
        edits: The changes by the path of the manifest.
        dropped: The paths of manifests that are left out as a whole.
        rebuilt: Manifests that are written in the place of lost ones.
    """

    snapshot_id: int
    repairs: tuple[str, ...]
    operation: str
    manifests: tuple[ManifestFile, ...]
    totals: Mapping[str, FileTotals | None]
    edits: Mapping[str, ManifestEdits] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    rebuilt: tuple[RebuiltManifest, ...] = ()

    @property
    def replaced(self) -> set[str]:
        """The paths of manifests that are no longer listed."""
        return {*self.edits, *self.dropped, *(rebuilt.lost.manifest_path for rebuilt in self.rebuilt)}


@dataclass(slots=True)
class _Built:
    """The new manifests of a commit."""

    manifests: list[NewManifest] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    totals: list[FileTotals] = field(default_factory=list)
    by_source: dict[str, NewManifest] = field(default_factory=dict)


def entries_of(manifest: ManifestFile, base: TableMetadata, read: Read) -> list[ManifestEntry]:
    """Return the entries of a manifest, whatever its list states of it. Raises as `read_entries`."""
    content = read(manifest.manifest_path)
    return read_entries(content, without_counts(manifest, len(content)), spec_partition_type(base, manifest.partition_spec_id))


def totals_of_files(files: Iterable[DataFile]) -> FileTotals:
    """Return the counts of files as the summary of a snapshot has them."""
    data = records = deletes = positions = equality = size = 0
    for file in files:
        size += file.file_size_in_bytes if file.content_size_in_bytes is None else file.content_size_in_bytes
        if file.content is FileContent.DATA:
            data, records = data + 1, records + file.record_count
            continue
        deletes += 1
        if file.content is FileContent.EQUALITY_DELETES:
            equality += file.record_count
        else:
            positions += file.record_count
    return FileTotals(
        data_files=data, records=records, delete_files=deletes, position_deletes=positions, equality_deletes=equality, bytes=size
    )


def totals_in_summary(totals: FileTotals) -> dict[str, str]:
    """Return the totals by the keys of a summary."""
    return {key: str(getattr(totals, name)) for key, name in _TOTAL_KEYS.items()}


class RepairedSnapshot:
    """The action of the commit loop. JAVA has none."""

    def __init__(self, context: CommitContext, edits: SnapshotEdits) -> None:
        """Create the action.

        Args:
            context: The ids and the branch of the commit.
            edits: What changes.
        """
        self._context = replace(context, snapshot_properties={**context.snapshot_properties, REPAIR_KEY: ",".join(edits.repairs)})
        self._edits = edits
        self._numbers = ManifestNumbers(context)
        self._built: tuple[int, _Built] | None = None

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        """See `Action.attempt`.

        Raises:
            CommitInvalidatedError: The branch has another snapshot than the repair was planned for.
        """
        check_head(base, self._context.branch, self._edits.snapshot_id)
        if self._built is None or self._built[0] != base.format_version:
            self._built = (base.format_version, build_manifests(base, self._edits, self._context, self._numbers, read))
        built = self._built[1]
        manager = ManifestMergeManager(self._context, self._numbers, merges=False)
        manager.add(built.manifests)
        replaced = self._edits.replaced
        kept = [manifest for manifest in self._edits.manifests if manifest.manifest_path not in replaced]
        return snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=[line for _, line in built.manifests],
            kept_manifests=kept,
            operation=self._edits.operation,
            deleted=built.removed,
            further_summary=self._totals(built, kept),
            read=read,
            merge_manager=manager,
            replaced_count=len(replaced),
        )

    def _totals(self, built: _Built, kept: Iterable[ManifestFile]) -> dict[str, str]:
        """Return the counted totals; none if a manifest stays that cannot be read, so that those of the parent are carried on."""
        counts = [self._edits.totals.get(manifest.manifest_path) for manifest in kept]
        return {} if None in counts else totals_in_summary(total_of([*counts, *built.totals]))


class UndoneSnapshot:
    """The action that sets a branch back to the snapshot before a repair, if the repair still is its newest."""

    def __init__(self, branch: str, snapshot_id: int, parent_id: int) -> None:
        """Create the action.

        Args:
            branch: The branch.
            snapshot_id: The snapshot of the repair.
            parent_id: The snapshot before it.
        """
        self._branch = branch
        self._snapshot_id = snapshot_id
        self._parent_id = parent_id

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:  # noqa: ARG002  nothing is read
        """See `Action.attempt`. Raises `CommitInvalidatedError` if the branch has another snapshot by now."""
        check_head(base, self._branch, self._snapshot_id)
        return Attempt(
            updates=(SetSnapshotRef(self._branch, replace(base.refs[self._branch], snapshot_id=self._parent_id)),),
            requirements=(AssertTableUUID(base.table_uuid), AssertRefSnapshotId(self._branch, self._snapshot_id)),
        )


def check_head(base: TableMetadata, branch: str, snapshot_id: int) -> None:
    """Check that a branch still has the snapshot that was planned for. Raises `CommitInvalidatedError`."""
    ref = base.refs.get(branch)
    if ref is not None and ref.snapshot_id == snapshot_id:
        return
    raise CommitInvalidatedError(
        f"this was to change snapshot {snapshot_id} of {branch}, and another writer has changed the table since the repair was planned",
        snapshot_id=None if ref is None else ref.snapshot_id,
        problems=(
            Problem(where="expected", what=f"snapshot {snapshot_id} as the newest of {branch}"),
            Problem(where="found", what="no such branch" if ref is None else f"snapshot {ref.snapshot_id}"),
        ),
        next_step="a retry makes sense: nothing was changed; plan the repair again",
    )


def build_manifests(base: TableMetadata, edits: SnapshotEdits, context: CommitContext, numbers: ManifestNumbers, read: Read) -> _Built:
    """Write the manifests of a repaired snapshot in memory.

    Args:
        base: The table.
        edits: What changes.
        context: The ids of the commit.
        numbers: The counter for names of manifests.
        read: Returns the bytes of a manifest.

    Raises:
        AvroFormatError, ManifestFormatError: A manifest that is to be written again cannot be read.
    """
    built = _Built()
    moved: dict[tuple[ManifestContent, int], list[ManifestEntry]] = {}

    def write(content: ManifestContent, spec_id: int, entries: Sequence[ManifestEntry], source: str) -> None:
        if not entries:
            return
        target = manifest_target(base, content, spec_id, context, numbers)
        data, line = write_manifest(
            entries,
            path=target.path,
            schema=target.schema,
            schema_json=target.schema_json,
            spec_fields_json=target.spec_fields_json,
            spec_id=spec_id,
            partition_type=target.partition_type,
            snapshot_id=context.snapshot_id,
            format_version=base.format_version,
            content=content,
            codec=target.codec,
        )
        built.manifests.append((NewFile(location=target.path, content=data), line))
        built.by_source[source] = built.manifests[-1]
        built.totals.append(totals_of_files(entry.data_file for entry in entries if entry.is_live))

    for manifest in edits.manifests:
        own = edits.edits.get(manifest.manifest_path)
        if own is None or manifest.manifest_path in edits.dropped:
            continue
        entries = entries_of(manifest, base, read)
        kept = list(_edit_entries(entries, own, context.snapshot_id))
        built.removed += [entry.data_file for entry in kept if entry.status is ManifestEntryStatus.DELETED]
        write(manifest.content, manifest.partition_spec_id, kept, manifest.manifest_path)
        for position, (spec_id, partition) in own.moved.items():
            file = replace(entries[position].data_file, partition=partition, spec_id=spec_id)
            moved.setdefault((manifest.content, spec_id), []).append(_existing(entries[position], file))
    for (content, spec_id), others in moved.items():
        write(content, spec_id, others, f"moved to {spec_id}")
    for rebuilt in edits.rebuilt:
        write(rebuilt.lost.content, rebuilt.lost.partition_spec_id, rebuilt.entries, rebuilt.lost.manifest_path)
    return built


def _edit_entries(entries: Sequence[ManifestEntry], edits: ManifestEdits, snapshot_id: int) -> Iterable[ManifestEntry]:
    """Yield the entries of the new manifest; entries that older snapshots deleted are left out."""
    for position, entry in enumerate(entries):
        if not entry.is_live or position in edits.left_out or position in edits.moved:
            continue
        if position in edits.removed:
            yield replace(entry, status=ManifestEntryStatus.DELETED, snapshot_id=snapshot_id)
        else:
            yield _existing(entry, replace(entry.data_file, **edits.values.get(position, {})))


def _existing(entry: ManifestEntry, file: DataFile) -> ManifestEntry:
    return replace(entry, status=ManifestEntryStatus.EXISTING, data_file=file)
