"""`MetadataChange`: the action that changes metadata alone (schema, partition spec, sort order, properties) and adds no snapshot.

What it is based on is fixed when it is made: on a newer table it is done again where those things are as they were, and is a conflict where they are not.
Spec: Commit Conflict Resolution and Retry; REST catalog, TableUpdate and TableRequirement.
"""

from collections.abc import Callable, Sequence

from icefloe.kernel.commit.attempt import Attempt, Read
from icefloe.kernel.metadata.metadata_updates import Update
from icefloe.kernel.metadata.requirement import Requirement, check_requirements
from icefloe.kernel.metadata.table_metadata import TableMetadata


class MetadataChange:
    """`updates(base)` gives the updates that make the change on a base, none where it has nothing to change.

    `new_files` are files that were written for the change, such as one of statistics, and are nobody's where it fails.
    """

    def __init__(
        self, updates: Callable[[TableMetadata], Sequence[Update]], requirements: Sequence[Requirement], new_files: Sequence[str] = ()
    ) -> None:
        self._updates = updates
        self._requirements = tuple(requirements)
        self._new_files = tuple(new_files)

    def new_data_files(self) -> Sequence[str]:
        return self._new_files

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:  # noqa: ARG002
        """See `Action.attempt`.

        Raises:
            CommitConflictError: another writer changed what this change is based on.
        """
        # First of all: on a schema that another writer changed, a refusal of the change itself would be beside the point.
        check_requirements(self._requirements, base)
        updates = tuple(self._updates(base))
        return Attempt(updates=updates, requirements=self._requirements) if updates else None
