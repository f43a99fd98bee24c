"""`ManifestEntry`: a file with its status in one manifest.

Inheritance of the numbers is in `inheritance.py`. Spec: Manifests.
"""

from dataclasses import dataclass
from enum import IntEnum

from icefloe.spec.manifest.data_file import DataFile


class ManifestEntryStatus(IntEnum):
    """The status of a file in a manifest (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One entry of a manifest. An entry that was read has inherited its numbers already; in an entry to write, None means that readers inherit the number.

    Attributes:
        status: Whether the manifest's commit added or deleted the file, or neither.
        snapshot_id: Snapshot that added the file; with status DELETED, the snapshot that deleted it.
        sequence_number: Data sequence number, which decides which deletes apply.
        file_sequence_number: Sequence number of the commit that added the file.
        data_file: The file.
    """

    status: ManifestEntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Return True if the file is part of the snapshot: added or existing."""
        return self.status != ManifestEntryStatus.DELETED
