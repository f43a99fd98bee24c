"""Comparison of a copied table with its original: metadata, manifests, deletes, and the bytes of every file.

Spec: Table Metadata; Manifests; Delete Formats.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icefloe.datafile.deletes.delete_file_reader import plain_location, read_deletion_vector, read_position_deletes, read_vector_locations
from icefloe.display.progress import progress
from icefloe.errors import FormatError, IcefloeError, NoSuchFileError, Problem
from icefloe.io.locations import place_of_folder
from icefloe.maintenance.copied_files import digest_of
from icefloe.maintenance.staged_copy import Version, statistics_files
from icefloe.operations.parallel_requests import side_by_side
from icefloe.spec.arrow_values import mask_array, numpy_of
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest.moved_manifest import moved_bounds
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.json_file import inflate, parse_json
from icefloe.spec.metadata.moved_metadata import moved_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.path_prefix import PathPrefix
from icefloe.spec.ports import FileIO
from icefloe.spec.schema.metadata_columns import DELETE_FILE_PATH

# The name in errors for a file by the kind of the reference to it.
_NO_COPY = "it is the original itself, by a link, and no copy"
# The maximum of problems in an error.
MOST_PROBLEMS = 20
# Columns of delete manifests that differ in the copy: paths, and values that depend on the bytes of a rewritten position delete file.
_OF_BYTES = ("file_size_in_bytes", "split_offsets", "column_sizes", "lower_bounds", "upper_bounds")
_PATHS = ("file_path", "referenced_data_file")
_LOG = "metadata-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCopy:
    """The numbers of snapshots, manifests, files and rows that were compared and found equal.

    Attributes:
        snapshots: The number of snapshots.
        manifests: The number of manifests, which were compared entry by entry.
        files: The number of files in live entries. Data files, equality delete files and statistics were compared by SHA-256, other deletes position by
            position.
        bytes: The size of these files in bytes.
        records: The number of rows in the data files, before deletes; each file counts once.
    """

    snapshots: int
    manifests: int
    files: int
    bytes: int
    records: int


class CopyVerification:
    """Compares one version of a table with its copy, and collects the differences."""

    def __init__(self, io: FileIO, prefix: PathPrefix, version: Version, missing_versions: Sequence[str]) -> None:
        self._io = io
        self._prefix = prefix
        self._version = version
        self._missing_versions = missing_versions
        self._problems: list[Problem] = []
        self._seen: set[tuple[str, int | None]] = set()
        self._files = self._bytes = self._records = 0

    def run(self) -> VerifiedCopy:
        """Compare the metadata, the manifests and the files, and return the numbers.

        Raises:
            FormatError: The copy differs from the original; the error lists the differences.
            NoSuchFileError, FormatError, StorageError: The original cannot be read.
        """
        self._compare_metadata()
        self._compare_older_metadata()
        snapshots = self._version.metadata.snapshots
        pairs: dict[str, tuple[ManifestFile, ManifestFile]] = {}
        for snapshot in snapshots:
            before = read_manifests(snapshot, self._io.read)
            try:
                after = read_manifests(self._copy_of(snapshot), self._io.read)
            except IcefloeError as error:
                self._differs(f"snapshot {snapshot.snapshot_id}", error.message)
                continue
            if [_facts(manifest, self._prefix.move(manifest.manifest_path)) for manifest in before] != [
                _facts(manifest, manifest.manifest_path) for manifest in after
            ]:
                self._differs(f"snapshot {snapshot.snapshot_id}", "the manifest list of the copy has other manifests")
                continue
            for old, new in zip(before, after, strict=True):
                length = pairs.setdefault(old.manifest_path, (old, new))[1].manifest_length
                if length != new.manifest_length:
                    self._differs(
                        f"snapshot {snapshot.snapshot_id}",
                        f"its manifest list has {new.manifest_length:,} bytes for {new.manifest_path}, another one {length:,}",
                    )
        with progress(f"verify {len(pairs):,} manifests and their files", "manifests", len(pairs)) as work:
            for old, new in pairs.values():
                self._compare_manifest(old, new)
                work.advance()
        self._compare_statistics()
        if self._problems:
            count = len(self._problems)
            raise FormatError(
                f"the copy at {self._prefix.target} differs from the table in {count:,} place{'' if count == 1 else 's'}",
                path=self._prefix.target,
                problems=self._problems[:MOST_PROBLEMS],
                next_step="delete the copied files that differ, copy them again, and do not use the copy before it is verified",
            )
        return VerifiedCopy(snapshots=len(snapshots), manifests=len(pairs), files=self._files, bytes=self._bytes, records=self._records)

    def _differs(self, where: str, what: str) -> None:
        self._problems.append(Problem(where=where, what=what))

    def _compare_metadata(self) -> None:
        path = self._version.location
        copied = self._prefix.move(path)
        expected = moved_metadata(self._io.read(path), path, self._prefix, self._missing_versions)
        try:
            actual = self._io.read(copied)
            if parse_json(inflate(actual, copied), copied) != parse_json(inflate(expected, copied), copied):
                self._differs(copied, "the metadata file is not that of the table with other paths")
        except IcefloeError as error:
            self._differs(copied, error.message)

    def _compare_older_metadata(self) -> None:
        """Compare the older metadata files in the copy's log, except for their own logs, which depend on the files that existed at each copy."""
        log = [entry.metadata_file for entry in self._version.metadata.metadata_log]
        older = [path for path in log if path not in self._missing_versions]
        for problem in side_by_side(self._older_problem, older):
            if problem is not None:
                self._problems.append(problem)

    def _older_problem(self, path: str) -> Problem | None:
        copied = self._prefix.move(path)
        try:
            actual = {**parse_json(inflate(self._io.read(copied), copied), copied), _LOG: None}
        except IcefloeError as error:
            return Problem(where=copied, what=error.message)
        with suppress(NoSuchFileError):  # the original was deleted after the copy
            moved = moved_metadata(self._io.read(path), path, self._prefix, self._missing_versions)
            if actual != {**parse_json(inflate(moved, copied), copied), _LOG: None}:
                return Problem(where=copied, what="the older metadata file is not that of the table with other paths")
        return None

    def _copy_of(self, snapshot: Snapshot) -> Snapshot:
        if snapshot.manifest_list is not None:
            return replace(snapshot, manifest_list=self._prefix.move(snapshot.manifest_list))
        return replace(snapshot, manifest_paths=tuple(map(self._prefix.move, snapshot.manifest_paths or ())))

    def _compare_manifest(self, old: ManifestFile, new: ManifestFile) -> None:
        partition_type = spec_partition_type(self._version.metadata, old.partition_spec_id)
        before = read_columns(self._io.read(old.manifest_path), old, partition_type, whole=True).entries
        try:
            content = self._io.read(new.manifest_path)
            after = read_columns(content, new, partition_type, whole=True).entries
        except IcefloeError as error:
            self._differs(new.manifest_path, error.message)
            return
        if len(content) != new.manifest_length:
            self._differs(new.manifest_path, f"it has {len(content):,} bytes, and its manifest list {new.manifest_length:,}")
        if len(before) != len(after):
            self._differs(new.manifest_path, f"it has {len(after):,} entries, and the original {len(before):,}")
            return
        of_deletes = old.content is ManifestContent.DELETES
        for name in before.column_names:
            if name in _PATHS or (of_deletes and name in _OF_BYTES):
                continue
            if not before[name].equals(after[name]):
                self._differs(new.manifest_path, f"the column {name} differs")
        for name in _PATHS:
            if not self._prefix.moved_column(before[name].combine_chunks()).equals(after[name].combine_chunks()):
                self._differs(new.manifest_path, f"the column {name} is not that of the original with the other prefix")
                return
        if of_deletes:
            self._compare_bounds(new.manifest_path, before, after)
        self._compare_files(before, after)

    def _compare_bounds(self, where: str, before: Any, after: Any) -> None:
        """Compare the bounds in a delete manifest: those of equality deletes must be equal; those of position deletes have the new paths, or are missing."""
        contents = numpy_of(before["content"])
        equality = mask_array(contents == int(FileContent.EQUALITY_DELETES))
        for name in _OF_BYTES:
            if not before[name].filter(equality).equals(after[name].filter(equality)):
                self._differs(where, f"the column {name} of equality deletes differs")
        of_positions = contents == int(FileContent.POSITION_DELETES)
        names = ("lower_bounds", "upper_bounds")
        lower, upper = (before[name].to_pylist() for name in names)
        moved = moved_bounds(lower, upper, of_positions, self._prefix)
        for name, expected in zip(names, moved, strict=True):
            actual = after[name].to_pylist()
            for row in np.flatnonzero(of_positions).tolist():
                bounds, allowed = dict(actual[row] or ()), dict(expected[row] or ())
                if bounds not in (allowed, {key: value for key, value in allowed.items() if key != DELETE_FILE_PATH.field_id}):
                    self._differs(where, f"the column {name} of position deletes is not that of the original with the other prefix")
                    break

    def _compare_files(self, before: Any, after: Any) -> None:
        live = np.flatnonzero(numpy_of(before["status"]) != int(ManifestEntryStatus.DELETED))
        names = ("content", "file_path", "file_format", "record_count", "file_size_in_bytes", "content_offset", "content_size_in_bytes")
        rows, moved = (entries.select([*names, "referenced_data_file"]).take(live).to_pylist() for entries in (before, after))
        new = [(old, copy) for old, copy in zip(rows, moved, strict=True) if self._is_first(old)]
        for compare in side_by_side(lambda pair: self._compare_file(*pair), new):
            for problem in compare:
                self._problems.append(problem)

    def _is_first(self, row: dict[str, Any]) -> bool:
        key = (row["file_path"], row["content_offset"])
        if key in self._seen:
            return False
        self._seen.add(key)
        self._files += 1
        self._bytes += row["content_size_in_bytes"] or row["file_size_in_bytes"]
        self._records += row["record_count"] if row["content"] == int(FileContent.DATA) else 0
        return True

    def _compare_file(self, old: dict[str, Any], new: dict[str, Any]) -> list[Problem]:
        location = new["file_path"]
        if _is_same_file(old["file_path"], location):
            return [Problem(where=location, what=_NO_COPY)]
        try:
            size = self._io.size(location)
            if size != new["file_size_in_bytes"]:
                return [Problem(where=location, what=f"it has {size:,} bytes, and its manifest {new['file_size_in_bytes']:,}")]
            if old["content"] == int(FileContent.POSITION_DELETES):
                same = self._deletes_of(old, moves=True) == self._deletes_of(new, moves=False)
                what = "it deletes other positions"
            else:
                same = digest_of(self._io, old["file_path"]) == digest_of(self._io, location)
                what = "its bytes are not those of the original"
        except IcefloeError as error:
            return [Problem(where=location, what=error.message)]
        return [] if same else [Problem(where=location, what=what)]

    def _deletes_of(self, row: dict[str, Any], *, moves: bool) -> dict[str, Any]:
        """Return the deleted positions of a position delete file or vector as bytes, by data file; with `moves`, the paths are those in the copy."""
        file = DataFile(
            file_path=row["file_path"],
            file_format=FileFormat(row["file_format"]),
            content=FileContent.POSITION_DELETES,
            record_count=row["record_count"],
            file_size_in_bytes=row["file_size_in_bytes"],
            referenced_data_file=row["referenced_data_file"],
            content_offset=row["content_offset"],
            content_size_in_bytes=row["content_size_in_bytes"],
        )
        if file.file_format is FileFormat.PUFFIN:
            data_file = file.referenced_data_file or ""
            positions = {
                plain_location(data_file): read_deletion_vector(self._io, file, data_file, read_vector_locations(self._io, file.file_path))
            }
        else:
            positions = dict(read_position_deletes(self._io, file))
        plain = PathPrefix(plain_location(self._prefix.source), plain_location(self._prefix.target))
        return {plain.move(path) if moves else path: vector.positions().tobytes() for path, vector in positions.items()}

    def _compare_statistics(self) -> None:
        for path, _ in statistics_files(self._version.metadata):
            location = self._prefix.move(path)
            try:
                if _is_same_file(path, location):
                    self._differs(location, _NO_COPY)
                elif digest_of(self._io, path) != digest_of(self._io, location):
                    self._differs(location, "its bytes are not those of the original")
            except IcefloeError as error:
                self._differs(location, error.message)


def _is_same_file(path: str, copy: str) -> bool:
    """Return whether the copy is a symbolic link to the original. Such a copy would always be equal."""
    place = place_of_folder(path)
    return place is not None and place == place_of_folder(copy)


def _facts(manifest: ManifestFile, path: str) -> ManifestFile:
    """Return the fields of a manifest that its entry in the copy's manifest list must have too: all but the length, which is compared with the file."""
    return replace(manifest, manifest_path=path, manifest_length=0)
