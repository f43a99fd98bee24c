"""`LocalFolders`: listing, creation, moving and removal of folders on this machine. Files are the subject of `local_file_io.py`.

A deletion never follows a symbolic link: the link itself is deleted. Folders are deleted and moved relative to an open parent folder, because another user may
replace a folder in the path by a link at any time.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from icefloe.errors import StorageError
from icefloe.io.local_file_io import open_regular, temporary_name
from icefloe.io.locations import is_same_folder, local_path
from icefloe.io.storage_errors import storage_error

# The number of attempts to remove a folder that another process writes to at the same time.
TRIES = 20


@dataclass(frozen=True, slots=True)
class OpenLocalFolder:
    """A folder that is held open. Names are resolved in this folder even if it is moved, and never in a new folder that has its old path.

    Attributes:
        location: The location by which the folder was opened, for errors.
        descriptor: The open file descriptor.
    """

    location: str
    descriptor: int

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        try:
            return sorted(os.listdir(self.descriptor))
        except OSError as error:
            raise storage_error(error, self.location) from error

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises `NoSuchFileError`."""
        try:
            with open(name, "rb", opener=partial(open_regular, dir_fd=self.descriptor)) as file:
                return file.read()
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, as `LocalFileIO.write` does, but without creating folders.

        Raises:
            FileAlreadyExistsError: The name is taken, and `overwrite` is False.
            NoSuchFileError: The folder was removed.
        """
        temporary = temporary_name()
        try:
            try:
                with open(temporary, "xb", opener=self._open) as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                if overwrite:
                    os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
                else:
                    self._publish(temporary, name)
            finally:
                self._unlink(temporary)
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error

    def delete(self, name: str) -> None:
        """Delete a file; a file that does not exist is not an error."""
        try:
            self._unlink(name)
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error

    @contextmanager
    def inner(self, name: str, *, make: bool = False) -> Iterator[Self | None]:
        """Open a folder inside this one, and create it first if `make` is True and it is missing. Return None if it does not exist.

        Raises:
            StorageError: The name belongs to a symbolic link or a file.
        """
        location = f"{self.location}/{name}"
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self.descriptor)
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            if not stat.S_ISDIR(self._mode(name)):
                raise StorageError(
                    f"{location} is a symbolic link or a file, and not a folder: nothing behind a link is deleted",
                    path=location,
                    next_step="remove the link",
                ) from error
            raise storage_error(error, location) from error
        try:
            yield replace(self, location=location, descriptor=descriptor)
        finally:
            os.close(descriptor)

    def holds(self, path: str) -> bool:
        """Return True if a file or folder of this name, or at this relative path, exists in this folder."""
        try:
            os.stat(path, dir_fd=self.descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(error, f"{self.location}/{path}") from error
        return True

    def move(self, name: str, target: Self, new_name: str) -> bool:
        """Rename a folder, or a symbolic link, into the open folder `target` in one step. Return False if the folder or `target` does not exist any more."""
        try:
            os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error
        return True

    def remove(self, name: str, *, with_content: bool = False) -> None:
        """Remove an empty folder, or with `with_content` any entry with its content; a missing entry is not an error.

        Symbolic links are deleted, their targets are not. An entry that cannot be deleted does not stop the deletion: the first error is raised at the end.
        """
        location = f"{self.location}/{name}"
        try:
            if not with_content:
                os.rmdir(name, dir_fd=self.descriptor)
            elif stat.S_ISDIR(self._mode(name)):
                self._remove_tree(name)
            else:
                os.unlink(name, dir_fd=self.descriptor)
        except FileNotFoundError:
            return
        except RecursionError as error:
            raise StorageError(
                f"folders in {location} are nested too deeply to be deleted",
                path=location,
                next_step="delete the folder with the system's tools",
            ) from error
        except OSError as error:
            raise storage_error(error, str(error.filename or location)) from error

    def _remove_tree(self, name: str) -> None:
        """Remove a folder with its content, even if another process deletes or writes files in it at the same time."""
        failures: list[OSError] = []
        for _ in range(TRIES):
            failures.clear()
            for folder, folders, files, descriptor in os.fwalk(name, topdown=False, onerror=failures.append, dir_fd=self.descriptor):
                for remove, names in ((_unlink, files), (_rmdir, folders)):
                    for inner in names:
                        try:
                            remove(inner, descriptor)
                        except FileNotFoundError:
                            continue
                        except OSError as error:
                            error.filename = os.path.join(self.location, folder, inner)
                            failures.append(error)
            try:
                os.rmdir(name, dir_fd=self.descriptor)
            except FileNotFoundError:
                return
            except OSError as error:
                error.filename = os.path.join(self.location, name)
                failures.append(error)
            else:
                return
            if any(isinstance(failure, PermissionError) for failure in failures):
                break
        raise failures[0]

    def _mode(self, name: str) -> int:
        """Return the file type and permissions of an entry, without following a symbolic link."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mode

    def _publish(self, temporary: str, name: str) -> None:
        """Give a finished temporary file its final name, unless the name is taken."""
        try:
            os.link(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:
            # Some mounts do not support hard links. Creating the name exclusively and renaming over it is as exclusive, but a crash in between leaves an empty
            # file.
            os.close(self._open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def _unlink(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags, 0o666, dir_fd=self.descriptor)


class LocalFolders:
    """Operations on folders of this machine, which are named by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """Return two sorted lists, the names of the folders and of the files in a folder; None if there is no such folder."""
        try:
            with os.scandir(local_path(location)) as entries:
                members = sorted((entry.name, entry.is_dir()) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, location) from error
        return [name for name, is_folder in members if is_folder], [name for name, is_folder in members if not is_folder]

    @contextmanager
    def open_folder(self, location: str) -> Iterator[OpenLocalFolder | None]:
        """Open a folder, and keep it open within a `with` block; None if there is no such folder."""
        try:
            descriptor = os.open(local_path(location), os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            raise storage_error(error, location) from error
        try:
            yield OpenLocalFolder(location, descriptor)
        finally:
            os.close(descriptor)

    def is_same(self, location: str, other: str) -> bool:
        """Return whether two locations are the same folder, however they are spelled; symbolic links are resolved."""
        return is_same_folder(location, other)

    def make(self, location: str) -> bool:
        """Create a folder and missing folders above it. Return True if the folder did not exist."""
        path = local_path(location)
        try:
            os.makedirs(path)
        except FileExistsError:
            return False
        except OSError as error:
            raise storage_error(error, location) from error
        return True

    def remove(self, location: str) -> None:
        """Remove an empty folder, or a symbolic link to a folder. A folder that does not exist is not an error."""
        path = local_path(location)
        try:
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error, location) from error


def _unlink(name: str, descriptor: int) -> None:
    os.unlink(name, dir_fd=descriptor)


def _rmdir(name: str, descriptor: int) -> None:
    """Remove an empty folder, or a symbolic link to a folder."""
    try:
        os.rmdir(name, dir_fd=descriptor)
    except NotADirectoryError:
        os.unlink(name, dir_fd=descriptor)
