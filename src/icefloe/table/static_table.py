"""`StaticTable`: a read-only table, opened from a metadata file without a catalog.

`icefloe.operations.loaded_table` reads the table; every change of `table_mutations.py` is refused. Spec: Table Metadata.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from icefloe.commit.attempt import Action
from icefloe.errors import ReadOnlyTableError
from icefloe.io.file_io_by_scheme import load_file_io
from icefloe.lazy_imports import lazy_module
from icefloe.operations.loaded_table import TableReader
from icefloe.operations.metadata_cache import read_metadata_at
from icefloe.operations.pending_change import CommitReport, MutationContext
from icefloe.operations.table_folder import metadata_file_of
from icefloe.table.table_mutations import TableMutations
from icefloe.table.transaction import Transaction

if TYPE_CHECKING:
    from icefloe.metadata_tables import table_inspection
    from icefloe.operations import column_statistics
else:
    table_inspection = lazy_module("icefloe.metadata_tables.table_inspection")
    column_statistics = lazy_module("icefloe.operations.column_statistics")


class StaticTable(TableReader, TableMutations):
    """A table that is opened from its metadata file, without a catalog: it never changes and cannot be written."""

    @classmethod
    def from_metadata(cls, metadata_location: str, properties: Mapping[str, str] | None = None) -> "StaticTable":
        """Open a table from a metadata file, or the newest version of a file-system table from its folder.

        Args:
            metadata_location: the metadata file, or the folder of a file-system table.
            properties: catalog properties, such as the credentials of the storage.

        Returns:
            The table.

        Raises:
            InvalidInputError: the folder is that of a table in a catalog: only the catalog determines which metadata file is current.
            NoSuchFileError: the file does not exist, or the folder contains no table.
            MetadataFormatError: the metadata file is damaged, or violates the format.
            UnsupportedFormatVersionError: Icefloe does not read this format version.
        """
        io = load_file_io(properties or {}, metadata_location, is_trusted=True)
        metadata_location = metadata_file_of(metadata_location, io)
        loaded = read_metadata_at(io, metadata_location)
        return cls(loaded, io, loaded.metadata.location.rstrip("/").rpartition("/")[2] or metadata_location)

    @property
    def inspect(self) -> "table_inspection.TableInspection":
        """The metadata tables of the table as Arrow, such as `table.inspect.files()`."""
        return table_inspection.TableInspection(self)

    @property
    def maintenance(self) -> NoReturn:
        """Refuse: a static table cannot be changed. Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def refresh(self) -> "StaticTable":
        """Refuse: a metadata file never changes.

        Raises:
            ReadOnlyTableError: always.
        """
        raise self._read_only("refreshed")

    def transaction(self) -> Transaction:
        """Refuse: a static table cannot be changed.

        Raises:
            ReadOnlyTableError: always.
        """
        raise self._read_only("changed")

    def compute_statistics(self, *_columns: Any, **_options: Any) -> "column_statistics.TableStatistics | None":
        """Refuse: a static table cannot be changed.

        Raises:
            ReadOnlyTableError: always.
        """
        raise self._read_only("changed")

    def compute_partition_statistics(self, *_options: Any, **_more: Any) -> Any:
        """Refuse: a static table cannot be changed.

        Raises:
            ReadOnlyTableError: always.
        """
        raise self._read_only("changed")

    def mutation_context(self) -> MutationContext:
        """Refuse: a static table cannot be changed. Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def apply(self, action: Action, afterwards: Callable[[], Any] | None = None) -> CommitReport:  # noqa: ARG002
        """Refuse: a static table cannot be changed. Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def _read_only(self, verb: str) -> ReadOnlyTableError:
        return ReadOnlyTableError(
            f"a table opened by its metadata file cannot be {verb}",
            path=self.metadata_location,
            next_step="open it through its catalog, or register it in one with catalog.register_table(name, metadata_location)",
        )
