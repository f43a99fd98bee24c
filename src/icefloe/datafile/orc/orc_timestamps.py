"""Timestamps in ORC files of other writers: the time zone in which they were written, and the local timestamps that Spark stores as numbers.

ORC's `timestamp` has the wall clock of its writer, whose time zone is in the footers of the stripes; `timestamp with local time zone` is an instant. Spark
stores TIMESTAMP, which is an instant, as ORC's `timestamp`, and TIMESTAMP_NTZ as whole numbers of microseconds; an attribute of the column has Spark's type.
Spec: ORC v1, Stripe Footer (writerTimezone); Appendix A, ORC.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from icefloe.datafile.field_ids import is_list
from icefloe.datafile.orc.orc_tail import fields_of_message, stripes_of

UTC = "UTC"
_UTC_NAMES = frozenset(
    [UTC, "GMT", "GMT0", "UCT", "Z", "Zulu", "Universal", "Greenwich"]
    + [f"Etc/{name}" for name in ("UTC", "GMT", "GMT0", "UCT", "Zulu", "Universal", "Greenwich")]
)
_SPARK_TYPE = b"spark.sql.catalyst.type"
_WRITER_TIMEZONE = 3
_CHUNK_HEAD_BYTES = 3
# The maximum bytes of a stripe footer for each column; about twenty are usual.
_MOST_FOOTER_BYTES = 64 * 1024 * 1024


def time_zone_of(file: Any, source: Any) -> str:
    """Return the time zone in which a file's timestamps were written.

    Args:
        file: A `pyarrow.orc.ORCFile`.
        source: Its open input.

    Returns:
        `UTC`, if all stripes have a name of UTC; otherwise a different zone of a stripe, or `unknown` for a stripe that does not state its zone.

    Raises:
        ValueError: The file is damaged.
    """
    zones = {_zone(file, source, stripe.footer_offset, stripe.footer_length) for stripe in stripes_of(file)}
    others = sorted(zones - _UTC_NAMES)
    return UTC if not others else others[0]


def _zone(file: Any, source: Any, offset: int, length: int) -> str:
    if not 0 <= length <= _MOST_FOOTER_BYTES:
        raise ValueError(f"a stripe footer of {length} bytes")
    source.seek(offset)
    footer = b"".join(_plain(file.compression, int(file.compression_size), bytes(source.read(length))))
    names = [value for number, value in fields_of_message(footer) if number == _WRITER_TIMEZONE and isinstance(value, bytes)]
    return names[0].decode() if names and names[0] else "unknown"


def _plain(codec: str, most: int, data: bytes) -> Iterator[bytes]:
    """Yield the decompressed content of a stripe footer, up to the first chunk with LZO or LZ4 compression. Raises `ValueError` if it is too long."""
    if codec == "UNCOMPRESSED":
        yield data
        return
    position, left = 0, _MOST_FOOTER_BYTES
    while position + _CHUNK_HEAD_BYTES <= len(data):
        head = int.from_bytes(data[position : position + _CHUNK_HEAD_BYTES], "little")
        chunk = data[position + _CHUNK_HEAD_BYTES : position + _CHUNK_HEAD_BYTES + (head >> 1)]
        position += _CHUNK_HEAD_BYTES + (head >> 1)
        size = min(most, left)
        if size <= 0:  # zlib treats 0 as no limit
            raise ValueError(f"a stripe footer of more than {_MOST_FOOTER_BYTES:,} bytes, or in chunks of {most} bytes")
        if head & 1:
            plain = chunk
        elif codec == "ZLIB":
            plain = zlib.decompressobj(-zlib.MAX_WBITS).decompress(chunk, size)
        elif codec in ("ZSTD", "SNAPPY"):
            plain = _of_arrow(codec, chunk, size)
        else:
            return
        left -= len(plain)
        yield plain


def _of_arrow(codec: str, chunk: bytes, most: int) -> bytes:
    if codec == "ZSTD":
        with pa.CompressedInputStream(pa.BufferReader(chunk), "zstd") as stream:
            return bytes(stream.read_buffer(most))
    size = shift = 0
    for byte in chunk[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise ValueError(f"a chunk that claims {size} bytes")
    return bytes(pa.decompress(chunk, size, codec="snappy", asbytes=True))


def with_types_of_spark(schema: Any) -> Any:
    """Return an ORC file's Arrow schema with local timestamps in place of the whole numbers that Spark wrote for TIMESTAMP_NTZ, at every depth."""
    return pa.schema([_with_spark_type(field) for field in schema])


def batch_with_types_of_spark(batch: Any) -> Any:
    """Return a batch with the schema of `with_types_of_spark`, without copying values."""
    schema = with_types_of_spark(batch.schema)
    if schema.equals(batch.schema):
        return batch
    return pa.RecordBatch.from_arrays([column.view(field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema)


def new_table_schema(schema: Any) -> Any:
    """Return an ORC file's Arrow schema with the timestamp types of a new table: in microseconds, and in UTC if Spark's type is an instant."""
    return pa.schema([_with_spark_type(field, for_new_table=True) for field in schema])


def has_local_timestamps(kind: Any) -> bool:
    """Return whether an Arrow type, or struct of columns, contains timestamps without a time zone at any depth."""
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(has_local_timestamps(kind.field(index).type) for index in range(kind.num_fields))


def _with_spark_type(field: Any, *, for_new_table: bool = False) -> Any:
    kind = field.type
    spark_type = (field.metadata or {}).get(_SPARK_TYPE)
    if pa.types.is_int64(kind) and spark_type == b"timestamp_ntz":
        return field.with_type(pa.timestamp("us"))
    if for_new_table and pa.types.is_timestamp(kind):
        return field.with_type(pa.timestamp("us", UTC if spark_type == b"timestamp" else kind.tz))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_with_spark_type(inner, for_new_table=for_new_table) for inner in kind.fields]))
    if pa.types.is_map(kind):
        key, value = (_with_spark_type(inner, for_new_table=for_new_table) for inner in (kind.key_field, kind.item_field))
        return field.with_type(pa.map_(key, value))
    return field.with_type(pa.list_(_with_spark_type(kind.value_field, for_new_table=for_new_table))) if is_list(kind) else field
