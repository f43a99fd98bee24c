"""`FileCounts`: how much some data files of a plan are.

Spec: none.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCounts:
    """Some data files of a plan: how many, their bytes, and their rows before deletes."""

    files: int = 0
    bytes: int = 0
    records: int = 0

    def __add__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files + other.files, bytes=self.bytes + other.bytes, records=self.records + other.records)

    def __sub__(self, other: "FileCounts") -> "FileCounts":
        return FileCounts(files=self.files - other.files, bytes=self.bytes - other.bytes, records=self.records - other.records)


NO_FILES = FileCounts()
