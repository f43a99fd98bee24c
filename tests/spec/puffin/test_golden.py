"""Puffin files and deletion vectors that Java wrote: read, and written again to the same bytes."""

from pathlib import Path

import pytest

from icefloe.errors import PuffinFormatError
from icefloe.spec.puffin.deletion_vector import (
    VectorFraming,
    decode_deletion_vector,
    deletion_vector_from_positions,
    detect_framing,
    encode_deletion_vector,
)
from icefloe.spec.puffin.puffin_file import Blob, in_memory_puffin, read_blob, read_file_metadata, write_puffin

GOLDEN = Path(__file__).parents[4] / "shared" / "golden"
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden data of other implementations is not beside this checkout")

FRAMED = {
    "empty-position-index.bin": [],
    "small-alternating-values-position-index.bin": [1, 3, 5, 7, 9],
    "small-and-large-values-position-index.bin": [100, 101, 2147483747, 2147483748],
    "all-container-types-position-index.bin": None,
}
BARE = {
    "64mapempty.bin": 0,
    "64map32bitvals.bin": 10,
    "64mapspreadvals.bin": 100,
}
# Its bytes above 7f were lost where it was once stored as text (each is ef bf bd), so it is a damaged file here.
DAMAGED = "64maphighvals.bin"


def test_every_golden_file_is_tested() -> None:
    names = {path.name for path in (GOLDEN / "deletion-vectors").iterdir()}
    assert names == {*FRAMED, *BARE, DAMAGED}
    assert len(list((GOLDEN / "puffin").iterdir())) == 3


@pytest.mark.parametrize("name", FRAMED)
def test_framed_vectors_are_read_and_written_to_the_same_bytes(name: str) -> None:
    data = (GOLDEN / "deletion-vectors" / name).read_bytes()
    expected = FRAMED[name]
    cardinality = 132561 if expected is None else len(expected)
    assert detect_framing(data) is VectorFraming.FRAMED
    vector = decode_deletion_vector(data, cardinality=cardinality, path=name, accept_bare=False)
    assert expected is None or vector.positions().tolist() == expected
    assert encode_deletion_vector(vector) == data
    assert encode_deletion_vector(deletion_vector_from_positions(vector.positions())) == data


@pytest.mark.parametrize("name", BARE)
def test_unframed_bitmaps_are_read(name: str) -> None:
    data = (GOLDEN / "deletion-vectors" / name).read_bytes()
    assert detect_framing(data) is VectorFraming.BARE
    vector = decode_deletion_vector(data, cardinality=BARE[name], path=name)
    assert vector.bitmap.serialize() == data
    ten = [*range(10)]
    keys = {"64mapempty.bin": 0, "64map32bitvals.bin": 1, "64mapspreadvals.bin": 10}[name]
    assert vector.positions().tolist() == [(key << 32) + low for key in range(keys) for low in ten]


def test_the_damaged_bitmap_is_refused() -> None:
    with pytest.raises(PuffinFormatError, match=DAMAGED):
        decode_deletion_vector((GOLDEN / "deletion-vectors" / DAMAGED).read_bytes(), cardinality=100, path=DAMAGED)


def test_the_empty_puffin_file_is_written_to_the_same_bytes() -> None:
    assert write_puffin([], properties={})[0] == (GOLDEN / "puffin" / "empty-puffin-uncompressed.bin").read_bytes()


@pytest.mark.parametrize(
    ("name", "codec"), [("sample-metric-data-uncompressed.bin", None), ("sample-metric-data-compressed-zstd.bin", "zstd")]
)
def test_puffin_files_with_blobs_are_read_and_written_to_the_same_bytes(name: str, codec: str | None) -> None:
    content = (GOLDEN / "puffin" / name).read_bytes()
    source = in_memory_puffin(content, name)
    metadata = read_file_metadata(source)
    blobs = [
        Blob(
            type=blob.type,
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            data=read_blob(source, blob),
            compression_codec=blob.compression_codec,
            properties=blob.properties,
        )
        for blob in metadata.blobs
    ]
    assert [(blob.type, blob.fields, blob.snapshot_id, blob.compression_codec) for blob in blobs] == [
        ("some-blob", (1,), 2, codec),
        ("some-other-blob", (2,), 2, codec),
    ]
    assert blobs[0].data == b"abcdefghi"
    assert "binary data 🤯" in blobs[1].data.decode()
    again, metadata_again = write_puffin(blobs, properties=metadata.properties)
    if codec is None:
        assert again == content
    else:  # another Zstandard compressor; the content is the same
        assert [read_blob(in_memory_puffin(again, "again"), blob) for blob in metadata_again.blobs] == [blob.data for blob in blobs]
