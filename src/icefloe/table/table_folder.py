"""Which metadata file is meant by the folder of a table: the newest version of a file-system table, and none of any other, since its catalog alone knows.

How versions come into being is `icefloe.catalog_store.file_system_store`. Spec: File System Tables; Metastore Tables.
"""

from icefloe.catalog_store.file_system_store import HINT, version_files
from icefloe.errors import InvalidInputError, NoSuchFileError
from icefloe.io.local_folders import LocalFolders
from icefloe.io.locations import join, scheme_of
from icefloe.kernel.metadata.naming import metadata_version
from icefloe.kernel.ports import FileIO


def metadata_file_of(location: str, io: FileIO) -> str:
    """The metadata file at a location, or in it where it is the folder of a file-system table or that table's `metadata` folder.

    Local folders are listed, and the hint is not needed; where nothing lists files, the hint says where to begin, and versions are looked for from there on.

    Raises:
        InvalidInputError: a folder whose table is in a catalog, or that holds no table.
    """
    if scheme_of(location) == "file":
        return _in_local_folder(location.rstrip("/") or "/")
    return location if ".json" in location.rpartition("/")[2] else _by_hint(location.rstrip("/"), io) or location


def _in_local_folder(location: str) -> str:
    folders = LocalFolders()
    if folders.names(location) is None:
        return location
    listed = {folder: folders.names(folder) for folder in (join(location, "metadata"), location)}
    found = {folder: inside[1] for folder, inside in listed.items() if inside is not None}
    for folder, names in found.items():
        versions = version_files(names)
        # A file beyond the next version is no try of a writer to this folder: the table has moved on in a catalog.
        if versions and _newest_number(names) <= max(versions) + 1:
            return join(folder, versions[max(versions)])
    others = [join(folder, name) for folder, names in found.items() for name in names if ".metadata.json" in name]
    newest = max(others, key=lambda name: (metadata_version(name) or 0, name), default=None)
    raise InvalidInputError(
        f"{location} is a folder, not a metadata file, and which of its files is the table only a catalog can say",
        path=location,
        next_step=f"load the table by its name, or name a file: the newest is {newest}, which may be one of a commit that failed"
        if newest
        else "name a file that ends in .metadata.json",
    )


def _newest_number(names: list[str]) -> int:
    return max((metadata_version(name) or 0 for name in names), default=0)


def _by_hint(location: str, io: FileIO) -> str | None:
    """From the version of the hint on upwards, since a hint is written after its version and can be old; None where there is no hint."""
    for folder in (join(location, "metadata"), location):
        try:
            hint = io.read(join(folder, HINT)).strip()
        except NoSuchFileError:
            continue
        if hint.isdigit():
            return _newest_from(folder, int(hint), io)
    return None


def _newest_from(folder: str, version: int, io: FileIO) -> str | None:
    newest = None
    while found := next((name for name in _names(folder, version) if io.exists(name)), None):
        newest, version = found, version + 1
    return newest


def _names(folder: str, version: int) -> list[str]:
    return [join(folder, f"v{version}{ending}") for ending in (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")]
