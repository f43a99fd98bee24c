"""`OrphanRemoval`: files of a table's folder that nothing references are deleted at once, or listed and deleted later.

The order of work is what makes it safe beside writers: the folder is listed, then the metadata is loaded, then both are compared, and before each batch of
deletions the metadata is loaded again if the catalog names another file. If a file that the table needs cannot be read, nothing is deleted.
Spec: Optimistic Concurrency; Snapshots; File System Operations (deletes).
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.display.progress import progress
from icefloe.errors import FormatError, InvalidInputError, NotFoundError, Problem, StorageError, UnsupportedError, UnsupportedFeatureError
from icefloe.io.bulk_delete import THREADS, delete_files
from icefloe.io.file_tree import FolderFiles, FolderPart, HiddenNames, file_state, list_part, local_state
from icefloe.io.locations import folders_of, join, local_path, place_of_file, scheme_of
from icefloe.kernel.commit.snapshot_expiry import check_files_may_be_deleted
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.maintenance.orphan_report import OrphanMode, RemoveOrphanFilesResult
from icefloe.maintenance.orphan_scope import OrphanScope, foreign_folders, metadata_of_others, orphan_scope
from icefloe.maintenance.quarantine_list import QuarantineList, QuarantineWriter, is_list, quarantine_lists
from icefloe.table.orphans.linked_files import LinkedFiles
from icefloe.table.orphans.orphan_search import OrphanRequest, find_in_process, metadata_among
from icefloe.table.orphans.path_keys import PathKeys, PrefixMismatch
from icefloe.table.orphans.path_spill import LISTED
from icefloe.table.orphans.referenced_files import METADATA_FOLDER, ReferencedFiles, added_since, referenced_files, refusal
from icefloe.table.parallel_requests import side_by_side
from icefloe.table.table import Table
from icefloe.table.table_handle import LoadedMetadata, metadata_folder, reload_metadata

DAY_MS = 24 * 60 * 60 * 1000
# Java's default of `older_than`, and its least interval.
DEFAULT_AGE_MS, LEAST_AGE_MS = 3 * DAY_MS, DAY_MS
PURGE_DELAY = timedelta(days=7)
# Paths in the result: of a search whose results are streamed as many as Java returns.
SAMPLE, MOST_PATHS = 20_000, 1_000_000
# Orphans that are checked and deleted at a time, and problems in the result.
_BATCH, _SHOWN_PROBLEMS = 5_000, 100

E = TypeVar("E", OrphanMode, PrefixMismatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanOptions:
    """The checked arguments of `TableMaintenance.remove_orphan_files`."""

    mode: OrphanMode
    older_than_ms: int
    location: str | None
    dry_run: bool
    threads: int
    most_paths: int
    files: Callable[[], Iterable[Any]] | None
    keys: PathKeys
    mismatch: PrefixMismatch
    purge_delay_ms: int


def orphan_options(
    now_ms: int,
    *,
    mode: str,
    older_than: datetime | int | None,
    location: str | None,
    dry_run: bool,
    max_concurrent_deletes: int | None,
    stream_results: bool,
    file_list_view: Any,
    equal_schemes: Mapping[str, str] | None,
    equal_authorities: Mapping[str, str] | None,
    prefix_mismatch_mode: str,
    purge_delay: timedelta,
    force: bool,
) -> OrphanOptions:
    """Check the arguments. Raises `InvalidInputError` as `TableMaintenance.remove_orphan_files`."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidInputError(f"max_concurrent_deletes is {max_concurrent_deletes}; it counts threads, so it is 1 or more")
    older_than_ms = _milliseconds(older_than, now_ms)
    if older_than_ms > now_ms - LEAST_AGE_MS and not force:
        raise InvalidInputError(
            "Cannot remove orphan files with an interval less than 24 hours: files of a commit that is not finished look like orphans",
            next_step="give an earlier time; or pass force, if no other program writes to this table now",
        )
    delay_ms = int(purge_delay.total_seconds() * 1000)
    if delay_ms < (0 if force else DAY_MS):
        raise InvalidInputError(
            f"the delay of the purge is {purge_delay}: without force it is at least one day", next_step="give a longer one"
        )
    chosen = _member(OrphanMode, mode.lower(), "mode")
    if chosen in (OrphanMode.PURGE, OrphanMode.UNDO) and (location is not None or file_list_view is not None):
        raise InvalidInputError(
            f"the mode {chosen} works on lists, and takes no location and no file_list_view", next_step="leave these arguments out"
        )
    return OrphanOptions(
        mode=chosen,
        older_than_ms=older_than_ms,
        location=location,
        dry_run=dry_run,
        threads=max_concurrent_deletes or THREADS,
        most_paths=SAMPLE if stream_results else MOST_PATHS,
        files=None if file_list_view is None else _view_files(file_list_view, older_than_ms),
        keys=PathKeys.of(equal_schemes or {}, equal_authorities or {}),
        mismatch=_member(PrefixMismatch, prefix_mismatch_mode.upper(), "prefix_mismatch_mode"),
        purge_delay_ms=delay_ms,
    )


def _member(kind: type[E], text: str, argument: str) -> E:
    try:
        return kind(text)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise InvalidInputError(f"{argument} is {text!r}", next_step=f"there are: {names}") from None


def _milliseconds(older_than: datetime | int | None, now_ms: int) -> int:
    if older_than is None:
        return now_ms - DEFAULT_AGE_MS
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise InvalidInputError(
                f"older_than is {older_than.isoformat()}, which has no time zone",
                next_step="give a time with a time zone, such as datetime.now(UTC) - timedelta(days=3)",
            )
        return int(older_than.timestamp() * 1000)
    return older_than


def _view_files(view: Any, older_than_ms: int) -> Callable[[], Iterator[Any]]:
    """Return the files of `file_list_view`, Arrow data with the columns `file_path` and `last_modified`, that are old enough, as tables of `LISTED`."""
    if isinstance(view, str):
        raise InvalidInputError(
            f"file_list_view is the text {view!r}",
            next_step="in SQL name a view of Spark; in Python pass Arrow data, such as a pyarrow Table",
        )

    def files() -> Iterator[Any]:
        for batch in view.to_batches() if isinstance(view, pa.Table) else view:
            try:
                paths = batch.column("file_path").cast(pa.string())
                times = batch.column("last_modified").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
            except (KeyError, pa.ArrowException) as error:
                raise InvalidInputError(
                    f"file_list_view cannot be used: {error}",
                    next_step="its columns are file_path, a string, and last_modified, a timestamp",
                ) from error
            is_old = pc.and_(pc.fill_null(pc.less(times, older_than_ms), fill_value=False), pc.is_valid(paths))
            chosen = paths.filter(is_old)
            # Size and time are read again from the storage for each file that nothing references.
            yield pa.table([chosen, *[pa.nulls(len(chosen), pa.int64())] * 2], schema=LISTED)

    return files


@dataclass(slots=True)
class OrphanRemoval:
    """One removal of orphan files."""

    table: Table
    options: OrphanOptions
    scope: OrphanScope = field(init=False)
    loaded: LoadedMetadata = field(init=False)
    referenced: ReferencedFiles = field(init=False)
    result: RemoveOrphanFilesResult = field(init=False)
    _keys_added: set[int] = field(init=False, default_factory=set)
    _looked_at: set[str] = field(init=False, default_factory=set)

    def run(self) -> RemoveOrphanFilesResult:
        """Run the mode of the options. Raises as `TableMaintenance.remove_orphan_files`."""
        handle, options = self.table.handle, self.options
        self.loaded = reload_metadata(handle, self.table.metadata)
        check_files_may_be_deleted(self.loaded.metadata)
        self.result = RemoveOrphanFilesResult(table=handle.table_name, mode=options.mode, dry_run=options.dry_run)
        if options.mode is OrphanMode.UNDO:
            return self._undo()
        self.scope = orphan_scope(handle, self.loaded, options.location)
        if options.mode is OrphanMode.QUARANTINE and not self.scope.is_own:
            raise InvalidInputError(
                f"{options.location} is not in the proven folder of {handle.table_name}, so no purge would delete the files of a list of it",
                table=handle.table_name,
                path=options.location,
                next_step="delete the orphan files of this location with the mode delete, after a dry run",
            )
        with TemporaryDirectory(prefix="icefloe-orphans-") as folder:
            if options.mode is OrphanMode.PURGE:
                return self._purge(folder)
            self.result = replace(self.result, location=self.scope.location)
            found = _OrphanFile(folder)
            self._search(found, options.files)
            if options.dry_run:
                return self._with_orphans(found)
            if options.mode is OrphanMode.QUARANTINE:
                return self._quarantine(found)
            return self._delete(found)

    def _search(self, found: "_OrphanFile", files: Callable[[], Iterable[Any]] | None) -> None:
        """Write the orphans that are old enough to `found`."""
        handle = self.table.handle
        request = OrphanRequest(
            table_name=handle.table_name,
            io=handle.io,
            folder=self.scope.location,
            hidden=HiddenNames.of_fields(field.name for spec in self.loaded.metadata.partition_specs for field in spec.fields),
            keys=self.options.keys,
            mismatch=self.options.mismatch,
            referenced=lambda listed: self._referenced([*listed, *self._unlisted_metadata_files(files is None)]),
            files=None if files is None else lambda: self._inside(files()),
        )
        with found:
            for orphans in find_in_process(request):
                found.write(self._without_foreign(self._old_enough(orphans), is_listing=files is None))
        self.result = replace(
            self.result,
            listed_files=request.listed.files,
            pending=self.referenced.pending,
            other_tables=tuple(f"{'' if place.store == 'file' else place.store}{place.path}" for place in self.scope.without),
        )

    def _inside(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Yield the files of a list or a view that are in the scope; others, and lists of orphan files, are left out."""
        for table in tables:
            real = _cached_real()
            inside = [self.scope.contains(path, real) and not is_list(path) for path in table["path"].to_pylist()]
            yield table.filter(pa.array(inside, pa.bool_()))

    def _unlisted_metadata_files(self, is_listing: bool) -> Iterator[str]:
        """Yield the table's metadata files that the search has not listed: a commit that may still happen is known by its own alone."""
        folders = [*_list_folders(self.loaded.metadata), self.loaded.location.rpartition("/")[0]]
        for folder in dict.fromkeys(folders):
            if not (is_listing and all(place.is_below(self.scope.place) for place in folders_of([folder]))):
                yield from self._metadata_files_in(folder)

    def _metadata_files_in(self, folder: str) -> Iterator[str]:
        with suppress(UnsupportedFeatureError):  # a storage that cannot be listed at all
            # At a level below the first, a folder that does not exist has no files.
            for listed in list_part(self.table.io, FolderPart(folder, 1), HiddenNames()):
                if isinstance(listed, FolderFiles):
                    yield from (f"{listed.folder}/{name}" for name in metadata_among(listed.names))

    def _referenced(self, metadata_files: Iterable[str]) -> ReferencedFiles:
        """Load the table's metadata again, and return what it references."""
        handle, listed = self.table.handle, list(metadata_files)
        self.loaded = reload_metadata(handle, self.loaded.metadata)
        check_files_may_be_deleted(self.loaded.metadata)
        # Tables that were created meanwhile are left out too.
        self.scope = orphan_scope(handle, self.loaded, self.options.location)
        self.scope = self.scope.excluding(foreign_folders(self.loaded, self.scope, listed))
        others = metadata_of_others(handle, self.scope.others)
        self.referenced = referenced_files(handle.table_name, handle.io, self.loaded, others, listed)
        return self.referenced

    def _old_enough(self, orphans: Any) -> Any:
        """Return the orphans in the scope that exist and are old enough, with their sizes and times."""
        real = _cached_real()
        orphans = orphans.filter(pa.array([self.scope.contains(path, real) for path in orphans["path"].to_pylist()], pa.bool_()))
        if orphans["modified_ms"].null_count:
            states = [self._state(path) for path in orphans["path"].to_pylist()]
            sizes = pa.array([None if state is None else state[0] for state in states], pa.int64())
            times = pa.array([None if state is None else state[1] for state in states], pa.int64())
            orphans = pa.table([orphans["path"], sizes, times], schema=LISTED)
        is_old = pc.fill_null(pc.less(orphans["modified_ms"], self.options.older_than_ms), fill_value=False)
        return orphans.filter(is_old)

    def _without_foreign(self, orphans: Any, *, is_listing: bool) -> Any:
        """Return the orphans without those in folders of other tables that the search has not listed: folders above, and with a list those around each file."""
        real, paths = _cached_real(), orphans["path"].to_pylist()
        folders = set(self.scope.folders_above()) if paths else set()
        if not is_listing:
            folders.update(
                folder
                for path in {path.rpartition("/")[0]: path for path in paths}.values()
                for folder in self.scope.folders_around(path, real)
            )
        folders -= self._looked_at
        self._looked_at |= folders
        # Of each folder one metadata file is enough.
        files = side_by_side(lambda folder: list(islice(self._metadata_files_in(f"{folder}/{METADATA_FOLDER}"), 1)), folders)
        found = [file for of_folder in files for file in of_folder]
        self.scope = self.scope.excluding(foreign_folders(self.loaded, self.scope, found))
        return orphans.filter(pa.array([self.scope.contains(path, real) for path in paths], pa.bool_()))

    def _state(self, path: str) -> tuple[int, int | None] | None:
        """Return size and time of a file now; None where it is gone. A file whose time is unknown is kept."""
        if scheme_of(path) == "file":
            try:
                state = local_state(local_path(path))
            except OSError:
                return None
        else:
            state = file_state(self.table.io, path)
        return None if state is None else (state.size, state.modified_ms)

    def _with_orphans(self, found: "_OrphanFile") -> RemoveOrphanFilesResult:
        return replace(self.result, orphan_files=found.files, orphan_bytes=found.size_in_bytes, files=found.first(self.options.most_paths))

    def _quarantine(self, found: "_OrphanFile") -> RemoveOrphanFilesResult:
        result = self._with_orphans(found)
        if not found.files:
            return result
        handle = self.table.handle
        folder = metadata_folder(self.loaded.metadata)
        with QuarantineWriter(handle.io, folder, handle.clock.now_ms(), handle.ids.uuid()) as writer:
            for orphans in found.batches():
                writer.write(orphans)
        return replace(result, lists=(writer.location,))

    def _delete(self, found: "_OrphanFile") -> RemoveOrphanFilesResult:
        """Delete the orphans, batch by batch, each after a look at the catalog."""
        result, failed, deleted = self._with_orphans(found), 0, 0
        failures: list[Problem] = []
        with progress(f"delete orphan files of {self.table.full_name}", "files", found.files) as work:
            for orphans in found.batches():
                still = self._still_orphans(orphans)
                undeleted = delete_files(self.table.io, still["path"].to_pylist(), _Unchanged(self.scope, still), self.options.threads)
                failed += len(undeleted)
                deleted += len(still) - len(undeleted)
                failures += [Problem(where=path, what=error.message) for path, error in undeleted[: _SHOWN_PROBLEMS - len(failures)]]
                work.advance(len(orphans))
        return replace(result, deleted_files=deleted, undeleted=tuple(failures), undeleted_files=failed)

    def _still_orphans(self, orphans: Any) -> Any:
        """Return the orphans without files that commits since the search reference. Raises as `_referenced`, before anything of the batch is deleted."""
        handle = self.table.handle
        if handle.store.load(handle.identifier).metadata_location != self.loaded.location:
            newer = reload_metadata(handle, self.loaded.metadata)
            check_files_may_be_deleted(newer.metadata)
            try:
                links = LinkedFiles()
                for paths in added_since(handle.io, self.referenced, newer):
                    for needed in (paths, *links.behind(paths)):
                        for keys, _ in self.options.keys.paths(needed):
                            self._keys_added.update(map(hash, keys))
            except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
                raise refusal(handle.table_name, error) from error
            self.referenced = replace(
                self.referenced, snapshot_ids=self.referenced.snapshot_ids | frozenset(newer.metadata.snapshots.ids())
            )
            self.loaded = newer
        if not self._keys_added:
            return orphans
        is_added = [hash(self.options.keys.file(path)[0]) in self._keys_added for path in orphans["path"].to_pylist()]
        return orphans.filter(pc.invert(pa.array(is_added, pa.bool_())))

    def _purge(self, folder: str) -> RemoveOrphanFilesResult:
        """Delete the files of lists that are old enough, after each file was checked again; then delete the lists."""
        handle, now_ms = self.table.handle, self.table.handle.clock.now_ms()
        lists = quarantine_lists(handle.io, _list_folders(self.loaded.metadata))
        due = [one for one in lists if one.modified_ms <= now_ms - self.options.purge_delay_ms]
        self.result = replace(
            self.result,
            lists=tuple(one.location for one in due),
            waiting_lists=tuple(one.location for one in lists if one not in due),
        )
        if not due:
            return self.result
        listed = [0]
        found = _OrphanFile(folder)
        self._search(found, lambda: self._unchanged(due, listed))
        self.result = replace(self.result, listed_files=listed[0], skipped_files=max(0, listed[0] - found.files))
        if self.options.dry_run:
            return self._with_orphans(found)
        result = self._delete(found)
        if not result.undeleted_files:
            for one in due:
                handle.io.delete(one.location)
        return result

    def _unchanged(self, lists: Sequence[QuarantineList], listed: list[int]) -> Iterator[Any]:
        """Yield the files of lists that have the size and time that the list has, as the storage shows them now."""
        for one in lists:
            for table in one.read(self.table.io):
                listed[0] += len(table)
                real = _cached_real()
                inside = pa.array([self.scope.contains(path, real) for path in table["path"].to_pylist()], pa.bool_())
                own = table.filter(inside)  # nothing outside the scope is looked at
                states = list(side_by_side(self._state, own["path"].to_pylist()))
                rows = zip(own["size_in_bytes"].to_pylist(), own["modified_ms"].to_pylist(), strict=True)
                yield own.filter(pa.array([state == row for state, row in zip(states, rows, strict=True)], pa.bool_()))

    def _undo(self) -> RemoveOrphanFilesResult:
        handle = self.table.handle
        lists = quarantine_lists(handle.io, _list_folders(self.loaded.metadata))
        if not self.options.dry_run:
            for one in lists:
                handle.io.delete(one.location)
        return replace(self.result, lists=tuple(one.location for one in lists))


def _list_folders(metadata: TableMetadata) -> list[str]:
    """Return the folders that may have lists: that of the metadata files, and the usual one."""
    return list(dict.fromkeys([metadata_folder(metadata).rstrip("/"), join(metadata.location, METADATA_FOLDER)]))


def _cached_real() -> Callable[[str], str]:
    """Return `os.path.realpath`, which resolves each folder once; for a batch, because links change."""
    known: dict[str, str] = {}

    def real(folder: str) -> str:
        if folder not in known:
            known[folder] = os.path.realpath(folder)
        return known[folder]

    return real


class _Unchanged:
    """The check right before a deletion: the file is in the scope, and a local one is still the file that was found."""

    def __init__(self, scope: OrphanScope, files: Any) -> None:
        self._scope = scope
        real = _cached_real()
        places = [place_of_file(path, real) for path in files["path"].to_pylist()]
        states = zip(files["size_in_bytes"].to_pylist(), files["modified_ms"].to_pylist(), strict=True)
        self._states = {
            place.path: state for place, state in zip(places, states, strict=True) if place is not None and place.store == "file"
        }

    def __call__(self, location: str) -> bool:
        if not self._scope.contains(location):
            return False
        if scheme_of(location) != "file":
            return True
        path = local_path(location)
        with suppress(FileNotFoundError, NotADirectoryError):
            state = local_state(path)
            return state is not None and self._states.get(path) == (state.size, state.modified_ms)
        return True


class _OrphanFile:
    """Found orphans in a file on the local disk, with their number and size."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "orphans.arrows")
        self._writer: Any = None
        self._waiting: list[Any] = []
        self.files = 0
        self.size_in_bytes = 0

    def __enter__(self) -> "_OrphanFile":
        self._writer = pa.ipc.new_stream(self._path, LISTED, options=pa.ipc.IpcWriteOptions(compression="lz4"))
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()

    def write(self, orphans: Any) -> None:
        """Add a table of `LISTED`."""
        self.files += len(orphans)
        self.size_in_bytes += pc.sum(orphans["size_in_bytes"]).as_py() or 0
        self._waiting.append(orphans)
        if sum(map(len, self._waiting)) >= _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), _BATCH)
        self._waiting = []

    def batches(self) -> Iterator[Any]:
        """Yield the orphans as tables of a few thousand rows."""
        with pa.ipc.open_stream(self._path) as stream:
            for batch in stream:
                yield pa.Table.from_batches([batch])

    def first(self, most: int) -> Any:
        """Return at most that many orphans, sorted by path."""
        tables, rows = [LISTED.empty_table()], 0
        for table in self.batches():
            tables.append(table.slice(0, most - rows))
            rows += len(tables[-1])
            if rows >= most:
                break
        return pa.concat_tables(tables).sort_by("path")


def remove_orphan_files(table: Table, options: OrphanOptions) -> RemoveOrphanFilesResult:
    """Remove orphan files. Arguments and errors are those of `TableMaintenance.remove_orphan_files`."""
    return OrphanRemoval(table, options).run()
