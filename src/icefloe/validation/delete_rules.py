"""Rules of delete files beside the data files of one snapshot: which file each deletes from, and whether engines agree on that.

Manifests are read one after the other: delete files are kept, of data files only the oldest of each partition and those that a delete file names. The
content of delete files is in `delete_file_rules.py`. Spec: Row-level Deletes; Deletion Vectors; Scan Planning.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.deletes.delete_file_reader import plain_location, spellings
from icefloe.errors import FormatError, NoSuchFileError, StoragePermissionError, UnsupportedError
from icefloe.kernel.arrow_values import array_of_chunks, filled, mask_array, numpy_of
from icefloe.kernel.manifest.data_file import FileContent, FileFormat
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.ports import Read
from icefloe.kernel.scan.delete_file_index import PATH_BOUNDS, path_of_bounds
from icefloe.kernel.scan.file_objects import partition_tuples
from icefloe.kernel.types import StructType
from icefloe.validation.finding import Finding, Severity
from icefloe.validation.rule import Level, Place, RuleGroup, shown

_REMOVE = "remove the delete file: remove_dangling_deletes and icefloe repair do so"


_rule = RuleGroup(level=Level.DELETE_FILE).rule


DANGLING_DELETE = _rule(
    "dangling-delete",
    Severity.NOTE,
    "Every delete file applies to a live data file of its snapshot.",
    "Scans read the delete file without need, and counts need a scan because the table has deletes.",
    section="Row-level Deletes",
    next_step=_REMOVE,
)
DANGLING_VECTOR = _rule(
    "dangling-vector",
    Severity.WARNING,
    "The data file of a deletion vector is live: a writer that removes the data file removes its vector.",
    "Scans read the vector without need; a file that is written again at the path loses rows.",
    section="Deletion Vectors",
    next_step=_REMOVE,
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
_NEVER = 2**63  # above every sequence number
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Delete:
    """A live delete file: its entry, kind, partition with the id of its spec in front, and the one data file that it applies to, in plain spelling."""

    place: Place
    content: FileContent
    is_vector: bool
    partition: Key
    is_unpartitioned: bool
    sequence_number: int | None
    target: str | None


@dataclass(frozen=True, slots=True)
class _Target:
    """A live data file that a delete file refers to."""

    partition: Key
    sequence_number: int | None


@dataclass(slots=True)
class _SnapshotFiles:
    """What is known of the live files of a snapshot.

    Attributes:
        deletes: The delete files.
        targets: The data files that delete files refer to, by plain path.
        oldest: The least sequence number of the data files of each partition.
        is_whole: False if a manifest could not be read, so that a file may be there that is not known.
        has_partition_deletes: Whether a delete file is for a whole partition or table.
    """

    deletes: list[_Delete] = field(default_factory=list)
    targets: dict[str, _Target] = field(default_factory=dict)
    oldest: dict[Key, int] = field(default_factory=dict)
    is_whole: bool = True
    has_partition_deletes: bool = False


@dataclass(frozen=True, kw_only=True)
class DeleteCheck:
    """Checks the delete files of snapshots.

    Attributes:
        read: Returns the bytes of a manifest.
        partition_types: The types of partition tuples by spec id, of specs that can be read.
    """

    read: Read
    partition_types: Mapping[int, StructType]

    def findings(self, snapshot_id: int, manifests: Sequence[ManifestFile], *, is_whole: bool) -> Iterator[Finding]:
        """Yield what is wrong with the delete files of a snapshot. Manifests that cannot be read are left out: their own check reports them.

        Args:
            snapshot_id: The snapshot.
            manifests: Its manifests.
            is_whole: Whether these are all of its manifests.
        """
        deletes = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
        if not deletes:
            return
        files = _SnapshotFiles(is_whole=is_whole)
        for manifest in deletes:
            self._read_deletes(manifest, snapshot_id, files)
        if not files.deletes:
            return
        files.has_partition_deletes = any(delete.target is None and not delete.is_vector for delete in files.deletes)
        paths = pa.array(
            [name for target in {delete.target for delete in files.deletes if delete.target} for name in spellings(target)], pa.string()
        )
        for manifest in manifests:
            if manifest.content is ManifestContent.DATA:
                self._read_data(manifest, paths, files)
        yield from _two_vectors(files.deletes)
        yield from _replaced_deletes(files.deletes)
        for delete in files.deletes:
            yield from _delete_findings(delete, files)

    def _entries(self, manifest: ManifestFile, files: _SnapshotFiles) -> Any:
        """Return the entries of a manifest as columns, also the deleted ones; None if it cannot be read."""
        partition_type = self.partition_types.get(manifest.partition_spec_id)
        if partition_type is None:
            files.is_whole = False
            return None
        statistics = PATH_BOUNDS if manifest.content is ManifestContent.DELETES else ()
        try:
            content = self.read(manifest.manifest_path)
            return read_columns(content, _unchecked(manifest, len(content)), partition_type, statistics=statistics).entries
        except _READ_ERRORS:
            files.is_whole = False
            return None

    def _read_deletes(self, manifest: ManifestFile, snapshot_id: int, files: _SnapshotFiles) -> None:
        """Add the live delete files of a manifest."""
        entries = self._entries(manifest, files)
        if entries is None:
            return
        spec_id, partition_type = manifest.partition_spec_id, self.partition_types[manifest.partition_spec_id]
        tuples = partition_tuples(entries, partition_type)
        names = ("status", "content", "file_format", "file_path", "sequence_number", "referenced_data_file")
        rows = zip(*(entries[name].to_pylist() for name in names), tuples, path_of_bounds(entries).to_pylist(), strict=True)
        for entry, (status, content, file_format, path, number, referenced, values, bound) in enumerate(rows):
            if status == ManifestEntryStatus.DELETED or content not in (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES):
                continue
            place = Place(snapshot_id=snapshot_id, file=manifest.manifest_path, entry=entry, path=path)
            is_vector = file_format == FileFormat.PUFFIN and content == FileContent.POSITION_DELETES
            target = bound.decode("utf-8", "replace") if bound is not None and not is_vector else referenced
            files.deletes.append(
                _Delete(
                    place=place,
                    content=FileContent(content),
                    is_vector=is_vector,
                    partition=_key(spec_id, values),
                    is_unpartitioned=not partition_type.fields,
                    sequence_number=number,
                    target=None if target is None or content == FileContent.EQUALITY_DELETES else plain_location(target),
                )
            )

    def _read_data(self, manifest: ManifestFile, paths: Any, files: _SnapshotFiles) -> None:
        """Add the data files at the paths and, where a delete file is for a whole partition, the oldest data file of each partition."""
        entries = self._entries(manifest, files)
        if entries is None:
            return
        entries = entries.filter(mask_array(numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)))
        spec_id, partition_type = manifest.partition_spec_id, self.partition_types[manifest.partition_spec_id]
        named = entries.filter(pc.is_in(entries["file_path"], value_set=paths))
        columns = (named["file_path"].to_pylist(), partition_tuples(named, partition_type), named["sequence_number"].to_pylist())
        for path, values, number in zip(*columns, strict=True):
            files.targets[plain_location(path)] = _Target(_key(spec_id, values), number)
        if not files.has_partition_deletes:
            return
        # Of an unknown age, so that every delete file may apply.
        numbers = numpy_of(filled(array_of_chunks(entries["sequence_number"]), -1))
        tuples = partition_tuples(entries, partition_type)
        for values, number in zip(tuples, numbers.tolist(), strict=True):
            key = _key(spec_id, values)
            if number < files.oldest.get(key, _NEVER):
                files.oldest[key] = number


def _unchecked(manifest: ManifestFile, length: int) -> ManifestFile:
    """Return the manifest without the counts of its list, which `manifest_rules.py` compares."""
    return replace(manifest, manifest_length=length, added_files_count=None, existing_files_count=None, deleted_files_count=None)


def _key(spec_id: int, values: tuple[Any, ...]) -> Key:
    """Return what identifies a partition: NaN, which is not equal to itself, as a text."""
    return (spec_id, *("NaN" if isinstance(value, float) and math.isnan(value) else value for value in values))


def _two_vectors(deletes: Sequence[_Delete]) -> Iterator[Finding]:
    first: dict[str, _Delete] = {}
    for delete in deletes:
        if not delete.is_vector or delete.target is None:
            continue
        other = first.setdefault(delete.target, delete)
        if other is not delete:
            yield TWO_VECTORS.finding(
                f"{shown(delete.target)} has deletion vectors in {shown(other.place.get('path'))} and {shown(delete.place.get('path'))}",
                expected=1,
                actual=2,
                **delete.place,
            )


def _replaced_deletes(deletes: Sequence[_Delete]) -> Iterator[Finding]:
    vectors = {delete.target: delete for delete in deletes if delete.is_vector}
    for delete in deletes:
        vector = None if delete.is_vector or delete.target is None else vectors.get(delete.target)
        if vector is not None:
            yield REPLACED_DELETES.finding(
                f"{shown(delete.place.get('path'))} deletes from {shown(delete.target)}, which has the deletion vector in "
                f"{shown(vector.place.get('path'))}",
                actual=delete.target,
                **delete.place,
            )


def _delete_findings(delete: _Delete, files: _SnapshotFiles) -> Iterator[Finding]:
    path = shown(delete.place.get("path"))
    if delete.target is not None:
        target = files.targets.get(delete.target)
        if target is None:
            if files.is_whole:
                rule = DANGLING_VECTOR if delete.is_vector else DANGLING_DELETE
                yield rule.finding(
                    f"{path} deletes from {shown(delete.target)}, which is no live data file", actual=delete.target, **delete.place
                )
            return
        if target.partition != delete.partition:
            yield DELETE_PARTITION.finding(
                f"{path} has the partition {shown(delete.partition[1:])} of spec {delete.partition[0]}, and its data file "
                f"{shown(delete.target)} the partition {shown(target.partition[1:])} of spec {target.partition[0]}",
                expected=shown(target.partition),
                actual=shown(delete.partition),
                **delete.place,
            )
            return
        if _is_older(delete, target.sequence_number):
            yield DANGLING_DELETE.finding(
                f"{path} has sequence number {delete.sequence_number}, and its data file {shown(delete.target)} is newer: "
                f"{target.sequence_number}",
                actual=delete.sequence_number,
                expected=target.sequence_number,
                **delete.place,
            )
        return
    if delete.is_vector or not files.is_whole:
        return
    is_global = delete.is_unpartitioned and delete.content is FileContent.EQUALITY_DELETES
    oldest = min(files.oldest.values(), default=None) if is_global else files.oldest.get(delete.partition)
    if oldest is None or _is_older(delete, oldest):
        yield DANGLING_DELETE.finding(
            f"{path} applies to no data file: its partition has {'none' if oldest is None else 'newer ones only'}", **delete.place
        )


def _is_older(delete: _Delete, data_number: int | None) -> bool:
    """Return whether a delete file is too old to apply to a data file. Spec: Scan Planning."""
    if delete.sequence_number is None or data_number is None:
        return False
    if delete.content is FileContent.EQUALITY_DELETES:
        return data_number >= delete.sequence_number
    return data_number > delete.sequence_number
