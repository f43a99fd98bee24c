"""`OrphanRemoval`: files in a table's folder that nothing references are deleted at once, or listed and deleted later.

Its order of steps makes it safe while others write: list the folder, then load the metadata, then compare both. Before each batch of deletions the metadata is
loaded again if the catalog has a new metadata file. If a file that the table needs cannot be read, nothing is deleted.
Spec: Optimistic Concurrency; Snapshots; File System Operations (deletes).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.commit.snapshot_expiry import check_files_may_be_deleted
from icefloe.display.progress import progress
from icefloe.errors import (
    FormatError,
    InvalidInputError,
    LocationNotAllowedError,
    NotFoundError,
    Problem,
    StorageError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.io.bulk_delete import delete_files
from icefloe.io.file_tree import FolderFiles, FolderPart, HiddenNames, file_state, list_part, local_state
from icefloe.io.locations import folders_of, join, local_path, place_of_file, scheme_of
from icefloe.maintenance.orphan_options import OrphanOptions
from icefloe.maintenance.orphan_report import OrphanMode, RemoveOrphanFilesResult
from icefloe.maintenance.orphan_scope import OrphanScope, cached_real, foreign_folders, metadata_of_others, orphan_scope
from icefloe.maintenance.quarantine_list import FilesInside, QuarantineList, QuarantineWriter, quarantine_lists
from icefloe.operations.available_engines import IN_PROCESS, arrow_table, engine_choice, engine_for_rows, engine_named
from icefloe.operations.engine import Engine
from icefloe.operations.expiry.deletion_scope import deletion_scope
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.metadata_cache import LoadedMetadata, reload_metadata
from icefloe.operations.orphans.linked_files import LinkedFiles
from icefloe.operations.orphans.orphan_search import OrphanRequest, metadata_among
from icefloe.operations.orphans.path_database import LISTED, FoundOrphans
from icefloe.operations.orphans.referenced_files import METADATA_FOLDER, ReferencedFiles, added_since, referenced_files, refusal
from icefloe.operations.parallel_requests import side_by_side
from icefloe.operations.table_handle import metadata_folder
from icefloe.spec.identifier import Identifier
from icefloe.spec.metadata.table_metadata import TableMetadata

_SHOWN_PROBLEMS = 100
# While files are deleted, the time after which all tables of the catalog are checked again.
OTHERS_KNOWN_MS = 60_000


def _engine_of_view(view: Any) -> Engine:
    """Return the engine for a `file_list_view`, by its type. Raises `InvalidInputError` for any other type."""
    try:
        return engine_for_rows(view)
    except InvalidInputError:
        what = f"the text {view!r}" if isinstance(view, str) else f"of type {type(view).__name__}"
        raise InvalidInputError(
            f"file_list_view is {what}",
            next_step="in SQL name a view of Spark; in Python pass a DataFrame of Spark, or Arrow data, such as a pyarrow Table",
        ) from None


def _arrow_files(view: Any, older_than_ms: int) -> Callable[[], Iterator[Any]]:
    """Return a function that yields the files of an Arrow `file_list_view` modified before `older_than_ms`, as tables with the schema `LISTED`."""

    def files() -> Iterator[Any]:
        for batch in view if isinstance(view, pa.RecordBatchReader) else arrow_table(view).to_batches():
            try:
                paths, times = batch.column("file_path").cast(pa.string()), batch.column("last_modified")
                if not pa.types.is_timestamp(times.type):
                    raise pa.ArrowTypeError(f"its column last_modified is of type {times.type}, and not a timestamp")
                times = times.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
            except (KeyError, pa.ArrowException) as error:
                raise InvalidInputError(
                    f"file_list_view cannot be used: {error}",
                    next_step="its columns are file_path, a string, and last_modified, a timestamp",
                ) from error
            is_old = pc.and_(pc.fill_null(pc.less(times, older_than_ms), fill_value=False), pc.is_valid(paths))
            chosen = paths.filter(is_old)
            # Size and time are read from the storage later, for each file that nothing references.
            yield pa.table([chosen, *[pa.nulls(len(chosen), pa.int64())] * 2], schema=LISTED)

    return files


@dataclass(slots=True)
class OrphanRemoval:
    """Runs `remove_orphan_files` on one table, in any of its modes."""

    table: LoadedTable
    options: OrphanOptions
    scope: OrphanScope = field(init=False)
    loaded: LoadedMetadata = field(init=False)
    referenced: ReferencedFiles = field(init=False)
    result: RemoveOrphanFilesResult = field(init=False)
    # The metadata of tables in the same folder, whose files are kept; and the time of the last search for such tables.
    _seen_others: dict[Identifier, str] = field(init=False, default_factory=dict)
    _others_known_ms: int = field(init=False, default=0)
    _looked_at: set[str] = field(init=False, default_factory=set)

    def run(self) -> RemoveOrphanFilesResult:
        """Delete, list, purge or undo, as the mode in the options states. Raises the errors of `TableMaintenance.remove_orphan_files`."""
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
        with FoundOrphans(options.keys) as orphans:
            if options.mode is OrphanMode.PURGE:
                return self._purge(orphans)
            self.result = replace(self.result, location=self.scope.location)
            self._search(orphans, options.view)
            if options.dry_run:
                return self._with_orphans(orphans)
            if options.mode is OrphanMode.QUARANTINE:
                return self._quarantine(orphans)
            return self._delete(orphans)

    def _engine(self, view: Any) -> Engine:
        """Return the engine from the caller, or the engine of the view, or Spark if the table is large and Spark runs already.

        Raises:
            InvalidInputError: The type of the view does not belong to the engine.
            EngineError: There is no such engine.
        """
        named = None if self.options.engine is None else engine_named(self.options.engine)
        if view is not None:
            engine = _engine_of_view(view)
            if named is not None and named is not engine:
                raise InvalidInputError(
                    f"the rows of file_list_view are those of the engine {engine.name}, and not of {named.name}",
                    next_step="leave out the engine, or pass a view of its rows",
                )
            return engine
        return named or engine_choice().for_many(_live_files(self.loaded.metadata), engine_choice().live_files)

    def _search(self, collected: FoundOrphans, view: Any, lists: Callable[[], Iterable[Any]] | None = None) -> None:
        """Search the folder, a view of files, or the files in lists for orphan files, and add those that are old enough to `collected`."""
        handle, is_listing = self.table.handle, view is None and lists is None
        engine = IN_PROCESS if lists is not None else self._engine(view)
        is_arrow = view is not None and engine is IN_PROCESS
        request = OrphanRequest(
            table_name=handle.table_name,
            io=handle.io,
            folder=self.scope.location,
            hidden=HiddenNames.of_fields(field.name for spec in self.loaded.metadata.partition_specs for field in spec.fields),
            keys=self.options.keys,
            mismatch=self.options.mismatch,
            referenced=lambda listed: self._load_referenced([*listed, *self._unlisted_metadata_files(is_listing)]),
            files=_arrow_files(view, self.options.older_than_ms) if is_arrow else lists,
            view=None if is_arrow else view,
            is_inside=FilesInside(self.scope),
            older_than_ms=self.options.older_than_ms,
            lasting_file=_lasting_file(self.loaded),
        )
        with closing(engine.orphans(request)) as tables:
            for orphans in tables:
                collected.write(self._without_foreign(self._old_enough(orphans), is_listing=is_listing))
        self.result = replace(
            self.result,
            listed_files=request.listed.files,
            pending=self.referenced.pending,
            other_tables=tuple(f"{'' if place.store == 'file' else place.store}{place.path}" for place in self.scope.without),
        )

    def _unlisted_metadata_files(self, is_listing: bool) -> Iterator[str]:
        """Yield the table's metadata files that the search has not listed. They are needed, because a commit that may still happen is only in its own file."""
        folders = [*list_folders(self.loaded.metadata), self.loaded.location.rpartition("/")[0]]
        for folder in dict.fromkeys(folders):
            if not (is_listing and all(place.is_below(self.scope.place) for place in folders_of([folder]))):
                yield from self._metadata_files_in(folder)

    def _metadata_files_in(self, folder: str) -> Iterator[str]:
        with suppress(UnsupportedFeatureError):  # a storage without listing
            # Below the first level, a folder that does not exist has no files.
            for listed in list_part(self.table.io, FolderPart(folder, 1), HiddenNames()):
                if isinstance(listed, FolderFiles):
                    yield from (f"{listed.folder}/{name}" for name in metadata_among(listed.names))

    def _load_referenced(self, metadata_files: Iterable[str]) -> ReferencedFiles:
        """Load the table's metadata again, and return the files that it references."""
        handle, listed = self.table.handle, list(metadata_files)
        self.loaded = reload_metadata(handle, self.loaded.metadata)
        check_files_may_be_deleted(self.loaded.metadata)
        # Tables that were created meanwhile are excluded too.
        self.scope = orphan_scope(handle, self.loaded, self.options.location)
        self.scope = self.scope.excluding(foreign_folders(self.loaded, self.scope, listed))
        others = metadata_of_others(handle, self.scope.others)
        self._seen_others = {other.identifier: other.metadata_location for other in self.scope.others}
        self._others_known_ms = handle.clock.now_ms()
        self.referenced = referenced_files(handle.table_name, handle.io, self.loaded, others, listed)
        return self.referenced

    def _old_enough(self, orphans: Any) -> Any:
        """Return the orphan files in the scope that exist and are old enough, with their sizes and times."""
        real = cached_real()
        orphans = orphans.filter(pa.array([self.scope.contains(path, real) for path in orphans["path"].to_pylist()], pa.bool_()))
        if orphans["modified_ms"].null_count:
            # One request for each file, except for local files.
            of_each = map if self.scope.place.store == "file" else side_by_side
            states = list(of_each(self._state, orphans["path"].to_pylist()))
            sizes = pa.array([None if state is None else state[0] for state in states], pa.int64())
            times = pa.array([None if state is None else state[1] for state in states], pa.int64())
            orphans = pa.table([orphans["path"], sizes, times], schema=LISTED)
        is_old = pc.fill_null(pc.less(orphans["modified_ms"], self.options.older_than_ms), fill_value=False)
        return orphans.filter(is_old)

    def _without_foreign(self, orphans: Any, *, is_listing: bool) -> Any:
        """Remove files in the folders of other tables that the search has not listed: folders above the scope, and for a list the folders above each file."""
        real, paths = cached_real(), orphans["path"].to_pylist()
        folders = set(self.scope.folders_above()) if paths else set()
        if not is_listing:
            folders.update(
                folder
                for path in {path.rpartition("/")[0]: path for path in paths}.values()
                for folder in self.scope.folders_around(path, real)
            )
        folders -= self._looked_at
        self._looked_at |= folders
        # One metadata file in each folder is enough.
        files = side_by_side(lambda folder: list(islice(self._metadata_files_in(f"{folder}/{METADATA_FOLDER}"), 1)), folders)
        files_of_folders = [file for of_folder in files for file in of_folder]
        self.scope = self.scope.excluding(foreign_folders(self.loaded, self.scope, files_of_folders))
        return orphans.filter(pa.array([self.scope.contains(path, real) for path in paths], pa.bool_()))

    def _state(self, path: str) -> tuple[int, int | None] | None:
        """Return the current size and time of a file; None if it does not exist any more. A file with an unknown time is kept."""
        if scheme_of(path) == "file":
            try:
                state = local_state(local_path(path))
            except OSError:
                return None
        else:
            state = file_state(self.table.io, path)
        return None if state is None else (state.size, state.modified_ms)

    def _with_orphans(self, orphans: FoundOrphans) -> RemoveOrphanFilesResult:
        return replace(
            self.result, orphan_files=orphans.files, orphan_bytes=orphans.size_in_bytes, files=orphans.first(self.options.most_paths)
        )

    def _quarantine(self, orphans: FoundOrphans) -> RemoveOrphanFilesResult:
        result = self._with_orphans(orphans)
        if not orphans.files and not self.options.lists_none:
            return result
        handle = self.table.handle
        folder = metadata_folder(self.loaded.metadata)
        with QuarantineWriter(handle.io, folder, handle.clock.now_ms(), handle.ids.uuid()) as writer:
            for numbers in orphans.batches():
                writer.write(orphans.rows(numbers))
        return replace(result, lists=(writer.location,))

    def _delete(self, orphans: FoundOrphans) -> RemoveOrphanFilesResult:
        """Delete the orphan files in batches. Before each batch the catalog is checked again."""
        result, failed, deleted = self._with_orphans(orphans), 0, 0
        failures: list[Problem] = []
        with progress(f"delete orphan files of {self.table.full_name}", "files", orphans.files) as work:
            for numbers in orphans.batches():
                self._keep_needed(orphans)
                still = orphans.rows(numbers)
                undeleted = delete_files(self.table.io, still["path"].to_pylist(), _Unchanged(self.scope, still), self.options.threads)
                failed += len(undeleted)
                deleted += len(still) - len(undeleted)
                failures += [Problem(where=path, what=error.message) for path, error in undeleted[: _SHOWN_PROBLEMS - len(failures)]]
                work.advance(len(numbers))
        return replace(result, deleted_files=deleted, undeleted=tuple(failures), undeleted_files=failed)

    def _keep_needed(self, orphans: FoundOrphans) -> None:
        """Exclude orphan files that newer commits reference. Raises the errors of `_load_referenced` before any file of the batch is deleted."""
        handle = self.table.handle
        if handle.store.load(handle.identifier).metadata_location != self.loaded.location:
            newer = reload_metadata(handle, self.loaded.metadata)
            check_files_may_be_deleted(newer.metadata)
            self._keep(self.referenced, newer, orphans)
            self.referenced = replace(
                self.referenced, snapshot_ids=self.referenced.snapshot_ids | frozenset(newer.metadata.snapshots.ids())
            )
            self.loaded = newer
        self._look_at_others(orphans)

    def _look_at_others(self, orphans: FoundOrphans) -> None:
        """Exclude orphan files that tables in the same folder reference now; from time to time search for new tables there."""
        handle, now_ms = self.table.handle, self.table.handle.clock.now_ms()
        if now_ms >= self._others_known_ms + OTHERS_KNOWN_MS:
            self.scope = orphan_scope(handle, self.loaded, self.options.location).excluding(self.scope.without)
            self._others_known_ms = now_ms
        changed = []
        for other in self.scope.others:
            with suppress(NotFoundError):  # dropped meanwhile
                stored = handle.store.load(other.identifier)
                if not stored.metadata_location or self._seen_others.get(other.identifier) != stored.metadata_location:
                    changed.append(stored)
        for loaded in metadata_of_others(handle, changed):
            # Their snapshots may have the same ids as this table's, for example in a copy of the table.
            self._keep(replace(self.referenced, snapshot_ids=frozenset()), loaded, orphans)
        self._seen_others.update((other.identifier, other.metadata_location) for other in changed)

    def _keep(self, referenced: ReferencedFiles, newer: LoadedMetadata, orphans: FoundOrphans) -> None:
        """Exclude orphan files that newer metadata references."""
        handle = self.table.handle
        try:
            links = LinkedFiles()
            for batch in added_since(handle.io, referenced, newer):
                locations = batch.to_pylist()
                orphans.keep(chain(locations, links.behind(locations)))
        except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
            raise refusal(handle.table_name, error) from error

    def _purge(self, orphans: FoundOrphans) -> RemoveOrphanFilesResult:
        """Delete the files in lists that are old enough, after checking each file again; then delete the lists, unless a file could not be deleted."""
        handle, now_ms = self.table.handle, self.table.handle.clock.now_ms()
        lists = quarantine_lists(handle.io, list_folders(self.loaded.metadata))
        due = [quarantined for quarantined in lists if quarantined.modified_ms <= now_ms - self.options.purge_delay_ms]
        self._check_lists(due)
        self.result = replace(
            self.result,
            lists=tuple(quarantined.location for quarantined in due),
            waiting_lists=tuple(quarantined.location for quarantined in lists if quarantined not in due),
        )
        if not due:
            return self.result
        listed = [0]
        self._search(orphans, None, lambda: self._unchanged_files(due, listed))
        self.result = replace(self.result, listed_files=listed[0], skipped_files=max(0, listed[0] - orphans.files))
        if self.options.dry_run:
            return self._with_orphans(orphans)
        result = self._delete(orphans)
        if not result.undeleted_files:
            for quarantined in due:
                handle.io.delete(quarantined.location)
        return result

    def _unchanged_files(self, lists: Sequence[QuarantineList], listed: list[int]) -> Iterator[Any]:
        """Yield the files in lists whose current size and time are those in the list."""
        for quarantined in lists:
            for table in quarantined.read(self.table.io):
                listed[0] += len(table)
                real = cached_real()
                inside = pa.array([self.scope.contains(path, real) for path in table["path"].to_pylist()], pa.bool_())
                own = table.filter(inside)  # files outside of the scope are not even read
                states = list(side_by_side(self._state, own["path"].to_pylist()))
                rows = zip(own["size_in_bytes"].to_pylist(), own["modified_ms"].to_pylist(), strict=True)
                yield own.filter(pa.array([state == row for state, row in zip(states, rows, strict=True)], pa.bool_()))

    def _check_lists(self, lists: Sequence[QuarantineList]) -> None:
        """Refuse to delete lists from a folder that is known only from the table's metadata or the catalog's server. Raises `LocationNotAllowedError`."""
        scope = deletion_scope(self.table.handle, self.loaded.metadata, self.loaded.location) if lists else None
        for listed in lists:
            if scope is not None and not scope.contains(listed.location):
                raise LocationNotAllowedError(
                    f"the list {listed.location} of {self.table.full_name} is not in a folder that is known to be the table's own, so nothing was deleted",
                    table=self.table.full_name,
                    path=listed.location,
                    next_step="if the folder is the table's, add it to the catalog property io.allowed-locations",
                )

    def _undo(self) -> RemoveOrphanFilesResult:
        handle = self.table.handle
        lists = quarantine_lists(handle.io, list_folders(self.loaded.metadata))
        self._check_lists(lists)
        if not self.options.dry_run:
            for listed in lists:
                handle.io.delete(listed.location)
        return replace(self.result, lists=tuple(listed.location for listed in lists))


def _lasting_file(loaded: LoadedMetadata) -> str:
    """Return the manifest list of the current snapshot. An expiry keeps it for days, while a metadata file may be deleted after a few commits."""
    snapshot = loaded.metadata.current_snapshot()
    return loaded.location if snapshot is None or snapshot.manifest_list is None else snapshot.manifest_list


def _live_files(metadata: TableMetadata) -> int:
    """Return the number of files in the current snapshot according to its summary; 0 if the summary does not have it."""
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return 0
    totals = [snapshot.summary.get(name, "0") for name in ("total-data-files", "total-delete-files")]
    return sum(int(total) for total in totals if total.isascii() and total.isdigit())


def list_folders(metadata: TableMetadata) -> list[str]:
    """Return the folders that may contain lists: the folder of the metadata files, and the default metadata folder."""
    return list(dict.fromkeys([metadata_folder(metadata).rstrip("/"), join(metadata.location, METADATA_FOLDER)]))


class _Unchanged:
    """The check right before a deletion: the file is in the scope, and a local file has not changed since the search."""

    def __init__(self, scope: OrphanScope, files: Any) -> None:
        self._scope = scope
        real = cached_real()
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


def remove_orphan_files(table: LoadedTable, options: OrphanOptions) -> RemoveOrphanFilesResult:
    """Remove orphan files. Arguments and errors are those of `TableMaintenance.remove_orphan_files`."""
    return OrphanRemoval(table, options).run()
