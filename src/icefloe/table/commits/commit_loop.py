"""The commit loop: asks actions for attempts, writes their files, swaps the pointers; on a lost race refreshes and asks again.

One table or several: all of them move or none. What one table's attempt is, and whether it stands after all, is `table_commit.py`; what an attempt holds is the
kernel's (`kernel/commit`); how a pointer is swapped is `icefloe.catalog_store`; when to try again is `commit_status_check.py`.
Spec: Optimistic Concurrency; Overview.

Three rules keep it safe. Files of an attempt are deleted only when its swap is known not to have happened. An unknown outcome deletes nothing. And before
an attempt is called lost, the winner's table is searched for it: a reply can be lost while the commit stands, and another commit can follow.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from icefloe.catalog_store.catalog_store import LocationChange
from icefloe.errors import (
    CommitConflictError,
    CommitInvalidatedError,
    IcefloeError,
    InvalidInputError,
    NoSuchFileError,
    NoSuchTableError,
    NotFoundError,
    Problem,
    StorageError,
)
from icefloe.io.bulk_delete import delete_files
from icefloe.kernel.commit.attempt import Action, Attempt
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.table.commits.commit_status_check import answer_of, check_commit_status, commit_with_retries
from icefloe.table.commits.table_commit import TableChange, TableCommit
from icefloe.table.commits.unknown_commit import unknown_commit_error
from icefloe.table.table_handle import LoadedMetadata, TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """A finished commit of one table: the metadata now current for the writer, the last attempt, and how many attempts it took."""

    loaded: LoadedMetadata
    attempt: Attempt | None  # None where the action had nothing to commit
    attempts: int


class _Commit:
    """One commit in progress. See `Attempts`. How long to wait and how often to look is what the first table's properties say."""

    noun = "table"
    gone: type[NotFoundError] = NoSuchTableError

    def __init__(self, changes: Sequence[TableChange]) -> None:
        self.name = ", ".join(change.handle.table_name for change in changes)
        self.parts = [TableCommit(change) for change in changes]
        self.store = changes[0].handle.store
        self.settings = changes[0].base.metadata.properties
        self.number = 0
        self.swaps = 0  # begun so far
        self.swap_begun = False

    @property
    def metadata_locations(self) -> list[str]:
        """See `Attempts`."""
        return [part.metadata_location for part in self.parts]

    def try_once(self) -> Outcome:
        """See `Attempts`."""
        if self.number:
            for part in self.parts:
                part.reload()
            if self._stands():
                return Committed()
        number, self.number = self.number, self.number + 1
        changes = [change for change in [self._prepare(part, number) for part in self.parts] if change is not None]
        if not changes:
            return Committed()
        self.swap_begun, self.swaps = True, self.swaps + 1
        outcome = answer_of(lambda: self._swap(changes))
        if isinstance(outcome, Unknown):
            outcome = check_commit_status(lambda: self.store.settle(changes), outcome, self.settings)
        if isinstance(outcome, Conflicted) and outcome.is_unheard:
            outcome = self._looked_for(outcome)
        elif isinstance(outcome, Committed):
            for part in self.parts:
                part.accept(outcome.location)
        if isinstance(outcome, Conflicted | Refused):
            self.swap_begun = False
        return outcome

    def _prepare(self, part: TableCommit, number: int) -> LocationChange | None:
        """The part's change on what it was given. What changes nothing there is made on the table there is: one loaded long ago may be as asked for once."""
        change = self._prepared(part, number)
        if change is None and number == 0:
            part.reload()
            change = self._prepared(part, number)
        return change

    def _prepared(self, part: TableCommit, number: int) -> LocationChange | None:
        """The part's change. Where files of what it was given are gone because others have expired them since, on the table there is.

        What was right on an earlier base and is not on this one was made wrong by another writer: `CommitInvalidatedError`.
        """
        while True:
            given = part.base.location
            try:
                return part.prepare(number)
            except InvalidInputError as error:
                if number == 0:
                    raise
                raise CommitInvalidatedError(
                    f"another writer changed the table since this change was first made: {error.message}",
                    table=error.table,
                    path=error.path,
                    snapshot_id=error.snapshot_id,
                    problems=(
                        Problem(where="expected", what="a table that the change fits, as it did when it was first made"),
                        Problem(where="found", what=error.message),
                        *error.problems,
                    ),
                    next_step=f"a retry will fail again: {error.next_step or 'refresh the table, and look at what changed'}",
                ) from error
            except NoSuchFileError:
                part.reload()
                if part.base.location == given:
                    raise

    def _swap(self, changes: Sequence[LocationChange]) -> Outcome:
        first = changes[0]
        if len(changes) == 1 and first.expected is not None:
            return self.store.swap(first.identifier, expected=first.expected, new=first.new)
        return self.store.swap_together(changes)

    def _looked_for(self, outcome: Conflicted) -> Outcome:
        """What an unheard swap came to, by what the winners' tables say of it."""
        try:
            for part in self.parts:
                part.reload()
        except IcefloeError as error:
            return Unknown(reason=f"the answer was lost, and then: {error.message}")
        answers = [part.stands() for part in self.parts]
        if True in answers:
            return Committed()
        if False in answers:
            return outcome
        return Unknown(reason="the answer was lost, and other writers have changed the table so often since that its log no longer tells")

    def _stands(self) -> bool:
        """Whether an earlier attempt, thought lost, stands in what another writer built on it. All parts stand or none does."""
        return any(part.stands() for part in self.parts)

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        """See `Attempts`."""
        if outcome.found is not None:
            for part in self.parts:
                part.load()
        return self._stands()

    def abandon(self) -> None:
        """See `Attempts`."""
        if self.swap_begun:
            return
        if self.swaps and not all(part.is_new for part in self.parts):
            # An earlier swap was answered with a conflict, which a lost reply can hide: only the table itself can tell.
            try:
                for part in self.parts:
                    part.load()
            except IcefloeError:
                return
            if self._stands():
                return
        for part in self.parts:
            delete_quietly(part.handle, [*part.written(), *part.new_data_files()])


def commit(handle: TableHandle, action: Action, base: LoadedMetadata) -> CommitReport:
    """Commits the action, retrying lost races by the table's `commit.retry.*` properties. Raises as `commit_together`."""
    return commit_together([TableChange(handle=handle, base=base, action=action)])[0]


def commit_together(changes: Sequence[TableChange]) -> list[CommitReport]:
    """Commits the changes of several tables of one catalog, all or none; a lost race on any of them asks every action again. One report for each, in order.

    Raises:
        CommitConflictError: every attempt lost its race, or another writer changed what this commit is based on; nothing of it is left.
        CommitInvalidatedError: another commit made this one wrong.
        CommitUnknownError: it is not known whether the commit happened; all its files are kept.
        NoSuchTableError: a table was dropped. TableAlreadyExistsError: a new one has been made by another.
        StorageError: the catalog refused the commit, such as for want of rights; nothing of it is left.
    """
    work = _Commit(changes)
    try:
        commit_with_retries(work, work.settings, lambda outcome: unknown_commit_error(work.parts, outcome))
    except (CommitConflictError, CommitInvalidatedError) as error:
        raise _with_winner(error, work) from error
    for part in work.parts:
        part.conclude()
        delete_quietly(part.handle, part.leftovers())
        old = part.old_metadata_files()
        delete_files(part.handle.io, old.own, old.folders.contains)  # one that cannot be deleted stays, as above
    return [CommitReport(loaded=part.base, attempt=part.made, attempts=work.number) for part in work.parts]


def _with_winner(error: CommitConflictError | CommitInvalidatedError, work: _Commit) -> IcefloeError:
    """The error with the table's name and, where it tells of lost races alone, the snapshot that the last winner left."""
    snapshot_id, problems = error.snapshot_id, error.problems
    if len(work.parts) == 1 and snapshot_id is None and not problems:
        found = work.parts[0].base
        newest = found.metadata.current_snapshot()
        by = "" if newest is None else f"; its newest snapshot is {newest.snapshot_id} ({newest.operation or 'of an unknown operation'})"
        snapshot_id = None if newest is None else newest.snapshot_id
        problems = (
            Problem(where="expected", what="the catalog still names the metadata file that the attempt was built on"),
            Problem(where="found", what=f"it names {found.location}{by}"),
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
    """Deletes files that nothing names; one that cannot be deleted stays as an orphan, since the outcome is already decided."""
    for location in locations:
        try:
            handle.io.delete(location)
        except StorageError:
            continue
