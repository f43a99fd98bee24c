"""Puffin files as containers of blobs: functions that write them, and read them while checking magic bytes, footer and every size.

The functions work on the bytes of a file, or with a callable that reads ranges of it. `deletion_vector.py` has the content of a deletion vector's blob.

Spec: Puffin file format, File structure; Puffin file format, Footer structure; Puffin file format; Puffin file format, Versions; Puffin file format, Blob
types.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from icefloe.errors import InvalidInputError
from icefloe.spec.puffin.puffin_codec import LZ4, compress, decompress
from icefloe.spec.puffin.puffin_errors import puffin_format_error
from icefloe.spec.puffin.puffin_metadata import BlobMetadata, FileMetadata, file_metadata_from_json, file_metadata_to_json

MAGIC = b"PFA1"
# The end of the footer: the size of the payload, the flags, and the magic bytes. The magic bytes are also before the payload.
_TAIL_BYTES = 12
_FOOTER_FRAME_BYTES = len(MAGIC) + _TAIL_BYTES
_COMPRESSED_FOOTER = 1
# The number of bytes of the first read from the end of a file. It is enough for a footer of some fifty blobs, so most files need one or two requests.
_FIRST_READ_BYTES = 16 * 1024
_MAX_PAYLOAD_BYTES = 2**31 - 1  # because the size is a signed 4-byte integer

# A function (offset, length) -> bytes that reads `length` bytes from byte `offset` on.
ReadRange = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class PuffinSource:
    """A file to read from: its name for errors, its size in bytes, and a callable that reads ranges of it."""

    path: str
    file_size: int
    read_range: ReadRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One blob to write: its uncompressed `data`, and its metadata without its position."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    data: bytes
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def in_memory_puffin(content: bytes, path: str) -> PuffinSource:
    """Return a source for a whole file in memory."""
    return PuffinSource(path, len(content), lambda offset, length: content[offset : offset + length])


def read_file_metadata(source: PuffinSource) -> FileMetadata:
    """Read the footer, in one to three ranges, and check the magic bytes at the start, before the footer and at the end.

    Raises:
        PuffinFormatError: The file is not a Puffin file, is truncated, has an unknown flag, or its footer is damaged or violates a rule; the error has the file
            and the byte.
    """
    path, size = source.path, source.file_size
    if size < len(MAGIC) + _FOOTER_FRAME_BYTES:
        raise puffin_format_error(path, 0, "the file is empty" if not size else f"{size} bytes are too few for a Puffin file")
    start = max(0, size - _FIRST_READ_BYTES)
    end_of_file = _read(source, start, size - start)
    head = end_of_file[: len(MAGIC)] if start == 0 else _read(source, 0, len(MAGIC))
    if head != MAGIC:
        raise puffin_format_error(path, 0, "it does not begin with Puffin's magic bytes")
    payload_size, compressed = _tail(end_of_file[-_TAIL_BYTES:], path, size - _TAIL_BYTES)
    footer_start = size - _FOOTER_FRAME_BYTES - payload_size
    if footer_start < len(MAGIC):
        raise puffin_format_error(path, size - _TAIL_BYTES, f"a footer of {payload_size} bytes does not fit into a file of {size}")
    if footer_start >= start:
        footer = end_of_file[footer_start - start : -_TAIL_BYTES]
    else:
        footer = _read(source, footer_start, len(MAGIC) + payload_size)
    if footer[: len(MAGIC)] != MAGIC:
        raise puffin_format_error(path, footer_start, "the footer does not begin with Puffin's magic bytes")
    payload_start = footer_start + len(MAGIC)
    payload = decompress(LZ4 if compressed else None, footer[len(MAGIC) :], path=path, offset=payload_start, limit="puffin_footer_bytes")
    return file_metadata_from_json(payload, path=path, offset=payload_start, first_byte=len(MAGIC), end_byte=footer_start)


def read_blob(source: PuffinSource, blob: BlobMetadata) -> bytes:
    """Return the content of one blob, uncompressed.

    Raises:
        PuffinFormatError: The blob is outside of the file, does not match its codec, or exceeds the limit `puffin_blob_bytes`.
    """
    # The metadata may come from the table's metadata instead of the file's footer, so it is compared with the file here too.
    if blob.length < 0 or blob.offset < len(MAGIC) or blob.offset + blob.length > source.file_size - _FOOTER_FRAME_BYTES:
        what = f"a blob of {blob.length} bytes at byte {blob.offset} is outside of a file of {source.file_size} bytes"
        raise puffin_format_error(source.path, blob.offset, what)
    stored = _read(source, blob.offset, blob.length)
    return decompress(blob.compression_codec, stored, path=source.path, offset=blob.offset, limit="puffin_blob_bytes")


def _read(source: PuffinSource, offset: int, length: int) -> bytes:
    data = source.read_range(offset, length)
    if len(data) != length:
        raise puffin_format_error(
            source.path, offset, f"the file is truncated: {length} bytes were expected there, and {len(data)} were read"
        )
    return data


def _tail(tail: bytes, path: str, offset: int) -> tuple[int, bool]:
    """Return the size of the payload in bytes, and whether it is compressed, from the last bytes of the file."""
    if tail[8:] != MAGIC:
        raise puffin_format_error(path, offset + 8, "it does not end with Puffin's magic bytes")
    payload_size = int.from_bytes(tail[:4], "little", signed=True)
    flags = int.from_bytes(tail[4:8], "little")
    if payload_size < 0:
        raise puffin_format_error(path, offset, f"the footer's size is {payload_size}")
    if flags & ~_COMPRESSED_FOOTER:
        raise puffin_format_error(
            path, offset + 4, f"the flags {tail[4:8].hex()} have bits set that this version of Puffin does not define"
        )
    return payload_size, bool(flags)


def write_puffin(blobs: Iterable[Blob], *, properties: Mapping[str, str], compress_footer: bool = False) -> tuple[bytes, FileMetadata]:
    """Return a whole file, and the metadata in its footer.

    Args:
        blobs: The blobs.
        properties: Properties of the file, which should include "created-by".
        compress_footer: Whether to compress the footer; the reference implementation cannot read compressed footers.

    Raises:
        InvalidPropertyError: Puffin does not have a compression codec.
        InvalidInputError: UTF-8 cannot encode a text, or the footer exceeds 2 GiB.
    """
    parts = [MAGIC]
    position = len(MAGIC)
    blob_metadata = []
    for blob in blobs:
        stored = compress(blob.compression_codec, blob.data)
        blob_metadata.append(
            BlobMetadata(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=position,
                length=len(stored),
                compression_codec=blob.compression_codec,
                properties=dict(blob.properties),
            )
        )
        parts.append(stored)
        position += len(stored)
    metadata = FileMetadata(blobs=tuple(blob_metadata), properties=dict(properties))
    payload = compress(LZ4 if compress_footer else None, file_metadata_to_json(metadata))
    if len(payload) > _MAX_PAYLOAD_BYTES:
        raise InvalidInputError(
            f"a Puffin footer cannot be {len(payload)} bytes long; spread the {len(blob_metadata)} blobs over several files"
        )
    flags = _COMPRESSED_FOOTER if compress_footer else 0
    parts += _footer(payload, flags)
    return b"".join(parts), metadata


def with_blob_properties(content: bytes, path: str, changed: Callable[[Mapping[str, str]], Mapping[str, str]]) -> bytes:
    """Return a whole file with changed properties of its blobs. The blobs keep their positions and bytes.

    Args:
        content: The file.
        path: Its location, for errors.
        changed: Returns the new properties of a blob, given the present ones.

    Raises:
        PuffinFormatError: The file is damaged.
        InvalidInputError: UTF-8 cannot encode a text.
    """
    metadata = read_file_metadata(in_memory_puffin(content, path))
    payload_size, _ = _tail(content[-_TAIL_BYTES:], path, len(content) - _TAIL_BYTES)
    blobs = tuple(replace(blob, properties=dict(changed(blob.properties))) for blob in metadata.blobs)
    end_of_blobs = len(content) - _FOOTER_FRAME_BYTES - payload_size
    return b"".join((content[:end_of_blobs], *_footer(file_metadata_to_json(replace(metadata, blobs=blobs)), 0)))


def _footer(payload: bytes, flags: int) -> tuple[bytes, ...]:
    return MAGIC, payload, len(payload).to_bytes(4, "little"), flags.to_bytes(4, "little"), MAGIC
