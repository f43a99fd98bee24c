"""Copy-on-write: one data file copied without the rows a filter deletes.

Which files are rewritten is the table's decision; reading is `read.py`, writing is `write.py`. Floor: datafile. Spec: Row-level Deletes (copy-on-write).
"""

from dataclasses import dataclass

from icefloe.kernel.manifest.data_file import DataFile


@dataclass(frozen=True, kw_only=True)
class RewrittenFile:
    """What became of one data file.

    `added` is empty where no row was kept, and also where no row was deleted: then the source stays in the table (`unchanged`).
    """

    source: DataFile
    added: tuple[DataFile, ...]
    kept_rows: int
    deleted_rows: int

    @property
    def unchanged(self) -> bool:
        """Whether the filter deleted nothing, so that the source file stays."""
        return self.deleted_rows == 0
