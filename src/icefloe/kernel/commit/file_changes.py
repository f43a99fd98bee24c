"""`FileChanges`: the data and delete files that one snapshot adds and removes, as a value, and the rules it keeps by itself.

Finding the files in a table is `merging_snapshot_producer.py`; what a format version allows, `kernel/manifest/file_rules.py`. Spec: Deletion Vectors;
Position Delete Files.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import InvalidInputError
from icefloe.kernel.expressions.predicate import BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.file_rules import is_deletion_vector

# A partition: the spec's id and the tuple.
Partition = tuple[int, tuple[Any, ...]]
# A delete file: its path, and where in it a deletion vector lies, for many can share a Puffin file.
DeleteKey = tuple[str, int | None]


def delete_key(file: DataFile) -> DeleteKey:
    """What tells a delete file from all others."""
    return (file.file_path, file.content_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """What a snapshot adds and removes.

    `removed` are the paths of data files; `removed_partitions` where they lie, None where that is not known. `sequence_number` is the data sequence number of
    `added` where their rows are older than the commit. Beside the named files those are removed that are chosen on each base: files of which every row matches
    `row_filter`, and files of `dropped_partitions`. With `added_match_filter` every row of `added` must match the filter too.
    """

    added: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    removed_partitions: frozenset[Partition] | None = frozenset()
    removed_deletes: Mapping[DeleteKey, DataFile] = field(default_factory=dict)
    sequence_number: int | None = None
    row_filter: BooleanExpression | None = None
    case_sensitive: bool = True
    dropped_partitions: frozenset[Partition] = frozenset()
    added_match_filter: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.added_deletes or self.removed or self.removed_deletes or self.selects)

    @property
    def selects(self) -> bool:
        """Whether files are removed by a rule instead of by name."""
        return self.row_filter is not None or bool(self.dropped_partitions)

    @property
    def targets(self) -> dict[str, Partition]:
        """The data files that must be in the table for the added deletes, by path, with the partition that the deletes are in."""
        own = {file.file_path for file in self.added}
        return {
            file.referenced_data_file: (file.spec_id, file.partition)
            for file in self.added_deletes
            if file.referenced_data_file is not None and file.referenced_data_file not in own
        }

    @property
    def vector_targets(self) -> frozenset[str]:
        """The data files that get a deletion vector."""
        return frozenset(file.referenced_data_file for file in self.added_deletes if is_deletion_vector(file) and file.referenced_data_file)


def file_changes(
    *,
    added: Iterable[DataFile] = (),
    added_deletes: Iterable[DataFile] = (),
    removed: Iterable[DataFile] = (),
    removed_deletes: Iterable[DataFile] = (),
    sequence_number: int | None = None,
) -> FileChanges:
    """The changes of these files.

    Raises:
        InvalidInputError: a delete file stands among the data files or the reverse, a data file gets two deletion vectors, or deletes and is removed.
    """
    gone = tuple(removed)
    changes = FileChanges(
        added=tuple(added),
        added_deletes=tuple(added_deletes),
        removed=frozenset(file.file_path for file in gone),
        removed_partitions=frozenset((file.spec_id, file.partition) for file in gone),
        removed_deletes={delete_key(file): file for file in removed_deletes},
        sequence_number=sequence_number,
    )
    for file in (*changes.added, *gone):
        if file.content != FileContent.DATA:
            raise InvalidInputError(f"{file.file_path} holds {file.content.name}, and stands among the data files", path=file.file_path)
    for file in (*changes.added_deletes, *changes.removed_deletes.values()):
        if file.content == FileContent.DATA:
            raise InvalidInputError(f"{file.file_path} holds data, and stands among the delete files", path=file.file_path)
    _check_targets(changes)
    return changes


def _check_targets(changes: FileChanges) -> None:
    seen: set[str] = set()
    for file in changes.added_deletes:
        target = file.referenced_data_file
        if target is None:
            continue
        if target in changes.removed:
            raise InvalidInputError(f"{file.file_path} deletes rows of {target}, which the same commit removes", path=file.file_path)
        if is_deletion_vector(file):
            if target in seen:
                raise InvalidInputError(
                    f"{target} would get two deletion vectors, and a data file has one at most",
                    path=file.file_path,
                    next_step="merge their positions into one",
                )
            seen.add(target)
