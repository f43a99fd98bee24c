"""`Overwrite`: a snapshot that removes whole data files and may add others (the spec's `delete` and `overwrite`).

The files to remove hold for one base only: on a newer one its caller chooses again and makes a new action.
Spec: Snapshots (operations append, delete, overwrite); Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.conflicts import Rules
from icefloe.kernel.commit.file_changes import file_changes
from icefloe.kernel.commit.merging_snapshot_producer import Found, MergingSnapshotProducer
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_metadata import TableMetadata


class Overwrite:
    """Removes the live files of `removed` (paths, or files), with the deletes that are about them alone, and adds `added`.

    Files of which every row matches `row_filter` are removed too, chosen on each base by their manifest entries alone; one that matches in part is refused.
    With `added_match_filter` an added file of which that is not known is refused as well.
    `numbers` goes on counting over the attempts of one commit. `rules` say what others must not have done since the files were chosen; None: anything that
    leaves the removed files live.
    """

    def __init__(
        self,
        *,
        removed: Sequence[str | DataFile],
        added: Sequence[DataFile],
        context: CommitContext,
        numbers: ManifestNumbers,
        removed_deletes: Sequence[DataFile] = (),
        row_filter: BooleanExpression | None = None,
        case_sensitive: bool = True,
        added_match_filter: bool = False,
        rules: Rules = None,
    ) -> None:
        """Raises `InvalidInputError` as `file_changes` does."""
        named = [file for file in removed if isinstance(file, DataFile)]
        changes = file_changes(added=added, removed=named, removed_deletes=removed_deletes)
        paths = {file for file in removed if isinstance(file, str)}
        self._added = changes.added
        self._work = MergingSnapshotProducer(
            replace(
                changes,
                removed=changes.removed | paths,
                removed_partitions=None if paths else changes.removed_partitions,
                row_filter=row_filter,
                case_sensitive=case_sensitive,
                added_match_filter=added_match_filter,
            ),
            context,
            numbers,
            rules,
        )

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`.

        Raises:
            CommitInvalidatedError: a file to remove is not live in this base, or another snapshot broke a rule.
            InvalidInputError: of a file some rows, but not all, match the filter.
        """
        return self._work.attempt(base, operation=self._operation, number=number, now_ms=now_ms, read=read)

    def _operation(self, found: Found) -> str:
        if not self._added:
            return "delete"
        return "overwrite" if found.gone else "append"
