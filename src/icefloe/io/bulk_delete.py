"""Deleting many files: in one request for many where the store has that, side by side elsewhere; what fails is told, and stops nothing.

Spec: File System Operations (deletes).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from icefloe.errors import IcefloeError, StorageError, StoragePermissionError
from icefloe.io.file_io_by_scheme import SchemeFileIO
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO
from icefloe.kernel.ports import FileIO

# Keys in one request of S3's DeleteObjects; other stores are asked for as many at a time.
BATCH = 1_000
# Deletes under way at once.
THREADS = 16

Failure = tuple[str, IcefloeError]


def delete_files(io: FileIO, locations: Sequence[str], may_delete: Callable[[str], bool] | None = None) -> list[Failure]:
    """Delete the files, and return those that could not be deleted, each with its error. One that is not there is no error. Ctrl-C leaves the rest.

    Args:
        may_delete: asked for each file right before it is deleted, because a folder above it can become a symbolic link at any time.
    """
    work = list(_batches(io, locations, may_delete or (lambda _: True)))
    pool = ThreadPoolExecutor(max(1, min(THREADS, len(work))), thread_name_prefix="icefloe-delete")
    try:
        return [failure for failures in pool.map(lambda one: one(), work) for failure in failures]
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(io: FileIO, locations: Sequence[str], may_delete: Callable[[str], bool]) -> Iterator[Callable[[], list[Failure]]]:
    stores: dict[Any, tuple[ObjectStoreFileIO, list[str]]] = {}  # by account too, whose keys are for its own files
    for location in locations:
        store = _object_store(io, location)
        if store is None:
            yield partial(_one_by_one, io, [location], may_delete)
        else:
            stores.setdefault((store.protocol, *sorted(store.properties.items())), (store, []))[1].append(location)
    for store, stored in stores.values():
        left = iter(stored)
        while batch := list(islice(left, BATCH)):
            yield partial(_together, store, batch, may_delete)


def _object_store(io: FileIO, location: str) -> ObjectStoreFileIO | None:
    try:
        found = io.at(location) if isinstance(io, SchemeFileIO) else io
    except IcefloeError:
        return None  # deleting it alone says what is wrong
    return found if isinstance(found, ObjectStoreFileIO) else None


def _together(store: ObjectStoreFileIO, locations: Sequence[str], may_delete: Callable[[str], bool]) -> list[Failure]:
    """One request where the store has it. Where it fails, which of them are to blame is found out one by one."""
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
