"""Dropping a table with its files: every file that any of its snapshots reaches, once its name is gone.

Which files these are is `unreachable_files.py`, with nothing kept. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from icefloe.catalog_store.catalog_store import KeepsFolders
from icefloe.errors import CommitConflictError, NotFoundError, Problem, StorageError
from icefloe.io.location_scope import place_of_file, place_of_folder
from icefloe.kernel.commit.snapshot_expiry import check_files_may_be_deleted
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.engine import UnreachableRequest
from icefloe.table.expiry.deletion_scope import deletion_scope, folder_names
from icefloe.table.expiry.expire_report import FileTotal, no_files, outside_lines, reported, total_lines, totals
from icefloe.table.expiry.file_cleanup import delete_in_order, statistics_files
from icefloe.table.parallel_requests import side_by_side
from icefloe.table.table_handle import LoadedMetadata, TableHandle, load_metadata
from icefloe.table.unreachable_files import (
    FileKind,
    Unreachable,
    distinct,
    files_of_snapshots,
    find_in_process,
    listed_files,
    unreachable_files,
)

# How often a table is looked at anew because another writer committed, before it is left as it is.
TRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What went with a table. `files`, `outside`, `undeleted` and `unreadable` are as in `ExpireReport`."""

    table: str
    files: Any = field(default_factory=no_files, repr=False, compare=False)
    undeleted: tuple[Problem, ...] = ()
    unreadable: tuple[Problem, ...] = ()
    outside: Any = field(default_factory=no_files, repr=False, compare=False)

    @property
    def outside_files(self) -> int:
        """How many files are kept because they lie outside the table's location."""
        return len(self.outside)

    @property
    def totals(self) -> dict[FileKind, FileTotal]:
        """The files by their kind, without those that could not be deleted."""
        return dict(totals(self.files, self.undeleted))

    def __str__(self) -> str:
        lines = [f"{self.table}: dropped", *(f"  {line}" for line in total_lines(self.totals, "deleted"))]
        lines += [f"  {line}" for line in outside_lines(self.outside)]
        lines += [f"  could not be deleted: {problem}" for problem in self.undeleted]
        return "\n".join([*lines, *(f"  could not be read, so what it names stays: {problem}" for problem in self.unreadable)])


def purge_table(handle: TableHandle, allow_outside: Iterable[str] = ()) -> PurgeReport:
    """Drops the name first, so that nobody commits any more, then deletes the files; ending it early leaves only files that nothing names.

    A commit that lands meanwhile is looked at too, its files and what it says of `gc.enabled`: the name goes only where it points to what was looked at.

    Files of the table's folder that no snapshot reaches stay, unless the catalog drops the folder with the name: then what snapshots reach is looked up before,
    and what of it lies elsewhere is deleted after. A file that cannot be read or deleted is told in the report, and so is one outside the table's location and
    the folders `allow_outside`, which is kept.

    Raises:
        NoSuchTableError
        InvalidInputError: the table's property `gc.enabled` is false. Nothing was changed.
        NoSuchFileError, MetadataFormatError: the metadata file cannot be read. Nothing was changed.
        CommitConflictError: other writers committed again and again. Nothing was changed.
    """
    allowed = folder_names(allow_outside, "allow_outside")
    loaded, found = _drop(handle)
    report = found or _files_of(handle, loaded)
    scope = deletion_scope(handle, loaded.metadata, loaded.location, allowed)
    inside, outside = scope.divide(report.files)
    left = _left_by_the_store(handle, loaded, inside)
    return replace(report, files=inside, outside=outside, undeleted=delete_in_order(handle.io, left, scope.contains))


def _left_by_the_store(handle: TableHandle, loaded: LoadedMetadata, files: Any) -> Any:
    """Return the files that were not deleted with the table's folder.

    Those that were are not deleted by their paths: another table may have the name and the folder by now, whose metadata files are called as the older one's.
    """
    if not handle.store.drops_files:
        return files
    folder = place_of_folder(
        handle.store.table_location(handle.identifier) if isinstance(handle.store, KeepsFolders) else loaded.metadata.location
    )
    places = [place_of_file(path) for path in files["path"].to_pylist()]
    return files.filter(pa.array([folder is None or place is None or not place.is_below(folder) for place in places], pa.bool_()))


def _drop(handle: TableHandle) -> tuple[LoadedMetadata, PurgeReport | None]:
    """What the name pointed to when it went, and its files where they had to be looked up before. Raises as `purge_table`."""
    for _ in range(TRIES):
        loaded = load_metadata(handle)
        check_files_may_be_deleted(loaded.metadata)
        found = _files_of(handle, loaded) if handle.store.drops_files else None
        if handle.store.drop(handle.identifier, expected=loaded.location):
            return loaded, found
    raise CommitConflictError(
        f"{handle.table_name} was not dropped: other writers committed to it while its files were looked up, {TRIES} times",
        table=handle.table_name,
        problems=[
            Problem(where="expected", what=f"the catalog names {loaded.location}, whose files were looked up"),
            Problem(where="found", what="it names a newer metadata file"),
        ],
        next_step="stop its writers, then repeat: a retry makes sense",
    )


def _files_of(handle: TableHandle, loaded: LoadedMetadata) -> PurgeReport:
    metadata, io = loaded.metadata, handle.io
    everything = files_of_snapshots(list(metadata.snapshots), io.read, must=False)
    nothing = files_of_snapshots((), io.read, must=True)

    def find(gone: Any, kept: Any) -> Unreachable:
        return find_in_process(UnreachableRequest(table_name=handle.table_name, gone=gone, kept=kept, io=io), io.read)

    found = unreachable_files(everything, nothing, find)
    statistics = statistics_files(metadata, metadata.snapshots.ids())
    files = distinct(pa.concat_tables([found.files, statistics, _metadata_files(handle, loaded.location, metadata)]))
    return PurgeReport(table=handle.table_name, files=reported(files), unreadable=found.unreadable)


def _metadata_files(handle: TableHandle, location: str, metadata: TableMetadata) -> Any:
    """The current file and those of its log that are still there, the oldest first: the current one is the way to all others."""
    named = [*(entry.metadata_file for entry in metadata.metadata_log), location]
    sizes = list(side_by_side(lambda path: _size(handle, path), named))
    return listed_files(FileKind.METADATA, [(path, size) for path, size in zip(named, sizes, strict=True) if size != 0])


def _size(handle: TableHandle, path: str) -> int | None:
    """In bytes; 0 for a file that is not there, None where that cannot be told."""
    try:
        return handle.io.size(path)
    except NotFoundError:
        return 0
    except StorageError:
        return None
