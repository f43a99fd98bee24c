"""Compression of blobs and footers as a single LZ4 or Zstandard frame, which contains its content size.

The structure of a frame (header, blocks, end) is checked before it is decompressed: it must be one frame without trailing bytes, and its blocks must be able to
contain the content size in the header. The codec library checks the checksums in frames.
Spec: Puffin file format, Compression codecs; LZ4 Frame Format; RFC 8878, Zstandard.
"""

from dataclasses import dataclass

import pyarrow as pa

from icefloe.errors import InvalidPropertyError
from icefloe.spec.limits import limits
from icefloe.spec.puffin.puffin_errors import puffin_format_error, puffin_limit_error

LZ4 = "lz4"
ZSTD = "zstd"
CODECS = (LZ4, ZSTD)

_ZSTD_LEVEL = 3  # the default level of zstd, and of other Puffin writers
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_MAX_BLOCK_BYTES = 128 * 1024  # RFC 8878, Block_Maximum_Size
_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED = 0, 1, 2
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_MAX_RATIO = 255  # one byte of an LZ4 sequence expands to at most 255 bytes of content
_LZ4_CONTENT_SIZE_FLAG = 0x08
# The primes of XXH32.
_PRIME1, _PRIME2, _PRIME3, _PRIME4, _PRIME5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


class _InvalidFrameError(ValueError):
    """The error for an invalid structure of a frame. The text is the reason."""


@dataclass(frozen=True, slots=True)
class _Outline:
    """The structure of a frame: the position of its end, the content size in its header, and the greatest size that its blocks can expand to."""

    end: int
    content_size: int
    max_content: int


def decompress(codec: str | None, data: bytes, *, path: str, offset: int, limit: str) -> bytes:
    """Return the content of one compressed frame; `data` itself if `codec` is None.

    Args:
        codec: None, "lz4" or "zstd".
        data: The bytes.
        path: Location of the file, for errors.
        offset: Byte of the file at which `data` starts.
        limit: Name of the limit, one of `Limits`, for the size of the content.

    Raises:
        PuffinFormatError: The codec is unknown; the bytes are not one valid frame with its content size; or the content exceeds the limit.
    """
    if codec is None:
        return data
    if codec not in CODECS:
        raise puffin_format_error(path, offset, f"the compression codec {codec!r} is not one of {', '.join(CODECS)}")
    try:
        outline = _lz4_outline(data) if codec == LZ4 else _zstd_outline(data)
        if outline.end != len(data):
            raise _InvalidFrameError(f"{len(data) - outline.end} bytes follow the frame")
        if outline.content_size > outline.max_content:
            raise _InvalidFrameError(f"it claims {outline.content_size} bytes of content in {len(data)} bytes, which is impossible")
        if outline.content_size > getattr(limits(), limit):
            raise puffin_limit_error(path, offset, f"a {codec} frame claims {outline.content_size} bytes of content in {len(data)}", limit)
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            # `read_buffer` is used because pyarrow's `read` never frees its bytes object if it fails.
            plain = bytes(stream.read_buffer(outline.content_size + 1))
        if len(plain) != outline.content_size:
            contained = len(plain) if len(plain) < outline.content_size else "more"
            raise _InvalidFrameError(f"it claims {outline.content_size} bytes of content and contains {contained}")
    except IndexError as error:
        raise puffin_format_error(path, offset, f"a {codec} frame is cut short") from error
    except (_InvalidFrameError, pa.ArrowException, OSError) as error:
        raise puffin_format_error(path, offset, f"a {codec} frame is damaged: {error}") from error
    return plain


def compress(codec: str | None, data: bytes) -> bytes:
    """Return `data` as one frame with its content size; unchanged if `codec` is None.

    Raises:
        InvalidPropertyError: Puffin does not have the codec.
    """
    if codec is None:
        return data
    if codec == ZSTD:
        return bytes(pa.Codec("zstd", _ZSTD_LEVEL).compress(data, asbytes=True))
    if codec == LZ4:
        return _with_content_size(bytes(pa.compress(data, codec="lz4", asbytes=True)), len(data))
    raise InvalidPropertyError(f"{codec!r} is not a compression codec of Puffin", next_step=f"use one of {', '.join(CODECS)}, or None")


def _number(data: bytes, start: int, length: int) -> int:
    """Read a little-endian number of `length` bytes. Raises `IndexError` if the data ends before."""
    if start + length > len(data):
        raise IndexError(start)
    return int.from_bytes(data[start : start + length], "little")


def _lz4_outline(data: bytes) -> _Outline:
    if data[:4] != _LZ4_MAGIC:
        raise _InvalidFrameError("it does not begin with LZ4's magic bytes")
    flags = data[4]
    if flags >> 6 != 1:
        raise _InvalidFrameError(f"its version is {flags >> 6}, not 1")
    if flags & 0x03:
        raise _InvalidFrameError("it needs a dictionary, or sets a reserved bit")
    if not flags & _LZ4_CONTENT_SIZE_FLAG:
        raise _InvalidFrameError("it lacks its content size")
    content_size = _number(data, 6, 8)
    block_checksum = 4 if flags & 0x10 else 0
    position = 15  # magic, flags, block size, content size, header checksum
    while size := _number(data, position, 4):
        position += 4 + (size & 0x7FFFFFFF) + block_checksum  # the top bit is set for an uncompressed block
    position += 4 + (4 if flags & 0x04 else 0)
    if position > len(data):
        raise IndexError(position)
    return _Outline(position, content_size, _LZ4_MAX_RATIO * len(data))


def _with_content_size(frame: bytes, size: int) -> bytes:
    """Insert the content size into the header of a frame of the library, which leaves it out although Puffin requires it."""
    descriptor = bytes((frame[4] | _LZ4_CONTENT_SIZE_FLAG, frame[5])) + size.to_bytes(8, "little")
    return b"".join((_LZ4_MAGIC, descriptor, bytes((_short_xxh32(descriptor) >> 8 & 0xFF,)), frame[7:]))


def _short_xxh32(data: bytes) -> int:
    """Return the XXH32 hash with seed 0 of fewer than 16 bytes, such as the header of a frame."""
    whole = len(data) // 4 * 4
    value = _PRIME5 + len(data)
    for start in range(0, whole, 4):
        value = value + int.from_bytes(data[start : start + 4], "little") * _PRIME3 & _MASK
        value = (value << 17 | value >> 15) * _PRIME4 & _MASK
    for byte in data[whole:]:
        value = value + byte * _PRIME5 & _MASK
        value = (value << 11 | value >> 21) * _PRIME1 & _MASK
    value = (value ^ value >> 15) * _PRIME2 & _MASK
    value = (value ^ value >> 13) * _PRIME3 & _MASK
    return value ^ value >> 16


def _zstd_outline(data: bytes) -> _Outline:
    if data[:4] != _ZSTD_MAGIC:
        raise _InvalidFrameError("it does not begin with Zstandard's magic bytes")
    descriptor = data[4]
    single_segment = bool(descriptor & 0x20)
    if descriptor & 0x0B:
        raise _InvalidFrameError("it needs a dictionary, or sets a reserved bit")
    size_flag = descriptor >> 6
    if not size_flag and not single_segment:
        raise _InvalidFrameError("it lacks its content size")
    size_length = 1 << size_flag
    position = 5 + (not single_segment)  # a single segment has no window descriptor
    content_size = _number(data, position, size_length) + (256 if size_flag == 1 else 0)
    position += size_length
    blocks = 0
    last = 0
    while not last:
        header = _number(data, position, 3)
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind not in (_ZSTD_RAW, _ZSTD_RLE, _ZSTD_COMPRESSED):
            raise _InvalidFrameError("a block is of a reserved type")
        position += 3 + (1 if kind == _ZSTD_RLE else size)
        blocks += 1
    position += 4 if descriptor & 0x04 else 0
    if position > len(data):
        raise IndexError(position)
    return _Outline(position, content_size, blocks * _ZSTD_MAX_BLOCK_BYTES)
