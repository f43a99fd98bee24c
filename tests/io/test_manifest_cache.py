"""The cache of decoded manifests: second plans decode nothing, and no scan gets columns of another file, storage or manifest list."""

import os
import shutil
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import AvroFormatError, InvalidPropertyError, NoSuchFileError
from icefloe.io import manifest_cache
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.manifest_cache import CacheSettings, ManifestCache, cached_manifests, clear_manifest_caches, memory_of
from icefloe.operations import data_scan, parallel_requests
from icefloe.scan import manifest_group
from icefloe.spec.manifest import manifest_reader
from icefloe.spec.manifest.manifest_reader import read_live_entries
from icefloe.spec.manifest_list.manifest_file import ManifestFile
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.table.table import Table

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture(autouse=True)
def empty_caches() -> Iterator[None]:
    clear_manifest_caches()
    yield
    clear_manifest_caches()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the manifests that are decoded, in order."""
    paths: list[str] = []
    opened = manifest_reader.open_manifest

    def open_manifest(content: bytes, manifest: ManifestFile) -> Any:
        paths.append(manifest.manifest_path)
        return opened(content, manifest)

    monkeypatch.setattr(manifest_reader, "open_manifest", open_manifest)
    return paths


def table_of(folder: Path, appends: int = 3, **properties: str) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder), **properties)
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"commit.manifest-merge.enabled": "false"})
    for number in range(appends):
        table.append(ROWS.set_column(0, "id", pa.array([number * 10 + row for row in range(3)], pa.int64())))
    return table


def files_of(table: Table, row_filter: str = "") -> list[str]:
    scan = table.scan(row_filter) if row_filter else table.scan()
    return sorted(task.file.file_path for task in scan.plan_files())


def manifests_of(table: Table) -> list[ManifestFile]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifests(table.io)


def test_a_second_plan_of_a_table_that_was_loaded_again_decodes_nothing(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path)
    first = files_of(table)
    assert sorted(decoded) == sorted(manifest.manifest_path for manifest in manifests_of(table))
    decoded.clear()
    again = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path)).load_table("db.t")
    assert files_of(again) == first
    assert len(first) == 3
    assert decoded == []


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_what_a_commit_wrote_is_kept_with_the_statistics_of_earlier_scans(version: str, tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 3, **{"table-override.format-version": version})
    before = files_of(table, "id < 5")
    table.append(ROWS)
    table.append(ROWS)
    decoded.clear()
    assert len(files_of(table, "id < 5")) == len(before) + 2
    assert len(files_of(table)) == 5
    assert decoded == []
    table.delete("id = 11")
    table.delete("id >= 20")
    decoded.clear()
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    assert decoded == []
    clear_manifest_caches()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == rows == [0, 1, 1, 1, 2, 2, 2, 3, 3, 10, 12]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_what_a_commit_kept_is_what_a_scan_would_decode(version: str, tmp_path: Path) -> None:
    """Sequence numbers and first row ids of the manifest list are those that the commit inherited."""
    table = table_of(tmp_path, 2, **{"table-override.format-version": version})
    files_of(table)
    table.append(ROWS)
    table.delete("id = 11")
    kind = spec_partition_type(table.metadata, 0)
    cache = cached_manifests(table.io)
    assert cache is not None
    for manifest in manifests_of(table):
        kept = read_live_entries([manifest], refused, kind, cache=cache).entries
        assert kept.equals(read_live_entries([manifest], table.io.read, kind).entries)


def refused(location: str) -> bytes:
    raise AssertionError(f"{location} is read")


def test_what_a_transaction_wrote_is_kept(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)
    with table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.append(ROWS)
    decoded.clear()
    assert len(files_of(table)) == 3
    assert decoded == []


def test_a_commit_decodes_nothing_where_no_scan_was(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 1)
    decoded.clear()
    table.append(ROWS)
    assert decoded == []


def test_a_commit_is_not_disturbed_by_a_cache_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)

    def fail(*_: object, **__: object) -> None:
        raise AvroFormatError("damaged")

    with monkeypatch.context() as broken:
        broken.setattr(manifest_reader, "_read_together", fail)
        table.append(ROWS)
    assert len(files_of(table)) == 2


def test_scans_with_either_filter_find_their_statistics_after_both_ran(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path)
    assert len(files_of(table, "id < 5")) == 1
    assert len(files_of(table, "name = 'c'")) == 3
    assert len(files_of(table, "name > 'c'")) == 0
    decoded.clear()
    assert len(files_of(table, "id > 15")) == 1
    assert len(files_of(table, "name = 'zz'")) == 0
    assert len(files_of(table)) == 3
    assert decoded == []


def test_deleted_files_and_delete_files_of_kept_manifests_are_those_of_the_snapshot(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.scan("id = 11").to_arrow()
    table.delete("id = 11")
    table.delete("id >= 20")
    for _ in range(2):
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 12]
    decoded.clear()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2, 10, 12]
    assert decoded == []


def test_a_local_manifest_that_is_replaced_by_one_of_the_same_length_is_read_again(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)
    path = Path(manifests_of(table)[0].manifest_path.removeprefix("file://"))
    content = bytearray(path.read_bytes())
    content[-20] ^= 255
    path.write_bytes(content)
    with pytest.raises(AvroFormatError):
        files_of(table)
    path.unlink()
    with pytest.raises(NoSuchFileError):
        files_of(table)


def test_only_a_plan_that_has_manifests_to_decode_starts_threads(
    tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(tmp_path, 12)
    calls: list[int] = []

    def in_threads(function: Any, items: Any) -> Any:
        calls.append(1)
        return map(function, items)

    monkeypatch.setattr(data_scan, "in_threads", in_threads)
    monkeypatch.setattr(parallel_requests, "SERIAL_BYTES", 0)
    first = [files_of(table), files_of(table, "id > 15")]
    assert len(calls) == 2  # the second plan has other statistics
    decoded.clear()
    assert [files_of(table), files_of(table, "id > 15")] == first
    assert (decoded, len(calls)) == ([], 2)
    clear_manifest_caches()
    assert files_of(table, "id > 15") == first[1]
    assert len(calls) == 3


def replace_io(table: Table, io: Any) -> Any:
    scan = table.scan()

    class OfOther:
        def scan(self, *_: object) -> Any:
            return replace(scan, io=io)

    return OfOther()


def test_storage_that_is_not_our_own_and_tables_in_memory_are_not_kept(tmp_path: Path, decoded: list[str]) -> None:
    class OwnStorage:
        pass

    assert cached_manifests(OwnStorage()) is None  # type: ignore[arg-type]
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse="memory://w")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    decoded.clear()
    assert files_of(table) == files_of(table)
    assert len(decoded) == 2


def test_nothing_is_kept_where_the_property_is_false(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 1, **{"io.manifest.cache-enabled": "false"})
    decoded.clear()
    files_of(table)
    files_of(table)
    assert len(decoded) == 2


def test_manifests_above_the_length_are_not_kept(tmp_path: Path, decoded: list[str]) -> None:
    table = table_of(tmp_path, 2, **{"io.manifest.cache.max-content-length": "100"})
    decoded.clear()
    files_of(table)
    files_of(table)
    assert len(decoded) == 4


def test_manifests_expire_after_the_last_use(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(manifest_cache.time, "monotonic", lambda: now[0])
    table = table_of(tmp_path, 1, **{"io.manifest.cache.expiration-interval-ms": "5000"})
    files_of(table)
    decoded.clear()
    for _ in range(3):
        now[0] += 4.9
        files_of(table)
    assert decoded == []
    now[0] += 5.1
    files_of(table)
    assert len(decoded) == 1
    forever = (
        table_of(tmp_path / "x", 1, **{"io.manifest.cache.expiration-interval-ms": "0"}) if (tmp_path / "x").mkdir() is None else table
    )
    files_of(forever)
    decoded.clear()
    now[0] += 10**9
    files_of(forever)
    assert decoded == []


def test_the_columns_take_at_most_the_total_and_those_used_last_stay(tmp_path: Path, decoded: list[str]) -> None:
    tables = []
    for name in "abc":
        (tmp_path / name).mkdir()
        tables.append(table_of(tmp_path / name, 1))
    (manifest,) = manifests_of(tables[0])
    size = memory_of(read_live_entries([manifest], tables[0].io.read, spec_partition_type(tables[0].metadata, 0)).entries, 1)
    total = {"io.manifest.cache.max-total-bytes": str(2 * size + size // 2)}
    ios = [SchemeFileIO({**table.io.properties, **total}, table.io.allowed) for table in tables]  # type: ignore[attr-defined]
    limited = [replace_io(table, io) for table, io in zip(tables, ios, strict=True)]
    cache = cached_manifests(ios[0])
    assert cache is not None
    for table in (limited[0], limited[1], limited[0], limited[2]):  # the second was not used for the longest time
        files_of(table)
        assert cache.cache._size == sum(unit.size for unit in cache.cache._units) <= 2 * size + size // 2
    decoded.clear()
    files_of(limited[0])
    files_of(limited[2])
    assert decoded == []
    files_of(limited[1])
    assert len(decoded) == 1


def test_manifests_of_one_entry_count_with_the_objects_of_their_columns(tmp_path: Path) -> None:
    """An array takes some hundred bytes besides its values: 2,000 manifests of one entry have 0.4 MB of values, and take 13 MB."""
    table = table_of(tmp_path, 1)
    (manifest,) = manifests_of(table)
    entries = read_live_entries([manifest], table.io.read, spec_partition_type(table.metadata, 0)).entries
    assert entries.nbytes < 400
    cache = ManifestCache(CacheSettings(expiration_ms=0, total_bytes=1_000_000, content_length=8_000_000))
    for number in range(2_000):
        with cache.lock:
            cache.put("group", [number], entries, [1], statistics=frozenset(), since=float("inf"))
    assert 50 < len(cache._units) < 200


def test_a_plan_allocates_nothing_in_the_default_pool_of_arrow(tmp_path: Path) -> None:
    """Of the default pool, short columns would take 2 MB for each thread and size."""
    table = table_of(tmp_path, 4)
    default = pa.default_memory_pool()
    observed = pa.proxy_memory_pool(default)
    pa.set_memory_pool(observed)
    try:
        assert len(files_of(table)) == 4
    finally:
        pa.set_memory_pool(default)
    assert observed.max_memory() == 0


def test_simultaneous_readers_decode_a_manifest_once(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, 4)
    decoded.clear()
    barrier = threading.Barrier(8)
    results: list[list[str]] = []
    read = SchemeFileIO.read

    def slowly(self: SchemeFileIO, location: str) -> bytes:
        content = read(self, location)
        if location.endswith("-m0.avro"):
            threading.Event().wait(0.05)
        return content

    monkeypatch.setattr(SchemeFileIO, "read", slowly)

    def plan() -> None:
        barrier.wait()
        results.append(files_of(table))

    threads = [threading.Thread(target=plan) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(results) == 8
    assert all(result == results[0] and len(result) == 4 for result in results)
    assert len(decoded) == 4


def test_readers_that_wait_for_a_reader_that_fails_decode_themselves(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    (manifest,) = manifests_of(table)
    kind = spec_partition_type(table.metadata, 0)
    failing, waiting = threading.Event(), threading.Event()
    errors: list[Exception] = []

    def fail(_: str) -> bytes:
        failing.set()
        waiting.wait(10)
        raise OSError("the connection is gone")

    def first() -> None:
        try:
            read_live_entries([manifest], fail, kind, cache=cached_manifests(table.io))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    failing.wait(10)
    threading.Timer(0.1, waiting.set).start()
    entries = read_live_entries([manifest], table.io.read, kind, cache=cached_manifests(table.io)).entries
    thread.join(10)
    assert len(entries) == 1
    assert len(errors) == 1
    assert cached_manifests(table.io).cache.decoding == {}  # type: ignore[union-attr]


def test_a_forked_process_begins_with_an_empty_cache(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)
    cache = cached_manifests(table.io)
    assert cache is not None
    with cache.cache.lock:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of a fork while other threads run
            child = os.fork() if hasattr(os, "fork") else None
        if child == 0:
            again = cached_manifests(table.io)
            os._exit(0 if again is not None and again.cache is not cache.cache and not again.cache.lock.locked() else 1)
    if child is not None:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("io.manifest.cache-enabled", "maybe"),
        ("io.manifest.cache.expiration-interval-ms", "-1"),
        ("io.manifest.cache.max-total-bytes", "0"),
        ("io.manifest.cache.max-content-length", "1.5"),
        ("io.manifest.cache.max-total-bytes", "1" * 20),
    ],
)
def test_a_wrong_value_is_refused_when_the_catalog_is_made(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPropertyError, match=name):
        SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path), **{name: value})


def test_the_defaults_are_those_of_java_but_that_manifests_are_kept() -> None:
    assert CacheSettings.of({}) == CacheSettings(expiration_ms=60_000, total_bytes=104_857_600, content_length=8_388_608)
    assert CacheSettings.of({"io.manifest.cache-enabled": "FALSE"}) is None


def test_a_table_whose_folder_was_replaced_by_another_has_the_files_of_the_other(tmp_path: Path) -> None:
    table = table_of(tmp_path, 1)
    files_of(table)
    (path,) = {manifest.manifest_path.removeprefix("file://") for manifest in manifests_of(table)}
    moved = Path(path + ".moved")
    shutil.copy(path, moved)
    os.replace(moved, path)  # the same bytes in another inode
    assert len(files_of(table)) == 1


def test_a_scan_of_more_than_fits_keeps_its_first_part(tmp_path: Path, decoded: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_group, "_GROUP_BYTES", 1)  # one manifest at a time
    table = table_of(tmp_path, 4)
    (*_, manifest) = manifests_of(table)
    size = memory_of(read_live_entries([manifest], table.io.read, spec_partition_type(table.metadata, 0)).entries, 1)
    total = {"io.manifest.cache.max-total-bytes": str(2 * size + size // 2)}
    limited = replace_io(table, SchemeFileIO({**table.io.properties, **total}, table.io.allowed))  # type: ignore[attr-defined]
    for _ in range(3):
        decoded.clear()
        assert len(files_of(limited)) == 4
    assert len(decoded) == 2


def test_nothing_is_left_of_storage_whose_manifests_were_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With temporary credentials each load of a table has properties of its own."""
    now = [1000.0]
    monkeypatch.setattr(manifest_cache.time, "monotonic", lambda: now[0])
    table = table_of(tmp_path, 2)
    cache = cached_manifests(table.io)
    assert cache is not None
    for token in range(5):
        now[0] += 61
        io = SchemeFileIO({**table.io.properties, "s3.session-token": str(token)}, table.io.allowed)  # type: ignore[attr-defined]
        files_of(replace_io(table, io))
        assert len(cache.cache._rows) == 1
        assert len(cache.cache._units) == 1


def test_a_reader_that_is_interrupted_before_it_decodes_blocks_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupt:
        interrupt.setattr(manifest_cache.ManifestCache, "touch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            files_of(table)
    files: list[str] = []
    reader = threading.Thread(target=lambda: files.extend(files_of(table)), daemon=True)
    reader.start()
    reader.join(20)
    assert len(files) == 3
