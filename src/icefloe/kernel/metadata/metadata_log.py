"""The metadata log of a new version: the replaced metadata file is added, the oldest entries are dropped.

Spec: Table Metadata Fields (`metadata-log`).
"""

from dataclasses import replace

from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.table_history import MetadataLogEntry
from icefloe.kernel.metadata.table_metadata import TableMetadata


def with_metadata_log(metadata: TableMetadata, previous_location: str | None, previous_updated_ms: int) -> TableMetadata:
    """Add the replaced metadata file to the metadata log, and cut the log to `write.metadata.previous-versions-max` entries (at least one).

    Args:
        metadata: The new version.
        previous_location: Location of the replaced metadata file; None for a table's first version, which has no log.
        previous_updated_ms: `last_updated_ms` of the replaced version.
    """
    if previous_location is None:
        return metadata
    max_entries = max(1, table_properties.METADATA_PREVIOUS_VERSIONS_MAX.read(metadata.properties))
    log = metadata.metadata_log.without_first(len(metadata.metadata_log) + 1 - max_entries)
    return replace(metadata, metadata_log=log.appended(MetadataLogEntry(previous_updated_ms, previous_location)))


def dropped_metadata_files(before: TableMetadata, after: TableMetadata) -> tuple[str, ...]:
    """Return the metadata files that left the log: those that `write.metadata.delete-after-commit.enabled` deletes."""
    remaining_files = {entry.metadata_file for entry in after.metadata_log}
    return tuple(entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in remaining_files)
