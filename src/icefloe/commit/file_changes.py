"""`FileChanges`: the data and delete files that one snapshot adds and removes. A value is checked for contradictions when it is created.

`merging_snapshot_producer.py` applies the changes to a table. `spec/manifest/file_rules.py` has the rules of each format version.
Spec: Deletion Vectors; Position Delete Files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.file_rules import is_deletion_vector

# The id of a partition spec, and a partition tuple of this spec.
Partition = tuple[int, tuple[Any, ...]]
# The path of a delete file, and the offset of a deletion vector in it, because a Puffin file can contain many vectors; None for other delete files.
DeleteKey = tuple[str, int | None]


def delete_key(file: DataFile) -> DeleteKey:
    """Return the key that identifies a delete file."""
    return (file.file_path, file.content_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """The files that a snapshot adds and removes.

    Files are removed by name (`removed`, `removed_deletes`) or by a rule that is applied to each base (`row_filter`, `dropped_partitions`).

    Attributes:
        added: data files to add.
        added_deletes: delete files to add.
        removed: paths of data files to remove.
        removed_partitions: the partitions of `removed`; None if unknown.
        removed_deletes: delete files to remove.
        sequence_number: the data sequence number of `added`, if their rows are older than the commit; None for that of the commit.
        delete_sequence_number: the data sequence number of `added_deletes`, if they replace older deletes; None for that of the commit.
        row_filter: remove the data files in which all rows match.
        case_sensitive: whether names in `row_filter` are case-sensitive.
        dropped_partitions: remove all files of these partitions.
        added_match_filter: whether all rows of `added` must match `row_filter` (validateAddedFilesMatchOverwriteFilter).
    """

    added: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    removed_partitions: frozenset[Partition] | None = frozenset()
    removed_deletes: Mapping[DeleteKey, DataFile] = field(default_factory=dict)
    sequence_number: int | None = None
    delete_sequence_number: int | None = None
    row_filter: BooleanExpression | None = None
    case_sensitive: bool = True
    dropped_partitions: frozenset[Partition] = frozenset()
    added_match_filter: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added or removed."""
        return not (self.added or self.added_deletes or self.removed or self.removed_deletes or self.selects)

    @property
    def selects(self) -> bool:
        """Whether files are removed by a rule instead of by name."""
        return self.row_filter is not None or bool(self.dropped_partitions)

    @property
    def targets(self) -> dict[str, Partition]:
        """The data files of the table to which added delete files refer, which must be live: the partition of the delete file, by the path of the data file."""
        added_paths = {file.file_path for file in self.added}
        return {
            file.referenced_data_file: (file.spec_id, file.partition)
            for file in self.added_deletes
            if file.referenced_data_file is not None and file.referenced_data_file not in added_paths
        }

    @property
    def vector_targets(self) -> frozenset[str]:
        """The paths of the data files that get a deletion vector."""
        return frozenset(file.referenced_data_file for file in self.added_deletes if is_deletion_vector(file) and file.referenced_data_file)


def file_changes(
    *,
    added: Iterable[DataFile] = (),
    added_deletes: Iterable[DataFile] = (),
    removed: Iterable[DataFile] = (),
    removed_deletes: Iterable[DataFile] = (),
    sequence_number: int | None = None,
    delete_sequence_number: int | None = None,
) -> FileChanges:
    """Return the changes that add and remove these files.

    Args:
        added: data files to add.
        added_deletes: delete files to add.
        removed: data files to remove.
        removed_deletes: delete files to remove.
        sequence_number: the data sequence number of `added`; None inherits that of the commit.
        delete_sequence_number: the data sequence number of `added_deletes`; None inherits that of the commit.

    Raises:
        InvalidInputError: a data file is among the delete files or the reverse; or a data file gets two deletion vectors, or is both removed and given deletes.
    """
    removed_files = tuple(removed)
    changes = FileChanges(
        added=tuple(added),
        added_deletes=tuple(added_deletes),
        removed=frozenset(file.file_path for file in removed_files),
        removed_partitions=frozenset((file.spec_id, file.partition) for file in removed_files),
        removed_deletes={delete_key(file): file for file in removed_deletes},
        sequence_number=sequence_number,
        delete_sequence_number=delete_sequence_number,
    )
    for file in (*changes.added, *removed_files):
        if file.content != FileContent.DATA:
            raise InvalidInputError(f"{file.file_path} contains {file.content.name}, and is among the data files", path=file.file_path)
    for file in (*changes.added_deletes, *changes.removed_deletes.values()):
        if file.content == FileContent.DATA:
            raise InvalidInputError(f"{file.file_path} contains data, and is among the delete files", path=file.file_path)
    _check_targets(changes)
    return changes


def _check_targets(changes: FileChanges) -> None:
    targets_with_vector: set[str] = set()
    for file in changes.added_deletes:
        target = file.referenced_data_file
        if target is None:
            continue
        if target in changes.removed:
            raise InvalidInputError(f"{file.file_path} deletes rows of {target}, which the same commit removes", path=file.file_path)
        if is_deletion_vector(file):
            if target in targets_with_vector:
                raise InvalidInputError(
                    f"{target} would get two deletion vectors; a data file has at most one",
                    path=file.file_path,
                    next_step="merge their positions into one",
                )
            targets_with_vector.add(target)
