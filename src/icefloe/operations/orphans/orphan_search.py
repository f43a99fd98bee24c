"""`find_in_process`: the search for orphan files by threads of this process; `icefloe.spark.maintenance.orphan_files_job` is the same by Spark's tasks.

First the folder is listed, then the table's metadata is loaded, then both are compared. The order matters: a file that another writer commits after the listing
is either not listed or referenced.
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
# Metadata files of commits that failed or of other tables in the folder, besides those that the table's log names.
MOST_METADATA_FILES = 200_000


@dataclass(slots=True)
class ListedTotal:
    """The number of files that were listed, for the result."""

    files: int = 0


def _all_inside(locations: Sequence[str]) -> Sequence[bool]:
    return [True] * len(locations)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRequest:
    """What is searched.

    Attributes:
        table_name: The table, for texts.
        io: The storage.
        folder: The folder that is listed; with `files` those are in its place.
        hidden: The names that the listing leaves out.
        keys: How locations are compared.
        mismatch: The rule for a file whose path is referenced with another scheme or authority.
        referenced: Returns the referenced files; it is called after the listing with the locations of the metadata files that were listed.
        files: The files, in tables of `LISTED`, in place of those in the folder.
        view: The files, as rows of an engine's own with the columns `file_path` and `last_modified`, in place of those in the folder.
        is_inside: Returns which locations of `files` and `view` count. It pickles.
        older_than_ms: Only files of `view` that were last modified before this time count.
        lasting_file: A file of the table that no commit deletes soon. Every process must see it as this one does before it lists a local folder.
        listed: Receives the number of listed files.
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
    """Yield tables of `LISTED` with the files that nothing references. Nothing is yielded before everything is compared that could refuse the table.

    Raises:
        InvalidInputError: Prefixes differ, and `mismatch` is `ERROR`.
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
    """Yield paths with their sizes and times, null where they are unknown."""
    if request.files is not None:
        for table in request.files():
            inside = table.filter(pa.array(request.is_inside(table["path"].to_pylist()), pa.bool_()))
            yield inside["path"].to_pylist(), inside["size_in_bytes"].to_pylist(), inside["modified_ms"].to_pylist()
        return
    for files in files_below(request.io, request.folder, request.hidden):
        unknown = [None] * len(files.names)
        yield [f"{files.folder}/{name}" for name in files.names], files.sizes or unknown, files.modified_ms or unknown


def metadata_among(paths: Iterable[str]) -> list[str]:
    """Return the paths whose names metadata files have."""
    return [path for path in paths if METADATA_NAME in path.rpartition("/")[2]]


def check_metadata_files(count: int, folder: str) -> None:
    """Refuse a folder with more metadata files than are kept in memory. Raises `InvalidInputError`."""
    if count > MOST_METADATA_FILES:
        raise InvalidInputError(
            f"{folder} has more than {MOST_METADATA_FILES:,} metadata files",
            path=folder,
            next_step="pass a location below it, such as the folder of the data files",
        )


def batches_or_refusal(table_name: str, referenced: ReferencedFiles) -> Iterator[Any]:
    """Yield the locations of referenced files. Raises the error of a file that cannot be read, with its consequence."""
    try:
        yield from referenced.batches()
    except (NotFoundError, FormatError, StorageError, UnsupportedError) as error:
        raise refusal(table_name, error) from error
