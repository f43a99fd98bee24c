"""`RowMutations`: the changes of a table's rows: each is a commit of its own on a `Table`, a part of one on a `Transaction`.

What each does is in `table_writes.py`. Spec: Snapshots; Row-level Deletes; Optimistic Concurrency.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.conflicts import ConflictRules, isolation_rules
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.rewrite_manifests import RewriteManifests
from icefloe.kernel.expressions.filter_parser import to_expression
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.metadata.snapshot_ref import MAIN
from icefloe.table.changes.mutation_context import TableMutations
from icefloe.table.files.manifest_rewrite import RewriteManifestsResult, chosen_spec, result_of, sorting
from icefloe.table.files.update_snapshot import UpdateSnapshot
from icefloe.table.rows.table_writes import add_files, append, delete_keys, overwrite_partitions, replace_rows, upsert
from icefloe.table.rows.write_context import commit_context
from icefloe.table.write_result import WriteResult


class RowMutations(TableMutations):
    """Every write takes `branch`, whose head it adds a snapshot to, and `snapshot_properties`, which go into the snapshot's summary."""

    def append(self, df: Any, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN) -> WriteResult:
        """Adds rows: a Spark DataFrame (written by Spark) or Arrow or pandas data (written in this process).

        Columns are matched by name; a missing optional column is null.

        Raises:
            SchemaMismatchError: the rows do not fit; every column that does not is named. Nothing is written.
            CommitConflictError: other writers won every retry. Nothing of this write is left.
            CommitUnknownError: the catalog's answer was lost. Nothing is deleted.
        """
        start = self._start()
        return self._write(append(start.handle, start.metadata, df, snapshot_properties or {}, branch))

    def delete(
        self,
        delete_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str = MAIN,
    ) -> WriteResult:
        """Deletes the rows for which the filter is true. Files it covers are dropped whole.

        Of other files the table's `write.delete.mode` decides: `copy-on-write` copies them without the rows; `merge-on-read` writes down which rows are gone,
        in position delete files (format version 2) or deletion vectors (3).

        Raises:
            InvalidFilterError: an unknown column, or a value that cannot be compared with it.
            UnsupportedFeatureError: rows are to be marked in a table of format version 1.
        """
        return self._replace(None, delete_filter, snapshot_properties, case_sensitive, branch)

    def overwrite(
        self,
        df: Any,
        overwrite_filter: str | BooleanExpression = AlwaysTrue(),  # noqa: B008  a frozen value
        snapshot_properties: Mapping[str, str] | None = None,
        case_sensitive: bool = True,
        branch: str = MAIN,
        isolation_level: str | None = None,
        validate_from_snapshot_id: int | None = None,
    ) -> WriteResult:
        """Deletes the rows for which the filter is true (all, by default) and adds `df`, in one snapshot.

        Without `isolation_level` what other writers did meanwhile is overwritten too. With `snapshot` the commit is refused where others deleted rows of the
        filter since the snapshot `validate_from_snapshot_id` (the branch's first by default), with `serializable` also where they added some.

        Raises:
            CommitInvalidatedError: others did what the isolation level forbids. Nothing of this write is left.
            InvalidInputError: the isolation level is none.
            IcefloeError: The write fails for a reason of `append` or `delete`.
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
        branch: str = MAIN,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> WriteResult:
        """Updates the rows whose key one of `df` has, where another column differs, and inserts the other rows, in one snapshot.

        The key is the table's identifier fields, or the columns `join_cols` (dotted names inside structs). A null in a key equals nothing: such rows are
        inserted. Other columns are compared by value, nested ones too; null equals null and NaN equals NaN. `df` is Arrow or pandas data, joined in this
        process, or a Spark DataFrame, joined and written by Spark. `write.merge.mode` decides how replaced rows leave their files; from format version 3 on
        updated rows keep their row ids. `case_sensitive` is about `join_cols`. The result has `rows_updated`, `rows_inserted` and `rows_unchanged`.

        Raises:
            InvalidInputError: no key columns, or one that cannot be one; a key stands twice in `df`, or matches several rows that are to be updated.
            InvalidSchemaError: a key column is none of the table's.
            SchemaMismatchError: `df` does not fit, or lacks a column that is to be updated.
            UnsupportedFeatureError: rows are to be marked in a table of format version 1.
            CommitConflictError, CommitUnknownError: as `append`.
        """
        start = self._start()
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
        branch: str = MAIN,
    ) -> WriteResult:
        """Makes Parquet and ORC files that other writers made the table's, where they are and as they are, in one snapshot. Only their footers are read.

        `file_paths` is a list of locations, or one text: a folder, a pattern such as `s3://lake/in/*.parquet`, or a file. Columns are found by the files' field
        ids, or by name, by the table's name mapping; a table without one gets the mapping of its names in the same commit. Optional columns may be missing,
        columns that the table does not have are passed over. The partition is read from folders `field=value/`, else from the least and greatest values in the
        footer. From now on the files are the table's: what expires or drops them deletes them.

        Raises:
            InvalidInputError: a file stands twice in the list, or is the table's already (not looked for without `check_duplicate_files`).
            SchemaMismatchError: columns of a file do not fit, or its partition cannot be told; every column is named.
            DataFileFormatError, UnsupportedFeatureError: a file is damaged, of another format, or encrypted.
            NoSuchFileError: a file is not there.
            CommitConflictError, CommitUnknownError: as `append`; the files stay where they are.
        """
        start = self._start()
        return self._write(
            add_files(start.handle, start.metadata, file_paths, snapshot_properties or {}, branch, check_duplicates=check_duplicate_files)
        )

    def delete_keys(
        self,
        rows: Any,
        key_columns: Sequence[str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str = MAIN,
    ) -> WriteResult:
        """Deletes the rows whose key columns equal those of one of `rows`, without reading the table. Null equals null.

        Rows are Arrow or pandas data, or a Spark DataFrame, whose keys come to this process.

        The key columns are the table's identifier fields where none are named. Readers look for the keys in every file that may hold them, so that such deletes
        are quick to write and slow to read: they are for streams of changes, until files are rewritten. Format versions 2 and 3.

        Raises:
            InvalidInputError: no key columns, or one that cannot be one: a float, double or nested column, or one inside a list or map.
            SchemaMismatchError: the rows lack a key column, or their values do not fit.
            UnsupportedFeatureError: the table is of format version 1.
        """
        start = self._start()
        return self._write(delete_keys(start.handle, start.metadata, rows, key_columns, snapshot_properties or {}, branch))

    def dynamic_partition_overwrite(
        self,
        df: Any,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str = MAIN,
        isolation_level: str | None = None,
        validate_from_snapshot_id: int | None = None,
    ) -> WriteResult:
        """Writes `df` in the place of everything in the partitions that its rows lie in; other partitions stay. The name is PyIceberg's.

        Partitions are those of the table's current spec: files of older specs stay. After a lost race everything of these partitions goes, also what the winner
        added. Where `df` has no rows nothing changes. `isolation_level` and `validate_from_snapshot_id` are as in `overwrite`, about these partitions.

        Raises:
            CommitInvalidatedError: others did what the isolation level forbids.
            InvalidInputError: the table is not partitioned, so that everything would go: say so with `overwrite`.
            SchemaMismatchError, CommitConflictError, CommitUnknownError: as `append`.
        """
        rules = isolation_rules(isolation_level, validate_from_snapshot_id)
        start = self._start()
        return self._write(overwrite_partitions(start.handle, start.metadata, df, snapshot_properties or {}, branch, rules))

    def update_snapshot(self, snapshot_properties: Mapping[str, str] | None = None, branch: str = MAIN) -> UpdateSnapshot:
        """Snapshots made of files that exist already: `with table.update_snapshot().fast_append() as update: update.append_data_file(file)`."""
        return UpdateSnapshot(self._start(), self._commit, snapshot_properties, branch)

    def rewrite_manifests(
        self,
        spec_id: int | None = None,
        sort_by: Sequence[str] | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
        branch: str = MAIN,
    ) -> RewriteManifestsResult:
        """Put the entries of the manifests of one partition spec, the table's by default, into manifests of `commit.manifest.target-size-bytes`.

        No data file is read or written. Scans that filter by partition then open few manifests. `table.update_snapshot().rewrite_manifests()` has more choices,
        and rewrites the manifests of every spec unless told otherwise.

        Args:
            spec_id: the spec whose manifests are rewritten.
            sort_by: the partition fields of that spec to sort the entries by, in this order; by default all of them.

        Raises:
            InvalidInputError: the table has no such spec, or the spec no such partition field; `sort_by` is empty.
        """
        start = self._start()
        spec = chosen_spec(start.metadata, spec_id)
        context = commit_context(start.handle, start.metadata, snapshot_properties or {}, branch)
        action = RewriteManifests(
            context,
            ManifestNumbers(context),
            clustering=sorting([spec], sort_by),
            rewrite_if=lambda manifest: manifest.partition_spec_id == spec.spec_id,
            skips_good=True,
        )
        self._commit(action)
        return result_of(action.done)

    def _replace(
        self,
        rows: Any,
        row_filter: str | BooleanExpression,
        snapshot_properties: Mapping[str, str] | None,
        case_sensitive: bool,
        branch: str,
        rules: ConflictRules | None = None,
    ) -> WriteResult:
        start = self._start()
        if row_filter is None:  # a variable that was never set must not empty a table
            raise InvalidInputError(
                f"no filter was given of the rows of {start.handle.table_name} that are to be deleted",
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
