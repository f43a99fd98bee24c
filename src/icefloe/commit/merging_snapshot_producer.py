"""`MergingSnapshotProducer`: applies file changes to a base table as one new snapshot. JAVA: MergingSnapshotProducer, ManifestFilterManager.

Each attempt has four steps. (1) Write manifests of the added files; a retry reuses them. (2) Filter the manifests of the parent: rewrite those that contain
files to remove. (3) Check the conflict rules against the newer snapshots of the branch, and check that all files to remove are live. (4) Merge manifests and
create the snapshot. Delete files that apply only to a removed data file are removed with it.

The actions in `overwrite.py`, `replace_partitions.py`, `row_delta.py` and `rewrite_files.py` use it; `append.py`, which only adds data files, does not.
`conflicts.py` has the conflict rules, `new_manifest.py` makes new and merged manifests, `snapshot_attempt.py` makes the snapshot.
Spec: Manifests; Deletion Vectors; Commit Conflict Resolution and Retry.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.attempts_in_summary import checks_summary
from icefloe.commit.conflicts import Rules, check_conflicts, each_rule
from icefloe.commit.file_changes import DeleteKey, FileChanges, delete_key
from icefloe.commit.live_entries import equal_partitions, is_among, live_entries, may_contain_partitions, partitions_of
from icefloe.commit.new_manifest import ManifestMergeManager, ManifestNumbers, added_manifests, without_files
from icefloe.commit.newer_snapshots import SnapshotKey, key_of, newer_snapshots, no_longer_live
from icefloe.commit.selected_files import SelectedFiles, check_added_match
from icefloe.commit.snapshot_attempt import parent_snapshot, snapshot_attempt
from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.spec.arrow_values import array_of, scalar_of
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(slots=True, kw_only=True)
class FilteredManifests:
    """The manifests of one base after the files to remove were removed from them, and what was found in them.

    Attributes:
        new_manifests: manifests that the commit wrote: those of added files, and rewritten ones.
        kept_manifests: the manifests of the parent in order, with rewritten ones in the places of their sources.
        removed_entries: the entries that the commit removes, as they were while live.
        live_targets: paths of those data files that added deletes refer to and that are live.
        removed_paths: paths of data files to remove, by name or by a rule.
        selected_keys: keys of the files that a rule selects for removal.
        other_vectors: live deletion vectors that the commit does not remove, although it adds a deletion vector for the same data file. Each item has the path
            of the data file, the key of the live vector, and the snapshot that added it.
        replaced_count: how many manifests were rewritten.
    """

    new_manifests: list[ManifestFile] = field(default_factory=list)
    kept_manifests: list[ManifestFile] = field(default_factory=list)
    removed_entries: list[ManifestEntry] = field(default_factory=list)
    live_targets: set[str] = field(default_factory=set)
    removed_paths: set[str] = field(default_factory=set)
    selected_keys: set[DeleteKey] = field(default_factory=set)
    other_vectors: list[tuple[str, DeleteKey, int]] = field(default_factory=list)
    replaced_count: int = 0

    @property
    def removed_files(self) -> list[DataFile]:
        """The data and delete files of the removed entries."""
        return [entry.data_file for entry in self.removed_entries]


class MergingSnapshotProducer:
    """One commit of file changes, over all its attempts. A retry reuses the manifests of earlier attempts that are still valid for its base."""

    def __init__(self, changes: FileChanges, context: CommitContext, numbers: ManifestNumbers, rules: Rules = None) -> None:
        self._changes = changes
        self._context = context
        self._numbers = numbers
        self._rules = each_rule(rules)
        self._first_base: TableMetadata | None = None  # the base of the first attempt
        self._merge_manager = ManifestMergeManager(context, numbers)
        self._added: tuple[int, tuple[ManifestFile, ...]] | None = (
            None  # the format version of the manifests of added files, and the manifests
        )
        self._rewritten: dict[tuple[int, int, ManifestFile], tuple[ManifestFile, list[ManifestEntry]]] = {}
        # What earlier attempts have read and found without conflict, so that a retry reads only what is new. With fast other writers, an attempt that read
        # everything again would take longer each time and never win. `_checked` has the checked snapshots, by the index of the rules and the id of the schema
        # that their filter is bound to.
        self._checked: dict[tuple[int, int], set[SnapshotKey]] = defaultdict(set)
        self._unaffected: set[ManifestFile] = set()

    def attempt(
        self,
        base: TableMetadata,
        *,
        operation: Callable[[FilteredManifests], str],
        number: int,
        now_ms: int,
        read: Read,
        check: Callable[[TableMetadata, FilteredManifests], None] | None = None,
    ) -> Attempt | None:
        """Return the attempt on this base, as `Action.attempt` does; None if nothing changes.

        Args:
            base: the current metadata of the table.
            operation: returns the operation of the snapshot (`append`, `overwrite`, `delete`, `replace`).
            number: the number of the attempt, from 0.
            now_ms: the current time, in milliseconds since 1970-01-01 UTC.
            read: returns the bytes of a metadata file.
            check: called with the base and the filtered manifests; raises an error if the action does not allow these changes. None checks nothing.

        Raises:
            CommitInvalidatedError: a file that the commit removes, or deletes rows of, is not live in this base; a data file would have two deletion vectors;
                or a snapshot that is newer than the one that the commit was planned on violated a rule.
            InvalidInputError: the format version of the table does not allow a file.
        """
        changes, parent = self._changes, parent_snapshot(base, self._context.branch)
        if changes.is_empty:
            return None
        self._first_base = self._first_base or base
        filtered = FilteredManifests(removed_paths=set(changes.removed))
        self._write_added(base, filtered)
        reads_manifests = bool(changes.removed or changes.removed_deletes or changes.targets or changes.selects)
        if reads_manifests:
            self._filter_manifests(base, read_manifests(parent, read) if parent else (), filtered, read)
        checked = self._check_conflicts(base, self._first_base, filtered, read, is_retry=number > 0)
        if reads_manifests:
            self._check_live(base, filtered, read)
        if not filtered.removed_entries and not changes.added and not changes.added_deletes:
            return None  # the row filter or the partitions selected no file
        if check is not None:
            check(base, filtered)
        return snapshot_attempt(
            base,
            self._context,
            number=number,
            now_ms=now_ms,
            new_manifests=filtered.new_manifests,
            kept_manifests=filtered.kept_manifests if reads_manifests else None,
            operation=operation(filtered),
            added=(*changes.added, *changes.added_deletes),
            deleted=filtered.removed_files,
            further_summary=checked,
            read=read,
            merge_manager=self._merge_manager,
            replaced_count=filtered.replaced_count,
        )

    def _check_conflicts(
        self, base: TableMetadata, first_base: TableMetadata, filtered: FilteredManifests, read: Read, *, is_retry: bool
    ) -> dict[str, str]:
        """Check the conflict rules. Return the entries of the snapshot summary that record the checks; empty if there was no newer snapshot to check."""
        checked: dict[str, str] = {}
        changes = self._changes
        removed = [file for file in filtered.removed_files if file.content == FileContent.DATA and file.file_path in changes.removed]
        for number, rules in enumerate(self._rules):
            if rules.since is not None or rules.requires_history(changes):
                newer = newer_snapshots(base, self._context.branch, rules.since, first_base, read)
                checked_snapshots = self._checked[number, base.current_schema_id]
                check_conflicts(rules, base, newer.without(checked_snapshots), changes, removed)
                checked_snapshots.update(map(key_of, newer.snapshots))
                if newer.snapshots and (is_retry or rules.since is not None):
                    checked |= checks_summary(rules.checks(changes), rules.since)
        return checked

    def _write_added(self, base: TableMetadata, filtered: FilteredManifests) -> None:
        """Write the manifests of added files, or reuse those of an earlier attempt with the same format version."""
        if self._added is not None and self._added[0] == base.format_version:
            filtered.new_manifests += self._added[1]
            return
        files = (*self._changes.added, *self._changes.added_deletes)
        changes, is_v1 = self._changes, base.format_version == 1
        try:
            written = added_manifests(
                base,
                files,
                self._context,
                self._numbers,
                sequence_number=None if is_v1 else changes.sequence_number,
                delete_sequence_number=None if is_v1 else changes.delete_sequence_number,
            )
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
        self._merge_manager.add(written)
        self._added = (base.format_version, tuple(manifest for _, manifest in written))
        filtered.new_manifests += self._added[1]

    def _filter_manifests(self, base: TableMetadata, manifests: Sequence[ManifestFile], filtered: FilteredManifests, read: Read) -> None:
        """Remove files from the manifests: data files first, because deletes of one removed data file are removed with it."""
        selection = SelectedFiles(base, self._changes, self._first_base or base) if self._changes.selects else None
        kept_manifests: dict[int, ManifestFile] = {}
        # Manifests without live files are left out: they only record which files an older snapshot removed.
        live = [(index, manifest) for index, manifest in enumerate(manifests) if manifest.has_live_files]
        for index, manifest in sorted(live, key=lambda indexed: indexed[1].content is ManifestContent.DELETES):
            selected = selection.select(manifest, read) if selection else frozenset()
            is_delete = manifest.content == ManifestContent.DELETES
            filtered.selected_keys |= selected
            filtered.removed_paths |= set() if is_delete else {path for path, _ in selected}
            has_removed_files = self._delete_manifest_has_removed_files if is_delete else self._data_manifest_has_removed_files
            if has_removed_files(base, manifest, filtered, read) or selected:
                # The rewritten manifest takes the place of its source in the list, since only adjacent manifests are merged.
                kept_manifests[index] = self._rewrite_manifest(base, manifest, filtered, read)
            else:
                kept_manifests[index] = manifest
        filtered.kept_manifests += [kept_manifests[index] for index in sorted(kept_manifests)]

    def _rewrite_manifest(self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests, read: Read) -> ManifestFile:
        """Write a manifest without the removed files, or reuse the result of an earlier attempt."""
        key = (base.format_version, base.current_schema_id, manifest)
        # If a rule selects files, the delete files to remove depend on the data files that this attempt removes, so rewritten delete manifests are not reused.
        reusable = self._rewritten.get(key) if manifest.content is ManifestContent.DATA or not self._changes.selects else None
        if reusable is not None:
            rewritten, removed_entries = reusable
        else:
            new_manifest, removed_entries = without_files(
                base, manifest, lambda file: self._is_removed(file, filtered), self._context, self._numbers, read
            )
            rewritten = new_manifest[1]
            self._merge_manager.add([new_manifest])
            self._rewritten[key] = (rewritten, removed_entries)
        filtered.new_manifests.append(rewritten)
        filtered.removed_entries += removed_entries
        filtered.replaced_count += 1
        return rewritten

    def _is_removed(self, file: DataFile, filtered: FilteredManifests) -> bool:
        if file.content == FileContent.DATA:
            return file.file_path in filtered.removed_paths
        # Deletes that apply only to a removed data file are removed with it; the spec requires this for deletion vectors. Spec: Deletion Vectors.
        is_dangling = file.content == FileContent.POSITION_DELETES and file.referenced_data_file in filtered.removed_paths
        key = delete_key(file)
        return is_dangling or key in self._changes.removed_deletes or key in filtered.selected_keys

    def _data_manifest_has_removed_files(
        self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests, read: Read
    ) -> bool:
        """Return True if a data manifest contains a named file to remove. Record the targets of added deletes that it contains."""
        changes, targets = self._changes, self._changes.targets
        if manifest in self._unaffected:
            return False
        missing_targets = targets.keys() - filtered.live_targets
        if not (changes.removed and may_contain_partitions(base, manifest, changes.removed_partitions)) and not (
            missing_targets and may_contain_partitions(base, manifest, targets.values())
        ):
            return False
        entries = live_entries(base, manifest, read)
        if not pc.any(pc.is_in(entries["file_path"], value_set=self._named_paths)).as_py():
            self._note_unaffected(manifest)
            return False
        if missing_targets:
            target_entries = entries.filter(is_among(entries["file_path"], missing_targets))
            partition_type = spec_partition_type(base, manifest.partition_spec_id)
            for path, partition in zip(target_entries["file_path"].to_pylist(), partitions_of(target_entries, partition_type), strict=True):
                spec_id, expected = targets[path]
                if spec_id != manifest.partition_spec_id or not equal_partitions(expected, partition):
                    raise InvalidInputError(
                        f"the deletes of rows of {path} are of another partition than the file, so they would not apply", path=path
                    )
                filtered.live_targets.add(path)
        return bool(changes.removed) and bool(pc.any(is_among(entries["file_path"], changes.removed)).as_py())

    def _delete_manifest_has_removed_files(
        self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests, read: Read
    ) -> bool:
        """Return True if a delete manifest contains a named file to remove or deletes of one removed data file. Record other deletion vectors."""
        changes = self._changes
        if manifest in self._unaffected or not self._may_have_removed_deletes(base, manifest, filtered):
            return False
        entries = live_entries(base, manifest, read)
        file_scoped = entries.filter(
            pc.and_kleene(
                pc.equal(entries["content"], scalar_of(int(FileContent.POSITION_DELETES), pa.int32())),
                is_among(entries["referenced_data_file"], filtered.removed_paths | changes.vector_targets),
            )
        )
        for path, offset, target, snapshot_id in _rows(file_scoped, "file_path", "content_offset", "referenced_data_file", "snapshot_id"):
            if offset is not None and target in changes.vector_targets and (path, offset) not in changes.removed_deletes:
                filtered.other_vectors.append((target, (path, offset), snapshot_id))
        named = entries.filter(is_among(entries["file_path"], {path for path, _ in changes.removed_deletes}))
        if not file_scoped.num_rows and not named.num_rows:
            self._note_unaffected(manifest)
        if any(target in filtered.removed_paths for (target,) in _rows(file_scoped, "referenced_data_file")):
            return True
        return any(key in changes.removed_deletes for key in _rows(named, "file_path", "content_offset"))

    @cached_property
    def _named_paths(self) -> Any:
        """The paths of data files that the commit removes by name or deletes rows of."""
        return array_of(sorted({*self._changes.targets, *self._changes.removed}), pa.string())

    def _note_unaffected(self, manifest: ManifestFile) -> None:
        """Remember that the commit changes nothing in a manifest, so that retries skip it.

        If a rule selects files, nothing is remembered, because each attempt can select other files.
        """
        if not self._changes.selects:
            self._unaffected.add(manifest)

    def _may_have_removed_deletes(self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests) -> bool:
        """Return False if the partition summaries of a delete manifest show that it does not have any of the delete files that this commit must find."""
        changes = self._changes
        if changes.selects and filtered.removed_entries:
            removed_partitions = {(file.spec_id, file.partition) for file in filtered.removed_files}
            if may_contain_partitions(base, manifest, removed_partitions):
                return True
        if changes.removed and may_contain_partitions(base, manifest, changes.removed_partitions):
            return True
        if changes.removed_deletes:
            delete_partitions = {(file.spec_id, file.partition) for file in changes.removed_deletes.values()}
            if may_contain_partitions(base, manifest, delete_partitions):
                return True
        return bool(changes.vector_targets) and may_contain_partitions(base, manifest, changes.targets.values())

    def _check_live(self, base: TableMetadata, filtered: FilteredManifests, read: Read) -> None:
        """Check that all named files were live, and that no data file would have two deletion vectors."""
        for target, (path, offset), snapshot_id in filtered.other_vectors:
            raise CommitInvalidatedError(
                f"{target} has a deletion vector already, in {path} at byte {offset}, that this commit does not replace; a data file has at most one",
                path=target,
                snapshot_id=snapshot_id,
                problems=(
                    Problem(where="expected", what=f"{target} without a deletion vector, or one that this commit removes"),
                    Problem(where="found", what=f"{path} at byte {offset}, added by snapshot {snapshot_id}"),
                ),
                next_step="a retry will fail again: refresh the table, merge that vector into the new one, and remove it in the same commit",
            )
        changes = self._changes
        data_paths = {file.file_path for file in filtered.removed_files if file.content == FileContent.DATA}
        delete_keys: set[DeleteKey] = {delete_key(file) for file in filtered.removed_files if file.content != FileContent.DATA}
        branch = self._context.branch
        for path in sorted(changes.removed - data_paths):
            raise no_longer_live(base, branch, path, "a file to remove", ManifestContent.DATA, read)
        for path, _ in sorted(changes.removed_deletes.keys() - delete_keys, key=str):
            raise no_longer_live(base, branch, path, "a file to remove", ManifestContent.DELETES, read)
        for path in sorted(changes.targets.keys() - filtered.live_targets):
            raise no_longer_live(base, branch, path, "a file to delete rows of", ManifestContent.DATA, read)


def _rows(entries: "pa.Table", *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(entries[name].to_pylist() for name in names), strict=True))
