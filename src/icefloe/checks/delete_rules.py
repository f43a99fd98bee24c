"""Rules of the delete files of one snapshot: to which data files each delete file applies, and whether all engines agree on that.

Each manifest is read once, however many snapshots have it. All delete files stay in memory; of the data files only those that a delete file refers to, and the
least sequence number of each partition. `delete_file_rules.py` checks the content of delete files. Spec: Row-level Deletes; Deletion Vectors; Scan Planning.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.checks.finding import Finding, Severity
from icefloe.checks.issue import Remedy
from icefloe.checks.rule import FindingPlace, Level, RuleGroup, value_text
from icefloe.datafile.deletes.delete_file_reader import plain_location, spellings
from icefloe.errors import FormatError, NoSuchFileError, StoragePermissionError, UnsupportedError
from icefloe.scan.delete_file_index import PATH_BOUNDS, path_of_bounds
from icefloe.scan.file_objects import partition_tuples
from icefloe.spec.arrow_values import array_of_chunks, fill_nulls, mask_array, numpy_of
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import partition_column
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.ports import Read
from icefloe.spec.types import StructType

_REMOVE = "remove the delete file: remove_dangling_deletes and icefloe repair do so"
_REMEDY = Remedy(operation=MaintenanceAction.REMOVE_DANGLING_DELETES)


_rule = RuleGroup(level=Level.DELETE_FILE).rule


DANGLING_DELETE = _rule(
    "dangling-delete",
    Severity.NOTE,
    "Every delete file applies to a live data file of its snapshot.",
    "Scans read the delete file without need, and counts need a scan because the table has deletes.",
    section="Row-level Deletes",
    next_step=_REMOVE,
    remedy=_REMEDY,
)
DANGLING_VECTOR = _rule(
    "dangling-vector",
    Severity.WARNING,
    "The data file of a deletion vector is live: a writer that removes the data file removes its vector.",
    "Scans read the vector without need; a file that is written again at the path loses rows.",
    section="Deletion Vectors",
    next_step=_REMOVE,
    remedy=_REMEDY,
)
DELETE_PARTITION = _rule(
    "delete-partition",
    Severity.ERROR,
    "A delete file that refers to one data file has the partition spec and the partition of that data file.",
    "Engines that match deletes by partition return the deleted rows, and Java's Iceberg fails from 1.12 on.",
    section="Scan Planning",
    next_step="let icefloe repair write the entry again, or rewrite the data file with its deletes",
)
REPLACED_DELETES = _rule(
    "position-deletes-replaced",
    Severity.WARNING,
    "A deletion vector replaces the position delete files of its data file: none is live beside it.",
    "Scans ignore the position deletes; a vector that lacks some of them returns deleted rows.",
    section="Deletion Vectors",
    next_step="rewrite the data file with its deletes, for example by rewrite_data_files",
)
TWO_VECTORS = _rule(
    "two-deletion-vectors",
    Severity.ERROR,
    "A data file has at most one deletion vector in a snapshot.",
    "Engines fail on the data file, or apply one of the vectors and return the rows that the other deletes.",
    section="Deletion Vectors",
    next_step="roll the table back to the snapshot before the second vector",
)
RULES = (DANGLING_DELETE, DANGLING_VECTOR, DELETE_PARTITION, REPLACED_DELETES, TWO_VECTORS)

_READ_ERRORS = (FormatError, UnsupportedError, NoSuchFileError, StoragePermissionError)
_NEVER = 2**63  # greater than every sequence number
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Delete:
    """A live delete file.

    Attributes:
        manifest: The location of its manifest.
        entry: The number of its entry in the manifest.
        path: Its location.
        content: Its content: position or equality deletes.
        is_vector: Whether it is a deletion vector.
        partition: The id of its partition spec, then the values of its partition.
        is_unpartitioned: Whether its partition spec has no fields.
        sequence_number: Its data sequence number; None if unknown.
        target: The one data file that it applies to, as `plain_location` returns it; None if it may apply to several.
    """

    manifest: str
    entry: int
    path: str
    content: FileContent
    is_vector: bool
    partition: Key
    is_unpartitioned: bool
    sequence_number: int | None
    target: str | None

    def place(self, snapshot_id: int) -> FindingPlace:
        """Return the place of a finding about this delete file in a snapshot."""
        return FindingPlace(snapshot_id=snapshot_id, file=self.manifest, entry=self.entry, path=self.path)


@dataclass(frozen=True, slots=True)
class _Target:
    """The partition and the data sequence number of a live data file that a delete file refers to."""

    partition: Key
    sequence_number: int | None


@dataclass(frozen=True, slots=True)
class _DataFiles:
    """The live data files of a manifest, reduced to what is compared with delete files.

    Attributes:
        targets: The data files that a delete file refers to, by location as `plain_location` returns it.
        oldest: The least data sequence number of each partition.
    """

    targets: dict[str, _Target] = field(default_factory=dict)
    oldest: dict[Key, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SnapshotFiles:
    """The live files of a snapshot, as far as they can be read.

    Attributes:
        snapshot_id: The id of the snapshot.
        deletes: The delete files.
        targets: The data files that delete files refer to, by location as `plain_location` returns it.
        oldest: The least data sequence number of the data files of each partition.
        is_whole: False if a manifest could not be read, so that files may be missing here.
    """

    snapshot_id: int
    deletes: list[_Delete]
    targets: dict[str, _Target]
    oldest: dict[Key, int]
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWithDeletes:
    """A snapshot whose delete files are to be checked.

    Attributes:
        snapshot_id: The id of the snapshot.
        manifests: Its manifests, as far as its manifest list can be read.
        is_whole: Whether `manifests` has all manifests of the snapshot.
    """

    snapshot_id: int
    manifests: Sequence[ManifestFile]
    is_whole: bool


@dataclass(frozen=True, kw_only=True)
class DeleteCheck:
    """Checks the delete files of snapshots.

    Attributes:
        read: Returns the bytes of the manifest at a location.
        partition_types: The types of partition tuples by spec id, without specs that cannot be read.
    """

    read: Read
    partition_types: Mapping[int, StructType]

    def findings(self, snapshots: Sequence[SnapshotWithDeletes]) -> Iterator[Finding]:
        """Yield the findings about the delete files of snapshots. Each manifest is read once.

        Manifests that cannot be read are skipped: the check of manifests reports them.

        Args:
            snapshots: The snapshots, which may share manifests.
        """
        checked = [
            snapshot for snapshot in snapshots if any(manifest.content is ManifestContent.DELETES for manifest in snapshot.manifests)
        ]
        by_path = {manifest.manifest_path: manifest for snapshot in checked for manifest in snapshot.manifests}
        deletes = {path: self._deletes(manifest) for path, manifest in by_path.items() if manifest.content is ManifestContent.DELETES}
        every = [delete for some in deletes.values() for delete in some or ()]
        if not every:
            return
        targets = {delete.target for delete in every if delete.target}
        paths = pa.array([name for target in targets for name in spellings(target)], pa.string())
        has_partition_deletes = any(delete.target is None and not delete.is_vector for delete in every)
        data = {
            path: self._data_files(manifest, paths, counts_partitions=has_partition_deletes)
            for path, manifest in by_path.items()
            if manifest.content is ManifestContent.DATA
        }
        for checked_snapshot in checked:
            files = _files_of(checked_snapshot, deletes, data)
            yield from _two_vectors(files)
            yield from _replaced_deletes(files)
            for delete in files.deletes:
                yield from _delete_findings(delete, files)

    def _entries(self, manifest: ManifestFile) -> Any:
        """Return all entries of a manifest as an Arrow table, deleted ones included; None if the manifest cannot be read."""
        partition_type = self.partition_types.get(manifest.partition_spec_id)
        if partition_type is None:
            return None
        statistics = PATH_BOUNDS if manifest.content is ManifestContent.DELETES else ()
        try:
            content = self.read(manifest.manifest_path)
            return read_columns(content, without_counts(manifest, len(content)), partition_type, statistics=statistics).entries
        except _READ_ERRORS:
            return None

    def _deletes(self, manifest: ManifestFile) -> list[_Delete] | None:
        """Return the live delete files of a manifest; None if it cannot be read."""
        entries = self._entries(manifest)
        if entries is None:
            return None
        deletes = []
        spec_id, partition_type = manifest.partition_spec_id, self.partition_types[manifest.partition_spec_id]
        keys = _keys(entries, spec_id, partition_type)
        names = ("status", "content", "file_format", "file_path", "sequence_number", "referenced_data_file")
        rows = zip(*(entries[name].to_pylist() for name in names), keys, path_of_bounds(entries).to_pylist(), strict=True)
        for entry, (status, content, file_format, path, number, referenced, partition, bound) in enumerate(rows):
            if status == ManifestEntryStatus.DELETED or content not in (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES):
                continue
            is_vector = file_format == FileFormat.PUFFIN and content == FileContent.POSITION_DELETES
            target = bound.decode("utf-8", "replace") if bound is not None and not is_vector else referenced
            deletes.append(
                _Delete(
                    manifest=manifest.manifest_path,
                    entry=entry,
                    path=path,
                    content=FileContent(content),
                    is_vector=is_vector,
                    partition=partition,
                    is_unpartitioned=not partition_type.fields,
                    sequence_number=number,
                    target=None if target is None or content == FileContent.EQUALITY_DELETES else plain_location(target),
                )
            )
        return deletes

    def _data_files(self, manifest: ManifestFile, paths: Any, *, counts_partitions: bool) -> _DataFiles | None:
        """Return the live data files that delete files refer to, and if requested the least sequence number of each partition.

        Args:
            manifest: A manifest of data files.
            paths: The paths of the data files that delete files refer to, an Arrow array of text.
            counts_partitions: Whether a delete file applies to a whole partition, so that the sequence numbers of partitions are needed.

        Returns:
            The files; None if the manifest cannot be read.
        """
        entries = self._entries(manifest)
        if entries is None:
            return None
        files = _DataFiles()
        entries = entries.filter(mask_array(numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)))
        spec_id, partition_type = manifest.partition_spec_id, self.partition_types[manifest.partition_spec_id]
        named = entries.filter(pc.is_in(entries["file_path"], value_set=paths))
        columns = (named["file_path"].to_pylist(), _keys(named, spec_id, partition_type), named["sequence_number"].to_pylist())
        for path, key, number in zip(*columns, strict=True):
            files.targets[plain_location(path)] = _Target(key, number)
        if counts_partitions:
            # An unknown sequence number counts as the least one, so that every delete file may apply to the data file.
            numbers = fill_nulls(array_of_chunks(entries["sequence_number"]), -1)
            partitions = [partition_column(field.field_id) for field in partition_type.fields]
            grouped = entries.select(partitions).append_column("number", numbers).group_by(partitions).aggregate([("number", "min")])
            for key, number in zip(_keys(grouped, spec_id, partition_type), grouped["number_min"].to_pylist(), strict=True):
                if number is not None:
                    files.oldest[key] = min(number, files.oldest.get(key, _NEVER))
        return files


def _files_of(
    snapshot: SnapshotWithDeletes, deletes: Mapping[str, list[_Delete] | None], data: Mapping[str, _DataFiles | None]
) -> _SnapshotFiles:
    """Return the live files of a snapshot.

    Args:
        snapshot: The snapshot.
        deletes: The delete files of each manifest by its location; None for a manifest that could not be read.
        data: The data files of each manifest, in the same way.
    """
    files = _SnapshotFiles(snapshot.snapshot_id, [], {}, {}, snapshot.is_whole)
    for path in dict.fromkeys(manifest.manifest_path for manifest in snapshot.manifests):
        files.deletes.extend(deletes.get(path) or ())
        file = data.get(path)
        if file is not None:
            files.targets.update(file.targets)
            for key, number in file.oldest.items():
                files.oldest[key] = min(number, files.oldest.get(key, _NEVER))
    unread = {path for kept in (deletes, data) for path, file in kept.items() if file is None}
    is_whole = files.is_whole and not any(manifest.manifest_path in unread for manifest in snapshot.manifests)
    return replace(files, is_whole=is_whole)


def _keys(rows: Any, spec_id: int, partition_type: StructType) -> list[Key]:
    """Return for each row a hashable key of its spec and partition. Most equal keys are the same object."""
    by_tuple: dict[int, Key] = {}  # keys by the `id` of a tuple, which stays valid because `tuples` refers to all of them
    keys = []
    tuples = partition_tuples(rows, partition_type)
    for values in tuples:
        if id(values) not in by_tuple:
            by_tuple[id(values)] = _key(spec_id, values)
        keys.append(by_tuple[id(values)])
    return keys


def without_counts(manifest: ManifestFile, length: int) -> ManifestFile:
    """Return the entry of a manifest with the actual length of the file, and without the counts of the manifest list, because both may be wrong."""
    return replace(manifest, manifest_length=length, added_files_count=None, existing_files_count=None, deleted_files_count=None)


def _key(spec_id: int, values: tuple[Any, ...]) -> Key:
    """Return a hashable key of a spec and a partition. NaN, which is not equal to itself, is in it as text."""
    return (spec_id, *("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values))


def _two_vectors(files: _SnapshotFiles) -> Iterator[Finding]:
    first: dict[str, _Delete] = {}
    for delete in files.deletes:
        if not delete.is_vector or delete.target is None:
            continue
        other = first.setdefault(delete.target, delete)
        if other is not delete:
            yield TWO_VECTORS.finding(
                f"{value_text(delete.target)} has deletion vectors in {value_text(other.path)} and {value_text(delete.path)}",
                expected=1,
                actual=2,
                **delete.place(files.snapshot_id),
            )


def _replaced_deletes(files: _SnapshotFiles) -> Iterator[Finding]:
    vectors = {delete.target: delete for delete in files.deletes if delete.is_vector}
    for delete in files.deletes:
        vector = None if delete.is_vector or delete.target is None else vectors.get(delete.target)
        if vector is not None:
            yield REPLACED_DELETES.finding(
                f"{value_text(delete.path)} deletes from {value_text(delete.target)}, which has the deletion vector in {value_text(vector.path)}",
                actual=delete.target,
                **delete.place(files.snapshot_id),
            )


def _delete_findings(delete: _Delete, files: _SnapshotFiles) -> Iterator[Finding]:
    path, place = value_text(delete.path), delete.place(files.snapshot_id)
    if delete.target is not None:
        target = files.targets.get(delete.target)
        if target is None:
            if files.is_whole:
                rule = DANGLING_VECTOR if delete.is_vector else DANGLING_DELETE
                yield rule.finding(
                    f"{path} deletes from {value_text(delete.target)}, which is no live data file", actual=delete.target, **place
                )
            return
        if target.partition != delete.partition:
            yield DELETE_PARTITION.finding(
                f"{path} has the partition {value_text(delete.partition[1:])} of spec {delete.partition[0]}, and its data file "
                f"{value_text(delete.target)} the partition {value_text(target.partition[1:])} of spec {target.partition[0]}",
                expected=value_text(target.partition),
                actual=value_text(delete.partition),
                **place,
            )
            return
        if _is_older(delete, target.sequence_number):
            yield DANGLING_DELETE.finding(
                f"{path} has sequence number {delete.sequence_number}, and its data file {value_text(delete.target)} is newer: "
                f"{target.sequence_number}",
                actual=delete.sequence_number,
                expected=target.sequence_number,
                **place,
            )
        return
    if delete.is_vector or not files.is_whole:
        return
    is_global = delete.is_unpartitioned and delete.content is FileContent.EQUALITY_DELETES
    oldest = min(files.oldest.values(), default=None) if is_global else files.oldest.get(delete.partition)
    if oldest is None or _is_older(delete, oldest):
        yield DANGLING_DELETE.finding(
            f"{path} applies to no data file: its partition has {'none' if oldest is None else 'newer ones only'}", **place
        )


def _is_older(delete: _Delete, data_number: int | None) -> bool:
    """Return whether the sequence number of a delete file is too low for it to apply to a data file. Spec: Scan Planning."""
    if delete.sequence_number is None or data_number is None:
        return False
    if delete.content is FileContent.EQUALITY_DELETES:
        return data_number >= delete.sequence_number
    return data_number > delete.sequence_number
