"""`ObjectStoreFileIO`: S3, Google Cloud Storage, Azure and the other storages that fsspec supports.

The libraries that connect to a store (fsspec with s3fs, gcsfs or adlfs) are extras of this package. An error names the missing one when a location needs it.
Keys of a storage account of Azure, which are properties of the catalog, are sent to that account only.
"""

import errno
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from icefloe.errors import IcefloeError, StorageError, UnsupportedFeatureError
from icefloe.io.locations import AZURE, host_of, scheme_of
from icefloe.kernel.ports import Content, whole
from icefloe.kernel.storage_errors import cause_without_secrets, storage_error, without_secrets
from icefloe.optional_packages import not_installed, optional_module

# Scheme -> (fsspec protocol, extra of this package that brings it). Hadoop's scheme names are aliases of the store's own.
PROTOCOLS: Mapping[str, tuple[str, str | None]] = {
    "s3": ("s3", "s3"),
    "s3a": ("s3", "s3"),
    "s3n": ("s3", "s3"),
    "gs": ("gcs", "gcs"),
    "gcs": ("gcs", "gcs"),
    "abfs": ("abfs", "azure"),
    "abfss": ("abfs", "azure"),
    "wasb": ("abfs", "azure"),
    "wasbs": ("abfs", "azure"),
    "hdfs": ("hdfs", None),
}
# Extra -> the package in it that connects to the store.
_PACKAGES: Mapping[str | None, str] = {"s3": "s3fs", "gcs": "gcsfs", "azure": "adlfs", None: "fsspec"}

# Property -> path of the option in fsspec's keyword arguments. The property names are those of PyIceberg, so that its configuration files work.
_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "s3.endpoint": ("endpoint_url",),
        "s3.access-key-id": ("key",),
        "s3.secret-access-key": ("secret",),
        "s3.session-token": ("token",),
        "s3.anonymous": ("anon",),
        "s3.region": ("client_kwargs", "region_name"),
        "s3.connect-timeout": ("config_kwargs", "connect_timeout"),
        "s3.request-timeout": ("config_kwargs", "read_timeout"),
    },
    "gcs": {
        "gcs.project-id": ("project",),
        "gcs.oauth2.token": ("token",),
        "gcs.service.host": ("endpoint_url",),
        "gcs.default-bucket-location": ("default_location",),
    },
    "abfs": {
        "adls.account-name": ("account_name",),
        "adls.account-host": ("account_host",),
        "adls.account-key": ("account_key",),
        "adls.sas-token": ("sas_token",),
        "adls.connection-string": ("connection_string",),
        "adls.tenant-id": ("tenant_id",),
        "adls.client-id": ("client_id",),
        "adls.client-secret": ("client_secret",),
    },
    "hdfs": {"hdfs.host": ("host",), "hdfs.port": ("port",), "hdfs.user": ("user",)},
}
# Properties whose values never appear in messages.
SECRETS = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "gcs.oauth2.token",
    "adls.account-key",
    "adls.sas-token",
    "adls.connection-string",
    "adls.client-secret",
)
# Credentials of one account, which are never sent to another one. A service principal's secret is sent to Microsoft's sign-in alone, whatever the account.
_OF_ONE_ACCOUNT = ("adls.account-key", "adls.sas-token", "adls.connection-string")
_ACCOUNT_NAME, ACCOUNT_HOST, _CONNECTION_STRING = "adls.account-name", "adls.account-host", "adls.connection-string"
_PATTERN_SIGNS = frozenset("*?[")
_BOOLEANS = frozenset({"anon"})
_NUMBERS = frozenset({"connect_timeout", "read_timeout", "port"})


@dataclass(frozen=True, slots=True)
class ObjectStoreFileIO:
    """Files of one fsspec protocol. It holds only names and options, so that it can be pickled; each process connects for itself.

    Attributes:
        protocol: The name of the protocol in fsspec.
        properties: Properties of the catalog and the table that concern the protocol.
        extra: The extra of this package that installs the library; None where there is none.
    """

    protocol: str
    # Not shown: properties may hold keys to the store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: str | None = None

    def read(self, location: str) -> bytes:
        """Return the content of an object."""
        content = self._call(location, lambda store: store.cat_file(location))
        return bytes(content)

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole object, which readers see complete or not at all. Raises `FileAlreadyExistsError` unless `overwrite`."""

        def put(store: Any) -> None:
            # Not every file system, nor every release of fsspec, has the mode `create`; those that have it also refuse a name taken since this check.
            if not overwrite and store.exists(location):
                raise FileExistsError(errno.EEXIST, "exists", location)
            store.pipe_file(location, whole(content), mode="overwrite" if overwrite else "create")

        self._call(location, put)

    def exists(self, location: str) -> bool:
        """Return True if an object is there."""
        return bool(self._call(location, lambda store: store.isfile(location)))

    def size(self, location: str) -> int:
        """Return the length in bytes."""
        return int(self._call(location, lambda store: store.info(location))["size"])

    def delete(self, location: str) -> None:
        """Delete the object; an object that does not exist is not an error."""

        def remove(store: Any) -> None:
            try:
                store.rm_file(location)
            except FileNotFoundError:
                return

        self._call(location, remove)

    def delete_many(self, locations: Sequence[str]) -> None:
        """Delete the objects by as few requests as the store's library can make.

        After an error some of them are deleted; an object that does not exist may be an error too. fsspec reads a name with any of `*?[` as a pattern here,
        which would delete other objects, so such names are deleted one by one.
        """
        plain = [location for location in locations if not _PATTERN_SIGNS.intersection(location)]
        for location in set(locations).difference(plain):
            self.delete(location)
        if plain:
            self._call(plain[0], lambda store: store.rm(plain))

    def list_entries(self, location: str, *, is_deep: bool = False) -> Sequence[Mapping[str, Any]]:
        """Return fsspec's entries of the files and folders in a folder, or with `is_deep` of all files below it. A missing folder has none.

        The library's cache of listings is not used, and does not grow: it could be old, and a table has millions of files.
        """

        def entries(store: Any) -> Sequence[Mapping[str, Any]]:
            store.invalidate_cache(location)
            try:
                return list(store.find(location, detail=True).values() if is_deep else store.ls(location, detail=True))
            except FileNotFoundError:
                return []
            finally:
                store.invalidate_cache(location)

        result: Sequence[Mapping[str, Any]] = self._call(location, entries)
        return result

    def entry(self, location: str) -> Mapping[str, Any]:
        """Return fsspec's entry of an object as it is now, not as a listing has shown it. Raises `NoSuchFileError`."""

        def info(store: Any) -> Mapping[str, Any]:
            store.invalidate_cache(location.rpartition("/")[0])
            return dict(store.info(location))

        result: Mapping[str, Any] = self._call(location, info)
        return result

    def open_input(self, location: str) -> Any:
        """Return a seekable `pyarrow.PythonFile`."""
        return pa.PythonFile(self._call(location, lambda store: store.open(location, "rb")), mode="r")

    def open_output(self, location: str) -> Any:
        """Return a `pyarrow.PythonFile` to a new object, which appears when the file is closed."""

        def create(store: Any) -> Any:
            if store.exists(location):
                raise FileExistsError(errno.EEXIST, "exists", location)
            return store.open(location, "wb")

        return pa.PythonFile(self._call(location, create), mode="w")

    def connect(self) -> Any:
        """Return the fsspec file system, one per process and set of properties. Raises `NotInstalledError` where its package is not installed."""
        return _connect(self.protocol, tuple(sorted(self.properties.items())), self.extra)

    def _call(self, location: str, request: Callable[[Any], Any]) -> Any:
        store = self.connect()
        try:
            return request(store)
        except IcefloeError:
            raise
        except OSError as error:
            secrets = secret_values(self.properties)
            raise storage_error(error, location, secrets) from cause_without_secrets(error, secrets)
        except Exception as error:  # noqa: BLE001  see below
            # The libraries of stores raise errors of other classes, whose text quotes signed requests.
            secrets = secret_values(self.properties)
            text = f"storage failed at {location}: {type(error).__name__}: {without_secrets(str(error), secrets)}"
            raise StorageError(text, path=location) from cause_without_secrets(error, secrets)


def secret_values(properties: Mapping[str, str]) -> list[str]:
    """Return the values of the properties that are secrets, and the parts of a connection string that are."""
    values = [properties[name] for name in SECRETS if properties.get(name)]
    return [
        *values,
        *(part.partition("=")[2] for text in values if ";" in text for part in text.split(";") if "=" in part and "Name=" not in part),
    ]


@lru_cache(maxsize=32)
def _connect(protocol: str, properties: tuple[tuple[str, str], ...], extra: str | None) -> Any:
    feature = f"storage of scheme {protocol!r}"
    fsspec = optional_module("fsspec", extra=extra, feature=feature)
    try:
        return fsspec.filesystem(protocol, **fsspec_options(protocol, dict(properties)))
    except ImportError as error:
        # fsspec replaces the error of the package that it could not import.
        raise not_installed(feature, _PACKAGES[extra], extra=extra, cause=error.__cause__ or error) from error
    except ValueError as error:
        secrets = secret_values(dict(properties))
        text = without_secrets(str(error), secrets)
        raise UnsupportedFeatureError(
            f"{feature} cannot be opened: {text}", next_step="use a file path, s3://, gs:// or abfss://"
        ) from cause_without_secrets(error, secrets)


def fsspec_options(protocol: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the keyword arguments of fsspec for the properties of this protocol; other properties are left out."""
    options: dict[str, Any] = {}
    for name, path in _OPTIONS.get(protocol, {}).items():
        if name not in properties:
            continue
        text, inner = properties[name], options
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = _typed(path[-1], text)
    return options


def _typed(option: str, text: str) -> Any:
    if option in _BOOLEANS:
        return text.strip().lower() == "true"
    if option in _NUMBERS:
        return float(text) if "." in text else int(text)
    return text


def file_io_for(location: str, properties: Mapping[str, str]) -> ObjectStoreFileIO:
    """Return the file IO of a location's scheme; a scheme that is not listed here is passed to fsspec under its own name."""
    scheme = scheme_of(location)
    protocol, extra = PROTOCOLS.get(scheme, (scheme, None))
    properties = _account_properties(location, properties) if scheme in AZURE else properties
    options = _OPTIONS.get(protocol, {})
    return ObjectStoreFileIO(protocol, {name: text for name, text in properties.items() if name in options}, extra)


def _account_properties(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the storage account that an Azure location names: only the configured account receives its keys."""
    host = host_of(location)
    if not host or host.partition(".")[0] == _configured_account(properties):
        return dict(properties)
    without_keys = {name: text for name, text in properties.items() if name not in (*_OF_ONE_ACCOUNT, _ACCOUNT_NAME, ACCOUNT_HOST)}
    return {**without_keys, _ACCOUNT_NAME: host.partition(".")[0], ACCOUNT_HOST: host.replace(".dfs.", ".blob.")}


def _configured_account(properties: Mapping[str, str]) -> str:
    """Return the storage account that the catalog's keys are for: that of the property, that of the connection string, or that of the warehouse."""
    if name := properties.get(_ACCOUNT_NAME):
        return name.lower()
    in_text = re.search(r"(?:^|;)\s*AccountName=([^;]+)", properties.get(_CONNECTION_STRING, ""), re.IGNORECASE)
    return in_text[1].strip().lower() if in_text else host_of(properties.get("warehouse") or "/").partition(".")[0]
