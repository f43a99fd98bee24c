"""The frames of Puffin: exchanged with another library, and frames with false claims."""

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe import Limits, set_limits
from icefloe.errors import InvalidPropertyError, PuffinFormatError
from icefloe.spec.puffin.puffin_codec import CODECS, compress, decompress

PLAIN = b"icebergs calve from glaciers; " * 4_000
DATA = [b"", b"a", PLAIN, bytes(range(256)) * 3, b"\0" * 5_000_000]


def unpack(codec: str | None, data: bytes, most_bytes: int = 10_000_000) -> bytes:
    before = set_limits(Limits(puffin_blob_bytes=most_bytes))
    try:
        return decompress(codec, data, path="f.puffin", offset=77, limit="puffin_blob_bytes")
    finally:
        set_limits(before)


def lz4_frame(flags: int, content_size: bytes, blocks: bytes) -> bytes:
    """Return a frame with a header checksum of 0, which is checked after its structure."""
    return b"\x04\x22\x4d\x18" + bytes((flags, 0x40)) + content_size + b"\0" + blocks


@pytest.mark.parametrize("data", DATA, ids=len)
@pytest.mark.parametrize("codec", [None, *CODECS])
def test_compressed_data_is_decompressed(codec: str | None, data: bytes) -> None:
    assert unpack(codec, compress(codec, data)) == data


@pytest.mark.parametrize("data", DATA[1:], ids=len)
def test_another_library_decompresses_lz4_frames_and_they_have_the_content_size(data: bytes) -> None:
    packed = compress("lz4", data)
    assert packed[4] & 0x08
    assert int.from_bytes(packed[6:14], "little") == len(data)
    assert bytes(cramjam.lz4.decompress(packed)) == data


def test_the_header_of_an_lz4_frame_is_checked_by_the_library() -> None:
    packed = bytearray(compress("lz4", PLAIN))
    packed[14] ^= 1
    with pytest.raises(PuffinFormatError, match="lz4 frame is damaged"):
        unpack("lz4", bytes(packed))


@pytest.mark.parametrize("data", DATA[1:], ids=len)
def test_zstandard_frames_are_exchanged_with_another_library(data: bytes) -> None:
    assert bytes(cramjam.zstd.decompress(compress("zstd", data))) == data
    assert unpack("zstd", bytes(cramjam.zstd.compress(data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_a_frame_and_second_frames_are_refused(codec: str) -> None:
    packed = compress(codec, b"abc")
    for data, more in ((packed + b"\0", 1), (packed + packed, len(packed))):
        with pytest.raises(PuffinFormatError, match=f"{more} bytes follow the frame"):
            unpack(codec, data)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("length", [*range(24), -1, -2, -5])
def test_a_truncated_frame_is_refused(codec: str, length: int) -> None:
    with pytest.raises(PuffinFormatError, match=r"f\.puffin is not a valid Puffin file: a .* frame .* \(at byte 77\)"):
        unpack(codec, compress(codec, PLAIN)[:length])


@pytest.mark.parametrize("codec", CODECS)
def test_content_above_the_limit_is_not_decompressed(codec: str) -> None:
    packed = compress(codec, PLAIN)
    assert unpack(codec, packed, most_bytes=len(PLAIN)) == PLAIN
    with pytest.raises(PuffinFormatError, match=r"claims \d+ bytes of content.*the limit puffin_blob_bytes is"):
        unpack(codec, packed, most_bytes=len(PLAIN) - 1)


@pytest.mark.parametrize(
    ("codec", "frame", "what"),
    [
        ("lz4", lz4_frame(0x68, (2**40).to_bytes(8, "little"), b"\0\0\0\0"), "which is impossible"),
        ("lz4", lz4_frame(0x60, b"", b"\0\0\0\0"), "lacks its content size"),
        ("lz4", lz4_frame(0x28, b"\0" * 8, b"\0\0\0\0"), "its version is 0"),
        ("lz4", lz4_frame(0x69, b"\0" * 8, b"\0\0\0\0"), "dictionary"),
        ("lz4", lz4_frame(0x68, b"\0" * 8, b"\xff\xff\xff\xff\0\0\0\0"), "cut short"),
        ("lz4", b"PFA1" + b"\0" * 20, "magic bytes"),
        ("lz4", bytes(cramjam.lz4.compress(PLAIN)), "lacks its content size"),
        ("zstd", bytes.fromhex("28b52ffd e0 0000000000010000 010000"), "which is impossible"),
        ("zstd", bytes.fromhex("28b52ffd 00 58 010000"), "lacks its content size"),
        ("zstd", bytes.fromhex("28b52ffd 23 00000000 00 010000"), "dictionary"),
        ("zstd", bytes.fromhex("28b52ffd 20 00 070000"), "reserved type"),
        ("zstd", bytes.fromhex("28b52ffd 20 05 190000 616263"), "claims 5 bytes of content and contains 3|damaged"),
        ("zstd", bytes.fromhex("28b52ffd 20 02 190000 616263"), "damaged"),
        ("zstd", b"PFA1" + b"\0" * 20, "magic bytes"),
    ],
)
def test_frames_with_false_claims_are_refused(codec: str, frame: bytes, what: str) -> None:
    with pytest.raises(PuffinFormatError, match=what):
        unpack(codec, frame)


def test_a_zstandard_frame_written_by_hand_is_read() -> None:
    assert unpack("zstd", bytes.fromhex("28b52ffd 20 03 190000 616263")) == b"abc"
    assert unpack("zstd", bytes.fromhex("28b52ffd 60 0000 030800 7a")) == b"z" * 256


def test_codecs_that_puffin_lacks_are_refused() -> None:
    with pytest.raises(PuffinFormatError, match="'gzip' is not one of lz4, zstd"):
        unpack("gzip", b"")
    with pytest.raises(InvalidPropertyError, match="'gzip'"):
        compress("gzip", b"")


@settings(max_examples=examples(150))
@given(st.sampled_from(CODECS), st.data())
def test_mutated_frames_are_decompressed_or_raise_puffin_format_error(codec: str, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, PLAIN[:3_000]))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, min(30, len(packed) - 1)) | st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    message = "f.puffin"
    try:
        assert len(unpack(codec, bytes(packed), most_bytes=100_000)) <= 100_000
    except PuffinFormatError as error:
        message = str(error)
    assert "f.puffin" in message
