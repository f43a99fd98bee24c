"""`ObjectStoreTables`: the file-system catalog for object stores, which have no folders and no atomic rename.

Three rules make its commits safe. They all require that the store can create an object only if it does not exist (`If-None-Match: *` in S3 and Azure,
generation 0 in Google Cloud Storage). If a store ignores this condition, that is detected before the first write, and the store is refused.

- The newest version in a table's folder is the current metadata. A commit creates the next version, so that only one of several writers wins.
- A slow writer may create a version that others have already created, superseded and deleted. So a writer lists the versions after its commit. If there are
  newer versions, the times in the metadata log of the newest show whether they were built on this one.
- A drop also creates the next version, as a tombstone, so that it wins or loses against commits as a commit does. The tombstone stays for ever, and a new table
  of this name continues its numbers: no version number is ever used twice, even if a slow writer tries to.

An empty object represents a namespace. Java's HadoopCatalog can read these tables, but must not write them at the same time. Spec: File System Tables.
"""

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Stored, Unknown
from icefloe.errors import (
    CommitUnknownError,
    FileAlreadyExistsError,
    FormatError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NoSuchFileError,
    StorageError,
    StorageFullError,
    StoragePermissionError,
    UnsupportedFeatureError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.file_system_store import HINT, FileSystemCatalogStore, outcome_of_version, version_files
from icefloe.stores.name_errors import namespace_exists, namespace_missing, namespace_not_empty, table_exists, table_missing
from icefloe.stores.store_folders import StoredObjects

# The object that represents a namespace; no table and no namespace can have this name, because it contains a dot.
NAMESPACE_MARKER = ".icefloe-namespace"
PROBE = ".icefloe-exclusive-creation"
# Every metadata file is longer than this, so that a listing shows whether a version is a tombstone.
MOST_TOMBSTONE_BYTES = 128
# The number of listings that run at the same time.
THREADS = 16
# The number of attempts of a drop that loses to commits.
TRIES = 20


class ObjectStoreTables(FileSystemCatalogStore):
    """A catalog store whose namespaces and tables are below a location in an object store."""

    def __init__(self, name: str, warehouse: str, io: FileIO, objects: StoredObjects) -> None:
        self.name = name
        self.warehouse = warehouse.rstrip("/")
        self._io = io
        self._objects = objects
        self._creates_exclusively = False

    def _is_same(self, location: str, other: str) -> bool:
        return self._objects.is_same(location, other)

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        if parent:
            self._require(parent)
        folders, _ = self._objects.entries(self.table_location(parent))
        names = [(*parent, name) for name in folders if not name.startswith(".")]
        with ThreadPoolExecutor(THREADS) as threads:
            return [name for name, is_there in zip(names, threads.map(self._is_namespace, names), strict=True) if is_there]

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        self._refuse_properties(properties)
        for table in (namespace[:depth] for depth in range(1, len(namespace) + 1)):
            if self._versions(table):
                raise NamespaceAlreadyExistsError(
                    f"namespace {dotted(namespace)!r} cannot be made: {dotted(table)!r} is a table of catalog {self.name!r}",
                    next_step="choose another name",
                )
        if self._is_namespace(namespace):
            raise namespace_exists(self.name, namespace)
        self._io.write(f"{self.table_location(namespace)}/{NAMESPACE_MARKER}", b"", overwrite=True)

    def drop_namespace(self, namespace: Identifier) -> None:
        """Drop a namespace. See `CatalogStore.drop_namespace`. The tombstones of dropped tables stay."""
        self._require(namespace)
        folders, files = self._objects.entries(self.table_location(namespace))
        content = [name for name in folders if self._versions((*namespace, name)) or self._is_namespace((*namespace, name))]
        content += [name for name in files if name != NAMESPACE_MARKER]
        if content:
            raise namespace_not_empty(namespace, content)
        self._io.delete(f"{self.table_location(namespace)}/{NAMESPACE_MARKER}")

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        self._require(namespace)
        names = [(*namespace, name) for name in self._objects.entries(self.table_location(namespace))[0]]
        with ThreadPoolExecutor(THREADS) as threads:
            return [name for name, versions in zip(names, threads.map(self._versions, names), strict=True) if versions]

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        """Check a location as `FileSystemCatalogStore.check` does. Raises `InvalidInputError` also if the first version of a table is compressed."""
        super().check(identifier, location, metadata)
        if ".gz" in location.rpartition("/")[2] and not self._versions(identifier):
            # Two writers that create a table with and without compression would create objects with different names, and both would win.
            raise InvalidInputError(
                f"the metadata files of table {dotted(identifier)!r} cannot be compressed: catalog {self.name!r} is in an object store",
                next_step="leave the property write.metadata.compression-codec out",
            )

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        self._require(identifier[:-1])
        self._require_exclusive_creation()
        taken = table_exists(self.name, identifier)
        content = self._io.read(metadata_location)
        names, is_table = self._list_versions(identifier)  # listed only once, because another creation may come between two listings
        if is_table:
            raise taken
        version = max(names, default=0) + 1
        published = f"{self._metadata(identifier)}/v{version}.metadata.json"
        try:
            self._io.write(published, content)
        except FileAlreadyExistsError as error:
            raise taken from error
        except (StoragePermissionError, StorageFullError, NoSuchFileError):
            raise
        except StorageError as error:
            if self._content(published) != content:
                raise CommitUnknownError(
                    f"table {dotted(identifier)!r} may have been created: {error.message}",
                    table=dotted(identifier),
                    path=published,
                    next_step=f"look whether this file exists with the content of {metadata_location} before you create it again; no file was deleted",
                ) from error
        self._write_hint_of(identifier, version)
        return published

    def _publish(self, identifier: Identifier, expected: str, new: str) -> Outcome:
        """Publish the metadata file `new` as the version after `expected`."""
        self._require_exclusive_creation()
        newest = self._newest(identifier)
        if newest != expected:
            return Conflicted(current_location=newest)
        version = (metadata_version(expected) or 0) + 1
        ending = ".gz.metadata.json" if ".gz" in expected.rpartition("/")[2] else ".metadata.json"
        published = f"{self._metadata(identifier)}/v{version}{ending}"
        try:
            content = self._io.read(new)
            self._io.write(published, content)
        except FileAlreadyExistsError:
            return Conflicted(current_location=self._newest(identifier))
        except NoSuchFileError:
            return Conflicted(current_location=None, reason="the table was dropped")
        except (StoragePermissionError, StorageFullError) as error:
            return Refused(error=error)
        except StorageError as error:  # the request may have been carried out nevertheless
            return Unknown(reason=error.message)
        outcome = self._outcome_of_published(identifier, published, content)
        if isinstance(outcome, Committed):
            self._write_hint_of(identifier, version)
        return outcome

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended. See `CatalogStore.commit_status`.

        If the version after `expected` does not exist, the conditional request is sent again. Else the object of that version is compared with the file of the
        attempt.
        """
        request = requests[0]
        names, is_table = self._list_versions(request.identifier)
        if request.expected is None:
            return self._creation_status(request, names[max(names)]) if is_table else self._create(request)
        name = names.get((metadata_version(request.expected) or 0) + 1)
        if name is None:
            return self._publish(request.identifier, request.expected, request.new)
        location = f"{self._metadata(request.identifier)}/{name}"
        content = self._content(request.new)
        if content is None or self._content(location) != content:
            return Conflicted(current_location=self._newest(request.identifier))
        return self._outcome_of_published(request.identifier, location, content)

    def _creation_status(self, request: CommitRequest, newest: str) -> Outcome:
        """Determine how a creation ended, by the uuid of the table that has the name now: others may have committed to the new table meanwhile."""
        location = f"{self._metadata(request.identifier)}/{newest}"
        try:
            metadata = read_table_metadata(self._io.read(location), location)
            attempt = read_table_metadata(self._io.read(request.new), request.new)
        except (StorageError, NoSuchFileError, FormatError) as error:
            return Unknown(reason=error.message)
        if metadata.table_uuid != attempt.table_uuid:
            return Conflicted(current_location=location)
        return Committed(stored=(Stored(location=location, metadata=metadata),))

    def _outcome_of_published(self, identifier: Identifier, published: str, content: bytes) -> Outcome:
        """Return the outcome of a commit that created its version: committed if the version is the newest, or if newer versions were built on it."""
        names, is_table = self._list_versions(identifier)
        newest = max(names, default=0)
        if newest <= (metadata_version(published) or 0):
            return Committed(stored=(Stored(location=published),))
        location = f"{self._metadata(identifier)}/{names[newest]}"
        if not is_table:
            return Conflicted(current_location=None, reason="the table was dropped")
        try:
            return outcome_of_version(published, content, location, self._io.read(location))
        except (StorageError, NoSuchFileError) as error:
            return Unknown(reason=error.message)

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Remove the table's name by a tombstone, then delete the objects that were in its folder before the tombstone.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidInputError: `gc.enabled` is false.
            StorageError: the table is dropped, but not all of its files could be deleted.
        """
        self._require_exclusive_creation()
        for _ in range(TRIES):
            location = self.load(identifier).metadata_location
            if expected not in (None, location):
                return False
            self._refuse_kept_files(identifier, location)
            objects = self._objects.objects_below(self.table_location(identifier))
            ending = ".gz.metadata.json" if ".gz" in location.rpartition("/")[2] else ".metadata.json"
            tombstone = f"{self._metadata(identifier)}/v{(metadata_version(location) or 0) + 1}{ending}"
            try:
                self._io.write(tombstone, f'{{"dropped": "{uuid.uuid4()}"}}\n'.encode())
            except FileAlreadyExistsError:
                continue  # a commit or another drop came first
            self._delete(identifier, [name for name in objects if name != tombstone])
            return True
        raise StorageError(
            f"table {dotted(identifier)!r} cannot be dropped: others commit to it again and again",
            table=dotted(identifier),
            next_step="try again",
        )

    def _delete(self, identifier: Identifier, objects: Sequence[str]) -> None:
        try:
            self._objects.delete(objects)
        except StorageError as error:
            raise type(error)(
                f"table {dotted(identifier)!r} is dropped, and not all of its files could be deleted: {error.message}",
                table=dotted(identifier),
                path=error.path,
                next_step=f"delete the objects below {self.table_location(identifier)} but for the newest v<N>.metadata.json",
            ) from error

    def _refuse_kept_files(self, identifier: Identifier, location: str) -> None:
        metadata = read_table_metadata(self._io.read(location), location)
        if metadata.properties.get("gc.enabled", "true").lower() == "false":
            raise InvalidInputError(
                f"table {dotted(identifier)!r} has gc.enabled=false, and dropping it in a file-system catalog deletes its files",
                next_step="set gc.enabled to true where no other table needs the files",
            )

    def load(self, identifier: Identifier) -> TableLocation:
        newest = self._newest(identifier)
        if newest is None:
            raise table_missing(self.name, identifier, self.list_tables, f"{self._metadata(identifier)} holds no v<N>.metadata.json")
        return TableLocation(
            identifier=identifier,
            metadata_location=newest,
            previous_metadata_location=None,
            lookup=lambda: f"the newest v<N>.metadata.json in {self._metadata(identifier)}",
        )

    def _list_versions(self, identifier: Identifier) -> tuple[dict[int, str], bool]:
        """Return the names of a table's version objects, by version number; and whether the table exists, that is, the newest version is no tombstone."""
        sizes = self._objects.entries(self._metadata(identifier))[1]
        names = version_files(sizes)
        return names, bool(names) and sizes[names[max(names)]] > MOST_TOMBSTONE_BYTES

    def _versions(self, identifier: Identifier) -> dict[int, str]:
        """Return the names of a table's version objects, by version number; empty if the newest version is a tombstone."""
        names, is_table = self._list_versions(identifier)
        return names if is_table else {}

    def _is_namespace(self, namespace: Identifier) -> bool:
        """Return True if there is a marker object, or a table or namespace below: other writers may create tables without markers."""
        folders, files = self._objects.entries(self.table_location(namespace))
        if NAMESPACE_MARKER in files:
            return True
        if "metadata" in folders and self._list_versions(namespace)[0]:
            return False  # a table, or its remaining objects
        return any(self._versions((*namespace, name)) or self._is_namespace((*namespace, name)) for name in folders)

    def _require(self, namespace: Identifier) -> None:
        if not self._is_namespace(namespace):
            raise namespace_missing(self.name, namespace, self.list_namespaces())

    def _content(self, location: str) -> bytes | None:
        try:
            return self._io.read(location)
        except StorageError:
            return None

    def _write_hint_of(self, identifier: Identifier, version: int) -> None:
        with suppress(StorageError):  # the version is valid even if the hint is wrong
            self._io.write(f"{self._metadata(identifier)}/{HINT}", str(version).encode(), overwrite=True)

    def _require_exclusive_creation(self) -> None:
        """Try to create an object twice, once for each store object. Raises `UnsupportedFeatureError` if the store allows both."""
        if self._creates_exclusively:
            return
        probe = f"{self.warehouse}/{PROBE}-{uuid.uuid4().hex}"
        self._io.write(probe, b"first")
        try:
            self._io.write(probe, b"second")
        except FileAlreadyExistsError:
            self._creates_exclusively = True
        finally:
            with suppress(StorageError):
                self._io.delete(probe)
        if not self._creates_exclusively:
            raise UnsupportedFeatureError(
                f"the store of {self.warehouse} creates an object although its name is taken, so that two writers could both commit to a table of catalog "
                f"{self.name!r}",
                next_step="use a SQL catalog, which needs nothing of the store; or a newer version of the store, which obeys If-None-Match",
            )
