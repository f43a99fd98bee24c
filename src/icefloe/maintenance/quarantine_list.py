"""`QuarantineList`: a file in the table's metadata folder that lists orphan files, which a later purge deletes.

The list is a Parquet file. It is written row group by row group, and gets its name only when it is complete. A damaged list is never purged, but `undo` deletes
it. The name begins with an underscore, so that engines do not treat the list as an orphan. Its content is not trusted: a purge checks every file again, and
gets the age of a list from the storage. Spec: File System Operations.
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
# The number of rows of a list in memory at once, and the maximum size of a row group, which the list itself states.
_ROWS, _MOST_ROW_GROUP = 50_000, 256 * 1024 * 1024


class _EveryName(HiddenNames):
    """The rule for listings that hides every name except the names of lists, which other listings hide."""

    def hides(self, name: str) -> bool:
        """Return True for every name except the name of a list."""
        return not _NAME.fullmatch(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineList:
    """A list of orphan files.

    Attributes:
        location: The list's location.
        size_in_bytes: The size of the list file.
        modified_ms: The time of the list's last modification according to the storage, in milliseconds since 1970-01-01 UTC.
    """

    location: str
    size_in_bytes: int
    modified_ms: int

    def read(self, io: FileIO) -> Iterator[Any]:
        """Yield the listed files as tables with the schema `LISTED`.

        Raises:
            DataFileFormatError: The file is damaged, incomplete, or not a list.
            StorageError: The file cannot be read.
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
    """Writes a list of orphan files. The list exists if the `with` block ends without an error."""

    def __init__(self, io: FileIO, folder: str, now_ms: int, uuid: str) -> None:
        """Create the file in a metadata folder. Raises `StorageError`."""
        time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
        self.location = f"{folder.rstrip('/')}/_orphan-files-{time}-{uuid.replace('-', '')}.parquet"
        self._stack = ExitStack()
        self._writer = pq.ParquetWriter(self._stack.enter_context(whole_output(io, self.location)), LISTED, compression="zstd")
        self._stack.callback(self._writer.close)

    def write(self, files: Any) -> None:
        """Add files, as a table with the schema `LISTED`."""
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
        # Below the first level, a folder that does not exist has no files.
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
    """A filter of paths: files in the scope, except for lists of orphan files. It can be pickled for Spark's tasks."""

    scope: OrphanScope

    def __call__(self, locations: Sequence[str]) -> list[bool]:
        """Return a mask of the locations that are in the scope."""
        real = cached_real()
        return [self.scope.contains(path, real) and not _NAME.fullmatch(path.rpartition("/")[2]) for path in locations]
