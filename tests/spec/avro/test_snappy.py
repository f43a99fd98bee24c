"""The decompression of snappy blocks by the compiled reader, with libsnappy: it has the bytes of `avro_codec.py`, and leaves other data to that."""

import random
import resource

import pytest
from tests.spec.avro.both_readers import needs_libsnappy
from tests.spec.avro.test_inflate import NO_LIMIT, damaged, inflated, plain_bytes

from icefloe.errors import AvroFormatError
from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.avro_codec import compress, decompress

pytestmark = needs_libsnappy


def unpacked(data: bytes, size: int, most: int = NO_LIMIT) -> bytes | None:
    """Return the decompressed bytes of a block, which must be `size`; None if the module leaves the block to its caller."""
    return inflated(data, size, most, codec=3)


def by_python(data: bytes) -> bytes | None:
    """Return the bytes that the functions without the module decompress; None for damaged data."""
    try:
        return decompress("snappy", data, path="some.avro", offset=0)
    except AvroFormatError:
        return None


@pytest.mark.parametrize("seed", range(4))
def test_blocks_have_the_bytes_that_were_compressed(seed: int) -> None:
    chance = random.Random(seed)
    for size in (0, 1, 5, 50, 300, 900, 5_000, 70_000, 400_000):
        plain = plain_bytes(chance, size)
        assert unpacked(bytes(compress("snappy", plain)), len(plain)) == plain


@pytest.mark.parametrize("seed", range(4))
def test_damaged_blocks_are_refused_or_read_as_without_the_module(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(100):
        data = bytes(compress("snappy", plain_bytes(chance, chance.choice([1, 5, 50, 900, 5_000]))))
        for changed in (damaged(chance, data) for _ in range(20)):
            expected = by_python(changed)
            if expected is None:
                refused += 1
                assert unpacked(changed, 0) is None
            else:
                assert unpacked(changed, len(expected)) == expected
    assert refused > 1_000


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_blocks_that_unpack_to_more_than_the_limit_are_left_to_the_caller(size: int) -> None:
    for plain in (bytes(size), random.Random(1).randbytes(size)):
        data = bytes(compress("snappy", plain))
        assert unpacked(data, size, most=size) == plain
        assert unpacked(data, size, most=size - 1) is None


def test_no_memory_is_reserved_for_a_size_that_the_data_cannot_have() -> None:
    limit = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**33, limit[1]))
    try:
        assert unpacked(b"\xff\xff\xff\xff\x0f" + bytes(100), 0) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)


@pytest.mark.parametrize("data", [b"", b"abc", bytes(4), b"\xff" * 9, b"\x05" + bytes(4)])
def test_data_without_a_whole_block_are_left_to_the_caller(data: bytes) -> None:
    assert by_python(data) is None
    assert unpacked(data, 0) is None


def test_a_missing_library_and_one_without_libsnappy_leave_every_block_to_the_caller() -> None:
    data = bytes(compress("snappy", b"some bytes"))
    for library in ("libicefloe-has-none.so.1", str(compiled_codec.native().__file__)):
        try:
            assert compiled_codec.native().open_libsnappy(library) is False
            assert unpacked(data, 10) is None
        finally:
            assert any(map(compiled_codec.native().open_libsnappy, compiled_codec.LIBSNAPPY))
    assert unpacked(data, 10) == b"some bytes"
