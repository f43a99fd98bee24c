"""`MergingSnapshotProducer`: carries out file changes on a base table: finds the files, rewrites the manifests that held them, checks that all still fits.

The operations on top are `overwrite.py`, `row_delta.py` and `rewrite_files.py`. A commit that only adds data files is `append.py`.
Spec: Manifests; Deletion Vectors; Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.kernel.arrow_values import scalar_of
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.conflicts import Rules, check_conflicts, each_rule
from icefloe.kernel.commit.file_changes import DeleteKey, FileChanges, delete_key
from icefloe.kernel.commit.live_entries import is_among, live_entries, may_hold, partitions_of, same_values
from icefloe.kernel.commit.manifest_merge_manager import ManifestMergeManager
from icefloe.kernel.commit.new_manifest import ManifestNumbers, added_manifests, without_files
from icefloe.kernel.commit.newer_snapshots import newer_snapshots, no_longer_live
from icefloe.kernel.commit.selected_files import SelectedFiles, check_added_match
from icefloe.kernel.commit.snapshot_attempt import parent_snapshot, path_of_partition, snapshot_attempt
from icefloe.kernel.commit.summary import build_summary
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.entry import ManifestEntry
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import read_manifests, spec_partition_type
from icefloe.kernel.metadata.table_metadata import TableMetadata


@dataclass(slots=True, kw_only=True)
class Found:
    """What a base holds of the files a commit is about. `gone` are the live entries that the commit removes, as they were."""

    new_manifests: list[ManifestFile] = field(default_factory=list)
    kept: list[ManifestFile] = field(default_factory=list)
    gone: list[ManifestEntry] = field(default_factory=list)
    targets: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)  # paths of data files
    selected: set[DeleteKey] = field(default_factory=set)
    second_vectors: list[tuple[str, DeleteKey, int]] = field(default_factory=list)  # data file, its vector, the snapshot that added it
    replaced: int = 0

    @property
    def removed_files(self) -> list[DataFile]:
        return [entry.data_file for entry in self.gone]


class MergingSnapshotProducer:
    """One commit of file changes over all its attempts. Manifests it wrote are used again, where the base still asks for the same."""

    def __init__(self, changes: FileChanges, context: CommitContext, numbers: ManifestNumbers, rules: Rules = None) -> None:
        self._changes = changes
        self._context = context
        self._numbers = numbers
        self._rules = each_rule(rules)
        self._first: TableMetadata | None = None  # the base of the first attempt
        self._manifests = ManifestMergeManager(context, numbers)
        self._added: tuple[int, tuple[ManifestFile, ...]] | None = None  # with the format version they were written in
        self._rewritten: dict[tuple[int, int, ManifestFile], tuple[ManifestFile, list[ManifestEntry]]] = {}

    def attempt(
        self,
        base: TableMetadata,
        *,
        operation: Callable[[Found], str],
        number: int,
        now_ms: int,
        read: Read,
        check: Callable[[TableMetadata, Found], None] | None = None,
    ) -> Attempt | None:
        """The attempt on this base, as `Action.attempt`; None where nothing changes. `check` may refuse what was found.

        Raises:
            CommitInvalidatedError: a file to remove or to delete rows of is not live in this base, a data file would have two deletion vectors, or a snapshot
                since the one the commit was planned on broke a rule.
            InvalidInputError: the table's format version does not allow a file.
        """
        changes, parent = self._changes, parent_snapshot(base, self._context.branch)
        if changes.is_empty:
            return None
        self._first = self._first or base
        found = Found(removed=set(changes.removed))
        self._write_added(base, found)
        looks_at_old_files = bool(changes.removed or changes.removed_deletes or changes.targets or changes.selects)
        if looks_at_old_files:
            self._look_through(base, read_manifests(parent, read) if parent else (), found, read)
        self._check_rules(base, self._first, found, read)
        if looks_at_old_files:
            self._check_found(base, found, read)
        if not found.gone and not changes.added and not changes.added_deletes:
            return None  # no file was selected
        if check is not None:
            check(base, found)
        return snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=found.new_manifests,
            kept=found.kept if looks_at_old_files else None,
            summary=self._summary(base, operation(found), parent.summary if parent else None, found),
            read=read,
            manifests=self._manifests,
            replaced=found.replaced,
        )

    def _check_rules(self, base: TableMetadata, first: TableMetadata, found: Found, read: Read) -> None:
        changes = self._changes
        gone = [file for file in found.removed_files if file.content == FileContent.DATA and file.file_path in changes.removed]
        for rules in self._rules:
            if rules.since is not None or rules.looks_at_history(changes):
                newer = newer_snapshots(base, self._context.branch, rules.since, first, read)
                check_conflicts(rules, base, newer, changes, gone)

    def _write_added(self, base: TableMetadata, found: Found) -> None:
        if self._added is not None and self._added[0] == base.format_version:
            found.new_manifests += self._added[1]
            return
        files = (*self._changes.added, *self._changes.added_deletes)
        number = self._changes.sequence_number if base.format_version > 1 else None
        try:
            written = added_manifests(base, files, self._context, self._numbers, sequence_number=number)
        except InvalidInputError as error:
            if self._added is None:
                raise
            raise CommitInvalidatedError(
                f"the table was upgraded from format version {self._added[0]} to {base.format_version} while this commit was prepared: {error.message}",
                path=error.path,
                problems=(
                    Problem(where="expected", what=f"format version {self._added[0]}"),
                    Problem(where="found", what=f"format version {base.format_version}"),
                ),
                next_step="a retry will fail again: plan the change on the upgraded table",
            ) from error
        if self._changes.added_match_filter:
            check_added_match(base, self._changes, written)
        self._manifests.add(written)
        self._added = (base.format_version, tuple(manifest for _, manifest in written))
        found.new_manifests += self._added[1]

    def _look_through(self, base: TableMetadata, manifests: Sequence[ManifestFile], found: Found, read: Read) -> None:
        """Takes files out of the manifests: data files first, since deletes that are about one of them alone go with it."""
        selection = SelectedFiles(base, self._changes, self._first or base) if self._changes.selects else None
        kept: dict[int, ManifestFile] = {}
        live = [(place, manifest) for place, manifest in enumerate(manifests) if manifest.has_live_files]  # the others are bookkeeping
        for place, manifest in sorted(live, key=lambda one: one[1].content is ManifestContent.DELETES):
            selected = selection.of(manifest, read) if selection else frozenset()
            is_delete = manifest.content == ManifestContent.DELETES
            found.selected |= selected
            found.removed |= set() if is_delete else {path for path, _ in selected}
            holds = self._delete_manifest_holds if is_delete else self._data_manifest_holds
            if holds(base, manifest, found, read) or selected:
                kept[place] = self._take_out(base, manifest, found, read)  # in its place: only neighbours are merged
            else:
                kept[place] = manifest
        found.kept += [kept[place] for place in sorted(kept)]

    def _take_out(self, base: TableMetadata, manifest: ManifestFile, found: Found, read: Read) -> ManifestFile:
        key = (base.format_version, base.current_schema_id, manifest)
        known = self._rewritten.get(key) if manifest.content is ManifestContent.DATA or not self._changes.selects else None
        if known is not None:
            made, gone = known
        else:
            new, gone = without_files(base, manifest, lambda file: self._is_removed(file, found), self._context, self._numbers, read)
            made = new[1]
            self._manifests.add([new])
            self._rewritten[key] = (made, gone)
        found.new_manifests.append(made)
        found.gone += gone
        found.replaced += 1
        return made

    def _is_removed(self, file: DataFile, found: Found) -> bool:
        if file.content == FileContent.DATA:
            return file.file_path in found.removed
        # With a data file go the deletes that are about it alone; the spec asks for it of deletion vectors. Spec: Deletion Vectors.
        is_about_removed = file.content == FileContent.POSITION_DELETES and file.referenced_data_file in found.removed
        key = delete_key(file)
        return is_about_removed or key in self._changes.removed_deletes or key in found.selected

    def _data_manifest_holds(self, base: TableMetadata, manifest: ManifestFile, found: Found, read: Read) -> bool:
        """Whether it holds a file to remove; the targets of added deletes that it holds are noted."""
        changes, targets = self._changes, self._changes.targets
        wanted = targets.keys() - found.targets
        if not (changes.removed and may_hold(base, manifest, changes.removed_partitions)) and not (
            wanted and may_hold(base, manifest, targets.values())
        ):
            return False
        entries = live_entries(base, manifest, read)
        if wanted:
            there = entries.filter(is_among(entries["file_path"], wanted))
            kind = spec_partition_type(base, manifest.partition_spec_id)
            for path, partition in zip(there["file_path"].to_pylist(), partitions_of(there, kind), strict=True):
                spec_id, expected = targets[path]
                if spec_id != manifest.partition_spec_id or not same_values(expected, partition):
                    raise InvalidInputError(
                        f"the deletes of rows of {path} are of another partition than the file, so they would not apply", path=path
                    )
                found.targets.add(path)
        return bool(changes.removed) and bool(pc.any(is_among(entries["file_path"], changes.removed)).as_py())

    def _delete_manifest_holds(self, base: TableMetadata, manifest: ManifestFile, found: Found, read: Read) -> bool:
        """Whether it holds a named delete file to remove, or one that is about a removed data file alone. Second deletion vectors are noted."""
        changes = self._changes
        if not self._may_concern(base, manifest, found):
            return False
        entries = live_entries(base, manifest, read)
        about = entries.filter(
            pc.and_kleene(
                pc.equal(entries["content"], scalar_of(int(FileContent.POSITION_DELETES), pa.int32())),
                is_among(entries["referenced_data_file"], found.removed | changes.vector_targets),
            )
        )
        for path, offset, target, snapshot_id in _rows(about, "file_path", "content_offset", "referenced_data_file", "snapshot_id"):
            if offset is not None and target in changes.vector_targets and (path, offset) not in changes.removed_deletes:
                found.second_vectors.append((target, (path, offset), snapshot_id))
        if any(target in found.removed for (target,) in _rows(about, "referenced_data_file")):
            return True
        named = entries.filter(is_among(entries["file_path"], {path for path, _ in changes.removed_deletes}))
        return any(key in changes.removed_deletes for key in _rows(named, "file_path", "content_offset"))

    def _may_concern(self, base: TableMetadata, manifest: ManifestFile, found: Found) -> bool:
        changes = self._changes
        if changes.selects and found.gone and may_hold(base, manifest, {(file.spec_id, file.partition) for file in found.removed_files}):
            return True
        if changes.removed and may_hold(base, manifest, changes.removed_partitions):
            return True
        if changes.removed_deletes and may_hold(base, manifest, {(f.spec_id, f.partition) for f in changes.removed_deletes.values()}):
            return True
        return bool(changes.vector_targets) and may_hold(base, manifest, changes.targets.values())

    def _check_found(self, base: TableMetadata, found: Found, read: Read) -> None:
        for target, (path, offset), snapshot_id in found.second_vectors:
            raise CommitInvalidatedError(
                f"{target} has a deletion vector already, in {path} at byte {offset}, that this commit does not replace; a data file has one at most",
                path=target,
                snapshot_id=snapshot_id,
                problems=(
                    Problem(where="expected", what=f"{target} without a deletion vector, or one that this commit removes"),
                    Problem(where="found", what=f"{path} at byte {offset}, added by snapshot {snapshot_id}"),
                ),
                next_step="a retry will fail again: read the table anew, merge that vector into the new one, and remove it in the same commit",
            )
        changes = self._changes
        paths = {file.file_path for file in found.removed_files if file.content == FileContent.DATA}
        keys: set[DeleteKey] = {delete_key(file) for file in found.removed_files if file.content != FileContent.DATA}
        branch = self._context.branch
        for path in sorted(changes.removed - paths):
            raise no_longer_live(base, branch, path, "a file to remove", ManifestContent.DATA, read)
        for path, _ in sorted(changes.removed_deletes.keys() - keys, key=str):
            raise no_longer_live(base, branch, path, "a file to remove", ManifestContent.DELETES, read)
        for path in sorted(changes.targets.keys() - found.targets):
            raise no_longer_live(base, branch, path, "a file to delete rows of", ManifestContent.DATA, read)

    def _summary(self, base: TableMetadata, operation: str, previous: Mapping[str, str] | None, found: Found) -> dict[str, str]:
        return build_summary(
            operation,
            added=(*self._changes.added, *self._changes.added_deletes),
            deleted=found.removed_files,
            previous=previous,
            extra=self._context.snapshot_properties,
            partition_path=path_of_partition(base),
        )


def _rows(entries: "pa.Table", *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(entries[name].to_pylist() for name in names), strict=True))
