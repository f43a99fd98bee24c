"""`CompositeAction`: several actions in one commit. Each action is applied to the result of the actions before it; all become one version of the table.

`table.transaction()` creates composite actions. JAVA: BaseTransaction.
Spec: Commit Conflict Resolution and Retry.
"""

from collections.abc import Callable, Iterable, Sequence

from icefloe.commit.attempt import Action, Attempt, NewFile, Read
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.requirement import AssertRefSnapshotId, Requirement
from icefloe.spec.metadata.table_metadata import TableMetadata


class StagedFiles:
    """The manifests and manifest lists of the earlier actions of a commit. Later actions read them from here, because they are not written yet."""

    def __init__(self) -> None:
        self._files: dict[str, NewFile] = {}

    def add(self, attempt: Attempt) -> None:
        """Add the new files of an attempt."""
        self._files.update((file.location, file) for file in (*attempt.manifest_files, *attempt.manifest_lists))

    def reading(self, read: Read) -> Read:
        """Return a `Read` that returns the content of the staged files, and calls `read` for all other files."""

        def read_staged(location: str) -> bytes:
            staged = self._files.get(location)
            return staged.content if staged is not None else read(location)

        return read_staged

    def new_files(self, locations: Iterable[str]) -> tuple[NewFile, ...]:
        """Return the staged files that are at these locations."""
        return tuple(self._files[location] for location in locations if location in self._files)


class CompositeAction:
    """Several actions, in order, as one action. A retry calls all of them again; if one conflicts with the newer base, the whole commit fails.

    `staged` has the metadata files of the actions that a transaction has applied so far, before any file is written. `check` is called with the base of every
    attempt; it raises an error if the actions must not be committed on this base.
    """

    def __init__(
        self, actions: Sequence[Action], staged: StagedFiles | None = None, check: Callable[[TableMetadata], None] | None = None
    ) -> None:
        self._actions = tuple(actions)
        self._staged = staged or StagedFiles()
        self._check = check

    def new_data_files(self) -> Sequence[str]:
        return [location for action in self._actions for location in action.new_data_files()]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`. Raises the errors of the actions and of the check."""
        if self._check is not None:
            self._check(base)
        attempts: list[Attempt] = []
        working = base
        for action in self._actions:
            attempt = action.attempt(working, number=number, now_ms=now_ms, read=self._staged.reading(read))
            if attempt is not None:
                attempts.append(attempt)
                self._staged.add(attempt)
                working = apply_updates(working, attempt.updates, max(now_ms, working.last_updated_ms))
        return self._combine(attempts) if attempts else None

    def _combine(self, attempts: Sequence[Attempt]) -> Attempt:
        """Return one attempt with the updates, requirements and files of all attempts."""
        with_snapshot = [attempt for attempt in attempts if attempt.snapshot_id is not None]
        manifests = tuple(manifest for attempt in attempts for manifest in attempt.manifests)
        return Attempt(
            updates=tuple(update for attempt in attempts for update in attempt.updates),
            requirements=_requirements_on_base(requirement for attempt in attempts for requirement in attempt.requirements),
            snapshot_id=with_snapshot[-1].snapshot_id if with_snapshot else None,
            summary=with_snapshot[-1].summary if with_snapshot else {},
            manifests=manifests,
            listed_manifests=tuple(manifest for attempt in attempts for manifest in attempt.listed_manifests),
            manifest_files=self._staged.new_files(manifest.manifest_path for manifest in manifests),
            manifest_lists=tuple(file for attempt in attempts for file in attempt.manifest_lists),
        )


def _requirements_on_base(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """Return the first requirement of each kind; a later one refers to the result of an earlier action, not to the base."""
    first: dict[tuple[type, str], Requirement] = {}
    for requirement in requirements:
        first.setdefault((type(requirement), requirement.ref if isinstance(requirement, AssertRefSnapshotId) else ""), requirement)
    return tuple(first.values())
