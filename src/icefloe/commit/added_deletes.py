"""`AddedDeletes`: an index of the delete files that newer snapshots added, by the data files that they may apply to.

Conflict checks (`conflicts.py`) look up the data files of a commit in it. Without this check, a commit that rewrote a data file would restore the rows that
another writer deleted from it in the meantime. JAVA: MergingSnapshotProducer.addedDeleteFiles, which returns a DeleteFileIndex.
Spec: Commit Conflict Resolution and Retry; Scan Planning (which deletes apply).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icefloe.commit.file_changes import DeleteKey, Partition
from icefloe.commit.live_entries import partitions_of
from icefloe.commit.newer_snapshots import ChangedEntries
from icefloe.scan.delete_file_index import PATH_BOUNDS
from icefloe.spec.manifest.data_file import FileContent, FileFormat
from icefloe.spec.manifest.manifest_columns import statistic_column
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata

_NAN = "NaN"  # replaces NaN in keys: NaN is one partition value, but a float NaN does not equal itself
_COLUMNS = ("content", "file_path", "file_format", "content_offset", "referenced_data_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedDelete:
    """One delete file and the snapshot that added it.

    `lower` and `upper` bound the data file paths in position deletes (UTF-8); None where the bound is unknown.
    """

    key: DeleteKey
    content: FileContent
    is_vector: bool
    snapshot: Snapshot
    lower: bytes | None
    upper: bytes | None

    def may_contain(self, path: str) -> bool:
        """Return True if the path of a data file is within the bounds."""
        encoded = path.encode()
        return (self.lower is None or self.lower <= encoded) and (self.upper is None or encoded <= self.upper)


class AddedDeletes:
    """The added delete files by scope: one data file, one partition, or the whole table."""

    def __init__(self, base: TableMetadata, added_entries: Iterable[ChangedEntries]) -> None:
        self._by_path: dict[str, list[AddedDelete]] = defaultdict(list)
        self._by_partition: dict[Partition, list[AddedDelete]] = defaultdict(list)
        self._global: list[AddedDelete] = []
        for changed in added_entries:
            self._add(base, changed)

    def _add(self, base: TableMetadata, changed: ChangedEntries) -> None:
        spec_id = changed.manifest.partition_spec_id
        is_unpartitioned = base.spec_by_id(spec_id).is_unpartitioned()
        partitions = partitions_of(changed.entries, spec_partition_type(base, spec_id))
        lower, upper = (changed.entries[statistic_column(*bound)].to_pylist() for bound in PATH_BOUNDS)
        for index, row in enumerate(changed.entries.select(_COLUMNS).to_pylist()):
            content = FileContent(row["content"])
            delete = AddedDelete(
                key=(row["file_path"], row["content_offset"]),
                content=content,
                is_vector=content == FileContent.POSITION_DELETES and row["file_format"] == FileFormat.PUFFIN.value,
                snapshot=changed.snapshot,
                lower=lower[index],
                upper=upper[index],
            )
            if content == FileContent.POSITION_DELETES and row["referenced_data_file"] is not None:
                self._by_path[row["referenced_data_file"]].append(delete)
            elif content == FileContent.EQUALITY_DELETES and is_unpartitioned:
                self._global.append(delete)
            else:
                self._by_partition[partition_key((spec_id, partitions[index]))].append(delete)

    def for_data_file(self, path: str, partition: Partition) -> Iterator[AddedDelete]:
        """Yield the deletes that may apply to a data file. JAVA: DeleteFileIndex.forDataFile."""
        yield from self._by_path.get(path, ())
        yield from (delete for delete in self._by_partition.get(partition_key(partition), ()) if delete.may_contain(path))
        yield from self._global


def partition_key(partition: Partition) -> Partition:
    """Return the partition with NaN replaced, so that equal partitions compare equal. Spec: Partitioning."""
    return partition[0], tuple(_NAN if value != value else value for value in partition[1])  # noqa: PLR0124  NaN
