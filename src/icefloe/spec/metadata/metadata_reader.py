"""The parser of metadata JSON: it returns table metadata from the bytes of a metadata file.

A valid file is decoded quickly, and the entries of its lists stay bytes (`raw_entries.py`). For an invalid file, a full validation lists every problem
(`document_validation.py`). `json_file.py` handles gzip and damaged bytes. This module opens no files: the caller passes the bytes.

Spec: Table Metadata Fields; Appendix C; Appendix E (reading v1 metadata); Format Versioning; Version 4: Metadata Structure and Representation; Table Location
Specification; Appendix C, Table Metadata and Snapshots; Appendix F, Assignment of Snapshot IDs and `current-snapshot-id`; Writer requirements.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from icefloe.errors import FormatError, MetadataFormatError, Problem, UnsupportedError, UnsupportedFormatVersionError
from icefloe.spec.metadata.document_validation import DRAFT_VERSION, KNOWN_KEYS, LATEST_SUPPORTED_VERSION, NO_SNAPSHOT_ID, document_problems
from icefloe.spec.metadata.encrypted_key import ENCRYPTION_KEYS
from icefloe.spec.metadata.entry_kinds import PARTITION_SPECS, SCHEMAS, SORT_ORDERS
from icefloe.spec.metadata.invariants import every_problem_of, problems_of
from icefloe.spec.metadata.json_file import inflate, nested_too_deeply, parse_json, top_level
from icefloe.spec.metadata.raw_entries import EntryKind, RawEntries
from icefloe.spec.metadata.snapshot import SNAPSHOTS
from icefloe.spec.metadata.snapshot_ref import MAIN, SnapshotRef, snapshot_ref_from_json
from icefloe.spec.metadata.statistics_file import PARTITION_STATISTICS, STATISTICS
from icefloe.spec.metadata.table_history import METADATA_LOG, SNAPSHOT_LOG
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.partitioning.partition_spec import FIRST_PARTITION_FIELD_ID, fields_from_json
from icefloe.spec.schema.json_shape import MAX_LONG

_UNSORTED = msgspec.Raw(b'{"order-id":0,"fields":[]}')

# An Iceberg `long`. Larger numbers are refused here, because Avro fields and Arrow columns of the table could not represent them.
_Long = Annotated[int, msgspec.Meta(ge=-MAX_LONG - 1, le=MAX_LONG)]
_INT: msgspec.json.Decoder[int | None] = msgspec.json.Decoder(_Long | None)
_TEXT: msgspec.json.Decoder[str | None] = msgspec.json.Decoder(str | None)
_LIST: msgspec.json.Decoder[list[msgspec.Raw] | None] = msgspec.json.Decoder(list[msgspec.Raw] | None)
_OBJECT: msgspec.json.Decoder[dict[str, Any] | None] = msgspec.json.Decoder(dict[str, Any] | None)
_STRINGS: msgspec.json.Decoder[dict[str, str] | None] = msgspec.json.Decoder(dict[str, str] | None)


def read_table_metadata(content: bytes, path: str) -> TableMetadata:
    """Parse the bytes of a metadata file.

    Args:
        content: The file's bytes, plain or compressed with gzip.
        path: Location of the file, for messages.

    Raises:
        MetadataFormatError: the bytes are damaged (with the byte offset) or violate the rules of the format (every problem with its JSON path).
        UnsupportedFormatVersionError: the format version is above 3.

    Spec: Table Metadata Fields.
    """
    text = inflate(content, path)
    top = top_level(text, path)
    version = _supported_version(top, path)
    cause: Exception | None = None
    next_step: str | None = None
    try:
        metadata = _MetadataDecoder(top, path).metadata(version)
        problems = problems_of(metadata)
        if not problems:
            (
                metadata.schema(),
                metadata.spec(),
                metadata.sort_order(),
            )  # decoded at once, because every use needs them, so that their errors are raised here
            return metadata
    except UnsupportedError as error:
        error.path = path
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, FormatError) as error:
        cause, problems = error, []
        next_step = error.next_step if isinstance(error, FormatError) else None
    except RecursionError as error:
        raise nested_too_deeply(path) from error
    problems = document_problems(parse_json(text, path)) or problems or [Problem(where="$", what=str(cause))]
    raise MetadataFormatError(
        "the metadata file violates the rules of the format", path=path, problems=problems, next_step=next_step
    ) from cause


def check_table_metadata(content: bytes, path: str) -> list[Problem]:
    """Return every problem of a metadata file, including problems of entries that reading a table does not decode.

    Raises:
        MetadataFormatError: the bytes are not JSON at all.
        UnsupportedFormatVersionError: the format version is above 3.
    """
    try:
        metadata = read_table_metadata(content, path)
    except MetadataFormatError as error:
        if error.problems:
            return list(error.problems)
        raise
    return document_problems(parse_json(inflate(content, path), path)) or every_problem_of(metadata)


class _MetadataDecoder:
    """The decoder of one metadata file. It decodes the top-level keys; entries of lists, such as snapshots, stay JSON text until an entry is used."""

    def __init__(self, top: Mapping[str, msgspec.Raw], path: str) -> None:
        self._top = top
        self._path = path

    def metadata(self, version: int) -> TableMetadata:
        if version == 1:
            schemas, current_schema_id = self._schemas_v1()
            specs, default_spec_id = self._specs_v1()
            last_partition_id = self._int("last-partition-id")
            if last_partition_id is None:
                last_partition_id = _highest_partition_field_id(specs)
        else:
            schemas, current_schema_id = self._entries(SCHEMAS, required=True), self._required_int("current-schema-id")
            specs, default_spec_id = self._entries(PARTITION_SPECS, required=True), self._required_int("default-spec-id")
            last_partition_id = self._required_int("last-partition-id")
        current_snapshot_id = self._int("current-snapshot-id")
        if current_snapshot_id == NO_SNAPSHOT_ID:
            current_snapshot_id = None
        return TableMetadata(
            format_version=version,
            table_uuid=self._text("table-uuid") if version == 1 else self._required_text("table-uuid"),
            location=self._required_text("location"),
            last_sequence_number=(self._int("last-sequence-number") or 0) if version == 1 else self._required_int("last-sequence-number"),
            last_updated_ms=self._required_int("last-updated-ms"),
            last_column_id=self._required_int("last-column-id"),
            schemas=schemas,
            current_schema_id=current_schema_id,
            partition_specs=specs,
            default_spec_id=default_spec_id,
            last_partition_id=last_partition_id,
            sort_orders=self._sort_orders(version),
            default_sort_order_id=(self._int("default-sort-order-id") or 0)
            if version == 1
            else self._required_int("default-sort-order-id"),
            properties=_STRINGS.decode(self._top.get("properties", b"null")) or {},
            current_snapshot_id=current_snapshot_id,
            snapshots=self._entries(SNAPSHOTS),
            snapshot_log=self._entries(SNAPSHOT_LOG),
            metadata_log=self._entries(METADATA_LOG),
            refs=self._refs(current_snapshot_id),
            statistics=self._entries(STATISTICS),
            partition_statistics=self._entries(PARTITION_STATISTICS),
            next_row_id=self._required_int("next-row-id") if version > 2 else 0,
            encryption_keys=self._entries(ENCRYPTION_KEYS),
            unknown={key: raw for key, raw in self._top.items() if key not in KNOWN_KEYS[version]},
        )

    def _schemas_v1(self) -> tuple[RawEntries[Any], int]:
        """Return `schemas` and the current id; if they are missing, the schema `schema`, which version 1 requires. Spec: Appendix E, Reading v1 Metadata."""
        schemas = self._entries(SCHEMAS)
        current = self._int("current-schema-id")
        if len(schemas) and current is not None:
            return schemas, current
        schema = _OBJECT.decode(self._top["schema"])
        if schema is None:
            raise KeyError("schema")
        current = schema.get("schema-id") or 0
        if schemas.position(current) is None:
            raw = msgspec.Raw(msgspec.json.encode({**schema, "schema-id": current}))
            schemas = RawEntries(SCHEMAS, (*schemas.raws, raw), self._path)
        return schemas, current

    def _specs_v1(self) -> tuple[RawEntries[Any], int]:
        """Return `partition-specs` and the default id; if they are missing, the fields of `partition-spec` as spec 0. Spec: Appendix E, Reading v1 Metadata."""
        specs = self._entries(PARTITION_SPECS)
        if len(specs):
            default = self._int("default-spec-id")
            # Without a default id, the highest id is taken, which is that of the newest spec. The Rust implementation does the same; Java refuses such files.
            return specs, max(specs.ids(), default=0) if default is None else default
        spec = fields_from_json(msgspec.json.decode(self._top["partition-spec"]), where="$.partition-spec")
        return RawEntries.of(PARTITION_SPECS, (spec,)), spec.spec_id

    def _sort_orders(self, version: int) -> RawEntries[Any]:
        """Return `sort-orders`. An empty list gets the order of unsorted tables, whose id is reserved. Spec: Sorting."""
        orders = self._entries(SORT_ORDERS, required=version > 1)
        return orders if len(orders) else RawEntries(SORT_ORDERS, (_UNSORTED,), self._path)

    def _refs(self, current_snapshot_id: int | None) -> dict[str, SnapshotRef]:
        """Return the references. If the metadata has no `refs`, `main` is a branch at the current snapshot."""
        refs_json = _OBJECT.decode(self._top.get("refs", b"null")) or {}
        refs = {name: snapshot_ref_from_json(ref, f"$.refs.{name}") for name, ref in refs_json.items()}
        if MAIN not in refs and current_snapshot_id is not None:
            refs[MAIN] = SnapshotRef(snapshot_id=current_snapshot_id)
        return refs

    def _entries(self, kind: EntryKind[Any], *, required: bool = False) -> RawEntries[Any]:
        raws = _LIST.decode(self._top[kind.key] if required else self._top.get(kind.key, b"null"))
        if raws is None and required:
            raise KeyError(kind.key)
        return RawEntries(kind, raws or (), self._path)

    def _int(self, key: str) -> int | None:
        return _INT.decode(self._top.get(key, b"null"))

    def _required_int(self, key: str) -> int:
        number = self._int(key)
        if number is None:
            raise KeyError(key)
        return number

    def _text(self, key: str) -> str | None:
        return _TEXT.decode(self._top.get(key, b"null"))

    def _required_text(self, key: str) -> str:
        text = self._text(key)
        if text is None:
            raise KeyError(key)
        return text


def _highest_partition_field_id(specs: RawEntries[Any]) -> int:
    return max((field.field_id for spec in specs for field in spec.fields), default=FIRST_PARTITION_FIELD_ID - 1)


def _supported_version(top: Mapping[str, msgspec.Raw], path: str) -> int:
    try:
        version = _INT.decode(top.get("format-version", b"null"))
    except msgspec.ValidationError:
        version = None
    if version is None or version < 1:
        problem = Problem(where="$.format-version", what="must be present, and a whole number of at least 1")
        raise MetadataFormatError("the metadata file has no valid format version", path=path, problems=[problem])
    if version > LATEST_SUPPORTED_VERSION:
        draft = f", and version {DRAFT_VERSION} of the format is a draft that may still change" if version == DRAFT_VERSION else ""
        raise UnsupportedFormatVersionError(
            f"the table has format version {version}; Icefloe reads and writes versions 1 to {LATEST_SUPPORTED_VERSION}{draft}",
            path=path,
            next_step="read the table with the program that wrote it",
        )
    return version
