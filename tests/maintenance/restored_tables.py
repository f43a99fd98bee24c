"""Tables with which many tests begin: each is written once in a process, and restored where it was written, because paths in it are absolute."""

import shutil
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

from icefloe import SqlCatalog
from icefloe.table import Table

Arguments = ParamSpec("Arguments")
# The folder of one test after the other: see `one_folder` in conftest.py.
ONE_FOLDER = "one-folder"


def written_once(make: Callable[Concatenate[Path, Arguments], Table]) -> Callable[Concatenate[Path, Arguments], Table]:
    """Let a function that writes the table `db.t` into an empty folder write it once for its arguments, and restore the folder from then on."""
    copies: dict[str, Path] = {}

    @wraps(make)
    def restored(folder: Path, *arguments: Arguments.args, **named: Arguments.kwargs) -> Table:
        if folder.name != ONE_FOLDER:
            return make(folder, *arguments, **named)
        key = f"{folder} {arguments} {sorted(named.items())}"
        copy = folder.with_name(f"{make.__module__}.{make.__name__}.{len(copies)}")
        if key not in copies:
            table = make(folder, *arguments, **named)
            shutil.copytree(folder, copy)
            copies[key] = copy
            return table
        shutil.copytree(copies[key], folder, dirs_exist_ok=True)
        return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder)).load_table("db.t")

    return restored
