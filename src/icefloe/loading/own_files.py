"""`OwnFiles`: the files that a load wrote for a new table. They are recognised by the ids in their names, so that a failed load deletes only its own files."""

import os
from contextlib import suppress

from icefloe.io.locations import local_path, scheme_of
from icefloe.operations.table_handle import RandomIds


class RecordedIds(RandomIds):
    """A source of random ids that remembers, in `drawn`, all UUIDs that it returned."""

    def __init__(self) -> None:
        self.drawn: set[str] = set()

    def uuid(self) -> str:
        """Return a new version 4 UUID, and remember it."""
        drawn = super().uuid()
        self.drawn.add(drawn)
        return drawn


class OwnFiles:
    """Deletes the files of a failed load that created a table. `ids` is the source of the ids in the names of the files, also of those of Spark tasks."""

    def __init__(self) -> None:
        self.ids = RecordedIds()
        self._new_folders: list[str] = []

    def begin_table(self, location: str) -> None:
        """Remember which local folders of a new table do not exist yet, so that `delete` deletes them. For object stores, which have no folders, do nothing.

        Args:
            location: The location of the new table. Nothing has been written to it yet.
        """
        folder = local_path(location) if scheme_of(location) == "file" else ""
        while folder and not os.path.lexists(folder):
            self._new_folders.append(folder)
            folder = os.path.dirname(folder)

    def delete(self) -> None:
        """Delete the local files of this load, and then the new folders if they are empty. Files of a concurrent load in these folders are kept."""
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
