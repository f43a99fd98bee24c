"""The operations of `table.update_snapshot()` that take files away and put others in their place: overwrite, row delta, rewrite.

Appends, deletes and replaced partitions are `update_snapshot.py`.
Spec: Snapshots (operations overwrite, delete, replace); Row-level Deletes; Commit Conflict Resolution and Retry.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Self

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Action
from icefloe.kernel.commit.conflicts import ConflictRules
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.overwrite import Overwrite
from icefloe.kernel.commit.rewrite_files import RewriteFiles
from icefloe.kernel.commit.row_delta import RowDelta
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.table.files.pending_snapshot import PendingSnapshot
from icefloe.table.pending_change import Commit, MutationContext

_DELETES = (FileContent.POSITION_DELETES, FileContent.EQUALITY_DELETES)


class _CheckedSnapshot(PendingSnapshot):
    """One that can be checked against the snapshots after the one that was read."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
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
        """The checks look at the snapshots after this one; without it at all of the branch's. Raises `NoSuchSnapshotError`."""
        self._since = self._known_snapshot(snapshot_id)
        return self

    def case_sensitive(self, case_sensitive: bool) -> Self:
        """Whether the names in filters are; to be said before them."""
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
    """Data files in the place of others. A named file that is no longer live refuses the commit, with or without the checks."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._row_filter: BooleanExpression | None = None
        self._added_match = False
        self._no_data = False
        self._no_deletes = False

    def add_file(self, file: DataFile) -> Self:
        """Adds a data file. Raises `InvalidInputError`."""
        self._data.append(self._added(file, FileContent.DATA))
        return self

    def append_data_file(self, file: DataFile) -> Self:
        """The same as `add_file`, under PyIceberg's name."""
        return self.add_file(file)

    def delete_file(self, file: DataFile) -> Self:
        """Removes a data or delete file. Raises `InvalidInputError` where it is listed twice."""
        self._removed(file, *FileContent)
        (self._removed_data if file.content == FileContent.DATA else self._removed_deletes).append(file)
        return self

    def delete_data_file(self, file: DataFile) -> Self:
        """The same as `delete_file`, under PyIceberg's name."""
        return self.delete_file(file)

    def overwrite_by_row_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Removes files of which every row matches, by metadata alone; a file of which only some do refuses the commit. Raises `InvalidFilterError`."""
        self._row_filter = self._filter(row_filter)
        return self

    def validate_added_files_match_overwrite_filter(self) -> Self:
        """Refuses the commit where an added file may hold a row that does not match the filter of `overwrite_by_row_filter`."""
        self._added_match = True
        return self

    def conflict_detection_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Which rows the checks are about. Without it: those of the row filter, or all where files are named. Raises `InvalidFilterError`."""
        self._conflict_filter = self._filter(row_filter)
        return self

    def validate_no_conflicting_data(self) -> Self:
        """Refuses the commit where others added data files that may hold such rows: serializable isolation."""
        self._no_data = True
        return self

    def validate_no_conflicting_deletes(self) -> Self:
        """Refuses the commit where others deleted such rows, or rows of a file that this removes: snapshot isolation."""
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        if self._added_match and self._row_filter is None:
            raise InvalidInputError("added files are to match the overwrite filter, and there is none", next_step="overwrite_by_row_filter")
        context = self._committing()
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
        """One for each filter that a check is made with. JAVA: BaseOverwriteFiles.validate."""
        of_filter = self._conflict_filter or self._row_filter
        rules = self._rules()
        found = []
        if self._no_data:
            only_filter = of_filter if self._conflict_filter is not None or not self._removed_data else None
            found.append(replace(rules, no_added_data=True, row_filter=only_filter or AlwaysTrue()))
        if self._no_deletes and self._row_filter is not None and of_filter is not None:
            found.append(replace(rules, no_added_deletes=True, no_removed_data=True, row_filter=of_filter))
        if self._no_deletes and self._removed_data:
            found.append(replace(rules, no_newer_deletes=True))
        return tuple(found)


class RowChanges(_CheckedSnapshot):
    """Rows added and deleted: data files and delete files, together.

    A data file that deletes name, or that is removed, must be live, with or without the checks. A deletion vector may not hide deletes that others added.
    """

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._required: set[str] = set()
        self._no_removed = False
        self._no_data = False
        self._no_deletes = False

    def add_rows(self, file: DataFile) -> Self:
        """Adds a data file. Raises `InvalidInputError`."""
        self._data.append(self._added(file, FileContent.DATA))
        return self

    def add_deletes(self, file: DataFile) -> Self:
        """Adds a delete file or deletion vector. Raises `InvalidInputError`, also where the format version does not allow it."""
        self._deletes.append(self._added(file, *_DELETES))
        return self

    def remove_rows(self, file: DataFile) -> Self:
        """Removes a data file. Raises `InvalidInputError` where it is listed twice."""
        self._removed_data.append(self._removed(file, FileContent.DATA))
        return self

    def remove_deletes(self, file: DataFile) -> Self:
        """Removes a delete file or deletion vector. Raises `InvalidInputError` where it is listed twice."""
        self._removed_deletes.append(self._removed(file, *_DELETES))
        return self

    def validate_data_files_exist(self, referenced_files: Iterable[str]) -> Self:
        """Refuses the commit where others rewrote or overwrote one of these data files (paths), which position deletes are about."""
        self._required.update(referenced_files)
        return self

    def validate_deleted_files(self) -> Self:
        """Of `validate_data_files_exist`: also where others deleted one, so that its rows are gone anyway."""
        self._no_removed = True
        return self

    def conflict_detection_filter(self, row_filter: str | BooleanExpression) -> Self:
        """Which rows the checks are about; without it all. Raises `InvalidFilterError`."""
        self._conflict_filter = self._filter(row_filter)
        return self

    def validate_no_conflicting_data_files(self) -> Self:
        """Refuses the commit where others added data files that may hold such rows: serializable isolation."""
        self._no_data = True
        return self

    def validate_no_conflicting_delete_files(self) -> Self:
        """Refuses the commit where others deleted such rows, or rows of a file that this removes: snapshot isolation."""
        self._no_deletes = True
        return self

    def _action(self) -> Action:
        both = sorted(self._required & {file.file_path for file in self._removed_data})
        if both:
            raise InvalidInputError(f"{both[0]} is removed by this commit, and named as a file that its deletes are about", path=both[0])
        context = self._committing()
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
    """The same rows in other files. Where others deleted rows of the replaced files since the snapshot that was read, the commit is refused."""

    def __init__(
        self, start: MutationContext, commit: Commit, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN
    ) -> None:
        super().__init__(start, commit, snapshot_properties, branch)
        self._sequence_number: int | None = None

    def add_file(self, file: DataFile) -> Self:
        """Adds a data file, or position deletes in the place of others. Raises `InvalidInputError`.

        Equality deletes are refused: they would be younger than those that they take the place of, and delete rows that those did not.
        """
        self._added(file, FileContent.DATA, FileContent.POSITION_DELETES)
        (self._data if file.content == FileContent.DATA else self._deletes).append(file)
        return self

    def delete_file(self, file: DataFile) -> Self:
        """Removes a data or delete file. Raises `InvalidInputError` where it is listed twice."""
        self._removed(file, *FileContent)
        (self._removed_data if file.content == FileContent.DATA else self._removed_deletes).append(file)
        return self

    def data_sequence_number(self, sequence_number: int) -> Self:
        """The rows keep this age, so that equality deletes which others add meanwhile go on applying, and do not refuse the commit."""
        self._sequence_number = sequence_number
        return self

    def _action(self) -> Action:
        for added, removed, kind in ((self._data, self._removed_data, "data"), (self._deletes, self._removed_deletes, "delete")):
            if added and not removed:
                raise InvalidInputError(f"{added[0].file_path} takes the place of no {kind} file: none is removed", path=added[0].file_path)
        if not self._removed_data and not self._removed_deletes:
            raise InvalidInputError("a rewrite takes files away, and none is named", next_step="delete_file(...)")
        context = self._committing()
        return RewriteFiles(
            added=self._data,
            added_deletes=self._deletes,
            removed=self._removed_data,
            removed_deletes=self._removed_deletes,
            sequence_number=self._sequence_number,
            rules=self._rules(),
            context=context,
            numbers=ManifestNumbers(context),
        )
