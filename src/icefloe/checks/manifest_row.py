"""`ManifestRow`: one entry of a manifest list with its stored values, without defaults."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from icefloe.spec.avro.avro_columns import read_batches
from icefloe.spec.avro.avro_container import open_container
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile, PartitionFieldSummary
from icefloe.spec.manifest_list.manifest_list_schema import MANIFEST_FILE_FIELDS


class ManifestRow(NamedTuple):
    """The values of one entry of a manifest list, in the order of `MANIFEST_FILE_FIELDS`; None for a missing value. Each partition summary is a tuple."""

    manifest_path: bytes | None
    manifest_length: int | None = None
    partition_spec_id: int | None = None
    content: int | None = None
    sequence_number: int | None = None
    min_sequence_number: int | None = None
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    added_rows_count: int | None = None
    existing_rows_count: int | None = None
    deleted_rows_count: int | None = None
    partitions: tuple[tuple[Any, ...], ...] | None = None
    key_metadata: bytes | None = None
    first_row_id: int | None = None

    def manifest_file(self, path: str, spec_id: int) -> ManifestFile:
        """Return the entry as the reader of manifests needs it, with the defaults of version 1.

        Args:
            path: The location of the manifest.
            spec_id: The id of its partition spec.
        """
        return ManifestFile(
            manifest_path=path,
            manifest_length=self.manifest_length or 0,
            partition_spec_id=spec_id,
            content=ManifestContent(self.content or 0),
            sequence_number=self.sequence_number or 0,
            min_sequence_number=self.min_sequence_number or 0,
            added_snapshot_id=self.added_snapshot_id or 0,
            added_files_count=self.added_files_count,
            existing_files_count=self.existing_files_count,
            deleted_files_count=self.deleted_files_count,
            added_rows_count=self.added_rows_count,
            existing_rows_count=self.existing_rows_count,
            deleted_rows_count=self.deleted_rows_count,
            partitions=None if self.partitions is None else tuple(PartitionFieldSummary(*summary) for summary in self.partitions),
            key_metadata=self.key_metadata,
            first_row_id=self.first_row_id,
        )


def read_rows(content: bytes, path: str) -> Iterator[ManifestRow]:
    """Yield the entries of a manifest list as they are stored, in the order of the file.

    Raises:
        AvroFormatError: The file is damaged, or its schema lacks a required field.
    """
    for batch in read_batches(open_container(content, path), MANIFEST_FILE_FIELDS):
        yield from map(ManifestRow._make, zip(*batch.values(), strict=True))
