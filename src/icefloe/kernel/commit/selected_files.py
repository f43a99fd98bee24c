"""`SelectedFiles`: the live files that a commit removes by a rule instead of by name: those of which every row matches a filter, or those of some partitions.

Nothing but manifests is read: a file of which only some rows match is refused, since taking those out means writing it anew (`table/rows/replace_rows.py`).
Spec: Scan Planning, strict evaluation; Commit Conflict Resolution and Retry.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icefloe.errors import CommitInvalidatedError, InvalidFilterError, InvalidInputError, Problem
from icefloe.kernel.commit.added_deletes import partition_key
from icefloe.kernel.commit.attempt import Read
from icefloe.kernel.commit.file_changes import DeleteKey, FileChanges
from icefloe.kernel.commit.live_entries import live_entries, may_hold, partitions_of
from icefloe.kernel.commit.new_manifest import NewManifest
from icefloe.kernel.expressions.bind import bind
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.predicate import AlwaysFalse
from icefloe.kernel.manifest.manifest_columns import ManifestColumns
from icefloe.kernel.manifest.manifest_reader import read_columns
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.manifests import spec_partition_type
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.prune_files import FileMetricsEvaluator, required_statistics
from icefloe.kernel.scan.prune_manifests import manifest_mask
from icefloe.kernel.scan.scan_context import ScanContext


class SelectedFiles:
    """The selection of one commit on one base. `first` is the base of the commit's first attempt: what is not in it, others added meanwhile.

    Raises:
        InvalidFilterError: the filter does not fit the table's schema.
    """

    def __init__(self, base: TableMetadata, changes: FileChanges, first: TableMetadata) -> None:
        self._base = base
        self._changes = changes
        self._first = first
        self._question = None if changes.row_filter is None else self._asked()

    def _asked(self) -> ScanContext:
        schema, changes = self._base.schema(), self._changes
        assert changes.row_filter is not None  # noqa: S101  asked only then
        try:
            bound = bind(changes.row_filter, schema, changes.case_sensitive)
        except InvalidFilterError as error:
            if self._base is self._first:
                raise
            raise CommitInvalidatedError(
                f"the filter of the rows to delete does not fit the table any longer: {error.message}",
                problems=(
                    Problem(where="expected", what=f"a filter of the table's columns: {changes.row_filter}"),
                    Problem(where="found", what=f"schema {schema.schema_id}: {error.message}"),
                ),
                next_step="a retry will fail again: the schema was changed meanwhile; write the filter for the schema as it is now",
            ) from error
        return ScanContext(
            metadata=self._base, schema=schema, bound=bound, explain=False, include_statistics=False, find_covered=True, every_delete=True
        )

    def of(self, manifest: ManifestFile, read: Read) -> frozenset[DeleteKey]:
        """The files of a manifest to remove.

        Delete files go by their partition alone: one whose rows all match deletes rows that go as well.

        Raises:
            InvalidInputError: of a data file some rows, but not all, match the filter.
            CommitInvalidatedError: so it is with a file that another writer added since the commit's first attempt.
        """
        in_filter, in_partitions = self._may_match(manifest), may_hold(self._base, manifest, self._changes.dropped_partitions)
        if not in_filter and not in_partitions:
            return frozenset()
        asked, is_data = self._question, manifest.content is ManifestContent.DATA
        spec = None if asked is None else asked.specs[manifest.partition_spec_id]
        statistics = (
            () if asked is None or spec is None or not is_data else required_statistics(asked.bound, spec, asked.schema, strict=True)
        )
        entries = live_entries(self._base, manifest, read, statistics).combine_chunks()
        chosen = self._dropped(manifest, entries)
        if asked is not None and spec is not None:
            test = FileMetricsEvaluator(ManifestColumns(entries), asked.bound, spec, asked.schema)
            self._refuse_parts(entries, test.may_match & ~test.must_match & ~chosen & is_data)
            chosen |= test.may_match & test.must_match
        if not chosen.any():
            return frozenset()
        offsets = [None] * entries.num_rows if is_data else entries["content_offset"].to_pylist()
        keys: Sequence[DeleteKey] = list(zip(entries["file_path"].to_pylist(), offsets, strict=True))
        return frozenset(keys[row] for row in np.flatnonzero(chosen).tolist())

    def _may_match(self, manifest: ManifestFile) -> bool:
        asked = self._question
        return asked is not None and bool(manifest_mask([manifest], asked.bound, asked.specs, asked.schema)[0])

    def _dropped(self, manifest: ManifestFile, entries: Any) -> Mask:
        dropped = {partition_key(partition) for partition in self._changes.dropped_partitions}
        if not dropped:
            return np.zeros(entries.num_rows, dtype=bool)
        spec_id = manifest.partition_spec_id
        found = partitions_of(entries, spec_partition_type(self._base, spec_id))
        return np.array([partition_key((spec_id, values)) in dropped for values in found], dtype=bool)

    def _refuse_parts(self, entries: Any, partly: Mask) -> None:
        if not partly.any():
            return
        row = int(np.argmax(partly))
        path, snapshot_id = entries["file_path"][row].as_py(), entries["snapshot_id"][row].as_py()
        message = f"cannot delete file where some, but not all, rows match {self._changes.row_filter}: {path}"
        if self._first.snapshot_by_id(snapshot_id) is None:
            raise CommitInvalidatedError(
                f"{message}; snapshot {snapshot_id} added it while this commit was prepared",
                path=path,
                snapshot_id=snapshot_id,
                problems=(
                    Problem(where="expected", what=f"of every live file all rows match {self._changes.row_filter}, or none"),
                    Problem(
                        where="found",
                        what=f"{path}, of which some may match, added by snapshot {snapshot_id}{self._operation(snapshot_id)}",
                    ),
                ),
                next_step="a retry will fail again: delete the rows with table.delete(...), which writes such files anew",
            )
        raise InvalidInputError(
            message, path=path, snapshot_id=snapshot_id, next_step="delete the rows with table.delete(...), which writes such files anew"
        )

    def _operation(self, snapshot_id: int) -> str:
        snapshot = self._base.snapshot_by_id(snapshot_id)
        return "" if snapshot is None or snapshot.operation is None else f" ({snapshot.operation})"


def check_added_match(base: TableMetadata, changes: FileChanges, written: Sequence[NewManifest]) -> None:
    """Raises `InvalidInputError` where a data file of the manifests, by its partition and statistics, may hold a row that does not match the row filter."""
    asked = ScanContext(
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
        spec = asked.specs[manifest.partition_spec_id]
        statistics = required_statistics(asked.bound, spec, asked.schema, strict=True)
        columns = read_columns(file.content, manifest, asked.partition_types[manifest.partition_spec_id], statistics=statistics)
        outside = ~FileMetricsEvaluator(columns, asked.bound, spec, asked.schema).must_match
        if outside.any():
            path = columns.entries["file_path"][int(np.argmax(outside))].as_py()
            raise InvalidInputError(
                f"{path} is added, and may hold rows that do not match the overwrite filter {changes.row_filter}",
                path=path,
                next_step="add files of which every row matches, by partition or by the bounds in their metrics",
            )
