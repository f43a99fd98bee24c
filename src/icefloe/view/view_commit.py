"""The commit of a view: applies a change to the newest metadata, writes the next metadata file and commits to the store.

When to retry, and how the status of an unknown commit is checked, is shared with tables (`icefloe.operations.commit_retries`).
Spec: View spec, Metadata Location; View spec, Overview; Optimistic Concurrency.

A reply can be lost although the commit happened, and other writers can commit on top of it. View metadata has no log of metadata files. So a commit is
recognized by its metadata location, if that is the catalog's current or previous one, or by its version and the entry of that version in the version log. A
commit that changed only properties or the location cannot be recognized after several other commits: its outcome is unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Unknown
from icefloe.errors import IcefloeError, NoSuchViewError, NotFoundError
from icefloe.operations.commit_retries import check_commit_status, commit_with_retries, outcome_of_commit
from icefloe.operations.own_location import check_view_location
from icefloe.spec.view.view_metadata import ViewMetadata
from icefloe.spec.view.view_updates import AssertViewUUID, ViewUpdate, apply_view_updates
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.request_key import new_key
from icefloe.view.view_handle import (
    LoadedView,
    ViewHandle,
    delete_view_files,
    load_view_metadata,
    new_view_location,
    reload_view_metadata,
    write_view_file,
)

# A change of a view: a function from the current metadata, and the time in milliseconds since 1970-01-01 UTC, to the updates to commit.
ViewChange = Callable[[ViewMetadata, int], Sequence[ViewUpdate]]
CommitView = Callable[[ViewChange], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempt of a commit.

    Attributes:
        base: The view that the attempt is based on.
        location: The location of its metadata file; empty if the store writes the file.
        metadata: The new metadata.
    """

    base: LoadedView
    location: str
    metadata: ViewMetadata

    def is_in(self, current: LoadedView) -> bool | None:
        """Return True if the current view shows that the attempt was committed, False if it was not, and None if the view no longer shows it."""
        if self.location and self.location in (current.location, current.previous_location):
            return True
        if self.base.location in (current.location, current.previous_location):
            return False
        before, log = self.base.metadata, current.metadata.version_log
        if self.metadata.current_version_id != before.current_version_id:
            version = self.metadata.version()
            if self.metadata.version_log[-1] in log and current.metadata.versions.get(version.version_id) == version:
                return True
            # The log loses its oldest entries first: if it still has the entry before that of this attempt, then the attempt was never added.
            if before.version_log and before.version_log[-1] in log:
                return False
        return None


class _ViewCommit:
    """One commit of a view in progress, which `commit_retries` drives through the methods of `CommitAttempts`."""

    noun = "view"
    gone: type[NotFoundError] = NoSuchViewError

    def __init__(self, handle: ViewHandle, change: ViewChange, base: LoadedView) -> None:
        self.handle = handle
        self.name = handle.view_name
        self.change = change
        self.base = base  # the view that the current attempt is based on; after the commit, the committed view
        self.number = 0
        self.commits_begun = 0
        self.may_be_committed = False  # whether an attempt was sent to the store and may have succeeded
        self.attempts: list[_Attempt] = []

    @property
    def metadata_locations(self) -> list[str]:
        return [attempt.location for attempt in self.attempts if attempt.location]

    def try_once(self) -> Outcome:
        # The first attempt reloads too: a change can be without effect on the view as it was loaded, and have an effect on the current view.
        self.base = reload_view_metadata(self.handle, self.base)
        if self._is_committed():
            return Committed()
        handle, base = self.handle, self.base
        log = base.metadata.version_log
        now_ms = max(
            handle.clock.now_ms(), log[-1].timestamp_ms if log else 0
        )  # the log stays in order although the clocks of writers differ
        updates = tuple(self.change(base.metadata, now_ms))
        metadata = apply_view_updates(base.metadata, updates, now_ms)
        self.number += 1
        if metadata == base.metadata:
            return Committed()
        # No check is needed if this change sets the location, because the caller chose it, or if the store writes the metadata file.
        if metadata.location == base.metadata.location and not handle.store.writes_metadata:
            check_view_location(handle.view_name, handle.policy, metadata.location, base.location)
        location = "" if handle.store.writes_metadata else new_view_location(handle.ids, metadata, previous_location=base.location)
        self.attempts.append(_Attempt(base=base, location=location, metadata=metadata))
        if location:
            write_view_file(handle, location, metadata)
        self.may_be_committed, self.commits_begun = True, self.commits_begun + 1
        requirement = AssertViewUUID(base.metadata.view_uuid)
        outcome = self._commit(
            CommitRequest(
                identifier=handle.identifier,
                expected=base.location,
                new=location,
                requirements=(requirement,),
                updates=updates,
                key=new_key() if handle.store.writes_metadata else "",
            )
        )
        if isinstance(outcome, Committed):
            self._accept(outcome, LoadedView(location=location or base.location, metadata=metadata, previous_location=base.location))
        elif isinstance(outcome, Conflicted | Refused):
            self.may_be_committed = False
        return outcome

    def _accept(self, outcome: Committed, committed: LoadedView) -> None:
        """Set the committed view as the base. If the store wrote the metadata itself, its metadata and location are used."""
        stored = outcome.stored[0] if outcome.stored else None
        if stored is not None and isinstance(stored.metadata, ViewMetadata):
            committed = replace(committed, location=stored.location, metadata=stored.metadata)
        self.base = committed

    def _commit(self, request: CommitRequest) -> Outcome:
        """Send a commit to the store, and return its outcome. After a lost reply, read the view to find out whether the commit happened."""
        store = self.handle.store
        outcome = outcome_of_commit(lambda: store.commit([request]))
        if isinstance(outcome, Unknown):
            outcome = check_commit_status(lambda: store.commit_status([request]), outcome, self.base.metadata.properties)
        if not isinstance(outcome, Conflicted) or not outcome.is_reply_lost:
            return outcome
        try:
            current = reload_view_metadata(self.handle, self.base)
        except IcefloeError as error:
            return Unknown(reason=f"the reply was lost, and then: {error.message}")
        is_committed = self.attempts[-1].is_in(current)
        if is_committed is None:
            return Unknown(
                reason="the reply was lost, and other writers have changed the view so often since that its log no longer shows it"
            )
        return Committed() if is_committed else outcome

    def _is_committed(self) -> bool:
        """Return whether `base`, the view as last loaded, shows that an earlier attempt was committed although its reply was lost."""
        return any(attempt.is_in(self.base) for attempt in self.attempts)

    def is_committed_after_all(self, outcome: Conflicted) -> bool:
        if outcome.current_location is not None:
            self.base = load_view_metadata(self.handle)
        return self._is_committed()

    def abandon(self) -> None:
        if self.may_be_committed:
            return
        if self.commits_begun:
            # An attempt that the store reported as a conflict may have been committed, with its reply lost: only the view itself shows that.
            try:
                self.base = load_view_metadata(self.handle)
            except IcefloeError:
                return
            if self._is_committed():
                return
        self.delete_files_of_lost_attempts()

    def delete_files_of_lost_attempts(self) -> None:
        """Delete the metadata files of attempts, except the view's current and previous metadata file."""
        referenced = {self.base.location, self.base.previous_location}
        delete_view_files(self.handle, [location for location in self.metadata_locations if location not in referenced])


def commit_view(handle: ViewHandle, change: ViewChange, base: LoadedView) -> LoadedView:
    """Commit a change. After a commit of another writer, retry as the view's `commit.retry.*` properties require.

    Args:
        handle: the view's entry in its catalog.
        change: returns the updates for the present metadata and the time in milliseconds; it is called for each attempt.
        base: the view as it was loaded.

    Returns:
        The view after the commit.

    Raises:
        CommitConflictError: other writers won every retry; no file of the attempts remains.
        NoSuchViewError: the view was dropped, or another view has its name now.
        CommitUnknownError: it is unknown whether the commit happened; all files are kept.
        InvalidInputError: the change violates a rule when it is applied to the current view.
        LocationNotAllowedError: the view claims a location that the catalog does not allow.
    """
    work = _ViewCommit(handle, change, base)
    commit_with_retries(work, base.metadata.properties)
    work.delete_files_of_lost_attempts()
    return work.base
