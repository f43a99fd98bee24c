"""`RepairedSnapshot`: the commit that corrects entries and manifests of a branch's newest snapshot, as one snapshot on top of it.

The changes were planned for exactly that snapshot (`snapshot_planner.py`), so that the action refuses any other. A manifest is written again only if one of its
entries changes. A kept entry keeps its sequence numbers, so that deletes apply to it as before. Spec: Snapshots; Manifests; Sequence Numbers.
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

# The key in the summary of a repair's snapshot that has the ids of the repairs.
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
    """The changes that a repair makes to one manifest; keys are the positions of its entries. A manifest whose edits are empty is written again unchanged.

    Attributes:
        removed: Entries that become DELETED: their files are removed from the table.
        left_out: Entries that the new manifest does not have: their files stay in the table through another entry.
        values: New values for fields of files, by the name of the field.
        moved: Entries that move to a manifest of another partition spec, with the id of the spec and the partition.
    """

    removed: set[int] = field(default_factory=set)
    left_out: set[int] = field(default_factory=set)
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    moved: dict[int, tuple[int, tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltManifest:
    """The live entries of a lost manifest, each with its own sequence numbers."""

    lost: ManifestFile
    entries: tuple[ManifestEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotEdits:
    """The changes that a repair makes to a snapshot.

    Attributes:
        snapshot_id: The id of the snapshot that is repaired.
        repairs: The ids of the repairs.
        operation: The operation of the new snapshot.
        manifests: The manifests of the snapshot, each once, in the order of its manifest list.
        totals: The counts of the live files of each manifest, by its path; None for a manifest that cannot be read.
        edits: The changes in each manifest, by its path.
        dropped: The paths of manifests that the new snapshot does not have.
        rebuilt: Manifests that replace lost ones.
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
        """The paths of the manifests that the new snapshot no longer has."""
        return {*self.edits, *self.dropped, *(rebuilt.lost.manifest_path for rebuilt in self.rebuilt)}


@dataclass(slots=True)
class _Built:
    """The manifests that a repair writes, with the files that they remove and the counts of live files."""

    manifests: list[NewManifest] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)
    totals: list[FileTotals] = field(default_factory=list)
    by_source: dict[str, NewManifest] = field(default_factory=dict)


def entries_of(manifest: ManifestFile, base: TableMetadata, read: Read) -> list[ManifestEntry]:
    """Return the entries of a manifest, without regard to the counts and the length that its manifest list states.

    Args:
        manifest: The manifest.
        base: The metadata of the table.
        read: Returns the bytes of a manifest.

    Raises:
        AvroFormatError, ManifestFormatError: The manifest cannot be read.
    """
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
    """Return the totals as entries of a snapshot summary."""
    return {key: str(getattr(totals, name)) for key, name in _TOTAL_KEYS.items()}


class RepairedSnapshot:
    """The action of the commit loop that commits a repair. JAVA has no such action."""

    def __init__(self, context: CommitContext, edits: SnapshotEdits) -> None:
        """Create the action.

        Args:
            context: The ids and the branch of the commit.
            edits: The changes in the snapshot.
        """
        self._context = replace(context, snapshot_properties={**context.snapshot_properties, REPAIR_KEY: ",".join(edits.repairs)})
        self._edits = edits
        self._numbers = ManifestNumbers(context)
        self._built: tuple[int, _Built] | None = None

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:
        """Build the repaired snapshot on the current metadata, as `Action.attempt` requires.

        Raises:
            CommitInvalidatedError: The newest snapshot of the branch is not the one for which the repair was planned.
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
        """Return the totals of the new summary; empty if a manifest stays that cannot be read, so that the totals are computed from the parent's."""
        counts = [self._edits.totals.get(manifest.manifest_path) for manifest in kept]
        return {} if None in counts else totals_in_summary(total_of([*counts, *built.totals]))


class UndoneSnapshot:
    """The action that sets a branch back to the snapshot before a repair, if the repair still is the branch's newest snapshot."""

    def __init__(self, branch: str, snapshot_id: int, parent_id: int) -> None:
        """Create the action.

        Args:
            branch: The name of the branch.
            snapshot_id: The id of the repair's snapshot.
            parent_id: The id of the snapshot before it.
        """
        self._branch = branch
        self._snapshot_id = snapshot_id
        self._parent_id = parent_id

    def new_data_files(self) -> Sequence[str]:
        return ()

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt:  # noqa: ARG002  no manifest is read
        """Set the branch back, as `Action.attempt` requires.

        Raises:
            CommitInvalidatedError: The repair is no longer the newest snapshot of the branch.
        """
        check_head(base, self._branch, self._snapshot_id)
        return Attempt(
            updates=(SetSnapshotRef(self._branch, replace(base.refs[self._branch], snapshot_id=self._parent_id)),),
            requirements=(AssertTableUUID(base.table_uuid), AssertRefSnapshotId(self._branch, self._snapshot_id)),
        )


def check_head(base: TableMetadata, branch: str, snapshot_id: int) -> None:
    """Check that the newest snapshot of a branch is the one for which the repair was planned.

    Raises:
        CommitInvalidatedError: The branch has another snapshot.
    """
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
    """Build the manifests of a repaired snapshot in memory.

    Args:
        base: The metadata of the table.
        edits: The changes in the snapshot.
        context: The ids of the commit.
        numbers: The counter for the names of manifests.
        read: Returns the bytes of a manifest.

    Raises:
        AvroFormatError, ManifestFormatError: A manifest that must be written again cannot be read.
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
    """Yield the entries of the new manifest. Entries that older snapshots deleted are left out."""
    for position, entry in enumerate(entries):
        if not entry.is_live or position in edits.left_out or position in edits.moved:
            continue
        if position in edits.removed:
            yield replace(entry, status=ManifestEntryStatus.DELETED, snapshot_id=snapshot_id)
        else:
            yield _existing(entry, replace(entry.data_file, **edits.values.get(position, {})))


def _existing(entry: ManifestEntry, file: DataFile) -> ManifestEntry:
    return replace(entry, status=ManifestEntryStatus.EXISTING, data_file=file)
