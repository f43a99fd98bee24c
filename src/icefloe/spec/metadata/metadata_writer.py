"""The writer of metadata JSON: it returns the bytes of a metadata file for table metadata, as its format version requires.

Entries that were read and not changed are written with the bytes that they were read from. Parts that successive versions share are compressed only once
(`json_text.py`). Keys are in Java's order, with which users are familiar.

Spec: Table Metadata Fields; Appendix C; Appendix E (writing v1 metadata); Appendix C, Table Metadata and Snapshots; Writer requirements.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from icefloe.errors import InvalidInputError
from icefloe.spec.metadata.document_validation import NO_SNAPSHOT_ID
from icefloe.spec.metadata.json_text import JsonText, gzip_parts, plain
from icefloe.spec.metadata.raw_entries import RawEntries
from icefloe.spec.metadata.snapshot_ref import snapshot_ref_to_json
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import Part

# The text between the entries of a list.
_BEFORE, _BETWEEN, _AFTER, _EMPTY = (JsonText(text) for text in (b"[", b",", b"]", b"[]"))


def write_table_metadata(metadata: TableMetadata, *, gzip: bool = False) -> bytes:
    """Return the bytes of the metadata file. Raises the errors of `table_metadata_parts`."""
    return b"".join(table_metadata_parts(metadata, gzip=gzip))


def table_metadata_parts(metadata: TableMetadata, *, gzip: bool = False) -> list[Part]:
    """Return the bytes of the metadata file as a list of buffers, to be written one after the other.

    Buffers of parts that did not change are the same objects as for the previous version. Those of a large uncompressed file are whole pages of memory.

    Raises:
        InvalidInputError: a table of version 2 or 3 has no `table-uuid`.

    Spec: Table Metadata Fields.
    """
    if metadata.format_version > 1 and metadata.table_uuid is None:
        raise InvalidInputError(
            f"a table of format version {metadata.format_version} must have a uuid; assign one before writing its metadata"
        )
    parts = _json_parts(metadata_to_json(metadata))
    return gzip_parts(parts) if gzip else plain(parts)


def _json_parts(document: Mapping[str, Any]) -> list[JsonText]:
    """Return the JSON of the metadata in parts. The parts of lists are shared with other versions of the table."""
    parts: list[JsonText] = []
    for key, value in document.items():
        parts.append(JsonText((b"," if parts else b"{") + msgspec.json.encode(key) + b":"))
        if isinstance(value, RawEntries):
            for number, text in enumerate(value.texts()):
                parts += (_BETWEEN if number else _BEFORE, text)
            parts.append(_AFTER if len(value) else _EMPTY)
        else:
            parts.append(JsonText(msgspec.json.encode(value)))
    return [*parts, JsonText(b"}")]


def metadata_to_json(metadata: TableMetadata) -> dict[str, Any]:
    """Return the top level of the metadata file: its lists as `RawEntries`, other values as objects that msgspec can write."""
    is_v1 = metadata.format_version == 1
    document: dict[str, Any] = {"format-version": metadata.format_version}
    if metadata.table_uuid is not None:
        document["table-uuid"] = metadata.table_uuid
    document["location"] = metadata.location
    if not is_v1:
        document["last-sequence-number"] = metadata.last_sequence_number
    document["last-updated-ms"] = metadata.last_updated_ms
    document["last-column-id"] = metadata.last_column_id
    if is_v1:
        document["schema"] = metadata.schemas.raw(metadata.current_schema_id)
    document["current-schema-id"] = metadata.current_schema_id
    document["schemas"] = metadata.schemas
    if is_v1:
        document["partition-spec"] = msgspec.json.decode(metadata.partition_specs.raw(metadata.default_spec_id))["fields"]
    document["default-spec-id"] = metadata.default_spec_id
    document["partition-specs"] = metadata.partition_specs
    document["last-partition-id"] = metadata.last_partition_id
    document["default-sort-order-id"] = metadata.default_sort_order_id
    document["sort-orders"] = metadata.sort_orders
    document["properties"] = dict(metadata.properties)
    if metadata.current_snapshot_id is not None:
        document["current-snapshot-id"] = metadata.current_snapshot_id
    elif is_v1:
        document["current-snapshot-id"] = NO_SNAPSHOT_ID
    elif metadata.format_version > 2:
        document["current-snapshot-id"] = (
            None  # null, as Java writes from version 3 on. Spec: Assignment of Snapshot IDs and `current-snapshot-id`
        )
    if metadata.format_version > 2:
        document["next-row-id"] = metadata.next_row_id
    if len(metadata.encryption_keys):
        document["encryption-keys"] = metadata.encryption_keys
    # The specification does not have references in version 1, but Java writes them in version 1 too, and leaving them out would lose tags.
    document["refs"] = {name: snapshot_ref_to_json(ref) for name, ref in metadata.refs.items()}
    document["snapshots"] = metadata.snapshots
    document["statistics"] = metadata.statistics
    document["partition-statistics"] = metadata.partition_statistics
    document["snapshot-log"] = metadata.snapshot_log
    document["metadata-log"] = metadata.metadata_log
    return document | {key: raw for key, raw in metadata.unknown.items() if key not in document}
