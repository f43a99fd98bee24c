"""`purge_table`: drop a table together with its files. First its name is dropped, then every file that one of its snapshots uses is deleted.

`unreachable_files.py` finds the files, as if all snapshots had expired. Spec: Table Metadata; Snapshots.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icefloe.commit.snapshot_expiry import check_files_may_be_deleted
from icefloe.display.report import Facts, Part, Report
from icefloe.display.reportable import MOST_LINES, OperationResult
from icefloe.errors import CommitConflictError, NotFoundError, Problem, StorageError
from icefloe.formatting import count_text, size_text
from icefloe.io.locations import place_of_file, place_of_folder
from icefloe.lazy_imports import lazy_module
from icefloe.operations.expiry.deletion_scope import deletion_scope, folder_names
from icefloe.operations.expiry.expire_report import FileTotal, no_files, outcome_fields, problems_grid, report_columns, totals
from icefloe.operations.expiry.file_cleanup import delete_in_order, statistics_files
from icefloe.operations.metadata_cache import LoadedMetadata, load_metadata
from icefloe.operations.own_location import check_location_is_proven
from icefloe.operations.parallel_requests import side_by_side
from icefloe.operations.table_handle import TableHandle
from icefloe.operations.unreachable_files import (
    FileKind,
    Unreachable,
    distinct,
    files_of_snapshots,
    find_unreachable,
    listed_files,
    unreachable_files,
)
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.stores.catalog_store import KeepsFolders

if TYPE_CHECKING:
    from icefloe.operations import available_engines
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    available_engines = lazy_module("icefloe.operations.available_engines")

# How often the files of a table are looked up again because another writer committed, until the purge fails.
TRIES = 100


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PurgeReport(OperationResult):
    """The files that were deleted with a table, and those that were not. The attributes have the same meaning as in `ExpireReport`."""

    table: str
    files: Any = field(default_factory=no_files, repr=False, compare=False)
    undeleted: tuple[Problem, ...] = ()
    unreadable: tuple[Problem, ...] = ()
    outside: Any = field(default_factory=no_files, repr=False, compare=False)

    @property
    def outside_files(self) -> int:
        """The number of files that are kept because they are outside the table's location."""
        return len(self.outside)

    @property
    def totals(self) -> dict[FileKind, FileTotal]:
        """The number and size of the files by kind, without files that could not be deleted."""
        return dict(totals(self.files, self.undeleted))

    def report(self, most: int | None = MOST_LINES) -> Report:
        facts = [(f"deleted {kind}", f"{count_text(total.files)}, {size_text(total.size_in_bytes)}") for kind, total in self.totals.items()]
        parts: list[Part] = [Facts(tuple(facts))] if facts else []
        why = "outside the table's location, see --allow-outside, in Python allow_outside"
        kept = [Problem(where=path, what=why) for path in self.outside["path"].to_pylist()]
        parts += problems_grid("kept", kept, most)
        parts += problems_grid("not deleted", self.undeleted, most)
        parts += problems_grid("not readable, what it names is kept", self.unreadable, most)
        return Report(f"dropped table {self.table}", tuple(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict of JSON values."""
        return {"table": self.table, **outcome_fields(self)}


def purge_table(handle: TableHandle, allow_outside: Iterable[str] = ()) -> PurgeReport:
    """Drop a table's name, so that no writer can commit any more, and then delete its files. If this is interrupted, only unreferenced files remain.

    Before the name is dropped, the property `gc.enabled` is read and, if the catalog deletes the table's folder together with the name, the files that
    snapshots use are looked up. If another writer commits in between, this is repeated.

    Files in the table's folder that no snapshot uses stay, unless the catalog deletes the folder. Files outside both the table's location and the folders
    `allow_outside` are kept and reported. Files that cannot be read or deleted are reported too.

    Args:
        handle: the table.
        allow_outside: folders outside the table's location whose files may be deleted too.

    Returns:
        The report of the deleted and kept files.

    Raises:
        NoSuchTableError: the table does not exist.
        InvalidInputError: the table's property `gc.enabled` is false. Nothing was changed.
        NoSuchFileError, MetadataFormatError: the metadata file cannot be read. Nothing was changed.
        LocationNotAllowedError: only the response of the catalog's server shows that the location is the table's. Nothing was changed.
        CommitConflictError: other writers kept committing to the table. Nothing was changed.
    """
    allowed = folder_names(allow_outside, "allow_outside")
    loaded, report_before_drop = _drop(handle, allowed)
    report = report_before_drop or _files_of(handle, loaded)
    scope = deletion_scope(handle, loaded.metadata, loaded.location, allowed)
    inside, outside = scope.divide(report.files)
    remaining = _not_dropped_with_folder(handle, loaded, inside)
    return replace(report, files=inside, outside=outside, undeleted=delete_in_order(handle.io, remaining, scope.contains))


def _not_dropped_with_folder(handle: TableHandle, loaded: LoadedMetadata, files: Any) -> Any:
    """Return the files that the catalog has not deleted together with the table's folder; all files if the catalog deletes no files.

    Files in the folder must not be deleted again by their paths: a new table may have the same name and folder by now, and metadata files of the same names.
    """
    if not handle.store.drops_files:
        return files
    folder = place_of_folder(
        handle.store.table_location(handle.identifier) if isinstance(handle.store, KeepsFolders) else loaded.metadata.location
    )
    places = [place_of_file(path) for path in files["path"].to_pylist()]
    return files.filter(pa.array([folder is None or place is None or not place.is_below(folder) for place in places], pa.bool_()))


def _drop(handle: TableHandle, allowed: tuple[str, ...]) -> tuple[LoadedMetadata, PurgeReport | None]:
    """Drop the table's name. Return its metadata, and a report with its files if these had to be looked up before the drop, otherwise None.

    Raises the errors of `purge_table`.
    """
    for _ in range(TRIES):
        loaded = load_metadata(handle)
        check_files_may_be_deleted(loaded.metadata)
        if handle.store.writes_metadata and not allowed:
            check_location_is_proven(handle, loaded.metadata.location, loaded.location)
        report = _files_of(handle, loaded) if handle.store.drops_files else None
        if handle.store.drop(handle.identifier, expected=loaded.location):
            return loaded, report
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
        return find_unreachable(available_engines.IN_PROCESS, handle.table_name, gone, kept, io.read, io)

    reached = unreachable_files(everything, nothing, find)
    statistics = statistics_files(metadata, metadata.snapshots.ids())
    files = distinct(pa.concat_tables([reached.files, statistics, _metadata_files(handle, loaded.location, metadata)]))
    return PurgeReport(table=handle.table_name, files=report_columns(files), unreadable=reached.unreadable)


def _metadata_files(handle: TableHandle, location: str, metadata: TableMetadata) -> Any:
    """Return the metadata files that exist as a table of `FILES`, oldest first: the current file refers to all others, and must be deleted last."""
    named = [*(entry.metadata_file for entry in metadata.metadata_log), *([location] if location else [])]
    sizes = list(side_by_side(lambda path: _size(handle, path), named))
    return listed_files(FileKind.METADATA, [(path, size) for path, size in zip(named, sizes, strict=True) if size != 0])


def _size(handle: TableHandle, path: str) -> int | None:
    """Return the size of a file in bytes; 0 if the file does not exist, None if the storage fails."""
    try:
        return handle.io.size(path)
    except NotFoundError:
        return 0
    except StorageError:
        return None
