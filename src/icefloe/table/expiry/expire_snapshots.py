"""`expire_snapshots`: cutting a table's history by its retention policy, and deleting the files that nothing needs then.

Which snapshots go is `kernel/metadata/retention.py`, the commit `kernel/commit/snapshot_expiry.py`, the files `cleaning.py`.
Spec: Snapshot Retention Policy; Optimistic Concurrency.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from icefloe.errors import InvalidInputError, NoSuchSnapshotError
from icefloe.kernel.commit.snapshot_expiry import ExpireSnapshots, check_files_may_be_deleted
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.kernel.metadata.retention import Retention
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.table.changes.mutation_context import MutationContext, TableMutations
from icefloe.table.expiry.deletion_scope import DeletionScope, deletion_scope, folder_names
from icefloe.table.expiry.expire_report import ExpireReport, ExpireState
from icefloe.table.expiry.file_cleanup import Cleaner, CleaningPlan, Read, delete_in_order, with_statistics
from icefloe.table.expiry.file_totals import reported
from icefloe.table.pyiceberg_maintenance import MaintenanceTable
from icefloe.table.table_handle import TableHandle, reload_metadata


@dataclass(slots=True, kw_only=True)
class Expiry:
    """One expiry under way: planned, then committed by somebody, then finished."""

    handle: TableHandle
    action: ExpireSnapshots
    deletes_files: bool
    engine: str | None = None
    allow_outside: tuple[str, ...] = ()
    plan: CleaningPlan | None = None
    report: ExpireReport = field(init=False)
    # Of the file that the catalog named before: where this commit writes says nothing of what the table's location is.
    _metadata_location: str = field(init=False, default="")

    def planned(self, start: MutationContext, state: ExpireState) -> ExpireReport:
        """What would go from the table as it is known. Raises as `Cleaner.plan`, and as the action does."""
        base, now_ms = start.metadata, max(self.handle.clock.now_ms(), start.metadata.last_updated_ms)
        made = self.action.attempt(base, number=0, now_ms=now_ms, read=start.read)
        kept = base if made is None else apply_updates(base, made.updates, now_ms)
        self._metadata_location = start.metadata_location
        if self.deletes_files and self.action.expired.snapshot_ids:
            cleaner = self._cleaner(start.read, is_written=start.staged_read is None)
            self.plan = cleaner.plan(base, self.action.expired.snapshot_ids, kept)
        return self._report(state, kept)

    def finish(self) -> ExpireReport:
        """Deletes the files, once the commit stands.

        Raises:
            NoSuchTableError: the table was dropped since, so it is not known what is needed.
            NotFoundError, FormatError, StorageError: a file that another writer's new snapshot needs cannot be read; nothing was deleted.
        """
        base, expired = self.action.base, self.action.expired
        if not self.deletes_files or base is None or not expired.snapshot_ids:
            return self._report(ExpireState.DONE, base)
        current = reload_metadata(self.handle, base).metadata
        cleaner = self._cleaner(self.handle.io.read, stands=True)
        if self.plan is None or not self.plan.holds_on(base, expired.snapshot_ids):
            self.plan = cleaner.plan(base, expired.snapshot_ids, current)
        else:
            self.plan = cleaner.kept_from(self.plan, current)
        scope = self._scope(current)
        report = self._report(ExpireState.DONE, current, scope)
        return replace(report, undeleted=delete_in_order(self.handle.io, report.files, scope.contains))

    def _cleaner(self, read: Read, *, is_written: bool = True, stands: bool = False) -> Cleaner:
        handle = self.handle
        return Cleaner(table_name=handle.table_name, io=handle.io, read=read, engine=self.engine, is_written=is_written, stands=stands)

    def _report(self, state: ExpireState, kept: TableMetadata | None, scope: DeletionScope | None = None) -> ExpireReport:
        action, plan = self.action, self.plan
        report = ExpireReport(
            table=self.handle.table_name,
            state=state,
            snapshot_ids=action.expired.snapshot_ids,
            refs=action.expired.refs,
            spec_ids=action.spec_ids,
            schema_ids=action.schema_ids,
            deletes_files=self.deletes_files,
        )
        if plan is None or action.base is None or kept is None:
            return report
        files = reported(with_statistics(plan.found.files, action.base, plan.expired_ids, kept))
        inside, outside = (scope or self._scope(kept)).divide(files)
        return replace(report, files=inside, outside=outside, unreadable=plan.found.unreadable)

    def _scope(self, metadata: TableMetadata) -> DeletionScope:
        """Where files may be deleted."""
        return deletion_scope(self.handle, metadata, self._metadata_location, self.allow_outside)


class ExpiresSnapshots(TableMutations):
    """The door of a table, a transaction and a static table."""

    @property
    def maintenance(self) -> MaintenanceTable:
        """The same under PyIceberg's names: `table.maintenance.expire_snapshots().older_than(time).commit()`."""
        return MaintenanceTable(self.expire_snapshots)

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
        """Removes old snapshots from the table, and deletes the files that nothing else needs, after the commit stands.

        By the retention policy: snapshots older than `history.expire.max-snapshot-age-ms` go, but the last `history.expire.min-snapshots-to-keep` of each
        branch stay, and whatever a branch or tag names; branches and tags older than `history.expire.max-ref-age-ms` go, `main` never. Their own settings go
        before those of the table, and before these:

        Args:
            older_than: in place of the greatest age: a time with a time zone, or milliseconds since 1970-01-01 UTC.
            retain_last: in place of the number to keep.
            snapshot_ids: these snapshots go whatever their age; if nothing else is given, only these.
            dry_run: only say what would go.
            delete_files: False leaves every file where it is; nothing will know of them then.
            clean_expired_metadata: also remove partition specs and schemas that nothing needs any more.
            engine: who reads manifests: `spark`, as a job; `in-process`; by default Spark where it runs already and there are a thousand or more.
            allow_outside: folders outside the table's location whose files may be deleted too, such as one that `add_files` took files from.

        A file that cannot be deleted is told in the report and is no error. So is a file outside the table's location, which is kept: see `docs/security.md`.

        Raises:
            InvalidInputError: a snapshot of `snapshot_ids` is named by a branch or tag, or `gc.enabled` is false.
            NoSuchSnapshotError: one of them is not in the table.
            NotFoundError, FormatError, StorageError: a file that a kept snapshot needs cannot be read. Nothing was changed.
            CommitConflictError: other writers won every retry. Nothing was changed.
            CommitUnknownError: the catalog's answer was lost. No file is deleted.
        """
        start = self._start()
        ids = tuple(dict.fromkeys(snapshot_ids))
        _check_known(start, ids)
        retention = Retention(
            older_than_ms=_milliseconds(older_than),
            retain_last=_at_least_one(retain_last),
            snapshot_ids=ids,
            by_policy=not ids or older_than is not None or retain_last is not None,
        )
        action = ExpireSnapshots(retention, clean_metadata=clean_expired_metadata, deletes_files=delete_files)
        outside = folder_names(allow_outside, "allow_outside")
        expiry = Expiry(handle=start.handle, action=action, deletes_files=delete_files, engine=engine, allow_outside=outside)
        if delete_files:
            check_files_may_be_deleted(start.metadata)
        report = expiry.planned(start, ExpireState.DRY_RUN if dry_run else ExpireState.STAGED)
        if dry_run:
            return report
        done = self._commit_then(action, expiry.finish)
        return report if done is None else done


def _check_known(start: MutationContext, snapshot_ids: Iterable[int]) -> None:
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
            f"older_than is {time.isoformat()}, which has no time zone: hours of history could go too many",
            next_step="say which time is meant, such as datetime.now(UTC) - timedelta(days=7)",
        )
    return int(time.timestamp() * 1000)


def _at_least_one(retain_last: Any) -> int | None:
    if retain_last is None:
        return None
    if isinstance(retain_last, int) and not isinstance(retain_last, bool) and retain_last >= 1:
        return retain_last
    raise InvalidInputError(f"retain_last is {retain_last!r}: at least one snapshot of each branch stays", next_step="give 1 or more")
