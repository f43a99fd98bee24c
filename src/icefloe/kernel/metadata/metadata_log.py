"""The metadata log of a new version: the file before it is added, the oldest are dropped.

Spec: Table Metadata Fields (`metadata-log`).
"""

from dataclasses import replace

from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.table_history import MetadataLogEntry
from icefloe.kernel.metadata.table_metadata import TableMetadata


def with_metadata_log(metadata: TableMetadata, previous_location: str | None, previous_updated_ms: int) -> TableMetadata:
    """The metadata with the file it replaces in its log, cut to `write.metadata.previous-versions-max` entries (never below one).

    `previous_updated_ms` is the replaced version's `last_updated_ms`; `previous_location` None is a table's first version, which has no log.
    """
    if previous_location is None:
        return metadata
    most = max(1, table_properties.METADATA_PREVIOUS_VERSIONS_MAX.read(metadata.properties))
    log = metadata.metadata_log.without_first(len(metadata.metadata_log) + 1 - most)
    return replace(metadata, metadata_log=log.appended(MetadataLogEntry(previous_updated_ms, previous_location)))


def dropped_metadata_files(before: TableMetadata, after: TableMetadata) -> tuple[str, ...]:
    """Metadata files in the log of `before` and no longer in that of `after`: what `write.metadata.delete-after-commit.enabled` deletes."""
    kept = {entry.metadata_file for entry in after.metadata_log}
    return tuple(entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept)
