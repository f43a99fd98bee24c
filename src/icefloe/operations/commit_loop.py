"""The commit loop of tables: lets actions make attempts, writes their files, and commits to the store; after another writer's commit, it refreshes and retries.

A commit changes one table, or several tables of one catalog: all or none. `icefloe.commit` determines what an attempt contains; `commit_retries.py`, how often
and how long to retry and how to check the status of an unknown commit; `icefloe.stores`, how a store commits. This module writes the next metadata file, unless
the store `writes_metadata`: such a store receives the updates and requirements instead.
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry; Overview.

Three rules make it safe. Files of an attempt are deleted only if it is certain that it was not committed. If the outcome is unknown, nothing is deleted. And
before an attempt counts as lost, the table's history is searched for it, because a reply can be lost although the commit happened, and other commits can
follow.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest

from icefloe.commit.attempt import Action, Attempt
from icefloe.commit.attempts_in_summary import MOST_BASES, base_of, with_lost_attempts
from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Stored, Unknown
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    CommitUnknownError,
    IcefloeError,
    InvalidInputError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotFoundError,
    Problem,
    StorageError,
    in_one_line,
)
from icefloe.io.bulk_delete import delete_files
from icefloe.io.local_file_io import FileVersion
from icefloe.io.manifest_cache import keep_written
from icefloe.operations.commit_retries import CommitTurn, check_commit_status, commit_with_retries, outcome_of_commit
from icefloe.operations.metadata_cache import METADATA_FILES, LoadedMetadata, load_metadata, reload_metadata, written_version
from icefloe.operations.own_location import OldMetadataFiles, check_location_is_own, check_paths_for_writes, own_metadata_files
from icefloe.operations.pending_change import CommitReport
from icefloe.operations.table_handle import TableHandle, metadata_content, new_metadata_location
from icefloe.operations.write_result import WriteResult
from icefloe.spec.identifier import dotted
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.metadata_updates import (
    Update,
    apply_updates,
    creation_updates,
    dropped_metadata_files,
    numbered_updates,
    with_metadata_log,
)
from icefloe.spec.metadata.requirement import AssertCreate
from icefloe.spec.metadata.snapshot import count_of
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Part
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.metrics_report import commit_report
from icefloe.stores.request_key import new_key

LOG = logging.getLogger(__name__)
# How often a commit is tried if other writers drop the namespace of its new table again and again.
NAMESPACE_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """The change of one table in a commit.

    Attributes:
        handle: The table.
        base: The metadata on which the first attempt is based. Its location is empty for a new table, because its metadata was never written.
        action: The change; for a new table it may be None.
        is_new: Whether the commit creates the table.
        create_namespace: A function that creates the namespace of a new table again, if another writer has dropped it; None if that is an error.
    """

    handle: TableHandle
    base: LoadedMetadata
    action: Action | None
    is_new: bool = False
    create_namespace: Callable[[], None] | None = None


class TableCommit:
    """One table in a commit: makes the attempts on it, and records the metadata that they are based on and the files that they wrote."""

    def __init__(self, change: TableChange) -> None:
        self.handle = change.handle
        self.action = change.action
        self.is_new = change.is_new
        self.base = change.base  # the base of the current attempt; after the commit, the committed metadata
        self.attempt: Attempt | None = None
        self._next: LoadedMetadata | None = None  # the new metadata of the current attempt
        self._next_content: list[Part] = []
        self._next_version: FileVersion | None = None
        self._base_of_last_attempt = change.base
        self._metadata_locations: list[str] = []
        self._manifests_and_lists: list[
            str
        ] = []  # including those whose writing failed, because parts of them may exist and must be deleted
        self._manifests_in_storage: set[str] = set()
        self._lost_bases: list[int | None] = []  # the snapshots that lost attempts were based on
        self._first_attempt_ms: int | None = None

    @property
    def metadata_location(self) -> str:
        """The location of the last attempt's metadata file; empty before the first attempt."""
        return self._metadata_locations[-1] if self._metadata_locations else ""

    def prepare(self, number: int) -> CommitRequest | None:
        """Make attempt `number` and write its files.

        The base of the first attempt may have been loaded long ago. If the action changes nothing in it, or files that it needs have been expired, the table is
        loaded again first.

        Returns:
            The request to the catalog store; None if there is nothing to commit.

        Raises:
            CommitConflictError: the base does not meet the action's requirements.
            CommitInvalidatedError: the action was valid on an earlier base and is not valid on this one.
            InvalidInputError: the catalog cannot store the new metadata.
            StorageError: the new metadata cannot be written.
            LocationNotAllowedError: the table has a location, or paths for new files, that the catalog does not allow.
        """
        is_reloaded = number > 0
        if number > 0 and self.attempt is not None:
            self._lost_bases += base_of(self.attempt)
        while True:
            try:
                now_ms = self.handle.clock.now_ms()
                if not self._make_attempt(number, now_ms):
                    continue
                request = self._write_attempt(now_ms)
            except InvalidInputError as error:
                if number == 0:
                    raise
                raise _invalidated_error(error) from error
            if request is not None or is_reloaded:
                return request
            self.reload()
            is_reloaded = True

    def _make_attempt(self, number: int, now_ms: int) -> bool:
        """Let the action make its attempt.

        Return False if files of the base have been expired; then the table has been loaded again, and the caller must call this method again. Only reads are
        repeated: no file is written twice under one name, because it could be taken for the file of another attempt.
        """
        if self.action is None:
            return True
        base_location = self.base.location
        try:
            self.attempt = self.action.attempt(self.base.metadata, number=number, now_ms=now_ms, read=self.handle.io.read)
        except NoSuchFileError:
            self.reload()
            if self.base.location == base_location:
                raise
            return False
        self._first_attempt_ms = now_ms if self._first_attempt_ms is None else self._first_attempt_ms
        if self.attempt is not None and self._lost_bases:
            self.attempt = with_lost_attempts(self.attempt, self._lost_bases, now_ms - self._first_attempt_ms)
        return True

    def _write_attempt(self, now_ms: int) -> CommitRequest | None:
        self._next = None
        base = self.base
        if self.attempt is None and not self.is_new:
            return None
        metadata = base.metadata
        if self.attempt is not None:
            for requirement in self.attempt.requirements:
                requirement.check(base.metadata)
            metadata = apply_updates(metadata, self.attempt.updates, max(now_ms, metadata.last_updated_ms))
        previous = None if self.is_new else base.location
        if previous is not None:
            check_location_is_own(self.handle, base.metadata, metadata, previous)
        check_paths_for_writes(self.handle, metadata)
        location = ""
        if not self.handle.store.writes_metadata:
            metadata = with_metadata_log(metadata, previous, base.metadata.last_updated_ms)
            location = new_metadata_location(self.handle.ids, metadata, previous_location=previous)
            self.handle.store.check(self.handle.identifier, location, metadata)
        if self.attempt is not None:
            new_manifests = [file for file in self.attempt.manifest_files if file.location not in self._manifests_in_storage]
            for file in (*new_manifests, *self.attempt.manifest_lists):
                self._manifests_and_lists.append(file.location)
                self.handle.io.write(file.location, file.content)
            self._manifests_in_storage.update(file.location for file in new_manifests)
        if location:
            self._metadata_locations.append(location)
            self._next_content = metadata_content(metadata)
            self.handle.io.write(location, self._next_content)
            self._next_version = written_version(self.handle.io, location)
        self._base_of_last_attempt = base
        self._next = LoadedMetadata(location=location or base.location, metadata=metadata)
        return CommitRequest(
            identifier=self.handle.identifier,
            expected=previous,
            new=location,
            requirements=(AssertCreate(),) if self.is_new else self.attempt.requirements if self.attempt is not None else (),
            updates=self._updates(metadata),
            key=new_key() if self.handle.store.writes_metadata else "",
        )

    def _updates(self, result: TableMetadata) -> tuple[Update, ...]:
        """Return the updates of the attempt. For a new table in a store that writes metadata, updates that create the table precede them."""
        updates = self.attempt.updates if self.attempt is not None else ()
        if not self.handle.store.writes_metadata:
            return tuple(updates)
        first = creation_updates(self.base.metadata) if self.is_new else ()
        return (*first, *numbered_updates(updates, self.base.metadata, result))

    def accept(self, stored: Stored | None) -> None:
        """Make the last attempt the table's current metadata, after its commit. `stored` is the store's result if it wrote or renamed the metadata file."""
        if self._next is None:
            return
        location, metadata = stored.location if stored is not None else self._next.location, self._next.metadata
        if stored is not None and isinstance(stored.metadata, TableMetadata):
            metadata = stored.metadata
        elif not self.handle.store.writes_metadata:
            version = None if stored is not None else self._next_version
            METADATA_FILES.keep(self._next_content, location, metadata, self._base_of_last_attempt.metadata, version)
        self.base = LoadedMetadata(location=location, metadata=metadata)

    def keep_manifests(self) -> None:
        """Add the manifests that the attempt wrote to the cache, for the next scan. Errors are ignored, because the commit has happened."""
        attempt = self.attempt
        if attempt is None or not attempt.listed_manifests:
            return
        contents = {file.location: file.content for file in attempt.manifest_files}
        kinds: dict[tuple[int, ManifestContent], list[ManifestFile]] = {}
        for manifest in attempt.listed_manifests:
            if manifest.manifest_path in contents:
                kinds.setdefault((manifest.partition_spec_id, manifest.content), []).append(manifest)
        for (spec_id, _), manifests in kinds.items():
            with suppress(Exception):  # an error here would look like an error of the commit
                keep_written(self.handle.io, manifests, contents, spec_partition_type(self.base.metadata, spec_id))

    def report_metrics(self, attempts: int, duration_ns: int) -> None:
        """Send a metrics report about the commit's snapshot, if the catalog accepts reports."""
        snapshot_id = None if self.attempt is None else self.attempt.snapshot_id
        if snapshot_id is None or (reporter := self.handle.reporter()) is None:
            return
        snapshot = self.base.metadata.snapshot_by_id(snapshot_id)
        if snapshot is not None:
            reporter.report(commit_report(self.handle.table_name, snapshot, attempts=attempts, duration_ns=duration_ns))

    def conclude(self) -> None:
        """Accept the last attempt for a new table, if only the other tables of the commit showed that it happened, because the reply was lost."""
        if self.is_new and not self.base.location:
            self.accept(None)

    def reload(self) -> None:
        """Load the table's current metadata. Raises `NoSuchTableError` if it was dropped, or another table has its name."""
        if not self.is_new:
            self.base = reload_metadata(self.handle, self.base.metadata)

    def attempted_bases(self) -> Iterator[Problem]:
        """Yield a detail for an error: the snapshots on which the attempts were based."""
        if self.attempt is not None and (bases := [*self._lost_bases, *base_of(self.attempt)]):
            shown = ", ".join("no snapshot" if base is None else str(base) for base in bases[-MOST_BASES:])
            yield Problem(where="attempts", what=f"built on {shown}{' (the last ones)' if len(bases) > MOST_BASES else ''}")

    def load(self) -> None:
        """Load the current metadata of the table with this name, even if it is a different table than before."""
        if not self.is_new:
            self.base = load_metadata(self.handle)

    def is_committed(self) -> bool | None:
        """Return whether an attempt of this commit was committed, according to the metadata as last loaded; None if that can no longer be determined.

        An attempt was committed if the table has the attempt's snapshot, or if its metadata file is current or in the metadata log. No attempt was committed if
        neither is true and the base of the last attempt is current or in the log, because then every file that followed the base is in the log too.
        """
        if self.attempt is None and not self.is_new:
            return False
        metadata = self.base.metadata
        logged_locations = {entry.metadata_file for entry in metadata.metadata_log}
        attempted_locations = set(self._metadata_locations)
        if self.base.location in attempted_locations or logged_locations & attempted_locations:
            return True
        if (
            self.attempt is not None
            and self.attempt.snapshot_id is not None
            and metadata.snapshots.position(self.attempt.snapshot_id) is not None
        ):
            return True
        if self.is_new:
            return None
        previous = self._base_of_last_attempt.location
        if not previous:
            return None  # the store does not report metadata locations
        if self.base.location == previous:
            return False
        if not self._metadata_locations and (self.attempt is None or self.attempt.snapshot_id is None):
            return None  # the store chose the name of the attempt's file, so any file after the base can be it
        return False if previous in logged_locations else None

    def written_files(self) -> list[str]:
        """Return the locations of the metadata files, manifest lists and manifests that all attempts wrote."""
        return [*self._metadata_locations, *self._manifests_and_lists]

    def new_data_files(self) -> list[str]:
        """Return the locations of the data files and delete files that were written for this commit."""
        return [] if self.action is None else list(self.action.new_data_files())

    def files_of_lost_attempts(self) -> list[str]:
        """Return those of the `written_files` to which the committed metadata does not refer."""
        referenced = {self.base.location, *(entry.metadata_file for entry in self.base.metadata.metadata_log)}
        if self.attempt:
            referenced |= {manifest.manifest_path for manifest in self.attempt.manifests}
            referenced |= {file.location for file in self.attempt.manifest_lists}
        return [location for location in self.written_files() if location not in referenced]

    def old_metadata_files(self) -> OldMetadataFiles:
        """Return the metadata files that this commit removed from the metadata log and that are to be deleted; files of other tables are only warned about.

        Spec: Table Metadata Fields (`metadata-log`).
        """
        current = self.base.metadata
        if self.handle.store.writes_metadata or not table_properties.METADATA_DELETE_AFTER_COMMIT.read(current.properties):
            return OldMetadataFiles()
        dropped = dropped_metadata_files(self._base_of_last_attempt.metadata, current)
        old_files = own_metadata_files(self.handle, (self.base.location, self._base_of_last_attempt.location), dropped)
        if old_files.others:
            LOG.warning(
                "%s: %d metadata files of the log are not in the table's own metadata folder and are kept: %s",
                in_one_line(self.handle.table_name),
                len(old_files.others),
                in_one_line(", ".join(old_files.others[:5])),
            )
        return old_files


def _invalidated_error(error: InvalidInputError) -> CommitInvalidatedError:
    """Convert the error of an action to one that states that another writer has made the action invalid, because it was valid on an earlier base."""
    return CommitInvalidatedError(
        f"another writer changed the table since this change was first made: {error.message}",
        table=error.table,
        path=error.path,
        snapshot_id=error.snapshot_id,
        problems=(
            Problem(where="expected", what="a table that the change fits, as it did when it was first made"),
            Problem(where="found", what=error.message),
            *error.problems,
        ),
        next_step=f"a retry will fail again: {error.next_step or 'refresh the table, and check what changed'}",
    )


class _Commit:
    """A commit to one or more tables in progress; it implements `CommitAttempts`. The first table's properties set the retries and status checks."""

    noun = "table"
    gone: type[NotFoundError] = NoSuchTableError

    def __init__(self, changes: Sequence[TableChange]) -> None:
        self.name = ", ".join(change.handle.table_name for change in changes)
        self.tables = [TableCommit(change) for change in changes]
        self._creates_namespaces = [change.create_namespace for change in changes if change.create_namespace is not None]
        self.store = changes[0].handle.store
        self.settings = changes[0].base.metadata.properties
        # Tables whose store writes metadata take no turn: a server on this host does the commit, and would wait for the turn of its own client.
        in_turn = [table.base.metadata for table in self.tables if not table.is_new and not table.handle.store.writes_metadata]
        self.turn = CommitTurn(self.name, [metadata.table_uuid for metadata in in_turn if metadata.table_uuid is not None])
        self.number = 0
        self._first_number = 0  # the number of the first attempt
        self.commits_begun = 0
        self.may_be_committed = False  # whether an attempt was sent to the store and may have succeeded

    @property
    def metadata_locations(self) -> list[str]:
        return [table.metadata_location for table in self.tables]

    def try_once(self) -> Outcome:
        has_waited = self.turn.before_attempt(self.number)
        if self.number or has_waited:
            for table in self.tables:
                table.reload()
            if self._is_committed():
                return Committed()
        if has_waited and not self.number:
            self._first_number = 1  # number 0 means that the base is the metadata that the action was created on
        number, self.number = self._first_number + self.number, self.number + 1
        prepared = [(table, request) for table in self.tables if (request := table.prepare(number)) is not None]
        if not prepared:
            return Committed()
        requests = [request for _, request in prepared]
        self.may_be_committed, self.commits_begun = True, self.commits_begun + 1
        outcome = outcome_of_commit(lambda: self._commit(requests))
        if isinstance(outcome, Unknown):
            outcome = check_commit_status(lambda: self.store.commit_status(requests), outcome, self.settings)
        if isinstance(outcome, Conflicted) and outcome.is_reply_lost:
            outcome = self._search_winners(outcome)
        elif isinstance(outcome, Committed):
            for (table, _), stored in zip_longest(prepared, outcome.stored):
                table.accept(stored)
        if isinstance(outcome, Conflicted | Refused):
            self.may_be_committed = False
        return outcome

    def _commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Send a commit to the store, and return its outcome.

        If the store refuses it because another writer has dropped the namespace of a new table, the namespace is created again, and the commit sent again.
        """
        outcome = self.store.commit(requests)
        for _ in range(NAMESPACE_TRIES if self._creates_namespaces else 0):
            if not isinstance(outcome, Refused) or not isinstance(outcome.error, NoSuchNamespaceError):
                break
            try:
                for create in self._creates_namespaces:
                    create()
            except IcefloeError as error:
                return Refused(error=error)
            outcome = self.store.commit(requests)
        return outcome

    def _search_winners(self, outcome: Conflicted) -> Outcome:
        """Determine the outcome of a commit whose reply was lost, by loading the tables and searching their histories for it."""
        try:
            for table in self.tables:
                table.reload()
        except IcefloeError as error:
            return Unknown(reason=f"the reply was lost, and then: {error.message}")
        statuses = [table.is_committed() for table in self.tables]
        if True in statuses:
            return Committed()
        if False in statuses:
            return outcome
        return Unknown(reason="the reply was lost, and other writers have changed the table so often since that its log no longer shows it")

    def _is_committed(self) -> bool:
        """Return whether one of the tables, as last loaded, shows that an attempt was committed. An attempt is committed to all tables or to none."""
        return any(table.is_committed() for table in self.tables)

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        if outcome.current_location is not None:
            for table in self.tables:
                table.load()
        return self._is_committed()

    def abandon(self) -> None:
        if self.may_be_committed:
            return
        if self.commits_begun and not all(table.is_new for table in self.tables):
            # An attempt that the store reported as a conflict may have been committed, with its reply lost: only the table itself shows that.
            try:
                for table in self.tables:
                    table.load()
            except IcefloeError:
                return
            if self._is_committed():
                return
        for table in self.tables:
            delete_quietly(table.handle, [*table.written_files(), *table.new_data_files()])

    def unknown_error(self, outcome: Unknown) -> CommitUnknownError:
        """Return the error for an unknown commit state. It states by what each table shows that the commit happened, and a command to check it."""
        first = next((table for table in self.tables if table.metadata_location), self.tables[0])
        snapshot_id = first.attempt.snapshot_id if first.attempt is not None else None
        command = f"icefloe show snapshots {dotted(first.handle.identifier)} --catalog {first.handle.store.name}"
        sign = (
            f"snapshot {snapshot_id} is in its history"
            if snapshot_id is not None
            else f"{first.metadata_location} is its metadata file or in its log"
            if first.metadata_location
            else "it has this change"
        )
        problems = []
        for table in self.tables:
            table_snapshot_id = table.attempt.snapshot_id if table.attempt is not None else None
            signs = [] if table_snapshot_id is None else [f"snapshot {table_snapshot_id}"]
            signs += [f"metadata file {table.metadata_location}"] if table.metadata_location else []
            problems.append(
                Problem(where=table.handle.table_name, what=f"committed if it has {', '.join(signs) or 'the changes of this commit'}")
            )
        return CommitUnknownError(
            f"the commit to {self.name} may or may not have happened: {outcome.reason}",
            table=self.name,
            path=first.metadata_location,
            snapshot_id=snapshot_id,
            problems=problems,
            next_step=f"look before writing again, with `{command}`: where {sign} the commit is there and a retry would write twice, else repeat it; "
            "no file was deleted",
        )


def commit(handle: TableHandle, action: Action, base: LoadedMetadata) -> CommitReport:
    """Commit an action to a table. If other writers commit first, retry as its `commit.retry.*` properties allow. Raises the errors of `commit_together`."""
    return commit_together([TableChange(handle=handle, base=base, action=action)])[0]


def commit_together(changes: Sequence[TableChange]) -> list[CommitReport]:
    """Commit the changes of several tables of one catalog, all or none. If another writer commits to one of the tables first, all actions are applied again.

    Returns:
        A report for each change, in order.

    Raises:
        CommitConflictError: other writers won every retry, or changed what this commit is based on; no file of the commit remains.
        CommitInvalidatedError: another writer's commit made this commit invalid.
        CommitUnknownError: it is unknown whether the commit happened; all its files are kept.
        NoSuchTableError: a table was dropped.
        TableAlreadyExistsError: a new table has been created by another writer.
        StorageError: the catalog refused the commit, for example because of missing rights; no file of the commit remains.
    """
    work, started_ns = _Commit(changes), time.monotonic_ns()
    try:
        commit_with_retries(work, work.settings, work.unknown_error)
    except (CommitConflictError, CommitInvalidatedError) as error:
        raise _with_winner(error, work) from error
    finally:
        work.turn.end()
    for table in work.tables:
        table.conclude()
        delete_quietly(table.handle, table.files_of_lost_attempts())
        old_files = table.old_metadata_files()
        if old_files.own:
            delete_files(
                table.handle.io, old_files.own, old_files.folders.contains
            )  # files that cannot be deleted stay, as in `delete_quietly`
    duration_ns = time.monotonic_ns() - started_ns
    for table in work.tables:
        table.report_metrics(work.number, duration_ns)
        table.keep_manifests()
    duration_ms = duration_ns // 1_000_000
    return [CommitReport(loaded=table.base, attempt=table.attempt, attempts=work.number, duration_ms=duration_ms) for table in work.tables]


def committed_result(result: WriteResult, report: CommitReport) -> WriteResult:
    """Return the result of a write with the duration of its commit, and the bytes of the files that its snapshot added."""
    summary = {} if report.attempt is None else report.attempt.summary
    return replace(result, commit_ms=report.duration_ms, added_bytes=count_of(summary.get("added-files-size")) or 0)


def _with_winner(error: CommitConflictError | CommitInvalidatedError, work: _Commit) -> IcefloeError:
    """Return the error with the table's name added and, if other writers won every retry, with the newest snapshot that they committed."""
    snapshot_id, problems = error.snapshot_id, error.problems
    if len(work.tables) == 1 and snapshot_id is None and not problems:
        loaded = work.tables[0].base
        newest = loaded.metadata.current_snapshot()
        by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
        snapshot_id = None if newest is None else newest.snapshot_id
        problems = (
            Problem(where="expected", what="the catalog still names the metadata file that the attempt was built on"),
            Problem(where="found", what=f"it names {loaded.location}{by}"),
            *work.tables[0].attempted_bases(),
        )
    return type(error)(
        error.message,
        table=error.table or work.name,
        path=error.path,
        snapshot_id=snapshot_id,
        problems=problems,
        next_step=error.next_step,
    )


def delete_quietly(handle: TableHandle, locations: Iterable[str]) -> None:
    """Delete files that no metadata refers to. Errors are ignored, so that a file may remain as an orphan, because the commit itself is over."""
    for location in locations:
        try:
            handle.io.delete(location)
        except (StorageError, NoSuchFileError):
            continue
