"""`StagedCopy`: write the metadata and delete files of a table with the paths of its copy to a staging folder, and list all files to copy.

Files are rewritten from the bottom up: first delete files, which contain paths, then manifests, which contain the sizes of delete files, then manifest lists,
which contain the sizes of manifests. `rewrite_table_path.py` runs it. Spec: Paths in Metadata; Manifests; Manifest Lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.datafile.deletes.moved_deletes import write_moved_deletes
from icefloe.display.progress import progress
from icefloe.errors import InvalidInputError, NotFoundError
from icefloe.operations.parallel_requests import in_threads, side_by_side
from icefloe.spec.arrow_values import mask_array, numpy_of
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest.moved_manifest import moved_data_manifest, moved_delete_manifest, moved_manifest_list
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.moved_metadata import moved_metadata
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests, spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.path_prefix import PathPrefix
from icefloe.spec.ports import FileIO

# The files to copy: source, target, and size; the size is None if the metadata does not have it.
COPIES = pa.schema([pa.field("source", pa.string()), pa.field("target", pa.string()), pa.field("size", pa.int64())])


@dataclass(frozen=True, slots=True)
class Version:
    """A metadata file: its location and its content."""

    location: str
    metadata: TableMetadata


@dataclass(slots=True)
class StagedCopy:
    """Writes the files with new paths for one run of `rewrite_table_path`, and lists all files to copy.

    Attributes:
        io: The storage of the table, of the staging folder and, if an earlier copy is continued, of the copy.
        prefix: The path prefix to replace, and the new prefix.
        staging: The staging folder, with a slash at its end.
        start: The version that was copied before; None for a copy of everything.
        end: The version to copy.
        is_dry: Whether nothing is written.
        written: The locations of the files that were written.
    """

    io: FileIO
    prefix: PathPrefix
    staging: str
    start: Version | None
    end: Version
    is_dry: bool = False
    written: list[str] = field(default_factory=list)
    missing_versions: tuple[str, ...] = ()
    manifests: int = 0
    delete_files: int = 0
    _metadata: list[tuple[str, str, int]] = field(default_factory=list)
    _staged: list[tuple[str, str, int]] = field(default_factory=list)
    _content: list[Any] = field(default_factory=list)

    def stage(self) -> None:
        """Write the files that contain paths, and collect the files to copy.

        Raises:
            InvalidInputError: A path is not below the prefix; or the copy of the start version is not at the target.
            NoSuchFileError, FormatError: A file of the table is missing or damaged.
            StorageError: A file cannot be read or written.
        """
        # All paths in the metadata are checked before any of the files is read, because metadata may contain paths of files that belong to no table.
        moved_metadata(self.io.read(self.end.location), self.end.location, self.prefix, ())
        snapshots = self._new_snapshots()
        manifests: dict[str, ManifestFile] = {}
        for listed in side_by_side(lambda snapshot: read_manifests(snapshot, self.io.read), snapshots):
            manifests.update((manifest.manifest_path, manifest) for manifest in listed)
        self.prefix.moved_column(pa.array(manifests, pa.string()))
        new = [manifest for manifest in manifests.values() if self._is_new(manifest)]
        new_paths = {manifest.manifest_path for manifest in new}
        self.manifests = len(new)
        with progress(f"rewrite paths of {len(new):,} manifests", "manifests", len(new)) as work:
            sizes = self._stage_deletes([manifest for manifest in new if manifest.content is ManifestContent.DELETES])
            copied = [path for path in manifests if path not in new_paths]
            lengths = dict(side_by_side(lambda path: (path, self._size_in_copy(path)), copied))
            for path, length in in_threads(lambda manifest: self._stage_manifest(manifest, sizes), new):
                lengths[path] = length
                work.advance()
        lists = [snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None]
        for path, content in side_by_side(lambda path: (path, moved_manifest_list(self.io.read(path), path, self.prefix, lengths)), lists):
            self._write(path, content)
        self._list_statistics()
        self._stage_versions()

    def copies(self) -> Sequence[Any]:
        """Return the files to copy as tables with the schema `COPIES`, each file once: files without paths, files with new paths, then metadata files.

        The newest metadata file is last. If the files are copied in this order, a reader of the copy never finds a missing file.
        """
        return [_distinct(pa.concat_tables(self._content, promote_options="none") if self._content else COPIES.empty_table())] + [
            _copies(rows) for rows in (self._staged, self._metadata)
        ]

    def _new_snapshots(self) -> Sequence[Snapshot]:
        known = set() if self.start is None else {snapshot.snapshot_id for snapshot in self.start.metadata.snapshots}
        return [snapshot for snapshot in self.end.metadata.snapshots if snapshot.snapshot_id not in known]

    def _is_new(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest belongs to this run. For format version 1, which has no sequence numbers, the copy itself is checked."""
        if self.start is None:
            return True
        if self.start.metadata.format_version == 1:
            return not self.io.exists(self.prefix.move(manifest.manifest_path))
        return manifest.sequence_number > self.start.metadata.last_sequence_number

    def _size_in_copy(self, path: str) -> int:
        """Return the size of a file that an earlier run copied. Raises `InvalidInputError` if the file is not at the target."""
        location = self.prefix.move(path)
        try:
            return self.io.size(location)
        except NotFoundError as error:
            raise InvalidInputError(
                f"the copy of the start version is not at {self.prefix.target}: {location} does not exist",
                path=location,
                next_step="copy the files of the start version first, or copy everything, without a start version",
            ) from error

    def _entries(self, manifest: ManifestFile) -> Any:
        partition_type = spec_partition_type(self.end.metadata, manifest.partition_spec_id)
        return read_columns(self.io.read(manifest.manifest_path), manifest, partition_type).entries

    def _is_new_entry(self, entries: Any) -> Any:
        """Return a mask of the live entries whose files an earlier run did not copy."""
        live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
        if self.start is None or self.start.metadata.format_version == 1:
            return live
        numbers = pc.fill_null(entries["file_sequence_number"], self.end.metadata.last_sequence_number)
        return live & (numpy_of(numbers) > self.start.metadata.last_sequence_number)

    def _stage_deletes(self, manifests: Sequence[ManifestFile]) -> dict[str, int]:
        """Write the delete files that contain paths. Return their sizes in the copy, by the path of the original."""
        rewritten: dict[str, DataFile] = {}
        copied: set[str] = set()
        for entries in in_threads(self._entries, manifests):
            is_new = self._is_new_entry(entries)
            contents, formats = entries["content"], entries["file_format"]
            with_paths = numpy_of(contents) == int(FileContent.POSITION_DELETES)
            live = numpy_of(entries["status"]) != int(ManifestEntryStatus.DELETED)
            for row in np.flatnonzero(live & with_paths).tolist():
                path = entries["file_path"][row].as_py()
                if is_new[row]:
                    rewritten[path] = DataFile(
                        file_path=path,
                        file_format=FileFormat(formats[row].as_py()),
                        content=FileContent.POSITION_DELETES,
                        record_count=entries["record_count"][row].as_py(),
                        file_size_in_bytes=entries["file_size_in_bytes"][row].as_py(),
                    )
                else:
                    copied.add(path)
        self.delete_files = len(rewritten)
        sizes = dict(in_threads(self._stage_delete_file, rewritten.values()))
        return sizes | dict(side_by_side(lambda path: (path, self._size_in_copy(path)), copied))

    def _stage_delete_file(self, file: DataFile) -> tuple[str, int]:
        location = self._staged_location(file.file_path)
        if self.is_dry:
            self.prefix.move(file.file_path)
            size = file.file_size_in_bytes
        else:
            size = write_moved_deletes(self.io, file, location, self.prefix, self.end.metadata.properties)
            self.written.append(location)
        self._staged.append((location, self.prefix.move(file.file_path), size))
        return file.file_path, size

    def _stage_manifest(self, manifest: ManifestFile, sizes: dict[str, int]) -> tuple[str, int]:
        path = manifest.manifest_path
        entries = self._entries(manifest)
        content = self.io.read(path)
        if manifest.content is ManifestContent.DELETES:
            moved = moved_delete_manifest(content, path, self.prefix, sizes)
            unchanged = numpy_of(entries["content"]) == int(FileContent.EQUALITY_DELETES)
        else:
            moved = moved_data_manifest(content, path, self.prefix)
            unchanged = np.ones(len(entries), np.bool_)
        files = entries.filter(mask_array(self._is_new_entry(entries) & unchanged))
        paths = files["file_path"].combine_chunks()
        copies = [paths, self.prefix.moved_column(paths), files["file_size_in_bytes"].combine_chunks()]
        self._content.append(pa.Table.from_arrays(copies, schema=COPIES))
        return path, self._write(path, moved)

    def _list_statistics(self) -> None:
        """Add the statistics files to the list; they contain no paths."""
        known = set() if self.start is None else {path for path, _ in statistics_files(self.start.metadata)}
        files = [(path, size) for path, size in statistics_files(self.end.metadata) if path not in known]
        self._content.append(_copies([(path, self.prefix.move(path), size) for path, size in files]))

    def _stage_versions(self) -> None:
        """Write the metadata files since the start version. Older files that do not exist any more are removed from the copy's log."""
        older = [entry.metadata_file for entry in self.end.metadata.metadata_log]
        start = 0 if self.start is None else (*older, self.end.location).index(self.start.location) + 1
        # Versions up to the start version were copied before, if they existed then.
        places = [*map(self.prefix.move, older[:start]), *older[start:]]
        self.missing_versions = tuple(path for path, there in zip(older, side_by_side(self.io.exists, places), strict=True) if not there)
        for path in (*(path for path in older[start:] if path not in self.missing_versions), self.end.location):
            content = moved_metadata(self.io.read(path), path, self.prefix, self.missing_versions)
            self._write(path, content, self._metadata)

    def _staged_location(self, path: str) -> str:
        return self.staging + self.prefix.relative(path)

    def _write(self, path: str, content: bytes, listed: list[tuple[str, str, int]] | None = None) -> int:
        location = self._staged_location(path)
        if not self.is_dry:
            self.io.write(location, content)
            # The file belongs to this run only after the write has succeeded: a failed write may have found a file of another run.
            self.written.append(location)
        (self._staged if listed is None else listed).append((location, self.prefix.move(path), len(content)))
        return len(content)


def statistics_files(metadata: TableMetadata) -> list[tuple[str, int]]:
    """Return the locations and sizes of all statistics files."""
    return [
        *((file.statistics_path, file.file_size_in_bytes) for file in metadata.statistics),
        *((file.statistics_path, file.file_size_in_bytes) for file in metadata.partition_statistics),
    ]


def _copies(rows: Sequence[tuple[str, str, int]]) -> Any:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.Table.from_arrays([pa.array(column, part.type) for column, part in zip(columns, COPIES, strict=True)], schema=COPIES)


def _distinct(copies: Any) -> Any:
    """Remove rows with a source that an earlier row has."""
    numbered = copies.append_column("row", pa.array(np.arange(len(copies))))
    firsts = numbered.group_by("source", use_threads=False).aggregate([("row", "min")])["row_min"]
    return copies.take(np.sort(numpy_of(firsts)))
