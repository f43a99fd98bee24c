"""`QuarantineList`: a file in the table's metadata folder with the orphan files that a later purge deletes.

The list is Parquet, and is written row group by row group; it has its name only once it is complete. A damaged list is never purged, and `undo` deletes it.
Its name begins with an underscore, so that no engine takes it for an orphan. What it contains is hostile: a purge checks every file again, and takes the
age of a list from the storage. Spec: File System Operations.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from icefloe.errors import DataFileFormatError, IcefloeError, StorageError
from icefloe.io.file_tree import FileState, FolderFiles, FolderPart, HiddenNames, file_state, list_part
from icefloe.io.storage_errors import storage_error
from icefloe.io.whole_output import whole_output
from icefloe.maintenance.orphan_scope import OrphanScope, cached_real
from icefloe.operations.orphans.path_database import LISTED
from icefloe.spec.ports import FileIO

_NAME = re.compile(r"_orphan-files-[0-9]{8}T[0-9]{6}-[0-9a-f]{32}\.parquet")
# Rows of a list that are in memory at once, and the most bytes of one row group: the size is stated by the list.
_ROWS, _MOST_ROW_GROUP = 50_000, 256 * 1024 * 1024


class _EveryName(HiddenNames):
    """The rule that hides no name: the names of lists are hidden for listings of orphans."""

    def hides(self, name: str) -> bool:
        """Return True for every name but those of lists."""
        return not _NAME.fullmatch(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineList:
    """A list of orphan files.

    Attributes:
        location: The list's location.
        size_in_bytes: Its size.
        modified_ms: When it was written, by the storage.
    """

    location: str
    size_in_bytes: int
    modified_ms: int

    def read(self, io: FileIO) -> Iterator[Any]:
        """Yield the files as tables of `LISTED`.

        Raises:
            DataFileFormatError: The file is damaged or unfinished, or is no list.
            StorageError: It cannot be read.
        """
        try:
            with io.open_input(self.location) as source, pq.ParquetFile(source) as file:
                metadata = file.metadata
                if not file.schema_arrow.equals(LISTED):
                    raise self._damage_error("it has other columns")
                if any(metadata.row_group(number).total_byte_size > _MOST_ROW_GROUP for number in range(metadata.num_row_groups)):
                    raise self._damage_error("a part of it is too large")
                for batch in file.iter_batches(_ROWS):
                    table = pa.Table.from_batches([batch], LISTED)
                    if any(column.null_count for column in table.columns):
                        raise self._damage_error("a value is missing")
                    yield table
        except (pa.ArrowException, ValueError) as error:
            if isinstance(error, IcefloeError):
                raise
            raise self._damage_error(str(error)) from error
        except OSError as error:
            if isinstance(error, IcefloeError):
                raise
            if error.errno is None:
                raise self._damage_error(str(error)) from error
            raise storage_error(error, self.location) from error

    def _damage_error(self, reason: str) -> DataFileFormatError:
        return DataFileFormatError(
            f"the list of orphan files {self.location} cannot be used: {reason}",
            path=self.location,
            next_step="drop it with the mode undo, and search again",
        )


class QuarantineWriter:
    """Writes a list, which exists when the block ends without an error."""

    def __init__(self, io: FileIO, folder: str, now_ms: int, uuid: str) -> None:
        """Create the file in a metadata folder. Raises `StorageError`."""
        time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        self.location = f"{folder.rstrip('/')}/_orphan-files-{time}-{uuid.replace('-', '')}.parquet"
        self._stack = ExitStack()
        self._writer = pq.ParquetWriter(self._stack.enter_context(whole_output(io, self.location)), LISTED, compression="zstd")
        self._stack.callback(self._writer.close)

    def write(self, files: Any) -> None:
        """Add a table of `LISTED`."""
        try:
            self._writer.write_table(files)
        except OSError as error:
            raise storage_error(error, self.location) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            self._stack.__exit__(kind, error, traceback)
        except OSError as failure:
            if error is None:
                raise storage_error(failure, self.location) from failure


def quarantine_lists(io: FileIO, folders: Sequence[str]) -> list[QuarantineList]:
    """Return the lists in metadata folders, oldest first. Raises `StorageError`."""
    lists = []
    for folder in folders:
        # At a level below the first, a folder that does not exist has no files.
        for listed in list_part(io, FolderPart(folder.rstrip("/"), 1), _EveryName()):
            if isinstance(listed, FolderFiles):
                for name in filter(_NAME.fullmatch, listed.names):
                    location = f"{listed.folder}/{name}"
                    state = file_state(io, location)
                    if state is not None:
                        lists.append(QuarantineList(location=location, size_in_bytes=state.size, modified_ms=_time_of(state, location)))
    return sorted(lists, key=lambda quarantined: (quarantined.modified_ms, quarantined.location))


def _time_of(state: FileState, location: str) -> int:
    if state.modified_ms is None:
        raise StorageError(f"the storage of {location} shows no times of files", path=location)
    return state.modified_ms


@dataclass(frozen=True)
class FilesInside:
    """The test of a list or a view of files for those that are in the scope; lists of orphan files are not. Spark's tasks receive it."""

    scope: OrphanScope

    def __call__(self, locations: Sequence[str]) -> list[bool]:
        """Return which of the locations are in the scope."""
        real = cached_real()
        return [self.scope.contains(path, real) and not _NAME.fullmatch(path.rpartition("/")[2]) for path in locations]
