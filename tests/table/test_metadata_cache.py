"""Metadata files that are parsed once: what a second load reads, and when it must parse again."""

import gc
import os
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from mmap import mmap
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spec.metadata.made_up_tables import table as made_up_table
from tests.spec.metadata.made_up_tables import with_snapshots

from icefloe import SqlCatalog, StringType, Table
from icefloe.catalog.file_system_catalog import FileSystemCatalog
from icefloe.errors import LocationNotAllowedError, MetadataFormatError, NoSuchFileError, StorageError
from icefloe.io import local_file_io
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.local_file_io import LocalFileIO
from icefloe.operations import metadata_cache
from icefloe.operations.metadata_cache import METADATA_FILES, MetadataCache, read_metadata_at
from icefloe.spec.metadata import json_text
from icefloe.spec.metadata.metadata_writer import table_metadata_parts, write_table_metadata
from icefloe.spec.metadata.table_metadata import TableMetadata

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the locations of the files that are parsed."""
    locations: list[str] = []
    parse = metadata_cache.read_table_metadata

    def counted(content: bytes, path: str) -> TableMetadata:
        locations.append(path)
        return parse(content, path)

    METADATA_FILES.clear()
    monkeypatch.setattr(metadata_cache, "read_table_metadata", counted)
    yield locations
    METADATA_FILES.clear()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the locations of the metadata files whose bytes are read."""
    locations: list[str] = []
    read_file = LocalFileIO.read

    def counted(self: LocalFileIO, location: str) -> bytes:
        if location.endswith(".metadata.json"):
            locations.append(location)
        return read_file(self, location)

    monkeypatch.setattr(LocalFileIO, "read", counted)
    return locations


def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = time.time_ns
    monkeypatch.setattr(local_file_io.time, "time_ns", lambda: now_ns() + 3_600_000_000_000)


def changed(file: Path, content: bytes, *, in_place: bool) -> None:
    """Give a file other bytes, with the same time of modification, and wait until the file system shows another time of change."""
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        if in_place:
            file.write_bytes(content)
        else:
            other = file.with_name("other")
            other.write_bytes(content)
            other.replace(file)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def lake(folder: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace_if_not_exists("db")
    return catalog


def new_table(folder: Path, **properties: str) -> Table:
    return lake(folder).create_table("db.t", schema=SCHEMA, properties=properties)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_what_this_process_wrote_or_parsed_is_not_parsed_again(tmp_path: Path, parsed: list[str], codec: str) -> None:
    table = new_table(tmp_path, **{"write.metadata.compression-codec": codec})
    assert len(parsed) == 1
    for number in range(3):
        table.append(rows(number))
        again = lake(tmp_path).load_table("db.t")
        assert again.metadata == table.metadata
        again.append(rows(number + 10))
        table.refresh()
        assert table.metadata == again.metadata
        assert table.metadata_location == again.metadata_location
    assert len(parsed) == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 11, 12]


def test_metadata_that_was_written_is_what_reading_the_file_returns(tmp_path: Path, parsed: list[str]) -> None:
    for version in ("1", "2", "3"):
        catalog = lake(tmp_path)
        table = catalog.create_table(f"db.v{version}", schema=SCHEMA, properties={"format-version": version})
        table.append(rows(1))
        with table.update_schema() as update:
            update.add_column("note", StringType())
        table.manage_snapshots().create_branch(branch_name="b").commit()
        table.append(rows(2), branch="b")
        kept = catalog.load_table(f"db.v{version}").metadata
        METADATA_FILES.clear()
        read = catalog.load_table(f"db.v{version}").metadata
        assert (kept, write_table_metadata(kept)) == (read, write_table_metadata(read))
        for field in ("schemas", "snapshots", "snapshot_log", "metadata_log", "partition_specs", "sort_orders"):
            assert list(getattr(kept, field)) == list(getattr(read, field))
        assert (kept.schema(), kept.refs, kept.properties) == (read.schema(), read.refs, read.properties)


def test_a_file_that_was_rewritten_with_the_same_length_is_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    table = new_table(tmp_path, owner="Ann")
    file = Path(table.metadata_location.removeprefix("file://"))
    file.write_bytes(file.read_bytes().replace(b'"Ann"', b'"Bob"'))
    assert lake(tmp_path).load_table("db.t").properties["owner"] == "Bob"
    file.write_bytes(file.read_bytes()[:-1] + b" ")
    with pytest.raises(MetadataFormatError, match="not whole JSON"):
        lake(tmp_path).load_table("db.t")
    file.unlink()
    with pytest.raises(NoSuchFileError):
        lake(tmp_path).load_table("db.t")


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_file_that_this_process_wrote_is_not_read_again(tmp_path: Path, read: list[str], codec: str) -> None:
    table = new_table(tmp_path, **{"write.metadata.compression-codec": codec})
    read.clear()
    for number in range(3):
        table.append(rows(number))
        again = lake(tmp_path).load_table("db.t")
        assert again.metadata == table.metadata
        again.append(rows(number))
        table.refresh()
        assert table.metadata == again.metadata
    assert read == []


def test_a_file_of_another_writer_is_read_until_a_further_change_would_be_seen(
    tmp_path: Path, read: list[str], parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new_table(tmp_path).append(rows(1))
    METADATA_FILES.clear()
    read.clear()
    parsed.clear()
    for _ in range(3):
        lake(tmp_path).load_table("db.t")
    assert (len(read), len(parsed)) == (3, 1)
    an_hour_later(monkeypatch)
    for _ in range(3):
        lake(tmp_path).load_table("db.t")
    assert (len(read), len(parsed)) == (4, 1)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("written_here", [True, False])
def test_other_bytes_of_the_same_length_and_time_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_here: bool, in_place: bool
) -> None:
    table = new_table(tmp_path, owner="Ann")
    table.append(rows(1))
    if not written_here:
        METADATA_FILES.clear()
        an_hour_later(monkeypatch)
    assert lake(tmp_path).load_table("db.t").properties["owner"] == "Ann"
    file = Path(table.metadata_location.removeprefix("file://"))
    changed(file, file.read_bytes().replace(b'"Ann"', b'"Bob"'), in_place=in_place)
    assert lake(tmp_path).load_table("db.t").properties["owner"] == "Bob"
    file.unlink()
    with pytest.raises(NoSuchFileError):
        lake(tmp_path).load_table("db.t")


def test_a_name_that_another_table_can_get_is_read_after_each_commit(tmp_path: Path, read: list[str], parsed: list[str]) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=SCHEMA)
    table.append(rows(1))
    read.clear()
    parsed.clear()
    assert catalog.load_table("db.t").metadata == table.metadata
    assert [Path(location).name for location in read] == ["v2.metadata.json"]
    assert parsed == []


def test_storage_that_may_not_reach_a_file_gets_no_metadata_that_was_kept_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    table = new_table(tmp_path / "a", owner="Ann")
    table.append(rows(1))
    elsewhere = tmp_path / "b" / "t" / "metadata" / "x.json"
    strict = load_file_io({"io.location-policy": "strict", "warehouse": str(tmp_path / "b")}, str(elsewhere))
    with pytest.raises(LocationNotAllowedError):
        read_metadata_at(strict, table.metadata_location)
    assert read_metadata_at(table.io, table.metadata_location).metadata == table.metadata


def test_a_pipe_in_the_place_of_a_kept_file_is_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table.append(rows(1))
    file = Path(table.metadata_location.removeprefix("file://"))
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(StorageError, match="a device, a pipe or a socket"):
        lake(tmp_path).load_table("db.t")


def test_a_table_created_again_under_the_same_file_names_is_another_table(tmp_path: Path) -> None:
    catalog = FileSystemCatalog("files", warehouse=str(tmp_path))
    catalog.create_namespace("db")
    first = catalog.create_table("db.t", schema=SCHEMA)
    first.append(rows(1))
    catalog.drop_table("db.t")
    second = catalog.create_table("db.t", schema=pa.schema([("name", pa.string())]))
    again = catalog.load_table("db.t")
    assert again.metadata_location.endswith("/v1.metadata.json")
    assert (again.metadata.table_uuid, again.schema().column_names) == (second.metadata.table_uuid, ["name"])


def test_a_change_of_what_a_load_returned_is_not_seen_by_the_next(tmp_path: Path, parsed: list[str]) -> None:
    table = new_table(tmp_path, owner="Ann")
    table.append(rows(1))
    for loaded in (table, lake(tmp_path).load_table("db.t"), lake(tmp_path).load_table("db.t")):
        assert loaded.properties["owner"] == "Ann"
        snapshot = loaded.current_snapshot()
        assert snapshot is not None
        assert snapshot.summary["added-records"] == "1"
        assert list(loaded.metadata.refs) == ["main"]
        loaded.properties["owner"] = "Bob"  # type: ignore[index]
        snapshot.summary["added-records"] = "7"
        loaded.metadata.refs.clear()  # type: ignore[attr-defined]
    assert len(parsed) == 1


def test_the_cache_is_bounded_in_bytes_and_in_tables(parsed: list[str]) -> None:
    cache = MetadataCache(max_bytes=100_000, max_tables=3)
    files = [write_table_metadata(replace(made_up_table(), table_uuid=f"u-{number}")) for number in range(5)]
    for number, content in enumerate(files):
        cache.parse(content, f"file{number}")
    assert len(parsed) == 5
    for number in (4, 3, 2):
        cache.parse(files[number], f"file{number}")
    assert len(parsed) == 5
    cache.parse(files[0], "file0")  # in the place of file 4, the least recently used
    cache.parse(files[4], "file4")
    assert parsed[5:] == ["file0", "file4"]
    large = write_table_metadata(with_snapshots(1_000))
    assert len(large) > 100_000
    for _ in range(2):
        cache.parse(large, "large")
    assert parsed[7:] == ["large", "large"]
    cache.parse(files[4], "file4")
    assert len(parsed) == 9


@pytest.mark.parametrize("written", [False, True])
def test_a_compressed_file_counts_with_its_text(parsed: list[str], written: bool) -> None:
    metadata = with_snapshots(300)
    packed, plain = write_table_metadata(metadata, gzip=True), write_table_metadata(metadata)
    assert len(packed) * 3 < len(plain)
    for room, is_kept in ((len(packed) + len(plain), True), (len(packed) + len(plain) - 1, False)):
        cache = MetadataCache(max_bytes=room)
        if written:
            cache.keep(table_metadata_parts(metadata, gzip=True), "file", metadata, metadata)
        else:
            cache.parse(packed, "file")
        parsed.clear()
        assert cache.parse(packed, "file") == metadata
        assert parsed == ([] if is_kept else ["file"])


def test_a_file_that_was_written_in_pages_is_compared_byte_by_byte(parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_PAGED", 10_000)
    cache, metadata = MetadataCache(), with_snapshots(300)
    parts = table_metadata_parts(metadata)
    assert all(isinstance(part, mmap) for part in parts)
    content = b"".join(parts)
    cache.keep(parts, "file", metadata, metadata)
    assert cache.parse(content, "file") == metadata
    assert parsed == []
    assert cache.parse(content[:-1] + b"\n", "file") == metadata
    assert parsed == ["file"]


def test_a_newer_file_of_a_table_takes_the_place_of_the_older(parsed: list[str]) -> None:
    cache = MetadataCache()
    older, newer = with_snapshots(1), with_snapshots(2)
    cache.parse(write_table_metadata(older), "older")
    assert cache.parse(write_table_metadata(newer), "newer") == newer
    assert cache.parse(write_table_metadata(newer), "newer") == newer
    assert cache.parse(write_table_metadata(older), "older") == older
    assert parsed == ["older", "newer", "older"]


def test_a_newer_file_by_another_writer_shares_the_history_with_the_one_before(parsed: list[str]) -> None:
    cache = MetadataCache()
    older, newer = with_snapshots(64), with_snapshots(65)
    first = cache.parse(write_table_metadata(older), "older")
    texts = first.snapshots.texts(), first.snapshot_log.texts()
    second = cache.parse(write_table_metadata(newer), "newer")
    assert (second.snapshots.texts()[0] is texts[0][0], second.snapshot_log.texts()[0] is texts[1][0]) == (True, True)
    assert (second, write_table_metadata(second)) == (newer, write_table_metadata(newer))
    assert parsed == ["older", "newer"]


@pytest.mark.slow
def test_files_by_another_writer_do_not_stay_in_memory_with_the_history_that_they_share(parsed: list[str]) -> None:
    cache = MetadataCache()
    cache.parse(write_table_metadata(with_snapshots(500)), "0")
    tracemalloc.start()
    try:
        for newer in range(1, 21):
            cache.parse(write_table_metadata(with_snapshots(500 + newer)), str(newer))
        gc.collect()  # what nothing refers to is not kept
        # Other threads of the process, such as those of Spark, allocate too.
        own = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, f"*{part}*") for part in ("icefloe", "json", "test_metadata_cache")]
        )
        kept = sum(trace.size for trace in own.traces)
    finally:
        tracemalloc.stop()
    assert kept < 4 * len(write_table_metadata(with_snapshots(520)))
    assert len(parsed) == 21
