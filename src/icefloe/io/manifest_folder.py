"""Decoded manifests in a local folder, as Arrow IPC files, for later processes of the same user.

The folder belongs to this user and has mode 0700. The name of a file is a hash of everything that its columns depend on, so that no text from a table becomes
part of a path. A file is written under a temporary name and then renamed. It is read only if it is a regular file of this user with the expected checksum,
schema and number of rows; any other file with such a name is removed with a warning. Files with names of another form are not touched. Spec: none, this is a
local format.
"""

import dataclasses
import errno
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from icefloe.errors import InvalidPropertyError
from icefloe.version import __version__

LOG = logging.getLogger(__name__)
FOLDER = "icefloe-manifests"
# Version of the file format. The hash also covers the version of the package.
_LAYOUT = 1
_MAGIC = b"Icefloe manifest columns 1\n"
_HEADER = len(_MAGIC) + 32
_NAME = re.compile(r"[0-9a-f]{64}\.arrow")
_UNFINISHED = re.compile(r"[0-9a-f]{64}\.[0-9a-f]{16}\.unfinished")
_UNFINISHED_SECONDS = 3600
_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# Errors after which the folder, although its property is valid, cannot be used now: another process removes it, or a resource is missing. Scans continue
# without it.
_UNAVAILABLE = frozenset({errno.ENOENT, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE})
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class ManifestFolder:
    """The files of decoded manifests below one folder, which several processes may use at once.

    Args:
        parent: The folder in the property's value; the files are in a subfolder.
        total_bytes: The maximum size of all files. The least recently used files are removed first.
        name: The name of the property, for errors.
    """

    def __init__(self, parent: str, total_bytes: int, name: str) -> None:
        self._path = Path(parent) / FOLDER
        self._total_bytes = total_bytes
        self._name = name
        self._unchecked_bytes = total_bytes  # bytes written since the files were last counted

    def load(self, key: str, schema: Any, rows: int | None) -> Any:
        """Return the columns that were stored under a key; None if there is no usable file.

        Args:
            key: A key from `key_of`.
            schema: The schema that the columns must have.
            rows: The number of rows that they must have; None if unknown.

        Raises:
            InvalidPropertyError: The folder belongs to another user, or other users have access to it.
        """
        try:
            with self._open_folder() as folder:
                return self._load(folder, key, schema, rows)
        except OSError as error:
            LOG.warning("decoded manifests cannot be read in %s: %s", self._path, error.strerror)
            return None

    def _load(self, folder: int, key: str, schema: Any, rows: int | None) -> Any:
        name = f"{key}.arrow"
        try:
            file = os.open(name, _READ, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _UNAVAILABLE:
                raise
            self._remove_unusable(folder, name, "it is a link" if error.errno == errno.ELOOP else str(error.strerror))
            return None
        try:
            table = self._read_file(file, schema, rows)
            os.utime(file)  # the time of the last use
        except (_UnusableError, OSError) as error:
            self._remove_unusable(folder, name, str(error))
            return None
        finally:
            os.close(file)
        return table

    def store(self, columns: Iterable[tuple[str, Any]]) -> None:
        """Store columns, each under a key from `key_of`. If a file cannot be written, that is only logged, because scans do not depend on it.

        Raises:
            InvalidPropertyError: The folder belongs to another user, or other users have access to it.
        """
        try:
            with self._open_folder() as folder:
                for key, table in columns:
                    self._write(folder, key, table)
                if self._unchecked_bytes * 8 >= self._total_bytes:
                    self._unchecked_bytes = 0
                    self._remove_oldest(folder)
        except OSError as error:
            LOG.warning("decoded manifests cannot be stored in %s: %s", self._path, error.strerror)

    @contextmanager
    def _open_folder(self) -> Iterator[int]:
        """Open the folder, creating it if necessary. Raises `OSError` if it cannot be used now, and `InvalidPropertyError` for a wrong owner or mode."""
        try:
            self._path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._path.mkdir(mode=_PRIVATE_FOLDER)
            folder = os.open(self._path, _READ | os.O_DIRECTORY)
        except OSError as error:
            if error.errno in _UNAVAILABLE:
                raise
            raise self._refusal(f"it cannot be opened: {error.strerror}") from error
        try:
            status = os.fstat(folder)
            if status.st_uid != os.geteuid():
                raise self._refusal("it belongs to another user")
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise self._refusal("other users have access to it")
            yield folder
        finally:
            os.close(folder)

    def _refusal(self, reason: str) -> InvalidPropertyError:
        return InvalidPropertyError(
            f"the folder {self._path} of the catalog property {self._name} cannot be used: {reason}",
            next_step="name a folder in which only you can write; a missing one is created",
        )

    def _read_file(self, file: int, schema: Any, rows: int | None) -> Any:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _UnusableError("it is no plain file")
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise _UnusableError("other users have access to it")
        if not _HEADER < status.st_size <= self._total_bytes:
            raise _UnusableError(f"it has {status.st_size} bytes")
        with open(file, "rb", closefd=False) as opened:
            content = memoryview(opened.read(status.st_size))
        payload = content[_HEADER:]
        if content[:_HEADER] != _MAGIC + _checksum(payload):
            raise _UnusableError("its checksum is wrong")
        try:
            with pa.ipc.open_stream(pa.py_buffer(payload)) as stream:
                table = stream.read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _UnusableError(f"it is not Arrow data: {error}") from error
        if not table.schema.equals(schema):
            raise _UnusableError("it has other columns")
        if rows is not None and table.num_rows != rows:
            raise _UnusableError(f"it has {table.num_rows} rows, and not {rows}")
        return table

    def _write(self, folder: int, key: str, table: Any) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.combine_chunks())
        payload = sink.getvalue()
        if _HEADER + payload.size > self._total_bytes:
            return
        name, unfinished = f"{key}.arrow", f"{key}.{secrets.token_hex(8)}.unfinished"
        try:
            with open(os.open(unfinished, _WRITE, _PRIVATE_FILE, dir_fd=folder), "wb") as file:
                file.write(_MAGIC + _checksum(payload))
                file.write(payload)
            os.replace(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=folder)
            raise
        self._unchecked_bytes += _HEADER + payload.size

    def _remove_unusable(self, folder: int, name: str, reason: str) -> None:
        LOG.warning("the decoded manifest %s is not used, and removed: %s", self._path / name, reason)
        with suppress(OSError):  # another process has removed it, or it is a folder
            os.unlink(name, dir_fd=folder)

    def _remove_oldest(self, folder: int) -> None:
        """If the files take more than seven eighths of `total_bytes`, remove the least recently used; remove the temporary files of interrupted processes too.

        A process calls this again after it has written another eighth.
        """
        files: list[tuple[float, str, int]] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    if _NAME.fullmatch(entry.name):
                        files.append((status.st_mtime, entry.name, status.st_size))
                    elif _UNFINISHED.fullmatch(entry.name) and status.st_mtime < time.time() - _UNFINISHED_SECONDS:
                        os.unlink(entry.name, dir_fd=folder)
        total = sum(size for _, _, size in files)
        if total * 8 <= self._total_bytes * 7:
            return
        for _, name, size in sorted(files):
            if total * 8 <= self._total_bytes * 6:
                break
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            total -= size


class _UnusableError(Exception):
    """A file was not written by this module, or is damaged; the message has the reason."""


def is_possible() -> bool:
    """Return True if this system has file owners and modes, and can open files relative to a folder."""
    return hasattr(os, "geteuid") and {os.open, os.unlink, os.rename} <= os.supports_dir_fd


def key_of(*parts: Any) -> str:
    """Return a hash of the values that is the same in each process: of dataclasses, sets, sequences, and values whose `repr` contains no address."""
    return sha256(repr(_stable((_LAYOUT, __version__, parts))).encode("utf-8", "surrogatepass")).hexdigest()


def _stable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [_stable(getattr(value, field.name)) for field in dataclasses.fields(value)])
    if isinstance(value, set | frozenset):
        return sorted(repr(_stable(item)) for item in value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_stable(item) for item in value]
    return (type(value).__name__, repr(value))


def _checksum(payload: Any) -> bytes:
    return blake2b(payload, digest_size=32).digest()
