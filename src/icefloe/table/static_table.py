"""`StaticTable`: a table by a metadata file alone, read-only.

What can be read of it is `table_reader.py`. Spec: Table Metadata.
"""

from collections.abc import Callable, Mapping
from typing import Any

from icefloe.errors import ReadOnlyTableError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.kernel.commit.attempt import Action
from icefloe.table.changes.metadata_mutations import MetadataMutations
from icefloe.table.changes.mutation_context import MutationContext, R
from icefloe.table.changes.ref_mutations import RefMutations
from icefloe.table.changes.row_mutations import RowMutations
from icefloe.table.column_statistics import TableStatistics
from icefloe.table.expiry.expire_snapshots import ExpiresSnapshots
from icefloe.table.rows.table_writes import PreparedWrite
from icefloe.table.table_folder import metadata_file_of
from icefloe.table.table_handle import read_metadata_at
from icefloe.table.table_reader import TableReader
from icefloe.table.transaction import Transaction
from icefloe.table.write_result import WriteResult


class StaticTable(TableReader, RowMutations, MetadataMutations, RefMutations, ExpiresSnapshots):
    """A table opened by its metadata file, with no catalog: it never changes and cannot be written."""

    @classmethod
    def from_metadata(cls, metadata_location: str, properties: Mapping[str, str] | None = None) -> "StaticTable":
        """Opens any Iceberg table by the location of a metadata file; a file-system table also by its folder, at the newest version.

        Raises:
            InvalidInputError: the folder of a table that is in a catalog: only the catalog knows which of its files is the table.
            NoSuchFileError: There is no such file, or the folder holds no table.
            MetadataFormatError: The metadata file is damaged, or violates the format.
            UnsupportedFormatVersionError: The format version is none that Icefloe reads and writes.
        """
        io = load_file_io(properties or {}, metadata_location, is_trusted=True)
        metadata_location = metadata_file_of(metadata_location, io)
        loaded = read_metadata_at(io, metadata_location)
        return cls(loaded, io, loaded.metadata.location.rstrip("/").rpartition("/")[2] or metadata_location)

    def refresh(self) -> "StaticTable":
        """Raises `ReadOnlyTableError`: a metadata file never changes."""
        raise self._read_only("refreshed")

    def transaction(self) -> Transaction:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def compute_statistics(self, *_columns: Any, **_options: Any) -> TableStatistics | None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def compute_partition_statistics(self, *_options: Any, **_more: Any) -> Any:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def _start(self) -> MutationContext:
        raise self._read_only("changed")

    def _commit(self, action: Action) -> None:  # noqa: ARG002
        raise self._read_only("changed")

    def _commit_then(self, action: Action, afterwards: Callable[[], R]) -> R | None:  # noqa: ARG002
        raise self._read_only("changed")

    def _write(self, write: PreparedWrite) -> WriteResult:  # noqa: ARG002
        raise self._read_only("changed")

    def _read_only(self, verb: str) -> ReadOnlyTableError:
        return ReadOnlyTableError(
            f"a table opened by its metadata file cannot be {verb}",
            path=self.metadata_location,
            next_step="open it through its catalog, or register it in one with catalog.register_table(name, metadata_location)",
        )
