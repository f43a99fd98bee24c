"""`SnapshotPlanner`: converts the findings about a branch's newest snapshot to changes of its entries and manifests, repair by repair.

Each handler reads the entry that a finding names and records what its repair changes there. The changes of a repair that is not chosen are only listed in the
plan. If data files are dropped, deletes that apply to no other file are dropped with them. Spec: Snapshots; Manifests; Scan Planning.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from icefloe.checks import repair_kinds as kinds
from icefloe.checks.delete_rules import DANGLING_DELETE, DANGLING_VECTOR, DeleteCheck, SnapshotWithDeletes
from icefloe.checks.finding import Finding
from icefloe.checks.manifest_check import total_of
from icefloe.checks.repair_kinds import RepairKind
from icefloe.commit.new_manifest import ManifestNumbers, merge_rules
from icefloe.commit.snapshot_attempt import path_of_partition
from icefloe.datafile.deletes.delete_file_reader import spellings
from icefloe.datafile.deletes.delete_loader import target_of
from icefloe.errors import (
    DataFileFormatError,
    FormatError,
    NoSuchFileError,
    OutOfMemoryError,
    StorageError,
    StorageUnavailableError,
    UnsupportedError,
)
from icefloe.io.locations import LocationScope, folders_of
from icefloe.operations.metadata_cache import LoadedMetadata
from icefloe.operations.rows.write_context import snapshot_context
from icefloe.operations.table_handle import TableHandle
from icefloe.repair.entry_correction import EntryCorrection
from icefloe.repair.head_snapshot import HeadSnapshot, LivePlace, read_head
from icefloe.repair.lost_manifests import LostManifests
from icefloe.repair.repair_plan import RepairChange
from icefloe.repair.repaired_snapshot import ManifestEdits, RebuiltManifest, SnapshotEdits, build_manifests, entries_of
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntry
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Operation, Snapshot
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type

# Repairs that change which rows a scan returns, apart from the loss of the rows of lost files.
_ROWS_CHANGE = frozenset(
    kind.id
    for kind in (
        kinds.DROP_LOST_DELETE_FILES,
        kinds.DROP_DAMAGED_FILES,
        kinds.DROP_DUPLICATE_ENTRIES,
        kinds.DROP_LOST_MANIFESTS,
        kinds.REBUILD_MANIFESTS_FROM_FILES,
        kinds.CORRECT_ROW_COUNTS,
    )
)
# Repairs that can drop the last data file to which a delete file applies.
_DROPS = (kinds.DROP_LOST_DATA_FILES, kinds.DROP_UNREACHABLE_DATA_FILES, kinds.DROP_DAMAGED_FILES, kinds.DROP_LOST_MANIFESTS)
_EntryPlace = tuple[str, int]
_Use = tuple[bool, int, Hashable]  # whether it is a delete file, the offset of its deletion vector, the partition to which it applies


@dataclass(slots=True)
class Recorded:
    """What one repair changes, and the ids of the rules that are violated there."""

    changes: list[RepairChange] = field(default_factory=list)
    rules: set[str] = field(default_factory=set)


class SnapshotPlanner:
    """Plans the repairs of one snapshot."""

    def __init__(self, handle: TableHandle, loaded: LoadedMetadata, branch: str, snapshot: Snapshot, chosen: frozenset[str]) -> None:
        """Prepare to plan.

        Args:
            handle: The table.
            loaded: The metadata of the table.
            branch: The name of the branch.
            snapshot: The newest snapshot of the branch.
            chosen: The ids of the chosen repairs.
        """
        self._handle = handle
        self._metadata = loaded.metadata
        self._branch = branch
        self._snapshot = snapshot
        self._chosen = chosen
        self._partition = path_of_partition(loaded.metadata)
        self._entries: dict[str, list[ManifestEntry] | None] = {}
        self._edits: dict[str, ManifestEdits] = {}
        self._dropped: set[str] = set()
        self._rebuilt: list[RebuiltManifest] = []
        self._head = HeadSnapshot(snapshot)
        self.recorded: dict[str, Recorded] = {}
        self.left: dict[str, list[str]] = defaultdict(list)

    def plan(self, findings: Sequence[Finding]) -> SnapshotEdits | None:
        """Record the repairs of findings in `recorded`, and the reasons why findings are not repaired in `left`.

        Args:
            findings: What is wrong with the snapshot.

        Returns:
            The changes of the chosen repairs; None if they change nothing.

        Raises:
            StorageUnavailableError: The storage does not respond.
        """
        by_rule: dict[str, list[Finding]] = defaultdict(list)
        for finding in findings:
            by_rule[finding.rule].append(finding)
        self._head = read_head(self._handle.io, self._metadata, self._snapshot, self._paths_to_find(by_rule))
        if not self._head.is_whole:
            return None
        self._lost_manifests(by_rule)
        self._rewritten(by_rule)
        self._duplicates(by_rule)
        self._lost_files(by_rule)
        self._corrections(by_rule)
        self._plan_partition_moves(by_rule)
        self._dangling(by_rule)
        for rule in kinds.CORRECT_TOTALS.rules:
            for finding in by_rule.get(rule, ()):
                self._record(kinds.CORRECT_TOTALS, rule, RepairChange(what=finding.message))
        self._dangling_then()
        done = tuple(kind.id for kind in kinds.REPAIRS if kind.id in self.recorded and kind.id in self._chosen)
        return self._snapshot_edits(done) if done else None

    def _snapshot_edits(self, done: tuple[str, ...]) -> SnapshotEdits:
        operation = Operation.REPLACE
        if set(done) & _ROWS_CHANGE:
            operation = Operation.OVERWRITE
        elif {kinds.DROP_LOST_DATA_FILES.id, kinds.DROP_UNREACHABLE_DATA_FILES.id} & set(done):
            operation = Operation.DELETE
        return SnapshotEdits(
            snapshot_id=self._snapshot.snapshot_id,
            repairs=done,
            operation=operation.value,
            manifests=tuple(self._head.manifests.values()),
            totals=self._head.totals,
            edits=self._edits,
            dropped=frozenset(self._dropped),
            rebuilt=tuple(self._rebuilt),
        )

    def _record(self, kind: RepairKind, rule: str, change: RepairChange) -> bool:
        """Record a change for the plan, and return whether its repair is chosen."""
        recorded = self.recorded.setdefault(kind.id, Recorded())
        recorded.changes.append(change)
        recorded.rules.add(rule)
        return kind.id in self._chosen

    def _edits_of(self, manifest: str) -> ManifestEdits:
        return self._edits.setdefault(manifest, ManifestEdits())

    def _entry(self, finding: Finding) -> tuple[_EntryPlace, ManifestEntry] | None:
        """Return the place and the entry that a finding is about; None if it is not live, or if its manifest cannot be read or written again."""
        if finding.file is None or finding.entry is None:
            return None
        entries = self._entries_of(finding.file)
        if entries is None or finding.entry >= len(entries):
            return None
        entry = entries[finding.entry]
        return ((finding.file, finding.entry), entry) if entry.is_live else None

    def _entries_of(self, path: str) -> list[ManifestEntry] | None:
        if path not in self._entries:
            manifest = self._head.manifests.get(path)
            if manifest is not None and not self._can_be_written(manifest):
                manifest = None
            try:
                self._entries[path] = None if manifest is None else entries_of(manifest, self._metadata, self._handle.io.read)
            except (FormatError, UnsupportedError, NoSuchFileError):
                self._entries[path] = None
        return self._entries[path]

    def _can_be_written(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest can be written again: it is not encrypted, and its partition spec has no unknown transform."""
        return manifest.key_metadata is None and manifest.partition_spec_id not in merge_rules(self._metadata).unmergeable_specs

    def _folder(self, file: DataFile) -> str:
        return self._partition(file.spec_id, file.partition)

    def _dropped_file(self, what: str, file: DataFile) -> RepairChange:
        is_data = file.content is FileContent.DATA
        return RepairChange(
            what=what,
            path=file.file_path,
            partition=self._folder(file),
            rows_lost=file.record_count if is_data else 0,
            rows_back=0 if is_data else file.record_count,
        )

    def _is_changed(self, place: _EntryPlace) -> bool:
        edits = self._edits.get(place[0])
        return edits is not None and (place[1] in edits.removed or place[1] in edits.left_out)

    # Manifests

    def _lost_manifests(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        lost: dict[str, str] = {}
        for rule in kinds.DROP_LOST_MANIFESTS.rules:
            for finding in by_rule.get(rule, ()):
                if finding.file in self._head.manifests:
                    lost.setdefault(finding.file, rule)
        if not lost:
            return
        known = LostManifests(self._handle, self._metadata, self._head, lost)
        for path, rule in lost.items():
            manifest = self._head.manifests[path]
            self._lost_manifest(known, manifest, rule)

    def _lost_manifest(self, known: LostManifests, manifest: ManifestFile, rule: str) -> None:
        reasons: list[str] = []
        rebuilt, why = known.from_snapshots(manifest)
        if rebuilt is not None:
            change = RepairChange(what=f"{len(rebuilt.entries)} entries are in manifests of other snapshots", path=manifest.manifest_path)
            if self._record(kinds.REBUILD_MANIFESTS, rule, change):
                self._rebuilt.append(rebuilt)
                return
        else:
            reasons.append(why)
            from_files, why = known.from_files(manifest)
            if from_files is not None:
                change = RepairChange(what=f"{len(from_files.entries)} data files have its counts", path=manifest.manifest_path)
                if self._record(kinds.REBUILD_MANIFESTS_FROM_FILES, rule, change):
                    self._rebuilt.append(from_files)
                    return
            else:
                reasons.append(why)
        rows, is_data = manifest.live_rows_count, manifest.content is ManifestContent.DATA
        change = RepairChange(
            what=f"the {manifest.live_files_count} files of the manifest leave the table",
            path=manifest.manifest_path,
            rows_lost=rows if is_data else 0,
            rows_back=0 if is_data else rows,
        )
        if self._record(kinds.DROP_LOST_MANIFESTS, rule, change):
            self._dropped.add(manifest.manifest_path)
        else:
            self.left[rule] += reasons

    def _rewritten(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        # An Avro file that was cut between two blocks looks complete, with fewer entries.
        lengths, counts = ({finding.file for finding in by_rule.get(rule, ())} for rule in ("manifest-length", "manifest-file-count"))
        cut = lengths & counts
        for rule in kinds.REWRITE_MANIFESTS.rules:
            for finding in by_rule.get(rule, ()):
                # A finding about an entry of a manifest list has the list as `file`, and the manifest as `path`.
                path = next((path for path in (finding.path, finding.file) if path in self._head.manifests), None)
                if path is None or self._entries_of(path) is None:
                    self.left[rule].append("its manifest cannot be read")
                elif path in cut:
                    self.left[rule].append("the manifest may have been cut: both its length and its counts differ from its list")
                elif self._record(kinds.REWRITE_MANIFESTS, rule, RepairChange(what=finding.message, path=path)):
                    self._edits_of(path)

    # Entries

    def _paths_to_find(self, by_rule: Mapping[str, Sequence[Finding]]) -> set[str]:
        """Return the paths of the files whose entries must be searched in all manifests of the snapshot."""
        chosen_paths = {finding.path for finding in by_rule.get("file-twice", ()) if finding.path is not None}
        for finding in by_rule.get("delete-partition", ()):
            target = self._target_of_finding(finding)
            chosen_paths.update(() if target is None else spellings(target))
        return chosen_paths

    def _target_of_finding(self, finding: Finding) -> str | None:
        if finding.file is None or finding.entry is None:
            return None
        # The first finding reads the manifest list, because the entry is read through its manifest.
        if not self._head.manifests:
            self._head = read_head(self._handle.io, self._metadata, self._snapshot, ())
        manifest_entry = self._entry(finding)
        return None if manifest_entry is None else target_of(manifest_entry[1].data_file)

    def _duplicates(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        for path in sorted(self._head.repeated):
            if self._record(
                kinds.DROP_DUPLICATE_ENTRIES, "manifest-twice", RepairChange(what="the list names the manifest twice", path=path)
            ):
                continue  # every new manifest list has each manifest once
        for path in dict.fromkeys(finding.path for finding in by_rule.get("file-twice", ()) if finding.path is not None):
            by_use: dict[_Use, list[LivePlace]] = defaultdict(list)
            for place in self._head.places.get(path, ()):
                by_use[self._use_of(place)].append(place)
            for (is_delete, _, _), places in by_use.items():
                # The oldest entry of a data file is kept, because all later deletes apply to it; of a delete file the newest, which applies to most files.
                sign = -1 if is_delete else 1
                self._duplicate(path, sorted(places, key=lambda place: (sign * place.sequence_number, place.manifest, place.position)))
            if all(len(places) == 1 for places in by_use.values()):
                self.left["file-twice"].append("its entries are for different partitions, or their manifests cannot be written again")

    def _use_of(self, place: LivePlace) -> _Use:
        """Return a key of what an entry is used for. Only entries with equal keys are duplicates.

        Entries of a delete file in different partitions apply to different data files, so that neither can replace the other.
        """
        if self._head.manifests[place.manifest].content is ManifestContent.DATA:
            return False, place.offset, None
        entries = self._entries_of(place.manifest)
        file = None if entries is None else entries[place.position].data_file
        return True, place.offset, place if file is None else (file.spec_id, repr(file.partition))

    def _duplicate(self, path: str, places: Sequence[LivePlace]) -> None:
        for place in places[1:]:
            entries = self._entries_of(place.manifest)
            if entries is None:
                self.left["file-twice"].append("its manifest cannot be written again")
                continue
            file = entries[place.position].data_file
            what = f"the entry of sequence number {places[0].sequence_number} stays, that of {place.sequence_number} is left out"
            change = RepairChange(what=what, path=path, partition=self._folder(file))
            if self._record(kinds.DROP_DUPLICATE_ENTRIES, "file-twice", change):
                self._edits_of(place.manifest).left_out.add(place.position)

    def _lost_files(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        lost: list[tuple[_EntryPlace, DataFile]] = []
        for finding in by_rule.get("file-missing", ()):
            manifest_entry = self._entry(finding)
            if manifest_entry is None or not self._is_gone(manifest_entry[1].data_file.file_path):
                self.left["file-missing"].append("that the file does not exist could not be confirmed")
            elif not self._is_changed(manifest_entry[0]):
                lost.append((manifest_entry[0], manifest_entry[1].data_file))
        kind_of_data = self._kind_of_lost([file for _, file in lost if file.content is FileContent.DATA])
        for place, file in lost:
            kind = kind_of_data if file.content is FileContent.DATA else kinds.DROP_LOST_DELETE_FILES
            if self._record(kind, "file-missing", self._dropped_file("the file does not exist", file)):
                self._edits_of(place[0]).removed.add(place[1])
        for rule in kinds.DROP_DAMAGED_FILES.rules:
            for finding in by_rule.get(rule, ()):
                manifest_entry = self._entry(finding)
                if manifest_entry is None or self._is_changed(manifest_entry[0]):
                    continue
                place, entry = manifest_entry
                if self._record(kinds.DROP_DAMAGED_FILES, rule, self._dropped_file(finding.message, entry.data_file)):
                    self._edits_of(place[0]).removed.add(place[1])

    def _kind_of_lost(self, files: Sequence[DataFile]) -> RepairKind:
        """Return the repair for data files that do not exist: one that must be named if their storage is probably only out of reach."""
        total = total_of(self._head.totals.values()).data_files
        location = LocationScope(folders_of([self._metadata.location]))
        are_inside = all(location.each(file.file_path for file in files))
        return kinds.DROP_LOST_DATA_FILES if are_inside and 2 * len(files) <= total else kinds.DROP_UNREACHABLE_DATA_FILES

    def _is_gone(self, path: str) -> bool:
        """Confirm by a new request that a file does not exist. If access is denied, the file may exist."""
        try:
            self._handle.io.size(path)
        except NoSuchFileError:
            return True
        except StorageError:
            return False
        return False

    def _corrections(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        wrong: dict[_EntryPlace, list[Finding]] = defaultdict(list)
        damaged = {(finding.file, finding.entry) for rule in kinds.DROP_DAMAGED_FILES.rules for finding in by_rule.get(rule, ())}
        for rule in kinds.CORRECT_ENTRIES.rules:
            for finding in by_rule.get(rule, ()):
                if finding.file is None or finding.entry is None or (finding.file, finding.entry) in damaged:
                    self.left[rule].append("the file is damaged, so that its entry cannot be measured")
                else:
                    wrong[finding.file, finding.entry].append(finding)
        correction = EntryCorrection(self._metadata, self._handle.io, self._handle.table_name) if wrong else None
        for place, findings in wrong.items():
            manifest_entry = self._entry(findings[0])
            if manifest_entry is None or self._is_changed(place) or correction is None:
                continue
            file = manifest_entry[1].data_file
            try:
                values = correction.fields(file, findings)
                why = "the file may have been cut, or its rows would get the row ids of others"
            except StorageUnavailableError:
                raise
            except (DataFileFormatError, NoSuchFileError, OutOfMemoryError, StorageError) as error:
                values, why = None, f"the file cannot be read: {error.message}"
            if not values:
                for finding in findings:
                    self.left[finding.rule].append(why)
                continue
            what = f"{', '.join(sorted(values))} of entry {place[1]} are written again"
            change = RepairChange(what=what, path=file.file_path, partition=self._folder(file))
            rules = {finding.rule for finding in findings}
            kind = kinds.CORRECT_ENTRIES if self._is_same_file(rules) else kinds.CORRECT_ROW_COUNTS
            if self._record(kind, findings[0].rule, change):
                self._edits_of(place[0]).values.setdefault(place[1], {}).update(values)
            self.recorded[kind.id].rules.update(rules)

    def _is_same_file(self, rules: set[str]) -> bool:
        """Return whether a file certainly is the one that was committed.

        A wrong row count raises doubts, unless the file has the stated size and the snapshot has no position deletes, which could apply to wrong rows.
        """
        if "file-row-count" not in rules:
            return True
        totals = self._head.totals.values()
        return "file-size" not in rules and all(total is not None and not total.position_deletes for total in totals)

    # Deletes

    def _plan_partition_moves(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        for finding in by_rule.get("delete-partition", ()):
            manifest_entry = self._entry(finding)
            target = None if manifest_entry is None else self._data_file(target_of(manifest_entry[1].data_file))
            if manifest_entry is None or target is None or self._is_changed(manifest_entry[0]):
                self.left["delete-partition"].append("its data file is not known")
                continue
            place, entry = manifest_entry
            what = f"the partition becomes {self._folder(target)} of spec {target.spec_id}, that of {target.file_path}"
            change = RepairChange(what=what, path=entry.data_file.file_path, partition=self._folder(entry.data_file))
            if not self._record(kinds.MOVE_DELETES, "delete-partition", change):
                continue
            edits = self._edits_of(place[0])
            if target.spec_id == entry.data_file.spec_id:
                edits.values.setdefault(place[1], {})["partition"] = target.partition
            else:
                edits.moved[place[1]] = (target.spec_id, target.partition)

    def _data_file(self, target: str | None) -> DataFile | None:
        for spelling in () if target is None else spellings(target):
            for place in self._head.places.get(spelling, ()):
                entries = self._entries_of(place.manifest)
                if entries is not None:
                    return entries[place.position].data_file
        return None

    def _dangling(self, by_rule: Mapping[str, Sequence[Finding]]) -> None:
        for rule in kinds.DROP_DANGLING_DELETES.rules:
            for finding in by_rule.get(rule, ()):
                manifest_entry = self._entry(finding)
                if manifest_entry is not None and not self._is_changed(manifest_entry[0]):
                    self._drop_dangling(*manifest_entry, rule, finding.message)

    def _drop_dangling(self, place: _EntryPlace, entry: ManifestEntry, rule: str, message: str) -> None:
        change = RepairChange(what=message, path=entry.data_file.file_path, partition=self._folder(entry.data_file))
        if self._record(kinds.DROP_DANGLING_DELETES, rule, change):
            self._edits_of(place[0]).removed.add(place[1])

    def _dangling_then(self) -> None:
        """Drop the delete files that apply to no data file after the chosen drops. The new manifests are built in memory and checked for such delete files."""
        cause = next((kind for kind in _DROPS if kind.id in self.recorded and kind.id in self._chosen), None)
        is_whole = all(self._head.totals.get(path) is not None or self._is_replaced(path) for path in self._head.manifests)
        if cause is None or not is_whole:
            return
        edits = self._snapshot_edits(())
        context = snapshot_context(self._handle, self._metadata, {}, self._branch)
        built = build_manifests(self._metadata, edits, context, ManifestNumbers(context), self._handle.io.read)
        contents = {file.location: file.content for file, _ in built.manifests}

        def read(path: str) -> bytes:
            return contents[path] if path in contents else self._handle.io.read(path)

        sources = {line.manifest_path: source for source, (_, line) in built.by_source.items()}
        number = self._metadata.next_sequence_number
        manifests = [manifest for path, manifest in self._head.manifests.items() if path not in edits.replaced]
        manifests += [line for _, line in built.manifests]
        types = {spec.spec_id: spec_partition_type(self._metadata, spec.spec_id) for spec in self._metadata.partition_specs}
        check = DeleteCheck(read=read, partition_types=types)
        for finding in check.findings([SnapshotWithDeletes(snapshot_id=number, manifests=manifests, is_whole=True)]):
            if finding.rule in (DANGLING_DELETE.id, DANGLING_VECTOR.id) and finding.path is not None:
                self._drop_by_path(sources.get(finding.file or "", finding.file or ""), finding, cause)

    def _is_replaced(self, path: str) -> bool:
        return path in self._dropped or any(rebuilt.lost.manifest_path == path for rebuilt in self._rebuilt)

    def _drop_by_path(self, source: str, finding: Finding, cause: RepairKind) -> None:
        """Drop the delete file of a finding about a new manifest, as part of another repair.

        Args:
            source: The path of the old manifest that the new one replaces.
            finding: The finding. Its `entry` is the position in the new manifest.
            cause: The repair that made the delete file useless.
        """
        kept = list(self._kept(source))
        if finding.entry is None or finding.entry >= len(kept):
            return
        place, entry = kept[finding.entry]
        if entry.data_file.file_path == finding.path and not self._is_changed(place):
            file = entry.data_file
            what = "it applies to no other data file than dropped ones"
            self.recorded[cause.id].changes.append(RepairChange(what=what, path=file.file_path, partition=self._folder(file)))
            self._edits_of(place[0]).removed.add(place[1])

    def _kept(self, source: str) -> Iterator[tuple[_EntryPlace, ManifestEntry]]:
        """Yield the old entries that the new manifest has, in its order; all entries if the manifest is not written again."""
        edits = self._edits.get(source)
        for position, entry in enumerate(self._entries_of(source) or ()):
            if edits is None or (entry.is_live and position not in edits.left_out and position not in edits.moved):
                yield (source, position), entry
