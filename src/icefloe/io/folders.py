"""`LocalFolders`: folders of this machine: what is in them, made, moved and removed. Files are `local.py`.

A symbolic link is never followed by what deletes: the link itself is deleted. Floor: io.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from icefloe.errors import StorageError
from icefloe.io.locations import local_path
from icefloe.kernel.storage_errors import storage_error

# How often a folder is removed or moved anew because another process works in it at the same time.
TRIES = 20


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """A folder that is held open: its names lead to the same folder after it was moved, and never into a new one of the same path."""

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
            with open(name, "rb", opener=self._open) as file:
                return file.read()
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error

    def write(self, name: str, content: bytes, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, as `LocalFileIO.write`, and make no folder.

        Raises:
            FileAlreadyExistsError: the name is taken, and `overwrite` is false.
            NoSuchFileError: the folder was removed.
        """
        temporary = f".{uuid.uuid4().hex}.tmp"
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
        """Delete a file; a file that is not there is no error."""
        try:
            self._unlink(name)
        except OSError as error:
            raise storage_error(error, f"{self.location}/{name}") from error

    def _publish(self, temporary: str, name: str) -> None:
        """Give the finished file its name unless the name is taken."""
        try:
            os.link(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except (FileExistsError, FileNotFoundError):
            raise
        except OSError:
            # Some mounts have no hard links. Taking the name exclusively and renaming over it is as exclusive; a crash between the two leaves an empty file.
            os.close(self._open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def _unlink(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags, 0o666, dir_fd=self.descriptor)


class LocalFolders:
    """Folders by location."""

    def names(self, location: str) -> tuple[list[str], list[str]] | None:
        """The names of folders and of files in a folder, sorted; None where there is no such folder."""
        try:
            with os.scandir(local_path(location)) as entries:
                found = sorted((entry.name, entry.is_dir()) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, location) from error
        return [name for name, is_folder in found if is_folder], [name for name, is_folder in found if not is_folder]

    @contextmanager
    def opened(self, location: str) -> Iterator[OpenFolder | None]:
        """Hold a folder open; None where there is no such folder."""
        try:
            descriptor = os.open(local_path(location), os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        except OSError as error:
            raise storage_error(error, location) from error
        try:
            yield OpenFolder(location, descriptor)
        finally:
            os.close(descriptor)

    def is_link(self, location: str) -> bool:
        """Return whether a symbolic link stands there."""
        return os.path.islink(local_path(location))

    def make(self, location: str) -> bool:
        """Makes a folder and those above it; whether it was not there."""
        path = local_path(location)
        try:
            os.makedirs(path)
        except FileExistsError:
            return False
        except OSError as error:
            raise storage_error(error, location) from error
        return True

    def move(self, location: str, target: str) -> bool:
        """Rename a folder in one step, or the symbolic link in its place; make the folders above `target`.

        Returns:
            False where there is nothing at `location`.
        """
        path, new = local_path(location), local_path(target)
        try:
            for _ in range(TRIES):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                with suppress(FileNotFoundError):
                    os.rename(path, new)
                    return True
                if not os.path.lexists(path):
                    return False
                # Another process has just removed the empty folder above the target.
        except OSError as error:
            raise storage_error(error, location) from error
        raise StorageError(f"{location} could not be moved to {target}: the folder of the latter is removed again and again", path=location)

    def remove(self, location: str, *, with_content: bool = False) -> None:
        """Remove a folder, an empty one unless `with_content`. Where a symbolic link is, the link is removed, and what it leads to stays.

        What cannot be deleted stops nothing: the first error is raised after all else is deleted. A folder that is not there is no error.
        """
        path = local_path(location)
        try:
            if os.path.islink(path):
                os.unlink(path)
            elif with_content:
                _remove_tree(path)
            else:
                os.rmdir(path)
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


def _remove_tree(path: str) -> None:
    """Remove a folder with its content, also where another process deletes or writes in it at the same time."""
    failures: list[OSError] = []
    for _ in range(TRIES):
        failures.clear()
        for folder, folders, files, descriptor in os.fwalk(path, topdown=False, onerror=failures.append):
            for remove, names in ((_unlink, files), (_rmdir, folders)):
                for name in names:
                    try:
                        remove(name, descriptor)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        error.filename = os.path.join(folder, name)
                        failures.append(error)
        with suppress(FileNotFoundError):
            try:
                os.rmdir(path)
            except OSError as error:
                failures.append(error)
        if not os.path.lexists(path):
            return
        if any(isinstance(failure, PermissionError) for failure in failures):
            break
    raise failures[0]


def _unlink(name: str, descriptor: int) -> None:
    os.unlink(name, dir_fd=descriptor)


def _rmdir(name: str, descriptor: int) -> None:
    """Remove an empty folder, or the symbolic link to one."""
    try:
        os.rmdir(name, dir_fd=descriptor)
    except NotADirectoryError:
        os.unlink(name, dir_fd=descriptor)
