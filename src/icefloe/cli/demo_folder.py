"""The folder of the demonstration: made, recognised, and made anew."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from icefloe.cli.catalog_choice import CATALOG_FILE
from icefloe.errors import AlreadyExistsError, StorageError, StoragePermissionError

MARK = "# Made by `icefloe demo`."
CATALOG_NAME = "lake"
NAMESPACE = "demo"
CONFIGURATION = "icefloe.yaml"
INPUT = "input"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """Where everything of the demonstration is; `path` is absolute."""

    path: Path

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.path / CATALOG_FILE}"

    @property
    def input(self) -> Path:
        """The files that are loaded."""
        return self.path / INPUT


def prepare(path: Path, *, replace: bool) -> DemoFolder:
    """An empty folder for the demonstration, with a configuration file by which `icefloe` finds its catalog.

    Of an earlier demonstration everything is deleted where `replace` is true; nothing else in the folder is touched.

    Raises:
        AlreadyExistsError: there is an earlier demonstration, or something of another origin in its place.
        StorageError: the folder cannot be made.
    """
    folder = DemoFolder(path.absolute())
    taken = [name for name in (CATALOG_FILE, CONFIGURATION, NAMESPACE, INPUT) if (folder.path / name).exists()]
    if taken and not _is_ours(folder):
        raise AlreadyExistsError(
            f"{path} holds {', '.join(taken)}, and not from a demonstration", next_step="choose another folder with --dir"
        )
    if taken and not replace:
        raise AlreadyExistsError(
            f"{path} holds a demonstration already", next_step="add --replace to make it anew, or choose another folder with --dir"
        )
    try:
        for name in taken:
            _delete(folder.path / name)
        folder.input.mkdir(parents=True)
        (folder.path / CONFIGURATION).write_text(_configuration(folder), encoding="utf-8")
    except PermissionError as error:
        raise StoragePermissionError(f"{path} cannot be written: {error.strerror}", next_step="choose another folder with --dir") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be made: {error.strerror}", next_step="choose another folder with --dir") from error
    return folder


def _is_ours(folder: DemoFolder) -> bool:
    configuration = folder.path / CONFIGURATION
    return configuration.is_file() and configuration.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _configuration(folder: DemoFolder) -> str:
    return (
        f"{MARK} With ICEFLOE_HOME={folder.path}, or from this folder, `icefloe tree demo.events` finds the catalog.\n"
        f"default-catalog: {CATALOG_NAME}\n"
        f"catalog:\n  {CATALOG_NAME}:\n    uri: {folder.uri}\n    warehouse: {folder.path}\n"
    )
