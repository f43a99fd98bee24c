"""`TableCommit`: one table's part of a commit in progress: its attempts, the files they wrote, and whether one of them stands in the table after all.

The loop over all parts is `commit_loop.py`; what an attempt holds is the kernel's (`kernel/commit`).
Spec: Optimistic Concurrency; Commit Conflict Resolution and Retry.
"""

import logging
from dataclasses import dataclass

from icefloe.catalog_store.catalog_store import LocationChange
from icefloe.errors import in_one_line
from icefloe.kernel.commit.attempt import Action, Attempt
from icefloe.kernel.metadata import table_properties
from icefloe.kernel.metadata.metadata_log import dropped_metadata_files, with_metadata_log
from icefloe.kernel.metadata.metadata_updates import apply_updates
from icefloe.table.expiry.own_metadata_files import OldMetadataFiles, own_metadata_files
from icefloe.table.own_location import check_location_is_own, check_paths_for_writes
from icefloe.table.table_handle import LoadedMetadata, TableHandle, load_metadata, metadata_content, new_metadata_location, reload_metadata

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What is to become of one table. `base.location` of a table that `is_new` is empty: its metadata was never written.

    Without an action only a new table is a change.
    """

    handle: TableHandle
    base: LoadedMetadata
    action: Action | None
    is_new: bool = False


class TableCommit:
    """One table in a commit: what it builds on, what it made, what it wrote."""

    def __init__(self, change: TableChange) -> None:
        self.handle = change.handle
        self.action = change.action
        self.is_new = change.is_new
        self.base = change.base  # what the attempt at hand builds on; after success what it made
        self.made: Attempt | None = None
        self._next: LoadedMetadata | None = None  # what the attempt at hand makes
        self._before = change.base  # what the last attempt built on
        self._metadata_locations: list[str] = []
        self._written: list[str] = []  # manifests and manifest lists

    @property
    def metadata_location(self) -> str:
        """Where the last attempt wrote its metadata; empty before the first."""
        return self._metadata_locations[-1] if self._metadata_locations else ""

    def prepare(self, number: int) -> LocationChange | None:
        """Makes attempt `number` and writes its files; how the pointer is to move, or None where there is nothing to commit.

        Raises:
            CommitConflictError, CommitInvalidatedError: the base is not what the action needs.
            InvalidInputError, StorageError: the catalog cannot point to what was made; it cannot be written.
            LocationNotAllowedError: the table claims a location, or paths for new files, that the catalog does not allow.
        """
        self._next = None
        now_ms = self.handle.clock.now_ms()
        base = self.base
        if self.action is not None:
            self.made = self.action.attempt(base.metadata, number=number, now_ms=now_ms, read=self.handle.io.read)
        if self.made is None and not self.is_new:
            return None
        metadata = base.metadata
        if self.made is not None:
            for requirement in self.made.requirements:
                requirement.check(base.metadata)
            metadata = apply_updates(metadata, self.made.updates, max(now_ms, metadata.last_updated_ms))
        previous = None if self.is_new else base.location
        if previous is not None:
            check_location_is_own(self.handle, base.metadata, metadata, previous)
        check_paths_for_writes(self.handle, metadata)
        metadata = with_metadata_log(metadata, previous, base.metadata.last_updated_ms)
        location = new_metadata_location(self.handle.ids, metadata, previous_location=previous)
        self.handle.store.check(self.handle.identifier, location, metadata)
        for file in (*self.made.manifest_files, *self.made.manifest_lists) if self.made is not None else ():
            self._written.append(file.location)
            self.handle.io.write(file.location, file.content)
        self._metadata_locations.append(location)
        self.handle.io.write(location, metadata_content(metadata))
        self._before = base
        self._next = LoadedMetadata(location=location, metadata=metadata)
        return LocationChange(identifier=self.handle.identifier, expected=previous, new=location)

    def accept(self, published: str | None) -> None:
        """The swap happened: what the attempt made is the table now, at `published` where the store gave it a name of its own."""
        if self._next is not None:
            self.base = LoadedMetadata(location=published or self._next.location, metadata=self._next.metadata)

    def conclude(self) -> None:
        """The commit stands. A new table is what the last attempt made of it, also where other tables alone told so because the reply was lost."""
        if self.is_new and not self.base.location:
            self.accept(None)

    def reload(self) -> None:
        """Looks at the table as it is now. Raises `NoSuchTableError`."""
        if not self.is_new:
            self.base = reload_metadata(self.handle, self.base.metadata)

    def load(self) -> None:
        """Looks at what has the name now, whichever table that is."""
        if not self.is_new:
            self.base = load_metadata(self.handle)

    def stands(self) -> bool | None:
        """Whether one of our attempts stands in the table as last looked at, or in what was built on it; None where that can no longer be told.

        Our snapshot in it, or our metadata file in its log, is ours. Where what the last attempt built on is in the log, so is what followed it.
        """
        if self.made is None and not self.is_new:
            return False
        found = self.base.metadata
        logged = {entry.metadata_file for entry in found.metadata_log}
        ours = set(self._metadata_locations)
        if self.base.location in ours or logged & ours:
            return True
        if self.made is not None and self.made.snapshot_id is not None and found.snapshots.position(self.made.snapshot_id) is not None:
            return True
        if self.is_new:
            return None
        return False if self.base.location == self._before.location or self._before.location in logged else None

    def written(self) -> list[str]:
        """Every file of every attempt, but for data files."""
        return [*self._metadata_locations, *self._written]

    def new_data_files(self) -> list[str]:
        """The data files this part owns."""
        return [] if self.action is None else list(self.action.new_data_files())

    def leftovers(self) -> list[str]:
        """After success: files of attempts that lost their race."""
        current = self.base.metadata
        named = {self.base.location, *(entry.metadata_file for entry in current.metadata_log)}
        if self.made:
            named |= {manifest.manifest_path for manifest in self.made.manifests}
            named |= {file.location for file in self.made.manifest_lists}
        return [location for location in self.written() if location not in named]

    def old_metadata_files(self) -> OldMetadataFiles:
        """After success: the metadata files that left the log, where the table asks to delete them. Those that are not its own are kept, with a warning.

        Spec: Table Metadata Fields (`metadata-log`).
        """
        current = self.base.metadata
        if not table_properties.METADATA_DELETE_AFTER_COMMIT.read(current.properties):
            return OldMetadataFiles()
        dropped = dropped_metadata_files(self._before.metadata, current)
        found = own_metadata_files(self.handle, (self.base.location, self._before.location), dropped)
        if found.others:
            LOG.warning(
                "%s: %d metadata files of the log are not in the table's own metadata folder and are kept: %s",
                in_one_line(self.handle.table_name),
                len(found.others),
                in_one_line(", ".join(found.others[:5])),
            )
        return found
