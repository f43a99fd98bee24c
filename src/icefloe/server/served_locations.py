"""The locations that a client of the server may name: those in the warehouse, and in the folders that the server's configuration allows.

A client is not trusted in the way that a caller of Icefloe's Python API is: the server would read, sign and delete the files that a client registers, creates
or commits with its own rights. Therefore each location in a request is checked before it is used, in addition to the checks of the catalog itself, which has
the strict policy of locations. Spec: File Locations in Metadata.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from icefloe.errors import LocationNotAllowedError
from icefloe.io.locations import (
    ALLOWED_LOCATIONS,
    POLICY,
    STRICT,
    LocationPolicy,
    LocationScope,
    folders_of,
    is_relative,
    local_path,
    place_of_folder,
    qualify,
    scheme_of,
    split_list,
)
from icefloe.operations.own_location import own_location
from icefloe.server.error_response import bad_request
from icefloe.spec.metadata.metadata_updates import Update
from icefloe.spec.metadata.moved_metadata import PATH_PROPERTIES
from icefloe.spec.metadata.snapshot_updates import AddSnapshot
from icefloe.spec.metadata.statistics_updates import SetPartitionStatistics, SetStatistics
from icefloe.spec.metadata.table_updates import SetLocation, SetProperties
from icefloe.table.table import Table

# The property of a namespace that has the folder of its new tables.
NAMESPACE_LOCATION = "location"


def strict_properties(properties: Mapping[str, str], allowed: Iterable[str] = ()) -> dict[str, str]:
    """Return the properties of a served catalog: with the strict policy of locations, and with further allowed folders.

    Args:
        properties: The properties of the catalog.
        allowed: Folders that clients may name, besides those that the properties allow.
    """
    folders = dict.fromkeys([*split_list(properties.get(ALLOWED_LOCATIONS)), *allowed])
    strict = {**properties, POLICY: STRICT}
    return {**strict, ALLOWED_LOCATIONS: ",".join(folders)} if folders else strict


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLocations:
    """The folders that the user of a request may name.

    An admin of the whole catalog may name every folder in the warehouse and in the allowed locations. Any other user may only name folders of the namespace:
    with a table in the folder of another namespace, the user could read its files and get access to them.

    Attributes:
        folders: The folders in which tables may be.
        itself: The folders that may themselves be the location of a table.
    """

    folders: tuple[str, ...]
    itself: tuple[str, ...] = ()

    @classmethod
    def of_catalog(cls, policy: LocationPolicy) -> "ServedLocations":
        """Return the folders that an admin of the whole catalog may name."""
        warehouse = (policy.warehouse,) if policy.warehouse else ()
        return cls(folders=(*warehouse, *policy.allowed_locations), itself=policy.allowed_locations)

    @classmethod
    def of_namespace(cls, folder: str | None, location: str | None) -> "ServedLocations":
        """Return the folders that a user with rights in one namespace may name.

        Args:
            folder: The folder of the namespace in the warehouse; None for a catalog without a warehouse.
            location: The property `location` of the namespace, which an admin has set.
        """
        return cls(folders=tuple(qualify(path) for path in (folder, location) if path))

    def scope(self, own: Sequence[str] = ()) -> LocationScope:
        """Return the allowed folders, together with the own folders of a table."""
        return LocationScope(folders_of((*self.folders, *own)))

    def check_folder(self, location: str, what: str) -> None:
        """Refuse a folder that clients may not name.

        Args:
            location: The folder.
            what: A description of the folder, as the subject of the error: "the location of db.t".

        Raises:
            RefusedRequest: The location is a relative path.
            LocationNotAllowedError: The folder is outside of the warehouse and the allowed folders, or is the warehouse itself.
        """
        self._check_form(location, what)
        place = place_of_folder(location)
        if place is None or not (self.scope().holds(place) or place in folders_of(self.itself)):
            raise _outside(location, what)

    def check_file(self, location: str, what: str, own: Sequence[str] = ()) -> None:
        """Refuse a file that clients may not name.

        Args:
            location: The file.
            what: A description of the file, as the subject of the error.
            own: The own folders of the table, in which its files may be too.

        Raises:
            RefusedRequest: The location is a relative path.
            LocationNotAllowedError: The file is outside of the allowed folders, or is a link that leads outside.
        """
        self._check_form(location, what)
        scope = self.scope(own)
        if not scope.contains(location) or (scheme_of(location) == "file" and not scope.contains(os.path.realpath(local_path(location)))):
            raise _outside(location, what)

    def check_properties(self, properties: Mapping[str, str], what: str, own: Sequence[str] = ()) -> None:
        """Refuse table properties with which new files would be written outside of the allowed folders. The errors are those of `check_folder`."""
        for name in PATH_PROPERTIES:
            path = properties.get(name)
            if path and not is_relative(path):
                place, folders = place_of_folder(path), folders_of(own)
                if place is None or not (place in folders or LocationScope(folders).holds(place)):
                    self.check_folder(path, f"{name} of {what}")
            elif path and ".." in path.split("/"):
                raise _outside(path, f"{name} of {what}")

    def check_updates(self, updates: Sequence[Update], what: str, table: Table | None) -> None:
        """Refuse updates with which a table would refer to files or folders outside of the allowed ones.

        Args:
            updates: The updates of a commit.
            what: The name of the table.
            table: The table; None for a new one.

        Raises:
            RefusedRequest, LocationNotAllowedError: As for `check_folder` and `check_file`.
        """
        own = self._own_folders(table)
        for update in updates:
            match update:
                case SetLocation(location) if table is None or location.rstrip("/") != table.metadata.location:
                    self.check_folder(location, f"the location of {what}")
                    own = [*own, location]
                case SetProperties(properties):
                    self.check_properties(properties, what, own)
                case AddSnapshot(snapshot):
                    for path in (snapshot.manifest_list, *(snapshot.manifest_paths or ())):
                        if path is not None:
                            self.check_file(path, f"a manifest list or manifest of {what}", own)
                case SetStatistics(file) | SetPartitionStatistics(file):
                    self.check_file(file.statistics_path, f"a statistics file of {what}", own)

    def _own_folders(self, table: Table | None) -> list[str]:
        """Return the location of an existing table, in a list. It is empty if only the table's metadata, which a client can forge, confirms the location."""
        if table is None or own_location(table.handle, table.metadata.location, table.metadata_location) is None:
            return []
        return [table.metadata.location]

    @staticmethod
    def _check_form(location: str, what: str) -> None:
        if is_relative(location):
            raise bad_request(f"{what} is the relative path {location!r}; name it with its scheme, or as an absolute path")


def _outside(location: str, what: str) -> LocationNotAllowedError:
    return LocationNotAllowedError(
        f"{what} may not be {location}: it is outside the folders that the user may name",
        path=location,
        next_step="choose a folder of the namespace in the warehouse; the server's operator can allow admins others with --allow-location",
    )
