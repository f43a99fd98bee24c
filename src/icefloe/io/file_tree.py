"""`files_below`: all files below a folder of any size, returned folder by folder, so that the list of all files is never in memory.

Local folders are listed one at a time. Object stores have no folders, only prefixes. Their first levels are listed level by level, which gives parts that
several threads can list. Everything below such a part is listed by its prefix, since a table with hashed paths has nearly as many folders as files. Symbolic
links are neither followed nor returned. Spec: File Locations in Metadata.
"""

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Queue
from typing import Any

from icefloe.errors import NoSuchFileError, StorageError, UnsupportedFeatureError
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.local_file_io import TEMPORARY_NAME, LocalFileIO
from icefloe.io.locations import AZURE, local_path, scheme_of
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.io.storage_errors import storage_error
from icefloe.spec.ports import FileIO

# Folders that this process lists at the same time.
THREADS = 16
# Names in one piece of a listing, and the number of pieces that may wait for the reader.
PIECE, WAITING_PIECES = 20_000, 32
# Levels of an object store that are listed level by level.
SPLIT_LEVELS = 3
# Stores that list everything below a prefix in one series of requests.
_BY_PREFIX = frozenset({"s3", "s3a", "s3n", "gs", "gcs"}) | AZURE
# Keys of fsspec's entries whose value is the time of the last modification; the key depends on the library.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


@dataclass(frozen=True, slots=True)
class HiddenNames:
    """The rule for names that listings leave out: names that begin with `_` or `.`, except for folders of partition fields whose names begin so.

    Attributes:
        partitions: How the names of such folders begin, for example `_day=`.
    """

    partitions: tuple[str, ...] = ()

    @classmethod
    def of_fields(cls, names: Iterable[str]) -> "HiddenNames":
        """Return the rule for the folder of a table that has partition fields of these names."""
        return cls(tuple(sorted({f"{name}=" for name in names if name.startswith(("_", "."))})))

    def hides(self, name: str) -> bool:
        """Return True if a file or folder of this name is left out, with everything in it."""
        return name.startswith(("_", ".")) and not (self.partitions and name.startswith(self.partitions))

    def hides_local_file(self, name: str) -> bool:
        """Return True if a local file of this name is left out. Temporary files from a killed write of `LocalFileIO` are listed."""
        return self.hides(name) and not TEMPORARY_NAME.fullmatch(name)


@dataclass(frozen=True, slots=True)
class FolderPart:
    """A folder that a listing has still to list.

    Attributes:
        folder: Its location, without a slash at its end.
        level: The number of folders between it and the folder where the listing began.
    """

    folder: str
    level: int = 0


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """Files of one folder.

    Attributes:
        folder: Its location, without a slash at its end.
        names: The names of the files.
        sizes: Their sizes in bytes: None if unknown for a file, empty if the listing has no sizes.
        modified_ms: Their times of the last modification, in milliseconds since 1970-01-01 UTC: None if unknown for a file, empty if the listing has no times.
    """

    folder: str
    names: Sequence[str]
    sizes: Sequence[int | None] = ()
    modified_ms: Sequence[int | None] = ()


Listed = FolderFiles | FolderPart


def list_part(io: FileIO, part: FolderPart, hidden: HiddenNames) -> Iterator[Listed]:
    """Yield the files in a folder, and the folders in it that have to be listed next. A folder that does not exist has no files.

    Raises:
        StorageError: The folder cannot be listed.
        UnsupportedFeatureError: Its storage cannot be listed.
    """
    storage = io.at(part.folder) if isinstance(io, SchemeFileIO) else io
    if isinstance(storage, LocalFileIO):
        yield from _list_local(part, hidden)
    elif isinstance(storage, ObjectStoreFileIO):
        yield from _list_store(storage, part, hidden)
    else:
        raise UnsupportedFeatureError(
            f"the storage of {part.folder} cannot be listed", path=part.folder, next_step="pass a list of its files: file_list_view"
        )


def files_below(io: FileIO, folder: str, hidden: HiddenNames, threads: int = THREADS) -> Iterator[FolderFiles]:
    """Yield all files in a folder and below it, listed by several threads. The order is not determined.

    Args:
        io: The storage.
        folder: The folder's location.
        hidden: The names that are left out.
        threads: The number of folders that are listed at once.

    Raises:
        NoSuchFileError: There is no such local folder.
        StorageError: A folder cannot be listed, so that the listing is not complete.
    """
    yield from _results(_Walk(io, hidden, [FolderPart(folder.rstrip("/"))], None), threads)


def files_for(
    io: FileIO, parts: Iterable[FolderPart], hidden: HiddenNames, seconds: float, threads: int = THREADS
) -> Iterator[FolderFiles | FolderPart]:
    """Yield the files in folders and below them until the time is over, then the folders that are not listed yet.

    Args:
        io: The storage.
        parts: The folders; at least one of them is listed.
        hidden: The names that are left out.
        seconds: The time after which the listing of no further folder begins. A folder whose listing has begun is listed completely.
        threads: The number of folders that are listed at once.

    Raises:
        NoSuchFileError: There is no such local folder.
        StorageError: A folder cannot be listed, so that the listing is not complete.
    """
    walk = _Walk(io, hidden, list(parts), seconds)
    yield from _results(walk, threads)
    yield from walk.remaining


def _results(walk: "_Walk", threads: int) -> Iterator[FolderFiles]:
    workers = [threading.Thread(target=walk.work, name="icefloe-list", daemon=True) for _ in range(max(1, threads))]
    for worker in workers:
        worker.start()
    try:
        yield from walk.results()
    finally:
        walk.stop()
        for worker in workers:
            worker.join()


class _Walk:
    """The state that the threads of a listing share: the folders to list, newest first, and the results that wait for the reader."""

    def __init__(self, io: FileIO, hidden: HiddenNames, parts: list[FolderPart], seconds: float | None) -> None:
        self._io = io
        self._hidden = hidden
        self.remaining = parts
        self._until = None if seconds is None else time.monotonic() + seconds
        self._busy = 0
        # Set if the listing ends before all folders are listed: by the reader (`_is_over`), or because the time is over (`_is_late`).
        self._is_over = False
        self._is_late = False
        self._changed = threading.Condition()
        self._results: Queue[FolderFiles | BaseException | None] = Queue(WAITING_PIECES)

    def work(self) -> None:
        """List folders until there are no more. Each thread runs this method."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self.remaining or not self._busy or self._is_over)
                if self._is_over or self._is_late or not self.remaining:
                    return
                part = self.remaining.pop()
                self._busy += 1
            try:
                for listed in list_part(self._io, part, self._hidden):
                    if self._is_over:
                        return
                    if isinstance(listed, FolderFiles):
                        self._results.put(listed)
                        continue
                    with self._changed:
                        self.remaining.append(listed)
                        self._changed.notify()
            except BaseException as error:  # noqa: BLE001  the reader raises it
                self._results.put(error)
                return
            finally:
                with self._changed:
                    self._busy -= 1
                    # Only a worker that has finished a folder decides this, so that the last worker sends the end of the results.
                    if self._until is not None and time.monotonic() >= self._until:
                        self._is_late = True
                    is_last = not self._busy and (self._is_late or not self.remaining)
                    self._changed.notify_all()
                if is_last:
                    self._results.put(None)

    def results(self) -> Iterator[FolderFiles]:
        """Yield results until the last folder is listed. Raises the first error of a thread."""
        while True:
            result = self._results.get()
            if result is None:
                return
            if isinstance(result, BaseException):
                raise result
            yield result

    def stop(self) -> None:
        """End the threads, both those that wait for a folder and those that wait until the reader takes a result."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        with self._results.not_full:
            self._results.maxsize = sys.maxsize
            self._results.not_full.notify_all()


def _list_local(part: FolderPart, hidden: HiddenNames) -> Iterator[Listed]:
    names: list[str] = []
    try:
        with os.scandir(local_path(part.folder)) as entries:
            for entry in entries:
                name = entry.name
                if not _is_unicode(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if not hidden.hides(name):
                        yield FolderPart(f"{part.folder}/{name}", part.level + 1)
                elif entry.is_file(follow_symlinks=False) and not hidden.hides_local_file(name):
                    names.append(name)
                    if len(names) == PIECE:
                        yield FolderFiles(part.folder, names)
                        names = []
    except (FileNotFoundError, NotADirectoryError) as error:  # removed or replaced since its parent was listed
        if not part.level:
            raise NoSuchFileError(f"there is no folder {part.folder}", path=part.folder, next_step="check the location") from error
    except OSError as error:
        raise storage_error(error, part.folder) from error
    if names:
        yield FolderFiles(part.folder, names)


def _is_unicode(name: str) -> bool:
    """Return False for a name whose bytes are not valid text. No location in a table's metadata can contain such a name."""
    if name.isascii():
        return True
    with suppress(UnicodeEncodeError):
        name.encode()
        return True
    return False


def _list_store(io: ObjectStoreFileIO, part: FolderPart, hidden: HiddenNames) -> Iterator[Listed]:
    scheme = scheme_of(part.folder)
    original = part.folder.partition("://")[0]
    is_deep = scheme in _BY_PREFIX and part.level >= SPLIT_LEVELS
    entries = io.list_entries(part.folder, is_deep=is_deep)
    top = part.folder.partition("://")[2].rstrip("/")
    by_folder: dict[str, list[tuple[str, int | None, int | None]]] = {}
    folders: list[str] = []
    for entry in entries:
        name = str(entry["name"])
        path = name.partition("://")[2] if "://" in name else name
        rest = path.removeprefix(_own_form(path, top))
        # A key such as a//b appears as a folder without a name, whose listing would repeat the listing of its parent.
        segments = rest.strip("/").split("/")
        if rest == path or not segments[-1] or any(map(hidden.hides, segments)):
            continue
        if entry.get("type") == "directory":
            if not is_deep and segments == [rest.strip("/")]:
                folders.append(f"{part.folder}/{segments[0]}")
        elif not path.endswith("/"):  # an object whose name ends in a slash represents a folder and is not a file
            folder, _, file_name = rest.rpartition("/")
            row = (file_name, entry.get("size"), _modified_ms(entry))
            by_folder.setdefault(f"{original}://{top}{folder}", []).append(row)
    yield from (FolderPart(folder, part.level + 1) for folder in dict.fromkeys(folders))
    for folder, rows in by_folder.items():
        yield FolderFiles(folder, [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def _own_form(path: str, top: str) -> str:
    """Return the prefix by which an entry's path names the listed folder: some libraries leave out the host of a location in Azure or HDFS."""
    if path.startswith(f"{top}/"):
        return top
    authority, _, inner = top.partition("/")
    for form in (f"{authority.partition('@')[0]}/{inner}".rstrip("/"), f"/{inner}", inner):
        if form and path.startswith(f"{form}/"):
            return form
    return path


def _modified_ms(entry: Mapping[str, Any]) -> int | None:
    """Return the time of the last modification in an entry of fsspec; None if the entry does not have it."""
    for name in _TIMES:
        value = entry.get(name)
        if isinstance(value, str):
            with suppress(ValueError):
                value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return int((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value * 1000)
    return None


@dataclass(frozen=True, slots=True)
class FileState:
    """The size and the time of the last modification of a file. The time is None if the storage does not show it."""

    size: int
    modified_ms: int | None


def file_state(io: FileIO, location: str) -> FileState | None:
    """Return the current state of a file; None if it does not exist, or if the name belongs to something else, such as a symbolic link.

    Raises:
        StorageError: The state cannot be determined.
    """
    storage = io.at(location) if isinstance(io, SchemeFileIO) else io
    try:
        if isinstance(storage, LocalFileIO):
            return local_state(local_path(location))
        if isinstance(storage, ObjectStoreFileIO):
            entry = storage.entry(location)
            return FileState(int(entry["size"]), _modified_ms(entry)) if entry.get("type") == "file" else None
    except (NoSuchFileError, FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(error, location) from error
    raise StorageError(f"the storage of {location} shows no times of files", path=location)


def local_state(path: str) -> FileState | None:
    """Return the state of a local file; None if the path is not a regular file. Raises `OSError`."""
    status = os.lstat(path)
    if status.st_mode & 0o170000 != 0o100000:
        return None
    return FileState(status.st_size, status.st_mtime_ns // 1_000_000)
