"""`ObjectStoreFileIO`: S3, Google Cloud Storage, Azure and the other storages that fsspec supports.

The libraries that connect to a store (fsspec with s3fs, gcsfs or adlfs) are extras of this package. If a location needs a missing library, the error names its
extra. Access keys of an Azure storage account, which are properties of the catalog, are sent only to that account.
"""

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from icefloe.errors import FileAlreadyExistsError, IcefloeError, StorageError, StoragePermissionError, UnsupportedFeatureError
from icefloe.io.locations import AZURE, scheme_of
from icefloe.io.object_store_options import ABFS, GCS, PART_BYTES, S3, account_properties, fsspec_options, options_of, secret_values
from icefloe.io.range_reads import ObjectInput, Range, RangeReads
from icefloe.io.remote_signing import with_remote_signing
from icefloe.io.renewed_output import RenewedOutput
from icefloe.io.storage_errors import cause_without_secrets, storage_error, without_secrets
from icefloe.optional_packages import not_installed, optional_module
from icefloe.spec.ports import Content, StorageAccess, whole

# Scheme -> (fsspec protocol, extra of this package that installs it). Hadoop's schemes are aliases of the store's own scheme.
PROTOCOLS: Mapping[str, tuple[str, str | None]] = {
    "s3": (S3, "s3"),
    "s3a": (S3, "s3"),
    "s3n": (S3, "s3"),
    "gs": (GCS, "gcs"),
    "gcs": (GCS, "gcs"),
    "abfs": (ABFS, "azure"),
    "abfss": (ABFS, "azure"),
    "wasb": (ABFS, "azure"),
    "wasbs": (ABFS, "azure"),
    "hdfs": ("hdfs", None),
}
# Stores with exclusive creation in one request: `If-None-Match: *`, or the condition that the generation is 0.
CREATES_EXCLUSIVELY = frozenset({S3, GCS, ABFS})
# Extra -> the package that it installs to connect to the store.
_PACKAGES: Mapping[str | None, str] = {"s3": "s3fs", "gcs": "gcsfs", "azure": "adlfs", None: "fsspec"}
_PATTERN_SIGNS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ObjectStoreFileIO:
    """Files of one fsspec protocol. The object holds only names and options, so that it can be pickled; each process connects for itself.

    Attributes:
        protocol: The name of the protocol in fsspec.
        properties: Properties of the catalog and the table that concern the protocol. If there is an `access`, its properties are used instead.
        extra: The extra of this package that installs the library; None if there is no such extra.
        access: The credentials, or the signer of requests, that a catalog provides for a table's files. Its properties are read at each request, so that the
            credentials are always valid.
    """

    protocol: str
    # Not in the repr: properties may hold keys to the store.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    extra: str | None = None
    access: StorageAccess | None = field(default=None, repr=False, compare=False)

    def read(self, location: str) -> bytes:
        """Return the content of an object."""
        # s3fs requests the size before it reads, unless it is set to send a single request.
        options = {"max_concurrency": 1} if self.protocol == S3 else {}
        content = self._call(location, lambda store: store.cat_file(self.own_form(location), **options))
        return bytes(content)

    def write(self, location: str, content: Content, *, overwrite: bool = False) -> None:
        """Write the whole object; readers see either all of it or nothing. Raises `FileAlreadyExistsError` unless `overwrite`.

        In S3, Google Cloud Storage and Azure, an existing object with exactly this content is not an error: the store had written it, but the reply was lost,
        and the library repeated the request.
        """
        path, data = self.own_form(location), whole(content)

        def put(store: Any) -> None:
            # If the library has no exclusive creation, an object that another writer creates after this check is overwritten.
            if not overwrite and self.protocol not in CREATES_EXCLUSIVELY and store.exists(path):
                raise FileExistsError(errno.EEXIST, "exists", location)
            store.pipe_file(path, data, mode="overwrite" if overwrite else "create")

        try:
            self._call(location, put)
        except FileAlreadyExistsError:
            if self.protocol not in CREATES_EXCLUSIVELY or self.read(location) != data:
                raise

    def exists(self, location: str) -> bool:
        """Return True if an object is there."""
        return bool(self._call(location, lambda store: self._is_object(store, self.own_form(location))))

    def _is_object(self, store: Any, path: str) -> bool:
        """Return whether a path is an object. For S3 this is one request; s3fs would also list the path as a folder, which few users may do."""
        try:
            if self.protocol == S3 and hasattr(store, "call_s3"):
                bucket, key, _ = store.split_path(path)
                store.call_s3("head_object", store.req_kw, Bucket=bucket, Key=key)
                return True
            return bool(store.info(path)["type"] == "file")
        except FileNotFoundError:
            return False

    def size(self, location: str) -> int:
        """Return the length in bytes."""
        return int(self.entry(location)["size"])

    def delete(self, location: str) -> None:
        """Delete the object; an object that does not exist is not an error."""

        def remove(store: Any) -> None:
            try:
                store.rm_file(self.own_form(location))
            except FileNotFoundError:
                return

        self._call(location, remove)

    def delete_many(self, locations: Sequence[str]) -> None:
        """Delete the objects with as few requests as the store's library supports.

        If this raises an error, some of the objects may be deleted; an object that does not exist may be an error too. Names with any of `*?[` are deleted one
        by one, because fsspec would treat them as patterns, which could match other objects.
        """
        plain = [location for location in locations if not _PATTERN_SIGNS.intersection(location)]
        for location in set(locations).difference(plain):
            self.delete(location)
        if plain:
            self._call(plain[0], lambda store: store.rm(list(map(self.own_form, plain))))

    def list_entries(self, location: str, *, is_deep: bool = False) -> Sequence[Mapping[str, Any]]:
        """Return fsspec's entries for the files and folders in a folder, or with `is_deep` for all files below it. For a missing folder the result is empty.

        The library's cache of listings is neither read, because it may be outdated, nor filled, because a table may have millions of files.
        """

        def entries(store: Any) -> Sequence[Mapping[str, Any]]:
            path = self.own_form(location)
            _forget_listing(store, path)
            try:
                return list(store.find(path, detail=True).values() if is_deep else store.ls(path, detail=True))
            except FileNotFoundError:
                return []
            finally:
                # The library keeps a deep listing for each subfolder too.
                if is_deep:
                    store.invalidate_cache()
                else:
                    _forget_listing(store, path)

        result: Sequence[Mapping[str, Any]] = self._call(location, entries)
        return result

    def entry(self, location: str) -> Mapping[str, Any]:
        """Request fsspec's entry of an object from the store, not from a cached listing. Raises `NoSuchFileError`."""

        def info(store: Any) -> Mapping[str, Any]:
            path = self.own_form(location)
            _forget_listing(store, path.rpartition("/")[0])
            return dict(store.info(path))

        result: Mapping[str, Any] = self._call(location, info)
        return result

    def open_input(self, location: str) -> Any:
        """Return a seekable file for Arrow, which reads byte ranges of the object; see `range_reads.py`."""
        return self._open(location, None, b"")

    def open_sized_input(self, location: str, size: int, ending: bytes) -> Any:
        """Return a seekable file with the size from a manifest. If the object ends with the bytes `ending` at that size, the store's size is not requested."""
        return self._open(location, size, ending)

    def _open(self, location: str, expected_size: int | None, ending: bytes) -> Any:
        path = self.own_form(location)

        def fetch(ranges: Sequence[Range]) -> list[bytes]:
            starts, ends = [start for start, _ in ranges], [end for _, end in ranges]

            def read_ranges(store: Any) -> list[bytes]:
                return [bytes(content) for content in store.cat_ranges([path] * len(ranges), starts, ends, on_error="raise")]

            result: list[bytes] = self._call(location, read_ranges)
            return result

        return ObjectInput(RangeReads(fetch, lambda: self.size(location), expected_size, ending), mode="r")

    def open_output(self, location: str) -> Any:
        """Return a `pyarrow.PythonFile` for a new object, which exists once the file is closed; a long one is uploaded in parts meanwhile.

        Raises:
            FileAlreadyExistsError: The object exists.
        """
        if self.exists(location):
            raise storage_error(FileExistsError(errno.EEXIST, "exists", location), location)
        return self.open_unique_output(location)

    def open_unique_output(self, location: str) -> Any:
        """Return a file as `open_output` does, without checking whether the unique name exists: in S3 the check requires the right to list."""
        path = self.own_form(location)
        options = {"block_size": int(self.properties[PART_BYTES])} if self.protocol == S3 and PART_BYTES in self.properties else {}
        stream = self._call(location, lambda store: store.open(path, "wb", **options))
        if self.access is not None:
            stream = RenewedOutput(stream, lambda: self.connect(location))
        return pa.PythonFile(stream, mode="w")

    def own_form(self, location: str) -> str:
        """Return a location in the form of the store's library: with the store's own scheme instead of an alias, and for Azure without the host."""
        _, separator, path = location.partition("://")
        if not separator or self.protocol not in CREATES_EXCLUSIVELY:
            return location
        if self.protocol == ABFS:
            container, at, rest = path.partition("@")
            path = f"{container}/{rest.partition('/')[2]}" if at and "/" not in container else path
        return f"{self.protocol}://{path}"

    def connect(self, location: str) -> Any:
        """Return the fsspec file system for a location. It is shared by process and set of properties, and its credentials are valid now.

        Raises:
            NotInstalledError: the package of the store is not installed.
        """
        if self.access is None:
            return _connect(self.protocol, tuple(sorted(self.properties.items())), self.extra)
        settings = self.access.settings_for(location)
        options = _options_for(self.protocol, location, settings.properties)
        signer: Any = self.access if self.protocol == S3 and settings.is_signed else None
        return _connect(self.protocol, tuple(sorted(options.items())), self.extra, signer)

    def _call(self, location: str, request: Callable[[Any], Any]) -> Any:
        store = self.connect(location)
        try:
            return self._request(location, store, request)
        except StoragePermissionError:
            # A store may reject credentials before they expire according to the catalog.
            if not self._is_renewed(location, store):
                raise
        return self._request(location, self.connect(location), request)

    def _is_renewed(self, location: str, refused: Any) -> bool:
        """Renew the credentials after the store refused a file system. Return True if there are new ones, possibly from another thread."""
        if self.access is None:
            return False
        return self.connect(location) is not refused or self.access.renew() or self.connect(location) is not refused

    def _request(self, location: str, store: Any, request: Callable[[Any], Any]) -> Any:
        try:
            return request(store)
        except IcefloeError:
            raise
        except OSError as error:
            secrets = self._secrets()
            raise storage_error(error, location, secrets) from cause_without_secrets(error, secrets)
        except Exception as error:  # noqa: BLE001  see below
            # The libraries raise errors of other classes too, whose text quotes signed requests.
            secrets = self._secrets()
            text = f"storage failed at {location}: {type(error).__name__}: {without_secrets(str(error), secrets)}"
            raise StorageError(text, path=location) from cause_without_secrets(error, secrets)

    def _secrets(self) -> list[str]:
        return [*secret_values(self.properties), *(self.access.secrets() if self.access is not None else ())]


def _forget_listing(store: Any, path: str) -> None:
    """Remove a folder from the library's cache of listings. Azure's library uses the path without scheme and host as the key."""
    store.invalidate_cache(store._strip_protocol(path).rstrip("/"))


@lru_cache(maxsize=32)
def _connect(protocol: str, properties: tuple[tuple[str, str], ...], extra: str | None, signer: StorageAccess | None = None) -> Any:
    feature = f"storage of scheme {protocol!r}"
    fsspec = optional_module("fsspec", extra=extra, feature=feature)
    try:
        # fsspec's own cache would keep a file system, with its keys, for each renewed credential until the process ends.
        options = {**fsspec_options(protocol, dict(properties)), "skip_instance_cache": True}
        if signer is None:
            return fsspec.filesystem(protocol, **options)
        return with_remote_signing(fsspec.filesystem(protocol, **options, anon=True), signer)
    except ImportError as error:
        # fsspec hides the original import error behind its own.
        raise not_installed(feature, _PACKAGES[extra], extra=extra, cause=error.__cause__ or error) from error
    except ValueError as error:
        secrets = secret_values(dict(properties))
        text = without_secrets(str(error), secrets)
        raise UnsupportedFeatureError(
            f"{feature} cannot be opened: {text}", next_step="use a file path, s3://, gs:// or abfss://"
        ) from cause_without_secrets(error, secrets)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    # A file system of fsspec works only in the process that opened it.
    os.register_at_fork(after_in_child=_connect.cache_clear)


def file_io_for(location: str, properties: Mapping[str, str], access: StorageAccess | None = None) -> ObjectStoreFileIO:
    """Return the file IO for a location's scheme; a scheme that is not in the table above is used as the name of the fsspec protocol."""
    protocol, extra = PROTOCOLS.get(scheme_of(location), (scheme_of(location), None))
    if access is not None:
        return ObjectStoreFileIO(protocol, dict(properties), extra, access)
    return ObjectStoreFileIO(protocol, _options_for(protocol, location, properties), extra)


def _options_for(protocol: str, location: str, properties: Mapping[str, str]) -> dict[str, str]:
    return dict(options_of(protocol, account_properties(location, properties) if scheme_of(location) in AZURE else properties))
