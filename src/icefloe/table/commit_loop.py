"""The commit loop: asks an action for an attempt, writes its files, swaps the pointer; on a lost race refreshes and asks again.

What an attempt holds is the kernel's (`kernel/commit`); how a pointer is swapped is `icefloe.pointer`; when to try again is `swap_loop.py`. Floor: table.
Spec: Optimistic Concurrency; Overview.

Three rules keep it safe. Files of an attempt are deleted only when its swap is known not to have happened. An unknown outcome deletes nothing. And before
an attempt is called lost, the winner's table is searched for it: a reply can be lost while the commit stands, and another commit can follow.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from icefloe.errors import IcefloeError, NoSuchTableError, NotFoundError, StorageError
from icefloe.kernel.commit.attempt import Action, Attempt
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome
from icefloe.kernel.metadata import properties
from icefloe.kernel.metadata.metadata_log import dropped_metadata_files, with_metadata_log
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update import apply_updates
from icefloe.table.handle import LoadedMetadata, TableHandle, load_metadata, metadata_content, new_metadata_location, reload_metadata
from icefloe.table.swap_loop import swap_until_settled


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """A finished commit: the metadata now current for the writer, the last attempt, and how many attempts it took."""

    loaded: LoadedMetadata
    attempt: Attempt | None  # None where the action had nothing to commit
    attempts: int


class _Commit:
    """One commit in progress: the files it wrote so far, for cleaning up. See `Attempts`."""

    noun = "table"
    gone: type[NotFoundError] = NoSuchTableError

    def __init__(self, handle: TableHandle, action: Action, base: LoadedMetadata) -> None:
        self.handle = handle
        self.name = handle.table_name
        self.action = action
        self.base = base  # what the attempt at hand builds on; after success what it made
        self.before = base  # what that attempt built on
        self.made: Attempt | None = None
        self.number = 0
        self.swap_begun = False
        self.metadata_locations: list[str] = []
        self.written: list[str] = []  # manifests and manifest lists

    def try_once(self) -> Outcome:
        if self.number:
            self.base = reload_metadata(self.handle, self.base.metadata)
            if self._is_already_committed():
                return Committed()
        handle, base = self.handle, self.base
        now_ms = handle.clock.now_ms()
        self.made = self.action.attempt(base.metadata, number=self.number, now_ms=now_ms, read=handle.io.read)
        self.number += 1
        if self.made is None:
            return Committed()
        for requirement in self.made.requirements:
            requirement.check(base.metadata)
        for file in (*self.made.manifest_files, *self.made.manifest_lists):
            self.written.append(file.location)
            handle.io.write(file.location, file.content)
        metadata = _apply(base, self.made, max(now_ms, base.metadata.last_updated_ms))
        location = new_metadata_location(handle.ids, metadata, previous_location=base.location)
        self.metadata_locations.append(location)
        handle.io.write(location, metadata_content(metadata))
        self.swap_begun = True
        outcome = handle.store.swap(handle.identifier, expected=base.location, new=location)
        if isinstance(outcome, Committed):
            self.before = base
            self.base = LoadedMetadata(location=location, metadata=metadata)
        elif isinstance(outcome, Conflicted):
            self.swap_begun = False
        return outcome

    def _is_already_committed(self) -> bool:
        """Whether an earlier attempt, thought lost, stands in the table that another writer built on."""
        if self.made is None or not self.metadata_locations:
            return False
        found = self.base.metadata
        logged = {entry.metadata_file for entry in found.metadata_log}
        is_in_history = self.made.snapshot_id is not None and found.snapshots.position(self.made.snapshot_id) is not None
        return is_in_history or bool(logged.intersection(self.metadata_locations))

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        """See `Attempts`."""
        if outcome.found is not None:
            self.base = load_metadata(self.handle)
        return self._is_already_committed()

    def abandon(self) -> None:
        """See `Attempts`."""
        if self.swap_begun:
            return
        if self.metadata_locations:
            # An earlier swap was answered with a conflict, which a lost reply can hide: only the table itself can tell.
            try:
                self.base = load_metadata(self.handle)
            except IcefloeError:
                return
            if self._is_already_committed():
                return
        delete_quietly(self.handle, [*self._written(), *self.action.new_data_files()])

    def delete_leftovers(self) -> None:
        """After success: the files of attempts that lost their race, and old metadata files where the table asks for that."""
        current = self.base.metadata
        named = {self.base.location, *(entry.metadata_file for entry in current.metadata_log)}
        if self.made:
            named |= {manifest.manifest_path for manifest in self.made.manifests}
            named |= {file.location for file in self.made.manifest_lists}
        delete_quietly(self.handle, [location for location in self._written() if location not in named])
        if properties.METADATA_DELETE_AFTER_COMMIT.read(current.properties):
            delete_quietly(self.handle, dropped_metadata_files(self.before.metadata, current))

    def _written(self) -> list[str]:
        return [*self.metadata_locations, *self.written]


def commit(handle: TableHandle, action: Action, base: LoadedMetadata) -> CommitReport:
    """Commits the action, retrying lost races by the table's `commit.retry.*` properties.

    Raises:
        CommitConflictError: every attempt lost its race, or another writer changed what this commit is based on; nothing of it is left.
        CommitInvalidatedError: another commit made this one wrong.
        CommitUnknownError: it is not known whether the commit happened; all its files are kept.
    """
    work = _Commit(handle, action, base)
    swap_until_settled(work, base.metadata.properties)
    work.delete_leftovers()
    return CommitReport(loaded=work.base, attempt=work.made, attempts=work.number)


def delete_quietly(handle: TableHandle, locations: Iterable[str]) -> None:
    """Deletes files that nothing names; one that cannot be deleted stays as an orphan, since the outcome is already decided."""
    for location in locations:
        try:
            handle.io.delete(location)
        except StorageError:
            continue


def _apply(base: LoadedMetadata, attempt: Attempt, now_ms: int) -> TableMetadata:
    metadata = apply_updates(base.metadata, attempt.updates, now_ms)
    return with_metadata_log(metadata, base.location, base.metadata.last_updated_ms)
