"""Texts that an attacker writes into cells, names and messages so that Icefloe takes them for the error of a task."""

import base64
import os
import pickle
from itertools import count
from pathlib import Path


class MakesFolder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._folder),)


def pickled_attack(folder: Path) -> str:
    """Return a text that makes a folder where its pickle is loaded; it has no slash, so that it can be the name of a file too."""
    for number in count():
        packed = base64.b64encode(pickle.dumps((MakesFolder(folder), number), protocol=4)).decode()
        if "/" not in packed:
            return f"icefloe-error[{packed}]"
    raise AssertionError
