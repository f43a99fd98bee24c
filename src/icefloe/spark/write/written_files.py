"""Data files that Spark tasks wrote already, as the rows of a table's write: `table.append` and the other writes commit them."""

from dataclasses import dataclass

from icefloe.spec.manifest.data_file import DataFile


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Data files that are in the table's locations and have its current schema, spec and sort order."""

    files: tuple[DataFile, ...]
