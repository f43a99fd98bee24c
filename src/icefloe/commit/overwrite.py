"""`Overwrite`: the action that removes whole data files and can add others (operations `delete` and `overwrite`). JAVA: OverwriteFiles, DeleteFiles.

Files that are removed by name must be live in the base of every attempt; if one is not, the caller must plan the change again on the newer table.
Spec: Snapshots (operations append, delete, overwrite); Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import Rules
from icefloe.commit.file_changes import file_changes
from icefloe.commit.merging_snapshot_producer import FilteredManifests, MergingSnapshotProducer
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata


class Overwrite:
    """The commit action that removes whole data files, and can add others. Delete files that apply to a removed data file only are removed with it."""

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
        """Create the action.

        Args:
            removed: live data files to remove, as files or paths.
            added: data files to add.
            context: the ids and the branch of the commit.
            numbers: the counter for names of manifests, over all attempts of the commit.
            removed_deletes: delete files to remove.
            row_filter: also remove the files in which all rows match, chosen again for each base, by their manifest entries only. A file in which some, but not
                all, rows match is an error.
            case_sensitive: whether names in `row_filter` are case-sensitive.
            added_match_filter: refuse an added file that may contain a row which does not match `row_filter`.
            rules: the conflict rules for newer snapshots; None allows every commit that leaves the removed files live.

        Raises:
            InvalidInputError: see `file_changes`.
        """
        removed_files = [file for file in removed if isinstance(file, DataFile)]
        changes = file_changes(added=added, removed=removed_files, removed_deletes=removed_deletes)
        paths = {file for file in removed if isinstance(file, str)}
        self._added = changes.added
        self._producer = MergingSnapshotProducer(
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
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            CommitInvalidatedError: a file to remove is not live in this base, or a newer snapshot violated a rule.
            InvalidInputError: some, but not all, rows of a file match the filter.
        """
        return self._producer.attempt(base, operation=self._operation, number=number, now_ms=now_ms, read=read)

    def _operation(self, filtered: FilteredManifests) -> str:
        if not self._added:
            return "delete"
        return "overwrite" if filtered.removed_entries else "append"
