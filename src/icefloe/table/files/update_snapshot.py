"""`UpdateSnapshot`: what `table.update_snapshot()` gives: snapshots made of files that exist already, file by file, with the checks that their maker asks for.

Overwrite, row delta and rewrite are `file_operations.py`. What writes rows is `row_mutations.py`.
Spec: Snapshots; Commit Conflict Resolution and Retry.
"""

from collections.abc import Mapping
from typing import Self

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.append import Append
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.conflicts import ConflictRules
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.replace_partitions import ReplacePartitions
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.expressions.predicate import BooleanExpression, any_of
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.table.files.file_operations import OverwriteFiles, RewriteDataFiles, RowChanges
from icefloe.table.files.manifest_rewrite import ManifestRewrite
from icefloe.table.files.pending_snapshot import PendingSnapshot
from icefloe.table.pending_change import Commit, MutationContext


class UpdateSnapshot:
    """One operation is chosen by its name; each gives a change that is committed at the end of its `with` block, or with `commit()`."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        self._start = start
        self._commit = commit
        self._properties = dict(snapshot_properties or {})
        self._branch = branch

    def fast_append(self) -> "AppendFiles":
        """Data files are added; manifests of the table stay as they are. The quickest commit there is."""
        return AppendFiles(self._start, self._commit, self._properties, self._branch, merge=False)

    def merge_append(self) -> "AppendFiles":
        """Data files are added; small manifests are merged where `commit.manifest-merge.enabled` is true."""
        return AppendFiles(self._start, self._commit, self._properties, self._branch, merge=True)

    def overwrite(self) -> OverwriteFiles:
        """Data files take the place of others, which are named, or chosen by a filter that all their rows match."""
        return OverwriteFiles(self._start, self._commit, self._properties, self._branch)

    def delete_files(self) -> "DeleteFiles":
        """Data files are removed, by name or by a filter that all their rows match."""
        return DeleteFiles(self._start, self._commit, self._properties, self._branch)

    def replace_partitions(self) -> "ReplacePartitionFiles":
        """Data files take the place of everything in their partitions."""
        return ReplacePartitionFiles(self._start, self._commit, self._properties, self._branch)

    def row_delta(self) -> RowChanges:
        """Data files and delete files are added and removed together."""
        return RowChanges(self._start, self._commit, self._properties, self._branch)

    def rewrite_files(self) -> RewriteDataFiles:
        """The same rows in other files."""
        return RewriteDataFiles(self._start, self._commit, self._properties, self._branch)

    def rewrite_manifests(self) -> ManifestRewrite:
        """The same files in other manifests."""
        return ManifestRewrite(self._start, self._commit, self._properties, self._branch)


class AppendFiles(PendingSnapshot):
    """An `append`: always right on a newer table."""

    def __init__(
        self,
        start: MutationContext,
        commit: Commit,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str = MAIN,
        *,
        merge: bool,
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._merge = merge
        self._files: list[DataFile] = []

    def append_file(self, file: DataFile) -> Self:
        """Adds a data file. That no other snapshot has it is not looked at: it would have to read every manifest. Raises `InvalidInputError`."""
        self._files.append(self._added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """The same as `append_file`, under PyIceberg's name."""
        return self.append_file(file)

    def _action(self) -> Action:
        return Append(self._files, self._committing(), merge=self._merge)


class DeleteFiles(PendingSnapshot):
    """A `delete` of whole files. A named file that is no longer live refuses the commit: what became of its rows is not known."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._files: list[str | DataFile] = []
        self._filters: list[BooleanExpression] = []
        self._case_sensitive = True

    def delete_file(self, file: str | DataFile) -> Self:
        """Removes a data file, given as such or by its path. Raises `InvalidInputError` where it is listed twice or holds deletes."""
        if isinstance(file, DataFile):
            self._removed(file, FileContent.DATA)
        else:
            self._remove((file, None))
        self._files.append(file)
        return self

    def delete_from_row_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Removes files of which every row matches, by metadata alone; a file of which only some do refuses the commit. Raises `InvalidFilterError`."""
        expression = to_expression(row_filter)
        bind(expression, self._start.metadata.schema(), self._case_sensitive)
        self._filters.append(expression)
        return self

    def case_sensitive(self, case_sensitive: bool) -> Self:
        """Whether the names in filters that follow are."""
        self._case_sensitive = case_sensitive
        return self

    def validate_files_exist(self) -> Self:
        """Refuses the commit where a named file is not live. So it is always here; Java commits without it, and the rows of a rewritten file stay."""
        return self

    def _action(self) -> Action:
        context = self._committing()
        return Overwrite(
            removed=self._files,
            added=(),
            row_filter=any_of(self._filters) if self._filters else None,
            case_sensitive=self._case_sensitive,
            context=context,
            numbers=ManifestNumbers(context),
        )


class ReplacePartitionFiles(PendingSnapshot):
    """An `overwrite` of the partitions that the added files lie in; of an unpartitioned spec, of the whole table."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._files: list[DataFile] = []
        self._append_only = False
        self._since: int | None = None
        self._no_data = False
        self._no_deletes = False

    def add_file(self, file: DataFile) -> Self:
        """Adds a data file. Raises `InvalidInputError`, also where it is of another partition spec than those before."""
        if any(known.spec_id != file.spec_id for known in self._files):
            raise InvalidInputError(
                f"{file.file_path} is of partition spec {file.spec_id}, others of this commit of {self._files[0].spec_id}",
                path=file.file_path,
            )
        self._files.append(self._added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """The same as `add_file`, under PyIceberg's name."""
        return self.add_file(file)

    def validate_append_only(self) -> Self:
        """Refuses the commit where one of the partitions has files."""
        self._append_only = True
        return self

    def validate_from_snapshot(self, snapshot_id: int) -> Self:
        """The checks look at the snapshots after this one; without it at all of the branch's. Raises `NoSuchSnapshotError`."""
        self._since = self._known_snapshot(snapshot_id)
        return self

    def validate_no_conflicting_data(self) -> Self:
        """Refuses the commit where others added data files to the partitions."""
        self._no_data = True
        return self

    def validate_no_conflicting_deletes(self) -> Self:
        """Refuses the commit where others added deletes that may apply in the partitions, or removed data files of theirs."""
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        context = self._committing()
        rules = ConflictRules(
            since=self._since, no_added_data=self._no_data, no_removed_data=self._no_deletes, no_added_deletes=self._no_deletes
        )
        return ReplacePartitions(
            added=self._files, context=context, numbers=ManifestNumbers(context), rules=rules, append_only=self._append_only
        )
