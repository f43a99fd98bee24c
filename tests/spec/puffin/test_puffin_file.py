"""Puffin files as containers: round trips, files of other writers, and errors with the file and the byte for every kind of damage."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import examples

from icefloe.errors import InvalidInputError, InvalidPropertyError, PuffinFormatError
from icefloe.spec.puffin.puffin_file import (
    Blob,
    PuffinSource,
    in_memory_puffin,
    read_blob,
    read_file_metadata,
    with_blob_properties,
    write_puffin,
)
from icefloe.spec.puffin.puffin_metadata import BlobMetadata, FileMetadata

# The file that Java writes without blobs and properties.
EMPTY = bytes.fromhex("50464131 50464131 7b22626c6f6273223a5b5d7d 0c000000 00000000 50464131")
LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
PROPERTIES = st.dictionaries(TEXTS, TEXTS, max_size=3)
BLOBS = st.builds(
    Blob,
    type=TEXTS,
    fields=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(tuple),
    snapshot_id=LONGS,
    sequence_number=LONGS,
    data=st.binary(max_size=200) | st.binary(max_size=20).map(lambda data: data * 5_000),
    compression_codec=st.sampled_from([None, "lz4", "zstd"]),
    properties=PROPERTIES,
)


def blob(data: bytes = b"abc", **rest: Any) -> Blob:
    return Blob(**{"type": "t", "fields": (1,), "snapshot_id": 2, "sequence_number": 3, "data": data, **rest})


def framed(payload: bytes | dict[str, Any], *, before: bytes = b"PFA1abc", flags: int = 0) -> bytes:
    """Return a file with any footer payload."""
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return before + b"PFA1" + text + len(text).to_bytes(4, "little") + flags.to_bytes(4, "little") + b"PFA1"


def footer_of(content: bytes) -> FileMetadata:
    return read_file_metadata(in_memory_puffin(content, "s3://b/x.puffin"))


def refusal(content: bytes) -> PuffinFormatError:
    with pytest.raises(PuffinFormatError) as caught:
        footer_of(content)
    assert "s3://b/x.puffin" in str(caught.value)
    assert caught.value.path == "s3://b/x.puffin"
    return caught.value


def one_blob(**changes: Any) -> dict[str, Any]:
    described = {"type": "t", "fields": [1], "snapshot-id": 2, "sequence-number": 3, "offset": 4, "length": 3, **changes}
    return {"blobs": [{key: value for key, value in described.items() if value is not ...}]}


@settings(max_examples=examples(30))
@given(st.lists(BLOBS, max_size=4), PROPERTIES, st.booleans())
def test_a_file_survives_writing_and_reading(blobs: list[Blob], properties: dict[str, str], compress_footer: bool) -> None:
    content, written = write_puffin(blobs, properties=properties, compress_footer=compress_footer)
    source = in_memory_puffin(content, "f")
    metadata = read_file_metadata(source)
    assert metadata == written
    assert metadata.properties == properties
    for read, given_blob in zip(metadata.blobs, blobs, strict=True):
        assert read_blob(source, read) == given_blob.data
        assert (read.type, read.fields, read.snapshot_id, read.sequence_number) == (
            given_blob.type,
            given_blob.fields,
            given_blob.snapshot_id,
            given_blob.sequence_number,
        )
        assert (read.compression_codec, read.properties) == (given_blob.compression_codec, given_blob.properties)
    changed = [replace(kept, properties={**kept.properties, "x": "y"}) for kept in blobs]
    assert with_blob_properties(content, "f", lambda stored: {**stored, "x": "y"}) == write_puffin(changed, properties=properties)[0]


def test_a_file_without_blobs_is_the_32_bytes_that_java_writes() -> None:
    assert write_puffin([], properties={})[0] == EMPTY
    assert footer_of(EMPTY) == FileMetadata(blobs=())


def test_a_large_file_is_read_in_ranges_and_never_whole() -> None:
    content, written = write_puffin([blob(b"x" * 1_000_000), blob(b"y" * 1_000)], properties={})
    ranges: list[tuple[int, int]] = []

    def read_range(offset: int, length: int) -> bytes:
        ranges.append((offset, length))
        return content[offset : offset + length]

    source = PuffinSource("f", len(content), read_range)
    assert read_file_metadata(source) == written
    assert len(ranges) == 2
    assert sum(length for _, length in ranges) < 20_000
    ranges.clear()
    assert read_blob(source, written.blobs[1]) == b"y" * 1_000
    assert ranges == [(4 + 1_000_000, 1_000)]


def test_a_footer_larger_than_the_first_range_is_read_with_a_second() -> None:
    content, written = write_puffin([blob(properties={"long": "z" * 50_000})], properties={})
    assert footer_of(content) == written


def test_a_file_that_is_shorter_than_its_recorded_size_is_refused() -> None:
    content, written = write_puffin([blob()], properties={})
    source = PuffinSource("f", len(content) + 100, in_memory_puffin(content, "f").read_range)
    with pytest.raises(PuffinFormatError, match="truncated"):
        read_file_metadata(source)
    with pytest.raises(PuffinFormatError, match="truncated"):
        read_blob(source, BlobMetadata(type="t", fields=(), snapshot_id=1, sequence_number=1, offset=len(content) - 1, length=50))
    assert written.blobs[0].length == 3


@pytest.mark.parametrize(
    ("content", "what", "where"),
    [
        (b"", "empty", 0),
        (EMPTY[:19], "too few", 0),
        (b"PFA2" + EMPTY[4:], "does not begin with", 0),
        (EMPTY[:-1] + b"2", "does not end with", 28),
        (EMPTY[:4] + b"PFA2" + EMPTY[8:], "the footer does not begin with", 4),
        (EMPTY[:20] + (13).to_bytes(4, "little") + EMPTY[24:], "does not fit", 20),
        (EMPTY[:20] + (11).to_bytes(4, "little") + EMPTY[24:], "the footer does not begin with", 5),
        (EMPTY[:20] + (-1).to_bytes(4, "little", signed=True) + EMPTY[24:], "size is -1", 20),
        (EMPTY[:24] + b"\x02\0\0\0" + EMPTY[28:], "flags 02000000", 24),
        (EMPTY[:24] + b"\0\0\0\x80" + EMPTY[28:], "flags 00000080", 24),
        (EMPTY[:24] + b"\x01\0\0\0" + EMPTY[28:], "lz4 frame", 8),
        (framed(b'{"blobs":[]} {}'), "not JSON", 11),
        (framed(b'{"blobs":["\xff"]}'), "not JSON", 11),
        (framed(b'{"blobs":' + b"[" * 100_000), "not JSON", 11),
        (framed(b'{"blobs":[1e99999]}'), "not JSON", 11),
    ],
)
def test_an_error_names_the_file_and_the_damaged_byte(content: bytes, what: str, where: int) -> None:
    error = refusal(content)
    assert what in str(error)
    assert f"at byte {where}" in str(error)


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (b"[]", "$: is not an object"),
        ({}, "$.blobs: is missing"),
        ({"blobs": {}}, "$.blobs: is not a list"),
        ({"blobs": [3]}, "$.blobs[0]: is not an object"),
        ({"blobs": [], "properties": {"a": 1}}, "$.properties: is not an object of strings"),
        (one_blob(type=...), "$.blobs[0].type: is missing"),
        (one_blob(type=None), "$.blobs[0].type: is not a string"),
        (one_blob(fields=[True]), "$.blobs[0].fields: is not a list of 32-bit integers"),
        (one_blob(fields=[2**31]), "$.blobs[0].fields: is not a list of 32-bit integers"),
        (one_blob(**{"snapshot-id": "2"}), "$.blobs[0].snapshot-id: is not a 64-bit integer"),
        (one_blob(**{"sequence-number": 2.5}), "$.blobs[0].sequence-number: is not a 64-bit integer"),
        (one_blob(offset=2**63), "$.blobs[0].offset: is not a 64-bit integer"),
        (one_blob(offset=3), "$.blobs[0]: 3 bytes at byte 3"),
        (one_blob(length=4), "$.blobs[0]: 4 bytes at byte 4"),
        (one_blob(length=-1), "$.blobs[0]: -1 bytes at byte 4"),
        (one_blob(offset=2**63 - 1, length=2**63 - 1), "$.blobs[0]:"),
        (one_blob(**{"compression-codec": 1}), "$.blobs[0].compression-codec: is not a string"),
        (one_blob(properties=["a"]), "$.blobs[0].properties: is not an object of strings"),
    ],
)
def test_a_problem_of_the_footer_is_listed_with_its_json_path(payload: bytes | dict[str, Any], problem: str) -> None:
    assert problem in str(refusal(framed(payload)))


def test_every_problem_of_a_footer_is_listed_at_once() -> None:
    error = refusal(framed({"blobs": [{"type": 1, "fields": []}, 7], "properties": 8}))
    assert [problem.where for problem in error.problems] == [
        "$.blobs[0].type",
        "$.blobs[0].snapshot-id",
        "$.blobs[0].sequence-number",
        "$.blobs[0].offset",
        "$.blobs[0].length",
        "$.blobs[1]",
        "$.properties",
    ]


def test_unknown_keys_and_null_optional_keys_are_ignored() -> None:
    metadata = footer_of(
        framed({**one_blob(**{"compression-codec": None, "properties": None, "later": 1}), "properties": None, "later": {}})
    )
    assert metadata.blobs[0].compression_codec is None
    assert metadata.blobs[0].properties == {}


def test_a_blob_of_an_unknown_codec_is_refused_only_when_it_is_read() -> None:
    source = in_memory_puffin(framed(one_blob(**{"compression-codec": "brotli"})), "f")
    metadata = read_file_metadata(source)
    with pytest.raises(PuffinFormatError, match="'brotli' is not one of lz4, zstd"):
        read_blob(source, metadata.blobs[0])


@pytest.mark.parametrize(("offset", "length"), [(3, 1), (4, -1), (4, 17), (2**62, 1)])
def test_a_blob_outside_of_the_file_is_not_read(offset: int, length: int) -> None:
    described = BlobMetadata(type="t", fields=(), snapshot_id=1, sequence_number=1, offset=offset, length=length)
    with pytest.raises(PuffinFormatError, match="is outside of a file of 32 bytes"):
        read_blob(in_memory_puffin(EMPTY, "f"), described)


def test_an_invalid_blob_is_refused_before_anything_is_written() -> None:
    with pytest.raises(InvalidPropertyError, match="brotli"):
        write_puffin([blob(compression_codec="brotli")], properties={})
    with pytest.raises(InvalidInputError, match="UTF-8"):
        write_puffin([], properties={"a": "\ud800"})


SAMPLE = {
    compress_footer: write_puffin(
        [blob(b"some bytes" * 30, compression_codec=codec, properties={"k": "v"}) for codec in (None, "lz4", "zstd")],
        properties={"created-by": "a test"},
        compress_footer=compress_footer,
    )[0]
    for compress_footer in (False, True)
}


@settings(max_examples=examples(200))
@given(st.booleans(), st.data())
def test_mutated_files_are_read_or_raise_puffin_format_error(compress_footer: bool, data: st.DataObject) -> None:
    content = bytearray(SAMPLE[compress_footer])
    for _ in range(data.draw(st.integers(1, 4))):
        # Half of the mutations change the last bytes, which contain every size.
        position = data.draw(st.integers(0, len(content) - 1) | st.integers(max(0, len(content) - 30), len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(content)))
        del content[start : start + data.draw(st.integers(0, 20))]
    source = in_memory_puffin(bytes(content), "f")
    message = "byte "
    try:
        for described in read_file_metadata(source).blobs:
            read_blob(source, described)
    except PuffinFormatError as error:
        message = str(error)
    assert "byte " in message
