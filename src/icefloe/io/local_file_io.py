"""`LocalFileIO`: files of this machine, each written completely or not at all.

Spec: File System Operations (in-place write, seekable reads, deletes).
"""

import errno
import os
import re
import stat
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from mmap import mmap
from typing import Any, BinaryIO

import pyarrow as pa

from icefloe.errors import StorageError
from icefloe.io.locations import local_path
from icefloe.io.storage_errors import storage_error
from icefloe.spec.ports import PAGE_BYTES, Content, Part

if sys.platform == "linux":
    import fcntl

# Exclusive creation. O_BINARY matters on Windows, which would otherwise change line ends.
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# The number of attempts to create a folder that another process removes at the same time.
TRIES = 20
# The longest step of a file system's times: two changes within a step have the same time.
_TIME_STEP_NS = 2_000_000_000
# Matches the names from `temporary_name`; such a file remains if a write is killed.
TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{32}\.tmp", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The identity of a file's content: two equal versions have equal content if `shows_next_change` was true for the first.

    A program can set the time of the last modification (mtime) but not the time of the last change (ctime). Both count, because some network file systems do
    not have ctime. A file that replaces another file has a different inode.

    Attributes:
        inode: The device number, and the file's inode number on the device.
        size: The length in bytes.
        changed_ns: The ctime and the mtime in nanoseconds since 1970-01-01 UTC.
        shows_next_change: Whether every later change gets a different time, because the last change is older than a step of the file system's times.
    """

    inode: tuple[int, int]
    size: int
    changed_ns: tuple[int, int]
    shows_next_change: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class LocalFileIO:
    """Files at `/x`, `file:/x`, `file:///x` and relative paths. The class has no state, so that it can be pickled for Spark's tasks."""

    def read(self, location: str) -> bytes:
        """Return the content of a file."""
        path = local_path(location)
        try:
            with open(path, "rb", opener=open_regular) as file:
                return file.read()
        except OSError as error:
            raise storage_error(error, location) from error

    def version(self, location: str) -> FileVersion | None:
        """Return the version of a readable file; None on Windows, which does not show the time of the last change. Raises the errors of `read`.

        The file is opened, because network file systems check for changes by other machines only then.
        """
        if os.name == "nt":
            return None
        path = local_path(location)
        try:
            descriptor = open_regular(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, location) from error
        changed_ns = (status.st_ctime_ns, status.st_mtime_ns)
        return FileVersion((status.st_dev, status.st_ino), status.st_size, changed_ns, time.time_ns() - max(changed_ns) > _TIME_STEP_NS)

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing.

        The bytes are written to a hidden file in the same folder and flushed to the disk. Then a hard link creates the name, which fails if the name is taken;
        a rename would replace the other file.

        Raises:
            FileAlreadyExistsError: The name is taken, and `overwrite` is False.
        """
        path = local_path(location)
        temporary = os.path.join(os.path.dirname(path), temporary_name())
        try:
            new_file = _create(temporary, location)
            try:
                with new_file as file:
                    _write_parts(file, content if isinstance(content, list) else [content])
                    os.fsync(file.fileno())
                if overwrite:
                    os.replace(temporary, path)
                else:
                    publish(temporary, path)
            finally:
                unlink_if_there(temporary)
        except OSError as error:
            raise storage_error(error, location) from error

    def exists(self, location: str) -> bool:
        """Return True if a file (not a folder) is there."""
        try:
            return not _is_folder(os.stat(local_path(location)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(error, location) from error

    def size(self, location: str) -> int:
        """Return the length in bytes."""
        try:
            status = os.stat(local_path(location))
        except OSError as error:
            raise storage_error(error, location) from error
        if _is_folder(status.st_mode):
            raise StorageError(f"{location} is a folder, not a file", path=location)
        return status.st_size

    def delete(self, location: str) -> None:
        """Delete the file; a file that does not exist is not an error. Folders are not deleted."""
        try:
            os.unlink(local_path(location))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, location) from error

    def delete_if(self, location: str, may_delete: Callable[[str], bool]) -> bool:
        """Call `may_delete` with the file's real path, delete the file if the result is True, and return the result. A missing file is not an error.

        The folder is opened first, and the file is deleted in the open folder. So it does not matter if a folder in the path is replaced by a symbolic link
        meanwhile.
        """
        folder, name = os.path.split(local_path(location))
        try:
            if os.unlink not in os.supports_dir_fd:  # Windows cannot delete relative to an open folder.
                allowed = may_delete(location)
                if allowed:
                    os.unlink(local_path(location))
                return allowed
            # Deletion does not need the right to list the folder; on Linux, O_PATH opens a folder without that right.
            opened = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY)
            try:
                real = _path_of(opened, folder)
                allowed = real is not None and may_delete(os.path.join(real, name))
                if allowed:
                    os.unlink(name, dir_fd=opened)
                return allowed
            finally:
                os.close(opened)
        except (FileNotFoundError, NotADirectoryError):
            return may_delete(location)
        except OSError as error:
            raise storage_error(error, location) from error

    def open_input(self, location: str) -> Any:
        """Return a seekable `pyarrow.OSFile`."""
        path = local_path(location)
        try:
            mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(path)
            _require_regular(mode, location)
            return pa.OSFile(path, "rb")
        except OSError as error:
            raise storage_error(error, location) from error

    def open_output(self, location: str) -> Any:
        """Create a file, and return a `pyarrow.PythonFile` to write it.

        The file is written through the descriptor that created it. Opening it again by its name could follow a symbolic link that another user created
        meanwhile, and truncate the link's target.
        """
        path = local_path(location)
        try:
            return pa.PythonFile(_create(path, location), mode="w")
        except OSError as error:
            raise storage_error(error, location) from error

    def write_unique(self, location: str, content: Any) -> None:
        """Create a file and write it without a buffer. A failed write may leave a part of the file."""
        try:
            descriptor = _new_descriptor(local_path(location), location)
            try:
                rest = memoryview(content)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(error, location) from error


def _write_parts(file: BinaryIO, parts: Sequence[Part]) -> None:
    """Write parts to an empty file. If all parts consist of whole pages, bypass the system's page cache (O_DIRECT) where the file system supports that.

    Copying the bytes into the page cache would take ten times the CPU time of the write itself, and the cached pages that it replaces are likely to be more
    useful than a metadata file.
    """
    if not all(isinstance(part, mmap) and len(part) % PAGE_BYTES == 0 for part in parts):
        file.writelines(parts)
        file.flush()
        return
    descriptor = file.fileno()
    is_direct = _set_direct(descriptor, direct=True)
    for part in parts:
        pages, written = memoryview(part), 0
        while written < len(pages):
            try:
                written += os.write(descriptor, pages[written:])
            except OSError as error:
                if not is_direct or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                is_direct = _set_direct(
                    descriptor, direct=False
                )  # the file system or its disk does not support direct writes of this page size
            if is_direct and written % PAGE_BYTES:
                # The write ended within a page, because it was interrupted or the disk is full, and a direct write must begin at a page boundary.
                is_direct = _set_direct(descriptor, direct=False)


def _set_direct(descriptor: int, *, direct: bool) -> bool:
    """Set whether writes to an open file bypass the system's page cache. Return whether they do: False if the file system does not support it."""
    if sys.platform != "linux":
        return False
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_DIRECT if direct else flags & ~os.O_DIRECT)
    except OSError:
        if not direct:
            raise
        return False
    return direct


def temporary_name() -> str:
    """Return a new hidden name for a file that is not finished yet."""
    # The name is not derived from the file's, which may already be as long as the file system allows.
    return f".{uuid.uuid4().hex}.tmp"


def open_regular(path: str, flags: int, *, dir_fd: int | None = None) -> int:
    """Open a regular file. A device or a pipe is refused, because reading it might block forever or never end.

    Raises:
        OSError: The file cannot be opened.
        StorageError: The path is a device, a pipe or a socket.
    """
    # Without O_NONBLOCK, opening a pipe waits for its other end; regular files ignore the flag.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), dir_fd=dir_fd)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)
    except StorageError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(mode: int, location: str) -> None:
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a folder is not refused here, because reading it raises an error of its own
        raise StorageError(f"{location} is a device, a pipe or a socket, not a file", path=location, next_step="name a file")


def _create(path: str, location: str) -> BinaryIO:
    """Create a file, and missing folders above it; `location` is only for errors."""
    return os.fdopen(_new_descriptor(path, location), "wb")


def _new_descriptor(path: str, location: str) -> int:
    """Create a file, and missing folders above it, and return its descriptor; `location` is only for errors."""
    parent = os.path.dirname(path)
    for _ in range(TRIES):
        try:
            try:
                return os.open(path, _NEW_FILE, 0o666)
            except FileNotFoundError:
                _make_folder(parent)
                return os.open(path, _NEW_FILE, 0o666)
        except FileNotFoundError:
            continue  # another process has just removed an empty parent folder, as a failed load does
        except (FileExistsError, NotADirectoryError) as error:
            if os.path.lexists(path):
                raise
            taken = _first_file(parent)
            if os.path.isdir(taken):
                continue  # another process has just removed a parent folder, as dropping a table does
            raise StorageError(
                f"{location} cannot be created: {taken} is a file, not a folder", path=location, next_step="choose another location"
            ) from error
    raise StorageError(
        f"{location} cannot be created: another process removes its folder again and again", path=location, next_step="try again"
    )


def _make_folder(folder: str) -> None:
    """Create a folder, and missing folders above it; an existing folder is not an error."""
    try:
        os.mkdir(folder)  # usually only the last folder of the path is missing
    except (FileExistsError, FileNotFoundError):
        os.makedirs(folder, exist_ok=True)


def _first_file(folder: str) -> str:
    """Return the part of a path that is a file but would have to be a folder."""
    while folder != os.path.dirname(folder) and not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


def _path_of(opened: int, folder: str) -> str | None:
    """Return the real path of an open folder; None if the folder was moved after it was opened."""
    try:
        return os.readlink(f"/proc/self/fd/{opened}")
    except OSError:
        real = os.path.realpath(folder)
        return real if os.path.samestat(os.fstat(opened), os.lstat(real)) else None


def publish(temporary: str, path: str) -> None:
    """Give a finished temporary file its final name. The temporary name may remain; delete it with `unlink_if_there`.

    Raises:
        FileExistsError: The name is taken.
        OSError: The file cannot be renamed.
    """
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # Some mounts do not support hard links. Creating the name exclusively and renaming over it is as exclusive, but a crash in between leaves an empty
        # file.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(temporary, path)


def publish_local(temporary: str, location: str) -> None:
    """Flush a finished temporary file to the disk, and give it its final name. The temporary name may remain.

    Raises:
        FileAlreadyExistsError: The name is taken.
        StorageError: The file cannot be flushed or renamed.
    """
    try:
        descriptor = os.open(local_path(temporary), os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        publish(local_path(temporary), local_path(location))
    except OSError as error:
        raise storage_error(error, location) from error


def unlink_if_there(path: str) -> None:
    """Delete a file if it exists. Raises `OSError`."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return


def _is_folder(mode: int) -> bool:
    return mode & 0o170000 == 0o040000
