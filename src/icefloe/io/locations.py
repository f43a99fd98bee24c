"""Locations: their text (schemes, hosts, local paths, joins); places, which are resolved locations; and scopes, the folders that a location may be in.

A location is literal text. Nothing is percent-decoded, because the names of partition folders contain text such as `%3A`, also in `file:` locations from Java.
`file_io_by_scheme.py` selects the storage for a scheme.

`LocationScope` is the one rule for deleting, writing and reading the files of a table. The paths in a table are not trusted: they may have `..`, symbolic
links, doubled slashes, other schemes, and prefixes that are not folders (`/lake/t2` is not in `/lake/t`). Local paths are resolved by the file system itself,
names in an object store by their text. A location that cannot be resolved with certainty counts as outside of every folder.
`icefloe.operations.expiry.deletion_scope` determines the folders of a table. `LocationPolicy` has the folders from the catalog's properties, which a table's
metadata cannot change.
Spec: File Locations in Metadata; Paths in Metadata.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from icefloe.errors import InvalidInputError, InvalidPropertyError

# Only text before `://` is a scheme, so that a relative path may contain a colon; the one exception is Hadoop's form `file:/x`.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FILE_PREFIX = "file:"
_LOCAL_HOSTS = ("", "localhost")
# Schemes that are aliases of another scheme.
STORE_OF_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
# The schemes of Azure.
AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
# Path segments that some clients of object stores resolve and others keep literally, and characters that some clients drop.
_UNCERTAIN = re.compile(r"(^|/)\.{1,2}(/|$)|[\x00-\x1f\x7f]")
# Catalog properties that restrict the locations of tables, and the values of `io.location-policy`.
WAREHOUSE = "warehouse"
ALLOWED_LOCATIONS = "io.allowed-locations"
DELETE_OUTSIDE = "io.delete-outside"
POLICY = "io.location-policy"
WARN, STRICT = "warn", "strict"


def scheme_of(location: str) -> str:
    """Return the scheme in lower case; `file` for a plain path. Raises `InvalidInputError` for text that cannot be a location."""
    if not location or "\0" in location:
        raise InvalidInputError(f"{location!r} is not a location", next_step="give a path such as /data/x or a URI such as s3://bucket/x")
    match = _SCHEME.match(location)
    return match.group(1).lower() if match else "file"


def host_of(location: str) -> str:
    """Return the host that a client would connect to for a location; empty if only the configuration determines the host.

    The host is in lower case and without its port.
    """
    scheme = scheme_of(location)
    authority = location.partition("://")[2].partition("/")[0]
    if scheme in AZURE:
        authority = authority.rpartition("@")[2] if "@" in authority else ""
    elif scheme != "hdfs":
        return ""
    return authority.rpartition("@")[2].partition(":")[0].lower()


def local_path(location: str) -> str:
    """Return the absolute local path of a location `/x`, `file:/x` or `file:///x`, or of a path relative to the working directory.

    Raises:
        InvalidInputError: The location has another scheme, or names another host.
    """
    _, path = _prefix_and_path(location)
    if not os.path.isabs(path):
        return _without_dots(os.path.join(os.getcwd(), path))
    # `os.path.realpath` keeps two slashes at the start, although such a path names the same folder as with one slash.
    return f"/{path.lstrip('/')}" if path.startswith("//") else path


def _prefix_and_path(location: str) -> tuple[str, str]:
    """Split the location of a local file into the text before the path, such as `file://`, and the path. Raises the errors of `local_path`."""
    if scheme_of(location) != "file":
        raise InvalidInputError(f"{location} is not a local file", next_step="give a path or a file: location")
    if location[: len(_FILE_PREFIX)].lower() != _FILE_PREFIX:
        return "", location
    path = location[len(_FILE_PREFIX) :]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in _LOCAL_HOSTS:
            raise InvalidInputError(
                f"{location} names the host {host!r}", next_step=f"for a local file write file:///{host}/{rest} or a plain path"
            )
        path = slash + rest
    if not path:
        raise InvalidInputError(f"{location!r} names no file", next_step="give a path after the scheme")
    return location[: len(location) - len(path)], path


def _without_dots(path: str) -> str:
    """Remove empty segments, `.` and `..` from an absolute path. The file system resolves everything up to the last `..`, because a link may come before it."""
    names = path.split("/")
    if ".." in names:
        end = len(names) - names[::-1].index("..")
        names = [*os.path.realpath("/".join(names[:end])).split("/"), *names[end:]]
    return "/" + "/".join(name for name in names if name not in ("", "."))


def is_relative(location: str) -> bool:
    """Return True if the location is a relative path: it has no scheme, and no slash at its start."""
    return scheme_of(location) == "file" and not location.startswith("/") and location[: len(_FILE_PREFIX)].lower() != _FILE_PREFIX


def qualify(location: str) -> str:
    """Return the location in the form that metadata uses: a local path becomes absolute, without `.`, `..`, doubled slashes, and a slash at its end.

    Other engines write paths in this form too. Symbolic links are not resolved. Locations in object stores are not changed, because their names are literal.
    Spec: File Locations in Metadata.
    """
    if scheme_of(location) != "file":
        return location
    prefix, path = _prefix_and_path(location)
    return prefix + _without_dots(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))


def is_same_folder(location: str, other: str) -> bool:
    """Return whether two locations are the same folder, however they are spelled. Folders that cannot be resolved with certainty are compared as text."""
    place = place_of_folder(location)
    return location.rstrip("/") == other.rstrip("/") or (place is not None and place == place_of_folder(other))


def join(location: str, *parts: str) -> str:
    """Join a location and the parts that are not empty, with exactly one slash between them."""
    return "/".join([location.rstrip("/"), *(part.strip("/") for part in parts if part.strip("/"))])


@dataclass(frozen=True, slots=True)
class Place:
    """A location in a form that can be compared: symbolic links are resolved, and aliases of a scheme are replaced.

    Attributes:
        store: `file`, or the scheme and the authority, such as `s3://bucket`.
        path: The path in the store: empty for the store's root, else with a slash at its start.
    """

    store: str
    path: str

    @property
    def is_root(self) -> bool:
        """Return True for the root of a bucket, a container or a file system."""
        return not self.path

    def is_below(self, folder: "Place") -> bool:
        """Return True if this place is inside the folder, at any depth; a folder is not inside itself."""
        return self.store == folder.store and self.path.startswith(f"{folder.path}/")

    @property
    def in_any_spelling(self) -> "Place":
        """Return the place with its host in lower case, or removed where URLs may leave it out. Places that still differ are certainly different."""
        scheme, _, authority = self.store.lower().partition("://")
        if scheme == "hdfs":
            return Place(scheme, self.path)
        return Place(f"{scheme}://{authority.partition('@')[0]}" if scheme == "abfs" else f"{scheme}://{authority}", self.path)

    def overlaps(self, folder: "Place") -> bool:
        """Return True if the two places are the same, or one is inside the other, however the host is spelled."""
        place, other = self.in_any_spelling, folder.in_any_spelling
        return place == other or place.is_below(other) or other.is_below(place)


def place_of_folder(location: str) -> Place | None:
    """Return the place of a folder with all symbolic links resolved; None if it cannot be determined with certainty."""
    try:
        if scheme_of(location) == "file":
            return Place("file", os.path.realpath(local_path(location)).rstrip("/"))
    except (InvalidInputError, OSError, ValueError):
        return None
    return _place_in_store(location.rstrip("/"))


def place_of_file(location: str, real: Callable[[str], str] = os.path.realpath) -> Place | None:
    """Return the place of a file; None if it cannot be determined with certainty.

    Symbolic links in the folders above a local file are resolved. The file itself is not resolved, because deleting a symbolic link deletes only the link.

    Args:
        location: The location of the file.
        real: A function that returns the real path of a local folder.
    """
    try:
        if scheme_of(location) == "file":
            folder, name = os.path.split(local_path(location))
            return Place("file", f"{real(folder).rstrip('/')}/{name}") if name not in ("", ".", "..") else None
    except (InvalidInputError, OSError, ValueError):
        return None
    return None if location.endswith("/") else _place_in_store(location)


def _place_in_store(location: str) -> Place | None:
    scheme, _, rest = location.partition("://")
    if _UNCERTAIN.search(rest):
        return None
    scheme = STORE_OF_SCHEME.get(scheme.lower(), scheme.lower())
    authority, slash, path = (rest.lstrip("/") if scheme == "memory" else rest).partition("/")
    return Place(f"{scheme}://{authority}", slash + path if path else "")


@dataclass(frozen=True, slots=True)
class LocationScope:
    """The folders that locations may be in, possibly with excluded places inside them.

    Attributes:
        folders: The folders.
        without: Places that are not part of the scope, although they may be inside the folders.
    """

    folders: tuple[Place, ...] = ()
    without: tuple[Place, ...] = ()

    def contains(self, location: str) -> bool:
        """Return True if the file is currently in one of the folders. Local paths are resolved at each call, because symbolic links can change at any time."""
        place = place_of_file(location)
        return place is not None and self.holds(place)

    def each(self, locations: Iterable[str]) -> Iterator[bool]:
        """Yield the result of `contains` for each file; each folder is resolved only once for all files."""
        real = cache(os.path.realpath)
        for location in locations:
            place = place_of_file(location, real)
            yield place is not None and self.holds(place)

    def holds(self, place: Place) -> bool:
        """Return True if a resolved place is in one of the folders."""
        return any(place.is_below(folder) for folder in self.folders) and not any(place.overlaps(other) for other in self.without)


def folders_of(locations: Iterable[str]) -> tuple[Place, ...]:
    """Return the places of folders, without folders whose place cannot be determined with certainty."""
    return tuple(place for place in map(place_of_folder, locations) if place is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationPolicy:
    """The catalog properties `warehouse`, `io.allowed-locations`, `io.delete-outside` and `io.location-policy`.

    Attributes:
        warehouse: The absolute location of the warehouse; None if the catalog has none.
        allowed_locations: Folders besides the warehouse that may contain tables and their files.
        delete_outside: Folders outside of a table in which its expiry and purge may delete files.
        is_strict: Whether reading and writing outside of the table, the warehouse and the allowed locations is refused.
        created: The folder of the current table if this process created the table; None otherwise.
    """

    warehouse: str | None = None
    allowed_locations: tuple[str, ...] = ()
    delete_outside: tuple[str, ...] = ()
    is_strict: bool = False
    created: Place | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> "LocationPolicy":
        """Return the policy from a catalog's properties. Raises `InvalidPropertyError`."""
        policy = properties.get(POLICY, WARN).strip().lower()
        if policy not in (WARN, STRICT):
            raise InvalidPropertyError(f"the catalog property {POLICY} is {policy!r}", next_step=f"set it to {WARN} or {STRICT}")
        warehouse = properties.get(WAREHOUSE)
        return cls(
            warehouse=qualify(warehouse) if warehouse else None,
            allowed_locations=split_list(properties.get(ALLOWED_LOCATIONS)),
            delete_outside=split_list(properties.get(DELETE_OUTSIDE)),
            is_strict=policy == STRICT,
        )

    def trusted_folders(self) -> LocationScope:
        """Return the folders in the configuration: the warehouse and the allowed locations."""
        return LocationScope(folders_of([*([self.warehouse] if self.warehouse else []), *self.allowed_locations]))


def split_list(text: str | None) -> tuple[str, ...]:
    """Split the value of a property at its commas."""
    return tuple(value.strip() for value in (text or "").split(",") if value.strip())
