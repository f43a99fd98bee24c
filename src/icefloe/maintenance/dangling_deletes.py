"""`DanglingDeleteRemoval`: removal of live delete files that apply to no live data file.

When data files are rewritten, the delete files of their partitions may stay although they apply to no data file any more. Every reader still opens their
manifests.
Spec: Scan Planning; Delete Formats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from icefloe.commit.file_changes import delete_key
from icefloe.display.report import Facts, Report
from icefloe.display.reportable import MOST_LINES, OperationResult, json_ready
from icefloe.errors import InvalidInputError
from icefloe.formatting import count_text, size_text, snapshots_text
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.parallel_requests import in_threads
from icefloe.operations.staging import staging_of_write
from icefloe.operations.unreachable_files import FileKind
from icefloe.scan.live_deletes import LiveDeletes, read_deletes
from icefloe.scan.pruning import ScanContext
from icefloe.scan.scan_planner import plan_scan
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile, FileContent, FileFormat
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import read_manifests
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Read


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoveDanglingDeletesResult(OperationResult):
    """The result of a removal; with `dry_run`, the result that the call would have.

    Attributes:
        table: The table.
        dry_run: Whether nothing was changed.
        snapshot_id: The snapshot that was committed; None if nothing was removed.
        removed: The number of removed delete files by kind.
        removed_bytes: The size of these files in bytes; for a deletion vector its own size, not that of the Puffin file.
        live_delete_files: The number of live delete files before the removal.
    """

    table: str
    dry_run: bool = False
    snapshot_id: int | None = None
    removed: Mapping[FileKind, int] = field(default_factory=dict)
    removed_bytes: int = 0
    live_delete_files: int = 0

    @property
    def removed_files(self) -> int:
        """The number of removed delete files of all kinds."""
        return sum(self.removed.values())

    def report(self, most: int | None = MOST_LINES) -> Report:  # noqa: ARG002  the report has no list
        kinds = "".join(f", {count:,} {kind}" for kind, count in self.removed.items())
        facts = (
            ("snapshot", snapshots_text((self.snapshot_id,), dry_run=self.dry_run)),
            ("considered", count_text(self.live_delete_files, "delete file")),
            (
                "would be removed" if self.dry_run else "removed",
                f"{count_text(self.removed_files, 'file')}, {size_text(self.removed_bytes)}{kinds}",
            ),
        )
        return Report(f"dangling deletes of {self.table}", (Facts(facts),))

    def to_dict(self) -> dict[str, Any]:
        """Return every field. The number of removed files is `removed_files`, and by kind it is `kinds`."""
        fields: dict[str, Any] = json_ready(self)
        return {"kinds": fields.pop("removed"), "removed_files": self.removed_files, **fields}


def remove_dangling_deletes(
    table: LoadedTable, *, branch: str, dry_run: bool = False, snapshot_properties: Mapping[str, str] | None = None
) -> RemoveDanglingDeletesResult:
    """Remove the delete files of a branch that apply to no data file of it. Arguments and errors are those of `TableMaintenance.remove_dangling_deletes`."""
    refuse_staging(table, branch)
    metadata = table.metadata
    scan = table.scan().use_ref(branch) if metadata.refs else table.scan()
    snapshot = scan.snapshot()
    if snapshot is None:
        return RemoveDanglingDeletesResult(table=table.full_name, dry_run=dry_run)
    live, dangling = _dangling(metadata, snapshot, table.io.read)
    removed: dict[FileKind, int] = {}
    for file in dangling:
        removed[_kind(file)] = removed.get(_kind(file), 0) + 1
    snapshot_id = None
    if dangling and not dry_run:
        # Commits by others in the meantime cannot make any of these files apply: rewritten rows come from files to which the deletes did not apply,
        # and added rows have a higher sequence number.
        update = (
            UpdateSnapshot(table.mutation_context(), table.apply, snapshot_properties, branch)
            .rewrite_files()
            .validate_from_snapshot(snapshot.snapshot_id)
        )
        for file in dangling:
            update.delete_file(file)
        update.commit()
        snapshot_id = table.refs()[branch].snapshot_id
    return RemoveDanglingDeletesResult(
        table=table.full_name,
        dry_run=dry_run,
        snapshot_id=snapshot_id,
        removed=removed,
        removed_bytes=sum(file.content_size_in_bytes or file.file_size_in_bytes for file in dangling),
        live_delete_files=live,
    )


def refuse_staging(table: LoadedTable, branch: str) -> None:
    """Raise `InvalidInputError` if writes are staged (write-audit-publish): maintenance would be planned on one branch and committed to another."""
    staging = staging_of_write(table.metadata, {}, branch, table.full_name)
    if staging.wap_id is not None or staging.branch is not None:
        raise InvalidInputError(
            f"writes to {table.full_name} are staged, and maintenance is not: it changes no row that could be reviewed",
            table=table.full_name,
            next_step="run it outside of write_audit_publish, and without spark.wap.id and spark.wap.branch",
        )


def live_deletes(metadata: TableMetadata, snapshot: Snapshot, read: Read) -> Sequence[DataFile]:
    """Return the live delete files of a snapshot, including those that apply to no data file."""
    deletes = read_live_deletes(metadata, snapshot, read)
    return () if deletes is None else deletes.files(np.arange(sum(map(len, deletes.parts))))


def read_live_deletes(metadata: TableMetadata, snapshot: Snapshot, read: Read) -> LiveDeletes | None:
    """Return the live delete files of a snapshot as columns, including those that apply to no data file; None if there are none."""
    manifests = [
        manifest for manifest in read_manifests(snapshot, read) if manifest.content is ManifestContent.DELETES and manifest.has_live_files
    ]
    if not manifests:
        return None
    context = ScanContext(
        metadata=metadata,
        schema=metadata.schema(),
        bound=AlwaysTrue(),
        explain=False,
        include_statistics=False,
        find_covered=False,
        every_delete=True,
    )
    return read_deletes(context, manifests, read, in_threads)


def _dangling(metadata: TableMetadata, snapshot: Snapshot, read: Read) -> tuple[int, Sequence[DataFile]]:
    """Return the number of live delete files of a snapshot, and the list of those that apply to none of its data files."""
    live = live_deletes(metadata, snapshot, read)
    if not live:
        return 0, ()
    plan = plan_scan(metadata, snapshot, AlwaysTrue(), read, parallel=in_threads, every_delete=True, schema=metadata.schema())
    applied = {delete_key(file) for file in plan.delete_files}
    return len(live), [file for file in live if delete_key(file) not in applied]


def _kind(file: DataFile) -> FileKind:
    if file.content is FileContent.EQUALITY_DELETES:
        return FileKind.EQUALITY_DELETES
    return FileKind.DELETION_VECTORS if file.file_format is FileFormat.PUFFIN else FileKind.POSITION_DELETES
