"""`AllowedStores`: which storages a table's locations may reach, and which of the catalog's credentials are sent there.

A location in metadata is hostile: its scheme chooses a library and its host a machine to connect to. So is the metadata location in a row of a catalog, which
others can write. What is allowed is defined by the catalog's configuration, and by a location that the caller names. `file_io_by_scheme.py` checks every
location here.
Spec: File Locations in Metadata.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import LocationNotAllowedError
from icefloe.io.location_policy import ALLOWED_LOCATIONS, LocationPolicy, listed
from icefloe.io.locations import LocationScope, folders_of, local_path, scheme_of

ALLOWED_SCHEMES = "io.allowed-schemes"
LOCAL, MEMORY = "file", "memory"
AZURE = frozenset({"abfs", "abfss", "wasb", "wasbs"})
SCHEMES = frozenset({LOCAL, MEMORY, "s3", "s3a", "s3n", "gs", "gcs", "hdfs"}) | AZURE
# Hosts of Azure's storage accounts: in its public and national clouds, in DNS zones, and in Fabric.
_AZURE_HOST = re.compile(
    r"[a-z0-9-]+(?:\.z[0-9]+)?\.(?:dfs|blob)\."
    r"(?:core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|storage\.azure\.net|fabric\.microsoft\.com)"
)
# Credentials of one account, which are never sent to another one. A service principal's secret is sent to Microsoft's sign-in alone, whatever the account.
OF_ONE_ACCOUNT = ("adls.account-key", "adls.sas-token", "adls.connection-string")
ACCOUNT_NAME, ACCOUNT_HOST, CONNECTION_STRING = "adls.account-name", "adls.account-host", "adls.connection-string"
_PREFIX = r"^(?P<prefix>[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)"
# Hadoop reads `http:/x` as a location of the scheme http, and Icefloe reads it as a relative path.
_ONE_SLASH = re.compile(r"(?!(?i:file):)[A-Za-z][A-Za-z0-9+.-]*:(?!//)")
# A bucket or host:port, and container@host; a second @, or a sign such as # or a backslash, is read as one host by some clients and as another by others.
_AUTHORITY = re.compile(r"[A-Za-z0-9._:-]*")
_AZURE_AUTHORITY = re.compile(r"[A-Za-z0-9$-]*(?:@[A-Za-z0-9._-]+(?::[0-9]+)?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedStores:
    """The schemes and hosts that are allowed.

    Attributes:
        schemes: Allowed schemes, in lower case.
        hosts: Hosts that a location may name, in lower case and without ports.
        reads_local: Whether local files may be read and written.
        scope: The folders that a strict policy restricts reading and writing to; None where the policy is not strict.
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
            location: The location of the table's metadata file, or of the warehouse; None where there is none yet.
            is_trusted: Whether the caller named the location, and no catalog did, so that its host may be connected to.

        Raises:
            InvalidPropertyError: A property about locations has a value that is not allowed.
        """
        policy = LocationPolicy.of(properties)
        more_schemes = frozenset(text.lower().rstrip(":/") for text in listed(properties.get(ALLOWED_SCHEMES)))
        trusted = [policy.warehouse] if policy.warehouse else []
        trusted_locations = [*trusted, *listed(properties.get(ALLOWED_LOCATIONS)), *([location] if location and is_trusted else [])]
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
        """Return True unless the location is a local symbolic link that leads out of the scope."""
        return self.scope is None or scheme != LOCAL or self.scope.contains(os.path.realpath(local_path(location)))

    def allows_host(self, scheme: str, host: str) -> bool:
        """Return True if the catalog is configured with the host, or the host is a storage account of Azure."""
        return host in self.hosts or (scheme in AZURE and _AZURE_HOST.fullmatch(host) is not None)

    def check_all(self, locations: Any) -> None:
        """Check an Arrow array of locations: each scheme and host once, and each location where the policy is strict.

        Raises:
            LocationNotAllowedError: As `check`.
            InvalidInputError: As `check`.
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


def host_of(location: str) -> str:
    """Return the host that a client of a location connects to; empty where the configuration alone determines it.

    The host is in lower case and without its port.
    """
    scheme = scheme_of(location)
    authority = location.partition("://")[2].partition("/")[0] if scheme != LOCAL else ""
    if scheme in AZURE:
        authority = authority.rpartition("@")[2] if "@" in authority else ""
    elif scheme != "hdfs":
        return ""
    return authority.rpartition("@")[2].partition(":")[0].lower()


def account_properties(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the storage account that an Azure location names: only the configured account receives its keys."""
    host = host_of(location)
    if not host or host.partition(".")[0] == configured_account(properties):
        return dict(properties)
    without_keys = {name: text for name, text in properties.items() if name not in (*OF_ONE_ACCOUNT, ACCOUNT_NAME, ACCOUNT_HOST)}
    return {**without_keys, ACCOUNT_NAME: host.partition(".")[0], ACCOUNT_HOST: host.replace(".dfs.", ".blob.")}


def configured_account(properties: Mapping[str, str]) -> str:
    """Return the storage account that the catalog's keys are for: that of the property, that of the connection string, or that of the warehouse."""
    if name := properties.get(ACCOUNT_NAME):
        return name.lower()
    in_text = re.search(r"(?:^|;)\s*AccountName=([^;]+)", properties.get(CONNECTION_STRING, ""), re.IGNORECASE)
    return in_text[1].strip().lower() if in_text else host_of(properties.get("warehouse") or "/").partition(".")[0]


def _is_plain(scheme: str, authority: str) -> bool:
    return (_AZURE_AUTHORITY if scheme in AZURE else _AUTHORITY).fullmatch(authority) is not None


def _configured_hosts(properties: Mapping[str, str]) -> Iterable[str]:
    yield (properties.get("hdfs.host") or "").lower()
    yield (properties.get(ACCOUNT_HOST) or "").lower()


def _strict_scope(policy: LocationPolicy, location: str | None) -> LocationScope:
    folder, _, name = (location or "").rpartition("/")[0].rpartition("/")
    table_folders = folders_of([folder]) if name == "metadata" else ()
    return LocationScope((*policy.trusted().folders, *(place for place in table_folders if not place.is_root)))


def _refusal(location: str, reason: str, next_step: str) -> LocationNotAllowedError:
    return LocationNotAllowedError(f"{location} is not read or written: {reason}", path=location, next_step=next_step)
