"""Finds the current metadata file of a table in its folder: the newest version of a file-system table, or the file that a version hint names.

A local folder of a table of any other kind of catalog is refused. `icefloe.stores.file_system_store` writes the versions.
Spec: File System Tables; Metastore Tables.
"""

from icefloe.errors import InvalidInputError, NoSuchFileError
from icefloe.io.local_folders import LocalFolders
from icefloe.io.locations import join, scheme_of
from icefloe.spec.metadata.naming import metadata_version
from icefloe.spec.ports import FileIO
from icefloe.stores.file_system_store import HINT, file_of_hint, version_files


def metadata_file_of(location: str, io: FileIO) -> str:
    """Return the location of a table's current metadata file.

    Local folders are listed, so that the version hint is not needed. In other storages the search for the newest version begins at the version hint.

    Args:
        location: a metadata file, which is returned itself; or the folder of a file-system table, or the `metadata` folder in it.
        io: the storage of the location.

    Raises:
        InvalidInputError: a local folder belongs to a table of a catalog, or to no table.
    """
    if scheme_of(location) == "file":
        return _in_local_folder(location.rstrip("/") or "/", io)
    return location if ".json" in location.rpartition("/")[2] else _by_hint(location.rstrip("/"), io) or location


def _in_local_folder(location: str, io: FileIO) -> str:
    folders = LocalFolders()
    if folders.names(location) is None:
        return location
    listed = {folder: folders.names(folder) for folder in (join(location, "metadata"), location)}
    files_by_folder = {folder: names[1] for folder, names in listed.items() if names is not None}
    for folder, names in files_by_folder.items():
        versions = version_files(names)
        # A file with a higher version than the next cannot be an attempt of a file-system writer: the table is committed through a catalog.
        if versions and _newest_number(names) <= max(versions) + 1:
            return join(folder, versions[max(versions)])
        if not versions and HINT in names and (file := file_of_hint(io.read(join(folder, HINT)))) in names:
            return join(folder, str(file))
    others = [join(folder, name) for folder, names in files_by_folder.items() for name in names if ".metadata.json" in name]
    newest = max(others, key=lambda name: (metadata_version(name) or 0, name), default=None)
    raise InvalidInputError(
        f"{location} is a folder, not a metadata file, and only a catalog determines which of its files is current",
        path=location,
        next_step=f"load the table by its name, or name a file: the newest is {newest}, which may be one of a commit that failed"
        if newest
        else "name a file that ends in .metadata.json",
    )


def _newest_number(names: list[str]) -> int:
    return max((metadata_version(name) or 0 for name in names), default=0)


def _by_hint(location: str, io: FileIO) -> str | None:
    """Return the newest metadata file, searched upwards from the version in the hint, because the hint is written after its version. None without a hint."""
    for folder in (join(location, "metadata"), location):
        try:
            hint = io.read(join(folder, HINT)).strip()
        except NoSuchFileError:
            continue
        if hint.isdigit():
            return _newest_from(folder, int(hint), io)
        if (file := file_of_hint(hint)) is not None:
            return join(folder, file)
    return None


def _newest_from(folder: str, version: int, io: FileIO) -> str | None:
    newest = None
    while location := next((name for name in _names(folder, version) if io.exists(name)), None):
        newest, version = location, version + 1
    return newest


def _names(folder: str, version: int) -> list[str]:
    return [join(folder, f"v{version}{ending}") for ending in (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")]
