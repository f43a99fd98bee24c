"""Faults that only local disks have."""

import errno
import os
import sys
from mmap import mmap
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
from icefloe.io import local_file_io
from icefloe.io.local_file_io import LocalFileIO
from icefloe.spec.ports import PAGE_BYTES

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

    for function, path in (("mkdir", f"{tmp_path}/new/x"), ("open", f"{tmp_path}/x")):
        with monkeypatch.context() as patched:
            patched.setattr(os, function, fail)
            with pytest.raises(kind) as raised:
                IO.write(path, b"1")
        assert type(raised.value) is kind
        assert path in str(raised.value)


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


def pages(text: bytes) -> mmap:
    """Return whole pages of memory that begin with the text."""
    filled = mmap(-1, -(-len(text) // PAGE_BYTES) * PAGE_BYTES)
    filled.write(text)
    return filled


def is_direct(descriptor: int) -> bool:
    return bool(local_file_io.fcntl.fcntl(descriptor, local_file_io.fcntl.F_GETFL) & os.O_DIRECT)


def takes_direct_writes(folder: Path) -> bool:
    """Return whether files of this folder can be written past the system's cache: those of most disks, not those in memory."""
    descriptor = os.open(folder / "tried", os.O_CREAT | os.O_WRONLY)
    try:
        return local_file_io._set_direct(descriptor, direct=True)
    finally:
        os.close(descriptor)


PAGES = [pages(b"a" * 10), pages(b"b" * 100_000), pages(b"c" * PAGE_BYTES)]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has direct writes")


def test_whole_pages_are_written_as_the_bytes_that_they_are(tmp_path) -> None:
    IO.write(f"{tmp_path}/x", PAGES)
    assert IO.read(f"{tmp_path}/x") == b"".join(PAGES)
    assert os.listdir(tmp_path) == ["x"]


@on_linux
def test_whole_pages_alone_are_written_past_the_cache(tmp_path, monkeypatch) -> None:
    if not takes_direct_writes(tmp_path):
        pytest.skip("the file system has no direct writes")
    seen: list[bool] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(is_direct(descriptor)), sync(descriptor)))
    IO.write(f"{tmp_path}/x", PAGES)
    IO.write(f"{tmp_path}/y", [*PAGES, b"d"])
    IO.write(f"{tmp_path}/z", bytes(PAGE_BYTES))
    assert seen == [True, False, False]
    assert IO.read(f"{tmp_path}/y") == b"".join(PAGES) + b"d"


@on_linux
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
@pytest.mark.parametrize("refused_at", [0, 1, 2])
def test_a_disk_that_takes_no_such_pages_gets_the_same_bytes_through_the_cache(tmp_path, monkeypatch, refused_at: int, number: int) -> None:
    write, calls = os.write, []

    def refuse(descriptor: int, content: memoryview) -> int:
        calls.append(content)
        if len(calls) > refused_at and is_direct(descriptor):
            raise OSError(number, "refused")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", refuse)
    IO.write(f"{tmp_path}/x", PAGES)
    assert IO.read(f"{tmp_path}/x") == b"".join(PAGES)


@on_linux
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM])
def test_a_file_system_without_direct_writes_gets_the_same_bytes(tmp_path, monkeypatch, number: int) -> None:
    control = local_file_io.fcntl.fcntl

    def refuse(descriptor: int, command: int, flags: int = 0) -> int:
        if flags & os.O_DIRECT:
            raise OSError(number, "refused")
        return int(control(descriptor, command, flags))

    monkeypatch.setattr(local_file_io.fcntl, "fcntl", refuse)
    IO.write(f"{tmp_path}/x", PAGES)
    assert IO.read(f"{tmp_path}/x") == b"".join(PAGES)


@on_linux
@pytest.mark.parametrize("written", [1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])
def test_pages_that_are_written_in_part_are_continued_where_they_ended(tmp_path, monkeypatch, written: int) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: short(write, descriptor, content, written))
    IO.write(f"{tmp_path}/x", PAGES)
    assert IO.read(f"{tmp_path}/x") == b"".join(PAGES)


def short(write: Any, descriptor: int, content: memoryview, most: int) -> int:
    """Write the first bytes, as a signal or a disk that is nearly full does."""
    if most % PAGE_BYTES and is_direct(descriptor):
        local_file_io._set_direct(descriptor, direct=False)
        try:
            return int(write(descriptor, content[:most]))
        finally:
            local_file_io._set_direct(descriptor, direct=True)
    return int(write(descriptor, content[:most]))


@on_linux
def test_a_disk_that_is_full_while_pages_are_written_leaves_no_file(tmp_path, monkeypatch) -> None:
    write, calls = os.write, []

    def full(descriptor: int, content: memoryview) -> int:
        calls.append(content)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFullError):
        IO.write(f"{tmp_path}/x", PAGES)
    assert os.listdir(tmp_path) == []
