"""The Avro schema of written manifests, and the fields that are read from manifests of any writer.

Spec: Manifests; Data File Fields (section 2 of the field tables); Manifest Entry Fields.
"""

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from icefloe.errors import UnsupportedFormatVersionError
from icefloe.spec.avro.avro_encoder import Encoder, encoder
from icefloe.spec.avro.avro_schema import AvroType, array, field, id_map, parse_schema, record
from icefloe.spec.avro.projection_tree import FieldSpan, IdMap, Numbers, ProjectedField, Shape, Slots, Struct, Value
from icefloe.spec.manifest.manifest_columns import STATISTICS, WHOLE_NAMES, Statistic, partition_column, statistic_column
from icefloe.spec.manifest.partition_values import avro_name, partition_record
from icefloe.spec.manifest_list.manifest_file import ManifestContent
from icefloe.spec.types import StructType

# For each map of a data file, in Java's order: field id, key id, value id and type of the values.
_MAPS = (
    (108, "column_sizes", 117, 118, "long"),
    (109, "value_counts", 119, 120, "long"),
    (110, "null_value_counts", 121, 122, "long"),
    (137, "nan_value_counts", 138, 139, "long"),
    (125, "lower_bounds", 126, 127, "bytes"),
    (128, "upper_bounds", 129, 130, "bytes"),
)

# The names of the columns of an entry, by field id, without the partition fields.
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
    """Return the record `manifest_entry` of a format version.

    Raises:
        UnsupportedFormatVersionError: the format version is above 3.
    """
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
    """Return the text of the schema for the header, and the encoder of an entry, whose argument is a nested tuple in the order of the schema."""
    text = json.dumps(manifest_schema(partition_type, format_version), separators=(",", ":"))
    return text, encoder(parse_schema(text.encode()))


def _projected_field(field_id: int, name: str, shape: Shape | None = None, *, required: bool = False) -> ProjectedField:
    return ProjectedField(field_id, (name,), shape or Value(name), required)


def _entry_fields(data_file: tuple[ProjectedField, ...]) -> Struct:
    return Struct(
        (
            _projected_field(0, "status", required=True),
            _projected_field(1, "snapshot_id"),
            _projected_field(3, "sequence_number"),
            _projected_field(4, "file_sequence_number"),
            _projected_field(2, "data_file", Struct(data_file), required=True),
        )
    )


def _file_fields(partition_type: StructType) -> tuple[ProjectedField, ...]:
    partition = tuple(
        ProjectedField(part.field_id, (part.name, avro_name(part.name)), Value(partition_column(part.field_id)))
        for part in partition_type.fields
    )
    return (
        _projected_field(134, "content"),
        _projected_field(100, "file_path", required=True),
        _projected_field(101, "file_format", required=True),
        _projected_field(102, "partition", Struct(partition)),
        _projected_field(103, "record_count", required=True),
        _projected_field(104, "file_size_in_bytes", required=True),
        _projected_field(132, "split_offsets", Numbers("split_offsets")),
        _projected_field(140, "sort_order_id"),
        _projected_field(142, "first_row_id"),
    )


# Fields that only delete files have.
_DELETE_FIELDS = (
    _projected_field(135, "equality_ids", Numbers("equality_ids")),
    _projected_field(143, "referenced_data_file"),
    _projected_field(144, "content_offset"),
    _projected_field(145, "content_size_in_bytes"),
)


def projected_columns(partition_type: StructType, content: ManifestContent, statistics: Collection[Statistic]) -> Struct:
    """Return the projection of `read_columns`: the fields of an entry, and the values of the requested table columns from the maps of statistics."""
    return _projected_columns(partition_type, content, frozenset(statistics))


@lru_cache(maxsize=64)
def _projected_columns(partition_type: StructType, content: ManifestContent, statistics: frozenset[Statistic]) -> Struct:
    slots = list(_DELETE_FIELDS) if content == ManifestContent.DELETES else []
    for i, name, *_ in _MAPS:
        field_ids = sorted({field_id for statistic, field_id in statistics if statistic == STATISTICS.get(name)})
        if field_ids:
            columns = tuple((field_id, statistic_column(STATISTICS[name], field_id)) for field_id in field_ids)
            slots.append(_projected_field(i, name, Slots(columns)))
    return _entry_fields(_file_fields(partition_type) + tuple(slots))


def projected_spans(partition_type: StructType, content: ManifestContent) -> Struct:
    """Return the projection for copying entries: that of `projected_columns` with the spans of status, data file and first row id."""
    return _with_spans(projected_columns(partition_type, content, ()))


def _with_spans(record: Struct) -> Struct:
    fields = []
    for projected in record.fields:
        shape = _with_spans(projected.shape) if isinstance(projected.shape, Struct) else projected.shape
        if projected.field_id in SPANS:
            shape = FieldSpan(SPANS[projected.field_id], shape)
        fields.append(ProjectedField(projected.field_id, projected.names, shape, projected.required))
    return Struct(tuple(fields))


def projected_entries(partition_type: StructType, only: Collection[str] = WHOLE_NAMES) -> Struct:
    """Return the projection of `read_entries`: every field, except columns of `WHOLE_FIELDS` that are not in `only`."""
    maps = [_projected_field(i, name, IdMap(name)) for i, name, *_ in _MAPS if name in only]
    key = [_projected_field(131, "key_metadata")] if "key_metadata" in only else []
    return _entry_fields((*_file_fields(partition_type), *maps, *key, *_DELETE_FIELDS))


# The fields whose spans `projected_spans` returns, with the names of the spans.
SPANS = {0: "span.status", 2: "span.data_file", 142: "span.first_row_id"}

# The projection for counting entries and rows.
COUNT_PROJECTION = _entry_fields((_projected_field(103, "record_count", required=True),))
