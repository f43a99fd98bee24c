"""`load_file_io`: the storage that answers a catalog's or a table's locations, told apart by their scheme."""

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
    """Asks the storage of each location's own scheme, since one table's files may stand in several. `properties` are the catalog's and the table's."""

    # Not shown: properties may hold keys to a store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: AllowedStores = field(default_factory=AllowedStores, repr=False)

    def at(self, location: str) -> FileIO:
        """The storage that answers a location. Raises `LocationNotAllowedError` where the catalog's configuration does not allow it."""
        self.allowed.check(location)
        scheme = scheme_of(location)
        if scheme == "file":
            return _LOCAL
        if scheme == "memory":
            return _MEMORY
        return file_io_for(location, self.properties)

    def read(self, location: str) -> bytes:
        """The whole file."""
        return self.at(location).read(location)

    def write(self, location: str, content: bytes, *, overwrite: bool = False) -> None:
        """Writes the whole file or nothing. Raises `FileAlreadyExistsError` unless `overwrite`."""
        self.at(location).write(location, content, overwrite=overwrite)

    def exists(self, location: str) -> bool:
        """Whether a file is there."""
        return self.at(location).exists(location)

    def size(self, location: str) -> int:
        """Length in bytes."""
        return self.at(location).size(location)

    def delete(self, location: str) -> None:
        """Deletes the file; a file that is not there is not an error."""
        self.at(location).delete(location)

    def open_input(self, location: str) -> Any:
        """A seekable `pyarrow.NativeFile`."""
        return self.at(location).open_input(location)

    def open_output(self, location: str) -> Any:
        """A `pyarrow.NativeFile` to a file that did not exist before."""
        return self.at(location).open_output(location)


def load_file_io(properties: Mapping[str, str], location: str | None = None, *, is_trusted: bool = False) -> FileIO:
    """The storage for a catalog or table with these properties.

    With a `location`, the place of a table's metadata file or of the warehouse, the library that answers it is loaded at once, so that a missing one is
    reported before any work; and where it is in an object store, local files are not read.

    Args:
        is_trusted: the caller named the location, and no catalog did, so its host may be connected to.

    Raises:
        UnsupportedFeatureError: nothing answers the location's scheme. LocationNotAllowedError: the catalog's configuration does not allow it.
    """
    chosen = SchemeFileIO(dict(properties), AllowedStores.of(properties, location, is_trusted=is_trusted))
    if location is not None and isinstance(storage := chosen.at(location), ObjectStoreFileIO):
        storage.connect()
    return chosen


def check_locations(io: FileIO, locations: Any) -> None:
    """Check an Arrow array of locations that another library is about to read, as Spark does. Raises `LocationNotAllowedError`."""
    if isinstance(io, SchemeFileIO):
        io.allowed.check_all(locations)
