"""Replacement of some fields in all records of an Avro file. The header and all other fields keep their bytes, unknown fields too.

`write_avro_columns.py` splices the records. Spec: Apache Avro, Object Container Files.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from icefloe.errors import UnsupportedFeatureError
from icefloe.spec.arrow_values import numpy_of
from icefloe.spec.avro.avro_columns import read_spans
from icefloe.spec.avro.avro_container import block_bytes, open_container, split_into_blocks
from icefloe.spec.avro.avro_errors import broken_avro
from icefloe.spec.avro.avro_schema import AvroType, parse_schema
from icefloe.spec.avro.compiled_codec import AVAILABLE
from icefloe.spec.avro.projection_tree import Struct, matched_fields
from icefloe.spec.avro.write_avro_columns import Cut, splice_records, write_records

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
    if any(records.columns[f"{name}.start"].null_count not in (0, count) for name in spans.values()):
        raise broken_avro(path, container.body_start, "some of its records lack a field that others have")
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
    fields = dict(_fields(schema, projection))
    values = {field_id: column for field_id, column in new_values(records.columns).items() if field_id in positions}
    try:
        pieces = {
            field_id: write_records({**schema, "fields": [fields[field_id]]}, {field_id: column}, count)
            for field_id, column in values.items()
        }
    except (ValueError, OverflowError, pa.ArrowException) as error:
        raise broken_avro(path, container.body_start, f"a field has another type than the format defines: {error}") from error
    cuts = [Cut(*positions[field_id], encoded) for field_id, encoded in pieces.items()]
    cuts.sort(key=lambda cut: int(cut.starts[0]))
    spliced = splice_records(records.blocks, starts, stops, cuts)
    blocks = [
        block_bytes(length, bytes(data), container.codec, container.sync)
        for length, data in split_into_blocks([(spliced.data, spliced.ends)])
    ]
    return b"".join((content[: container.body_start], *blocks))


def _fields(record: AvroType, projection: Struct) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the projected fields of a writer's record and of the records within it by id, also those of a writer that has names alone."""
    for place, projected in matched_fields(record, projection.fields).items():
        field = record["fields"][place]
        if isinstance(projected.shape, Struct):
            yield from _fields(field["type"], projected.shape)
        else:
            yield projected.field_id, {**field, "field-id": projected.field_id}
