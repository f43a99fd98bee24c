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
    """A change of metadata, as a function of the base."""

    def __init__(
        self, updates: Callable[[TableMetadata], Sequence[Update]], requirements: Sequence[Requirement], new_files: Sequence[str] = ()
    ) -> None:
        """Create the action.

        Args:
            updates: returns the updates for a base; none if there is nothing to change.
            requirements: what must not have changed since the change was created.
            new_files: locations of files that were written for the change, such as a statistics file; they are deleted if the commit fails.
        """
        self._updates = updates
        self._requirements = tuple(requirements)
        self._new_files = tuple(new_files)

    def new_data_files(self) -> Sequence[str]:
        return self._new_files

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """See `Action.attempt`.

        Raises:
            CommitConflictError: another writer changed the metadata that this change is based on.
        """
        # Checked before the updates are computed: if another writer changed the schema, the conflict is the cause, not an error of the change itself.
        check_requirements(self._requirements, base)
        updates = tuple(self._updates(base))
        return Attempt(updates=updates, requirements=self._requirements) if updates else None
