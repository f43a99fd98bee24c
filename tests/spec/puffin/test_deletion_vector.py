"""Deletion vectors: the bytes of other writers, round trips, merging, and damage of every kind."""

import pickle
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import FrozenBitMap64
from tests.repetitions import examples

from icefloe.errors import InvalidInputError, PuffinFormatError
from icefloe.spec.puffin.deletion_vector import (
    DeletionVector,
    VectorFraming,
    VectorLocation,
    decode_deletion_vector,
    deletion_vector_blob,
    deletion_vector_from_positions,
    detect_framing,
    encode_deletion_vector,
    merge_deletion_vectors,
    vector_location,
    write_deletion_vectors,
)
from icefloe.spec.puffin.puffin_file import Blob, in_memory_puffin, read_blob, read_file_metadata, write_puffin
from icefloe.spec.puffin.puffin_metadata import BlobMetadata

MAGIC = bytes.fromhex("d1d33964")
ODD = bytes.fromhex("0000002a d1d33964 0100000000000000 00000000 3a300000 01000000 00000400 10000000 0100 0300 0500 0700 0900 b3fb20be")
NONE = bytes.fromhex("0000000c d1d33964 0000000000000000 bf18480c")
# Written by Java with positions 1 and 2**33 + 1: for the key 1, which has no positions, it writes an empty bitmap.
WITH_A_GAP = (
    bytes.fromhex("0300000000000000 00000000 3a300000 01000000 00000000 10000000 0100 01000000 3a300000 00000000")
    + bytes.fromhex("02000000 3a300000 01000000 00000000 10000000 0100")
)  # fmt: skip
POSITIONS = st.lists(st.integers(0, 300) | st.integers(0, 200_000) | st.integers(0, 2**63 - 1), max_size=50)


def frame(bitmap: bytes) -> bytes:
    body = MAGIC + bitmap
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def runs(*spans: tuple[int, int], containers: int = 1, cardinality: int = 1) -> bytes:
    """Return a bitmap of one container of runs, (first, length less one) each."""
    head = struct.pack("<QIIBHHH", 1, 0, 12347 | containers - 1 << 16, 1, 0, cardinality - 1, len(spans))
    return head + b"".join(struct.pack("<HH", *span) for span in spans)


def containers(*parts: tuple[int, int, bytes], key: int = 0, count: int = 1) -> bytes:
    """Return a bitmap of containers without runs, (upper 16 bits, cardinality, bytes) each."""
    head = struct.pack("<QIII", count, key, 12346, len(parts)) + b"".join(struct.pack("<HH", upper, size - 1) for upper, size, _ in parts)
    return head + b"\0\0\0\0" * len(parts) + b"".join(data for _, _, data in parts)


def listed(data: bytes, cardinality: int) -> list[int]:
    return decode_deletion_vector(data, cardinality=cardinality, path="f").positions().tolist()


def test_the_bytes_of_two_vectors_are_those_of_the_reference_implementation() -> None:
    assert encode_deletion_vector(deletion_vector_from_positions([9, 7, 5, 3, 1])) == ODD
    assert encode_deletion_vector(deletion_vector_from_positions([])) == NONE
    assert listed(ODD, 5) == [1, 3, 5, 7, 9]
    assert listed(NONE, 0) == []


def test_an_unframed_vector_is_recognized_and_read_only_if_accepted() -> None:
    bare = ODD[8:-4]
    assert [detect_framing(data) for data in (ODD, bare, NONE, NONE[8:-4])] == [VectorFraming.FRAMED, VectorFraming.BARE] * 2
    assert [detect_framing(data) for data in (b"", b"\0" * 7, b"\0\0\0\x0c\xd1\xd3\x39\x65" + b"\0" * 12)] == [None] * 3
    assert listed(bare, 5) == [1, 3, 5, 7, 9]
    with pytest.raises(PuffinFormatError, match=r"unframed bitmap without length, magic bytes and checksum \(at byte 40\)"):
        decode_deletion_vector(bare, cardinality=5, path="f", offset=40, accept_bare=False)


def test_empty_bitmaps_for_keys_without_positions_are_read() -> None:
    assert listed(frame(WITH_A_GAP), 2) == [1, 2**33 + 1]


@settings(max_examples=examples(60))
@given(POSITIONS, st.lists(st.tuples(st.integers(0, 500_000), st.integers(1, 3_000)), max_size=3))
def test_a_vector_survives_encoding(positions: list[int], spans: list[tuple[int, int]]) -> None:
    every = [*positions, *(first + step for first, length in spans for step in range(length))]
    vector = deletion_vector_from_positions(np.array(every, np.uint64))
    data = encode_deletion_vector(vector)
    assert listed(data, vector.cardinality) == sorted(set(every))
    assert decode_deletion_vector(data, cardinality=vector.cardinality, path="f") == vector == deletion_vector_from_positions(every)
    assert encode_deletion_vector(decode_deletion_vector(data, cardinality=vector.cardinality, path="f")) == data
    assert listed(data[8:-4], vector.cardinality) == sorted(set(every))


def test_runs_are_encoded_as_runs_whatever_form_the_bitmap_had() -> None:
    unpacked = DeletionVector(FrozenBitMap64([*range(100_000)], optimize=False))
    assert len(unpacked.bitmap.serialize()) > 10_000
    assert len(encode_deletion_vector(unpacked)) < 60
    assert encode_deletion_vector(unpacked) == encode_deletion_vector(deletion_vector_from_positions(np.arange(100_000)))
    assert len(unpacked.bitmap.serialize()) > 10_000


@pytest.mark.parametrize("count", [4_095, 4_096, 4_097])
def test_containers_at_the_border_of_arrays_and_bitsets_are_decoded(count: int) -> None:
    positions = [*range(0, 3 * count, 3), 70_000]
    assert listed(encode_deletion_vector(deletion_vector_from_positions(positions)), count + 1) == positions


def test_positions_are_an_ascending_array_of_64_bits() -> None:
    for given_positions in ([5, 2, 2, 2**40], []):
        positions = deletion_vector_from_positions(given_positions).positions()
        assert positions.dtype == np.uint64
        assert positions.tolist() == sorted(set(given_positions))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint16, np.uint64])
def test_positions_come_from_arrays_of_any_whole_numbers(kind: type) -> None:
    assert deletion_vector_from_positions(np.array([9, 1, 9], kind)[::2]).positions().tolist() == [9]


@pytest.mark.parametrize(
    "positions",
    [
        [-1],
        [2**63],
        [2**64],
        [1.0],
        ["1"],
        np.array([-1]),
        np.array([0.5]),
        np.array([2**63], np.uint64),
        np.array([[1]]),
        np.array([True]),
    ],
)
def test_invalid_positions_are_refused(positions: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="deleted position"):
        deletion_vector_from_positions(positions)


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(0, 300), st.integers(0, 100))
def test_deleted_rows_of_a_range_are_those_of_the_positions(positions: list[int], first: int, count: int) -> None:
    expected = [row in positions for row in range(first, first + count)]
    assert deletion_vector_from_positions(positions).deleted_rows(first, count).tolist() == expected


@given(st.lists(POSITIONS, max_size=4))
def test_a_merged_vector_deletes_the_rows_of_all_vectors(lists: list[list[int]]) -> None:
    merged = merge_deletion_vectors(deletion_vector_from_positions(positions) for positions in lists)
    assert merged.positions().tolist() == sorted({position for positions in lists for position in positions})


def test_a_vector_survives_pickling_and_is_a_value() -> None:
    vector = deletion_vector_from_positions([1, 2, 70_000])
    assert pickle.loads(pickle.dumps(vector)) == vector
    assert hash(vector) == hash(deletion_vector_from_positions([70_000, 2, 1]))


@pytest.mark.parametrize(
    ("data", "what", "where"),
    [
        (b"", "magic bytes", 40),
        (ODD[:4] + b"\xd1\xd3\x39\x65" + ODD[8:], "magic bytes are not D1D33964", 40),
        (b"\0\0\0\x2b" + ODD[4:], "claims 43", 40),
        (ODD + b"\0", "claims 42", 40),
        (ODD[:-1], "claims 42", 40),
        (frame(b"\0" * 7), "claims 11", 40),
        (b"\0\0\0\x04" + MAGIC, "claims 4", 40),
        (ODD[:-1] + b"\xbf", "checksum of a deletion vector is b3fb20bf", 86),
        (ODD[:36] + b"\x02" + ODD[37:], "checksum", 86),
        (frame(ODD[8:-6]), "truncated", 84),
        (frame(ODD[8:-4] + b"\0"), "1 bytes follow the bitmap", 86),
        (frame(b"\xff" * 8), "bitmaps are claimed in 8 bytes", 48),
        (frame(struct.pack("<Q", 2) + ODD[16:-4]), "the bitmap is truncated", 86),
        (frame(struct.pack("<QII", 1, 0, 12345) + b"\0" * 20), "unknown cookie 12345", 60),
        (frame(struct.pack("<QIII", 1, 0, 12346, 70_000) + b"\0" * 20), "claims 70000 containers", 64),
        (frame(containers((0, 1, b"\1\0"), key=2**31)), "top bit", 56),
        (frame(struct.pack("<Q", 2) + (containers((0, 1, b"\1\0"), key=1))[8:] * 2), "key 1 of a bitmap follows the key 1", 78),
        (frame(containers((1, 1, b"\1\0"), (1, 1, b"\1\0"))), "damaged", 48),
        (frame(containers((0, 2, b"\3\0\2\0"))), "strictly increasing", 48),
        (frame(containers((0, 5_000, b"\xff" * 8_192))), "cardinality is incorrect", 48),
        (frame(containers((0, 65_536, b"\1" * 8_192))), "cardinality is incorrect", 48),
        (frame(runs((0, 9), (5, 9))), "damaged", 48),
        (frame(runs((65_530, 19))), "damaged", 48),
        (frame(runs()), "damaged", 48),
        (frame(runs((0, 9), containers=2)), "truncated", 48),
        (NONE, "contains 0 positions where 5 are recorded", 40),
        (NONE[8:-4], "contains 0 positions where 5 are recorded", 40),
    ],
)
def test_an_error_names_the_file_and_the_damaged_byte(data: bytes, what: str, where: int) -> None:
    with pytest.raises(PuffinFormatError, match=what) as caught:
        decode_deletion_vector(data, cardinality=5, path="s3://b/v.puffin", offset=40)
    assert caught.value.problems[0].where.startswith("byte ")
    assert "s3://b/v.puffin" in str(caught.value)
    if "truncated" not in what:
        assert f"at byte {where}" in str(caught.value)


@settings(max_examples=examples(200))
@given(
    st.sampled_from([ODD[8:-4], WITH_A_GAP, runs((3, 9), (50, 2), cardinality=13), containers((0, 2, b"\1\0\2\0"), (3, 1, b"\7\0"))]),
    st.data(),
)
def test_mutated_bitmaps_are_read_or_raise_puffin_format_error(bitmap: bytes, data: st.DataObject) -> None:
    mutated = bytearray(bitmap)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] = data.draw(st.sampled_from([0, 1, 2, 255]) | st.integers(0, 255))
    del mutated[data.draw(st.integers(0, len(mutated)) | st.just(len(mutated))) :]
    for damaged in (bytes(mutated), frame(bytes(mutated))):
        for cardinality in (0, 5, data.draw(st.integers(0, 70_000))):
            message = "byte "
            try:
                assert len(listed(damaged, cardinality)) == cardinality
            except PuffinFormatError as error:
                message = str(error)
            assert "byte " in message


@given(st.integers(0, len(ODD) - 1), st.integers(1, 255))
def test_every_changed_byte_of_a_framed_vector_is_detected(position: int, change: int) -> None:
    damaged = bytearray(ODD)
    damaged[position] ^= change
    with pytest.raises(PuffinFormatError):
        decode_deletion_vector(bytes(damaged), cardinality=5, path="f")


def test_a_file_of_vectors_has_the_values_that_manifest_entries_must_repeat() -> None:
    vectors = {
        "s3://b/ß 1.parquet": deletion_vector_from_positions([1, 3, 5, 7, 9]),
        "s3://b/2.parquet": deletion_vector_from_positions(np.arange(1_000)),
    }
    content, locations = write_deletion_vectors(vectors, properties={"created-by": "a test"})
    source = in_memory_puffin(content, "f")
    metadata = read_file_metadata(source)
    assert metadata.properties == {"created-by": "a test"}
    assert tuple(vector_location(blob, path="f") for blob in metadata.blobs) == locations
    assert locations[0] == VectorLocation(
        referenced_data_file="s3://b/ß 1.parquet", content_offset=4, content_size_in_bytes=50, record_count=5
    )
    first = metadata.blobs[0]
    assert (first.type, first.fields, first.snapshot_id, first.sequence_number) == ("deletion-vector-v1", (2147483645,), -1, -1)
    assert first.properties == {"referenced-data-file": "s3://b/ß 1.parquet", "cardinality": "5"}
    assert b"compression-codec" not in content
    for location, vector, blob in zip(locations, vectors.values(), metadata.blobs, strict=True):
        stored = content[location.content_offset :][: location.content_size_in_bytes]
        assert stored == read_blob(source, blob)
        assert decode_deletion_vector(stored, cardinality=location.record_count, path="f") == vector


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"type": "apache-datasketches-theta-v1"}, "not 'deletion-vector-v1'"),
        ({"compression_codec": "zstd"}, "must not be compressed"),
        ({"properties": {"cardinality": "1"}}, "lacks the properties referenced-data-file"),
        ({"properties": {}}, "lacks the properties referenced-data-file, cardinality"),
        *(
            ({"properties": {"referenced-data-file": "d", "cardinality": text}}, "not a number")
            for text in ("", "-1", "1.0", "\u0661", "9" * 20)
        ),
    ],
)
def test_a_blob_that_violates_the_rules_of_deletion_vectors_is_refused(changes: dict[str, object], what: str) -> None:
    vector_blob = deletion_vector_blob(deletion_vector_from_positions([1]), "d")
    attributes = {
        name: getattr(vector_blob, name) for name in ("type", "fields", "snapshot_id", "sequence_number", "compression_codec", "properties")
    }
    blob = BlobMetadata(**{**attributes, "offset": 4, "length": 9, **changes})
    with pytest.raises(PuffinFormatError, match=what) as caught:
        vector_location(blob, path="f.puffin")
    assert "at byte 4" in str(caught.value)


def test_vectors_and_other_blobs_share_a_file() -> None:
    other = Blob(type="other", fields=(1,), snapshot_id=1, sequence_number=1, data=b"x" * 500, compression_codec="lz4")
    content, metadata = write_puffin([other, deletion_vector_blob(deletion_vector_from_positions([4]), "d")], properties={})
    location = vector_location(metadata.blobs[1], path="f")
    stored = content[location.content_offset :][: location.content_size_in_bytes]
    assert decode_deletion_vector(stored, cardinality=1, path="f").positions().tolist() == [4]
