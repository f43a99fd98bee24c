"""`RowDelta`: the action that adds delete files and data files, and can remove some (merge-on-read DELETE, UPDATE and MERGE). JAVA: RowDelta.

Spec: Row-level Deletes; Deletion Vectors; Snapshots (operations append, delete, overwrite).
"""

from collections.abc import Sequence

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import Rules
from icefloe.commit.file_changes import file_changes
from icefloe.commit.merging_snapshot_producer import FilteredManifests, MergingSnapshotProducer
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata


class RowDelta:
    """The commit action of a row-level change: it adds delete files and data files, and can remove some.

    A data file has at most one deletion vector. A new one that replaces a vector or position deletes must contain their positions, and they must be in
    `removed_deletes`. A data file that deletes refer to (`referenced_data_file`) must be live in the table or among `added`, in the partition of the deletes.
    """

    def __init__(
        self,
        *,
        added: Sequence[DataFile] = (),
        added_deletes: Sequence[DataFile] = (),
        removed: Sequence[DataFile] = (),
        removed_deletes: Sequence[DataFile] = (),
        context: CommitContext,
        numbers: ManifestNumbers,
        rules: Rules = None,
    ) -> None:
        """Create the action.

        Args:
            added: data files to add.
            added_deletes: delete files to add.
            removed: live data files to remove.
            removed_deletes: live delete files to remove.
            context: the ids and the branch of the commit.
            numbers: the counter for names of manifests, over all attempts of the commit.
            rules: the conflict rules for newer snapshots; None allows every commit that leaves the files of this change live.

        Raises:
            InvalidInputError: see `file_changes`.
        """
        self._changes = file_changes(added=added, added_deletes=added_deletes, removed=removed, removed_deletes=removed_deletes)
        self._producer = MergingSnapshotProducer(self._changes, context, numbers, rules)

    def new_data_files(self) -> Sequence[str]:
        paths = [file.file_path for file in (*self._changes.added, *self._changes.added_deletes)]
        return list(dict.fromkeys(paths))  # distinct, because several deletion vectors can be in one Puffin file

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`; None if nothing changes.

        Raises:
            CommitInvalidatedError: a file that the change removes, or deletes rows of, is no longer live; another writer added a deletion vector for the same
                data file; a newer snapshot violated a rule; or the table was upgraded to a version that does not allow these delete files. The caller must plan
                the change again.
            InvalidInputError: the format version of the table does not allow a file.
        """
        return self._producer.attempt(base, operation=self._operation, number=number, now_ms=now_ms, read=read)

    def _operation(self, filtered: FilteredManifests) -> str:
        """Return `append` if the change only adds rows, `delete` if it only deletes rows, else `overwrite`. Spec: Snapshots (operation)."""
        changes = self._changes
        if changes.added and not changes.added_deletes and not filtered.removed_entries:
            return "append"
        return "delete" if not changes.added and (changes.added_deletes or changes.removed) else "overwrite"
