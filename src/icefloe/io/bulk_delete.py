"""Deletion of many files: with one request for many files if the store supports it, else in several threads. A failure is returned and does not stop the rest.

Spec: File System Operations (deletes).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

from icefloe.display.progress import count_pieces
from icefloe.errors import IcefloeError, StorageError, StoragePermissionError
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.spec.ports import FileIO

# Keys in one DeleteObjects request of S3; other stores get as many in a call.
BATCH = 1_000
# The number of deletions that run at the same time.
THREADS = 16

Failure = tuple[str, IcefloeError]


def delete_files(
    io: FileIO, locations: Sequence[str], may_delete: Callable[[str], bool] | None = None, threads: int = THREADS
) -> list[Failure]:
    """Delete the files, and return those that could not be deleted, each with its error.

    A file that does not exist is not an error. After Ctrl-C the remaining files are not deleted.

    Args:
        io: The storage of the files.
        locations: The locations of the files.
        may_delete: Returns whether a file may be deleted. It is called right before each deletion, because a folder above the file can become a symbolic link
            at any time. None if every file may be deleted.
        threads: The number of deletions that run at the same time.
    """
    batches = list(_batches(io, locations, may_delete or (lambda _: True)))
    pool = ThreadPoolExecutor(max(1, min(threads, len(batches))), thread_name_prefix="icefloe-delete")
    try:
        results = pool.map(lambda delete_batch: delete_batch(), batches)
        with closing(count_pieces("delete files", "requests", results, len(batches))) as counted_results:
            return [failure for failures in counted_results for failure in failures]
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(io: FileIO, locations: Sequence[str], may_delete: Callable[[str], bool]) -> Iterator[Callable[[], list[Failure]]]:
    stores: dict[Any, tuple[ObjectStoreFileIO, list[str]]] = {}  # grouped by account too, because each account has its own keys
    for location in locations:
        store = _object_store(io, location)
        if store is None:
            yield partial(_one_by_one, io, [location], may_delete)
        else:
            stores.setdefault((store.protocol, *sorted(store.properties.items())), (store, []))[1].append(location)
    for store, stored in stores.values():
        remaining = iter(stored)
        while batch := list(islice(remaining, BATCH)):
            yield partial(_together, store, batch, may_delete)


def _object_store(io: FileIO, location: str) -> ObjectStoreFileIO | None:
    try:
        storage = io.at(location) if isinstance(io, SchemeFileIO) else io
    except IcefloeError:
        return None  # the error is raised again when the file is deleted alone
    return storage if isinstance(storage, ObjectStoreFileIO) else None


def _together(store: ObjectStoreFileIO, locations: Sequence[str], may_delete: Callable[[str], bool]) -> list[Failure]:
    """Delete the files with one request if the store supports it. After a failure delete them one by one, which shows the files that cannot be deleted."""
    try:
        if all(map(may_delete, locations)):
            store.delete_many(locations)
            return []
    except IcefloeError:
        pass
    return _one_by_one(store, locations, may_delete)


def _one_by_one(io: FileIO, locations: Sequence[str], may_delete: Callable[[str], bool]) -> list[Failure]:
    failed: list[Failure] = []
    for location in locations:
        try:
            storage = io.at(location) if isinstance(io, SchemeFileIO) else io
            if isinstance(storage, LocalFileIO):
                allowed = storage.delete_if(location, may_delete)
            elif allowed := may_delete(location):
                storage.delete(location)
            if not allowed:
                raise StoragePermissionError(f"{location} is outside the folders of its table now and was not deleted", path=location)
        except IcefloeError as error:
            failed.append((location, error))
        except OSError as error:
            failed.append((location, StorageError(str(error), path=location)))
    return failed
