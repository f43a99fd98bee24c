"""`table.inspect`: the metadata tables as Arrow, with the method names of PyIceberg and the rows and columns of Java's metadata tables."""

from typing import Any

from icefloe.checks.validation import Validation, validate_loaded
from icefloe.errors import in_one_line
from icefloe.formatting import short_text
from icefloe.metadata_tables.metadata_table_registry import metadata_table
from icefloe.operations.loaded_table import TableReader
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.expressions.row_filter import to_expression
from icefloe.spec.temporal_arrays import as_numbers


class TableInspection:
    """The metadata tables of a table, each as a `pyarrow.Table`.

    Methods without the parameter `snapshot_id` return rows of the whole table. All methods raise the errors of `MetadataTable.to_arrow`.
    """

    def __init__(self, tbl: TableReader) -> None:
        self.tbl = tbl

    def __repr__(self) -> str:
        return in_one_line(f"TableInspection({short_text(self.tbl.full_name)}: metadata tables as Arrow, such as files() and snapshots())")

    def snapshots(self) -> Any:
        """Return the snapshots."""
        return self._rows("snapshots")

    def history(self) -> Any:
        """Return the snapshot log: each snapshot that became current, and the time."""
        return self._rows("history")

    def refs(self) -> Any:
        """Return branches and tags."""
        return self._rows("refs")

    def metadata_log_entries(self) -> Any:
        """Return the earlier metadata files that are still in the log, and the current metadata file."""
        return self._rows("metadata_log_entries")

    def partitions(
        self, snapshot_id: int | None = None, row_filter: str | BooleanExpression | None = None, case_sensitive: bool = True
    ) -> Any:
        """Return the partitions with their counts of rows and files.

        Args:
            snapshot_id: the snapshot; the current one by default.
            row_filter: a filter on the table's columns; partitions that it excludes are left out.
            case_sensitive: whether the filter's column names match exactly.
        """
        expression = AlwaysTrue() if row_filter is None else to_expression(row_filter)
        rows = self._rows("partitions", snapshot_id)
        return rows if isinstance(expression, AlwaysTrue) else self._of_filter(rows, expression, snapshot_id, case_sensitive)

    def entries(self, snapshot_id: int | None = None) -> Any:
        """Return the entries of the manifests of a snapshot.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("entries", snapshot_id)

    def files(self, snapshot_id: int | None = None) -> Any:
        """Return the live data and delete files of a snapshot.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("files", snapshot_id)

    def data_files(self, snapshot_id: int | None = None) -> Any:
        """Return the live data files of a snapshot.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("data_files", snapshot_id)

    def delete_files(self, snapshot_id: int | None = None) -> Any:
        """Return the live delete files of a snapshot.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("delete_files", snapshot_id)

    def manifests(self, snapshot_id: int | None = None) -> Any:
        """Return the manifests of a snapshot.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("manifests", snapshot_id)

    def position_deletes(self, snapshot_id: int | None = None) -> Any:
        """Return the positions that delete files and deletion vectors of a snapshot delete.

        Args:
            snapshot_id: the snapshot; the current one by default.
        """
        return self._rows("position_deletes", snapshot_id)

    def all_files(self) -> Any:
        """Return the data and delete files of every snapshot."""
        return self._rows("all_files")

    def all_data_files(self) -> Any:
        """Return the data files of every snapshot."""
        return self._rows("all_data_files")

    def all_delete_files(self) -> Any:
        """Return the delete files of every snapshot."""
        return self._rows("all_delete_files")

    def all_manifests(self) -> Any:
        """Return the manifests of every snapshot."""
        return self._rows("all_manifests")

    def all_entries(self) -> Any:
        """Return the manifest entries of every snapshot."""
        return self._rows("all_entries")

    def validate(self, **options: Any) -> Validation:
        """Find violations of the specification in the table's metadata and files. See `icefloe.inspect.validate`.

        Args:
            **options: the keyword arguments of `icefloe.inspect.validate`, such as `current_only=True` or `data=True`.

        Returns:
            The violations, as `icefloe.inspect.validate` returns them.
        """
        return validate_loaded(self.tbl, **options)

    def _rows(self, name: str, snapshot_id: int | None = None) -> Any:
        return metadata_table(self.tbl, name).to_arrow(snapshot_id=snapshot_id)

    def _of_filter(self, rows: Any, expression: BooleanExpression, snapshot_id: int | None, case_sensitive: bool) -> Any:
        """Return the rows of `partitions` whose partition has a data file that a scan with the filter would read."""
        scan = self.tbl.scan(expression, case_sensitive=case_sensitive, snapshot_id=snapshot_id)
        planned = {task.file.file_path for task in scan.plan_files()}
        files = self._rows("files", snapshot_id)
        kept = {
            (spec_id, str(partition))
            for path, spec_id, partition in zip(
                files["file_path"].to_pylist(), files["spec_id"].to_pylist(), as_numbers(files["partition"]).to_pylist(), strict=True
            )
            if path in planned
        }
        mask = [
            (spec_id, str(partition)) in kept
            for spec_id, partition in zip(rows["spec_id"].to_pylist(), as_numbers(rows["partition"]).to_pylist(), strict=True)
        ]
        return rows.filter(mask)
