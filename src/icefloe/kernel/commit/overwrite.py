"""`Overwrite`: a snapshot that removes whole data files and may add others (the spec's `delete` and `overwrite`).

The files to remove hold for one base only: on a newer one its caller chooses again and makes a new action.
Floor: kernel.commit. Spec: Snapshots (operations append, delete, overwrite); Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence

from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.file_changes import FileChanges
from icefloe.kernel.commit.files_commit import FilesCommit, Found
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


class Overwrite:
    """Removes the live files at `removed` paths, with the deletes that are about them alone, and adds `added`.

    `numbers` goes on counting over the attempts of one commit. `planned_on` is the snapshot that was read to choose and copy the files: where deletes were
    added to the removed files since, the commit is refused; None looks for none.
    """

    def __init__(
        self,
        *,
        removed: Sequence[str],
        added: Sequence[DataFile],
        context: CommitContext,
        numbers: ManifestNumbers,
        planned_on: int | None = None,
    ) -> None:
        self._added = tuple(added)
        changes = FileChanges(added=self._added, removed=frozenset(removed), removed_partitions=None, planned_on=planned_on)
        self._work = FilesCommit(changes, context, numbers)

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`.

        Raises:
            CommitInvalidatedError: a file to remove is not live in this base, or has newer deletes.
        """
        return self._work.attempt(base, operation=self._operation, number=number, now_ms=now_ms, read=read)

    def _operation(self, found: Found) -> str:
        if not self._added:
            return "delete"
        return "overwrite" if found.gone else "append"
