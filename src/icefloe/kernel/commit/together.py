"""`Together`: several actions as one, each on what those before it made of the base, so that all of them are one version of the table.

The single actions are `metadata_change.py`, `append.py`, `overwrite.py`; users meet this as `table.transaction()`.
Floor: kernel.commit. Spec: Commit Conflict Resolution and Retry.
"""

from collections.abc import Iterable, Sequence

from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.commit.attempt import Action, Attempt, Read
from icefloe.kernel.metadata.requirement import AssertRefSnapshotId, Requirement
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.metadata.update import apply_updates


class Together:
    """The actions in order. After a lost race each is asked again; one that the winner's table does not allow makes all of them a conflict."""

    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = tuple(actions)

    def new_data_files(self) -> Sequence[str]:
        return [location for action in self._actions for location in action.new_data_files()]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`. Raises what the actions do."""
        made: list[Attempt] = []
        working = base
        for action in self._actions:
            one = action.attempt(working, number=number, now_ms=now_ms, read=read)
            if one is not None:
                made.append(one)
                working = apply_updates(working, one.updates, max(now_ms, working.last_updated_ms))
        return _joined(made) if made else None


def _joined(made: Sequence[Attempt]) -> Attempt:
    """One attempt with everything of the others.

    Raises:
        UnsupportedFeatureError: several of them add a snapshot. The later ones would read files that the earlier ones have not written yet.
    """
    snapshots = [one for one in made if one.snapshot_id is not None]
    if len(snapshots) > 1:
        raise UnsupportedFeatureError("a transaction can change rows once, and this one does more often", next_step="commit in between")
    rows = snapshots[0] if snapshots else Attempt(updates=())
    return Attempt(
        updates=tuple(update for one in made for update in one.updates),
        requirements=_on_the_base(requirement for one in made for requirement in one.requirements),
        snapshot_id=rows.snapshot_id,
        summary=rows.summary,
        manifests=rows.manifests,
        manifest_files=rows.manifest_files,
        manifest_list=rows.manifest_list,
    )


def _on_the_base(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The first requirement of each kind. A later one speaks of what an earlier action made, and that action was asked for it already."""
    first: dict[tuple[type, str], Requirement] = {}
    for requirement in requirements:
        first.setdefault((type(requirement), requirement.ref if isinstance(requirement, AssertRefSnapshotId) else ""), requirement)
    return tuple(first.values())
