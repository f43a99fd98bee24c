"""`TableMaintenance`, the class of `table.maintenance`: compaction and other maintenance, and the expiry of snapshots with PyIceberg's method names.

Spec: Snapshots (operation replace); Snapshot Retention Policy.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from icefloe.maintenance.convert_equality_deletes import ConvertEqualityDeletesResult, EqualityDeleteConversion
from icefloe.maintenance.dangling_deletes import RemoveDanglingDeletesResult, remove_dangling_deletes
from icefloe.maintenance.maintain import MaintenanceArguments, maintain_table
from icefloe.maintenance.maintenance_report import MaintenanceReport
from icefloe.maintenance.orphan_options import PURGE_DELAY, orphan_options
from icefloe.maintenance.orphan_report import RemoveOrphanFilesResult
from icefloe.maintenance.remove_orphan_files import remove_orphan_files
from icefloe.maintenance.rewrite_data_files import DataFileRewrite, RewriteDataFilesResult
from icefloe.maintenance.rewrite_options import conversion_options, position_delete_options, rewrite_options
from icefloe.maintenance.rewrite_order import rewrite_order
from icefloe.maintenance.rewrite_position_deletes import PositionDeleteRewrite, RewritePositionDeleteFilesResult
from icefloe.maintenance.rewrite_table_path import RewriteTablePathResult, rewrite_table_path
from icefloe.operations.expiry.expire_report import ExpireReport
from icefloe.operations.expiry.expire_snapshots import expire_snapshots
from icefloe.operations.loaded_table import LoadedTable
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.spec.partitioning.sort_order import SortOrder


class ExpireSnapshotsBuilder:
    """A builder for an expiry of snapshots, as in `table.maintenance.expire_snapshots().by_id(17).commit()`.

    Unlike PyIceberg, which only changes the metadata, this also deletes the files that no remaining snapshot needs.
    """

    def __init__(self, table: LoadedTable) -> None:
        self._table = table
        self._ids: list[int] = []
        self._older_than: datetime | int | None = None

    def by_id(self, snapshot_id: int) -> Self:
        """Expire a snapshot.

        Args:
            snapshot_id: the id of the snapshot.

        Returns:
            This builder.
        """
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> Self:
        """Expire several snapshots.

        Args:
            snapshot_ids: the ids of the snapshots.

        Returns:
            This builder.
        """
        self._ids += snapshot_ids
        return self

    def older_than(self, dt: datetime | int) -> Self:
        """Expire snapshots older than a time, as far as the retention policy allows.

        Args:
            dt: a time, or milliseconds since 1970-01-01 UTC. A time without a zone is in local time, as `datetime.now()` is.

        Returns:
            This builder.
        """
        self._older_than = dt.astimezone() if isinstance(dt, datetime) and dt.tzinfo is None else dt
        return self

    def commit(self) -> ExpireReport:
        """Expire the snapshots; without an id or a time, the retention policy alone decides.

        Returns:
            The removed snapshots, refs and files.

        Raises:
            IcefloeError: the errors of `table.expire_snapshots`.
        """
        return expire_snapshots(self._table, self._older_than, snapshot_ids=self._ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            self.commit()


class TableMaintenance:
    """The maintenance operations of a table, as `table.maintenance`."""

    def __init__(self, table: LoadedTable) -> None:
        """Create the operations of a table. Each operation that commits also updates this table object."""
        self._table = table

    def expire_snapshots(self) -> ExpireSnapshotsBuilder:
        """Start an expiry of snapshots.

        Returns:
            A builder, whose `commit` expires them.
        """
        return ExpireSnapshotsBuilder(self._table)

    def maintain(
        self,
        *,
        dry_run: bool = False,
        max_bytes: int | None = None,
        max_minutes: float | None = None,
        min_age_minutes: float | None = None,
        branch: str = MAIN,
        engine: str | None = None,
        remove_orphan_files: bool | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> MaintenanceReport:
        """Run all maintenance that pays off.

        The actions run in this order: expire snapshots, remove dangling deletes, convert equality deletes, rewrite data files, position deletes and manifests,
        compute statistics, remove orphan files.

        The table's properties `maintenance.*` configure it; arguments override them. Partitions with young commits are left to their writers. If an action
        fails, the report has the error, and the other actions still run.

        Args:
            dry_run: Return the planned work with its costs and benefits, and change nothing.
            max_bytes: The maximum of bytes in files that are rewritten, or read for statistics; work with the highest worth is done first.
            max_minutes: Minutes after which no further work is started.
            min_age_minutes: Partitions with commits younger than this are left to their writers.
            branch: The branch to maintain.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            remove_orphan_files: Also delete orphan files, in two steps: one run lists them, and a run at least seven days later deletes those that are still
                orphans.
            snapshot_properties: Entries for the snapshots' summaries.

        Returns:
            The result of each action, and the work that is left with the reasons.

        Raises:
            InvalidInputError: A limit is negative, the branch is a tag, or writes are staged.
            EngineError, NotInstalledError: The engine does not exist, or is not installed.
            InvalidPropertyError: A property of maintenance is unknown or has an invalid value.
            NoSuchSnapshotError: The branch does not exist.
            NoSuchFileError, AvroFormatError, ManifestFormatError: A manifest is missing or damaged.

        Spec: Snapshots (operation replace); Snapshot Retention Policy.
        """
        arguments = MaintenanceArguments(
            dry_run=dry_run,
            max_bytes=max_bytes,
            max_minutes=max_minutes,
            min_age_minutes=min_age_minutes,
            branch=branch,
            engine=engine,
            remove_orphan_files=remove_orphan_files,
            snapshot_properties=snapshot_properties or {},
        )
        return maintain_table(self._table, arguments)

    def rewrite_data_files(
        self,
        where: str | BooleanExpression | None = None,
        *,
        strategy: str | None = None,
        sort_order: str | SortOrder | None = None,
        options: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        dry_run: bool = False,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> RewriteDataFilesResult:
        """Compact data files: replace small files, and files with many deletes, by files of the target size with the same rows.

        Row ids and sequence numbers of rows are kept. Other writers never fail because of a compaction: if another writer deletes rows of a group meanwhile,
        the group is planned again, and reported if it is given up. Options have the names and defaults of Java's action.

        Args:
            where: Only files that may contain rows of this filter are rewritten.
            strategy: `binpack` keeps the order of rows; `sort` sorts them over all files of a group, and also chooses files whose ranges of the first sort
                key overlap. By default `sort` if a sort order is given.
            sort_order: The order, such as `day DESC NULLS LAST, id`; by default the table's sort order. `hilbert(day, id)` and `zorder(day, id)` place rows
                along a space-filling curve, so that filters on any of the columns open few files.
            options: Options by name, such as `{"min-input-files": 2}`.
            branch: The branch whose files are rewritten.
            dry_run: Return the counts of files that would be rewritten, and change nothing.
            engine: `spark` or `in-process`; by default Spark if it runs already or the files are large.
            snapshot_properties: Entries for the snapshots' summaries.

        Returns:
            The number of files replaced and written, and the groups that were given up.

        Raises:
            InvalidInputError: An option is unknown or has an invalid value; the strategy is unknown; a sort has no order; a column's type does not support the
                curve; or writes are staged.
            InvalidFilterError: The filter cannot be parsed, or names an unknown column.
            NoSuchSnapshotError: The branch does not exist.
            NoSuchFileError, DataFileFormatError, StorageError: A file cannot be read or written, and `partial-progress.enabled` is not set.
            CommitConflictError: Other writers won every retry of the commit.
            CommitUnknownError: The catalog's reply was lost. No file was deleted.

        Spec: Snapshots (operation replace); Row Lineage.
        """
        order = rewrite_order(self._table, strategy, sort_order)
        return DataFileRewrite(
            self._table,
            AlwaysTrue() if where is None else where,
            rewrite_options(options or {}, self._table.metadata, order),
            order,
            branch=branch,
            engine=engine,
            snapshot_properties=snapshot_properties,
        ).run(dry_run=dry_run)

    def convert_equality_deletes(
        self,
        where: str | BooleanExpression | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        dry_run: bool = False,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> ConvertEqualityDeletesResult:
        """Convert equality deletes to deletion vectors (format version 3) or position deletes (version 2). No row changes, and no data file is written.

        Of the data files to which equality deletes apply, only the key columns are read. A second call does nothing until new equality deletes are added.

        Args:
            where: Only data files that may contain rows of this filter are searched. Equality delete files that also apply to other data files stay.
            options: `partial-progress.enabled`, `partial-progress.max-commits`, `partial-progress.max-failed-commits` and
                `max-concurrent-file-group-rewrites`, as for `rewrite_data_files`.
            branch: The branch whose deletes are converted.
            dry_run: Return the counts of files that would be converted, and change nothing.
            engine: `spark` or `in-process`; by default Spark if it runs already or the data files are large.
            snapshot_properties: Entries for the snapshots' summaries.

        Returns:
            The numbers of delete files before the conversion, converted and added, and the data files that were given up.

        Raises:
            InvalidInputError: An option is unknown or has an invalid value; or writes are staged.
            InvalidFilterError: The filter cannot be parsed, or names an unknown column.
            NoSuchSnapshotError: The branch does not exist.
            NoSuchFileError, DataFileFormatError, PuffinFormatError, StorageError: A file cannot be read or written, and `partial-progress.enabled` is not set.
            CommitConflictError: Other writers won every retry of the commit.
            CommitUnknownError: The catalog's reply was lost. No file was deleted.

        Spec: Scan Planning; Equality Delete Files; Deletion Vectors.
        """
        return EqualityDeleteConversion(
            self._table, where, conversion_options(options or {}), branch=branch, engine=engine, snapshot_properties=snapshot_properties
        ).run(dry_run=dry_run)

    def rewrite_position_delete_files(
        self,
        where: str | BooleanExpression | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        dry_run: bool = False,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> RewritePositionDeleteFilesResult:
        """Write position deletes into fewer files. No row changes, and no data file is written.

        Small position delete files of a partition are merged. In format version 3 all position delete files become deletion vectors, and vectors in many
        small Puffin files are moved into fewer ones.

        Positions in data files that are not live any more are dropped, and delete files that apply to no data file are removed. Options have the names and
        defaults of Java's action.

        Args:
            where: Only delete files of partitions that may contain rows of this filter are rewritten.
            options: Options by name, such as `{"min-input-files": 2}`.
            branch: The branch whose delete files are rewritten.
            dry_run: Return the counts of files that would be rewritten, and change nothing.
            engine: `spark` or `in-process`; by default Spark if it runs already or the delete files are large.
            snapshot_properties: Entries for the snapshots' summaries.

        Returns:
            The number of delete files replaced and written, and the groups that were given up.

        Raises:
            InvalidInputError: An option is unknown or has an invalid value; or writes are staged.
            InvalidFilterError: The filter cannot be parsed, or names an unknown column.
            NoSuchSnapshotError: The branch does not exist.
            NoSuchFileError, DataFileFormatError, PuffinFormatError, StorageError: A file cannot be read or written, and `partial-progress.enabled` is not set.
            CommitConflictError: Other writers won every retry of the commit.
            CommitUnknownError: The catalog's reply was lost. No file was deleted.

        Spec: Position Delete Files; Deletion Vectors; Snapshots (operation replace).
        """
        return PositionDeleteRewrite(
            self._table,
            where,
            position_delete_options(options or {}, self._table.metadata),
            branch=branch,
            engine=engine,
            snapshot_properties=snapshot_properties,
        ).run(dry_run=dry_run)

    def remove_dangling_deletes(
        self, *, branch: str = MAIN, dry_run: bool = False, snapshot_properties: Mapping[str, str] | None = None
    ) -> RemoveDanglingDeletesResult:
        """Remove delete files that apply to no live data file, such as those of partitions whose data files were rewritten. No row changes.

        Args:
            branch: The branch whose delete files are removed.
            dry_run: Return the counts of files that would be removed, and change nothing.
            snapshot_properties: Entries for the snapshot's summary.

        Returns:
            The number of removed delete files by kind.

        Raises:
            InvalidInputError: Writes are staged.
            NoSuchSnapshotError: The branch does not exist.
            CommitConflictError: Other writers won every retry of the commit.
            CommitUnknownError: The catalog's reply was lost; the commit may or may not have happened.

        Spec: Scan Planning; Delete Formats.
        """
        return remove_dangling_deletes(self._table, branch=branch, dry_run=dry_run, snapshot_properties=snapshot_properties)

    def rewrite_table_path(
        self,
        source_prefix: str,
        target_prefix: str,
        *,
        start_version: str | None = None,
        end_version: str | None = None,
        staging_location: str | None = None,
        create_file_list: bool = True,
        copy: bool = False,
        verify: bool = False,
        dry_run: bool = False,
    ) -> RewriteTablePathResult:
        """Prepare a copy of the table at another location; on request make the copy and verify it. The table itself does not change.

        Files that contain paths (metadata files, manifest lists, manifests, position delete files and deletion vectors) are written with the new paths to a
        staging folder. The list contains all files to copy, as pairs of source and target. The arguments have the names and meanings of the arguments in Java.

        Args:
            source_prefix: The prefix of all paths of the table, such as its location.
            target_prefix: The prefix that replaces it.
            start_version: The name of a metadata file whose version is at the target already; only files added later are copied.
            end_version: The name of the metadata file of the last version to copy; the current one by default.
            staging_location: The folder of the rewritten files; by default a new one in the table's metadata folder.
            create_file_list: Whether to write the list of files to copy.
            copy: Whether to copy the files, metadata files last. A file at the target is kept if it has the same bytes, otherwise it is an error.
            verify: Whether to compare the copy with the table: metadata, every manifest entry, the bytes of every file, and the positions of deletes. Without
                `copy`, nothing is staged or listed.
            dry_run: Return the counts of files that would be copied, and write nothing.

        Returns:
            The numbers of files, and the locations of the staged files, of the list and of the copy's metadata file.

        Raises:
            InvalidInputError: A prefix is not a folder, or is inside the other prefix; a path of the table is not below the source prefix; a version does not
                exist; or the copy of the start version is not at the target.
            NoSuchFileError: A file of the table does not exist.
            FileAlreadyExistsError: A different file is at the target or in the staging folder.
            FormatError: A file of the table is damaged; or the copy differs from the table, and the error lists the differences.
            StorageError: A file cannot be read or written.
            UnsupportedFeatureError: The table is encrypted.

        Spec: Paths in Metadata.
        """
        return rewrite_table_path(
            self._table,
            source_prefix,
            target_prefix,
            start_version=start_version,
            end_version=end_version,
            staging_location=staging_location,
            create_file_list=create_file_list,
            copy=copy,
            verify=verify,
            dry_run=dry_run,
        )

    def remove_orphan_files(
        self,
        older_than: datetime | int | None = None,
        location: str | None = None,
        *,
        mode: str = "delete",
        dry_run: bool = False,
        max_concurrent_deletes: int | None = None,
        stream_results: bool = False,
        file_list_view: Any = None,
        equal_schemes: Mapping[str, str] | None = None,
        equal_authorities: Mapping[str, str] | None = None,
        prefix_mismatch_mode: str = "ERROR",
        purge_delay: timedelta = PURGE_DELAY,
        force: bool = False,
        engine: str | None = None,
    ) -> RemoveOrphanFilesResult:
        """Delete files in the table's folder that no snapshot and no metadata references, for example those of failed jobs.

        The folder is listed before the metadata is loaded, so that committed files of concurrent writers never count as orphans. Files and folders whose names
        begin with `_` or `.` are skipped, and so are folders of other tables.

        Args:
            older_than: Only files last modified before this time are orphans: a datetime with a time zone, or milliseconds since 1970-01-01 UTC; by default
                three days ago.
            location: The folder to search; by default the table's location.
            mode: `delete` deletes the files; `quarantine` writes a list of them to the table's metadata folder; `purge` checks the files in lists older than
                `purge_delay` again and deletes them; `undo` deletes all lists, but not the files in them.
            dry_run: Return the orphan files, and change nothing.
            max_concurrent_deletes: The number of deletions that run at the same time.
            stream_results: Return at most 20,000 paths of orphan files; without it, at most a million.
            file_list_view: The files to check instead of a listing: Spark or Arrow rows of `file_path`, a string, and `last_modified`, a timestamp.
            equal_schemes: Schemes that are aliases, by default `{"s3a,s3n": "s3"}`.
            equal_authorities: Authorities that are aliases, in the same form; an empty text is no authority.
            prefix_mismatch_mode: What to do with a file if the table has its path with a different scheme or authority: `ERROR`; `IGNORE`, which keeps it; or
                `DELETE`.
            purge_delay: The minimum age of a list that is purged; at least a day without `force`.
            force: Allow files younger than 24 hours; safe only while no other program writes.
            engine: `spark` or `in-process`; by default Spark if it runs already and the table is large. Lists are purged in this process.

        Returns:
            The orphan files, and the number of deleted files.

        Raises:
            InvalidInputError: The table's property `gc.enabled` is false; `older_than` is less than 24 hours ago without `force`; an argument is invalid; or
                prefixes differ and the mode is `ERROR`.
            LocationNotAllowedError: The location is also another table's, or only the table's metadata states it. Nothing was deleted.
            NoSuchFileError, FormatError, StorageError: A folder cannot be listed, or a file that the table needs cannot be read. Nothing was deleted.
            UnsupportedFeatureError: The storage cannot be listed.
            EngineError: There is no such engine, or Spark's job failed.

        Spec: Optimistic Concurrency; File System Operations (deletes).
        """
        options = orphan_options(
            self._table.handle.clock.now_ms(),
            mode=mode,
            older_than=older_than,
            location=location,
            dry_run=dry_run,
            max_concurrent_deletes=max_concurrent_deletes,
            stream_results=stream_results,
            file_list_view=file_list_view,
            equal_schemes=equal_schemes,
            equal_authorities=equal_authorities,
            prefix_mismatch_mode=prefix_mismatch_mode,
            purge_delay=purge_delay,
            force=force,
            engine=engine,
        )
        return remove_orphan_files(self._table, options)
