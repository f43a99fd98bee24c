"""`CompositeAction`: several actions as one, each on what those before it made of the base, so that all of them are one version of the table.

The single actions are `metadata_change.py`, `append.py`, `row_delta.py` and the table's own; users meet this as `table.transaction()`.
Spec: Commit Conflict Resolution and Retry.
"""

from collections.abc import Iterable, Sequence

from icefloe.kernel.commit.attempt import Action, Attempt, NewFile, Read
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, Requirement
from icefloe.kernel.metadata.table_metadata import TableMetadata


class StagedFiles:
    """Manifests and manifest lists that earlier actions of a commit made: later ones read them before they are written."""

    def __init__(self) -> None:
        self._files: dict[str, NewFile] = {}

    def add(self, made: Attempt) -> None:
        """Takes the new files of an attempt."""
        self._files.update((file.location, file) for file in (*made.manifest_files, *made.manifest_lists))

    def reading(self, read: Read) -> Read:
        """`read` with these files in front of it."""

        def read_staged(location: str) -> bytes:
            found = self._files.get(location)
            return found.content if found is not None else read(location)

        return read_staged

    def new_files(self, locations: Iterable[str]) -> tuple[NewFile, ...]:
        """Return those of the files that the actions made."""
        return tuple(self._files[location] for location in locations if location in self._files)


class CompositeAction:
    """The actions in order. After a lost race each is asked again; one that the winner's table does not allow makes all of them a conflict.

    `staged` has what the actions made before, when they were tried one by one and nothing was written.
    """

    def __init__(self, actions: Sequence[Action], staged: StagedFiles | None = None) -> None:
        self._actions = tuple(actions)
        self._staged = staged or StagedFiles()

    def new_data_files(self) -> Sequence[str]:
        return [location for action in self._actions for location in action.new_data_files()]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`. Raises what the actions do."""
        made: list[Attempt] = []
        working = base
        for action in self._actions:
            one = action.attempt(working, number=number, now_ms=now_ms, read=self._staged.reading(read))
            if one is not None:
                made.append(one)
                self._staged.add(one)
                working = apply_updates(working, one.updates, max(now_ms, working.last_updated_ms))
        return self._joined(made) if made else None

    def _joined(self, made: Sequence[Attempt]) -> Attempt:
        """One attempt with everything of the others."""
        rows = [one for one in made if one.snapshot_id is not None]
        manifests = tuple(manifest for one in made for manifest in one.manifests)
        return Attempt(
            updates=tuple(update for one in made for update in one.updates),
            requirements=_on_the_base(requirement for one in made for requirement in one.requirements),
            snapshot_id=rows[-1].snapshot_id if rows else None,
            summary=rows[-1].summary if rows else {},
            manifests=manifests,
            manifest_files=self._staged.new_files(manifest.manifest_path for manifest in manifests),
            manifest_lists=tuple(file for one in made for file in one.manifest_lists),
        )


def _on_the_base(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The first requirement of each kind. A later one speaks of what an earlier action made, and that action was asked for it already."""
    first: dict[tuple[type, str], Requirement] = {}
    for requirement in requirements:
        first.setdefault((type(requirement), requirement.ref if isinstance(requirement, AssertRefSnapshotId) else ""), requirement)
    return tuple(first.values())
