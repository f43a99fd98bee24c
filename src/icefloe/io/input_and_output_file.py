"""`InputFile` and `OutputFile`: a location in a storage, with the methods of PyIceberg's classes of these names, for code that was written for PyIceberg."""

from dataclasses import dataclass, field
from typing import Any

from icefloe.errors import FileAlreadyExistsError
from icefloe.spec.ports import FileIO


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read. `len()` is its length in bytes."""

    location: str
    io: FileIO = field(repr=False)

    def exists(self) -> bool:
        """Return True if the file is there."""
        return self.io.exists(self.location)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002  every file is seekable
        """Return a seekable `pyarrow.NativeFile`.

        Args:
            seekable: ignored; the result is always seekable.

        Raises:
            NoSuchFileError: the file does not exist.
        """
        return self.io.open_input(self.location)

    def __len__(self) -> int:
        return self.io.size(self.location)


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file to write. `len()` is its length in bytes."""

    location: str
    io: FileIO = field(repr=False)

    def exists(self) -> bool:
        """Return True if the file is there."""
        return self.io.exists(self.location)

    def to_input_file(self) -> InputFile:
        """Return this file as an `InputFile`."""
        return InputFile(self.location, self.io)

    def create(self, overwrite: bool = False) -> Any:
        """Create the file, and return a `pyarrow.NativeFile` to write it.

        Args:
            overwrite: whether an existing file is deleted first.

        Raises:
            FileAlreadyExistsError: the file exists, and `overwrite` is False.
        """
        if self.exists():
            if not overwrite:
                raise FileAlreadyExistsError(
                    f"{self.location} exists", path=self.location, next_step="pass overwrite=True, or choose another name"
                )
            self.io.delete(self.location)
        return self.io.open_output(self.location)

    def __len__(self) -> int:
        return self.io.size(self.location)
