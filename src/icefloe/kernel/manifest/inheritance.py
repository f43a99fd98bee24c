"""The numbers that entries leave out and take from their manifest's line in the manifest list.

Floor: kernel.manifest. Spec: Sequence Number Inheritance.
"""

from typing import Any

import pyarrow.compute as pc

from icefloe.kernel.arrow_values import filled, scalar_of
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest_list.manifest_file import ManifestFile


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
