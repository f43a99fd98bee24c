"""`MergingSnapshotProducer`: applies file changes to a base table as one new snapshot. JAVA: MergingSnapshotProducer, ManifestFilterManager.

Each attempt does four steps: (1) write manifests of the added files, once; (2) filter the manifests of the parent: rewrite those with files to remove; (3)
validate against the newer snapshots of the branch, and check that all files to remove are live; (4) merge manifests and create the snapshot. Delete files that
apply to one removed data file only are removed with it.

The operations `overwrite.py`, `replace_partitions.py`, `row_delta.py` and `rewrite_files.py` use it. A commit that only adds data files is `append.py`; the
conflict rules are `conflicts.py`, new and merged manifests `new_manifest.py`, the snapshot itself is `snapshot_attempt.py`.
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
from icefloe.commit.conflicts import Rules, check_conflicts, each_rule
from icefloe.commit.file_changes import DeleteKey, FileChanges, delete_key
from icefloe.commit.live_entries import equal_partitions, is_among, live_entries, may_contain_partitions, partitions_of
from icefloe.commit.new_manifest import ManifestMergeManager, ManifestNumbers, added_manifests, without_files
from icefloe.commit.newer_snapshots import SnapshotKey, key_of, newer_snapshots, no_longer_live
from icefloe.commit.retry_record import checks_summary
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
    """The manifests of one base after a commit's files were removed from them, and the files that were found in them.

    Attributes:
        new_manifests: manifests that the commit wrote: of added files, and rewritten ones.
        kept_manifests: the manifests of the parent in order, with rewritten ones in the places of their sources.
        removed_entries: the live entries that the commit removes, as they were before.
        live_targets: paths of live data files that added deletes refer to.
        removed_paths: paths of data files to remove, by name or by a rule.
        selected_keys: keys of files that a rule removes.
        other_vectors: live deletion vectors that the commit neither added nor removes, of data files for which it adds one: the path of the data file, the key
            of the vector, the snapshot that added it.
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
        self._first_base: TableMetadata | None = None  # of the first attempt
        self._merge_manager = ManifestMergeManager(context, numbers)
        self._added: tuple[int, tuple[ManifestFile, ...]] | None = None  # with the format version they were written in
        self._rewritten: dict[tuple[int, int, ManifestFile], tuple[ManifestFile, list[ManifestEntry]]] = {}
        # What earlier attempts have read and found harmless, so that a retry reads only what is new. Beside fast writers an attempt that reads everything again
        # takes longer each time, and never wins. By the number of the rules and the id of the schema that their filter is bound to: the checked snapshots.
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
            now_ms: the current time, in milliseconds since 1970 (UTC).
            read: returns the bytes of a metadata file.
            check: raises an error if the action does not allow these changes of this base.

        Raises:
            CommitInvalidatedError: a file to remove or to delete rows of is not live in this base, a data file would have two deletion vectors, or a newer
                snapshot than the one that the commit was planned on violated a rule.
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
            return None  # the rule selected no file
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
        """Check the rules, and return what the summary records of it: nothing where there was no newer snapshot to check."""
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
        # Manifests without live files only record which files a snapshot removed; the new snapshot does not list them.
        live = [(index, manifest) for index, manifest in enumerate(manifests) if manifest.has_live_files]
        for index, manifest in sorted(live, key=lambda indexed: indexed[1].content is ManifestContent.DELETES):
            selected = selection.select(manifest, read) if selection else frozenset()
            is_delete = manifest.content == ManifestContent.DELETES
            filtered.selected_keys |= selected
            filtered.removed_paths |= set() if is_delete else {path for path, _ in selected}
            has_removed_files = self._delete_manifest_has_removed_files if is_delete else self._data_manifest_has_removed_files
            if has_removed_files(base, manifest, filtered, read) or selected:
                # The rewritten manifest has the place of its source, since only adjacent manifests are merged.
                kept_manifests[index] = self._rewrite_manifest(base, manifest, filtered, read)
            else:
                kept_manifests[index] = manifest
        filtered.kept_manifests += [kept_manifests[index] for index in sorted(kept_manifests)]

    def _rewrite_manifest(self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests, read: Read) -> ManifestFile:
        """Write a manifest without the removed files, or reuse the result of an earlier attempt."""
        key = (base.format_version, base.current_schema_id, manifest)
        # Which delete files a rule removes depends on the removed data files of the attempt, so those manifests are not reused.
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
        # Deletes that apply to a removed data file only are removed with it; for deletion vectors the spec requires this. Spec: Deletion Vectors.
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
        """Note a manifest that this commit has nothing to do with, unless a rule selects files: what it removes depends on the attempt."""
        if not self._changes.selects:
            self._unaffected.add(manifest)

    def _may_have_removed_deletes(self, base: TableMetadata, manifest: ManifestFile, filtered: FilteredManifests) -> bool:
        """Return False if the partition summaries of a delete manifest exclude all delete files that this commit must find."""
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
