"""`MetadataChange`: the action that changes metadata only (schema, partition spec, sort order, properties) and adds no snapshot.

Its requirements are fixed when it is created. A retry applies the change to the newer base if the requirements still hold; otherwise it is a conflict.
Spec: Commit Conflict Resolution and Retry; REST catalog, TableUpdate and TableRequirement.
"""

from collections.abc import Callable, Sequence

from icefloe.commit.attempt import Attempt, Read
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.requirement import Requirement, check_requirements
from icefloe.spec.metadata.table_metadata import TableMetadata


class MetadataChange:
    """A commit action that changes metadata only. Its updates are computed again from the current metadata at each attempt."""

    def __init__(
        self, updates: Callable[[TableMetadata], Sequence[Update]], requirements: Sequence[Requirement], new_files: Sequence[str] = ()
    ) -> None:
        """Create the action.

        Args:
            updates: returns the updates for a base; an empty sequence if there is nothing to change.
            requirements: the requirements that must still hold on the newer base of a retry.
            new_files: locations of files that were written for the change, such as a statistics file; they are deleted if the commit fails.
        """
        self._updates = updates
        self._requirements = tuple(requirements)
        self._new_files = tuple(new_files)

    def new_data_files(self) -> Sequence[str]:
        return self._new_files

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            CommitConflictError: another writer changed the metadata that this change is based on.
        """
        # The requirements are checked first. If another writer changed the schema, computing the updates could fail with an error that hides the real cause.
        check_requirements(self._requirements, base)
        updates = tuple(self._updates(base))
        return Attempt(updates=updates, requirements=self._requirements) if updates else None
