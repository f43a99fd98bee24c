"""`TableMutations`: every change of a table, written once for tables, transactions and static tables.

A `Table` commits each change at once, a `Transaction` collects changes for its one commit, and a `StaticTable` refuses them. In `icefloe.operations`, writes
of rows are prepared by `rows/table_writes.py`, changes of metadata by `changes/`, changes of files by `files/`, expiry by `expiry/expire_snapshots.py`; the
commit is `commit_loop.py`.
Spec: Snapshots; Row-level Deletes; Optimistic Concurrency; Schema Evolution; Partition Evolution; Snapshot References; Snapshot Retention Policy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

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
from icefloe.operations.changes.manage_snapshots import ManageSnapshots
from icefloe.operations.changes.update_partitioning import UpdateSortOrder, UpdateSpec
from icefloe.operations.changes.update_schema import UpdateSchema
from icefloe.operations.changes.update_statistics import UpdateStatistics
from icefloe.operations.expiry.expire_report import ExpireReport
from icefloe.operations.expiry.expire_snapshots import expire_snapshots
from icefloe.operations.files.manifest_rewrite import RewriteManifestsResult, rewrite_manifests
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.pending_change import ChangeTarget
from icefloe.operations.rows.table_writes import PreparedWrite, add_files, append, delete_keys, overwrite_partitions, replace_rows, upsert
from icefloe.operations.warnings_once import warn_of_properties
from icefloe.operations.write_result import WriteResult
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.metadata.unused_properties import unused_properties


class TableMutations(ChangeTarget):
    """The changes of a table's rows, files, metadata, branches and tags, and the expiry of its snapshots.

    Every write of rows takes `branch`, whose head the new snapshot follows, and `snapshot_properties`, which are added to the snapshot's summary. Methods
    that return an `Update...` object or `ManageSnapshots` collect changes, and commit them together at the end of a `with` block.
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
            SchemaMismatchError: the rows do not fit the schema; every wrong column is listed. Nothing was written.
            CommitConflictError: other writers won every retry. No file of this write remains.
            CommitUnknownError: the catalog's reply was lost. No file was deleted.
        """
        start = self.mutation_context()
        return self._write(append(start.handle, start.metadata, df, snapshot_properties or {}, branch))

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str | None = MAIN,
    ) -> WriteResult:
        """Delete the rows for which a filter is true.

        Files whose rows all match are dropped. For other files the table's property `write.delete.mode` decides: `copy-on-write` copies them without the
        rows; `merge-on-read` writes position delete files (format version 2) or deletion vectors (version 3).

        Args:
            delete_filter: a filter as text or expression; all rows by default.
            snapshot_properties: entries for the snapshot's summary.
            case_sensitive: whether the filter's column names match exactly.
            branch: the branch to delete from; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of rows deleted and of files dropped or rewritten.

        Raises:
            InvalidFilterError: an unknown column, or a value that cannot be compared with it.
            UnsupportedFeatureError: merge-on-read in a table of format version 1.
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
            isolation_level: None also overwrites what other writers commit meanwhile. `snapshot` refuses the commit if they deleted rows of the filter,
                `serializable` also if they added some.
            validate_from_snapshot_id: check the snapshots after this one; by default all of the branch.

        Returns:
            The number of rows and files added and removed.

        Raises:
            CommitInvalidatedError: other writers did what the isolation level forbids. No file of this write remains.
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

        A null in a key equals nothing: such rows are inserted. Other columns are compared by value, nested ones too; null equals null and NaN equals NaN.
        `write.merge.mode` decides between copy-on-write and merge-on-read; from format version 3 on, updated rows keep their row ids.

        Args:
            df: Arrow or pandas data, joined in this process, or a Spark DataFrame, joined and written by Spark, or in this process where all is small.
            join_cols: the key columns (dotted names inside structs); by default the table's identifier fields.
            when_matched_update_all: whether rows with a match are updated.
            when_not_matched_insert_all: whether rows without a match are inserted.
            case_sensitive: whether the names in `join_cols` match exactly.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.
            snapshot_properties: entries for the snapshot's summary.

        Returns:
            A result with `rows_updated`, `rows_inserted` and `rows_unchanged`; its `engine` is the one that joined the rows.

        Raises:
            InvalidInputError: no key columns, or a column that cannot be a key; a key occurs twice in `df`, or matches several rows to be updated.
            InvalidSchemaError: the table has no such key column.
            SchemaMismatchError: `df` does not fit, or lacks a column to be updated.
            UnsupportedFeatureError: merge-on-read in a table of format version 1.
            CommitConflictError, CommitUnknownError: as for `append`.
        """
        start = self.mutation_context()
        return self._write(
            upsert(
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
        """Add existing Parquet and ORC files of other writers to the table, in one snapshot. Only their footers are read; they are not copied.

        Columns are matched by the files' field ids, or by name through the table's name mapping; a table without one gets the mapping of its names in the
        same commit. Optional columns may be missing; columns that the table does not have are ignored. The partition comes from folders `field=value/`, else
        from the least and greatest values in the footer. From then on the files belong to the table: expiry and purge delete them.

        Args:
            file_paths: locations; or one text: a folder, a pattern such as `s3://lake/in/*.parquet`, or a file.
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
            CommitConflictError, CommitUnknownError: as for `append`; the files stay where they are.
        """
        start = self.mutation_context()
        return self._write(
            add_files(start.handle, start.metadata, file_paths, snapshot_properties or {}, branch, check_duplicates=check_duplicate_files)
        )

    def delete_keys(
        self,
        rows: Any,
        key_columns: Sequence[str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = MAIN,
    ) -> WriteResult:
        """Delete the rows whose key columns equal those of one of `rows`, by equality deletes, without reading the table. Null equals null.

        Readers compare the keys with every file that may contain them, so such deletes are quick to write and slow to read: they are meant for streams of
        changes, until files are rewritten. Format versions 2 and 3.

        Args:
            rows: Arrow or pandas data, or a Spark DataFrame, whose keys are collected in this process.
            key_columns: the key columns; by default the table's identifier fields.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch to delete from; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The number of keys and of delete files; how many rows they delete is unknown.

        Raises:
            InvalidInputError: no key columns, or a column that cannot be a key: a float, double or nested column, or one inside a list or map.
            SchemaMismatchError: the rows lack a key column, or their values do not fit.
            UnsupportedFeatureError: the table is of format version 1.
        """
        start = self.mutation_context()
        return self._write(delete_keys(start.handle, start.metadata, rows, key_columns, snapshot_properties or {}, branch))

    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str | None = MAIN,
        isolation_level: str | None = None,
        validate_from_snapshot_id: int | None = None,
    ) -> WriteResult:
        """Replace the content of every partition that `df` has rows for; other partitions stay. The name is PyIceberg's.

        Partitions are those of the table's current spec: files of older specs stay. After a lost race everything in these partitions is replaced, also what
        the winner added.

        Args:
            df: the rows to write; if it has none, nothing changes.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.
            isolation_level: as for `overwrite`, applied to these partitions.
            validate_from_snapshot_id: as for `overwrite`.

        Returns:
            The number of rows and files added and removed.

        Raises:
            CommitInvalidatedError: other writers did what the isolation level forbids.
            InvalidInputError: the table is not partitioned, so that every row would be replaced: use `overwrite`.
            SchemaMismatchError, CommitConflictError, CommitUnknownError: as for `append`.
        """
        rules = isolation_rules(isolation_level, validate_from_snapshot_id)
        start = self.mutation_context()
        return self._write(overwrite_partitions(start.handle, start.metadata, df, snapshot_properties or {}, branch, rules))

    def update_snapshot(self, snapshot_properties: Mapping[str, str] | None = None, branch: str | None = MAIN) -> UpdateSnapshot:
        """Start a snapshot of existing files: `with table.update_snapshot().fast_append() as update: update.append_data_file(file)`.

        Args:
            snapshot_properties: entries for the snapshots' summaries.
            branch: the branch to write to; None adds the snapshot to the table and moves no branch to it.

        Returns:
            The operations to choose from: append, overwrite, delete, rewrite of files or manifests.
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
        """Put the entries of the manifests of one partition spec into manifests of `commit.manifest.target-size-bytes`.

        No data file is read or written. Scans that filter by partition then open few manifests. `table.update_snapshot().rewrite_manifests()` has more choices,
        and rewrites the manifests of every spec by default.

        Args:
            spec_id: the spec whose manifests are rewritten; by default the table's current one.
            sort_by: the partition fields of that spec to sort the entries by, in this order; by default all of them, in the order from which filters by single
                values open the fewest manifests.
            snapshot_properties: entries for the snapshot's summary.
            branch: the branch whose manifests are rewritten.
            dry_run: return what would be rewritten, and change nothing.

        Returns:
            The number of manifests replaced and written.

        Raises:
            InvalidInputError: the table has no such spec, or the spec no such partition field; `sort_by` is empty.
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
        """Raise the table's format version. From version 3 on rows have ids: existing rows get theirs with the next snapshot.

        Args:
            format_version: 2 or 3; the table's own version changes nothing.

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
        """Set table properties; others stay. The property `format-version` upgrades the table.

        Args:
            properties: values by name.
            **more: the same as keywords.

        Returns:
            This table or transaction.

        Raises:
            InvalidPropertyError: values that a property cannot have; each wrong one is listed.
        """
        new_properties, new_uuid = {**(properties or {}), **more}, self.mutation_context().handle.ids.uuid()
        self._change(lambda base: set_property_updates(base, new_properties, new_uuid))
        warn_of_properties(unused_properties(new_properties), self.mutation_context().handle.table_name)
        return self

    def remove_properties(self, *names: str) -> Self:
        """Remove table properties; a name that the table does not have is no error.

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
            location: the folder; a relative path is one below the working directory.

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
        """Remove old snapshots from the table, and, once that is committed, delete the files that nothing else needs.

        By the retention policy snapshots older than `history.expire.max-snapshot-age-ms` are removed, except the last `history.expire.min-snapshots-to-keep`
        of each branch and every snapshot that a branch or tag names; branches and tags older than `history.expire.max-ref-age-ms` are removed, `main` never.
        Settings of a branch or tag override those of the table, and those override these arguments:

        Args:
            older_than: replaces the greatest age: a time with a time zone, or milliseconds since 1970-01-01 UTC.
            retain_last: replaces the number to keep.
            snapshot_ids: snapshots to remove whatever their age; if no other argument is given, only these.
            dry_run: return what would be removed, and change nothing.
            delete_files: False keeps every file; the kept ones become orphan files.
            clean_expired_metadata: also remove partition specs and schemas that are no longer used.
            engine: what reads manifests: `spark`, as a job; `in-process`; by default Spark if it runs already and there are a thousand or more.
            allow_outside: folders outside the table's location whose files may be deleted too, such as one that `add_files` took files from.

        Returns:
            What was removed. A file that could not be deleted is listed and is no error; so is a file outside the table's location, which is kept: see
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

    def _write(self, write: PreparedWrite) -> WriteResult:
        report = self.apply(write.action)
        return write.result(report.attempt, report.attempts)

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
        if row_filter is None:  # a variable that was never set must not empty a table
            raise InvalidInputError(
                f"no filter was given for the rows of {start.handle.table_name} to delete",
                next_step="pass a filter, or TRUE for all rows",
            )
        expression = to_expression(row_filter)
        return self._write(
            replace_rows(
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
