"""The Avro schema of the manifests we write, and what we want from anyone's.


Spec: Manifests; Data File Fields (section 2 of the field tables); Manifest Entry Fields.
"""

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from icefloe.errors import UnsupportedFormatVersionError
from icefloe.kernel.avro.avro_encoder import Encoder, encoder
from icefloe.kernel.avro.avro_schema import AvroType, array, field, id_map, parse_schema, record
from icefloe.kernel.avro.projection_tree import IdMap, Numbers, Shape, Slots, Span, Struct, Value, WantedField
from icefloe.kernel.manifest.manifest_columns import STATISTICS, WHOLE_NAMES, Statistic, partition_column, statistic_column
from icefloe.kernel.manifest.partition_values import avro_name, partition_record
from icefloe.kernel.manifest_list.manifest_file import ManifestContent
from icefloe.kernel.types import StructType

# Field id, key id, value id and type of value of a data file's maps, in Java's order.
_MAPS = (
    (108, "column_sizes", 117, 118, "long"),
    (109, "value_counts", 119, 120, "long"),
    (110, "null_value_counts", 121, 122, "long"),
    (137, "nan_value_counts", 138, 139, "long"),
    (125, "lower_bounds", 126, 127, "bytes"),
    (128, "upper_bounds", 129, 130, "bytes"),
)

# The names of an entry's columns by field id, but for partition fields.
ENTRY_FIELD_IDS = {
    0: "status",
    1: "snapshot_id",
    3: "sequence_number",
    4: "file_sequence_number",
    100: "file_path",
    101: "file_format",
    103: "record_count",
    104: "file_size_in_bytes",
    **{i: name for i, name, *_ in _MAPS},
    131: "key_metadata",
    132: "split_offsets",
    134: "content",
    135: "equality_ids",
    140: "sort_order_id",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
}


def manifest_schema(partition_type: StructType, format_version: int) -> AvroType:
    """The record `manifest_entry` of a format version. Raises `UnsupportedFormatVersionError` beyond 3."""
    if format_version not in (1, 2, 3):
        raise UnsupportedFormatVersionError(f"manifests of format version {format_version} cannot be written; 1, 2 and 3 can")
    status = field(0, "status", "int")
    data_file = field(2, "data_file", record("r2", _data_file_fields(partition_type, format_version)))
    if format_version == 1:
        return record("manifest_entry", [status, field(1, "snapshot_id", "long"), data_file])
    numbers = ((1, "snapshot_id"), (3, "sequence_number"), (4, "file_sequence_number"))
    return record("manifest_entry", [status, *(field(i, name, "long", required=False) for i, name in numbers), data_file])


def _data_file_fields(partition_type: StructType, format_version: int) -> list[dict[str, Any]]:
    fields = [] if format_version == 1 else [field(134, "content", "int")]
    fields += [
        field(100, "file_path", "string"),
        field(101, "file_format", "string"),
        field(102, "partition", partition_record(partition_type)),
        field(103, "record_count", "long"),
        field(104, "file_size_in_bytes", "long"),
    ]
    if format_version == 1:
        fields.append(field(105, "block_size_in_bytes", "long"))
    fields += [field(i, name, id_map(key, value, kind), required=False) for i, name, key, value, kind in _MAPS]
    fields += [field(131, "key_metadata", "bytes", required=False), field(132, "split_offsets", array(133, "long"), required=False)]
    if format_version > 1:
        fields.append(field(135, "equality_ids", array(136, "int"), required=False))
    fields.append(field(140, "sort_order_id", "int", required=False))
    if format_version > 2:
        fields.append(field(142, "first_row_id", "long", required=False))
    if format_version > 1:
        fields.append(field(143, "referenced_data_file", "string", required=False))
    if format_version > 2:
        fields += [field(i, name, "long", required=False) for i, name in ((144, "content_offset"), (145, "content_size_in_bytes"))]
    return fields


@lru_cache(maxsize=64)
def manifest_codec(partition_type: StructType, format_version: int) -> tuple[str, Encoder]:
    """The schema's text for the header, and the encoder of one entry given as nested tuples in the schema's order."""
    text = json.dumps(manifest_schema(partition_type, format_version), separators=(",", ":"))
    return text, encoder(parse_schema(text.encode()))


def _wanted(field_id: int, name: str, shape: Shape | None = None, *, required: bool = False) -> WantedField:
    return WantedField(field_id, (name,), shape or Value(name), required)


def _entry_fields(data_file: tuple[WantedField, ...]) -> Struct:
    return Struct(
        (
            _wanted(0, "status", required=True),
            _wanted(1, "snapshot_id"),
            _wanted(3, "sequence_number"),
            _wanted(4, "file_sequence_number"),
            _wanted(2, "data_file", Struct(data_file), required=True),
        )
    )


def _file_fields(partition_type: StructType) -> tuple[WantedField, ...]:
    partition = tuple(
        WantedField(part.field_id, (part.name, avro_name(part.name)), Value(partition_column(part.field_id)))
        for part in partition_type.fields
    )
    return (
        _wanted(134, "content"),
        _wanted(100, "file_path", required=True),
        _wanted(101, "file_format", required=True),
        _wanted(102, "partition", Struct(partition)),
        _wanted(103, "record_count", required=True),
        _wanted(104, "file_size_in_bytes", required=True),
        _wanted(132, "split_offsets", Numbers("split_offsets")),
        _wanted(140, "sort_order_id"),
        _wanted(142, "first_row_id"),
    )


# What only delete files have.
_DELETE_FIELDS = (
    _wanted(135, "equality_ids", Numbers("equality_ids")),
    _wanted(143, "referenced_data_file"),
    _wanted(144, "content_offset"),
    _wanted(145, "content_size_in_bytes"),
)


def wanted_columns(partition_type: StructType, content: ManifestContent, statistics: Collection[Statistic]) -> Struct:
    """What `read_columns` wants: the entry, and of each map of statistics the values of the table columns that are given with it."""
    return _wanted_columns(partition_type, content, frozenset(statistics))


@lru_cache(maxsize=64)
def _wanted_columns(partition_type: StructType, content: ManifestContent, statistics: frozenset[Statistic]) -> Struct:
    slots = list(_DELETE_FIELDS) if content == ManifestContent.DELETES else []
    for i, name, *_ in _MAPS:
        asked = sorted({field_id for statistic, field_id in statistics if statistic == STATISTICS.get(name)})
        if asked:
            slots.append(_wanted(i, name, Slots(tuple((field_id, statistic_column(STATISTICS[name], field_id)) for field_id in asked))))
    return _entry_fields(_file_fields(partition_type) + tuple(slots))


def wanted_spans(partition_type: StructType, content: ManifestContent) -> Struct:
    """What copying entries wants: the columns of `wanted_columns`, and where status, data file and first row id lie."""
    entry = wanted_columns(partition_type, content, ())
    return _with_spans(entry)


def _with_spans(record: Struct) -> Struct:
    fields = []
    for want in record.fields:
        shape = _with_spans(want.shape) if isinstance(want.shape, Struct) else want.shape
        if want.field_id in SPANS:
            shape = Span(SPANS[want.field_id], shape)
        fields.append(WantedField(want.field_id, want.names, shape, want.required))
    return Struct(tuple(fields))


def wanted_entries(partition_type: StructType, only: Collection[str] = WHOLE_NAMES) -> Struct:
    """What `read_entries` wants: everything; of the columns of `WHOLE_FIELDS` those that are among `only`."""
    maps = [_wanted(i, name, IdMap(name)) for i, name, *_ in _MAPS if name in only]
    key = [_wanted(131, "key_metadata")] if "key_metadata" in only else []
    return _entry_fields((*_file_fields(partition_type), *maps, *key, *_DELETE_FIELDS))


# The fields whose place in an entry's bytes `wanted_spans` tells, and the names of their spans.
SPANS = {0: "span.status", 2: "span.data_file", 142: "span.first_row_id"}

# What counting wants.
WANTED_COUNTS = _entry_fields((_wanted(103, "record_count", required=True),))
