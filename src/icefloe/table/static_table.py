"""`StaticTable`: a table by a metadata file alone, read-only.

What can be read of it is `TableReader` in `table.py`. Floor: table. Spec: Table Metadata.
"""

from collections.abc import Mapping
from typing import Any

from icefloe.errors import ReadOnlyTableError
from icefloe.io.choose import load_file_io
from icefloe.table.handle import read_metadata_at
from icefloe.table.result import WriteResult
from icefloe.table.statistics import TableStatistics
from icefloe.table.table import TableReader
from icefloe.table.transaction import Transaction
from icefloe.table.update_layout import UpdateSortOrder, UpdateSpec
from icefloe.table.update_schema import UpdateSchema
from icefloe.table.update_statistics import UpdateStatistics


class StaticTable(TableReader):
    """A table opened by its metadata file, with no catalog: it never changes and cannot be written."""

    @classmethod
    def from_metadata(cls, metadata_location: str, properties: Mapping[str, str] | None = None) -> "StaticTable":
        """Opens any Iceberg table by the location of a metadata file.

        Raises:
            NoSuchFileError, MetadataFormatError, UnsupportedFormatVersionError
        """
        io = load_file_io(properties or {}, metadata_location)
        loaded = read_metadata_at(io, metadata_location)
        return cls(loaded, io, loaded.metadata.location.rstrip("/").rpartition("/")[2] or metadata_location)

    def refresh(self) -> "StaticTable":
        """Raises `ReadOnlyTableError`: a metadata file never changes."""
        raise self._read_only("refreshed")

    def append(self, *_rows: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def delete(self, *_filter: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def overwrite(self, *_rows: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def delete_keys(self, *_rows: Any, **_options: Any) -> WriteResult:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("written")

    def update_statistics(self) -> UpdateStatistics:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def upgrade_table_version(self, *_version: int) -> None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def update_schema(self, *_options: Any, **_more: Any) -> UpdateSchema:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def update_spec(self, *_options: Any, **_more: Any) -> UpdateSpec:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def update_sort_order(self, *_options: Any, **_more: Any) -> UpdateSortOrder:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def replace_sort_order(self, *_options: Any, **_more: Any) -> UpdateSortOrder:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def transaction(self) -> Transaction:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def set_properties(self, *_properties: Any, **_more: Any) -> None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def remove_properties(self, *_names: str) -> None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def compute_statistics(self, *_columns: Any, **_options: Any) -> TableStatistics | None:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def compute_partition_statistics(self, *_options: Any, **_more: Any) -> Any:
        """Raises `ReadOnlyTableError`."""
        raise self._read_only("changed")

    def _read_only(self, verb: str) -> ReadOnlyTableError:
        return ReadOnlyTableError(
            f"a table opened by its metadata file cannot be {verb}",
            path=self.metadata_location,
            next_step="open it through its catalog, or register it in one with catalog.register_table(name, metadata_location)",
        )
