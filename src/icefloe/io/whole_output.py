"""`whole_output`: write a file of any size that gets its name only when it is complete, so that a killed process leaves no incomplete file under that name.

For content in memory `FileIO.write` does the same. Spec: File System Operations (in-place write).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from icefloe.errors import StorageError
from icefloe.io.local_file_io import publish_local, temporary_name
from icefloe.io.locations import scheme_of
from icefloe.spec.ports import FileIO

_LOCAL = "file"


@contextmanager
def whole_output(io: FileIO, location: str) -> Iterator[Any]:
    """Yield an output stream. The file exists once the block has ended without an error.

    A local file has a temporary name until then. Other storages create the object when the stream is closed.

    Args:
        io: The storage.
        location: The location of the file.

    Raises:
        FileAlreadyExistsError: The name is taken.
        StorageError: The file cannot be written.
    """
    is_local = scheme_of(location) == _LOCAL
    written = f"{location.rpartition('/')[0]}/{temporary_name()}" if is_local else location
    output = io.open_output(written)
    try:
        with output:
            yield output
        if is_local:
            publish_local(written, location)
    except BaseException:
        # `open_output` created this file, so that it belongs to this writer and can be deleted.
        with suppress(StorageError):
            io.delete(written)
        raise
    if is_local:
        io.delete(written)
