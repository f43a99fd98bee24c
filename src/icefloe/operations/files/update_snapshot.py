"""`UpdateSnapshot`: the operations of `table.update_snapshot()`, which add and remove existing files, with the conflict checks that the caller chooses.

`file_operations.py` has overwrite, row delta and rewrite. `rows/table_writes.py` has the writes of rows.
Spec: Snapshots; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping
from typing import Self

from icefloe.commit.append import Append
from icefloe.commit.attempt import Action
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.replace_partitions import ReplacePartitions
from icefloe.errors import InvalidInputError
from icefloe.operations.files.file_operations import OverwriteFiles, RewriteDataFiles, RowChanges
from icefloe.operations.files.manifest_rewrite import ManifestRewrite
from icefloe.operations.files.pending_snapshot import PendingSnapshot
from icefloe.operations.pending_change import Commit, MutationContext
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import BooleanExpression, any_of
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.metadata.snapshot_ref import MAIN


class UpdateSnapshot:
    """Starts operations on existing files; the result of `table.update_snapshot()`.

    Each method starts one operation, which is committed at the end of its `with` block or by `commit()`.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        self._start = start
        self._commit = commit
        self._properties = dict(snapshot_properties or {})
        self._branch = branch

    def fast_append(self) -> "AppendFiles":
        """Start an append that does not merge the table's manifests, which makes it the quickest commit.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return AppendFiles(self._start, self._commit, self._properties, self._branch, merge=False)

    def merge_append(self) -> "AppendFiles":
        """Start an append that merges small manifests if `commit.manifest-merge.enabled` is true.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return AppendFiles(self._start, self._commit, self._properties, self._branch, merge=True)

    def overwrite(self) -> OverwriteFiles:
        """Start an overwrite, in which data files replace other files. Files to remove are named, or selected by a filter that all their rows match.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return OverwriteFiles(self._start, self._commit, self._properties, self._branch)

    def delete_files(self) -> "DeleteFiles":
        """Start a removal of data files, by name or by a filter that all their rows match.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return DeleteFiles(self._start, self._commit, self._properties, self._branch)

    def replace_partitions(self) -> "ReplacePartitionFiles":
        """Start an overwrite in which the added data files replace all files in their partitions.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return ReplacePartitionFiles(self._start, self._commit, self._properties, self._branch)

    def row_delta(self) -> RowChanges:
        """Start a change that adds and removes data files and delete files together.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return RowChanges(self._start, self._commit, self._properties, self._branch)

    def rewrite_files(self) -> RewriteDataFiles:
        """Start a rewrite of data files, which replaces files by other files with the same rows.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return RewriteDataFiles(self._start, self._commit, self._properties, self._branch)

    def rewrite_manifests(self) -> ManifestRewrite:
        """Start a rewrite of manifests, which replaces manifests by other manifests with the same files.

        Returns:
            The snapshot, which is committed at the end of its `with` block.
        """
        return ManifestRewrite(self._start, self._commit, self._properties, self._branch)


class AppendFiles(PendingSnapshot):
    """A pending snapshot of the operation `append`. Commits of other writers never conflict with it."""

    def __init__(
        self,
        start: MutationContext,
        commit: Commit,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = MAIN,
        *,
        merge: bool,
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._merge = merge
        self._files: list[DataFile] = []

    def append_file(self, file: DataFile) -> Self:
        """Add a data file.

        It is not checked whether the table has the file already, because every manifest would have to be read.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        self._files.append(self._check_added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """Add a data file: `append_file` under PyIceberg's name.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        return self.append_file(file)

    def _action(self) -> Action:
        return Append(self._files, self._context(), merge=self._merge)


class DeleteFiles(PendingSnapshot):
    """A pending snapshot of the operation `delete` that removes whole data files.

    The commit fails if a file that is removed by name is no longer live, because its rows may have been copied to another file.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._files: list[str | DataFile] = []
        self._filters: list[BooleanExpression] = []
        self._case_sensitive = True

    def delete_file(self, file: str | DataFile) -> Self:
        """Remove a data file.

        Args:
            file: the file, or its path.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file is a delete file, or is listed twice in this commit.
        """
        if isinstance(file, DataFile):
            self._check_removed(file, FileContent.DATA)
        else:
            self._remove((file, None))
        self._files.append(file)
        return self

    def delete_from_row_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Remove the files in which every row matches a filter, by metadata alone.

        The commit fails if in some file only some rows may match.

        Args:
            row_filter: a filter as text or expression.

        Returns:
            This update.

        Raises:
            InvalidFilterError: the filter cannot be parsed, or names an unknown column.
        """
        expression = to_expression(row_filter)
        bind(expression, self._start.metadata.schema(), self._case_sensitive)
        self._filters.append(expression)
        return self

    def case_sensitive(self, case_sensitive: bool) -> Self:
        """Set whether column names in filters are case-sensitive. Call it before the filters are set.

        Args:
            case_sensitive: whether names match exactly; True by default.

        Returns:
            This update.
        """
        self._case_sensitive = case_sensitive
        return self

    def validate_files_exist(self) -> Self:
        """Do nothing, because the commit always fails if a named file is not live. In Java only this call has that effect.

        Returns:
            This update.
        """
        return self

    def _action(self) -> Action:
        context = self._context()
        return Overwrite(
            removed=self._files,
            added=(),
            row_filter=any_of(self._filters) if self._filters else None,
            case_sensitive=self._case_sensitive,
            context=context,
            numbers=ManifestNumbers(context),
        )


class ReplacePartitionFiles(PendingSnapshot):
    """A pending snapshot of the operation `overwrite` that replaces the partitions of the added files; with an unpartitioned spec, the whole table."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._files: list[DataFile] = []
        self._append_only = False
        self._since: int | None = None
        self._no_data = False
        self._no_deletes = False

    def add_file(self, file: DataFile) -> Self:
        """Add a data file.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: as for `AppendFiles.append_file`; or the file has a different partition spec than the files added before.
        """
        if any(other.spec_id != file.spec_id for other in self._files):
            raise InvalidInputError(
                f"{file.file_path} has partition spec {file.spec_id}, and the files before it in this commit have spec {self._files[0].spec_id}",
                table=self._start.handle.table_name,
                path=file.file_path,
                next_step="replace the partitions of each spec in a commit of its own",
            )
        self._files.append(self._check_added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """Add a data file: `add_file` under PyIceberg's name.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: as for `add_file`.
        """
        return self.add_file(file)

    def validate_append_only(self) -> Self:
        """Refuse the commit if one of the partitions already has files.

        Returns:
            This update.
        """
        self._append_only = True
        return self

    def validate_from_snapshot(self, snapshot_id: int) -> Self:
        """Check only the snapshots after one for conflicts.

        Args:
            snapshot_id: the snapshot that the change was planned on; by default the checks cover all snapshots of the branch.

        Returns:
            This update.

        Raises:
            NoSuchSnapshotError: the table does not have the snapshot.
        """
        self._since = self._known_snapshot(snapshot_id)
        return self

    def validate_no_conflicting_data(self) -> Self:
        """Refuse the commit if other writers added data files to the partitions.

        Returns:
            This update.
        """
        self._no_data = True
        return self

    def validate_no_conflicting_deletes(self) -> Self:
        """Refuse the commit if other writers added deletes that may apply to rows of the partitions, or removed data files from the partitions.

        Returns:
            This update.
        """
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        context = self._context()
        rules = ConflictRules(
            since=self._since, no_added_data=self._no_data, no_removed_data=self._no_deletes, no_added_deletes=self._no_deletes
        )
        return ReplacePartitions(
            added=self._files, context=context, numbers=ManifestNumbers(context), rules=rules, append_only=self._append_only
        )
