"""The Avro schemas of written manifest lists, and the fields that are read from lists of any writer.

Spec: Manifest Lists (fields 500 to 520); Appendix A, Avro.
"""

import json
from functools import lru_cache

from icefloe.errors import UnsupportedFormatVersionError
from icefloe.spec.avro.avro_encoder import Encoder, encoder
from icefloe.spec.avro.avro_schema import AvroType, array, field, record
from icefloe.spec.avro.projection_tree import ProjectedField, Rows, Struct, Value

_SUMMARY = record(
    "r508",
    [
        field(509, "contains_null", "boolean"),
        field(518, "contains_nan", "boolean", required=False),
        field(510, "lower_bound", "bytes", required=False),
        field(511, "upper_bound", "bytes", required=False),
    ],
)
_HEAD = (field(500, "manifest_path", "string"), field(501, "manifest_length", "long"), field(502, "partition_spec_id", "int"))
_TAIL = (field(507, "partitions", array(508, _SUMMARY), required=False), field(519, "key_metadata", "bytes", required=False))
_COUNTS = (
    (504, "added_files_count", "int"),
    (505, "existing_files_count", "int"),
    (506, "deleted_files_count", "int"),
    (512, "added_rows_count", "long"),
    (513, "existing_rows_count", "long"),
    (514, "deleted_rows_count", "long"),
)
_V2_FIELDS = [
    *_HEAD,
    field(517, "content", "int"),
    field(515, "sequence_number", "long"),
    field(516, "min_sequence_number", "long"),
    field(503, "added_snapshot_id", "long"),
    *(field(i, name, kind) for i, name, kind in _COUNTS),
    *_TAIL,
]
_SCHEMAS: dict[int, AvroType] = {
    1: record(
        "manifest_file",
        [*_HEAD, field(503, "added_snapshot_id", "long"), *(field(i, name, kind, required=False) for i, name, kind in _COUNTS), *_TAIL],
    ),
    2: record("manifest_file", _V2_FIELDS),
    3: record("manifest_file", [*_V2_FIELDS, field(520, "first_row_id", "long", required=False)]),
}

# The counts had other names in the first years of v1.
MANIFEST_FILE_FIELDS = Struct(
    (
        ProjectedField(500, ("manifest_path",), Value("manifest_path"), required=True),
        ProjectedField(
            501, ("manifest_length",), Value("manifest_length")
        ),  # optional here, because the reader refuses null itself, unless it is tolerated
        ProjectedField(502, ("partition_spec_id",), Value("partition_spec_id"), required=True),
        ProjectedField(517, ("content",), Value("content")),
        ProjectedField(515, ("sequence_number",), Value("sequence_number")),
        ProjectedField(516, ("min_sequence_number",), Value("min_sequence_number")),
        ProjectedField(503, ("added_snapshot_id",), Value("added_snapshot_id"), required=True),
        ProjectedField(504, ("added_files_count", "added_data_files_count"), Value("added_files_count")),
        ProjectedField(505, ("existing_files_count", "existing_data_files_count"), Value("existing_files_count")),
        ProjectedField(506, ("deleted_files_count", "deleted_data_files_count"), Value("deleted_files_count")),
        ProjectedField(512, ("added_rows_count",), Value("added_rows_count")),
        ProjectedField(513, ("existing_rows_count",), Value("existing_rows_count")),
        ProjectedField(514, ("deleted_rows_count",), Value("deleted_rows_count")),
        ProjectedField(
            507,
            ("partitions",),
            Rows(
                "partitions",
                (
                    ProjectedField(509, ("contains_null",), Value("contains_null")),  # optional for the same reason
                    ProjectedField(518, ("contains_nan",), Value("contains_nan")),
                    ProjectedField(510, ("lower_bound",), Value("lower_bound")),
                    ProjectedField(511, ("upper_bound",), Value("upper_bound")),
                ),
            ),
        ),
        ProjectedField(519, ("key_metadata",), Value("key_metadata")),
        ProjectedField(520, ("first_row_id",), Value("first_row_id")),
    )
)
# The fields that a commit reads for the manifests that it keeps.
MANIFEST_SUMMARY_FIELDS = Struct(
    (
        ProjectedField(501, ("manifest_length",), Value("manifest_length"), required=True),
        ProjectedField(502, ("partition_spec_id",), Value("partition_spec_id"), required=True),
        ProjectedField(517, ("content",), Value("content")),
        ProjectedField(504, ("added_files_count", "added_data_files_count"), Value("added_files_count")),
        ProjectedField(505, ("existing_files_count", "existing_data_files_count"), Value("existing_files_count")),
        ProjectedField(520, ("first_row_id",), Value("first_row_id")),
    )
)


def manifest_list_schema(format_version: int) -> AvroType:
    """Return the schema of a manifest list of this format version.

    Raises:
        UnsupportedFormatVersionError: The format version is above 3.
    """
    try:
        return _SCHEMAS[format_version]
    except KeyError:
        raise UnsupportedFormatVersionError(
            f"manifest lists of format version {format_version} cannot be written; 1, 2 and 3 can"
        ) from None


@lru_cache(maxsize=4)
def manifest_list_codec(format_version: int) -> tuple[str, Encoder]:
    """Return the text of the schema for the header, and the encoder of a record, whose argument is a tuple in the order of the schema."""
    schema = manifest_list_schema(format_version)
    return json.dumps(schema, separators=(",", ":")), encoder(schema)
