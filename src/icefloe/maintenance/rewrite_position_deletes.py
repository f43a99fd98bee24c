"""`PositionDeleteRewrite`: write position delete files and deletion vectors into fewer files, without the positions of data files that are not live any more.

`position_delete_planner.py` chooses the files. A new file has the greatest data sequence number of the files that it replaces, so that it does not apply to
newer data files. The commit is a `replace`: it deletes no additional rows, so that other writers need not check it. If two writers replace the same vector,
each commit checks that the vector is still the one that was read.
Spec: Position Delete Files; Deletion Vectors; Sequence Numbers; Snapshots (operation replace).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from icefloe.datafile.deletes.merge_deletes import merge_deletes
from icefloe.errors import EngineError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.group_rewrite import GroupRewrite, GroupRewriteResult, WrittenGroup
from icefloe.maintenance.position_delete_planner import DeleteGroup, PositionDeletePlan, plan_position_deletes, size_of
from icefloe.maintenance.rewrite_options import GroupOptions
from icefloe.operations.available_engines import engine_choice
from icefloe.operations.files.file_operations import RewriteDataFiles
from icefloe.operations.files.update_snapshot import UpdateSnapshot
from icefloe.operations.loaded_table import LoadedTable
from icefloe.operations.rows.row_change import rows_of_files
from icefloe.operations.rows.write_context import write_target
from icefloe.spec.expressions.bind import bind
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.manifest.file_rules import is_deletion_vector
from icefloe.spec.metadata.table_properties import DELETE_FILE_PROPERTIES, TARGET_FILE_SIZE_BYTES

_Written = WrittenGroup[DeleteGroup]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RewritePositionDeleteFilesResult(GroupRewriteResult):
    """The result of a rewrite of position deletes, or the expected one with `dry_run`. A deletion vector counts as one delete file, as in Java.

    Attributes:
        rewritten_files: The number of delete files that were replaced or removed.
        added_files: The number of new delete files; for a dry run the greatest expected number.
        rewritten_bytes: The size of the replaced and removed delete files; for a vector its own size, not that of the Puffin file.
        added_bytes: The size of the new delete files; 0 for a dry run.
        upgraded_files: The number of rewritten position delete files that became vectors.
        dangling_files: The number of rewritten delete files that applied to no data file, and were only removed.
        rewritten_puffin_files: The number of Puffin files whose vectors were moved to other files.
        added_puffin_files: The number of new Puffin files; for a dry run the expected number.
        considered_files: The number of live position delete files and vectors in partitions that may contain rows of the filter.
        left_files: The number of delete files outside of the size limits that were left, because rewriting a group of them would not pay.
    """

    subject = "position deletes"

    rewritten_files: int = 0
    added_files: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0
    upgraded_files: int = 0
    dangling_files: int = 0
    rewritten_puffin_files: int = 0
    added_puffin_files: int = 0
    considered_files: int = 0
    left_files: int = 0

    def _facts(self) -> Iterator[tuple[str, str]]:
        would = "would be " if self.dry_run else ""
        yield "considered", count_text(self.considered_files, "delete file")
        yield f"{would}rewritten", f"{count_text(self.rewritten_files, 'delete file')}, {size_text(self.rewritten_bytes)}"
        yield f"{would}added", count_text(self.added_files, "delete file") + ("" if self.dry_run else f", {size_text(self.added_bytes)}")
        if self.upgraded_files:
            yield "to vectors", count_text(self.upgraded_files, "position delete file")
        if self.rewritten_puffin_files or self.added_puffin_files:
            yield "Puffin files", f"{self.rewritten_puffin_files:,} to {self.added_puffin_files:,}"
        if self.dangling_files:
            yield "dangling", f"{count_text(self.dangling_files, 'delete file')} applied to no data file"
        if self.left_files:
            yield "left", f"{count_text(self.left_files, 'delete file')}: too few in a partition to pay"


class PositionDeleteRewrite(GroupRewrite[PositionDeletePlan, DeleteGroup, RewritePositionDeleteFilesResult]):
    """A rewrite of the position deletes of a table's branch."""

    def __init__(
        self,
        table: LoadedTable,
        row_filter: str | BooleanExpression | None,
        options: GroupOptions,
        *,
        branch: str,
        engine: str | None = None,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a rewrite.

        Args:
            table: The table.
            row_filter: Only delete files of partitions that may contain rows of this filter are rewritten; None for all.
            options: The thresholds and sizes.
            branch: The branch whose delete files are rewritten.
            engine: `spark` or `in-process`; by default Spark if it runs already or the delete files are large.
            snapshot_properties: Entries for the snapshots' summaries.
        """
        super().__init__(table, options, branch=branch, engine=engine, snapshot_properties=snapshot_properties)
        self._row_filter = row_filter
        self._options = options

    def plan(self) -> PositionDeletePlan:
        """Return the groups of delete files that would be rewritten now. Raises the errors of `plan_position_deletes`."""
        metadata = self._table.metadata
        scan = self._scan(AlwaysTrue() if self._row_filter is None else self._row_filter)
        bind(scan.row_filter, metadata.schema())  # an invalid filter is refused even if the table has no deletes
        return plan_position_deletes(metadata, scan.snapshot(), scan.row_filter, self._options, self._table.io.read)

    def _groups(self, plan: PositionDeletePlan, lost: Sequence[DeleteGroup] | None = None) -> Sequence[DeleteGroup]:
        if lost is None:
            return plan.groups
        partitions = frozenset[object]().union(*(group.partitions for group in lost))
        return [group for group in plan.groups if group.partitions & partitions]

    def _write(self, batch: Sequence[DeleteGroup]) -> list[_Written]:
        metadata = self._table.metadata
        parts = [(group, part) for group in batch if group.tasks for part in group.parts()]
        added: dict[DeleteGroup, tuple[DataFile, ...]] = dict.fromkeys(batch, ())
        if not parts:
            return [WrittenGroup(group, ()) for group in batch]
        engine = engine_choice().for_bytes(sum(group.size for group in batch), self._engine)
        target = write_target(self._table.handle, metadata)
        size = DELETE_FILE_PROPERTIES[TARGET_FILE_SIZE_BYTES.name].name
        # A part has about the target size. A file is closed only at a larger size, so that each part becomes one file.
        target = replace(target, properties={**target.properties, size: str(self._options.sizes.limit)})
        outcomes = engine.map(
            partial(merge_deletes, rows_of_files(metadata, target)),
            [part for _, part in parts],
            f"rewrite deletes of {self._table.full_name}",
            threads=self._options.concurrent_groups,
            target=target,
        )
        for (group, _), outcome in zip(parts, outcomes, strict=True):
            added[group] += outcome.added
        return [WrittenGroup(group, files) for group, files in added.items()]

    def _check_rows(self, written: Sequence[_Written]) -> None:
        """Delete new files and raise `EngineError` if their numbers of positions are wrong: a commit would silently restore deleted rows."""
        for written_group in written:
            before = sum(file.record_count for file in written_group.group.files) if written_group.group.tasks else 0
            after = sum(file.record_count for file in written_group.added)
            # A vector has all positions of the vector that it replaces. Position delete files may contain a row twice, or rows of data files that are not live
            # any more.
            is_moved = bool(written_group.group.tasks) and all(map(is_deletion_vector, written_group.group.files))
            if after > before or (is_moved and after < before):
                self._delete(written)
                raise EngineError(
                    f"{count_text(len(written_group.group), 'delete file')} of {self._table.full_name} with {count_text(before, 'position')}"
                    f" became new ones with {count_text(after, 'position')}; nothing of them was committed",
                    table=self._table.full_name,
                    next_step="run it with another engine (engine='spark' or engine='in-process'), and report this error",
                )

    def _update(self, start: UpdateSnapshot, plan: PositionDeletePlan, written: Sequence[_Written]) -> RewriteDataFiles:  # noqa: ARG002
        update = start.rewrite_files().delete_sequence_number(max(written_group.group.sequence_number for written_group in written))
        for written_group in written:
            for file in written_group.group.files:
                update.delete_file(file)
            for file in written_group.added:
                update.add_file(file)
        return update

    def _result(
        self, plan: PositionDeletePlan, groups: Sequence[DeleteGroup], *, dry_run: bool = False
    ) -> RewritePositionDeleteFilesResult:
        added = [file for written in self._done for file in written.added]
        files = [file for group in groups for file in group.files]
        moved = {file.file_path for group in groups if group.tasks for file in group.files if is_deletion_vector(file)}
        expected_puffins = sum(group.output_files for group in groups if group.as_vectors)
        return RewritePositionDeleteFilesResult(
            table=self._table.full_name,
            dry_run=dry_run,
            snapshot_ids=tuple(self._snapshot_ids),
            rewritten_files=len(files),
            added_files=sum(group.added_files for group in groups) if dry_run else len(added),
            rewritten_bytes=sum(map(size_of, files)),
            added_bytes=sum(map(size_of, added)),
            upgraded_files=sum(not is_deletion_vector(file) for group in groups if group.as_vectors for file in group.files),
            dangling_files=sum(len(group) for group in groups if not group.tasks),
            rewritten_puffin_files=len(moved),
            added_puffin_files=expected_puffins if dry_run else len({file.file_path for file in added if is_deletion_vector(file)}),
            considered_files=plan.considered_files,
            left_files=plan.left_files,
            failed=(*self._failed, *self._lost),
        )
