"""Faults that only local disks have."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import (
    FileAlreadyExistsError,
    NoSuchFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    StorageUnavailableError,
)
from icefloe.io.local_file_io import LocalFileIO

IO = LocalFileIO()
needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")


def test_a_failed_write_leaves_no_file(tmp_path, monkeypatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFullError, match="no space is left") as raised:
        IO.write(f"{tmp_path}/x", b"1")
    assert raised.value.path == f"{tmp_path}/x"
    assert os.listdir(tmp_path) == []


def test_an_interrupted_write_leaves_no_file(tmp_path, monkeypatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        IO.write(f"{tmp_path}/x", b"1", overwrite=True)
    assert os.listdir(tmp_path) == []


def test_a_write_leaves_no_temporary_file(tmp_path) -> None:
    IO.write(f"{tmp_path}/x", b"1")
    with pytest.raises(FileAlreadyExistsError):
        IO.write(f"{tmp_path}/x", b"2")
    assert os.listdir(tmp_path) == ["x"]


def test_a_mount_without_hard_links_still_refuses_a_taken_name(tmp_path, monkeypatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    IO.write(f"{tmp_path}/x", b"1")
    with pytest.raises(FileAlreadyExistsError):
        IO.write(f"{tmp_path}/x", b"2")
    assert IO.read(f"{tmp_path}/x") == b"1"
    assert os.listdir(tmp_path) == ["x"]


def test_the_error_for_a_path_below_a_file_names_that_file(tmp_path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    for act in (lambda: IO.write(f"{tmp_path}/plain/a/b", b"1"), lambda: IO.open_output(f"{tmp_path}/plain/b")):
        with pytest.raises(StorageError, match="plain is a file, not a folder"):
            act()
    with pytest.raises(NoSuchFileError, match="a part of its path is a file"):
        IO.read(f"{tmp_path}/plain/b")
    assert not IO.exists(f"{tmp_path}/plain/b")
    IO.delete(f"{tmp_path}/plain/b")


def test_a_version_is_equal_until_the_file_changes_whatever_its_time_of_modification(tmp_path) -> None:
    file = tmp_path / "x"
    IO.write(str(file), b"1")
    first, status = IO.version(str(file)), file.stat()
    assert first == IO.version(f"file://{file}")
    while file.stat().st_ctime_ns == status.st_ctime_ns:
        file.write_bytes(b"2")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert IO.version(str(file)) != first
    with pytest.raises(NoSuchFileError):
        IO.version(f"{tmp_path}/y")


def test_a_version_shows_next_change_when_a_further_change_must_show(tmp_path, monkeypatch) -> None:
    IO.write(f"{tmp_path}/x", b"1")
    now_ns = os.stat(f"{tmp_path}/x").st_ctime_ns
    for age_s, shows_next_change in ((0, False), (1, False), (3, True)):
        monkeypatch.setattr("icefloe.io.local_file_io.time.time_ns", lambda age_s=age_s: now_ns + age_s * 1_000_000_000)
        assert IO.version(f"{tmp_path}/x").shows_next_change is shows_next_change


def test_a_folder_is_not_a_file(tmp_path) -> None:
    assert not IO.exists(str(tmp_path))
    for ask in (IO.read, IO.size, IO.open_input):
        with pytest.raises(StorageError, match="is a folder"):
            ask(str(tmp_path))


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EACCES, StoragePermissionError),
        (errno.EPERM, StoragePermissionError),
        (errno.EROFS, StoragePermissionError),
        (errno.ENOSPC, StorageFullError),
        (errno.EDQUOT, StorageFullError),
        (errno.ESTALE, StorageUnavailableError),
        (errno.EIO, StorageError),
    ],
)
def test_the_error_has_a_next_step(tmp_path, monkeypatch, number: int, kind: type[StorageError]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "makedirs", fail)
    with pytest.raises(kind) as raised:
        IO.write(f"{tmp_path}/x", b"1")
    assert type(raised.value) is kind
    assert f"{tmp_path}/x" in str(raised.value)


@needs_user
def test_a_folder_that_may_not_be_written_is_a_permission_error(tmp_path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoragePermissionError):
        IO.write(f"{tmp_path}/x", b"1")


def test_a_relative_location_is_read_from_the_working_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    IO.write("data/x", b"1")
    assert (tmp_path / "data" / "x").read_bytes() == b"1"
    assert IO.exists("data/x")
    assert IO.size("file:" + str(tmp_path / "data/x")) == 1


@pytest.mark.parametrize("method", ["write", "open_output"])
def test_a_file_is_created_although_another_process_removes_its_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    makedirs, removals = os.makedirs, iter([True, True])

    def removed_at_once(path: str, **options: Any) -> None:
        makedirs(path, **options)
        if next(removals, False):
            os.rmdir(path)

    monkeypatch.setattr(os, "makedirs", removed_at_once)
    location = str(tmp_path / "n" / "t" / "file")
    if method == "write":
        LocalFileIO().write(location, b"x")
    else:
        with LocalFileIO().open_output(location) as output:
            output.write(b"x")
    assert Path(location).read_bytes() == b"x"
