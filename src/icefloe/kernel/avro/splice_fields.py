"""Replacement of some fields in all records of an Avro file. The header and all other fields keep their bytes, unknown fields too.

`write_avro_columns.py` splices the records. Spec: Apache Avro, Object Container Files.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from icefloe.errors import UnsupportedFeatureError
from icefloe.kernel.arrow_values import numpy_of
from icefloe.kernel.avro.avro_columns import read_spans
from icefloe.kernel.avro.avro_container import block_bytes, open_container, split_into_blocks
from icefloe.kernel.avro.avro_errors import broken_avro
from icefloe.kernel.avro.avro_schema import AvroType, parse_schema
from icefloe.kernel.avro.compiled_codec import AVAILABLE
from icefloe.kernel.avro.projection_tree import Struct
from icefloe.kernel.avro.write_avro_columns import Cut, splice_records, write_records

# Returns the new values of fields, by field id, from the columns that were read.
NewValues = Callable[[Mapping[str, Any]], Mapping[int, Any]]


def spliced_file(content: bytes, path: str, projection: Struct, spans: Mapping[int, str], new_values: NewValues) -> bytes:
    """Return an Avro file with new values of some fields.

    Args:
        content: The file.
        path: Its location, for errors.
        projection: The columns that `new_values` needs, and the spans of all fields in `spans`.
        spans: The names of spans by field id. The first field of a record is among them.
        new_values: Returns arrays of new values by field id, with one value for each record.

    Raises:
        AvroFormatError: The file is damaged.
        UnsupportedFeatureError: The compiled codec is not installed.
    """
    if not AVAILABLE:
        raise UnsupportedFeatureError(
            "paths in manifests are replaced by the compiled Avro codec, which this installation lacks",
            next_step="install Icefloe from a wheel of this platform",
        )
    container = open_container(content, path)
    records = read_spans([container], projection)
    count = records.counts[0]
    if not count:
        return content
    positions = {
        field_id: (numpy_of(records.columns[f"{name}.start"]), numpy_of(records.columns[f"{name}.stop"]))
        for field_id, name in spans.items()
        if not records.columns[f"{name}.start"].null_count
    }
    # Records follow each other without gaps, so that each ends where the next one begins.
    starts = min((begin for begin, _ in positions.values()), key=lambda begin: int(begin[0]))
    if int(starts[0]):
        raise broken_avro(path, container.body_start, "its records do not begin with a field that the format defines")
    stops = np.append(starts[1:], sum(memoryview(block).nbytes for block in records.blocks))
    schema = parse_schema(container.schema_text, "manifest_schema_types")
    fields = {field["field-id"]: field for field in _fields(schema)}
    cuts = [
        Cut(*positions[field_id], write_records({**schema, "fields": [fields[field_id]]}, {field_id: values}, count))
        for field_id, values in new_values(records.columns).items()
        if field_id in positions
    ]
    cuts.sort(key=lambda cut: int(cut.starts[0]))
    spliced = splice_records(records.blocks, starts, stops, cuts)
    blocks = [
        block_bytes(length, bytes(data), container.codec, container.sync)
        for length, data in split_into_blocks([(spliced.data, spliced.ends)])
    ]
    return b"".join((content[: container.body_start], *blocks))


def _fields(record: AvroType) -> list[dict[str, Any]]:
    """Return the fields of a record and of the records within it that have ids."""
    fields: list[dict[str, Any]] = []
    for field in record["fields"]:
        if "field-id" in field:
            fields.append(field)
        if isinstance(field["type"], dict) and field["type"].get("type") == "record":
            fields += _fields(field["type"])
    return fields
