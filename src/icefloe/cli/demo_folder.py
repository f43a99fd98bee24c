"""The folder of the demonstration: it is created, and an earlier demonstration in it is recognised and replaced."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from icefloe.catalog.catalog_loader import CATALOG_FILE
from icefloe.errors import AlreadyExistsError, StorageError, StoragePermissionError

MARK = "# Made by `icefloe demo`."
CATALOG_NAME = "lake"
NAMESPACE = "demo"
CONFIGURATION = "icefloe.yaml"
INPUT = "input"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder of the demonstration; `path` is absolute."""

    path: Path

    @property
    def uri(self) -> str:
        """The address of the catalog's database."""
        return f"sqlite:///{self.path / CATALOG_FILE}"

    @property
    def input(self) -> Path:
        """The folder of the files that are loaded."""
        return self.path / INPUT


def prepare(path: Path, *, replace: bool) -> DemoFolder:
    """Create the folder for the demonstration, with a configuration file by which `icefloe` finds its catalog.

    Args:
        path: The folder.
        replace: Delete the files of an earlier demonstration; other files in the folder are never touched.

    Raises:
        AlreadyExistsError: The folder contains an earlier demonstration, or other files with the names that it needs.
        StorageError: The folder cannot be created.
    """
    folder = DemoFolder(path.absolute())
    taken = [name for name in (CATALOG_FILE, CONFIGURATION, NAMESPACE, INPUT) if (folder.path / name).exists()]
    if taken and not _is_demonstration(folder):
        raise AlreadyExistsError(
            f"{path} contains {', '.join(taken)}, not from a demonstration", next_step="choose another folder with --dir"
        )
    if taken and not replace:
        raise AlreadyExistsError(
            f"{path} contains a demonstration already", next_step="add --replace to create it again, or choose another folder with --dir"
        )
    try:
        for name in taken:
            _delete(folder.path / name)
        folder.input.mkdir(parents=True)
        (folder.path / CONFIGURATION).write_text(_configuration(folder), encoding="utf-8")
    except PermissionError as error:
        raise StoragePermissionError(f"cannot write to {path}: {error.strerror}", next_step="choose another folder with --dir") from error
    except OSError as error:
        raise StorageError(f"cannot create {path}: {error.strerror}", next_step="choose another folder with --dir") from error
    return folder


def _is_demonstration(folder: DemoFolder) -> bool:
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
