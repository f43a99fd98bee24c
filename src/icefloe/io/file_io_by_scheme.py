"""`load_file_io`: the storage of a catalog or a table. The scheme of each location selects the library, and the configuration decides whether it is allowed.

Locations in metadata are not trusted: the scheme selects a library, and the host a machine to connect to. The metadata location in a row of a catalog is not
trusted either, because others can write the row. `AllowedStores` holds the schemes and hosts that the catalog's configuration or a location from the caller
allows; `SchemeFileIO` checks every location.
Spec: File Locations in Metadata.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import LocationNotAllowedError
from icefloe.io.input_and_output_file import InputFile, OutputFile
from icefloe.io.local_file_io import FileVersion, LocalFileIO
from icefloe.io.locations import (
    ALLOWED_LOCATIONS,
    AZURE,
    LocationPolicy,
    LocationScope,
    folders_of,
    host_of,
    local_path,
    scheme_of,
    split_list,
)
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.io.object_store_file_io import ObjectStoreFileIO, file_io_for
from icefloe.io.object_store_options import ACCOUNT_HOST
from icefloe.spec.ports import Content, FileIO, OpensSizedFiles, StorageAccess, unique_output, write_unique

ALLOWED_SCHEMES = "io.allowed-schemes"
LOCAL, MEMORY = "file", "memory"
SCHEMES = frozenset({LOCAL, MEMORY, "s3", "s3a", "s3n", "gs", "gcs", "hdfs"}) | AZURE
# Hosts of Azure's storage accounts: in its public and national clouds, in DNS zones, and in Fabric.
_AZURE_HOST = re.compile(
    r"[a-z0-9-]+(?:\.z[0-9]+)?\.(?:dfs|blob)\."
    r"(?:core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net|fabric\.microsoft\.com)"
)
_PREFIX = r"^(?P<prefix>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)"
# Refused: Hadoop reads `http:/x` as a location of the scheme http, but Icefloe would read it as a relative path.
_ONE_SLASH = re.compile(r"(?!(?i:file):)[A-Za-z][A-Za-z0-9+.-]*:(?!//)")
# A bucket, host:port, or container@host. Clients disagree about the host in a text with a second @, or with a sign such as # or a backslash.
_AUTHORITY = re.compile(r"[A-Za-z0-9._:-]*")
_AZURE_AUTHORITY = re.compile(r"[A-Za-z0-9$-]*(?:@[A-Za-z0-9._-]+(?::[0-9]+)?)?")
_LOCAL_FILES = LocalFileIO()
_MEMORY_FILES = MemoryFileIO()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedStores:
    """The schemes, hosts and folders that locations may have.

    Attributes:
        schemes: Allowed schemes, in lower case.
        hosts: Hosts that a location may name, in lower case and without ports.
        reads_local: Whether local files may be read and written.
        scope: With a strict policy, the folders that files may be read and written in; None without such a policy.
    """

    schemes: frozenset[str] = SCHEMES
    hosts: frozenset[str] = frozenset()
    reads_local: bool = True
    scope: LocationScope | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], location: str | None = None, *, is_trusted: bool = False) -> "AllowedStores":
        """Return the stores that a catalog's properties allow for the table whose metadata file is at `location`.

        Args:
            properties: The catalog's properties.
            location: The location of the table's metadata file, or of the warehouse; None if there is none yet.
            is_trusted: Whether the location comes from the caller and not from a catalog. Then its host is allowed.

        Raises:
            InvalidPropertyError: A property about locations has a value that is not allowed.
        """
        policy = LocationPolicy.of(properties)
        more_schemes = frozenset(text.lower().rstrip(":/") for text in split_list(properties.get(ALLOWED_SCHEMES)))
        trusted = [policy.warehouse] if policy.warehouse else []
        trusted_locations = [*trusted, *split_list(properties.get(ALLOWED_LOCATIONS)), *([location] if location and is_trusted else [])]
        is_remote = location is not None and scheme_of(location) not in (LOCAL, MEMORY)
        return cls(
            schemes=SCHEMES | more_schemes | {scheme_of(warehouse) for warehouse in trusted},
            hosts=frozenset(host for host in (*map(host_of, trusted_locations), *_configured_hosts(properties)) if host),
            reads_local=not is_remote or LOCAL in more_schemes,
            scope=_strict_scope(policy, location) if policy.is_strict else None,
        )

    def check(self, location: str) -> None:
        """Refuse a location that the catalog's configuration does not allow.

        Raises:
            LocationNotAllowedError: The scheme, the host or the folder is not allowed.
            InvalidInputError: The text cannot be a location.
        """
        scheme = scheme_of(location)
        if scheme not in self.schemes:
            raise _refusal(location, f"the scheme {scheme!r} is not allowed", f"add it to the catalog property {ALLOWED_SCHEMES}")
        if scheme == LOCAL:
            if _ONE_SLASH.match(location):
                raise _refusal(location, "some clients read it as a path, and others as a host or another scheme", "write a full location")
            if not self.reads_local:
                raise _refusal(
                    location,
                    "it is a file of this machine, and the table is in an object store",
                    f"add file to {ALLOWED_SCHEMES} if the table may read local files",
                )
        elif scheme in SCHEMES - {MEMORY} and not _is_plain(scheme, location.partition("://")[2].partition("/")[0]):
            raise _refusal(location, "clients read the part between // and / in different ways", "write a plain bucket or host")
        elif (host := host_of(location)) and not self.allows_host(scheme, host):
            raise _refusal(location, f"its host {host!r} is not in the catalog's configuration", f"add the location to {ALLOWED_LOCATIONS}")
        if self.scope is not None and not (self.scope.contains(location) and self._leads_inside(scheme, location)):
            raise _refusal(location, "it is outside the table and the policy is strict", f"add its folder to {ALLOWED_LOCATIONS}")

    def _leads_inside(self, scheme: str, location: str) -> bool:
        """Return False for a local symbolic link to a file outside of the scope, and True for every other location."""
        return self.scope is None or scheme != LOCAL or self.scope.contains(os.path.realpath(local_path(location)))

    def allows_host(self, scheme: str, host: str) -> bool:
        """Return True if the host is part of the catalog's configuration, or is a storage account of Azure."""
        return host in self.hosts or (scheme in AZURE and _AZURE_HOST.fullmatch(host) is not None)

    def check_all(self, locations: Any) -> None:
        """Check an Arrow array of locations: each scheme and host once, and with a strict policy also each location.

        Raises:
            LocationNotAllowedError: A scheme, a host or a folder is not allowed.
            InvalidInputError: A text cannot be a location.
        """
        if self.scope is not None:
            paths = locations.to_pylist()
            for location, is_inside in zip(paths, self.scope.each(paths), strict=True):
                if not is_inside or scheme_of(location) == LOCAL:
                    self.check(location)
        prefixes = pc.struct_field(pc.extract_regex(locations, _PREFIX), "prefix")
        first = pa.table({"prefix": prefixes, "path": locations}).group_by("prefix", use_threads=False).aggregate([("path", "first")])
        for location in first["path_first"].to_pylist():
            self.check(location)


@dataclass(frozen=True, slots=True)
class SchemeFileIO:
    """A file IO that selects the storage by the scheme of each location, because the files of one table may be in several storages.

    Attributes:
        properties: Properties of the catalog and of the table.
        allowed: The schemes, hosts and folders that locations may have.
        access: The credentials, or the signer of requests, that the catalog provides for the table's files; None if it provides neither.
    """

    # Not in the repr: properties may hold keys to a store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    allowed: AllowedStores = field(default_factory=AllowedStores, repr=False)
    access: StorageAccess | None = field(default=None, repr=False)

    def at(self, location: str) -> FileIO:
        """Return the storage for a location. Raises `LocationNotAllowedError` if the catalog's configuration does not allow the location."""
        self.allowed.check(location)
        scheme = scheme_of(location)
        if scheme == LOCAL:
            return _LOCAL_FILES
        if scheme == MEMORY:
            return _MEMORY_FILES
        return file_io_for(location, self.properties, self.access)

    def read(self, location: str) -> bytes:
        """Return the content of a file.

        Args:
            location: The location of the file.

        Raises:
            NoSuchFileError: The file does not exist.
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The file cannot be read.
        """
        return self.at(location).read(location)

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole file or nothing, and create the folders above it.

        Args:
            location: The location of the file.
            content: The bytes of the file.
            overwrite: Whether an existing file is replaced.

        Raises:
            FileAlreadyExistsError: The file exists, and `overwrite` is False.
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The file cannot be written.
        """
        self.at(location).write(location, content, overwrite=overwrite)

    def exists(self, location: str) -> bool:
        """Return True if a file exists at a location. A folder is not a file.

        Args:
            location: The location of the file.

        Raises:
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The storage does not respond.
        """
        return self.at(location).exists(location)

    def size(self, location: str) -> int:
        """Return the length of a file in bytes.

        Args:
            location: The location of the file.

        Raises:
            NoSuchFileError: The file does not exist.
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The storage does not respond.
        """
        return self.at(location).size(location)

    def delete(self, location: str) -> None:
        """Delete a file; a file that does not exist is not an error.

        Args:
            location: The location of the file.

        Raises:
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The file cannot be deleted.
        """
        self.at(location).delete(location)

    def new_input(self, location: str) -> InputFile:
        """Return a file to read, as in PyIceberg: `io.new_input(location).open()`. The file need not exist yet.

        Args:
            location: The location of the file.
        """
        return InputFile(location, self)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write, as in PyIceberg: `io.new_output(location).create()`. The file is created by `create`.

        Args:
            location: The location of the file.
        """
        return OutputFile(location, self)

    def open_input(self, location: str) -> Any:
        """Open a file for reading, and return a seekable `pyarrow.NativeFile`.

        Args:
            location: The location of the file.

        Raises:
            NoSuchFileError: The file does not exist.
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The file cannot be opened.
        """
        return self.at(location).open_input(location)

    def open_sized_input(self, location: str, size: int, ending: bytes) -> Any:
        """Open a file of a known size, and return a seekable file. The store's size is not requested if the bytes before the position `size` are `ending`."""
        storage = self.at(location)
        return storage.open_sized_input(location, size, ending) if isinstance(storage, OpensSizedFiles) else storage.open_input(location)

    def open_output(self, location: str) -> Any:
        """Create a file, and return a `pyarrow.NativeFile` to write it.

        Args:
            location: The location of the file.

        Raises:
            FileAlreadyExistsError: The file exists.
            LocationNotAllowedError: The catalog's configuration does not allow the location.
            StorageError: The file cannot be created.
        """
        return self.at(location).open_output(location)

    def open_unique_output(self, location: str) -> Any:
        """Create a file whose name the caller has made unique, and return a `pyarrow.NativeFile` to write it."""
        return unique_output(self.at(location), location)

    def write_unique(self, location: str, content: Any) -> None:
        """Write a small file whose name the caller has made unique. A failed write may leave a part of the file."""
        write_unique(self.at(location), location, content)


def load_file_io(
    properties: Mapping[str, str], location: str | None = None, *, is_trusted: bool = False, access: StorageAccess | None = None
) -> FileIO:
    """Return the file IO for a catalog or a table with these properties.

    Args:
        properties: Properties of the catalog and of the table.
        location: The location of a table's metadata file, or the warehouse. The library for its scheme is loaded at once, so that an error about a missing
            library comes before any work. If the location is in an object store, local files may not be read.
        is_trusted: Whether the location comes from the caller and not from a catalog. Then its host is allowed.
        access: The credentials, or the signer of requests, that the catalog provides for the table's files.

    Raises:
        UnsupportedFeatureError: No library for the location's scheme is installed.
        LocationNotAllowedError: The catalog's configuration does not allow the location.
    """
    file_io = SchemeFileIO(dict(properties), AllowedStores.of(properties, location, is_trusted=is_trusted), access)
    if location is not None and isinstance(storage := file_io.at(location), ObjectStoreFileIO):
        storage.connect(location)
    return file_io


def with_access(io: FileIO, access: StorageAccess) -> FileIO:
    """Return a table's storage with its access replaced, for example by the credentials that a server sent with a scan plan."""
    return replace(io, access=access) if isinstance(io, SchemeFileIO) else io


def check_locations(io: FileIO, locations: Any) -> None:
    """Check an Arrow array of locations that another library, such as Spark, is about to read. Raises `LocationNotAllowedError`."""
    if isinstance(io, SchemeFileIO):
        io.allowed.check_all(locations)


def has_vended_access(io: FileIO, locations: Any) -> bool:
    """Return whether the catalog provides credentials or signatures for any of an Arrow array of locations. Then Spark's own readers must not open them."""
    return isinstance(io, SchemeFileIO) and io.access is not None and io.access.vends_any(path.as_py() for path in locations)


def file_version(io: FileIO, location: str) -> FileVersion | None:
    """Return the version of a file, which changes with every change of the file; None if the storage has no versions. Raises the errors of `FileIO.read`."""
    storage = io.at(location) if isinstance(io, SchemeFileIO) else io
    return storage.version(location) if isinstance(storage, LocalFileIO) else None


def _is_plain(scheme: str, authority: str) -> bool:
    return (_AZURE_AUTHORITY if scheme in AZURE else _AUTHORITY).fullmatch(authority) is not None


def _configured_hosts(properties: Mapping[str, str]) -> Iterable[str]:
    yield (properties.get("hdfs.host") or "").lower()
    yield (properties.get(ACCOUNT_HOST) or "").lower()


def _strict_scope(policy: LocationPolicy, location: str | None) -> LocationScope:
    folder, _, name = (location or "").rpartition("/")[0].rpartition("/")
    table_folders = folders_of([folder]) if name == "metadata" else ()
    return LocationScope((*policy.trusted_folders().folders, *(place for place in table_folders if not place.is_root)))


def _refusal(location: str, reason: str, next_step: str) -> LocationNotAllowedError:
    return LocationNotAllowedError(f"{location} is not read or written: {reason}", path=location, next_step=next_step)
