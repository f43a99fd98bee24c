"""Commits a change of a view: makes it on the newest metadata, writes the next metadata file, swaps the pointer; after a lost race, once more.

When to try again, and what an outcome means, is the loop that tables have (`icefloe.table.commits.commit_retries`).
Spec: View spec, Metadata Location; View spec, Overview; Optimistic Concurrency.

A reply can be lost while the commit stands, and others can build on it. View metadata has no log of files, so an attempt is known again by the pointer,
which also says what it named before, and by its entry of the version log with the version it names. A change of properties or of the location alone that
several others have built on cannot be known again: its outcome is unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icefloe.catalog_store.catalog_store import LocationChange
from icefloe.errors import IcefloeError, NoSuchViewError, NotFoundError
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.kernel.view.view_metadata import ViewMetadata
from icefloe.kernel.view.view_updates import ViewUpdate, apply_view_updates
from icefloe.table.commits.commit_retries import check_commit_status, commit_with_retries, outcome_of_swap
from icefloe.table.own_location import check_view_location
from icefloe.view.view_handle import (
    LoadedView,
    ViewHandle,
    delete_view_files,
    load_view_metadata,
    new_view_location,
    reload_view_metadata,
    write_view_file,
)

# Gives the updates that make the change on a base, at a time in milliseconds since 1970-01-01 UTC.
ViewChange = Callable[[ViewMetadata, int], Sequence[ViewUpdate]]
CommitView = Callable[[ViewChange], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """One attempt: what it was based on, where its metadata file lies, and what it made."""

    base: LoadedView
    location: str
    made: ViewMetadata

    def stands_in(self, found: LoadedView) -> bool | None:
        """Whether the attempt is part of what the pointer names by now; None where that does not tell."""
        if self.location in (found.location, found.previous_location):
            return True
        if self.base.location in (found.location, found.previous_location):
            return False
        before, log = self.base.metadata, found.metadata.version_log
        if self.made.current_version_id != before.current_version_id:
            version = self.made.version()
            if self.made.version_log[-1] in log and found.metadata.versions.get(version.version_id) == version:
                return True
            # The log is cut at its beginning alone, so that where the entry before is there, ours would be.
            if before.version_log and before.version_log[-1] in log:
                return False
        return None


class _ViewCommit:
    """One commit in progress: the files it wrote so far, and what they would leave behind. See `CommitAttempts`."""

    noun = "view"
    gone: type[NotFoundError] = NoSuchViewError

    def __init__(self, handle: ViewHandle, change: ViewChange, base: LoadedView) -> None:
        self.handle = handle
        self.name = handle.view_name
        self.change = change
        self.base = base  # what the attempt at hand builds on; after success what it made
        self.number = 0
        self.swaps = 0  # begun so far
        self.swap_begun = False
        self.tried: list[_Tried] = []

    @property
    def metadata_locations(self) -> list[str]:
        return [tried.location for tried in self.tried]

    def try_once(self) -> Outcome:
        # The first attempt looks too: what changes nothing on a view that was loaded long ago may change the view as it is now.
        self.base = reload_view_metadata(self.handle, self.base)
        if self._stands():
            return Committed()
        handle, base = self.handle, self.base
        log = base.metadata.version_log
        now_ms = max(handle.clock.now_ms(), log[-1].timestamp_ms if log else 0)  # a log in order, whatever the clocks of its writers say
        made = apply_view_updates(base.metadata, self.change(base.metadata, now_ms), now_ms)
        self.number += 1
        if made == base.metadata:
            return Committed()
        if made.location == base.metadata.location:  # another one is the caller's own choice
            check_view_location(handle.view_name, handle.policy, made.location, base.location)
        location = new_view_location(handle.ids, made, previous_location=base.location)
        self.tried.append(_Tried(base=base, location=location, made=made))
        write_view_file(handle, location, made)
        self.swap_begun, self.swaps = True, self.swaps + 1
        outcome = self._swap(LocationChange(identifier=handle.identifier, expected=base.location, new=location))
        if isinstance(outcome, Committed):
            self.base = LoadedView(location=location, metadata=made, previous_location=base.location)
        elif isinstance(outcome, Conflicted | Refused):
            self.swap_begun = False
        return outcome

    def _swap(self, change: LocationChange) -> Outcome:
        """The swap, and where its answer is lost what can be found out about it."""
        store = self.handle.store
        outcome = outcome_of_swap(lambda: store.swap(change.identifier, expected=str(change.expected), new=change.new))
        if isinstance(outcome, Unknown):
            outcome = check_commit_status(lambda: store.commit_status([change]), outcome, self.base.metadata.properties)
        if not isinstance(outcome, Conflicted) or not outcome.is_reply_lost:
            return outcome
        try:
            found = reload_view_metadata(self.handle, self.base)
        except IcefloeError as error:
            return Unknown(reason=f"the reply was lost, and then: {error.message}")
        stands = self.tried[-1].stands_in(found)
        if stands is None:
            return Unknown(reason="the reply was lost, and what others have made of the view since no longer tells")
        return Committed() if stands else outcome

    def _stands(self) -> bool:
        """Whether an earlier attempt, thought lost, stands in the view that another writer built on."""
        return any(tried.stands_in(self.base) for tried in self.tried)

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        if outcome.current_location is not None:
            self.base = load_view_metadata(self.handle)
        return self._stands()

    def abandon(self) -> None:
        if self.swap_begun:
            return
        if self.swaps:
            # An earlier swap was answered with a conflict, which a lost reply can hide: only the view itself can tell.
            try:
                self.base = load_view_metadata(self.handle)
            except IcefloeError:
                return
            if self._stands():
                return
        self.delete_leftovers()

    def delete_leftovers(self) -> None:
        """The files of attempts that lost their race; not one that the pointer names or named."""
        named = {self.base.location, self.base.previous_location}
        delete_view_files(self.handle, [location for location in self.metadata_locations if location not in named])


def commit_view(handle: ViewHandle, change: ViewChange, base: LoadedView) -> LoadedView:
    """Commits the change, retrying lost races by the view's `commit.retry.*` properties, and returns what is current for the writer then.

    Raises:
        CommitConflictError: every attempt lost its race; nothing of it is left. NoSuchViewError: the view was dropped, or is another one by now.
        CommitUnknownError: it is not known whether the commit happened; all its files are kept.
        InvalidInputError: the change breaks a rule on the view as it is by now.
        LocationNotAllowedError: the view claims a location that nothing vouches for.
    """
    work = _ViewCommit(handle, change, base)
    commit_with_retries(work, base.metadata.properties)
    work.delete_leftovers()
    return work.base
