"""`Expiry`: removes snapshots by the retention policy, and then deletes the files that are no longer needed.

`spec/metadata/retention.py` selects the snapshots, `commit/snapshot_expiry.py` is the action to commit, and `file_cleanup.py` finds and deletes the files.
Spec: Snapshot Retention Policy; Optimistic Concurrency.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from icefloe.commit.snapshot_expiry import SnapshotExpiry, check_files_may_be_deleted
from icefloe.display.progress import progress
from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.operations.expiry.deletion_scope import DeletionScope, deletion_scope, folder_names
from icefloe.operations.expiry.expire_report import ExpireReport, ExpireState, report_columns
from icefloe.operations.expiry.file_cleanup import Cleaner, CleaningPlan, Read, delete_in_order, with_statistics
from icefloe.operations.metadata_cache import reload_metadata
from icefloe.operations.pending_change import ChangeTarget, MutationContext
from icefloe.operations.table_handle import TableHandle
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.retention import Retention
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(slots=True, kw_only=True)
class Expiry:
    """One expiry of snapshots. The caller calls `prepare`, commits `action`, and calls `finish`. `report` describes what was removed, or will be removed."""

    handle: TableHandle
    action: SnapshotExpiry
    deletes_files: bool
    engine: str | None = None
    allow_outside: tuple[str, ...] = ()
    plan: CleaningPlan | None = None
    report: ExpireReport = field(init=False)
    # The catalog's metadata location before this commit. The file that the commit itself writes cannot prove the table's location.
    _metadata_location: str = field(init=False, default="")
    _location: str = field(init=False, default="")  # the table's folder

    def prepare(self, start: MutationContext, state: ExpireState) -> None:
        """Plan which files to delete, and set `report` to what would be removed from the table as it was loaded.

        Raises the errors of `Cleaner.plan` and `SnapshotExpiry.attempt`.
        """
        base, now_ms = start.metadata, max(self.handle.clock.now_ms(), start.metadata.last_updated_ms)
        attempt = self.action.attempt(base, number=0, now_ms=now_ms, read=start.read)
        kept = base if attempt is None else apply_updates(base, attempt.updates, now_ms)
        self._metadata_location, self._location = start.metadata_location, start.metadata.location
        if self.deletes_files and self.action.expired.snapshot_ids:
            cleaner = self._cleaner(start.read, is_written=start.staged_read is None)
            with progress(f"find the unused files of {self.handle.table_name}", "files"):
                self.plan = cleaner.plan(base, self.action.expired.snapshot_ids, kept)
        self.report = self._report(state, kept)

    def finish(self) -> ExpireReport:
        """Delete the files, after the commit, and return the final report.

        Raises:
            NoSuchTableError: the table was dropped meanwhile, so that it is unknown which files are needed.
            NotFoundError, FormatError, StorageError: a file that a new snapshot of another writer needs cannot be read; nothing was deleted.
        """
        base, expired = self.action.base, self.action.expired
        if not self.deletes_files or base is None or not expired.snapshot_ids:
            self.report = self._report(ExpireState.DONE, base)
            return self.report
        current = reload_metadata(self.handle, base).metadata
        cleaner = self._cleaner(self.handle.io.read, is_committed=True)
        if self.plan is None or not self.plan.holds_on(base, expired.snapshot_ids):
            with progress(f"find the unused files of {self.handle.table_name}", "files"):
                self.plan = cleaner.plan(base, expired.snapshot_ids, current)
        else:
            self.plan = cleaner.kept_from(self.plan, current)
        scope = self._scope(current)
        report = self._report(ExpireState.DONE, current, scope)
        self.report = replace(report, undeleted=delete_in_order(self.handle.io, report.files, scope.contains))
        return self.report

    def _cleaner(self, read: Read, *, is_written: bool = True, is_committed: bool = False) -> Cleaner:
        handle = self.handle
        return Cleaner(
            table_name=handle.table_name, io=handle.io, read=read, engine=self.engine, is_written=is_written, is_committed=is_committed
        )

    def _report(self, state: ExpireState, kept: TableMetadata | None, scope: DeletionScope | None = None) -> ExpireReport:
        action, plan = self.action, self.plan
        report = ExpireReport(
            table=self.handle.table_name,
            location=self._location,
            state=state,
            snapshot_ids=action.expired.snapshot_ids,
            refs=action.expired.refs,
            spec_ids=action.spec_ids,
            schema_ids=action.schema_ids,
            deletes_files=self.deletes_files,
        )
        if plan is None or action.base is None or kept is None:
            return report
        files = report_columns(with_statistics(plan.unreachable.files, action.base, plan.expired_ids, kept))
        scope = scope or self._scope(kept)
        inside, outside = scope.divide(files)
        return replace(
            report, files=inside, outside=outside, unreadable=plan.unreachable.unreadable, unproven=scope.unproven if len(outside) else ""
        )

    def _scope(self, metadata: TableMetadata) -> DeletionScope:
        """Return the folders in which files may be deleted, given the table's metadata."""
        return deletion_scope(self.handle, metadata, self._metadata_location, self.allow_outside)


def expire_snapshots(
    target: ChangeTarget,
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
    """Remove old snapshots, and after the commit delete their files. Arguments and errors are those of `TableMutations.expire_snapshots`.

    Returns:
        The report of what was removed. In a transaction, of what will be removed: the files are deleted after the commit of the transaction.
    """
    start = target.mutation_context()
    ids = tuple(dict.fromkeys(snapshot_ids))
    _check_snapshots_exist(start, ids)
    retention = Retention(
        older_than_ms=_milliseconds(older_than),
        retain_last=_at_least_one(retain_last),
        snapshot_ids=ids,
        by_policy=not ids or older_than is not None or retain_last is not None,
    )
    action = SnapshotExpiry(retention, clean_metadata=clean_expired_metadata, deletes_files=delete_files)
    outside = folder_names(allow_outside, "allow_outside")
    if delete_files:
        check_files_may_be_deleted(start.metadata)
    expiry = Expiry(handle=start.handle, action=action, deletes_files=delete_files, engine=engine, allow_outside=outside)
    expiry.prepare(start, ExpireState.DRY_RUN if dry_run else ExpireState.STAGED)
    if not dry_run:
        target.apply(action, expiry.finish)
    return expiry.report


def _check_snapshots_exist(start: MutationContext, snapshot_ids: Iterable[int]) -> None:
    missing = [snapshot_id for snapshot_id in snapshot_ids if start.metadata.snapshot_by_id(snapshot_id) is None]
    if missing:
        raise NoSuchSnapshotError(
            f"{start.handle.table_name} has no snapshot {', '.join(map(str, missing))}",
            table=start.handle.table_name,
            snapshot_id=missing[0],
            next_step="choose from table.snapshots(); refresh the table if another writer made it",
        )


def _milliseconds(time: datetime | int | None) -> int | None:
    if time is None or (isinstance(time, int) and not isinstance(time, bool)):
        return time
    if not isinstance(time, datetime):
        raise InvalidInputError(
            f"older_than is {time!r}", next_step="give a datetime with a time zone, or milliseconds since 1970-01-01 UTC"
        )
    if time.tzinfo is None:
        raise InvalidInputError(
            f"older_than is {time.isoformat()}, which has no time zone: hours of history too many could be removed",
            next_step="give a time with a time zone, such as datetime.now(UTC) - timedelta(days=7)",
        )
    return int(time.timestamp() * 1000)


def _at_least_one(retain_last: Any) -> int | None:
    if retain_last is None:
        return None
    if isinstance(retain_last, int) and not isinstance(retain_last, bool) and retain_last >= 1:
        return retain_last
    raise InvalidInputError(f"retain_last is {retain_last!r}: at least one snapshot of each branch stays", next_step="give 1 or more")
