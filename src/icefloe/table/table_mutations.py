"""`TableMutations`: every change of a table, as a base class of `Table`, `Transaction` and `StaticTable`.

A `Table` commits each change at once, a `Transaction` collects changes for one commit, and a `StaticTable` refuses them. The changes are prepared in
`icefloe.operations`: writes of rows in `rows/table_writes.py`, changes of metadata in `changes/`, of files in `files/`, expiry in `expiry/expire_snapshots.py`.
`commit_loop.py` commits them.
Spec: Snapshots; Row-level Deletes; Optimistic Concurrency; Schema Evolution; Partition Evolution; Snapshot References; Snapshot Retention Policy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from icefloe.commit.change_properties import (
    location_updates,
    property_requirements,
    remove_property_updates,
    set_property_updates,
    version_updates,
)
from icefloe.commit.conflicts import ConflictRules, isolation_rules
from icefloe.commit.metadata_change import MetadataChange
from icefloe.errors import InvalidInputError
from icefloe.io.locations import qualify
from icefloe.lazy_imports import lazy_module
from icefloe.operations.changes.manage_snapshots import ManageSnapshots
from icefloe.operations.changes.update_partitioning import UpdateSortOrder, UpdateSpec
from icefloe.operations.changes.update_schema import UpdateSchema
from icefloe.operations.changes.update_statistics import UpdateStatistics
from icefloe.operations.commit_loop import committed_result
from icefloe.operations.expiry.expire_report import ExpireReport
from icefloe.operations.expiry.expire_snapshots import expire_snapshots
from icefloe.operations.files.manifest_rewrite import RewriteManifestsResult, rewrite_manifests
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.pending_change import ChangeTarget
from icefloe.operations.warnings_once import warn_of_properties
from icefloe.operations.write_result import WriteResult
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.unused_properties import unused_properties

if TYPE_CHECKING:
    from icefloe.operations.rows import table_writes
else:  # reading and writing rows needs 90 modules, and opening a table none of them
    table_writes = lazy_module("icefloe.operations.rows.table_writes")


class TableMutations(ChangeTarget):
    """The changes of a table's rows, files, metadata, branches and tags, and the expiry of its snapshots.

    Every write of rows takes `branch`, the branch that the new snapshot is added to, and `snapshot_properties`, which are added to the snapshot's summary.
    Methods that return an `Update...` object or `ManageSnapshots` collect changes, and commit them together at the end of a `with` block.
    """

    def append(self, df: Any, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN) -> WriteResult:
        """Add rows to the table.

        Args:
            df: a Spark DataFrame, which Spark writes, or Arrow or pandas data, which this process writes. Columns are matched by name; a missing optional
                column is null.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of files and rows added, and the id of the new snapshot.

        Raises:
            SchemaMismatchError: the rows do not fit the table's schema; every wrong column is listed. Nothing was written.
            CommitConflictError: other writers won every retry. No file of this write remains.
            CommitUnknownError: the catalog's reply was lost. No file was deleted.
        """
        start = self.mutation_context()
        return self._write(table_writes.append(start.handle, start.metadata, df, snapshot_properties or {}, branch))

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
    ) -> WriteResult:
        """Delete the rows for which a filter is true.

        Files whose rows all match are removed from the table. For files with some matching rows, the table property `write.delete.mode` chooses:
        `copy-on-write` copies the files without these rows; `merge-on-read` writes position delete files (format version 2) or deletion vectors (version 3).

        Args:
            delete_filter: a filter as text or expression; all rows by default.
            snapshot_properties: entries for the snapshot's summary.
            case_sensitive: whether the filter's column names match exactly.
            branch: the branch to delete from; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of rows deleted, and of files removed or copied.

        Raises:
            InvalidFilterError: the filter names an unknown column, or compares a column with a value of another type.
            UnsupportedFeatureError: `write.delete.mode` is merge-on-read and the table has format version 1.
            CommitConflictError, CommitInvalidatedError, CommitUnknownError: as for `append`.
        """
        return self._replace(None, delete_filter, snapshot_properties, case_sensitive, branch)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
        isolation_level: str | None = None,
        validate_from_snapshot_id: int | None = None,
    ) -> WriteResult:
        """Delete the rows for which a filter is true and add other rows, in one snapshot.

        Args:
            df: the rows to add, as for `append`.
            overwrite_filter: the rows to delete; all by default.
            snapshot_properties: entries for the snapshot's summary.
            case_sensitive: whether the filter's column names match exactly.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.
            isolation_level: what other writers may have committed since `validate_from_snapshot_id`. None: anything; rows that match the filter are
                overwritten. `snapshot`: nothing that deletes rows that match the filter. `serializable`: nothing that deletes or adds such rows.
            validate_from_snapshot_id: the snapshot after which commits are checked; by default all snapshots of the branch are checked.

        Returns:
            The number of rows and files added and removed.

        Raises:
            CommitInvalidatedError: another writer's commit violates the isolation level. No file of this write remains.
            InvalidInputError: `isolation_level` is neither `snapshot` nor `serializable`.
            SchemaMismatchError, InvalidFilterError, CommitConflictError, CommitUnknownError: as for `append` and `delete`.
        """
        rules = isolation_rules(isolation_level, validate_from_snapshot_id)
        return self._replace(df, overwrite_filter, snapshot_properties, case_sensitive, branch, rules)

    def upsert(
        self,
        df: Any,
        join_cols: Sequence[str] | None = None,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Update the rows whose key is in `df` and whose other columns differ, and insert the rows without a match, in one snapshot.

        A key with a null matches no row: rows with such a key are inserted. Other columns are compared by value, nested ones too; null equals null and NaN
        equals NaN. The table property `write.merge.mode` chooses copy-on-write or merge-on-read; from format version 3 on, updated rows keep their row ids.

        Args:
            df: Arrow or pandas data, which this process joins with the table, or a Spark DataFrame, which Spark joins and writes; small ones are joined in this
                process too.
            join_cols: the key columns (dotted names inside structs); by default the table's identifier fields.
            when_matched_update_all: whether rows with a match are updated.
            when_not_matched_insert_all: whether rows without a match are inserted.
            case_sensitive: whether the names in `join_cols` match exactly.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            A result with `rows_updated`, `rows_inserted` and `rows_unchanged`; its `engine` is the one that joined the rows.

        Raises:
            InvalidInputError: there are no key columns, or a column cannot be a key; or a key occurs twice in `df`, or matches several rows that would be
                updated.
            InvalidSchemaError: the table has no such key column.
            SchemaMismatchError: `df` does not fit the table's schema, or lacks a column that would be updated.
            UnsupportedFeatureError: `write.merge.mode` is merge-on-read and the table has format version 1.
            CommitConflictError, CommitUnknownError: as for `append`.
        """
        start = self.mutation_context()
        return self._write(
            table_writes.upsert(
                start.handle,
                start.metadata,
                df,
                join_cols,
                snapshot_properties or {},
                branch,
                updates=when_matched_update_all,
                inserts=when_not_matched_insert_all,
                case_sensitive=case_sensitive,
            )
        )

    def add_files(
        self,
        file_paths: str | Sequence[str],
        snapshot_properties: Mapping[str, str] | None = None,
        check_duplicate_files: bool = True,
        branch: str | None = MAIN,
    ) -> WriteResult:
        """Add existing Parquet and ORC files of other writers to the table, in one snapshot. Only their footers are read; the files are not copied.

        Columns are matched by the files' field ids, or by name through the table's name mapping. A table without a name mapping gets one of its present column
        names in the same commit. Optional columns may be missing; columns that the table does not have are ignored. The partition of a file is read from
        folders `field=value/` in its path, else from the lower and upper bounds in its footer. From then on the files belong to the table: expiry and purge
        delete them.

        Args:
            file_paths: a list of file locations; or a single text, which may be a file, a folder, or a pattern such as `s3://lake/in/*.parquet`.
            snapshot_properties: entries for the snapshot's summary.
            check_duplicate_files: whether to refuse files that the table has already.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of files and rows added.

        Raises:
            InvalidInputError: a file occurs twice in the list, or is in the table already.
            SchemaMismatchError: columns of a file do not fit, or its partition cannot be determined; every column is listed.
            DataFileFormatError, UnsupportedFeatureError: a file is damaged, of another format, or encrypted.
            NoSuchFileError: a file does not exist.
            CommitConflictError, CommitUnknownError: as for `append`, but no file is deleted.
        """
        start = self.mutation_context()
        return self._write(
            table_writes.add_files(
                start.handle, start.metadata, file_paths, snapshot_properties or {}, branch, check_duplicates=check_duplicate_files
            )
        )

    def delete_keys(
        self,
        rows: Any,
        key_columns: Sequence[str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = MAIN,
    ) -> WriteResult:
        """Delete the rows whose key is among the keys of `rows`, by equality deletes, without reading the table. Null equals null.

        Equality deletes are quick to write and slow to read, because readers compare the keys with the rows of every file that may contain them. They are meant
        for streams of changes, and for the time until the data files are rewritten. The table needs format version 2 or 3.

        Args:
            rows: Arrow or pandas data, or a Spark DataFrame; the keys of a DataFrame are collected into this process.
            key_columns: the key columns; by default the table's identifier fields.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch to delete from; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of keys and of delete files; how many rows they delete is unknown.

        Raises:
            InvalidInputError: there are no key columns, or a column cannot be a key: a float, double or nested column, or a column inside a list or map.
            SchemaMismatchError: the rows lack a key column, or their values do not fit.
            UnsupportedFeatureError: the table is of format version 1.
        """
        start = self.mutation_context()
        return self._write(table_writes.delete_keys(start.handle, start.metadata, rows, key_columns, snapshot_properties or {}, branch))

    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = MAIN,
        isolation_level: str | None = None,
        validate_from_snapshot_id: int | None = None,
    ) -> WriteResult:
        """Replace all rows of every partition that `df` has rows for; other partitions stay. The method has PyIceberg's name.

        Partitions are those of the table's current spec: files of older specs stay. Rows that other writers add to these partitions before the commit are
        replaced too, unless the isolation level forbids it.

        Args:
            df: the rows to write; if it has none, nothing changes.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.
            isolation_level: as for `overwrite`, applied to these partitions.
            validate_from_snapshot_id: as for `overwrite`.

        Returns:
            The number of rows and files added and removed.

        Raises:
            CommitInvalidatedError: another writer's commit violates the isolation level.
            InvalidInputError: the table is not partitioned, so that every row would be replaced; `overwrite` does that.
            SchemaMismatchError, CommitConflictError, CommitUnknownError: as for `append`.
        """
        rules = isolation_rules(isolation_level, validate_from_snapshot_id)
        start = self.mutation_context()
        return self._write(table_writes.overwrite_partitions(start.handle, start.metadata, df, snapshot_properties or {}, branch, rules))

    def update_snapshot(self, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN) -> UpdateSnapshot:
        """Start a snapshot that adds or removes existing files: `with table.update_snapshot().fast_append() as update: update.append_data_file(file)`.

        Args:
            snapshot_properties: entries for the snapshots' summaries.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.

        Returns:
            An object with one method for each operation: append, overwrite, delete, rewrite of files or manifests.
        """
        return UpdateSnapshot(self.mutation_context(), self.apply, snapshot_properties, branch)

    def rewrite_manifests(
        self,
        spec_id: int | None = None,
        sort_by: Sequence[str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
    ) -> RewriteManifestsResult:
        """Rewrite the manifests of one partition spec as manifests of the size `commit.manifest.target-size-bytes`, with entries sorted by partition.

        Scans that filter by partition then open fewer manifests. No data file is read or written. `table.update_snapshot().rewrite_manifests()` has more
        options, and rewrites the manifests of every spec by default.

        Args:
            spec_id: the spec whose manifests are rewritten; by default the table's current one.
            sort_by: names of partition fields of that spec to sort the entries by, the most significant first; by default all fields, in the order
                that lets a filter on one value of a field skip the most manifests.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch whose manifests are rewritten.
            dry_run: return what would be rewritten, and change nothing.

        Returns:
            The number of manifests replaced and written.

        Raises:
            InvalidInputError: the table does not have the spec, the spec does not have a partition field of `sort_by`, or `sort_by` is empty.
        """
        return rewrite_manifests(self, spec_id, sort_by, snapshot_properties, branch, dry_run=dry_run)

    def manage_snapshots(self) -> ManageSnapshots:
        """Start changes of branches and tags, rollback and cherry-pick: `with table.manage_snapshots() as m: m.create_tag(tag_name="v1")`.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return ManageSnapshots(self.mutation_context(), self.apply)

    def update_statistics(self) -> UpdateStatistics:
        """Start changes of snapshots' statistics files: `with table.update_statistics() as update: update.set_statistics(statistics_file)`.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return UpdateStatistics(self.mutation_context().metadata, self.apply)

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        """Start changes of the columns: `with table.update_schema() as update: update.add_column("note", StringType())`.

        Args:
            allow_incompatible_changes: whether changes are allowed that existing rows may violate, such as a new required column.
            case_sensitive: whether column names match exactly.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return UpdateSchema(
            self.mutation_context().metadata,
            self.apply,
            allow_incompatible_changes=allow_incompatible_changes,
            case_sensitive=case_sensitive,
        )

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """Start changes of the partition spec: `with table.update_spec() as update: update.add_field("ts", "day")`.

        Args:
            case_sensitive: whether column names match exactly.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return UpdateSpec(self.mutation_context().metadata, self.apply, case_sensitive=case_sensitive)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """Start a new sort order that replaces the table's: `with table.update_sort_order() as update: update.asc("ts").desc("id")`.

        Args:
            case_sensitive: whether column names match exactly.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return UpdateSortOrder(self.mutation_context().metadata, self.apply, case_sensitive=case_sensitive)

    def replace_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """Start a new sort order: `update_sort_order` under Java's name.

        Args:
            case_sensitive: whether column names match exactly.

        Returns:
            The changes, which are committed at the end of a `with` block.
        """
        return self.update_sort_order(case_sensitive)

    def upgrade_table_version(self, format_version: int) -> Self:
        """Raise the table's format version. From version 3 on, rows have row ids; existing rows get their row ids with the next snapshot.

        Args:
            format_version: 2 or 3; if it is the table's present version, nothing changes.

        Returns:
            This table or transaction.

        Raises:
            InvalidInputError: a lower version than the table's.
            UnsupportedFormatVersionError: a version that Icefloe does not write.
        """
        new_uuid = self.mutation_context().handle.ids.uuid()
        self._change(lambda base: version_updates(base, format_version, new_uuid))
        return self

    def set_properties(self, properties: Mapping[str, Any] | None = None, **more: Any) -> Self:
        """Set table properties; properties that are not named stay. The property `format-version` upgrades the table.

        Args:
            properties: values by name.
            **more: further properties as keyword arguments.

        Returns:
            This table or transaction.

        Raises:
            InvalidPropertyError: a property cannot have its value; all wrong values are listed.
        """
        new_properties, new_uuid = {**(properties or {}), **more}, self.mutation_context().handle.ids.uuid()
        self._change(lambda base: set_property_updates(base, new_properties, new_uuid))
        warn_of_properties(unused_properties(new_properties), self.mutation_context().handle.table_name)
        return self

    def remove_properties(self, *names: str) -> Self:
        """Remove table properties; names that the table does not have are ignored.

        Args:
            *names: the properties.

        Returns:
            This table or transaction.
        """
        self._change(lambda base: remove_property_updates(base, names))
        return self

    def set_location(self, location: str) -> Self:
        """Set the folder of the table's new files; existing files stay where they are.

        Args:
            location: the folder; a relative path is resolved against the working directory.

        Returns:
            This table or transaction.

        Raises:
            InvalidInputError: the location is empty.
        """
        folder = qualify(location)
        self._change(lambda base: location_updates(base, folder))
        return self

    def update_location(self, location: str) -> Self:
        """Set the folder of the table's new files: `set_location` under PyIceberg's name.

        Args:
            location: the folder.

        Returns:
            This table or transaction.
        """
        return self.set_location(location)

    def expire_snapshots(
        self,
        older_than: datetime | int | None = None,
        retain_last: int | None = None,
        snapshot_ids: Iterable[int] = (),
        *,
        dry_run: bool = False,
        delete_files: bool = True,
        clean_expired_metadata: bool = False,
        engine: str | None = None,
        allow_outside: Iterable[str] = (),
    ) -> ExpireReport:
        """Remove old snapshots from the table, and, once that is committed, delete the files that only they used.

        The retention policy removes snapshots older than `history.expire.max-snapshot-age-ms`, except the last `history.expire.min-snapshots-to-keep` of each
        branch and every snapshot that a branch or tag refers to. It removes branches and tags older than `history.expire.max-ref-age-ms`, but never `main`.
        The arguments replace these table properties; settings of a branch or tag have precedence over both.

        Args:
            older_than: remove snapshots older than this time, instead of `history.expire.max-snapshot-age-ms`: a datetime with a time zone, or milliseconds
                since 1970-01-01 UTC.
            retain_last: the number of snapshots to keep of each branch, instead of `history.expire.min-snapshots-to-keep`.
            snapshot_ids: snapshots to remove regardless of their age. If neither `older_than` nor `retain_last` is given, only these are removed.
            dry_run: return what would be removed, and change nothing.
            delete_files: False deletes no file; the files that only removed snapshots used become orphan files.
            clean_expired_metadata: also remove partition specs and schemas that are no longer used.
            engine: the engine that reads manifests: `spark` or `in-process`; by default Spark if a session runs already and there are at least a thousand
                manifests.
            allow_outside: folders outside the table's location whose files may be deleted too, such as one that `add_files` took files from.

        Returns:
            What was removed. Files that could not be deleted are listed without an error, and so are files outside the table's location, which are kept: see
            `docs/security.md`.

        Raises:
            InvalidInputError: a branch or tag names a snapshot of `snapshot_ids`, or `gc.enabled` is false.
            NoSuchSnapshotError: a snapshot of `snapshot_ids` is not in the table.
            NotFoundError, FormatError, StorageError: a file that a kept snapshot needs cannot be read. Nothing was changed.
            CommitConflictError: other writers won every retry. Nothing was changed.
            CommitUnknownError: the catalog's reply was lost. No file was deleted.
        """
        return expire_snapshots(
            self,
            older_than,
            retain_last,
            snapshot_ids,
            dry_run=dry_run,
            delete_files=delete_files,
            clean_expired_metadata=clean_expired_metadata,
            engine=engine,
            allow_outside=allow_outside,
        )

    def _write(self, write: "table_writes.PreparedWrite") -> WriteResult:
        report = self.apply(write.action)
        return committed_result(write.result(report.attempt, report.attempts), report)

    def _change(self, updates: Callable[[TableMetadata], Sequence[Update]]) -> None:
        self.apply(MetadataChange(updates, property_requirements(self.mutation_context().metadata)))

    def _replace(
        self,
        rows: Any,
        row_filter: str | BooleanExpression,
        snapshot_properties: Mapping[str, str] | None,
        case_sensitive: bool,
        branch: str | None,
        rules: ConflictRules | None = None,
    ) -> WriteResult:
        start = self.mutation_context()
        if row_filter is None:  # None is refused, so that a variable which was never set does not delete all rows
            raise InvalidInputError(
                f"no filter was given for the rows of {start.handle.table_name} to delete",
                next_step="pass a filter, or TRUE for all rows",
            )
        expression = to_expression(row_filter)
        return self._write(
            table_writes.replace_rows(
                start.handle,
                start.metadata,
                rows,
                expression,
                snapshot_properties or {},
                branch,
                case_sensitive=case_sensitive,
                rules=rules,
            )
        )
