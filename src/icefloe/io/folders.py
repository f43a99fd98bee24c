"""`LocalFolders`: folders of this machine: what is in them, made and removed. Files are `local.py`. Floor: io."""

import os
import shutil

from icefloe.io.locations import local_path
from icefloe.kernel.storage_errors import storage_error


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

    def remove(self, location: str, *, with_content: bool = False) -> None:
        """Removes a folder, an empty one unless `with_content`."""
        path = local_path(location)
        try:
            shutil.rmtree(path) if with_content else os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error, location) from error
