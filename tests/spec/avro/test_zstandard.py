"""The decompression of zstandard blocks by the compiled reader, with libzstd: it has the bytes of `avro_codec.py`, and leaves other data to that."""

import random
import resource
import struct

import pyarrow as pa
import pytest
from tests.spec.avro.both_readers import needs_libzstd, without_libzstd
from tests.spec.avro.test_inflate import NO_LIMIT, damaged, inflated, plain_bytes

from icefloe.errors import AvroFormatError
from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_codec import decompress

pytestmark = needs_libzstd
SIZES = [0, 1, 5, 50, 300, 900, 5_000, 70_000, 400_000]


def unpacked(data: bytes, size: int, most: int = NO_LIMIT) -> bytes | None:
    """Return the decompressed bytes of a block, which must be `size`; None if the module leaves the block to its caller."""
    return inflated(data, size, most, codec=2)


def by_python(data: bytes) -> bytes | None:
    """Return the bytes that the functions without the module decompress; None for damaged data."""
    try:
        return decompress("zstandard", data, path="some.avro", offset=0)
    except AvroFormatError:
        return None


def frame(plain: bytes, level: int = 3) -> bytes:
    """Return a frame that has its size."""
    return bytes(pa.Codec("zstd", level).compress(plain, asbytes=True))


def unsized_frame(plain: bytes) -> bytes:
    """Return a frame as a stream writes it, without a size."""
    target = pa.BufferOutputStream()
    with pa.CompressedOutputStream(target, "zstd") as stream:
        stream.write(plain)
    return bytes(target.getvalue())


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_every_level_have_the_bytes_that_were_compressed(seed: int) -> None:
    chance = random.Random(seed)
    for size in SIZES:
        plain = plain_bytes(chance, size)
        assert unpacked(frame(plain, chance.choice([-5, 1, 3, 9, 19])), len(plain)) == plain


@pytest.mark.parametrize("seed", range(4))
def test_damaged_frames_are_refused_where_the_functions_without_the_module_refuse_them_but_for_one_in_a_hundred(seed: int) -> None:
    """Frames without a checksum are compared: pyarrow has a libzstd of its own, and versions of it find different damage."""
    chance = random.Random(seed)
    refused, accepted, refused_by_one, differ = 0, 0, 0, 0
    for _ in range(150):
        data = frame(plain_bytes(chance, chance.choice(SIZES[:7])), chance.choice([1, 3, 19]))
        for changed in (damaged(chance, data) for _ in range(20)):
            expected = by_python(changed)
            if expected is None:
                refused += 1
                refused_by_one += not is_left_to_the_caller(changed)
            else:
                accepted += 1
                differ += unpacked(changed, len(expected)) not in (expected, None)
    assert refused > 500
    assert accepted > 200
    assert refused_by_one * 100 < refused
    assert differ * 20 < accepted


def is_left_to_the_caller(data: bytes) -> bool:
    """Return whether the module does not decompress a block, to any number of bytes."""
    try:
        return unpacked(data, 0) is None
    except ValueError:  # the block has bytes, which are not read as records
        return False


def test_data_that_are_not_one_frame_with_its_size_are_left_to_the_caller() -> None:
    plain = bytes(range(100))
    skippable = struct.pack("<II", 0x184D2A50, 4) + b"some"
    others = {
        "two frames": (frame(plain) * 2, plain * 2),
        "a skippable frame before": (skippable + frame(plain), plain),
        "a skippable frame behind": (frame(plain) + skippable, plain),
        "no size": (unsized_frame(plain), plain),
        "bytes behind": (frame(plain) + b"bytes", None),
        "cut": (frame(plain)[:-1], None),
        "nothing": (b"", None),
        "the magic alone": (frame(plain)[:4], None),
    }
    assert unpacked(frame(plain), 100) == plain
    for what, (data, expected) in others.items():
        assert is_left_to_the_caller(data), what
        if expected is not None:
            assert by_python(data) == expected, what


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_frames_that_unpack_to_more_than_the_limit_are_left_to_the_caller(size: int) -> None:
    for plain in (bytes(size), random.Random(1).randbytes(size)):
        assert unpacked(frame(plain), size, most=size) == plain
        assert unpacked(frame(plain), size, most=size - 1) is None


def test_no_memory_is_reserved_for_a_size_that_the_data_cannot_have() -> None:
    data = bytearray(frame(bytes(2**20)))
    assert data[4] >> 6 == 2  # the size has four bytes
    start = 5 + (not data[4] & 0x20)
    data[start : start + 4] = struct.pack("<I", 2**32 - 1)
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**33, limit[1]))
    try:
        assert unpacked(bytes(data), 0) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


def test_a_missing_library_and_one_without_libzstd_leave_every_block_to_the_caller() -> None:
    data = frame(b"some bytes")
    assert unpacked(data, 10) == b"some bytes"
    with without_libzstd():
        assert unpacked(data, 10) is None
    module = str(compiled_codec.native().__file__)  # a library that can be opened
    try:
        assert compiled_codec.native().open_libzstd(module) is False
        assert unpacked(data, 10) is None
    finally:
        assert any(map(compiled_codec.native().open_libzstd, compiled_codec.LIBZSTD))
    assert unpacked(data, 10) == b"some bytes"


def test_a_codec_that_the_module_does_not_have_is_left_to_the_caller() -> None:
    for codec in (-1, 4, 2**31 - 1):
        assert inflated(frame(b"some bytes"), 10, codec=codec) is None


def test_no_state_is_left_after_data_that_are_read_or_refused() -> None:
    sound = frame(bytes(100))
    cases = [(sound, NO_LIMIT), (sound[:-1], NO_LIMIT), (sound[:8] + b"\xff" + sound[9:], NO_LIMIT), (sound, 99)]

    def read_all(times: int) -> None:
        for _ in range(times):
            for data, most in cases:
                inflated(data, 100, most, codec=2)

    read_all(100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read_all(2_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # a state has 95 KB
