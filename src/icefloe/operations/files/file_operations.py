"""The operations of `table.update_snapshot()` that replace files: overwrite, row delta, rewrite.

`update_snapshot.py` has appends, deletes and replaced partitions.
Spec: Snapshots (operations overwrite, delete, replace); Row-level Deletes; Commit Conflict Resolution and Retry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self

from icefloe.commit.attempt import Action
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.overwrite import Overwrite
from icefloe.commit.rewrite_files import RewriteFiles
from icefloe.commit.row_delta import RowDelta
from icefloe.errors import InvalidInputError
from icefloe.operations.files.pending_snapshot import PendingSnapshot
from icefloe.operations.pending_change import Commit, MutationContext
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.metadata.snapshot_ref import MAIN

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)


class _CheckedSnapshot(PendingSnapshot):
    """Base class of pending snapshots that can check for conflicts with the commits of other writers."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._since: int | None = None
        self._case_sensitive = True
        self._conflict_filter: BooleanExpression | None = None
        self._data: list[DataFile] = []
        self._deletes: list[DataFile] = []
        self._removed_data: list[DataFile] = []
        self._removed_deletes: list[DataFile] = []

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

    def case_sensitive(self, case_sensitive: bool) -> Self:
        """Set whether column names in filters are case-sensitive. Call it before the filters are set.

        Args:
            case_sensitive: whether names match exactly; True by default.

        Returns:
            This update.
        """
        self._case_sensitive = case_sensitive
        return self

    def _filter(self, row_filter: str | BooleanExpression) -> BooleanExpression:
        if row_filter is None:
            raise InvalidInputError("no filter was given", next_step="pass a filter, or TRUE for all rows")
        expression = to_expression(row_filter)
        bind(expression, self._start.metadata.schema(), self._case_sensitive)
        return expression

    def _rules(self) -> ConflictRules:
        return ConflictRules(since=self._since, row_filter=self._conflict_filter or AlwaysTrue(), case_sensitive=self._case_sensitive)


class OverwriteFiles(_CheckedSnapshot):
    """A pending snapshot in which data files replace other files (operation `overwrite`).

    Whatever checks are set, the commit fails if a file that is removed by name is no longer live.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._row_filter: BooleanExpression | None = None
        self._added_match = False
        self._no_data = False
        self._no_deletes = False

    def add_file(self, file: DataFile) -> Self:
        """Add a data file.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        self._data.append(self._check_added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """Add a data file: `add_file` under PyIceberg's name.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        return self.add_file(file)

    def delete_file(self, file: DataFile) -> Self:
        """Remove a data file or delete file.

        Args:
            file: the file.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content, or is listed twice in this commit.
        """
        self._check_removed(file, *FileContent)
        (self._removed_data if file.content == FileContent.DATA else self._removed_deletes).append(file)
        return self

    def delete_data_file(self, file: DataFile) -> Self:
        """Remove a data file: `delete_file` under PyIceberg's name.

        Args:
            file: the file.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content, or is listed twice in this commit.
        """
        return self.delete_file(file)

    def overwrite_by_row_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Remove the files in which every row matches a filter, by metadata alone.

        The commit fails if in some file only some rows may match.

        Args:
            row_filter: a filter as text or expression.

        Returns:
            This update.

        Raises:
            InvalidFilterError: the filter cannot be parsed, or names an unknown column.
        """
        self._row_filter = self._filter(row_filter)
        return self

    def validate_added_files_match_overwrite_filter(self) -> Self:
        """Refuse the commit if an added file may contain a row that does not match the filter of `overwrite_by_row_filter`.

        Returns:
            This update.
        """
        self._added_match = True
        return self

    def conflict_detection_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Check only rows that match a filter for conflicts.

        Args:
            row_filter: a filter as text or expression. Without this call it is the overwrite filter; or all rows if files are removed by name.

        Returns:
            This update.

        Raises:
            InvalidFilterError: the filter cannot be parsed, or names an unknown column.
        """
        self._conflict_filter = self._filter(row_filter)
        return self

    def validate_no_conflicting_data(self) -> Self:
        """Refuse the commit if other writers added data files that may have rows which match the conflict detection filter (serializable isolation).

        Returns:
            This update.
        """
        self._no_data = True
        return self

    def validate_no_conflicting_deletes(self) -> Self:
        """Refuse the commit if other writers deleted rows that match the conflict detection filter, or rows of a file to remove (snapshot isolation).

        Returns:
            This update.
        """
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        if self._added_match and self._row_filter is None:
            raise InvalidInputError(
                "added files must match the overwrite filter, and there is no overwrite filter",
                table=self._start.handle.table_name,
                next_step="state it with overwrite_by_row_filter(...)",
            )
        context = self._context()
        return Overwrite(
            removed=self._removed_data,
            removed_deletes=self._removed_deletes,
            added=self._data,
            row_filter=self._row_filter,
            case_sensitive=self._case_sensitive,
            added_match_filter=self._added_match,
            rules=self._overwrite_rules(),
            context=context,
            numbers=ManifestNumbers(context),
        )

    def _overwrite_rules(self) -> tuple[ConflictRules, ...]:
        """Return the conflict rules to check; rules with different filters are separate. JAVA: BaseOverwriteFiles.validate."""
        of_filter = self._conflict_filter or self._row_filter
        rules = self._rules()
        rules_to_check = []
        if self._no_data:
            only_filter = of_filter if self._conflict_filter is not None or not self._removed_data else None
            rules_to_check.append(replace(rules, no_added_data=True, row_filter=only_filter or AlwaysTrue()))
        if self._no_deletes and self._row_filter is not None and of_filter is not None:
            rules_to_check.append(replace(rules, no_added_deletes=True, no_removed_data=True, row_filter=of_filter))
        if self._no_deletes and self._removed_data:
            rules_to_check.append(replace(rules, no_newer_deletes=True))
        return tuple(rules_to_check)


class RowChanges(_CheckedSnapshot):
    """A pending snapshot in which data files and delete files are added and removed together (row delta).

    Whatever checks are set, the commit fails if a data file that is removed, or to which added deletes refer, is not live, or if an added deletion vector would
    replace deletes that other writers added meanwhile.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._required: set[str] = set()
        self._no_removed = False
        self._no_data = False
        self._no_deletes = False

    def add_rows(self, file: DataFile) -> Self:
        """Add a data file.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        self._data.append(self._check_added(file, FileContent.DATA))
        return self

    def add_deletes(self, file: DataFile) -> Self:
        """Add a delete file or deletion vector.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        self._deletes.append(self._check_added(file, *_DELETES))
        return self

    def remove_rows(self, file: DataFile) -> Self:
        """Remove a data file.

        Args:
            file: the file.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content, or is listed twice in this commit.
        """
        self._removed_data.append(self._check_removed(file, FileContent.DATA))
        return self

    def remove_deletes(self, file: DataFile) -> Self:
        """Remove a delete file or deletion vector.

        Args:
            file: the file.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content, or is listed twice in this commit.
        """
        self._removed_deletes.append(self._check_removed(file, *_DELETES))
        return self

    def validate_data_files_exist(self, referenced_files: Iterable[str]) -> Self:
        """Refuse the commit if other writers rewrote or overwrote one of these data files.

        Args:
            referenced_files: paths of the data files that added position deletes refer to.

        Returns:
            This update.
        """
        self._required.update(referenced_files)
        return self

    def validate_deleted_files(self) -> Self:
        """Make `validate_data_files_exist` also refuse data files that other writers removed by deleting all their rows, which is allowed by default.

        Returns:
            This update.
        """
        self._no_removed = True
        return self

    def conflict_detection_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Check only rows that match a filter for conflicts.

        Args:
            row_filter: a filter as text or expression. Without this call all rows are checked.

        Returns:
            This update.

        Raises:
            InvalidFilterError: the filter cannot be parsed, or names an unknown column.
        """
        self._conflict_filter = self._filter(row_filter)
        return self

    def validate_no_conflicting_data_files(self) -> Self:
        """Refuse the commit if other writers added data files that may have rows which match the conflict detection filter (serializable isolation).

        Returns:
            This update.
        """
        self._no_data = True
        return self

    def validate_no_conflicting_delete_files(self) -> Self:
        """Refuse the commit if other writers deleted rows that match the conflict detection filter, or rows of a file to remove (snapshot isolation).

        Returns:
            This update.
        """
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        both = sorted(self._required & {file.file_path for file in self._removed_data})
        if both:
            raise InvalidInputError(
                f"{both[0]} is removed by this commit, and is also named as a file that its deletes refer to",
                table=self._start.handle.table_name,
                path=both[0],
                next_step="do not remove it, or leave it out of validate_data_files_exist",
            )
        context = self._context()
        rules = replace(
            self._rules(),
            required_files=frozenset(self._required),
            skip_deletes=not self._no_removed,
            no_added_data=self._no_data,
            no_added_deletes=self._no_deletes,
            no_newer_deletes=self._no_deletes,
        )
        return RowDelta(
            added=self._data,
            added_deletes=self._deletes,
            removed=self._removed_data,
            removed_deletes=self._removed_deletes,
            rules=rules,
            context=context,
            numbers=ManifestNumbers(context),
        )


class RewriteDataFiles(_CheckedSnapshot):
    """A pending snapshot that replaces files by other files with the same rows.

    The commit fails if other writers have deleted rows of the replaced files since these were read.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._sequence_number: int | None = None
        self._delete_sequence_number: int | None = None

    def add_file(self, file: DataFile) -> Self:
        """Add a data file, or position deletes that replace others.

        Equality deletes are refused: they would have a higher sequence number than the deletes that they replace, and so delete more rows.

        Args:
            file: the file, which exists already.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content or an unknown partition spec, is listed twice, or is not allowed in the table's format version.
        """
        self._check_added(file, FileContent.DATA, FileContent.POSITION_DELETES)
        (self._data if file.content == FileContent.DATA else self._deletes).append(file)
        return self

    def delete_file(self, file: DataFile) -> Self:
        """Remove a data file or delete file.

        Args:
            file: the file.

        Returns:
            This update.

        Raises:
            InvalidInputError: the file has the wrong content, or is listed twice in this commit.
        """
        self._check_removed(file, *FileContent)
        (self._removed_data if file.content == FileContent.DATA else self._removed_deletes).append(file)
        return self

    def data_sequence_number(self, sequence_number: int) -> Self:
        """Set the data sequence number of the added data files.

        If it is the sequence number that the rewritten rows had, equality deletes that other writers add meanwhile still apply to the rows, so that such
        deletes are no conflict.

        Args:
            sequence_number: the data sequence number.

        Returns:
            This update.
        """
        self._sequence_number = sequence_number
        return self

    def delete_sequence_number(self, sequence_number: int) -> Self:
        """Set the data sequence number of the added delete files, so that they do not apply to newer data files than the deletes that they replace.

        Args:
            sequence_number: the data sequence number: at least that of each removed position delete file.

        Returns:
            This update.
        """
        self._delete_sequence_number = sequence_number
        return self

    def _action(self) -> Action:
        for added, removed, kind in ((self._data, self._removed_data, "data"), (self._deletes, self._removed_deletes, "delete")):
            if added and not removed:
                raise InvalidInputError(
                    f"{added[0].file_path} is added, and no {kind} file is removed: a rewrite replaces files",
                    table=self._start.handle.table_name,
                    path=added[0].file_path,
                    next_step="name the replaced files with delete_file(...), or append the file",
                )
        if not self._removed_data and not self._removed_deletes:
            raise InvalidInputError(
                "a rewrite removes files, and no file to remove is named",
                table=self._start.handle.table_name,
                next_step="name the files with delete_file(...)",
            )
        context = self._context()
        return RewriteFiles(
            added=self._data,
            added_deletes=self._deletes,
            removed=self._removed_data,
            removed_deletes=self._removed_deletes,
            sequence_number=self._sequence_number,
            delete_sequence_number=self._delete_sequence_number,
            rules=self._rules(),
            context=context,
            numbers=ManifestNumbers(context),
        )
