"""`LocalFolders`: listing, creating, moving and removing folders of this machine. Files are in `local_file_io.py`.

A deletion never follows a symbolic link: the link itself is deleted. Folders are deleted and moved within a folder that is held open, because another user may
replace a folder of the path by a link at any time.
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

# How often a folder is removed again because another process works in it at the same time.
TRIES = 20


@dataclass(frozen=True, slots=True)
class OpenLocalFolder:
    """A folder that is held open: names are resolved in the same folder after a move, never in a new folder of the same path.

    Attributes:
        location: The location that the folder was opened by, for errors.
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
        """Write the whole file or nothing, as `LocalFileIO.write`, and create no folder.

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
        """Hold a folder within this one open, created with `make` where it is missing; None where it does not exist.

        Raises:
            StorageError: A symbolic link or a file has its name.
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
        """Return True if there is a file or folder of that name, or of that path below this folder."""
        try:
            os.stat(path, dir_fd=self.descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(error, f"{self.location}/{path}") from error
        return True

    def move(self, name: str, target: Self, new_name: str) -> bool:
        """Rename a folder, or the symbolic link in its place, into `target` in one step; return False where either does not exist."""
        try:
            os.rename(name, new_name, src_dir_fd=self.descriptor, dst_dir_fd=target.descriptor)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error
        return True

    def remove(self, name: str, *, with_content: bool = False) -> None:
        """Remove an empty folder, or with `with_content` any entry with its content; a missing entry is not an error.

        Of a symbolic link the link alone is deleted. An entry that cannot be deleted does not stop the deletion: the first error is raised at the end.
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
        """Remove a folder with its content, also where another process deletes or writes in it at the same time."""
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
        """Return the kind and rights of an entry; of a symbolic link those of the link."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_mode

    def _publish(self, temporary: str, name: str) -> None:
        """Give the finished file its name unless the name is taken."""
        try:
            os.link(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:
            # Some mounts have no hard links. Taking the name exclusively and renaming over it is as exclusive; a crash between both leaves an empty file.
            os.close(self._open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def _unlink(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags, 0o666, dir_fd=self.descriptor)


class LocalFolders:
    """Folders of this machine by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """Return the names of folders and of files in a folder, sorted; None where there is no such folder."""
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
        """Hold a folder open; None where there is no such folder."""
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
        """Return whether two locations name one folder, whatever their spelling; links are resolved."""
        return is_same_folder(location, other)

    def make(self, location: str) -> bool:
        """Create a folder and those above it; return True if it did not exist."""
        path = local_path(location)
        try:
            os.makedirs(path)
        except FileExistsError:
            return False
        except OSError as error:
            raise storage_error(error, location) from error
        return True

    def remove(self, location: str) -> None:
        """Remove an empty folder, or the symbolic link in its place. A folder that does not exist is not an error."""
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
    """Remove an empty folder, or the symbolic link to one."""
    try:
        os.rmdir(name, dir_fd=descriptor)
    except NotADirectoryError:
        os.unlink(name, dir_fd=descriptor)
