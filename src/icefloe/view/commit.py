"""Commits a change of a view: makes it on the newest metadata, writes the next metadata file, swaps the pointer; after a lost race, once more.

When to try again, and what an outcome means, is the loop that tables have (`icefloe.table.swap_loop`). Floor: view.
Spec: View spec, Metadata Location; View spec, Overview; Optimistic Concurrency.

A reply can be lost while the commit stands, and another commit can follow. View metadata has no log of files, so an attempt is known again by the pointer,
which also says what it named before, and by its entry of the version log with the version it names. A change of properties or of the location alone, lost
from sight by two commits of others, is made once more: to the same values.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from icefloe.errors import IcefloeError, NoSuchViewError, NotFoundError
from icefloe.kernel.commit.outcome import Committed, Conflicted, Outcome
from icefloe.kernel.view.update import ViewUpdate, apply_view_updates
from icefloe.kernel.view.view_metadata import ViewMetadata
from icefloe.kernel.view.view_version import VersionLogEntry, ViewVersion
from icefloe.table.swap_loop import swap_until_settled
from icefloe.view.handle import (
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


@dataclass(frozen=True, slots=True)
class _Mark:
    """What an attempt that changed the current version left in the metadata."""

    entry: VersionLogEntry
    version: ViewVersion

    def stands_in(self, view: ViewMetadata) -> bool:
        return view.versions.get(self.version.version_id) == self.version and self.entry in view.version_log


class _ViewCommit:
    """One commit in progress: the files it wrote so far, and what they would leave behind. See `Attempts`."""

    noun = "view"
    gone: type[NotFoundError] = NoSuchViewError

    def __init__(self, handle: ViewHandle, change: ViewChange, base: LoadedView) -> None:
        self.handle = handle
        self.name = handle.view_name
        self.change = change
        self.base = base  # what the attempt at hand builds on; after success what it made
        self.number = 0
        self.swap_begun = False
        self.metadata_locations: list[str] = []
        self.marks: list[_Mark] = []

    def try_once(self) -> Outcome:
        # The first attempt looks too: what changes nothing on a view that was loaded long ago may change the view as it is now.
        self.base = reload_view_metadata(self.handle, self.base)
        if self._is_already_committed():
            return Committed()
        handle, base = self.handle, self.base
        log = base.metadata.version_log
        now_ms = max(handle.clock.now_ms(), log[-1].timestamp_ms if log else 0)  # a log in order, whatever the clocks of its writers say
        made = apply_view_updates(base.metadata, self.change(base.metadata, now_ms), now_ms)
        self.number += 1
        if made == base.metadata:
            return Committed()
        location = new_view_location(handle.ids, made, previous_location=base.location)
        self.metadata_locations.append(location)
        write_view_file(handle, location, made)
        if made.current_version_id != base.metadata.current_version_id:
            self.marks.append(_Mark(made.version_log[-1], made.version()))
        self.swap_begun = True
        outcome = handle.pointers.swap(handle.identifier, expected=base.location, new=location)
        if isinstance(outcome, Committed):
            self.base = LoadedView(location=location, metadata=made, previous_location=base.location)
        elif isinstance(outcome, Conflicted):
            self.swap_begun = False
        return outcome

    def _is_already_committed(self) -> bool:
        """Whether an earlier attempt, thought lost, stands in the view that another writer built on."""
        pointed_at = {self.base.location, self.base.previous_location}
        return bool(pointed_at.intersection(self.metadata_locations)) or any(mark.stands_in(self.base.metadata) for mark in self.marks)

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        if outcome.found is not None:
            self.base = load_view_metadata(self.handle)
        return self._is_already_committed()

    def abandon(self) -> None:
        if self.swap_begun:
            return
        if self.metadata_locations:
            # An earlier swap was answered with a conflict, which a lost reply can hide: only the view itself can tell.
            try:
                self.base = load_view_metadata(self.handle)
            except IcefloeError:
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
    """
    work = _ViewCommit(handle, change, base)
    swap_until_settled(work, base.metadata.properties)
    work.delete_leftovers()
    return work.base
