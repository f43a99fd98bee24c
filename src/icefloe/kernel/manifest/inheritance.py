"""The numbers that entries leave out and take from their manifest's line in the manifest list.

Floor: kernel.manifest. Spec: Sequence Number Inheritance; First Row ID Inheritance.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.kernel.arrow_values import filled, scalar_of
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile


def inherit_snapshot_ids(snapshot_ids: Any, manifest: ManifestFile) -> Any:
    """Where an entry (Arrow int64) names no snapshot, it is the one that added the manifest."""
    return filled(snapshot_ids, manifest.added_snapshot_id)


def inherit_sequence_numbers(statuses: Any, numbers: Any, manifest: ManifestFile) -> Any:
    """Where status is ADDED and the number (Arrow int64) null, the manifest's.

    Manifests from before v2 have no such column: their list says 0, and every entry takes that. An EXISTING or DELETED entry
    without a number in a later manifest breaks the spec; nothing is guessed for it, and it stays null.
    """
    if manifest.sequence_number == 0:
        return filled(numbers, 0)
    inherits = pc.and_(pc.is_null(numbers), pc.equal(statuses, scalar_of(int(ManifestEntryStatus.ADDED), statuses.type)))
    return pc.if_else(inherits, scalar_of(manifest.sequence_number, numbers.type), numbers)


def inherited_sequence_number(status: int, number: int | None, manifest: ManifestFile) -> int | None:
    """The same for one entry."""
    if number is None and (status == ManifestEntryStatus.ADDED or manifest.sequence_number == 0):
        return manifest.sequence_number
    return number


def inherit_first_row_ids(statuses: Any, record_counts: Any, first_row_ids: Any, manifest: ManifestFile) -> Any:
    """Where a live data file has no first row id (Arrow int64): the manifest's, plus the records of all such files before it.

    DELETED entries without one neither get one nor count, for the manifest list reserved row ids for added and existing rows only; Java reads them so too.
    Under a manifest without a first row id, as all before v3 and all delete manifests are, no file has one.

    Raises:
        pyarrow.ArrowInvalid: the records are more than a long can count.
    """
    if not _assigns_row_ids(manifest):
        return pa.nulls(len(first_row_ids), pa.int64())
    is_live = pc.not_equal(statuses, scalar_of(int(ManifestEntryStatus.DELETED), statuses.type))
    inherits = pc.and_(pc.is_null(first_row_ids), is_live)
    rows = pc.if_else(inherits, record_counts, scalar_of(0, pa.int64()))
    with_these = pc.cumulative_sum_checked(rows, start=scalar_of(manifest.first_row_id, pa.int64()))
    return pc.if_else(inherits, pc.subtract(with_these, rows), first_row_ids)


def first_row_id_reader(manifest: ManifestFile) -> Callable[[int, int, int | None], int | None]:
    """The same for entries one by one: to be called in file order with status, record count and first row id."""
    if not _assigns_row_ids(manifest):
        return lambda *_: None
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
