"""The inheritance of numbers: entries without a snapshot id, sequence number or first row id get it from the record of their manifest in the manifest list.

Spec: Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.spec.arrow_values import chunks_of, null_longs, numbers_array, numpy_of, scalar_of
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile


class Origin(NamedTuple):
    """The manifests that the rows of a table come from, in order, and the number of adjacent rows from each manifest."""

    manifests: Sequence[ManifestFile]
    counts: Sequence[int]

    def spread(self, values: Iterable[int]) -> Any:
        """Return an Arrow array (int64) with one number for each row: the number that `values` has for the row's manifest."""
        return numbers_array(np.repeat(np.fromiter(values, np.int64, len(self.counts)), self.counts), pa.int64())

    def slices(self) -> Iterator[tuple[ManifestFile, slice]]:
        """Yield pairs of a manifest and the slice of its rows in the table."""
        start = 0
        for manifest, count in zip(self.manifests, self.counts, strict=True):
            yield manifest, slice(start, start + count)
            start += count


def inherit_snapshot_ids(snapshot_ids: Any, origin: Origin) -> Any:
    """Replace null snapshot ids of entries (Arrow int64) by the snapshot that added the manifest."""
    if not snapshot_ids.null_count:
        return snapshot_ids
    return pc.coalesce(snapshot_ids, origin.spread(manifest.added_snapshot_id for manifest in origin.manifests))


def inherit_sequence_numbers(statuses: Any, numbers: Any, origin: Origin) -> Any:
    """Replace null sequence numbers (Arrow int64) of ADDED entries by the manifest's.

    Manifests from before version 2 do not have this column. Their sequence number in the list is 0, and every entry inherits it. In later manifests an EXISTING
    or DELETED entry without a number violates the specification; its number stays null.
    """
    if not numbers.null_count:
        return numbers
    of_manifest = origin.spread(manifest.sequence_number for manifest in origin.manifests)
    if numbers.null_count == len(numbers) and (numpy_of(statuses) == int(ManifestEntryStatus.ADDED)).all():
        return of_manifest
    inherits = pc.equal(statuses, scalar_of(int(ManifestEntryStatus.ADDED), statuses.type))
    if any(manifest.sequence_number == 0 for manifest in origin.manifests):
        inherits = pc.or_(inherits, pc.equal(of_manifest, scalar_of(0, pa.int64())))
    return pc.if_else(pc.and_(pc.is_null(numbers), inherits), of_manifest, numbers)


def inherited_sequence_number(status: int, number: int | None, manifest: ManifestFile) -> int | None:
    """Return the sequence number of one entry, by the rule of `inherit_sequence_numbers`."""
    if number is None and (status == ManifestEntryStatus.ADDED or manifest.sequence_number == 0):
        return manifest.sequence_number
    return number


def inherit_first_row_ids(statuses: Any, record_counts: Any, first_row_ids: Any, origin: Origin) -> Any:
    """Replace the null first row ids (Arrow int64) of live data files by the manifest's first row id plus the number of records of all such files before them.

    A DELETED entry without a first row id gets none, and its records do not count, because the manifest list reserved row ids only for added and existing rows;
    Java does the same. If the manifest has no first row id, as before version 3 and for delete manifests, the files get none either. In a manifest of the
    commit in progress, ids stay as they are, because its manifest list assigns the manifest's first row id later.

    Raises:
        pyarrow.ArrowInvalid: the number of records overflows a long.
    """
    if not any(_assigns_row_ids(manifest) or _is_uncommitted(manifest) for manifest in origin.manifests):
        return null_longs(len(first_row_ids))
    is_live = pc.not_equal(statuses, scalar_of(int(ManifestEntryStatus.DELETED), statuses.type))
    inherits = pc.and_(pc.is_null(first_row_ids), is_live)
    rows = pc.if_else(inherits, record_counts, scalar_of(0, pa.int64()))
    ids_by_manifest = []
    for manifest, part in origin.slices():
        row_counts = rows[part]
        if _assigns_row_ids(manifest):
            ends = pc.cumulative_sum_checked(row_counts, start=scalar_of(manifest.first_row_id, pa.int64()))
            ids_by_manifest.append(pc.if_else(inherits[part], pc.subtract(ends, row_counts), first_row_ids[part]))
        else:
            ids_by_manifest.append(first_row_ids[part] if _is_uncommitted(manifest) else pa.nulls(len(row_counts), pa.int64()))
    return pa.chunked_array([chunk for array in ids_by_manifest for chunk in chunks_of(array)], pa.int64())


def first_row_id_reader(manifest: ManifestFile) -> Callable[[int, int, int | None], int | None]:
    """Return a function that computes the first row ids of `inherit_first_row_ids` for one entry after the other.

    It must be called for every entry of the manifest, in file order, with the entry's status, record count and first row id, and returns the first row id.
    """
    if not _assigns_row_ids(manifest):
        is_uncommitted = _is_uncommitted(manifest)
        return lambda _, __, stored_id: stored_id if is_uncommitted else None
    next_row_id = manifest.first_row_id or 0

    def read(status: int, record_count: int, stored_id: int | None) -> int | None:
        nonlocal next_row_id
        if stored_id is not None or status == ManifestEntryStatus.DELETED:
            return stored_id
        assigned = next_row_id
        next_row_id += record_count
        return assigned

    return read


def _assigns_row_ids(manifest: ManifestFile) -> bool:
    return manifest.content == ManifestContent.DATA and manifest.first_row_id is not None


def _is_uncommitted(manifest: ManifestFile) -> bool:
    """Return True for a data manifest of the commit in progress, which no manifest list contains yet."""
    return manifest.content == ManifestContent.DATA and manifest.sequence_number == UNASSIGNED_SEQ
