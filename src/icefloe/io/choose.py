"""`load_file_io`: the storage that answers a catalog's or a table's locations, told apart by their scheme.

Floor: io.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from icefloe.io.local import LocalFileIO
from icefloe.io.locations import scheme_of
from icefloe.io.memory import MemoryFileIO
from icefloe.io.object_store import ObjectStoreFileIO, file_io_for
from icefloe.kernel.ports import FileIO

_LOCAL = LocalFileIO()
_MEMORY = MemoryFileIO()


@dataclass(frozen=True, slots=True)
class SchemeFileIO:
    """Asks the storage of each location's own scheme, since one table's files may stand in several. `properties` are the catalog's and the table's."""

    # Not shown: properties may hold keys to a store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def at(self, location: str) -> FileIO:
        """The storage that answers a location."""
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


def load_file_io(properties: Mapping[str, str], location: str | None = None) -> FileIO:
    """The storage for a catalog or table with these properties.

    With a `location`, the library that answers it is loaded at once, so that a missing one is reported before any work.

    Raises:
        UnsupportedFeatureError: nothing answers the location's scheme.
    """
    chosen = SchemeFileIO(dict(properties))
    if location is not None and isinstance(storage := chosen.at(location), ObjectStoreFileIO):
        storage.connect()
    return chosen
