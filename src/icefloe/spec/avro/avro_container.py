"""Avro object container files: header, blocks and sync markers. Every count and size of a file is checked when it is read.

`avro_columns.py` reads the records of blocks, `avro_encoder.py` encodes them. Spec: Apache Avro, Object Container Files.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import mmh3
import numpy as np
from numpy.typing import NDArray

from icefloe.spec.avro.avro_codec import Bytes, compress, decompress
from icefloe.spec.avro.avro_errors import TornDataError, above_limit, broken_avro
from icefloe.spec.avro.varint import decode_long, encode_long
from icefloe.spec.limits import limits

MAGIC = b"Obj\x01"
SYNC_LENGTH = 16
_ENCRYPTED_MAGIC = b"AGS1"  # the first bytes of an AES GCM stream, the format of encrypted manifests and manifest lists
# The number of uncompressed bytes after which a block is closed, Avro's usual size. One block per entry would make manifests a third larger, and reading take
# half as long again.
BLOCK_BYTES = 64_000
# A block with fewer uncompressed bytes is small, unless it is the last one. Common writers do not close blocks before 16,000 bytes.
_SMALL_BLOCK_BYTES = 8_000


@dataclass(frozen=True, slots=True)
class Container:
    """An opened container file: its bytes, the content of its header, and `body_start`, the byte at which the blocks begin."""

    path: str
    content: bytes
    metadata: Mapping[str, bytes]
    schema_text: bytes
    codec: str
    sync: bytes
    body_start: int


@dataclass(frozen=True, slots=True)
class RawBlock:
    """A block of a file that is not decompressed yet: it has `count` records, starts at byte `offset`, and has the compressed bytes `content[start:end]`."""

    count: int
    offset: int
    start: int
    end: int


def open_container(content: bytes, path: str) -> Container:
    """Read the header of a file.

    Raises:
        AvroFormatError: the file is not Avro, or its header is truncated.
    """
    if content[:4] != MAGIC:
        what = "the file is empty" if not content else "it does not begin with Avro's magic bytes"
        if content[:4] == _ENCRYPTED_MAGIC:
            what = "it is encrypted; encrypted tables are not read"
        raise broken_avro(path, 0, what)
    try:
        metadata, position = _read_metadata(content, 4)
    except (IndexError, TornDataError) as error:
        raise broken_avro(path, len(content), "the header is cut short or damaged") from error
    body_start = position + SYNC_LENGTH
    if body_start > len(content):
        raise broken_avro(path, len(content), "the file ends inside its header")
    if "avro.schema" not in metadata:
        raise broken_avro(path, 4, "the header has no avro.schema")
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    return Container(path, content, metadata, metadata["avro.schema"], codec, content[position:body_start], body_start)


def _read_metadata(content: bytes, position: int) -> tuple[dict[str, bytes], int]:
    metadata: dict[str, bytes] = {}
    while True:
        count, position = decode_long(content, position)
        if count == 0:
            return metadata, position
        if count < 0:  # a negative count is followed by the size in bytes
            _, position = decode_long(content, position)
        for _ in range(abs(count)):
            key, position = _read_bytes(content, position)
            value, position = _read_bytes(content, position)
            metadata[key.decode("utf-8", "replace")] = value


def _read_bytes(content: bytes, position: int) -> tuple[bytes, int]:
    length, position = decode_long(content, position)
    end = position + length
    if length < 0 or end > len(content):
        raise TornDataError(position, "a length reaches beyond the file")
    return content[position:end], end


def raw_blocks(container: Container, start: int | None = None) -> Iterator[RawBlock]:
    """Yield the positions of the compressed blocks, in file order; of all blocks, or of those from the byte `start` on.

    Raises:
        AvroFormatError: a block extends beyond the file, or its sync marker is not that of the header.
    """
    content, path, sync = container.content, container.path, container.sync
    position = container.body_start if start is None else start
    total = len(content)
    while position < total:
        offset = position
        try:
            count, position = decode_long(content, position)
            length, position = decode_long(content, position)
        except (IndexError, TornDataError) as error:
            raise broken_avro(path, offset, "the file ends inside a block's header, or that header is damaged") from error
        if count < 0 or length < 0:
            raise broken_avro(path, offset, f"a block claims {count} records in {length} bytes")
        end = position + length
        if end + SYNC_LENGTH > total:
            missing = end + SYNC_LENGTH - total
            raise broken_avro(path, offset, f"the file is cut short: {missing} bytes of the last block are missing")
        if not content.startswith(sync, end):
            raise broken_avro(path, end, "the sync marker after a block is not that of the header")
        yield RawBlock(count, offset, position, end)
        position = end + SYNC_LENGTH


def count_records(container: Container) -> int:
    """Return the sum of the record counts of all blocks. Raises the errors of `raw_blocks`."""
    return sum(block.count for block in raw_blocks(container))


def read_block(container: Container, block: RawBlock) -> bytes:
    """Return the uncompressed bytes of a block. Raises the errors of `decompress`, and `AvroFormatError` if the block claims more records than bytes."""
    data = decompress(container.codec, container.content[block.start : block.end], path=container.path, offset=block.offset)
    # A record has at least one byte. Without this check, reading a block with a damaged count could take very long.
    if block.count > len(data):
        raise broken_avro(container.path, block.offset, f"a block claims {block.count} records in {len(data)} bytes")
    return data


def unpacked_blocks(container: Container, start: int | None = None, size: int = 0) -> Iterator[tuple[RawBlock, bytes]]:
    """Yield each block of a file with its uncompressed bytes, for readers that keep all of them in memory.

    Args:
        container: the file.
        start: the byte at which the first block begins; None for all blocks.
        size: the number of uncompressed bytes of the blocks before `start`, which count towards the limit.

    Raises:
        AvroFormatError: see `raw_blocks` and `read_block`; or all blocks together have more bytes than the limit `avro_file_bytes`.
    """
    limit = limits().avro_file_bytes
    for block in raw_blocks(container, start):
        data = read_block(container, block)
        size += len(data)
        if size > limit:
            what = f"the blocks up to this one unpack to {size} bytes, out of a file of {len(container.content)}"
            raise above_limit(container.path, block.offset, what, "avro_file_bytes")
        yield block, data


def has_small_blocks(container: Container) -> bool:
    """Return True if the blocks of a file are far smaller than `BLOCK_BYTES`, for example of one record each. Only the first of several blocks is tested.

    Raises:
        AvroFormatError: see `raw_blocks` and `read_block`.
    """
    first = next(raw_blocks(container), None)
    is_only = first is None or first.end + SYNC_LENGTH == len(container.content)
    return first is not None and not is_only and len(read_block(container, first)) < _SMALL_BLOCK_BYTES


def header_bytes(schema_text: str, metadata: Mapping[str, str], codec: str, sync: bytes) -> bytes:
    """Return the header of a file, including its sync marker."""
    return _header_without_sync(schema_text, metadata, codec) + sync


def _header_without_sync(schema_text: str, metadata: Mapping[str, str], codec: str) -> bytes:
    pairs = {**metadata, "avro.schema": schema_text, "avro.codec": codec}
    parts = [MAGIC, encode_long(len(pairs))]
    for key, text in pairs.items():
        for data in (key.encode(), text.encode()):
            parts += (encode_long(len(data)), data)
    parts.append(encode_long(0))
    return b"".join(parts)


def sync_marker(schema_text: str, metadata: Mapping[str, str], codec: str) -> bytes:
    """Return the 16 bytes that end each block of a file. They are a hash of the header, so that the result depends only on the arguments."""
    return bytes(mmh3.hash_bytes(_header_without_sync(schema_text, metadata, codec)))


def block_bytes(count: int, data: bytes, codec: str, sync: bytes) -> bytes:
    """Return a complete block of `count` records, with its sync marker."""
    packed = compress(codec, data)
    return b"".join((encode_long(count), encode_long(len(packed)), packed, sync))


def write_container(schema_text: str, metadata: Mapping[str, str], codec: str, records: Iterable[bytes]) -> bytes:
    """Return a complete file of encoded records, in blocks of about `BLOCK_BYTES`; `codec` is a name that `codec_name` returns."""
    sync = sync_marker(schema_text, metadata, codec)
    parts = [header_bytes(schema_text, metadata, codec, sync)]
    pending: list[bytes] = []
    size = 0
    for record in records:
        pending.append(record)
        size += len(record)
        if size >= BLOCK_BYTES:
            parts.append(block_bytes(len(pending), b"".join(pending), codec, sync))
            pending, size = [], 0
    if pending:
        parts.append(block_bytes(len(pending), b"".join(pending), codec, sync))
    return b"".join(parts)


def write_records_container(
    schema_text: str, metadata: Mapping[str, str], codec: str, parts: Iterable[tuple[Any, NDArray[np.int64]]]
) -> bytes:
    """Return a complete file of encoded records. Each part is a buffer of contiguous records, with the end of each record in the buffer."""
    blocks = ((count, compress(codec, data)) for count, data in split_into_blocks(parts))
    return blocks_container(schema_text, metadata, codec, blocks)


def blocks_container(schema_text: str, metadata: Mapping[str, str], codec: str, blocks: Iterable[tuple[int, Bytes]]) -> bytes:
    """Return a complete file with these blocks: pairs of the number of records and the compressed bytes of a block."""
    sync = sync_marker(schema_text, metadata, codec)
    # The blocks are written to a growing buffer, which is returned without a copy, so that the file is in memory only once.
    file = BytesIO()
    file.write(header_bytes(schema_text, metadata, codec, sync))
    for count, packed in blocks:
        for part in (encode_long(count), encode_long(len(packed)), packed, sync):
            file.write(part)
    return file.getvalue()


def split_into_blocks(parts: Iterable[tuple[Any, NDArray[np.int64]]]) -> Iterator[tuple[int, Bytes]]:
    """Split records into blocks of about `BLOCK_BYTES`, and yield the number of records and the bytes of each. `parts` are as in `write_records_container`."""
    pending: list[memoryview] = []  # records of the current block from earlier parts
    count = size = 0
    for data, ends in parts:
        view, start, row = memoryview(data), 0, 0
        while row < len(ends):
            # The block ends with the record that makes it long enough.
            # `numpy.searchsorted` would copy a read-only array.
            last = bisect_left(ends, start + BLOCK_BYTES - size, row)
            stop = int(ends[min(last, len(ends) - 1)])
            pending.append(view[start:stop])
            count, size, row = count + min(last + 1, len(ends)) - row, size + stop - start, last + 1
            start = stop
            if last < len(ends):
                yield count, _join_views(pending)
                pending, count, size = [], 0, 0
    if count:
        yield count, _join_views(pending)


def _join_views(pieces: list[memoryview]) -> Bytes:
    """Return the pieces joined. A single piece is returned without a copy."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
