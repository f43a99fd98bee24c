"""`AddedDeletes`: delete files that others added since a commit was planned, and whether one may delete rows of a data file that the commit is about.

Without the check a commit that copied a file would bring back the rows that others deleted from it meanwhile.
Spec: Commit Conflict Resolution and Retry; Scan Planning (which deletes apply).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from icefloe.kernel.commit.file_changes import DeleteKey, Partition
from icefloe.kernel.commit.live_entries import partitions_of
from icefloe.kernel.commit.newer_snapshots import Changed
from icefloe.kernel.manifest.data_file import FileContent, FileFormat
from icefloe.kernel.manifest.manifest_columns import statistic_column
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.delete_file_index import PATH_BOUNDS

_NAN = "NaN"  # stands for NaN, which is one partition value and equals nothing
_COLUMNS = ("content", "file_path", "file_format", "content_offset", "referenced_data_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedDelete:
    """One delete file, and the snapshot that added it. `lower` and `upper` bound the paths in position deletes, None where that is not known."""

    key: DeleteKey
    content: FileContent
    is_vector: bool
    snapshot: Snapshot
    lower: bytes | None
    upper: bytes | None

    def may_hold(self, path: str) -> bool:
        """Whether the path is between the bounds."""
        encoded = path.encode()
        return (self.lower is None or self.lower <= encoded) and (self.upper is None or encoded <= self.upper)


class AddedDeletes:
    """The deletes by what they apply to: one data file, a partition, or all."""

    def __init__(self, base: TableMetadata, changed: Iterable[Changed]) -> None:
        self._of_file: dict[str, list[AddedDelete]] = defaultdict(list)
        self._of_partition: dict[Partition, list[AddedDelete]] = defaultdict(list)
        self._everywhere: list[AddedDelete] = []
        for one in changed:
            self._add(base, one)

    def _add(self, base: TableMetadata, changed: Changed) -> None:
        spec_id = changed.manifest.partition_spec_id
        is_flat = base.spec_by_id(spec_id).is_unpartitioned
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
                self._of_file[row["referenced_data_file"]].append(delete)
            elif content == FileContent.EQUALITY_DELETES and is_flat:
                self._everywhere.append(delete)
            else:
                self._of_partition[partition_key((spec_id, partitions[index]))].append(delete)

    def about(self, path: str, partition: Partition) -> Iterator[AddedDelete]:
        """Those that may delete rows of a data file."""
        yield from self._of_file.get(path, ())
        yield from (delete for delete in self._of_partition.get(partition_key(partition), ()) if delete.may_hold(path))
        yield from self._everywhere


def partition_key(partition: Partition) -> Partition:
    """The partition as one that equals itself, also where a value is NaN."""
    return partition[0], tuple(_NAN if value != value else value for value in partition[1])  # noqa: PLR0124  NaN
