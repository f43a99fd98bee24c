"""`load_file_io`: the storage for the locations of a catalog or a table, chosen by the scheme of each location."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.io.allowed_stores import AllowedStores
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.locations import scheme_of
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO, file_io_for
from icefloe.kernel.ports import FileIO

_LOCAL = LocalFileIO()
_MEMORY = MemoryFileIO()


@dataclass(frozen=True, slots=True)
class SchemeFileIO:
    """A file IO that passes each call on to the storage of the location's scheme, because the files of one table may be in several storages.

    Attributes:
        properties: Properties of the catalog and of the table.
        allowed: The storages that locations may reach.
    """

    # Not shown: properties may hold keys to a store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: AllowedStores = field(default_factory=AllowedStores, repr=False)

    def at(self, location: str) -> FileIO:
        """Return the storage of a location. Raises `LocationNotAllowedError` where the catalog's configuration does not allow it."""
        self.allowed.check(location)
        scheme = scheme_of(location)
        if scheme == "file":
            return _LOCAL
        if scheme == "memory":
            return _MEMORY
        return file_io_for(location, self.properties)

    def read(self, location: str) -> bytes:
        """Return the content of a file."""
        return self.at(location).read(location)

    def write(self, location: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing. Raises `FileAlreadyExistsError` unless `overwrite`."""
        self.at(location).write(location, content, overwrite=overwrite)

    def exists(self, location: str) -> bool:
        """Return True if a file is there."""
        return self.at(location).exists(location)

    def size(self, location: str) -> int:
        """Return the length in bytes."""
        return self.at(location).size(location)

    def delete(self, location: str) -> None:
        """Delete the file; a file that does not exist is not an error."""
        self.at(location).delete(location)

    def open_input(self, location: str) -> Any:
        """Return a seekable `pyarrow.NativeFile`."""
        return self.at(location).open_input(location)

    def open_output(self, location: str) -> Any:
        """Create a file, and return a `pyarrow.NativeFile` to write it."""
        return self.at(location).open_output(location)


def load_file_io(properties: Mapping[str, str], location: str | None = None, *, is_trusted: bool = False) -> FileIO:
    """Return the storage for a catalog or table with these properties.

    Args:
        properties: Properties of the catalog and of the table.
        location: The location of a table's metadata file, or the warehouse. The library of its scheme is loaded at once, so that a missing one is reported
            before any work; and where the location is in an object store, local files are not read.
        is_trusted: Whether the caller named the location, and no catalog did, so that its host may be connected to.

    Raises:
        UnsupportedFeatureError: No library for the location's scheme is installed.
        LocationNotAllowedError: The catalog's configuration does not allow the location.
    """
    file_io = SchemeFileIO(dict(properties), AllowedStores.of(properties, location, is_trusted=is_trusted))
    if location is not None and isinstance(storage := file_io.at(location), ObjectStoreFileIO):
        storage.connect()
    return file_io


def check_locations(io: FileIO, locations: Any) -> None:
    """Check an Arrow array of locations that another library is about to read, as Spark does. Raises `LocationNotAllowedError`."""
    if isinstance(io, SchemeFileIO):
        io.allowed.check_all(locations)
