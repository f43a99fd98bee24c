"""Data files that tasks wrote already, as rows of a table's writes: what `table.append` and the others commit without writing anything."""

from dataclasses import dataclass

from icefloe.kernel.manifest.data_file import DataFile


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """The files, which lie under the table's own locations, in its newest form."""

    files: tuple[DataFile, ...]
