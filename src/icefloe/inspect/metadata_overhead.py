"""Size of a table's metadata level by level, compared with the size of the data that it describes.

Spec: Overview.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from icefloe.display.report import Column, Facts, Report, grid
from icefloe.display.reportable import MOST_LINES, Reportable
from icefloe.formatting import count_text, share_text, size_text
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import has_no_file, stored_size
from icefloe.operations.pyiceberg_compat import TableManifest
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelSize:
    """The number and total bytes of the files of one level of a table, such as manifests. `missing` counts files that are referred to but do not exist."""

    level: str
    files: int
    size: int
    missing: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MetadataOverhead(Reportable):
    """The size of metadata compared with data, for the current snapshot (`current`) and for all snapshots together (`reachable`). Sizes are in bytes.

    The levels are ordered from metadata files to data files. Delete files, the level before the last, count neither as metadata nor as data.
    """

    table: str
    current: tuple[LevelSize, ...]
    reachable: tuple[LevelSize, ...]

    @property
    def current_share(self) -> float:
        """Metadata bytes per data byte in the current snapshot; 0 without data."""
        return _ratio(self.current)

    @property
    def reachable_share(self) -> float:
        """Metadata bytes per data byte over all snapshots; 0 without data."""
        return _ratio(self.reachable)

    def report(self, most: int | None = MOST_LINES) -> Report:
        columns = (
            Column("level"),
            Column("files now", is_number=True),
            Column("bytes now", is_number=True),
            Column("files of all snapshots", is_number=True),
            Column("bytes of all snapshots", is_number=True),
        )
        rows = [
            (now.level, count_text(now.files), size_text(now.size), _files(ever), size_text(ever.size))
            for now, ever in zip(self.current, self.reachable, strict=True)
            if ever.files or ever.level != "delete files"
        ]
        facts = Facts(
            (
                ("metadata per data byte, now", share_text(_metadata_size(self.current), _data_size(self.current))),
                ("and of all snapshots", share_text(_metadata_size(self.reachable), _data_size(self.reachable))),
            )
        )
        return Report(f"metadata compared with data of {self.table}", (grid("", columns, rows, most), facts))


def overhead(reader: TableReader) -> MetadataOverhead:
    """Measure the files of every level of a table. Every manifest of every snapshot is opened once.

    Args:
        reader: The table.

    Returns:
        The sizes of all levels in bytes, for the current snapshot and for all snapshots.

    Raises:
        NoSuchFileError: A manifest list or manifest does not exist.
        AvroFormatError: A manifest or manifest list is damaged.
        ManifestFormatError: A manifest or manifest list violates the format.
    """
    metadata = reader.metadata
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    newest = [] if has_no_file(reader.metadata_location) else [reader.metadata_location]
    lists = {snapshot.snapshot_id: snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list}
    manifests: dict[str, _OpenedManifest] = {}
    current: list[_OpenedManifest] = []
    for snapshot in reader.snapshots():
        for manifest in snapshot.manifests(reader.io):
            if manifest.manifest_path not in manifests:
                manifests[manifest.manifest_path] = _read_entries(reader, manifest)
            if snapshot.snapshot_id == metadata.current_snapshot_id:
                current.append(manifests[manifest.manifest_path])
    current_list = [lists[metadata.current_snapshot_id]] if metadata.current_snapshot_id in lists else []
    return MetadataOverhead(
        table=reader.full_name,
        current=(
            _measure(reader, "metadata files", newest),
            _measure(reader, "manifest lists", current_list),
            *_manifests_and_files(current),
        ),
        reachable=(
            _measure(reader, "metadata files", [*logged, *newest]),
            _measure(reader, "manifest lists", lists.values()),
            *_manifests_and_files(manifests.values()),
        ),
    )


@dataclass(frozen=True, slots=True)
class _OpenedManifest:
    """The size of a manifest in bytes, and the sizes of its live files by path. Deletion vectors in the same Puffin file count as one file."""

    size: int
    is_of_deletes: bool
    files: dict[str, int]


def _read_entries(reader: TableReader, manifest: TableManifest) -> _OpenedManifest:
    entries = read_columns(reader.io.read(manifest.manifest_path), manifest, manifest.partition_type).entries
    columns = (entries.column(name).to_pylist() for name in ("status", "file_path", "file_size_in_bytes"))
    live = {path: size for status, path, size in zip(*columns, strict=True) if status != ManifestEntryStatus.DELETED}
    return _OpenedManifest(manifest.manifest_length, manifest.content is ManifestContent.DELETES, live)


def _manifests_and_files(manifests: Collection[_OpenedManifest]) -> tuple[LevelSize, LevelSize, LevelSize]:
    """Return the sizes of the levels of manifests, delete files and data files. A file that several manifests name counts once."""
    data, deletes = (
        {path: size for manifest in manifests if manifest.is_of_deletes is of_deletes for path, size in manifest.files.items()}
        for of_deletes in (False, True)
    )
    return (
        LevelSize(level="manifests", files=len(manifests), size=sum(manifest.size for manifest in manifests)),
        LevelSize(level="delete files", files=len(deletes), size=sum(deletes.values())),
        LevelSize(level="data files", files=len(data), size=sum(data.values())),
    )


def _measure(reader: TableReader, level: str, paths: Iterable[str]) -> LevelSize:
    sizes = [stored_size(reader.io, path) for path in paths]
    present = [size for size in sizes if size is not None]
    return LevelSize(level=level, files=len(present), size=sum(present), missing=len(sizes) - len(present))


def _metadata_size(levels: tuple[LevelSize, ...]) -> int:
    return sum(level.size for level in levels[:-2])


def _data_size(levels: tuple[LevelSize, ...]) -> int:
    return levels[-1].size


def _ratio(levels: tuple[LevelSize, ...]) -> float:
    return _metadata_size(levels) / _data_size(levels) if _data_size(levels) else 0.0


def _files(level: LevelSize) -> str:
    return count_text(level.files) + (f" ({level.missing:,} missing)" if level.missing else "")
