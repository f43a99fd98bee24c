"""The compression of Avro blocks: null, deflate, zstandard, snappy.

Floor: kernel.avro. Spec: Apache Avro, Required and Optional Codecs.
"""

import zlib
from typing import Any

import cramjam

from icefloe.errors import InvalidPropertyError, UnsupportedFeatureError
from icefloe.kernel.avro.failure import broken_avro

# Neither has a wheel for every machine; zlib does the same everywhere.
_isal: Any = None
_inflating: Any = zlib
try:
    from isal import isal_zlib
    from zlib_ng import zlib_ng

    _isal = isal_zlib
    # zlib's own code for other processors' instructions: two thirds of its time, and as strict about damage.
    _inflating = zlib_ng
except ImportError:
    pass

Bytes = bytes | memoryview

# What the property `write.avro.compression-codec` may say, and the name Avro has for it.
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
# Avro's deflate blocks carry neither header nor checksum (RFC 1951).
_RAW_DEFLATE = -15
# zlib's own middle. Level 9 made manifests 1 % smaller and took twice as long.
_DEFLATE_LEVEL = 6
# ISA-L's middle: a thirteenth of zlib's time for manifests a tenth larger. It only compresses here, since it decompresses damaged bytes without an error.
_ISAL_LEVEL = 2
_ZSTD_LEVEL = 3
# Room for the usual block, which is inflated into one piece then: growing costs a tenth of the time. A block of few bytes gets as little as zlib would give it.
_INFLATED_BYTES = 72 * 1024
_INFLATED_TIMES = 8


def codec_name(name: str) -> str:
    """Avro's name for a codec that a user named. Raises `InvalidPropertyError` for one that is not known."""
    try:
        return CODECS[name.lower()]
    except KeyError:
        known = ", ".join(sorted(CODECS))
        raise InvalidPropertyError(f"{name!r} is not an Avro compression codec", next_step=f"use one of {known}") from None


def decompress(codec: str, data: bytes, *, path: str, offset: int) -> bytes:
    """The bytes of one block that starts at byte `offset` of the file.

    Raises:
        AvroFormatError: the bytes are damaged.
        UnsupportedFeatureError: the codec is not one of Avro's four that Iceberg writers use.
    """
    try:
        if codec == "null":
            return data
        if codec == "deflate":
            return bytes(_inflating.decompress(data, _RAW_DEFLATE, min(_INFLATED_BYTES, max(len(data) * _INFLATED_TIMES, 1))))
        if codec == "zstandard":
            return bytes(cramjam.zstd.decompress(data))
        if codec == "snappy":
            return _decompress_snappy(data, path, offset)
    except (zlib.error, _inflating.error, cramjam.DecompressionError) as error:
        raise broken_avro(path, offset, f"a block cannot be decompressed with {codec}: {error}") from error
    raise UnsupportedFeatureError(f"{path} is compressed with {codec!r}; null, deflate, zstandard and snappy can be read", path=path)


def _decompress_snappy(data: bytes, path: str, offset: int) -> bytes:
    # A snappy block ends with the CRC-32 of the uncompressed bytes, big endian.
    if len(data) < 4:
        raise broken_avro(path, offset, "a snappy block is too short for its checksum")
    plain = bytes(cramjam.snappy.decompress_raw(data[:-4]))
    if zlib.crc32(plain) != int.from_bytes(data[-4:], "big"):
        raise broken_avro(path, offset, "the checksum of a snappy block does not fit its bytes")
    return plain


def compress(codec: str, data: Bytes) -> Bytes:
    """One block's bytes for the file; `codec` as `codec_name` gives it."""
    if codec == "deflate" and _isal is not None:
        return bytes(_isal.compress(data, _ISAL_LEVEL, _RAW_DEFLATE))
    if codec == "deflate":
        packer = zlib.compressobj(_DEFLATE_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
        return packer.compress(data) + packer.flush()
    if codec == "zstandard":
        return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL))
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
    return data
