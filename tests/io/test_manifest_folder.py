"""Decoded manifests in a local folder: the next process decodes nothing, and the files take a limited number of bytes."""

import errno
import json
import logging
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.io.test_manifest_cache import ROWS, decoded, empty_caches, files_of, table_of

from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.errors import InvalidPropertyError
from icefloe.io.manifest_cache import LOCAL_DIR, LOCAL_TOTAL_BYTES, clear_manifest_caches
from icefloe.io.manifest_folder import FOLDER, ManifestFolder, key_of
from icefloe.table.table import Table

__all__ = ["decoded", "empty_caches"]

NEXT_PROCESS = """
import json, sys
from icefloe.catalog.sql_catalog import SqlCatalog
from icefloe.spec.manifest import manifest_reader

opened, decoded = manifest_reader.open_manifest, []
manifest_reader.open_manifest = lambda content, manifest: decoded.append(manifest.manifest_path) or opened(content, manifest)
table = SqlCatalog("lake", **json.loads(sys.argv[1])).load_table("db.t")
print(json.dumps([sorted(task.file.file_path for task in table.scan(sys.argv[2]).plan_files()), len(decoded)]))
"""


def kept_table(tmp_path: Path, appends: int = 3, **properties: str) -> Table:
    return table_of(tmp_path, appends, **{LOCAL_DIR: str(tmp_path / "kept"), **properties})


def files_in(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "kept" / FOLDER).iterdir())


def test_the_next_process_decodes_nothing(tmp_path: Path) -> None:
    table = kept_table(tmp_path)
    expected = files_of(table, "id > 5")
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path), LOCAL_DIR: str(tmp_path / "kept")}
    command = [sys.executable, "-c", NEXT_PROCESS, json.dumps(properties), "id > 5"]
    # Sets have another order than in this process.
    result = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "1"})
    assert json.loads(result.stdout) == [expected, 0]


def test_deletes_and_filters_give_the_same_files_as_without_the_folder(tmp_path: Path, decoded: list[str]) -> None:
    table = kept_table(tmp_path)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 11")
    filters = ["", "id < 5", "name = 'c'", "name > 'c'", "id > 15"]
    expected = [files_of(table, text) for text in filters]
    rows = sorted(table.scan().to_arrow()["id"].to_pylist())
    clear_manifest_caches()
    decoded.clear()
    assert [files_of(table, text) for text in filters] == expected
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == rows
    assert decoded == []


def test_after_an_append_the_next_process_decodes_nothing(tmp_path: Path, decoded: list[str]) -> None:
    table = kept_table(tmp_path)
    files_of(table)
    table.append(ROWS)
    clear_manifest_caches()
    decoded.clear()
    assert len(files_of(table)) == 4
    assert decoded == []  # the commit kept what it wrote


def test_without_the_property_nothing_is_written(tmp_path: Path) -> None:
    files_of(table_of(tmp_path))
    assert not list(tmp_path.rglob("*.arrow"))


def test_only_the_user_has_access_to_the_folder_and_its_files(tmp_path: Path) -> None:
    before = os.umask(0o002)
    try:
        files_of(kept_table(tmp_path))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "kept" / FOLDER).stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files_in(tmp_path)} == {0o600}


def test_the_files_take_at_most_the_total(tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    files_of(table)
    (size,) = {path.stat().st_size for path in files_in(tmp_path)}
    for path in files_in(tmp_path):
        path.unlink()
    limit = {LOCAL_TOTAL_BYTES: str(8 * size)}
    table = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path), **{LOCAL_DIR: str(tmp_path / "kept"), **limit}
    ).load_table("db.t")
    for _ in range(20):
        table.append(ROWS)
        clear_manifest_caches()
        files_of(table)  # uses all that are kept, and writes one at least
        assert 0 < sum(path.stat().st_size for path in files_in(tmp_path)) <= 8 * size


def test_the_files_that_were_used_least_recently_are_removed(tmp_path: Path) -> None:
    folder = ManifestFolder(str(tmp_path), 8_000, LOCAL_DIR)
    table = pa.table({"path": ["x" * 640]})
    keys = [key_of(number) for number in range(9)]
    folder.store((key, table) for key in keys[:4])
    size = (tmp_path / FOLDER / f"{keys[0]}.arrow").stat().st_size
    assert 900 < size < 1_100
    for age, key in enumerate(keys[:4]):
        os.utime(tmp_path / FOLDER / f"{key}.arrow", (0, time.time() - 100 + age))
    assert folder.load(keys[0], table.schema, 1).equals(table)
    for key in keys[4:]:
        folder.store([(key, table)])
    kept = [key for key in keys if (tmp_path / FOLDER / f"{key}.arrow").exists()]
    assert keys[0] in kept
    assert kept[1:] == keys[-len(kept) + 1 :]
    assert 5 <= len(kept) <= 7


def test_a_file_above_the_total_is_not_written(tmp_path: Path) -> None:
    table = kept_table(tmp_path, **{LOCAL_TOTAL_BYTES: "100"})
    assert len(files_of(table)) == 3
    assert files_in(tmp_path) == []


def test_what_an_interrupted_process_left_is_removed_after_an_hour(tmp_path: Path) -> None:
    table = kept_table(tmp_path, 1)
    folder = tmp_path / "kept" / FOLDER
    folder.mkdir(parents=True, mode=0o700)
    old, new = (folder / f"{'0' * 64}.{digit * 16}.unfinished" for digit in "ab")
    for path in (old, new):
        path.write_bytes(b"begun")
    os.utime(old, (0, time.time() - 3700))
    files_of(table)
    assert new.exists()
    assert not old.exists()


def test_threads_and_processes_that_write_the_same_files_agree(tmp_path: Path) -> None:
    table = kept_table(tmp_path, 4)
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path), LOCAL_DIR: str(tmp_path / "kept")}
    command = [sys.executable, "-c", NEXT_PROCESS, json.dumps(properties), "id > 5"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    results: list[list[str]] = []
    threads = [threading.Thread(target=lambda: results.append(files_of(table, "id > 5"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    results += [json.loads(process.communicate(timeout=60)[0])[0] for process in processes]
    assert len(results) == 5
    assert all(result == results[0] and len(result) == 3 for result in results)
    assert all(path.suffix == ".arrow" for path in files_in(tmp_path))


def test_a_file_that_cannot_be_written_does_not_stop_a_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = kept_table(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("icefloe.io.manifest_folder.os.replace", full)
        assert len(files_of(table)) == 3
    assert files_in(tmp_path) == []
    assert "No space left" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize(
    ("name", "value"), [(LOCAL_DIR, "here/and/there"), (LOCAL_DIR, ""), (LOCAL_TOTAL_BYTES, "0"), (LOCAL_TOTAL_BYTES, "1 GB")]
)
def test_a_wrong_value_is_refused_when_the_catalog_is_made(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidPropertyError, match=name):
        SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path), **{name: value})


def test_a_key_differs_with_each_part_and_not_with_the_order_of_a_set() -> None:
    keys = {key_of(*parts) for parts in [(1,), (1, 2), ("1",), ((1,),), (None,), (frozenset({"a"}),), (b"a",), ("a",)]}
    assert len(keys) == 8
    assert key_of(frozenset("abc"), {"x", "y"}) == key_of(frozenset("cba"), {"y", "x"})
    assert all(len(key) == 64 and set(key) <= set("0123456789abcdef") for key in keys)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC, errno.ENOENT])
def test_a_folder_that_cannot_be_opened_now_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    table = pa.table({"path": ["x"]})
    folder = ManifestFolder(str(tmp_path), 8_000, LOCAL_DIR)
    folder.store([(key_of(1), table)])

    def fails(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        assert folder.load(key_of(1), table.schema, 1) is None
        folder.store([(key_of(2), table)])
    assert folder.load(key_of(1), table.schema, 1).equals(table)
