"""`RowDelta`: a snapshot that deletes single rows, by delete files, and may add and remove data files: merge-on-read.

Spec: Row-level Deletes; Deletion Vectors; Snapshots (operations append, delete, overwrite).
"""

from collections.abc import Sequence

from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.conflicts import Rules
from icefloe.kernel.commit.file_changes import file_changes
from icefloe.kernel.commit.merging_snapshot_producer import Found, MergingSnapshotProducer
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


class RowDelta:
    """Adds data and delete files, and removes others.

    A data file has one deletion vector at most, so that one which replaces another, or position deletes, holds their positions too and has them in
    `removed_deletes`. The data files that deletes name (`referenced_data_file`) must be in the table or among `added`, in the partition of the deletes.
    `rules` say what others must not have done since rows and files were chosen; None: anything that leaves the files that this is about live.
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
        """Raises `InvalidInputError` as `file_changes` does."""
        self._changes = file_changes(added=added, added_deletes=added_deletes, removed=removed, removed_deletes=removed_deletes)
        self._work = MergingSnapshotProducer(self._changes, context, numbers, rules)

    def new_data_files(self) -> Sequence[str]:
        paths = [file.file_path for file in (*self._changes.added, *self._changes.added_deletes)]
        return list(dict.fromkeys(paths))  # deletion vectors share their Puffin file

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`; None where nothing changes.

        Raises:
            CommitInvalidatedError: a file to remove or to delete rows of is no longer live, another writer gave a data file a deletion vector, a snapshot broke
                a rule, or the table was upgraded to a version that does not allow these delete files. The caller reads again and makes a new action.
            InvalidInputError: the table's format version does not allow a file.
        """
        return self._work.attempt(base, operation=self._operation, number=number, now_ms=now_ms, read=read)

    def _operation(self, found: Found) -> str:
        """By what happens to data files and rows: one that only adds rows is an append, one that only deletes a delete. Spec: Snapshots (operation)."""
        changes = self._changes
        if changes.added and not changes.added_deletes and not found.gone:
            return "append"
        return "delete" if not changes.added and (changes.added_deletes or changes.removed) else "overwrite"
