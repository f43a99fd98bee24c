"""`find_in_process`: the search for orphan files in threads of this process; `icefloe.spark.maintenance.orphan_files_job` does the same in Spark's tasks.

First the folder is listed, then the table's metadata is loaded, then the listed files are compared with the referenced ones. The order matters: a file that
another writer commits after the listing was either not listed, or is referenced.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from icefloe.display.progress import progress
from icefloe.errors import FormatError, InvalidInputError, NotFoundError, StorageError, UnsupportedError
from icefloe.io.file_tree import HiddenNames, files_below
from icefloe.operations.orphans.linked_files import LinkedFiles
from icefloe.operations.orphans.path_database import PathDatabase
from icefloe.operations.orphans.path_keys import PathKeys, PrefixMismatch
from icefloe.operations.orphans.referenced_files import ReferencedFiles, refusal
from icefloe.spec.ports import FileIO

METADATA_NAME = ".metadata.json"
# The greatest number of listed metadata files besides those in the table's log: files of failed commits, or of other tables in the folder.
MOST_METADATA_FILES = 200_000


@dataclass(slots=True)
class ListedTotal:
    """A counter of the files that a search has listed."""

    files: int = 0


def _all_inside(locations: Sequence[str]) -> Sequence[bool]:
    return [True] * len(locations)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRequest:
    """The parameters of a search for orphan files.

    Attributes:
        table_name: The table, for messages.
        io: The storage.
        folder: The folder to list; it is not listed if there are `files` or a `view`.
        hidden: The names that the listing leaves out.
        keys: Returns the keys by which locations are compared.
        mismatch: The rule for a file whose path is referenced with another scheme or authority.
        referenced: A function that returns the referenced files. It is called after the listing, with the locations of the listed metadata files.
        files: A function that returns the files to check, in tables of `LISTED`; None to list the folder.
        view: The files to check, as rows of an engine (such as a Spark DataFrame) with the columns `file_path` and `last_modified`; None to list the folder.
        is_inside: A picklable function that returns for locations of `files` or `view` whether to check them.
        older_than_ms: Files of `view` are checked only if they were last modified before this time, in milliseconds since 1970-01-01 UTC.
        lasting_file: A file of the table that no commit deletes soon. Before a process lists a local folder, it checks that it has access to the same file.
        listed: The counter to which the search adds the number of listed files.
    """

    table_name: str
    io: FileIO
    folder: str
    hidden: HiddenNames
    keys: PathKeys
    mismatch: PrefixMismatch
    referenced: Callable[[Iterable[str]], ReferencedFiles]
    files: Callable[[], Iterable[Any]] | None = None
    view: Any = None
    is_inside: Callable[[Sequence[str]], Sequence[bool]] = _all_inside
    older_than_ms: int = 0
    lasting_file: str = ""
    listed: ListedTotal = field(default_factory=ListedTotal)


def find_in_process(request: OrphanRequest) -> Generator[Any, None, None]:
    """Find the orphan files, and yield them in tables of `LISTED`. Nothing is yielded before all files are compared, so that errors precede any deletion.

    Raises:
        InvalidInputError: A file is referenced only under another scheme or authority, and `mismatch` is `ERROR`.
        NotFoundError, FormatError, StorageError, UnsupportedError: A folder cannot be listed, or a file that the table needs cannot be read.
    """
    with PathDatabase(request.keys) as database:
        metadata_files: list[str] = []
        with progress(f"list the files of {request.table_name}", "files") as work:
            for paths, sizes, modified_ms in _listed_files(request):
                database.add_listed(paths, sizes, modified_ms)
                metadata_files += metadata_among(paths)
                work.advance(len(paths))
                if request.files is None:
                    check_metadata_files(len(metadata_files), request.folder)
        request.listed.files = database.listed_files
        with progress(f"read the files that {request.table_name} needs", "files") as work:
            referenced = request.referenced(metadata_files)
            links = LinkedFiles()
            for batch in batches_or_refusal(request.table_name, referenced):
                locations = batch.to_pylist()
                database.add_referenced(chain(locations, links.behind(locations)))
                work.advance(len(locations))
        yield from database.unreferenced_files(request.mismatch)


def _listed_files(request: OrphanRequest) -> Iterator[tuple[Sequence[str], Sequence[int | None], Sequence[int | None]]]:
    """Yield groups of files to check, as three lists: paths, sizes in bytes, and times of the last change in milliseconds. Unknown sizes and times are None."""
    if request.files is not None:
        for table in request.files():
            inside = table.filter(pa.array(request.is_inside(table["path"].to_pylist()), pa.bool_()))
            yield inside["path"].to_pylist(), inside["size_in_bytes"].to_pylist(), inside["modified_ms"].to_pylist()
        return
    for files in files_below(request.io, request.folder, request.hidden):
        unknown = [None] * len(files.names)
        yield [f"{files.folder}/{name}" for name in files.names], files.sizes or unknown, files.modified_ms or unknown


def metadata_among(paths: Iterable[str]) -> list[str]:
    """Return the paths whose file name is that of a metadata file."""
    return [path for path in paths if METADATA_NAME in path.rpartition("/")[2]]


def check_metadata_files(count: int, folder: str) -> None:
    """Raise `InvalidInputError` if `count`, the number of metadata files in a folder, is too large to keep their locations in memory."""
    if count > MOST_METADATA_FILES:
        raise InvalidInputError(
            f"{folder} has more than {MOST_METADATA_FILES:,} metadata files",
            path=folder,
            next_step="pass a location below it, such as the folder of the data files",
        )


def batches_or_refusal(table_name: str, referenced: ReferencedFiles) -> Iterator[Any]:
    """Yield the batches of `referenced`. If a file cannot be read, the error also states that nothing was deleted."""
    try:
        yield from referenced.batches()
    except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
        raise refusal(table_name, error) from error
