"""Avro container files: codecs, blocks, and every kind of damage, whose error has the file and the byte."""

import io
import json
import random
import zlib

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import AvroFormatError, InvalidPropertyError, UnsupportedFeatureError
from icefloe.spec.avro import avro_codec
from icefloe.spec.avro.avro_codec import codec_name, compress, decompress
from icefloe.spec.avro.avro_container import open_container, raw_blocks, read_block, write_container
from icefloe.spec.avro.avro_encoder import encoder

SCHEMA = {
    "type": "record",
    "name": "r",
    "fields": [{"name": "n", "type": "long", "field-id": 1}, {"name": "t", "type": "string", "field-id": 2}],
}
TEXT = json.dumps(SCHEMA)
ENCODE = encoder(SCHEMA)
ROWS = [(number, f"row {number}" * 9) for number in range(3_000)]
CODECS = ["null", "deflate", "zstandard", "snappy"]
# fastavro needs another package for zstandard, which the tests use directly.
FASTAVRO_CODECS = ["null", "deflate", "snappy"]


def written(codec: str, rows: list[tuple[int, str]] = ROWS) -> bytes:
    return write_container(TEXT, {"who": "me"}, codec, (ENCODE(row) for row in rows))


@pytest.mark.parametrize("codec", FASTAVRO_CODECS)
def test_another_library_reads_files_of_every_codec(codec: str) -> None:
    reader = fastavro.reader(io.BytesIO(written(codec)))
    assert reader.metadata["who"] == "me"
    assert [(row["n"], row["t"]) for row in reader] == ROWS


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_have_about_64_kilobytes_and_decompress_to_the_written_records(codec: str) -> None:
    container = open_container(written(codec), "f")
    blocks = [read_block(container, block) for block in raw_blocks(container)]
    assert b"".join(blocks) == b"".join(ENCODE(row) for row in ROWS)
    assert len(blocks) > 2
    assert all(64_000 <= len(block) < 65_000 for block in blocks[:-1])


@pytest.mark.parametrize("codec", FASTAVRO_CODECS)
def test_files_of_another_library_are_decompressed_with_every_codec(codec: str) -> None:
    file = io.BytesIO()
    fastavro.writer(file, SCHEMA, [{"n": n, "t": t} for n, t in ROWS], codec=codec, sync_interval=5_000)
    container = open_container(file.getvalue(), "f")
    assert container.codec == codec
    assert b"".join(read_block(container, block) for block in raw_blocks(container)) == b"".join(ENCODE(row) for row in ROWS)


def test_zstandard_blocks_are_compatible_with_another_library() -> None:
    container = open_container(written("zstandard"), "f")
    block = next(raw_blocks(container))
    plain = read_block(container, block)
    assert zstandard.decompress(container.content[block.start : block.end]) == plain
    streamed = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(plain)
    assert decompress("zstandard", streamed, path="f", offset=0) == plain


def test_a_snappy_block_that_does_not_begin_with_a_size_of_32_bits_is_refused() -> None:
    for start in (b"", b"\x80", b"\xff\xff\xff\xff\xff\x0f"):
        with pytest.raises(AvroFormatError, match="does not begin with its size"):
            decompress("snappy", start + b"crc4", path="f", offset=0)


@pytest.mark.parametrize("size", [0, 1, 100, 255, 256, 300, 65_791, 65_792, 1_000_000])
def test_zstandard_blocks_with_their_size_are_decompressed_in_one_call(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)

    def stream(*_: object) -> None:
        raise AssertionError("the block is read as a stream")

    monkeypatch.setattr(pa, "CompressedInputStream", stream)
    assert decompress("zstandard", zstandard.ZstdCompressor(write_checksum=size % 2 == 0).compress(plain), path="f", offset=0) == plain


def test_damaged_zstandard_blocks_have_the_bytes_and_errors_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(bytes(range(200)) * 3)
    blocks = [whole + whole, whole[:5], whole[:9], whole[:-1], whole + b"\0", b"\x50\x2a\x4d\x18\x00\x00\x00\x00" + whole]
    for _ in range(400):
        changed = bytearray(whole)
        changed[chance.randrange(chance.choice([12, len(whole)]))] ^= 1 << chance.randrange(8)
        blocks.append(bytes(changed))

    def results() -> list[bytes | str]:
        found: list[bytes | str] = []
        for block in blocks:
            try:
                found.append(decompress("zstandard", block, path="f", offset=0))
            except AvroFormatError as error:
                found.append(str(error))
        return found

    in_one_call = results()
    monkeypatch.setattr(avro_codec, "_zstandard_size", lambda _: None)
    assert in_one_call == results()


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_compressed_block_without_any_byte_is_refused(codec: str) -> None:
    with pytest.raises(AvroFormatError, match="f"):
        decompress(codec, b"", path="f", offset=0)


def test_writing_is_deterministic_and_another_header_has_another_sync_marker() -> None:
    assert written("deflate") == written("deflate")
    other = write_container(TEXT, {"who": "you"}, "deflate", [])
    assert open_container(other, "f").sync != open_container(written("deflate"), "f").sync


def test_a_file_without_records_is_valid() -> None:
    assert list(raw_blocks(open_container(written("deflate", []), "f"))) == []


@pytest.mark.parametrize(("name", "codec"), [("gzip", "deflate"), ("ZSTD", "zstandard"), ("uncompressed", "null"), ("snappy", "snappy")])
def test_codec_names_of_table_properties_are_supported(name: str, codec: str) -> None:
    assert codec_name(name) == codec


def test_an_unknown_codec_of_a_property_is_refused_and_the_error_lists_the_known_ones() -> None:
    with pytest.raises(InvalidPropertyError, match=r"'brotli'.*\n.*zstd"):
        codec_name("brotli")


def test_an_unknown_codec_of_a_file_is_unsupported_and_the_error_names_the_file() -> None:
    content = written("deflate").replace(b"\x0edeflate", b"\x0ebzip2.x")
    with pytest.raises(UnsupportedFeatureError, match=r"list.avro.*bzip2.x"):
        unpack(content)


def unpack(content: bytes) -> list[bytes]:
    container = open_container(content, "dir/list.avro")
    return [read_block(container, block) for block in raw_blocks(container)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the file is empty"),
        (b"PAR1....", "magic"),
        (b"AGS1\x00\x00\x10\x00", "it is encrypted"),
        (b"Obj\x01", "header is cut short"),
        (b"Obj\x01\x02\x16avro.schema", "header is cut short"),
        (b"Obj\x01\x00" + b"s" * 15, "ends inside its header"),
        (b"Obj\x01\x00" + b"s" * 16, "no avro.schema"),
    ],
)
def test_the_error_of_a_damaged_header_names_file_and_byte(content: bytes, what: str) -> None:
    with pytest.raises(AvroFormatError, match=rf"dir/list\.avro.*{what}.*at byte \d+"):
        unpack(content)


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_a_truncated_file_is_refused_unless_it_ends_after_a_block(codec: str, data: st.DataObject) -> None:
    content = written(codec, ROWS[:1500])
    container = open_container(content, "f")
    ends = [container.body_start, *(block.end + 16 for block in raw_blocks(container))]
    cut = data.draw(st.integers(0, len(content) - 1).filter(lambda cut: cut not in ends))
    with pytest.raises(AvroFormatError, match=r"dir/list\.avro"):
        unpack(content[:cut])


def test_the_error_of_a_wrong_sync_marker_has_its_byte() -> None:
    content = bytearray(written("null"))
    first = next(raw_blocks(open_container(bytes(content), "f")))
    content[first.end] ^= 1
    with pytest.raises(AvroFormatError, match=rf"sync marker.*at byte {first.end}\)"):
        unpack(bytes(content))


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_the_error_of_damaged_compressed_bytes_names_the_block(codec: str) -> None:
    content = bytearray(written(codec, ROWS[:900]))
    block = next(raw_blocks(open_container(bytes(content), "f")))
    content[block.start : block.end] = b"\xff" * (block.end - block.start)
    with pytest.raises(AvroFormatError, match=rf"at byte {block.offset}\)"):
        unpack(bytes(content))


def test_a_snappy_block_with_a_wrong_checksum_is_refused() -> None:
    content = bytearray(written("snappy", ROWS[:900]))
    block = next(raw_blocks(open_container(bytes(content), "f")))
    content[block.end - 1] ^= 1
    with pytest.raises(AvroFormatError, match="checksum"):
        unpack(bytes(content))


def test_a_block_that_claims_more_records_than_bytes_is_refused_at_once() -> None:
    container = open_container(written("null", []), "f")
    content = container.content + bytes.fromhex("fcffffffff7f") + b"\x02" + b"\x00" + container.sync
    with pytest.raises(AvroFormatError, match="records in 1 bytes"):
        unpack(content)


@settings(max_examples=examples(200))
@given(st.binary(min_size=1, max_size=3000), st.data())
def test_damaged_deflate_is_refused_exactly_if_zlib_refuses_it(plain: bytes, data: st.DataObject) -> None:
    """Blocks are decompressed with a faster library than zlib if it is installed; it must not accept bytes that zlib refuses."""
    packed = bytearray(compress("deflate", plain * 3))
    assert decompress("deflate", bytes(packed), path="f", offset=0) == plain * 3
    at = data.draw(st.integers(0, len(packed) - 1))
    damaged = bytes(
        data.draw(
            st.sampled_from([packed[:at], packed + bytes([at % 256]), packed[:at] + bytes([packed[at] ^ 1 << at % 8]) + packed[at + 1 :]])
        )
    )
    try:
        expected = zlib.decompress(damaged, -15)
    except zlib.error:
        with pytest.raises(AvroFormatError, match="cannot be decompressed with deflate"):
            decompress("deflate", damaged, path="f", offset=0)
    else:
        assert decompress("deflate", damaged, path="f", offset=0) == expected
