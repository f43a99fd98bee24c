"""Deletes that others added, since a commit was planned, for rows of the files it replaces: such a commit would bring those rows back.

Floor: kernel.commit. Spec: Commit Conflict Resolution and Retry; Scan Planning (which deletes apply).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import CommitInvalidatedError
from icefloe.kernel.arrow_values import scalar_of
from icefloe.kernel.commit.file_changes import DeleteKey, FileChanges, Partition
from icefloe.kernel.commit.live_entries import partitions_of, same_values
from icefloe.kernel.manifest.columns import Statistic, statistic_column
from icefloe.kernel.manifest.data_file import FileContent
from icefloe.kernel.manifest_list.manifest_file import ManifestFile
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata

# The column `file_path` of position delete files. Spec: Reserved Field IDs.
_DELETE_FILE_PATH = 2147483546
PATH_BOUNDS: tuple[Statistic, Statistic] = (("lower_bound", _DELETE_FILE_PATH), ("upper_bound", _DELETE_FILE_PATH))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Delete:
    key: DeleteKey
    content: int
    spec_id: int
    partition: tuple[Any, ...]
    referenced: str | None
    lower: bytes | None
    upper: bytes | None
    is_global: bool

    def may_apply(self, path: str, partition: Partition) -> bool:
        if self.content == FileContent.EQUALITY_DELETES and self.is_global:
            return True
        if self.referenced is not None and self.content == FileContent.POSITION_DELETES:
            return self.referenced == path
        if partition[0] != self.spec_id or not same_values(partition[1], self.partition):
            return False
        encoded = path.encode()
        return (self.lower is None or self.lower <= encoded) and (self.upper is None or encoded <= self.upper)


@dataclass(slots=True)
class NewerDeletes:
    """Collects the live deletes that were added after sequence number `since`; None collects nothing."""

    since: int | None
    found: list[_Delete] = field(default_factory=list)

    def may_be_in(self, manifest: ManifestFile) -> bool:
        return self.since is not None and manifest.sequence_number > self.since

    def collect(self, base: TableMetadata, manifest: ManifestFile, entries: Any) -> None:
        """Takes those of a delete manifest's live entries, read with `PATH_BOUNDS`."""
        if not self.may_be_in(manifest) or self.since is None:
            return
        newer = entries.filter(pc.greater(entries["file_sequence_number"], scalar_of(self.since, pa.int64())))
        spec_id = manifest.partition_spec_id
        is_global = base.spec_by_id(spec_id).is_unpartitioned
        lower, upper = (newer[statistic_column(*bound)].to_pylist() for bound in PATH_BOUNDS)
        partitions = partitions_of(newer, spec_partition_type(base, spec_id))
        names = ("content", "file_path", "content_offset", "referenced_data_file")
        for index, row in enumerate(newer.select(names).to_pylist()):
            self.found.append(
                _Delete(
                    key=(row["file_path"], row["content_offset"]),
                    content=row["content"],
                    spec_id=spec_id,
                    partition=partitions[index],
                    referenced=row["referenced_data_file"],
                    lower=lower[index],
                    upper=upper[index],
                    is_global=is_global,
                )
            )

    def check(self, changes: FileChanges, removed: Iterable[tuple[str, Partition]]) -> None:
        """Raises `CommitInvalidatedError` where one of them may be about a removed data file, or about one whose new deletion vector would hide it.

        Equality deletes go on applying to rows that keep their older sequence number.
        """
        for delete in self.found:
            is_equality = delete.content == FileContent.EQUALITY_DELETES
            if not (is_equality and changes.sequence_number is not None):
                for path, partition in removed:
                    if delete.may_apply(path, partition):
                        raise _newer(delete, path)
            if not is_equality and delete.key not in changes.removed_deletes:
                for path in changes.vector_targets & changes.targets.keys():
                    if delete.may_apply(path, changes.targets[path]):
                        raise _newer(delete, path)


def newer_deletes(base: TableMetadata, parent: Snapshot | None, changes: FileChanges) -> NewerDeletes:
    """The collector for a commit on this base. Raises `CommitInvalidatedError` where the snapshot it was planned on is no longer known."""
    if changes.planned_on is None or (parent is not None and parent.snapshot_id == changes.planned_on):
        return NewerDeletes(None)
    planned_on = base.snapshot_by_id(changes.planned_on)
    if planned_on is None:
        raise CommitInvalidatedError(
            f"snapshot {changes.planned_on}, which this commit was planned on, is no longer in the table",
            snapshot_id=changes.planned_on,
            next_step="refresh and repeat",
        )
    return NewerDeletes(planned_on.sequence_number)


def _newer(delete: _Delete, path: str) -> CommitInvalidatedError:
    return CommitInvalidatedError(
        f"{delete.key[0]} was added while this commit was prepared, and may delete rows of {path}, which this commit read without it",
        path=delete.key[0],
        next_step="refresh and repeat",
    )
