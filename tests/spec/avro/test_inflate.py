"""The decompression of deflate blocks by the compiled reader, with libdeflate: it has the bytes of Python's zlib, and refuses what that refuses.

Two kinds of damage are an exception, `RESERVED`: they have no meaning in deflate, and libdeflate gives them one.
"""

import random
import resource
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spec.avro.both_readers import needs_libdeflate, without_libdeflate

from icefloe.spec.avro import compiled_codec
from icefloe.spec.avro.decode_steps import Step
from icefloe.spec.avro.varint import encode_long

pytestmark = needs_libdeflate
SYNC = b"sixteen bytes of"
NO_LIMIT = 2**40
# The errors of zlib for symbols that deflate reserves, and for the unused word of a code with one word.
RESERVED = {"invalid literal/length code", "invalid distance code"}


def inflated(data: bytes, size: int, most: int = NO_LIMIT, *, codec: int = 1) -> bytes | None:
    """Return the decompressed bytes of a block, which must be `size`; None if the module leaves the block to its caller."""
    skip_all = array("i", [Step.SKIP_WIDTH, size] if size else []).tobytes()
    reader = compiled_codec.native().Reader(skip_all, b"", 0, NO_LIMIT, True)
    content = encode_long(1 if size else 0) + encode_long(len(data)) + data + SYNC
    stop, records, count = reader.run_file(content, 0, SYNC, codec, most, NO_LIMIT, NO_LIMIT, NO_LIMIT)
    if not stop:
        return None
    assert (stop, records, count) == (len(content), int(size > 0), size)
    return bytes(reader.take_blocks())


def by_zlib(data: bytes) -> bytes | None:
    """Return the decompressed bytes; None for damaged data."""
    try:
        return zlib.decompress(data, -15)
    except zlib.error:
        return None


def plain_bytes(chance: random.Random, size: int) -> bytes:
    """Return bytes of different kinds: random, a few letters, repetitions, numbers of a bell curve, paths, one byte."""
    return chance.choice(
        [
            lambda: chance.randbytes(size),
            lambda: bytes(chance.choices(b"abcdef", k=size)),
            lambda: (chance.randbytes(chance.randrange(1, 40)) * size)[:size],
            lambda: bytes(int(chance.gauss(100, chance.choice([1, 10, 30]))) & 255 for _ in range(size)),
            lambda: b"".join(b"/path/%d/%s" % (chance.randrange(99), chance.randbytes(4).hex().encode()) for _ in range(size // 15)),
            lambda: bytes([chance.randrange(256)]) * size,
        ]
    )()


def deflated(chance: random.Random, plain: bytes) -> bytes:
    """Return the bytes compressed at any level and by any strategy, in one or more deflate blocks."""
    packer = zlib.compressobj(
        chance.randrange(10), zlib.DEFLATED, -chance.choice([9, 12, 15]), chance.randrange(1, 10), chance.randrange(5)
    )
    half = len(plain) // 2
    first = packer.compress(plain[:half]) + packer.flush(chance.choice([zlib.Z_NO_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH]))
    return first + packer.compress(plain[half:]) + packer.flush()


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Return the bytes with one to five of them changed, inserted, added or cut off."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        at = chance.randrange(min(len(changed), chance.choice([10, 100, 100_000])) or 1)
        change = chance.randrange(4)
        if change == 0:
            changed[at : at + 1] = bytes([changed[at] ^ 1 << chance.randrange(8)]) if changed else b""
        elif change == 1:
            changed[at:at] = chance.randbytes(1)
        elif change == 2:
            changed += chance.randbytes(chance.randrange(5))
        else:
            del changed[at:]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_data_of_every_level_and_strategy_have_the_bytes_of_zlib(seed: int) -> None:
    chance = random.Random(seed)
    for size in [0, 1, 5, 50, 300, 900, 5_000, 70_000] * 8:
        plain = plain_bytes(chance, size)
        assert inflated(deflated(chance, plain), len(plain)) == plain


@pytest.mark.parametrize("seed", range(4))
def test_damaged_data_that_zlib_accepts_have_the_same_bytes(seed: int) -> None:
    chance = random.Random(seed)
    accepted = 0
    for _ in range(150):
        data = deflated(chance, plain_bytes(chance, chance.choice([0, 5, 50, 300, 900, 5_000])))
        for expected, changed in ((by_zlib(changed), changed) for changed in (damaged(chance, data) for _ in range(20))):
            if expected is not None:
                assert inflated(changed, len(expected)) == expected
                accepted += 1
    assert accepted > 200


@pytest.mark.parametrize("seed", range(4))
def test_damage_that_zlib_refuses_is_refused_unless_it_is_a_reserved_symbol_or_an_unused_word(seed: int) -> None:
    chance = random.Random(seed)
    refused: set[str] = set()
    accepted: set[str] = set()
    for data in blocks_with_damage(chance):
        try:
            zlib.decompress(data, -15)
        except zlib.error as error:
            message = str(error).rsplit(": ", 1)[-1]
            refused.add(message)
            if is_accepted(data):
                accepted.add(message)
    assert len(refused) == 12  # each message of zlib
    assert accepted <= RESERVED


def blocks_with_damage(chance: random.Random) -> Iterator[bytes]:
    """Yield blocks of paths with one wrong bit, blocks with several wrong bytes, and random bytes after the header of a block with codes."""
    for _ in range(100):
        paths = b"".join(
            b"s3://bucket/db/t/data/%s-%d.parquet" % (chance.randbytes(8).hex().encode(), chance.randrange(99)) for _ in range(20)
        )
        data = bytearray(zlib.compress(paths, wbits=-15))
        for place in chance.sample(range(len(data)), 10):
            bit = 1 << chance.randrange(8)
            data[place] ^= bit
            yield bytes(data)
            data[place] ^= bit
    for _ in range(150):
        data = deflated(chance, plain_bytes(chance, chance.choice([0, 5, 50, 300, 900, 5_000])))
        for _ in range(20):
            yield damaged(chance, data)
    for _ in range(5_000):
        yield bytes([chance.choice([3, 5]) | chance.randrange(32) << 3]) + chance.randbytes(chance.randrange(1, 60))


def is_accepted(data: bytes) -> bool:
    """Return whether the module decompresses a block, to any number of bytes."""
    try:
        return inflated(data, 0) is not None
    except ValueError:  # the block has bytes, which are not read as records
        return True


@pytest.mark.parametrize("seed", range(4))
def test_random_code_lengths_are_accepted_where_zlib_accepts_them(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4_000):
        data = bytes([5 | chance.randrange(32) << 3]) + chance.randbytes(chance.randrange(1, 60))
        expected = by_zlib(data)
        assert inflated(data, len(expected or b"")) == expected


@pytest.mark.parametrize("size", [1, 1_000, 100_000])
def test_data_that_unpack_to_more_than_the_limit_are_left_to_the_caller(size: int) -> None:
    for plain in (bytes(size), random.Random(1).randbytes(size)):
        for level in (0, 1, 9):
            packer = zlib.compressobj(level, zlib.DEFLATED, -15)
            data = packer.compress(plain) + packer.flush()
            assert inflated(data, size, most=size) == plain
            assert inflated(data, size, most=size - 1) is None


@pytest.mark.parametrize("size", [16_383, 16_384, 16_385, 3_000_000])
def test_data_of_several_buffers_are_decompressed_and_refused_as_data_of_one(size: int) -> None:
    plain = (random.Random(size).randbytes(9_000) * 400)[:size]  # with repetitions from far back, which may be in an earlier buffer
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    data = packer.compress(plain) + packer.flush()
    assert inflated(data, size) == plain
    assert inflated(data[:-1], size) is None
    assert inflated(data[: len(data) // 2], size) is None


def test_a_missing_library_and_one_without_libdeflate_leave_every_block_to_the_caller() -> None:
    data = zlib.compress(b"some bytes", wbits=-15)
    assert inflated(data, 10) == b"some bytes"
    with without_libdeflate():
        assert inflated(data, 10) is None
    module = str(compiled_codec.native().__file__)  # a library that can be opened
    try:
        assert compiled_codec.native().open_libdeflate(module) is False
        assert inflated(data, 10) is None
    finally:
        assert any(map(compiled_codec.native().open_libdeflate, compiled_codec.LIBDEFLATE))
    assert inflated(data, 10) == b"some bytes"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_no_stream_is_left_after_data_that_are_read_or_refused() -> None:
    sound = zlib.compress(bytes(100), wbits=-15)
    cases = [(sound, NO_LIMIT), (sound[:-1], NO_LIMIT), (b"\x07" + sound, NO_LIMIT), (sound, 99)]
    inflated(sound, 100)
    before = resident_bytes()
    for _ in range(3_000):
        for data, most in cases:
            inflated(data, 100, most)
    assert resident_bytes() - before < 20_000_000  # 12,000 streams have 80 MB


def resident_bytes() -> int:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
