"""`FileSystemCatalogStore`: each table is a folder, and its newest `metadata/v<N>.metadata.json` is the current metadata, as in Java's HadoopCatalog.

A commit publishes a metadata file under the next version's name, which only one writer can create. `version-hint.text` is written afterwards, for other
readers. Icefloe never reads it, since it may be outdated or ahead: the newest version in the folder is the current one.

A slow writer may create a version that others have already created, superseded and deleted (`write.metadata.delete-after-commit.enabled`). So a writer lists
the versions after its commit. If there are newer versions, the times in the metadata log of the newest show whether they were built on this one
(`outcome_of_version`).

A drop removes the name from the folder in one step, and then deletes the folder: `dropped_folders.py`. Spec: File System Tables.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from icefloe.commit.outcome import Committed, Conflicted, Outcome, Refused, Stored, Unknown
from icefloe.errors import (
    CommitUnknownError,
    FileAlreadyExistsError,
    FormatError,
    IcefloeError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NoSuchFileError,
    StorageError,
    StorageUnavailableError,
    UnfinishedDropError,
    UnsupportedError,
    UnsupportedFeatureError,
)
from icefloe.spec.identifier import Identifier, dotted
from icefloe.spec.metadata import table_properties
from icefloe.spec.metadata.metadata_reader import read_table_metadata
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.metadata.table_metadata import TableMetadata
from icefloe.spec.ports import FileIO
from icefloe.stores.catalog_store import CommitRequest, TableLocation
from icefloe.stores.dropped_folders import DROPPED, DroppedFolders
from icefloe.stores.name_errors import namespace_exists, namespace_missing, namespace_not_empty, table_exists, table_missing
from icefloe.stores.store_folders import Folders, OpenFolder

HINT = "version-hint.text"
# Hadoop writes a checksum file beside each file. If it is older than the hint, Java reports a damaged hint.
HINT_CHECKSUM = f".{HINT}.crc"
LOG = logging.getLogger(__name__)
# A hint of some other writers: the name of a metadata file, as other catalogs name it, with or without its extension.
_HINTED_FILE = re.compile(r"\d+-[\w-]+(?:\.gz)?(\.metadata\.json(?:\.gz)?)?", re.ASCII)
_VERSION = re.compile(r"v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?")


class FileSystemCatalogStore:
    """A catalog store whose namespaces and tables are folders below the folder `warehouse`."""

    drops_files = True
    writes_metadata = False

    def __init__(self, name: str, warehouse: str, io: FileIO, folders: Folders) -> None:
        self.name = name
        self.warehouse = warehouse.rstrip("/")
        self._io = io
        self._folders = folders
        self._dropped = DroppedFolders(self.table_location, folders)

    def table_location(self, identifier: Identifier) -> str:
        """Return the folder of the namespace or table with this name, whether or not it exists."""
        return "/".join((self.warehouse, *identifier))

    def _is_same(self, location: str, other: str) -> bool:
        """Return whether two locations are the same folder, however they are spelled."""
        return self._folders.is_same(location, other)

    def list_namespaces(self, parent: Identifier = ()) -> list[Identifier]:
        if parent:
            self._require(parent)
        entries = self._folders.names(self.table_location(parent))
        namespaces = [(*parent, name) for name in (entries[0] if entries else ())]
        return [name for name in namespaces if not self._versions(name) and not name[-1].startswith(".")]

    def namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        self._require(namespace)
        return {}

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str]) -> None:
        self._refuse_properties(properties)
        for table in (namespace[:depth] for depth in range(1, len(namespace))):
            if self._versions(table):  # dropping such a table would delete the namespace and its tables
                raise NamespaceAlreadyExistsError(
                    f"namespace {dotted(namespace)!r} cannot be made: {dotted(table)!r} is a table of catalog {self.name!r}",
                    next_step="choose another name",
                )
        if self._versions(namespace) or not self._folders.make(self.table_location(namespace)):
            raise namespace_exists(self.name, namespace)

    def drop_namespace(self, namespace: Identifier) -> None:
        self._require(namespace)
        folders, files = self._folders.names(self.table_location(namespace)) or ([], [])
        if folders == [DROPPED] and not files:
            self._dropped.delete_all(namespace)
            folders = []
        if folders or files:
            raise namespace_not_empty(namespace, [*folders, *files])
        self._folders.remove(self.table_location(namespace))

    def update_namespace(self, namespace: Identifier, *, removals: frozenset[str], updates: Mapping[str, str]) -> None:
        self._require(namespace)
        self._refuse_properties({**updates, **dict.fromkeys(removals, "")})

    def list_tables(self, namespace: Identifier) -> list[Identifier]:
        self._require(namespace)
        folders, _ = self._folders.names(self.table_location(namespace)) or ([], [])
        return sorted((*namespace, name) for name in folders if self._versions((*namespace, name)))

    def load(self, identifier: Identifier) -> TableLocation:
        newest = self._newest(identifier)
        if newest is None:
            if self._dropped.holds(identifier):
                raise UnfinishedDropError(
                    f"table {dotted(identifier)!r} was dropped from catalog {self.name!r}, and the deletion of its files is not finished: "
                    f"some are in {self._dropped.folder(identifier)}",
                    table=dotted(identifier),
                    path=self._dropped.folder(identifier),
                    next_step=f"where no other process is deleting them, drop_table({dotted(identifier)!r}) deletes the rest; so does a new table of the name",
                )
            self._refuse_other_files(identifier)
            raise table_missing(self.name, identifier, self.list_tables, f"{self._metadata(identifier)} holds no v<N>.metadata.json")
        return TableLocation(
            identifier=identifier,
            metadata_location=newest,
            previous_metadata_location=None,
            lookup=lambda: f"the newest v<N>.metadata.json in {self._metadata(identifier)}",
        )

    def load_all(self, identifiers: Sequence[Identifier]) -> list[TableLocation]:
        """Load one table after another: a file system cannot show several tables at the same moment, and commits change only one table."""
        return [self.load(identifier) for identifier in identifiers]

    def check(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:  # noqa: ARG002  it is published under another
        """Check that the location and the metadata fit the folder of the name.

        Raises:
            NoSuchNamespaceError: there is no folder for the namespace.
            InvalidInputError: the table's location is not the folder of the name, the property `write.metadata.path` is set, or the compression of
                metadata files would change.
        """
        self._require(identifier[:-1])  # checked before the write, which would create the folder
        folder = self.table_location(identifier)
        if not self._is_same(metadata.location, folder):
            raise InvalidInputError(
                f"the location of table {dotted(identifier)!r} is {metadata.location}, and catalog {self.name!r} keeps it at {folder}",
                next_step="leave the location out of a new table, whose folder is its name; open the catalog of another one with the warehouse"
                " of its location, or register the table in a catalog of another type",
            )
        if table_properties.METADATA_PATH.name in metadata.properties:
            raise InvalidInputError(
                f"table {dotted(identifier)!r} of a file-system catalog keeps its metadata in its own folder",
                next_step=f"remove the property {table_properties.METADATA_PATH.name}",
            )
        newest = self._newest(identifier)
        if newest is not None and (".gz" in newest.rpartition("/")[2]) != (
            table_properties.METADATA_CODEC.read(metadata.properties) == "gzip"
        ):
            # Two writers with different file extensions would create different names for the next version, and both would win.
            raise InvalidInputError(
                f"the compression of metadata files of table {dotted(identifier)!r} cannot change in a file-system catalog",
                next_step=f"leave the property {table_properties.METADATA_CODEC.name} as it is",
            )

    def create(self, identifier: Identifier, metadata_location: str) -> str:
        self._require(identifier[:-1])
        self._refuse_other_files(identifier)
        taken = table_exists(self.name, identifier)
        published = f"v1{_ending(metadata_location)}"
        try:
            content = self._io.read(metadata_location)
            self._folders.make(self._metadata(identifier))
            with self._folders.open_folder(self._metadata(identifier)) as folder:
                if version_files(folder.names() if folder is not None else ()):
                    raise taken
                if folder is None:
                    raise NoSuchFileError(f"there is no folder {self._metadata(identifier)}")
                folder.write(published, content)
                if not isinstance(self._outcome_in(folder, identifier, published, content), Committed):
                    raise taken
                _write_hint(folder, 1)
        except FileAlreadyExistsError as error:
            raise taken from error
        except NoSuchFileError as error:
            if not self._io.exists(metadata_location) and not self._is_same(
                metadata_location.rpartition("/")[0], self._metadata(identifier)
            ):
                raise
            raise NoSuchFileError(
                f"table {dotted(identifier)!r} was not created: another process dropped a table of this name at the same time, and its folder with it",
                table=dotted(identifier),
                path=self._metadata(identifier),
                next_step="create the table again",
            ) from error
        try:
            self._dropped.delete(identifier)
        except StorageError as error:
            LOG.warning("%s", error)  # the new table exists
        return f"{self._metadata(identifier)}/{published}"

    def _publish(self, identifier: Identifier, expected: str, new: str) -> Outcome:
        """Publish the metadata file `new` as the version after `expected`."""
        # The folder is held open, because a drop may move it away in between, and the version must not be written to the folder of a new table.
        with self._folders.open_folder(self._metadata(identifier)) as folder:
            newest = _newest(folder)
            if folder is None or newest is None or f"{self._metadata(identifier)}/{newest}" != expected:
                return Conflicted(current_location=None if newest is None else f"{self._metadata(identifier)}/{newest}")
            version = (metadata_version(expected) or 0) + 1
            published = f"v{version}{_ending(expected)}"
            try:
                content = self._io.read(new)  # missing if a drop has moved the folder away
                if not self._is_of_table(identifier, folder, content, new):
                    return Conflicted(current_location=expected)  # a new table has the name already
                if (latest := _newest(folder)) != newest:  # a version that others have superseded may not be distinguishable afterwards
                    return Conflicted(current_location=None if latest is None else f"{self._metadata(identifier)}/{latest}")
                folder.write(published, content)
                outcome = self._outcome_in(folder, identifier, published, content)
            except FileAlreadyExistsError:
                return self.commit_status([CommitRequest(identifier=identifier, expected=expected, new=new)])
            except NoSuchFileError:
                return Conflicted(current_location=None, reason="the table was dropped")
            except StorageUnavailableError as error:
                return Unknown(reason=error.message)
            except StorageError as error:
                return Refused(error=error)
            if isinstance(outcome, Committed):
                _write_hint(folder, version)
        return outcome

    def _outcome_in(self, folder: OpenFolder, identifier: Identifier, published: str, content: bytes) -> Outcome:
        """Return the outcome of a commit whose version is in the folder: committed if the version is the newest, or if newer versions were built on it."""
        newest = _newest(folder)
        location = f"{self._metadata(identifier)}/{published}"
        if newest is None or (metadata_version(newest) or 0) <= (metadata_version(published) or 0):
            return Committed(stored=(Stored(location=location),))
        try:
            newest_content = folder.read(newest)
        except NoSuchFileError as error:  # even newer versions were created meanwhile, and this one was deleted
            return Unknown(reason=error.message)
        return outcome_of_version(location, content, f"{self._metadata(identifier)}/{newest}", newest_content)

    def _is_of_table(self, identifier: Identifier, folder: OpenFolder, content: bytes, location: str) -> bool:
        """Return whether a metadata file belongs to the table in the open folder, by the uuid of the newest readable version.

        Damaged newer versions are ignored, because a repair is committed as the version after them. Undoing the repair publishes the damaged file again.
        """
        uuid = _uuid(content, location)
        above, _, name = location.rpartition("/")
        if uuid is None and self._is_same(above, self._metadata(identifier)) and name in folder.names():
            return True
        versions = version_files(folder.names())
        uuids = (_uuid(folder.read(versions[version]), versions[version]) for version in sorted(versions, reverse=True))
        return next((known_uuid for known_uuid in uuids if known_uuid is not None), uuid) == uuid

    def commit(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Commit the change of one table. See `CatalogStore.commit`. Raises `UnsupportedFeatureError` for more than one table."""
        if len(requests) == 1:
            request = requests[0]
            return self._create(request) if request.expected is None else self._publish(request.identifier, request.expected, request.new)
        raise UnsupportedFeatureError(
            f"catalog {self.name!r} keeps tables in a file system and cannot commit several tables at once",
            next_step="use a SQL catalog, or commit one table after another",
        )

    def _create(self, request: CommitRequest) -> Outcome:
        try:
            return Committed(stored=(Stored(location=self.create(request.identifier, request.new)),))
        except (StorageUnavailableError, CommitUnknownError) as error:
            return Unknown(reason=error.message)
        except IcefloeError as error:
            return Refused(error=error)

    def commit_status(self, requests: Sequence[CommitRequest]) -> Outcome:
        """Determine how a commit ended. See `CatalogStore.commit_status`.

        The file of the version after `expected` is compared with the file of the attempt. If there are newer versions, they must have been built on it.
        """
        request = requests[0]
        version = (metadata_version(request.expected) or 0) + 1 if request.expected is not None else 1
        name = self._versions(request.identifier).get(version)
        if name is None:
            newest = self._newest(request.identifier)
            return (
                Conflicted(current_location=None)
                if newest is None
                else Conflicted(current_location=newest, reason="no file of the next version was made")
            )
        with self._folders.open_folder(self._metadata(request.identifier)) as folder:
            try:
                content = self._io.read(request.new)
                if folder is not None and folder.read(name) == content:
                    return self._outcome_in(folder, request.identifier, name, content)
            except NoSuchFileError:
                pass
        return Conflicted(current_location=self._newest(request.identifier))

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Refuse to rename: a folder cannot be renamed without changing its metadata. Raises `UnsupportedFeatureError`."""
        raise UnsupportedFeatureError(
            f"catalog {self.name!r} cannot rename {dotted(source)!r} to {dotted(target)!r}: a table's folder is its name, and its files name the folder",
            next_step="register the table in a SQL catalog, which can",
        )

    def drop(self, identifier: Identifier, *, expected: str | None = None) -> bool:
        """Remove the table's name in one step, then delete its folder with all files, as Java does; `expected` is compared just before.

        If no table has the name, but there are files of a dropped table of this name, they are deleted.

        Raises:
            NoSuchTableError: the table does not exist.
            InvalidInputError: `gc.enabled` is false.
            StorageError: the table is dropped, but not all of its files could be deleted.
        """
        try:
            location = self.load(identifier).metadata_location
        except UnfinishedDropError:
            self._dropped.delete(identifier)
            return True
        if expected not in (None, location):
            return False
        gone = table_missing(self.name, identifier, self.list_tables, "another process has just dropped it")
        try:
            metadata = read_table_metadata(self._io.read(location), location)
        except NoSuchFileError as error:
            if self._newest(identifier) == location and not self._io.exists(location):
                raise
            raise gone from error
        if metadata.properties.get("gc.enabled", "true").lower() == "false":
            raise InvalidInputError(
                f"table {dotted(identifier)!r} has gc.enabled=false, and dropping it in a file-system catalog deletes its files",
                next_step="set gc.enabled to true where no other table needs the files",
            )
        if not self._dropped.add(identifier, location.rpartition("/")[2]):
            raise gone
        self._dropped.delete(identifier)
        return True

    def _metadata(self, identifier: Identifier) -> str:
        return f"{self.table_location(identifier)}/metadata"

    def _versions(self, identifier: Identifier) -> dict[int, str]:
        """Return the names of a table's version files, by version number."""
        names = self._folders.names(self._metadata(identifier))
        return version_files(names[1] if names else ())

    def _newest(self, identifier: Identifier) -> str | None:
        versions = self._versions(identifier)
        return f"{self._metadata(identifier)}/{versions[max(versions)]}" if versions else None

    def _refuse_other_files(self, identifier: Identifier) -> None:
        """Refuse a table whose version hint contains a file name such as `00003-<uuid>.metadata.json`, because such names do not lead to later commits.

        Raises:
            UnsupportedFeatureError: The table has such a hint.
        """
        names = (self._folders.names(self._metadata(identifier)) or ([], []))[1]
        if HINT not in names or version_files(names):
            return
        try:
            file = file_of_hint(self._io.read(f"{self._metadata(identifier)}/{HINT}"))
        except NoSuchFileError:  # a drop has just moved the folder away
            return
        if file in names:
            location = f"{self._metadata(identifier)}/{file}"
            raise UnsupportedFeatureError(
                f"{HINT} of table {dotted(identifier)!r} names {file}, and file-system catalog {self.name!r} reads and writes only v<N>.metadata.json",
                table=dotted(identifier),
                path=location,
                next_step=f"register the table in a SQL catalog: register_table({dotted(identifier)!r}, {location!r}); "
                f"StaticTable.from_metadata({self.table_location(identifier)!r}) reads it",
            )

    def _require(self, namespace: Identifier) -> None:
        if self._folders.names(self.table_location(namespace)) is None or self._versions(namespace):
            raise namespace_missing(self.name, namespace, self.list_namespaces())

    def _refuse_properties(self, given: Mapping[str, str]) -> None:
        if given:
            raise UnsupportedFeatureError(
                f"catalog {self.name!r} keeps namespaces as folders, which have no properties: {', '.join(sorted(given))}",
                next_step="leave them out, or use a SQL catalog",
            )


def version_files(names: Iterable[str]) -> dict[int, str]:
    """Return the names of version files among the names in a table's metadata folder, by version number."""
    return {int(match[1]): match[0] for match in map(_VERSION.fullmatch, names) if match}


def file_of_hint(hint: bytes) -> str | None:
    """Return the metadata file whose name a version hint contains in place of a number; None for any other text."""
    match = _HINTED_FILE.fullmatch(hint.decode("utf-8", "replace").strip())
    return None if match is None else match[0] if match[1] else f"{match[0]}.metadata.json"


def outcome_of_version(published: str, content: bytes, newest: str, newest_content: bytes) -> Outcome:
    """Determine the outcome of a commit that created a version, if there is a newer version now.

    Others may have created and deleted a version with this number before. Then the metadata log in the newest file has a different time for this version, or
    lacks this version although the log begins before the attempt.

    Args:
        published: The location of the metadata file that the commit created.
        content: The content of that file.
        newest: The location of the newest metadata file.
        newest_content: The content of the newest metadata file.
    """
    log = list(read_table_metadata(newest_content, newest).metadata_log)
    made_ms = read_table_metadata(content, published).last_updated_ms
    name = published.rpartition("/")[2]
    times = [entry.timestamp_ms for entry in log if entry.metadata_file.rpartition("/")[2] == name]
    if times:
        return Committed(stored=(Stored(location=published),)) if times[-1] == made_ms else Conflicted(current_location=newest)
    if log and log[0].timestamp_ms < made_ms:
        return Conflicted(current_location=newest, reason="its metadata log lacks this version: others created newer versions before")
    return Conflicted(
        current_location=newest, is_reply_lost=True
    )  # the history of the newer versions shows whether they were built on this one


def _newest(folder: OpenFolder | None) -> str | None:
    versions = version_files(folder.names()) if folder is not None else {}
    return versions[max(versions)] if versions else None


def _write_hint(folder: OpenFolder, version: int) -> None:
    with suppress(StorageError, NoSuchFileError):  # the version is valid even if the hint is wrong
        folder.delete(HINT_CHECKSUM)
        folder.write(HINT, str(version).encode(), overwrite=True)


class _Identity(msgspec.Struct):
    table_uuid: str | None = msgspec.field(name="table-uuid", default=None)


def _uuid(content: bytes, location: str) -> str | None:
    """Return the uuid of the table in a metadata file; None if the file is damaged or has no uuid."""
    try:
        if content[:1] != b"{":
            return read_table_metadata(content, location).table_uuid
        return msgspec.json.decode(content, type=_Identity).table_uuid
    except (FormatError, UnsupportedError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _ending(location: str) -> str:
    return ".gz.metadata.json" if ".gz" in location.rpartition("/")[2] else ".metadata.json"
