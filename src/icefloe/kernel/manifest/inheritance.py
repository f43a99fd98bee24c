"""The numbers that entries leave out and take from their manifest's line in the manifest list.

Spec: Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.kernel.arrow_values import chunks_of, numbers_array, scalar_of
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest_list.manifest_file import UNASSIGNED_SEQ, ManifestContent, ManifestFile


class Origin(NamedTuple):
    """Which manifest each row of some columns is from: as many of the first as its count says, then those of the next."""

    manifests: Sequence[ManifestFile]
    counts: Sequence[int]

    def spread(self, values: Iterable[int]) -> Any:
        """A number of each manifest as an Arrow array (int64) of one a row."""
        return numbers_array(np.repeat(np.fromiter(values, np.int64, len(self.counts)), self.counts), pa.int64())

    def slices(self) -> Iterator[tuple[ManifestFile, slice]]:
        """The rows of each manifest."""
        start = 0
        for manifest, count in zip(self.manifests, self.counts, strict=True):
            yield manifest, slice(start, start + count)
            start += count


def inherit_snapshot_ids(snapshot_ids: Any, origin: Origin) -> Any:
    """Where an entry (Arrow int64) names no snapshot, it is the one that added the manifest."""
    if not snapshot_ids.null_count:
        return snapshot_ids
    return pc.coalesce(snapshot_ids, origin.spread(manifest.added_snapshot_id for manifest in origin.manifests))


def inherit_sequence_numbers(statuses: Any, numbers: Any, origin: Origin) -> Any:
    """Where status is ADDED and the number (Arrow int64) null, the manifest's.

    Manifests from before v2 have no such column: their list says 0, and every entry takes that. An EXISTING or DELETED entry
    without a number in a later manifest breaks the spec; nothing is guessed for it, and it stays null.
    """
    if not numbers.null_count:
        return numbers
    own = origin.spread(manifest.sequence_number for manifest in origin.manifests)
    takes = pc.equal(statuses, scalar_of(int(ManifestEntryStatus.ADDED), statuses.type))
    if any(manifest.sequence_number == 0 for manifest in origin.manifests):
        takes = pc.or_(takes, pc.equal(own, scalar_of(0, pa.int64())))
    return pc.if_else(pc.and_(pc.is_null(numbers), takes), own, numbers)


def inherited_sequence_number(status: int, number: int | None, manifest: ManifestFile) -> int | None:
    """The same for one entry."""
    if number is None and (status == ManifestEntryStatus.ADDED or manifest.sequence_number == 0):
        return manifest.sequence_number
    return number


def inherit_first_row_ids(statuses: Any, record_counts: Any, first_row_ids: Any, origin: Origin) -> Any:
    """Where a live data file has no first row id (Arrow int64): the manifest's, plus the records of all such files before it.

    DELETED entries without one neither get one nor count, for the manifest list reserved row ids for added and existing rows only; Java reads them so too.
    Under a manifest without a first row id, as all before v3 and all delete manifests are, no file has one; but one that a commit has just written, and that
    its manifest list gives a first row id, keeps those that it holds.

    Raises:
        pyarrow.ArrowInvalid: the records are more than a long can count.
    """
    if not any(_assigns_row_ids(manifest) or _is_uncommitted(manifest) for manifest in origin.manifests):
        return pa.nulls(len(first_row_ids), pa.int64())
    is_live = pc.not_equal(statuses, scalar_of(int(ManifestEntryStatus.DELETED), statuses.type))
    inherits = pc.and_(pc.is_null(first_row_ids), is_live)
    rows = pc.if_else(inherits, record_counts, scalar_of(0, pa.int64()))
    found = []
    for manifest, part in origin.slices():
        own = rows[part]
        if _assigns_row_ids(manifest):
            with_these = pc.cumulative_sum_checked(own, start=scalar_of(manifest.first_row_id, pa.int64()))
            found.append(pc.if_else(inherits[part], pc.subtract(with_these, own), first_row_ids[part]))
        else:
            found.append(first_row_ids[part] if _is_uncommitted(manifest) else pa.nulls(len(own), pa.int64()))
    return pa.chunked_array([chunk for array in found for chunk in chunks_of(array)], pa.int64())


def first_row_id_reader(manifest: ManifestFile) -> Callable[[int, int, int | None], int | None]:
    """The same for entries one by one: to be called in file order with status, record count and first row id."""
    if not _assigns_row_ids(manifest):
        is_uncommitted = _is_uncommitted(manifest)
        return lambda _, __, own: own if is_uncommitted else None
    following = manifest.first_row_id or 0

    def read(status: int, record_count: int, own: int | None) -> int | None:
        nonlocal following
        if own is not None or status == ManifestEntryStatus.DELETED:
            return own
        assigned = following
        following += record_count
        return assigned

    return read


def _assigns_row_ids(manifest: ManifestFile) -> bool:
    return manifest.content == ManifestContent.DATA and manifest.first_row_id is not None


def _is_uncommitted(manifest: ManifestFile) -> bool:
    """Whether it is a data manifest that the commit at hand wrote, and no list names yet."""
    return manifest.content == ManifestContent.DATA and manifest.sequence_number == UNASSIGNED_SEQ
