"""Metadata files in parts: the parts of plain and gzip files, joined, are the whole text, and a part is compressed once."""

import errno
import gzip
import zlib
from mmap import mmap

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spec.metadata.made_up_tables import snapshot, with_snapshots

from icefloe.spec.metadata import json_text
from icefloe.spec.metadata.json_text import JsonText, gzip_parts, plain
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.metadata_updates import apply_updates
from icefloe.spec.metadata.metadata_writer import table_metadata_parts
from icefloe.spec.metadata.snapshot_ref import SnapshotRef
from icefloe.spec.metadata.snapshot_updates import AddSnapshot, SetSnapshotRef
from icefloe.spec.ports import PAGE_BYTES

_LARGE = json_text._SMALL


@given(st.lists(st.tuples(st.binary(max_size=9), st.sampled_from([0, 1, 7, _LARGE - 1, _LARGE, 3 * _LARGE + 1])), max_size=6))
def test_the_parts_of_a_file_are_its_whole_text(shapes: list[tuple[bytes, int]]) -> None:
    texts = [(seed * (size // max(1, len(seed)) + 1))[:size] for seed, size in shapes]
    parts = [JsonText(text) for text in texts]
    is_paged = sum(map(len, texts)) >= json_text._PAGED
    written = plain(parts)
    assert b"".join(written).replace(b" ", b"") == b"".join(texts).replace(b" ", b"")
    assert is_paged or b"".join(written) == b"".join(texts)
    assert not is_paged or all(isinstance(part, mmap) and len(part) % PAGE_BYTES == 0 for part in written)
    content = b"".join(gzip_parts(parts))
    assert gzip.decompress(content) == b"".join(texts)  # checks the checksum and the length
    stream = zlib.decompressobj(wbits=31)
    assert stream.decompress(content) == b"".join(texts)
    assert (stream.eof, stream.unused_data) == (True, b"")  # one member: some readers stop after the first


def test_a_gzip_file_of_a_longer_history_compresses_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[int] = []

    class Counted(JsonText):
        def compress_part(self) -> tuple[bytes, int, int]:
            if self._compressed is None:
                compressed.append(len(self.text))
            return super().compress_part()

    monkeypatch.setattr("icefloe.spec.metadata.raw_entries.JsonText", Counted)
    monkeypatch.setattr(json_text, "JsonText", Counted)
    metadata = with_snapshots(4_096)
    first = table_metadata_parts(metadata, gzip=True)
    whole = sum(compressed)
    assert whole > 500_000
    compressed.clear()
    updates = [AddSnapshot(snapshot(4_097, 4_097, parent_snapshot_id=4_096)), SetSnapshotRef("main", SnapshotRef(snapshot_id=4_097))]
    longer = apply_updates(metadata, updates, metadata.last_updated_ms + 10)
    second = table_metadata_parts(longer, gzip=True)
    assert sum(compressed) < _LARGE
    assert any(mine is theirs for mine in first for theirs in second if len(mine) > 1_000)
    assert read_table_metadata(b"".join(second), "t") == longer
    assert len(msgspec.json.decode(gzip.decompress(b"".join(second)))["snapshots"]) == 4_097


def test_a_large_file_is_in_whole_pages_which_the_next_version_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_PAGED", 256 * 1024)
    metadata = with_snapshots(4_096)
    first = table_metadata_parts(metadata)
    updates = [AddSnapshot(snapshot(4_097, 4_097, parent_snapshot_id=4_096)), SetSnapshotRef("main", SnapshotRef(snapshot_id=4_097))]
    longer = apply_updates(metadata, updates, metadata.last_updated_ms + 10)
    second = table_metadata_parts(longer)
    assert all(isinstance(part, mmap) and len(part) % PAGE_BYTES == 0 for part in (*first, *second))
    shared = sum(len(mine) for mine in first if any(mine is theirs for theirs in second))
    assert shared > 0.9 * sum(map(len, first))
    assert read_table_metadata(b"".join(first), "t") == metadata
    assert read_table_metadata(b"".join(second), "t") == longer


def test_a_process_without_another_map_of_memory_writes_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_PAGED", 256 * 1024)
    maps = 0

    def limited(*arguments: int, **options: int) -> mmap:
        nonlocal maps
        maps += 1
        if maps > 1:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return mmap(*arguments, **options)

    monkeypatch.setattr(json_text.mmap, "mmap", limited)
    metadata = with_snapshots(4_096)
    parts = table_metadata_parts(metadata)
    assert maps == 2
    assert all(isinstance(part, bytes) for part in parts)
    assert read_table_metadata(b"".join(parts), "t") == metadata


def test_a_small_file_has_no_spaces_and_no_pages() -> None:
    parts = table_metadata_parts(with_snapshots(300))
    assert all(type(part) is bytes for part in parts)
    assert b"  " not in b"".join(parts)


def test_text_in_pages_is_compressed_without_the_spaces_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_PAGED", 256 * 1024)
    metadata = with_snapshots(4_096)
    before = b"".join(table_metadata_parts(metadata, gzip=True))
    other = with_snapshots(4_096)
    assert any(isinstance(part, mmap) for part in table_metadata_parts(other))
    after = b"".join(table_metadata_parts(other, gzip=True))
    assert gzip.decompress(after) == gzip.decompress(before)  # checks the length too
    assert b"  " not in gzip.decompress(after)
