"""The compression of Avro blocks: null, deflate, zstandard, snappy.

Spec: Apache Avro, Required and Optional Codecs.
"""

import zlib
from contextlib import suppress
from typing import Any

import pyarrow as pa

from icefloe.errors import AvroFormatError, InvalidPropertyError, UnsupportedFeatureError
from icefloe.spec.avro.avro_errors import above_limit, broken_avro
from icefloe.spec.limits import limits

# The library does not have a wheel for every platform; without it zlib compresses.
_isal: Any = None
try:
    from isal import isal_zlib

    _isal = isal_zlib
except ImportError:
    pass

Bytes = bytes | memoryview

# The values of the property `write.avro.compression-codec`, each with Avro's name of the codec.
CODECS = {
    "null": "null",
    "uncompressed": "null",
    "none": "null",
    "deflate": "deflate",
    "gzip": "deflate",
    "zstandard": "zstandard",
    "zstd": "zstandard",
    "snappy": "snappy",
}
# Avro's deflate blocks have neither header nor checksum (RFC 1951).
_RAW_DEFLATE = -15
# The default level of zlib. Level 9 made manifests 1 % smaller and took twice as long.
_DEFLATE_LEVEL = 6
# The middle level of ISA-L takes a thirteenth of zlib's time and makes manifests a tenth larger. It is not used to decompress: it accepts damaged bytes.
_ISAL_LEVEL = 2
_ZSTD_LEVEL = 3
_ZSTANDARD_MAGIC = b"\x28\xb5\x2f\xfd"
# The initial size of the output buffer: enough for a usual block, because growing the buffer costs a tenth of the time. Small blocks get a smaller buffer.
_INFLATED_BYTES = 72 * 1024
_INFLATED_TIMES = 8
# For each codec, the most bytes that one compressed byte can expand to. Deflate can encode 258 bytes in two bits, zstandard 128 KiB in four bytes, snappy 64
# bytes in three.
_MOST_DEFLATED = 1032
_MOST_ZSTANDARD = 32 * 1024
_MOST_SNAPPY = 22


def codec_name(name: str) -> str:
    """Return Avro's name for a codec name of the user's configuration. Raises `InvalidPropertyError` for an unknown codec."""
    try:
        return CODECS[name.lower()]
    except KeyError:
        names = ", ".join(sorted(CODECS))
        raise InvalidPropertyError(f"{name!r} is not an Avro compression codec", next_step=f"use one of {names}") from None


def decompress(codec: str, data: bytes, *, path: str, offset: int) -> bytes:
    """Return the uncompressed bytes of one block. Decompression stops at the limit `avro_block_bytes`.

    Args:
        codec: Avro's name of the codec.
        data: the compressed bytes.
        path: the path of the file, for errors.
        offset: the byte of the file at which the block starts, for errors.

    Raises:
        AvroFormatError: the bytes are damaged, or unpack to more than the limit.
        UnsupportedFeatureError: the codec is not one of Avro's four that Iceberg writers use.
    """
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return _decompress_deflate(data, path, offset)
        if codec == "zstandard":
            return _decompress_zstandard(data, path, offset)
        if codec == "snappy":
            return _decompress_snappy(data, path, offset)
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise broken_avro(path, offset, f"a block cannot be decompressed with {codec}: {error}") from error
    raise UnsupportedFeatureError(f"{path} is compressed with {codec!r}; null, deflate, zstandard and snappy can be read", path=path)


def _too_large(data: bytes, path: str, offset: int) -> AvroFormatError:
    return above_limit(path, offset, f"a block of {len(data)} bytes unpacks to more than is allowed", "avro_block_bytes")


def _decompress_deflate(data: bytes, path: str, offset: int) -> bytes:
    limit = limits().avro_block_bytes
    if len(data) * _MOST_DEFLATED <= limit:
        return zlib.decompress(data, _RAW_DEFLATE, min(_INFLATED_BYTES, max(len(data) * _INFLATED_TIMES, 1)))
    inflater = zlib.decompressobj(_RAW_DEFLATE)
    plain = inflater.decompress(data, limit)
    if not inflater.eof:
        # One more byte is requested; there is none if only the end marker follows the last allowed byte.
        if inflater.decompress(inflater.unconsumed_tail, 1):
            raise _too_large(data, path, offset)
        if not inflater.eof:
            raise broken_avro(path, offset, "a block cannot be decompressed with deflate: it is cut short")
    return plain


def _decompress_zstandard(data: bytes, path: str, offset: int) -> bytes:
    if not data:
        raise broken_avro(path, offset, "a block cannot be decompressed with zstandard: it is empty")
    limit = limits().avro_block_bytes
    size = _zstandard_size(data)
    if size is not None and size <= min(limit, len(data) * _MOST_ZSTANDARD):
        with suppress(pa.ArrowException, OSError):  # reading it as a stream finds out whether the data are damaged or have several frames
            return bytes(pa.decompress(data, size, codec="zstd", asbytes=True))
    # A frame without its size in the header is read as a stream, which takes 25 microseconds longer. Pages of the buffer that are never written need no memory.
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        # `read_buffer` is used because pyarrow's `read` never frees its bytes object if it fails.
        plain = bytes(stream.read_buffer(min(limit, len(data) * _MOST_ZSTANDARD) + 1))
    if len(plain) > limit:
        raise _too_large(data, path, offset)
    return plain


def _zstandard_size(data: bytes) -> int | None:
    """Return the uncompressed size from the header of a zstandard frame; None if the header does not contain it. Spec: RFC 8878, Frame_Header."""
    if not data.startswith(_ZSTANDARD_MAGIC) or len(data) < 6:
        return None
    descriptor = data[4]
    is_single = bool(descriptor & 0x20)
    width = (is_single, 2, 4, 8)[descriptor >> 6]
    start = 5 + (not is_single) + (0, 1, 2, 4)[descriptor & 3]
    field = data[start : start + width]
    if not width or len(field) < width:
        return None
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


def _decompress_snappy(data: bytes, path: str, offset: int) -> bytes:
    # A snappy block ends with the CRC-32 of the uncompressed bytes, big endian.
    if len(data) < 4:
        raise broken_avro(path, offset, "a snappy block is too short for its checksum")
    claimed = _snappy_size(data[:-4], path, offset)
    if claimed > limits().avro_block_bytes:
        raise above_limit(path, offset, f"a block of {len(data)} bytes claims to unpack to {claimed}", "avro_block_bytes")
    if claimed > _MOST_SNAPPY * len(data):
        raise broken_avro(path, offset, f"a snappy block of {len(data)} bytes claims to hold {claimed}")
    plain = bytes(pa.decompress(data[:-4], claimed, codec="snappy", asbytes=True))  # raises if the content has a different size
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise broken_avro(path, offset, "the checksum of a snappy block does not fit its bytes")
    return plain


def _snappy_size(data: bytes, path: str, offset: int) -> int:
    """Return the uncompressed size from the first bytes of a snappy block: a varint of at most 32 bits, with the lowest bits first."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise broken_avro(path, offset, "a snappy block does not begin with its size")


def compress(codec: str, data: Bytes) -> Bytes:
    """Compress the bytes of one block; `codec` is a name that `codec_name` returns."""
    if codec == "deflate" and _isal is not None:
        return bytes(_isal.compress(data, _ISAL_LEVEL, _RAW_DEFLATE))
    if codec == "deflate":
        packer = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
        return packer.compress(data) + packer.flush()
    if codec == "zstandard":
        return bytes(pa.Codec("zstd", _ZSTD_LEVEL).compress(data, asbytes=True))
    if codec == "snappy":
        return bytes(pa.compress(data, codec="snappy", asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")
    return data
