"""`OwnFiles`: the files that a load writes, recognised by the ids in their names, so that a load that fails deletes them and no others."""

import os
from contextlib import suppress

from icefloe.io.locations import local_path, scheme_of
from icefloe.operations.table_handle import RandomIds


class RecordedIds(RandomIds):
    """Random ids that are kept."""

    def __init__(self) -> None:
        self.drawn: set[str] = set()

    def uuid(self) -> str:
        """Return a version 4 UUID, and keep it."""
        drawn = super().uuid()
        self.drawn.add(drawn)
        return drawn


class OwnFiles:
    """The files of one load. `ids` is the source of the ids in their names, also in those of files of interrupted tasks of Spark."""

    def __init__(self) -> None:
        self.ids = RecordedIds()
        self._new_folders: list[str] = []

    def begin_table(self, location: str) -> None:
        """Note the folders that a new table needs and that do not exist yet, to be deleted if its load fails. In an object store there are no folders.

        Args:
            location: The location of the new table; nothing has been written to it.
        """
        folder = local_path(location) if scheme_of(location) == "file" else ""
        while folder and not os.path.lexists(folder):
            self._new_folders.append(folder)
            folder = os.path.dirname(folder)

    def delete(self) -> None:
        """Delete the files of a new table, and the new folders that are then empty. Another load may have written to them too."""
        for parent, _, names in os.walk(self._new_folders[0], topdown=False) if self._new_folders else ():
            for name in names:
                if any(drawn in name for drawn in self.ids.drawn):
                    with suppress(OSError):
                        os.unlink(os.path.join(parent, name))
            with suppress(OSError):
                os.rmdir(parent)
        for folder in self._new_folders[1:]:
            with suppress(OSError):
                os.rmdir(folder)
