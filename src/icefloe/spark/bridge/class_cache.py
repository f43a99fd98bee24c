"""The folder that caches compiled classes for later sessions. It is used only if no other user can have changed it.

The JVM's classes, and the jar for executors, run with the rights of this user. So the cache is used under three conditions: each folder above it belongs to
this user or to root, and no other user can replace its entries; the cache itself is accessible only to this user (mode 0700) and contains no links; and every
file has the SHA-256 that was recorded at its creation. Otherwise a session compiles the classes into a new folder of its own.
"""

import atexit
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from icefloe.errors import EngineError

DIGESTS = "digests.json"
_FOLDER_MODE, _FILE_MODE = 0o700, 0o600


class UnsafeCacheError(Exception):
    """Raised if another user may have changed the cache; the message has the reason."""


def cache_folder() -> Path:
    """Return the path of the cache folder: `$XDG_CACHE_HOME/icefloe` if the variable is set, otherwise `~/.cache/icefloe`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "icefloe"


def own_cache_folder() -> Path:
    """Return the cache folder. If it does not exist, create it with mode 0700.

    Raises:
        UnsafeCacheError: Another user can write to the folder or to a folder above it.
        OSError: The folder cannot be created.
    """
    folder = cache_folder().absolute()
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    for above in reversed(folder.parents):
        _check_above(above)
    _check_own(folder)
    folder.chmod(_FOLDER_MODE)
    return folder


def session_folder() -> Path:
    """Create a folder that only this process uses, and deletes when it ends.

    Raises:
        EngineError: Other users can change the entries of the folder for temporary files.
    """
    folder = Path(tempfile.mkdtemp(prefix="icefloe-classes-")).absolute()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        for above in reversed(folder.parents):
            _check_above(above)
    except UnsafeCacheError as error:
        raise EngineError(
            f"there is no folder for compiled classes that this user alone can write to: {error}",
            next_step="set TMPDIR, or XDG_CACHE_HOME, to a folder of your own",
        ) from error
    return folder


def seal(folder: Path) -> None:
    """Record the SHA-256 of every file in a new folder, and remove all rights of other users, so that `check_sealed` accepts the folder later."""
    digests = {}
    for path in _entries(folder):
        path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
        if path.is_file():
            digests[path.relative_to(folder).as_posix()] = _digest(path)
    folder.chmod(_FOLDER_MODE)
    (folder / DIGESTS).touch(mode=_FILE_MODE)
    (folder / DIGESTS).write_text(json.dumps(digests, indent=1, sort_keys=True), "utf-8")


def check_sealed(folder: Path) -> None:
    """Check that a folder contains exactly the sealed files, and that only this user can have changed them.

    Raises:
        UnsafeCacheError: The check failed; the message has the file.
    """
    _check_own(folder)
    try:
        names = set()
        for path in _entries(folder):
            _check_own(path)
            if not path.is_dir():
                names.add(path.relative_to(folder).as_posix())
        digests = json.loads((folder / DIGESTS).read_text("utf-8"))
        if not isinstance(digests, dict) or names != {DIGESTS, *digests}:
            raise UnsafeCacheError(f"{folder} does not contain exactly the files that were compiled")
        changed = sorted(name for name, digest in digests.items() if _digest(folder / name) != digest)
    except (OSError, ValueError, RecursionError) as error:
        raise UnsafeCacheError(f"{folder} cannot be checked: {error}") from error
    if changed:
        raise UnsafeCacheError(f"{folder / changed[0]} has changed since it was compiled")


def _check_above(path: Path) -> None:
    """Check that no other user can replace the cache by means of a folder above it, or of a link in its path. Raises `UnsafeCacheError`."""
    # The owner of the root folder counts as root, whose user id is not 0 in some containers.
    owners = {0, _user(), Path("/").stat().st_uid}
    target = path.stat()
    _check_owner(path, path.lstat(), owners)
    _check_owner(path, target, owners)
    if target.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not target.st_mode & stat.S_ISVTX:
        raise UnsafeCacheError(f"{path} can be written to by other users")
    if path.is_symlink():
        for above in path.resolve().parents:
            _check_above(above)


def _check_own(path: Path) -> None:
    """Check that the cache, or an entry of it, belongs to this user, is writable only for this user, and is no link. Raises `UnsafeCacheError`."""
    entry = path.lstat()
    if not (stat.S_ISDIR(entry.st_mode) or stat.S_ISREG(entry.st_mode)):
        raise UnsafeCacheError(f"{path} is a link, or neither a file nor a folder")
    _check_owner(path, entry, {_user()})
    if entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeCacheError(f"{path} can be written to by other users")


def _check_owner(path: Path, entry: os.stat_result, owners: set[int]) -> None:
    if entry.st_uid not in owners:
        raise UnsafeCacheError(f"{path} belongs to another user")


def _user() -> int:
    try:
        return os.geteuid()
    except AttributeError as error:  # On Windows, modes and owners do not show which users can write
        raise UnsafeCacheError("owners of files cannot be determined on this system") from error


def _entries(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files, links and folders in a folder and its subfolders; symbolic links are not followed."""
    with os.scandir(folder) as scan:
        entries = list(scan)
    for entry in entries:
        yield Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
