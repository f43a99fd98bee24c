"""`ManifestFile`: one entry of a manifest list, and the summaries of partition values it carries.

Reading and writing whole lists is `read.py` and `write.py`. Spec: Manifest Lists.
"""

from dataclasses import dataclass
from enum import IntEnum

# The sequence number of a manifest that the commit at hand has just written; writing the manifest list puts the
# commit's own number in its place.
UNASSIGNED_SEQ = -1


class ManifestContent(IntEnum):
    """What a manifest tracks (field 517). Spec: Manifest Lists."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class PartitionFieldSummary:
    """Which values one partition field takes over a manifest's files (record `r508`).

    The bounds are in single-value form of the partition field's result type, and leave out null and NaN. `contains_nan` is None
    where the writer did not say.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest as its manifest list describes it. A count of None means not known, and is to be taken as not zero."""

    manifest_path: str
    manifest_length: int
    partition_spec_id: int
    added_snapshot_id: int
    content: ManifestContent = ManifestContent.DATA
    sequence_number: int = 0
    min_sequence_number: int = 0
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[PartitionFieldSummary, ...] | None = None
    key_metadata: bytes | None = None
    # The row id of the first row of the manifest's first data file without one; None for delete manifests and before v3 (field 520).
    first_row_id: int | None = None

    @property
    def has_added_files(self) -> bool:
        return self.added_files_count is None or self.added_files_count > 0

    @property
    def has_existing_files(self) -> bool:
        return self.existing_files_count is None or self.existing_files_count > 0

    @property
    def has_deleted_files(self) -> bool:
        return self.deleted_files_count is None or self.deleted_files_count > 0

    @property
    def has_live_files(self) -> bool:
        """Whether a scan has to open this manifest, going by the counts alone."""
        return self.has_added_files or self.has_existing_files
