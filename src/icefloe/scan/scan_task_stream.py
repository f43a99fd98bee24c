"""Planned files as an Arrow IPC stream, which a server of Icefloe sends to clients that accept it instead of a JSON object for each file.

The metadata of the stream's schema has two JSON objects. One is the protocol's response without its files (status, ids, delete files, credentials). The other
is the layout: the partition spec of each record batch, and lists of values that many files share, to which columns refer by index. A column whose values are
all null is left out. Batches are neither compressed nor dictionary-encoded, and their columns share no bytes, so that a plan takes memory in proportion to the
bytes of its stream.
The format is Icefloe's own; it is in no specification.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.errors import FormatError, in_one_line
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of, array_of_chunks, numbers_array, numpy_of
from icefloe.spec.expressions.bind import predicates
from icefloe.spec.expressions.expression_json import expression_to_json
from icefloe.spec.expressions.predicate import BooleanExpression
from icefloe.spec.manifest.manifest_columns import ENTRY_FIELDS, STATISTICS, partition_column, statistic_column, statistic_field
from icefloe.spec.types import StructType
from icefloe.spec.values import physical_arrow_type

# The media type of a response. A changed layout needs a new type. Arrow's own type is not used, because other servers may send it with other columns.
MEDIA_TYPE = "application/vnd.icefloe.scan-tasks.v1"
# Keys of the schema's metadata.
_RESPONSE, _LAYOUT = b"icefloe.response", b"icefloe.layout"
# Columns that the stream has in the same form as a plan.
PLAIN = ("file_path", "record_count", "file_size_in_bytes", "split_offsets", "sort_order_id", "first_row_id")
# Columns of indices in a list of the layout, or in the delete files of the response.
FORMAT, RESIDUAL, DELETES = "file_format", "residual", "delete_files"
_PLACES = {
    FORMAT: pa.field(FORMAT, pa.int32(), nullable=False),
    RESIDUAL: pa.field(RESIDUAL, pa.int32(), nullable=False),
    DELETES: pa.field(DELETES, pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False),
}
REQUIRED = frozenset({"file_path", "record_count", "file_size_in_bytes", FORMAT, RESIDUAL})
# Limits of a residual filter that is sent. A longer residual is left out, because the response would be much longer than the request.
MOST_RESIDUAL_VALUES, MOST_RESIDUAL_TEXT = 256, 4096
# The length of the end-of-stream marker.
_END_BYTES = 8
# The code of Arrow's metadata version 5, the only version that is written and read.
_METADATA_VERSION = 4
# The greatest number of record batches of a stream that is read. Each needs some 20 kB of memory even if it has few files; those of a real server have
# thousands.
MOST_BATCHES = 1 << 16


class StreamLayout(msgspec.Struct, rename="kebab"):
    """The layout of a stream: values that its columns refer to by index.

    Attributes:
        spec_ids: The partition spec of each record batch.
        file_formats: Names of file formats, to which `file_format` refers.
        residual_filters: Residual filters as JSON, to which `residual` refers.
    """

    spec_ids: list[int]
    file_formats: list[str]
    residual_filters: list[msgspec.Raw]


def stream_partition_column(spec_id: int, field_id: int) -> str:
    """Return the name of the column with the values of a partition field. It contains the spec id, because in version 1 several specs may use one field id."""
    return f"{partition_column(field_id)}.{spec_id}"


def stream_fields(partition_types: Mapping[int, StructType], statistics: Iterable[int]) -> dict[str, Any]:
    """Return the Arrow fields that the schema of a stream can have, by name, in the order of the schema.

    Args:
        partition_types: The type of partition tuples, by spec id.
        statistics: Field ids of the columns whose statistics were requested.
    """
    fields = [*(ENTRY_FIELDS.field(name) for name in PLAIN), *_PLACES.values()]
    for spec_id, partition_type in partition_types.items():
        for part in partition_type.fields:
            fields.append(pa.field(stream_partition_column(spec_id, part.field_id), physical_arrow_type(part.field_type)))  # type: ignore[arg-type]
    fields += (statistic_field(statistic, field_id) for field_id in statistics for statistic in STATISTICS.values())
    return {field.name: field for field in fields}


def written_stream(
    parts: Sequence[PlannedFiles], response: Mapping[str, Any], statistics: Sequence[int], deletes: NDArray[np.int64]
) -> memoryview:
    """Return planned files as a stream.

    Args:
        parts: The planned files.
        response: The members of the protocol's response other than its files, to be written as JSON.
        statistics: The ids of the columns whose statistics are written. All planned files must have these statistics.
        deletes: The delete files of the response, as ascending positions in the `delete_files` of the plan.
    """
    parts = [piece for part in parts for piece in _of_one_chunk(part)]
    formats: dict[str, int] = {}
    residuals: dict[str, int] = {}
    columns = [_columns(part, statistics, deletes, formats, residuals) for part in parts]
    layout = StreamLayout(
        spec_ids=[part.spec_id for part in parts],
        file_formats=list(formats),
        residual_filters=[msgspec.Raw(text.encode()) for text in residuals],
    )
    fields = stream_fields({part.spec_id: part.partition_type for part in parts}, statistics)
    written_fields = [field for name, field in fields.items() if any(name in of_part for of_part in columns)]
    metadata = {_RESPONSE: msgspec.json.encode(response), _LAYOUT: msgspec.json.encode(layout)}
    schema = pa.schema(written_fields, metadata=metadata)
    batches = [
        pa.RecordBatch.from_arrays(
            [of_part[field.name] if field.name in of_part else _nothing(field, len(part)) for field in written_fields], schema=schema
        )
        for part, of_part in zip(parts, columns, strict=True)
    ]
    return _serialize(schema, batches)


def _serialize(schema: Any, batches: Sequence[Any]) -> memoryview:
    """Return the stream in a buffer that is allocated once with its final size, because allocating memory takes most of the time."""
    size = int(schema.serialize().size) + sum(pa.ipc.get_record_batch_size(batch) for batch in batches) + _END_BYTES
    content = pa.allocate_buffer(size)
    sink = pa.FixedSizeBufferWriter(content)
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return memoryview(content)[: sink.tell()]


def _of_one_chunk(part: PlannedFiles) -> Iterator[PlannedFiles]:
    """Split planned files into their Arrow chunks, because a chunk becomes a record batch without copying."""
    ends = list(accumulate(len(chunk) for chunk in part.entries["file_path"].chunks))
    return (part.between(start, stop) for start, stop in pairwise([0, *ends]) if stop > start)


def _columns(
    part: PlannedFiles, statistics: Sequence[int], deletes: NDArray[np.int64], formats: dict[str, int], residuals: dict[str, int]
) -> dict[str, Any]:
    """Return the stream's columns for these files by name, without columns of nulls. Formats and residuals that are not in the dicts yet are added to them."""
    entries = part.entries
    encoded = array_of_chunks(entries["file_format"]).dictionary_encode()
    places = np.array([formats.setdefault(name, len(formats)) for name in encoded.dictionary.to_pylist()], dtype=np.int32)
    texts = [residual_text(residual) or "null" for residual in part.residuals]
    numbers = np.array([residuals.setdefault(text, len(residuals)) for text in texts], dtype=np.int32)
    columns = {name: array_of_chunks(entries[name]) for name in PLAIN}
    columns[FORMAT] = numbers_array(places[numpy_of(encoded.indices)], pa.int32())
    columns[RESIDUAL] = numbers_array(numbers[part.residual_index], pa.int32())
    if part.delete_offsets is not None and part.delete_indices is not None:
        items = np.searchsorted(deletes, part.delete_indices).astype(np.int32)
        offsets = numbers_array(part.delete_offsets.astype(np.int32), pa.int32())
        columns[DELETES] = pa.ListArray.from_arrays(offsets, numbers_array(items, pa.int32()), type=_PLACES[DELETES].type)
    for field in part.partition_type.fields:
        columns[stream_partition_column(part.spec_id, field.field_id)] = array_of_chunks(entries[partition_column(field.field_id)])
    for field_id in statistics:
        for statistic in STATISTICS.values():
            name = statistic_column(statistic, field_id)
            columns[name] = array_of_chunks(entries[name])
    return {name: column for name, column in columns.items() if name in REQUIRED or column.null_count < len(column)}


def residual_text(residual: BooleanExpression) -> str | None:
    """Return the JSON of a residual filter; None if it is too long. The client then tests its whole filter instead.

    Spec: REST catalog, FileScanTask (`residual-filter`).
    """
    if sum(1 + len(predicate.values) for predicate in predicates(residual)) > MOST_RESIDUAL_VALUES:
        return None
    text = msgspec.json.encode(expression_to_json(residual)).decode()
    return text if len(text) <= MOST_RESIDUAL_TEXT else None


def _nothing(field: Any, count: int) -> Any:
    """Return a column of `count` nulls, or of empty lists if nulls are not allowed, for a batch that has no values in a column of the stream."""
    if field.nullable:
        return pa.nulls(count, field.type)
    return pa.ListArray.from_arrays(
        numbers_array(np.zeros(count + 1, dtype=np.int32), pa.int32()), array_of([], pa.int32()), type=field.type
    )


class ScanTaskStream:
    """A reader of a received stream. It has the `response` and the `layout`; `batches` reads the files.

    Args:
        content: The bytes of the stream.

    Raises:
        FormatError: The bytes are not such a stream.
    """

    def __init__(self, content: bytes) -> None:
        try:
            self._messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(content))
            first = self._messages.read_next_message()
            if first.type != "schema":
                raise FormatError(f"the stream of files begins with a {first.type}")
            self._schema = pa.ipc.read_schema(first)
        except StopIteration:
            raise FormatError("the stream of files is empty") from None
        except (pa.ArrowException, OSError, ValueError) as error:
            raise FormatError(f"the stream of files is not Arrow data: {in_one_line(str(error))}") from error
        metadata = self._schema.metadata or {}
        if _RESPONSE not in metadata or _LAYOUT not in metadata:
            raise FormatError("the stream of files has no response in its schema")
        # The JSON of the response.
        self.response: bytes = metadata[_RESPONSE]
        try:
            self.layout = msgspec.json.decode(metadata[_LAYOUT], type=StreamLayout)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise FormatError(f"the layout of the stream of files is not known: {in_one_line(str(error))}") from None
        if len(self.layout.spec_ids) > MOST_BATCHES:
            raise FormatError(f"the stream of files has more than {MOST_BATCHES:,} batches")

    def batches(self, fields: Mapping[str, Any]) -> Iterator[Any]:
        """Yield the record batches. Each is validated completely, and has nulls only in nullable columns.

        Args:
            fields: The fields that the schema can have, from `stream_fields`.

        Raises:
            FormatError: The stream has columns that are not among `fields`, or it is damaged.
        """
        names = self._schema.names
        if len(set(names)) < len(names) or not set(names) >= REQUIRED:
            raise FormatError("the stream of files lacks columns, or has one twice")
        if wrong := [field.name for field in self._schema if field.name not in fields or not field.equals(fields[field.name])]:
            raise FormatError(f"the stream of files has the column {in_one_line(wrong[0])[:200]!r}, which is not that of a file")
        count = 0
        try:
            for message in self._messages:
                count += 1
                if message.type != "record batch" or count > len(self.layout.spec_ids):
                    raise FormatError(f"the stream of files has a {message.type} that its layout does not have")
                _check_plain(message.metadata.to_pybytes())
                batch = pa.ipc.read_record_batch(message, self._schema)
                batch.validate(full=True)
                _check_nulls(batch)
                if not batch.num_rows or batch.nbytes > len(message.body):  # columns that share bytes could make a short stream a huge plan
                    raise FormatError("the stream of files has a batch of no files, or one whose columns overlap")
                yield batch
        except (pa.ArrowException, OSError, ValueError, struct.error) as error:
            raise FormatError(f"the stream of files is damaged: {in_one_line(str(error))}") from error
        if count < len(self.layout.spec_ids):
            raise FormatError("the stream of files is cut short")


def _check_nulls(batch: Any) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        has_null = not field.nullable and column.null_count
        if has_null or (pa.types.is_list(field.type) and column.values.null_count):
            raise FormatError(f"the stream of files has a null in the column {field.name}")


def checked_places(column: Any, count: int) -> NDArray[np.int32]:
    """Return a column of indices in a list of `count` values. Raises `FormatError` if an index is out of range."""
    places: NDArray[np.int32] = numpy_of(column)
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < count:
        raise FormatError(f"the stream of files refers to a place that is not among {count}")
    return places


def check_counts(batch: Any) -> None:
    """Check file sizes and record counts. Raises `FormatError` if one is negative."""
    for name in ("record_count", "file_size_in_bytes"):
        least = pc.min(batch[name]).as_py()
        if least is not None and least < 0:
            raise FormatError(f"a size or a count is {least}")


def _check_plain(metadata: bytes) -> None:
    """Check that the body of a record batch is not compressed, because a few compressed bytes could expand to any amount of memory.

    `metadata` is the message's FlatBuffer, which Arrow has verified; Message.fbs defines its fields. Before version 5 of Arrow's metadata, the codec was in the
    custom metadata of the message. Raises `FormatError`.
    """
    message = int(struct.unpack_from("<I", metadata, 0)[0])
    version = _slot(metadata, message, 0)
    if not version or struct.unpack_from("<h", metadata, message + version)[0] != _METADATA_VERSION or _slot(metadata, message, 4):
        raise FormatError("the stream of files is compressed, or of another version of Arrow's metadata")
    header = message + _slot(metadata, message, 2)
    batch = header + int(struct.unpack_from("<I", metadata, header)[0])
    if _slot(metadata, batch, 3):
        raise FormatError("the stream of files is compressed")


def _slot(metadata: bytes, table: int, number: int) -> int:
    """Return the offset of a field from the beginning of a FlatBuffer's table; 0 if the table does not have the field."""
    fields = table - int(struct.unpack_from("<i", metadata, table)[0])
    place = 4 + 2 * number
    return int(struct.unpack_from("<H", metadata, fields + place)[0]) if place < struct.unpack_from("<H", metadata, fields)[0] else 0
