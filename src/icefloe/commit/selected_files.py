"""`SelectedFiles`: the live files that a commit removes by a rule instead of by name: files in which all rows match a filter, or all files of some partitions.

Only manifests are read. A file in which some, but not all, rows match is refused, because it would have to be rewritten (`operations/rows/replace_rows.py`).
JAVA: ManifestFilterManager.deleteByRowFilter, dropPartition.
Spec: Scan Planning, strict evaluation; Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icefloe.commit.added_deletes import partition_key
from icefloe.commit.attempt import Read
from icefloe.commit.file_changes import DeleteKey, FileChanges
from icefloe.commit.live_entries import live_entries, may_contain_partitions, partitions_of
from icefloe.commit.new_manifest import NewManifest
from icefloe.errors import CommitInvalidatedError, InvalidFilterError, InvalidInputError, Problem
from icefloe.scan.pruning import FileMetricsEvaluator, ScanContext, manifest_mask, required_statistics
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import AlwaysFalse
from icefloe.spec.manifest.manifest_columns import ManifestColumns
from icefloe.spec.manifest.manifest_reader import read_columns
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot_manifests import spec_partition_type
from icefloe.spec.metadata.table_metadata import TableMetadata


class SelectedFiles:
    """Finds the files that a commit removes by a row filter or by partition, in the metadata of one attempt."""

    def __init__(self, base: TableMetadata, changes: FileChanges, first_base: TableMetadata) -> None:
        """Bind the row filter to the schema of the base.

        Args:
            base: the current metadata of the table.
            changes: the row filter and the dropped partitions.
            first_base: the base of the commit's first attempt; files missing from it were added by other writers.

        Raises:
            InvalidFilterError: the filter is not valid for the schema of the table.
            CommitInvalidatedError: the filter was valid for the schema of the first attempt, and is not valid for the current schema.
        """
        self._base = base
        self._changes = changes
        self._first_base = first_base
        self._scan_context = None if changes.row_filter is None else self._bind_filter()

    def _bind_filter(self) -> ScanContext:
        schema, changes = self._base.schema(), self._changes
        assert changes.row_filter is not None  # noqa: S101  checked by the caller
        try:
            bound = bind(changes.row_filter, schema, changes.case_sensitive)
        except InvalidFilterError as error:
            if self._base is self._first_base:
                raise
            raise CommitInvalidatedError(
                f"the filter of the rows to delete is not valid for the current schema of the table: {error.message}",
                problems=(
                    Problem(where="expected", what=f"a filter of the table's columns: {changes.row_filter}"),
                    Problem(where="found", what=f"schema {schema.schema_id}: {error.message}"),
                ),
                next_step="a retry will fail again: the schema was changed by another commit; write the filter for the current schema",
            ) from error
        return ScanContext(
            metadata=self._base, schema=schema, bound=bound, explain=False, include_statistics=False, find_covered=True, every_delete=True
        )

    def select(self, manifest: ManifestFile, read: Read) -> frozenset[DeleteKey]:
        """Return the keys of the files of a manifest to remove.

        Delete files are selected by their partition only: if all rows of the partition match, the rows that the deletes apply to are removed as well.

        Raises:
            InvalidInputError: some, but not all, rows of a data file match the filter.
            CommitInvalidatedError: some, but not all, rows match in a file that another writer added since the first attempt of the commit.
        """
        may_match = self._may_match(manifest)
        if not may_match and not may_contain_partitions(self._base, manifest, self._changes.dropped_partitions):
            return frozenset()
        context, is_data = self._scan_context, manifest.content is ManifestContent.DATA
        spec = None if context is None else context.specs[manifest.partition_spec_id]
        statistics = (
            () if context is None or spec is None or not is_data else required_statistics(context.bound, spec, context.schema, strict=True)
        )
        entries = live_entries(self._base, manifest, read, statistics).combine_chunks()
        selected = self._dropped_mask(manifest, entries)
        if context is not None and spec is not None:
            evaluator = FileMetricsEvaluator(ManifestColumns(entries), context.bound, spec, context.schema)
            self._refuse_partial_matches(entries, evaluator.may_match & ~evaluator.must_match & ~selected & is_data)
            selected |= evaluator.may_match & evaluator.must_match
        if not selected.any():
            return frozenset()
        offsets = [None] * entries.num_rows if is_data else entries["content_offset"].to_pylist()
        keys: Sequence[DeleteKey] = list(zip(entries["file_path"].to_pylist(), offsets, strict=True))
        return frozenset(keys[row] for row in np.flatnonzero(selected).tolist())

    def _may_match(self, manifest: ManifestFile) -> bool:
        context = self._scan_context
        return context is not None and bool(manifest_mask([manifest], context.bound, context.specs, context.schema)[0])

    def _dropped_mask(self, manifest: ManifestFile, entries: Any) -> Mask:
        dropped = {partition_key(partition) for partition in self._changes.dropped_partitions}
        if not dropped:
            return np.zeros(entries.num_rows, dtype=bool)
        spec_id = manifest.partition_spec_id
        entry_partitions = partitions_of(entries, spec_partition_type(self._base, spec_id))
        return np.array([partition_key((spec_id, values)) in dropped for values in entry_partitions], dtype=bool)

    def _refuse_partial_matches(self, entries: Any, partial_matches: Mask) -> None:
        if not partial_matches.any():
            return
        row = int(np.argmax(partial_matches))
        path, snapshot_id = entries["file_path"][row].as_py(), entries["snapshot_id"][row].as_py()
        message = f"cannot delete file where some, but not all, rows match {self._changes.row_filter}: {path}"
        if self._first_base.snapshot_by_id(snapshot_id) is None:
            raise CommitInvalidatedError(
                f"{message}; snapshot {snapshot_id} added it while this commit was prepared",
                path=path,
                snapshot_id=snapshot_id,
                problems=(
                    Problem(where="expected", what=f"all rows of a live file match {self._changes.row_filter}, or none of them"),
                    Problem(
                        where="found",
                        what=f"{path}, of which some may match, added by snapshot {snapshot_id}{self._operation(snapshot_id)}",
                    ),
                ),
                next_step="a retry will fail again: delete the rows with table.delete(...), which rewrites such files",
            )
        raise InvalidInputError(
            message, path=path, snapshot_id=snapshot_id, next_step="delete the rows with table.delete(...), which rewrites such files"
        )

    def _operation(self, snapshot_id: int) -> str:
        snapshot = self._base.snapshot_by_id(snapshot_id)
        return "" if snapshot is None or snapshot.operation is None else f" ({snapshot.operation})"


def check_added_match(base: TableMetadata, changes: FileChanges, written: Sequence[NewManifest]) -> None:
    """Check that all rows of added data files match the row filter, by the partition and statistics of each file.

    Args:
        base: the table.
        changes: the changes, with the row filter.
        written: the new manifests with the added files.

    Raises:
        InvalidInputError: a data file may contain a row that does not match.
    """
    context = ScanContext(
        metadata=base,
        schema=base.schema(),
        bound=bind(changes.row_filter or AlwaysFalse(), base.schema(), changes.case_sensitive),
        explain=False,
        include_statistics=False,
        find_covered=True,
        every_delete=True,
    )
    for file, manifest in written:
        if manifest.content is not ManifestContent.DATA:
            continue
        spec = context.specs[manifest.partition_spec_id]
        statistics = required_statistics(context.bound, spec, context.schema, strict=True)
        columns = read_columns(file.content, manifest, context.partition_types[manifest.partition_spec_id], statistics=statistics)
        may_not_match = ~FileMetricsEvaluator(columns, context.bound, spec, context.schema).must_match
        if may_not_match.any():
            path = columns.entries["file_path"][int(np.argmax(may_not_match))].as_py()
            raise InvalidInputError(
                f"the added file {path} may contain rows that do not match the overwrite filter {changes.row_filter}",
                path=path,
                next_step="add only files of which all rows match, by their partition or by the bounds in their metrics",
            )
