"""`StatisticsFile` and `PartitionStatisticsFile`: records in table metadata of files with further statistics of a snapshot, which readers may ignore.

The files themselves are read elsewhere: a statistics file is a Puffin file (`spec/puffin`), a partition statistics file is a data file with rows.
Spec: Table Statistics; Partition Statistics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.spec.metadata.raw_entries import EntryKind
from icefloe.spec.schema.json_shape import Key, a_long, a_string, an_array, an_int, array_of, object_problems, refuse, strings_by_name

_FILE_KEYS = (
    Key("snapshot-id", a_long),
    Key("statistics-path", a_string),
    Key("file-size-in-bytes", a_long),
    Key("file-footer-size-in-bytes", a_long),
    Key("key-metadata", a_string, required=False),
    Key("blob-metadata", an_array),
)
_BLOB_KEYS = (
    Key("type", a_string),
    Key("snapshot-id", a_long),
    Key("sequence-number", a_long),
    Key("fields", array_of(an_int)),
    Key("properties", strings_by_name, required=False),
)
_PARTITION_FILE_KEYS = (Key("snapshot-id", a_long), Key("statistics-path", a_string), Key("file-size-in-bytes", a_long))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsBlob:
    """The metadata of one blob of a statistics file, as in the footer of the Puffin file, without the position of the blob.

    Attributes:
        type: Type of the blob.
        snapshot_id: Snapshot that the statistic was computed from; it may be older than the snapshot of the file.
        sequence_number: Sequence number of that snapshot.
        fields: Ids of the columns that the statistic was computed from, in order.
        properties: Further properties of the blob.
    """

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """A Puffin file with statistics of one snapshot. `file_footer_size_in_bytes` is the size of the whole footer; `key_metadata` is base64 text."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: tuple[StatisticsBlob, ...] = ()
    key_metadata: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatisticsFile:
    """A partition statistics file: a data file with one row of counts for each partition of one snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int


def statistics_file_to_json(file: StatisticsFile) -> dict[str, Any]:
    """Return a statistics file as a JSON object. Spec: Table Statistics."""
    file_json: dict[str, Any] = {
        "snapshot-id": file.snapshot_id,
        "statistics-path": file.statistics_path,
        "file-size-in-bytes": file.file_size_in_bytes,
        "file-footer-size-in-bytes": file.file_footer_size_in_bytes,
    }
    if file.key_metadata is not None:
        file_json["key-metadata"] = file.key_metadata
    file_json["blob-metadata"] = [_blob_to_json(blob) for blob in file.blob_metadata]
    return file_json


def statistics_file_from_json(value: Any, path: str = "$") -> StatisticsFile:
    """Return the statistics file that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
    """
    problems = list(object_problems(value, path, _FILE_KEYS))
    blobs = value.get("blob-metadata") if isinstance(value, Mapping) else None
    for position, blob in enumerate(blobs if isinstance(blobs, list | tuple) else ()):
        problems += object_problems(blob, f"{path}.blob-metadata[{position}]", _BLOB_KEYS)
    refuse(problems, "the statistics file")
    return StatisticsFile(
        snapshot_id=value["snapshot-id"],
        statistics_path=value["statistics-path"],
        file_size_in_bytes=value["file-size-in-bytes"],
        file_footer_size_in_bytes=value["file-footer-size-in-bytes"],
        key_metadata=value.get("key-metadata"),
        blob_metadata=tuple(_blob(blob) for blob in value["blob-metadata"]),
    )


def partition_statistics_file_to_json(file: PartitionStatisticsFile) -> dict[str, Any]:
    """Return a partition statistics file as a JSON object. Spec: Partition Statistics."""
    return {
        "snapshot-id": file.snapshot_id,
        "statistics-path": file.statistics_path,
        "file-size-in-bytes": file.file_size_in_bytes,
    }


def partition_statistics_file_from_json(value: Any, path: str = "$") -> PartitionStatisticsFile:
    """Return the partition statistics file that parsed JSON describes.

    Raises:
        MetadataFormatError: every problem, with its JSON path below `path`.
    """
    refuse(list(object_problems(value, path, _PARTITION_FILE_KEYS)), "the partition statistics file")
    return PartitionStatisticsFile(
        snapshot_id=value["snapshot-id"], statistics_path=value["statistics-path"], file_size_in_bytes=value["file-size-in-bytes"]
    )


def _blob_to_json(blob: StatisticsBlob) -> dict[str, Any]:
    blob_json: dict[str, Any] = {
        "type": blob.type,
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "fields": list(blob.fields),
    }
    return {**blob_json, "properties": dict(blob.properties)} if blob.properties else blob_json


def _blob(value: Mapping[str, Any]) -> StatisticsBlob:
    return StatisticsBlob(
        type=value["type"],
        snapshot_id=value["snapshot-id"],
        sequence_number=value["sequence-number"],
        fields=tuple(value["fields"]),
        properties=value.get("properties") or {},
    )


STATISTICS = EntryKind("statistics", statistics_file_from_json, statistics_file_to_json, id_key="snapshot-id")
PARTITION_STATISTICS = EntryKind(
    "partition-statistics", partition_statistics_file_from_json, partition_statistics_file_to_json, id_key="snapshot-id"
)
