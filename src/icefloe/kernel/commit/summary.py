"""A snapshot's summary: what a commit added and removed, and the totals after it.


Spec: Snapshots (`summary`); Appendix F, Optional Snapshot Summary Fields; Appendix F, Metrics; Appendix F, Other Fields.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.file_rules import is_deletion_vector

# A total, and the keys it grows and shrinks by.
_TOTALS = (
    ("total-data-files", "added-data-files", "deleted-data-files"),
    ("total-delete-files", "added-delete-files", "removed-delete-files"),
    ("total-records", "added-records", "deleted-records"),
    ("total-files-size", "added-files-size", "removed-files-size"),
    ("total-position-deletes", "added-position-deletes", "removed-position-deletes"),
    ("total-equality-deletes", "added-equality-deletes", "removed-equality-deletes"),
)
_LARGEST_TOTAL_DIGITS = 19  # a long
_NAN = float("nan")  # one object for all: a set finds it by identity

_CONTENT, _RECORDS, _BYTES = attrgetter("content"), attrgetter("record_count"), attrgetter("file_size_in_bytes")
_SPEC, _PARTITION = attrgetter("spec_id"), attrgetter("partition")

# By spec id. Tuples of both would be made for every partition, and for so many objects the garbage collector looks through all files.
_Partitions = defaultdict[int, set[tuple[Any, ...]]]


@dataclass(slots=True)
class _Tally:
    """Counts of the files that one side of a commit adds or removes."""

    data_files: int = 0
    records: int = 0
    bytes: int = 0
    position_delete_files: int = 0
    deletion_vectors: int = 0
    equality_delete_files: int = 0
    position_deletes: int = 0
    equality_deletes: int = 0
    partitions: _Partitions = field(default_factory=lambda: defaultdict(set))

    def add_all(self, files: Iterable[DataFile]) -> None:
        """Many data files are counted all at once, which for a hundred thousand of them takes a tenth of the time."""
        every = tuple(files)
        data = every if set(map(_CONTENT, every)) <= {FileContent.DATA} else ()
        self.data_files += len(data)
        self.records += sum(map(_RECORDS, data))
        self.bytes += sum(map(_BYTES, data))
        specs = set(map(_SPEC, data))
        for spec_id in specs:
            own = data if len(specs) == 1 else [file for file in data if file.spec_id == spec_id]
            self.partitions[spec_id].update(_with_one_nan(set(map(_PARTITION, own))))
        if not data:
            for file in every:
                self._add(file)

    def _add(self, file: DataFile) -> None:
        # Of a Puffin file that holds many deletion vectors, each counts its own part.
        is_part = file.content_size_in_bytes is not None and is_deletion_vector(file)
        self.bytes += (file.content_size_in_bytes or 0) if is_part else file.file_size_in_bytes
        self.partitions[file.spec_id].update(_with_one_nan((file.partition,)))
        if file.content == FileContent.DATA:
            self.data_files += 1
            self.records += file.record_count
        elif file.content == FileContent.EQUALITY_DELETES:
            self.equality_delete_files += 1
            self.equality_deletes += file.record_count
        else:
            self.position_deletes += file.record_count
            if is_deletion_vector(file):
                self.deletion_vectors += 1
            else:
                self.position_delete_files += 1

    @property
    def delete_files(self) -> int:
        """Deletion vectors are delete files too. Spec: Appendix F."""
        return self.position_delete_files + self.deletion_vectors + self.equality_delete_files


def _with_one_nan(partitions: Collection[tuple[Any, ...]]) -> Collection[tuple[Any, ...]]:
    if float not in set(map(type, chain.from_iterable(partitions))):
        return partitions
    return [tuple(_NAN if value != value else value for value in values) for values in partitions]  # noqa: PLR0124  NaN


def count_of(text: str | None) -> int | None:
    """Return the count that a text of a summary gives; None without one, and for a text that is no long, which others may have written."""
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > _LARGEST_TOTAL_DIGITS:
        return None
    return int(text)


def build_summary(
    operation: str,
    *,
    added: Iterable[DataFile] = (),
    deleted: Iterable[DataFile] = (),
    previous: Mapping[str, str] | None,
    extra: Mapping[str, str] | None = None,
    partition_path: Callable[[int, tuple[Any, ...]], str] | None = None,
) -> dict[str, str]:
    """The summary of a snapshot that adds and removes these files.

    `operation` is `append`, `replace`, `overwrite` or `delete`. `previous` is the parent's summary, None for the first snapshot of a table. A total that the
    parent does not give, or gives wrongly, is left out, since it cannot be known without reading every manifest. `extra` are further keys, such as those an
    engine or a user sets; keys that are counted here are not taken from it. Counts of 0 are left out, but for totals. Partitions are told apart by
    `partition_path`, as Java does, where files of several specs change: two specs can give one folder.
    Spec: Appendix F, Snapshot Summary Fields.
    """
    plus, minus = _Tally(), _Tally()
    plus.add_all(added)
    minus.add_all(deleted)
    counts = {
        "added-data-files": plus.data_files,
        "deleted-data-files": minus.data_files,
        "added-delete-files": plus.delete_files,
        "removed-delete-files": minus.delete_files,
        "added-equality-delete-files": plus.equality_delete_files,
        "removed-equality-delete-files": minus.equality_delete_files,
        "added-position-delete-files": plus.position_delete_files,
        "removed-position-delete-files": minus.position_delete_files,
        "added-dvs": plus.deletion_vectors,
        "removed-dvs": minus.deletion_vectors,
        "added-records": plus.records,
        "deleted-records": minus.records,
        "added-files-size": plus.bytes,
        "removed-files-size": minus.bytes,
        "added-position-deletes": plus.position_deletes,
        "removed-position-deletes": minus.position_deletes,
        "added-equality-deletes": plus.equality_deletes,
        "removed-equality-deletes": minus.equality_deletes,
    }
    ours = {"operation", "changed-partition-count", *counts, *(key for key, _, _ in _TOTALS)}
    return {
        "operation": operation,
        **{key: text for key, text in (extra or {}).items() if key not in ours},
        **{key: str(count) for key, count in counts.items() if count},
        "changed-partition-count": str(_changed_partitions(plus.partitions, minus.partitions, partition_path)),
        **_totals(counts, previous),
    }


def _changed_partitions(plus: _Partitions, minus: _Partitions, partition_path: Callable[[int, tuple[Any, ...]], str] | None) -> int:
    changed = {spec_id: plus.get(spec_id, set()) | minus.get(spec_id, set()) for spec_id in {*plus, *minus}}
    if partition_path is None or len(changed) < 2:
        return sum(map(len, changed.values()))
    return len({partition_path(spec_id, values) for spec_id, partitions in changed.items() for values in partitions})


def _totals(counts: Mapping[str, int], previous: Mapping[str, str] | None) -> dict[str, str]:
    found = {}
    for key, grows_by, shrinks_by in _TOTALS:
        before = "0" if previous is None else previous.get(key)
        total = count_of(before)
        if total is None:
            continue
        after = total + counts[grows_by] - counts[shrinks_by]
        if after >= 0:  # less means the parent's total was wrong
            found[key] = str(after)
    return found
