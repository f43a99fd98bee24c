"""Listings of folders: local ones, and those of an object store with the methods of fsspec."""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import NoSuchFileError, StorageError, UnsupportedFeatureError
from icefloe.io import file_tree
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.io.file_tree import FileState, FolderFiles, FolderPart, HiddenNames, file_state, files_below, files_for
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO

TIME = datetime(2026, 1, 2, tzinfo=UTC)
TIME_MS = int(TIME.timestamp() * 1000)


class FakeStore:
    """Objects by key, listed as s3fs lists them."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys
        self.requests: list[str] = []

    def invalidate_cache(self, _: str = "") -> None:
        """Do nothing: no listing is kept."""

    @staticmethod
    def _strip_protocol(location: str) -> str:
        return location.partition("://")[2]

    def ls(self, location: str, *, detail: bool) -> list[Mapping[str, Any]]:
        assert detail
        self.requests.append(f"ls {location}")
        top = location.partition("://")[2].rstrip("/") + "/"
        below = [key for key in self.keys if key.startswith(top)]
        if not below:
            raise FileNotFoundError(location)
        folders = {top + key[len(top) :].partition("/")[0] for key in below if "/" in key[len(top) :]}
        files = [self.entry(key) for key in below if "/" not in key[len(top) :]]
        return [*({"name": folder, "type": "directory", "size": 0} for folder in sorted(folders)), *files]

    def find(self, location: str, *, detail: bool) -> dict[str, Mapping[str, Any]]:
        assert detail
        self.requests.append(f"find {location}")
        top = location.partition("://")[2].rstrip("/") + "/"
        return {key: self.entry(key) for key in self.keys if key.startswith(top)}

    def info(self, location: str) -> Mapping[str, Any]:
        key = location.partition("://")[2]
        if key not in self.keys:
            raise FileNotFoundError(location)
        return self.entry(key)

    def entry(self, key: str) -> Mapping[str, Any]:
        return {"name": key, "type": "file", "size": len(key), "LastModified": TIME}


def paths(io: Any, folder: str, hidden: HiddenNames | None = None) -> list[str]:
    return sorted(f"{one.folder}/{name}" for one in files_below(io, folder, hidden or HiddenNames()) for name in one.names)


def test_an_object_store_is_listed_by_levels_and_then_by_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["b/t/metadata/1.json", "b/t/data/p=1/q=2/r=3/x.parquet", "b/t/data/p=1/q=2/y.parquet", "b/t/data/p=2/z.parquet", "b/t2/no"]
    hidden = ["b/t/_tmp/x", "b/t/data/p=1/q=2/_h/x", "b/t/data/p=1/q=2/.x", "b/t/metadata/_list"]
    store = FakeStore([*keys, *hidden, "b/t/data/p=1/q=2/", "b/t/data//a"])
    monkeypatch.setattr("icefloe.io.object_store_file_io._connect", lambda *_: store)
    io = ObjectStoreFileIO("s3")
    assert paths(io, "S3a://b/t/") == sorted(f"S3a://{key}" for key in keys[:4])
    assert [request for request in store.requests if "find" in request] == ["find s3://b/t/data/p=1/q=2"]
    (found,) = (one for one in files_below(io, "s3://b/t/metadata", HiddenNames()))
    assert (list(found.names), list(found.sizes), list(found.modified_ms)) == (["1.json"], [19], [TIME_MS])
    assert paths(io, "s3://b/nothing") == []
    assert file_state(io, "s3://b/t/metadata/1.json") == FileState(19, TIME_MS)
    assert file_state(io, "s3://b/t/metadata/none") is None


def test_a_local_folder_is_listed_with_every_level(tmp_path: Path) -> None:
    for name in ("a/b/c/x", "a/y", "_day=1/z", "_no/z", ".no", "a/_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    expected = [f"{tmp_path}/a/b/c/x", f"{tmp_path}/a/y"]
    io = load_file_io({})
    assert paths(io, str(tmp_path)) == expected
    assert paths(io, f"file://{tmp_path}/", HiddenNames.of_fields(["_day", "day"])) == sorted(
        f"file://{path}" for path in [*expected, f"{tmp_path}/_day=1/z"]
    )
    with pytest.raises(NoSuchFileError, match="there is no folder"):
        paths(io, f"{tmp_path}/none")
    with pytest.raises(UnsupportedFeatureError, match="cannot be listed"):
        paths(MemoryFileIO(), "memory://x")


@pytest.mark.parametrize("seconds", [0.0, 60.0])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_listing_of_limited_time_returns_the_folders_that_remain(tmp_path: Path, seconds: float, threads: int) -> None:
    for number in range(30):
        folder = tmp_path / f"{number % 7}" / f"{number % 3}" / f"{number}"
        folder.mkdir(parents=True)
        (folder / "x").write_text("x")
    files: list[str] = []
    rounds, parts = 0, [FolderPart(str(tmp_path))]
    while parts:
        listed = list(files_for(load_file_io({}), parts, HiddenNames(), seconds, threads))
        files += [f"{one.folder}/{name}" for one in listed if isinstance(one, FolderFiles) for name in one.names]
        parts = [one for one in listed if isinstance(one, FolderPart)]
        rounds += 1
    assert sorted(files) == paths(load_file_io({}), str(tmp_path))
    assert (rounds > 3) == (seconds == 0)
    assert not [thread for thread in threading.enumerate() if thread.name == "icefloe-list"]


def test_a_folder_that_cannot_be_listed_ends_the_listing_and_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "x").write_text("x")
    scandir = file_tree.os.scandir

    def failing(path: Any) -> Any:
        if str(path).endswith("/25"):
            raise PermissionError(13, "denied", path)
        return scandir(path)

    monkeypatch.setattr(file_tree.os, "scandir", failing)
    with pytest.raises(StorageError, match="denied"):
        paths(load_file_io({}), str(tmp_path))
    assert not [thread for thread in threading.enumerate() if thread.name == "icefloe-list"]


def test_a_listing_that_is_not_read_to_its_end_ends_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "PIECE", 1)
    monkeypatch.setattr(file_tree, "WAITING_PIECES", 2)
    for number in range(200):
        (tmp_path / f"{number}").write_text("x")
    listing = files_below(load_file_io({}), str(tmp_path), HiddenNames())
    next(listing)
    listing.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "icefloe-list"]
