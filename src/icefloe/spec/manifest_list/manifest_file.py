"""`ManifestFile`: one entry of a manifest list, with its summaries of partition values.

`manifest_list_reader.py` and `manifest_list_writer.py` read and write whole lists. Spec: Manifest Lists.
"""

from dataclasses import dataclass
from enum import IntEnum

# The sequence number of a manifest that the commit in progress has written. The writer of the manifest list replaces it by the sequence number of the commit.
UNASSIGNED_SEQ = -1


class ManifestContent(IntEnum):
    """The kind of files that a manifest tracks (field 517). Spec: Manifest Lists."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True)
class PartitionFieldSummary:
    """A summary of the values that one partition field has in the files of a manifest (record `r508`).

    The bounds are in single-value serialization of the partition field's result type, and do not cover null and NaN. `contains_nan` is None if the writer left
    it out.
    """

    contains_null: bool
    contains_nan: bool | None = None
    lower_bound: bytes | None = None
    upper_bound: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A manifest as described in its manifest list. A count of None is unknown; such a manifest may have files."""

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
    # The row id of the first row of the first data file in the manifest that has no first row id itself; None for delete manifests and before version 3 (field
    # 520).
    first_row_id: int | None = None

    @property
    def has_added_files(self) -> bool:
        """Whether the manifest may have entries of status ADDED."""
        return self.added_files_count is None or self.added_files_count > 0

    @property
    def has_existing_files(self) -> bool:
        """Whether the manifest may have entries of status EXISTING."""
        return self.existing_files_count is None or self.existing_files_count > 0

    @property
    def has_deleted_files(self) -> bool:
        """Whether the manifest may have entries of status DELETED."""
        return self.deleted_files_count is None or self.deleted_files_count > 0

    @property
    def has_live_files(self) -> bool:
        """Whether the manifest may have live entries, of status ADDED or EXISTING."""
        return self.has_added_files or self.has_existing_files

    @property
    def live_files_count(self) -> int:
        """Number of live files according to the counts; unknown counts are 0."""
        return (self.added_files_count or 0) + (self.existing_files_count or 0)

    @property
    def live_rows_count(self) -> int:
        """Number of rows in live files according to the counts; unknown counts are 0."""
        return (self.added_rows_count or 0) + (self.existing_rows_count or 0)
