"""`ManifestEntry`: a file with its status in one manifest.

Inheritance of the numbers is `inheritance.py`. Spec: Manifests.
"""

from dataclasses import dataclass
from enum import IntEnum

from icefloe.kernel.manifest.data_file import DataFile


class ManifestEntryStatus(IntEnum):
    """What a manifest says about a file (field 0)."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One entry. One that was read has inherited its numbers; None in one to be written means that readers are to inherit it.

    `sequence_number` is the data sequence number, which decides which deletes apply; `file_sequence_number` tells which commit
    added the file.
    """

    status: ManifestEntryStatus
    snapshot_id: int | None
    sequence_number: int | None
    file_sequence_number: int | None
    data_file: DataFile

    @property
    def is_live(self) -> bool:
        """Whether the file is part of the snapshot: added or existing."""
        return self.status != ManifestEntryStatus.DELETED
