"""Maintenance actions that rewrite files, each with its cost and its benefit: data files, deletes and manifests.

Spec: Scan Planning; Row-level Deletes; Snapshots (operation replace).
"""

# ruff: noqa: ARG002  an action uses what it needs of the run, the state and the work

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from icefloe.commit.new_manifest import merge_rules
from icefloe.errors import CommitConflictError, CommitInvalidatedError, EngineError, NotInstalledError
from icefloe.formatting import count_text, size_text
from icefloe.maintenance.clustering_depth import clustering_depths
from icefloe.maintenance.convert_equality_deletes import ConvertEqualityDeletesResult, EqualityDeleteConversion
from icefloe.maintenance.dangling_deletes import remove_dangling_deletes
from icefloe.maintenance.equality_delete_groups import EqualityDeleteGroup, equality_delete_groups
from icefloe.maintenance.health_measures import ManifestMeasures
from icefloe.maintenance.maintenance_action import MINUTE_MS, ActionPlan, ActionRun, SlicedAction, SlicesDone, TableState, WholeAction
from icefloe.maintenance.maintenance_report import LeftWork, PlannedWork, lost_to_others
from icefloe.maintenance.maintenance_thresholds import EQUALITY_SHARE, FILE_OPEN_BYTES, FILTERED_SHARE, has_too_many_manifests
from icefloe.maintenance.position_delete_planner import DeleteGroup
from icefloe.maintenance.recent_changes import PartitionChange
from icefloe.maintenance.rewrite_data_files import DataFileRewrite, RewriteDataFilesResult
from icefloe.maintenance.rewrite_options import conversion_options, position_delete_options
from icefloe.maintenance.rewrite_planner import FileGroup, RewriteReason, delete_shares, deleted_rows
from icefloe.maintenance.rewrite_position_deletes import PositionDeleteRewrite, RewritePositionDeleteFilesResult
from icefloe.operations.available_engines import engine_choice, engine_named
from icefloe.operations.files.manifest_rewrite import rewrite_manifests
from icefloe.scan.scan_plan import PlannedFiles
from icefloe.spec.arrow_values import array_of_chunks, numpy_of
from icefloe.spec.manifest.data_file import FileContent
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.maintenance_properties import MaintenanceAction
from icefloe.spec.metadata.table_properties import DELETE_GRANULARITY


class RemoveDanglingDeletesAction(WholeAction):
    """The action that removes delete files which apply to no data file."""

    name = MaintenanceAction.REMOVE_DANGLING_DELETES

    def plan(self, state: TableState) -> ActionPlan:
        """Return the delete files that apply to no data file."""
        count = state.measures.dangling_deletes
        if not count:
            return ActionPlan()
        what = count_text(count, "delete file")
        return ActionPlan((PlannedWork(action=self.name, what=what, files=count, files_less=count),))

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        removal = remove_dangling_deletes(run.table, branch=run.settings.branch, snapshot_properties=run.summary(self.name, work))
        snapshots = () if removal.snapshot_id is None else (removal.snapshot_id,)
        return f"{count_text(removal.removed_files, 'delete file')} removed, {size_text(removal.removed_bytes)}", snapshots


class RewriteDataFilesAction(SlicedAction[RewriteDataFilesResult]):
    """The action that rewrites data files, and then removes the delete files that apply to no data file any more."""

    name = MaintenanceAction.REWRITE_DATA_FILES

    def plan(self, state: TableState) -> ActionPlan:
        """Return the groups of data files whose rewrite is worth its cost; and as left work the groups that are not rewritten, with the reasons."""
        plan = state.rewrite
        cost_of_deletes = _DeleteCosts(state)
        work: list[PlannedWork] = []
        left: list[LeftWork] = []
        for planned in plan.groups:
            group, reason = _without_recent(state, planned)
            what = f"{count_text(len(planned), 'file')}, {size_text(planned.size)}"
            if group is None:
                left.append(self.leave(what, reason))
                continue
            group_work = _group_work(state, group, cost_of_deletes)
            if group_work.worth < 1:
                left.append(self.leave(what, _not_worth(group_work)))
            elif missing := _missing_spark(state, group):
                left.append(self.leave(what, missing))
            else:
                work.append(group_work)
        if plan.left_files:
            reason = "too few in a partition to pay"
            if state.settings.max_bytes is not None:  # the maximum size of a group
                reason += f", or more than the {size_text(state.settings.max_bytes)} of max-bytes together"
            left.append(self.leave(count_text(plan.left_files, "file"), reason))
        return ActionPlan(tuple(work), tuple(left))

    def rewrite(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[DataFileRewrite, Any, Sequence[Any]]:
        rewrite = DataFileRewrite(
            run.table,
            state.files.plan.row_filter,
            state.options,
            state.metadata.sort_order(),
            branch=run.settings.branch,
            engine=run.settings.engine,
            snapshot_properties=run.summary(self.name, work),
        )
        return rewrite, state.rewrite, [piece.payload for piece in work]

    def finish(self, run: ActionRun, slices: SlicesDone[RewriteDataFilesResult]) -> None:
        """Remove the delete files that apply to no data file any more."""
        if not slices.snapshot_ids or run.is_unknown or MaintenanceAction.REMOVE_DANGLING_DELETES in run.settings.skipped:
            return

        def remove() -> None:
            try:
                removal = remove_dangling_deletes(run.table, branch=run.settings.branch, snapshot_properties=run.summary(self.name, ()))
            except (CommitConflictError, CommitInvalidatedError) as error:
                slices.left.append(lost_to_others(MaintenanceAction.REMOVE_DANGLING_DELETES, error))
            else:
                slices.snapshot_ids.extend(() if removal.snapshot_id is None else (removal.snapshot_id,))

        failure = run.failure_of(remove)
        slices.failures += [f"dangling deletes were not removed: {failure}"] if failure else ()

    def outcome(self, slices: SlicesDone[RewriteDataFilesResult]) -> tuple[str, int, int | None]:
        files, rewritten, added = slices.totals("rewritten_files", "rewritten_bytes", "added_files")
        detail = f"{count_text(files, 'file')}, {size_text(rewritten)}, became {added:,}" if files else ""
        return detail, files, rewritten


class _DeleteCosts:
    """The costs of a scan that result from the deletes of a group."""

    def __init__(self, state: TableState) -> None:
        self._shares = delete_shares(state.files.plan)
        self._is_equality = np.array([file.content is FileContent.EQUALITY_DELETES for file in state.files.plan.delete_files], dtype=bool)

    def of(self, part: Any) -> tuple[float, int]:
        """Return the bytes that a scan of a part reads or compares because of deletes, and the number of delete files that it opens."""
        if part.delete_indices is None or part.delete_offsets is None or not len(part.delete_indices):
            return 0.0, 0
        sizes = numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).astype(np.float64)
        records = numpy_of(array_of_chunks(part.entries["record_count"])).astype(np.float64)
        share = deleted_rows(part, self._shares) / np.maximum(records, 1)
        files = np.repeat(np.arange(len(part)), np.diff(part.delete_offsets))
        compared = np.bincount(files, weights=self._is_equality[part.delete_indices], minlength=len(part)) > 0
        return float((sizes * (share + EQUALITY_SHARE * compared)).sum()), len(np.unique(part.delete_indices))


def _group_work(state: TableState, group: FileGroup, costs: _DeleteCosts) -> PlannedWork:
    deletes = [costs.of(part) for part in group.files]
    bytes_less = sum(size for size, _ in deletes)
    files_less = max(0, len(group) - group.output_files) + sum(count for _, count in deletes)
    if group.reasons.get(RewriteReason.OVERLAP):
        key = state.metadata.sort_order().fields[0].source_id
        depths = [clustering_depths(part, key, state.files.schema) for part in group.files]
        known = np.concatenate([depths_of_part.depths[depths_of_part.known] for depths_of_part in depths])
        depth = float(known.mean()) if len(known) else 0.0
        bytes_less += FILTERED_SHARE * max(0.0, depth - 2) * (group.size / len(group) + FILE_OPEN_BYTES)
    return PlannedWork(
        action=MaintenanceAction.REWRITE_DATA_FILES,
        what=f"{count_text(len(group), 'file')}, {size_text(group.size)}, to {group.output_files:,}",
        files=len(group),
        files_less=files_less,
        bytes_less=int(bytes_less),
        cost_bytes=group.size,
        payload=group,
    )


def _without_recent(state: TableState, group: FileGroup) -> tuple[FileGroup | None, str]:
    """Remove the files that young commits added from a group; or refuse the group for now, so that the rewrite does not conflict with other writers.

    Returns:
        The group to rewrite and an empty text. A group in whose partitions no young commit changed anything is returned as it is.
        Otherwise None and the reason, if a young commit did more than add rows, all files are younger than the maximum wait, or too few old files remain.
    """
    changes = [change for part in group.files for change in state.recent.of(part)]
    if not changes:
        return group, ""
    reason = _young(state, changes)
    waited = state.now_ms - state.recent.oldest_ms(group.files) >= state.settings.max_wait_minutes * MINUTE_MS
    if any(change.changed_rows for change in changes) or not waited:
        return None, reason
    old = ((part, state.recent.is_old(part)) for part in group.files)
    kept = tuple(part.take(np.flatnonzero(mask)) for part, mask in old if mask.any())
    count = sum(map(len, kept))
    size = sum(int(numpy_of(array_of_chunks(part.entries["file_size_in_bytes"])).sum()) for part in kept)
    if count < 2 or (count < state.options.min_input_files and size <= state.options.sizes.target):
        return None, reason
    return replace(
        group, files=kept, size=size, output_files=state.options.sizes.output_files(size), reasons={RewriteReason.SMALL: count}
    ), ""


def _missing_spark(state: TableState, group: FileGroup) -> str:
    """Return the reason why a group cannot be sorted in this process: it would need too much memory without Spark. Empty if it can be sorted."""
    if state.metadata.sort_order().is_unsorted or group.size < engine_choice().bytes_to_start or state.settings.engine == "spark":
        return ""
    if state.settings.engine == "in-process":
        return "so large a sort needs Spark, and the engine in-process was chosen"
    try:
        engine_named("spark")
    except (EngineError, NotInstalledError):
        return "so large a sort needs Spark, which is not available"
    return ""


class ConvertEqualityDeletesAction(SlicedAction[ConvertEqualityDeletesResult]):
    """The action that converts equality deletes to deletion vectors or position deletes."""

    name = MaintenanceAction.CONVERT_EQUALITY_DELETES

    def plan(self, state: TableState) -> ActionPlan:
        """Return the equality deletes to convert, grouped by the partitions that share them, and those that are left.

        The conversion does not replace data files, so that writers which add rows and equality deletes never conflict with it. A writer that deletes rows by
        position, or replaces files, may conflict: partitions with such young commits are left.
        """
        if not state.measures.delete_files["equality"]:
            return ActionPlan()
        work: list[PlannedWork] = []
        left: list[LeftWork] = []
        groups = equality_delete_groups(state.files.plan)
        if _rewrites_all(state, groups):
            count = count_text(sum(len(group.equality_deletes) for group in groups), "equality delete file")
            return ActionPlan(left=(self.leave(count, "rewrite-data-files writes all of their data files again"),))
        for group in groups:
            group_work = _conversion_work(state, group)
            changes = [change for part in group.files for change in state.recent.of(part) if change.changed_rows]
            if changes:
                reason = f"{_young(state, changes)}, and not by equality deletes alone"
                left.append(self.leave(group_work.what, reason))
            else:
                work.append(group_work)
        return ActionPlan(tuple(work), tuple(left))

    def rewrite(
        self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]
    ) -> tuple[EqualityDeleteConversion, Any, Sequence[Any]]:
        conversion = EqualityDeleteConversion(
            run.table,
            None,
            conversion_options({"partial-progress.enabled": True}),
            branch=run.settings.branch,
            engine=run.settings.engine,
            snapshot_properties=run.summary(self.name, work),
        )
        plan = conversion.plan_of(state.files.plan.snapshot_id, [piece.payload for piece in work])
        return conversion, plan, plan.groups

    def outcome(self, slices: SlicesDone[ConvertEqualityDeletesResult]) -> tuple[str, int, int | None]:
        converted, searched, added = slices.totals("converted_delete_files", "searched_data_files", "added_delete_files")
        became = f"{count_text(converted, 'equality delete file')} became {count_text(added, 'delete file')}"
        return f"{became}, {count_text(searched, 'data file')} searched" if converted or added else "", converted, None


def _rewrites_all(state: TableState, groups: Iterable[EqualityDeleteGroup]) -> bool:
    """Return whether this run rewrites all data files of these groups, which applies their deletes. With a budget of bytes, some files may be left."""
    if state.settings.max_bytes is not None:
        return False
    work = state.plan_of(RewriteDataFilesAction()).work
    rewritten = _paths(part for piece in work for part in piece.payload.files)
    return _paths(part for group in groups for part in group.files) <= rewritten


def _paths(parts: Iterable[PlannedFiles]) -> set[str]:
    return {path for part in parts for path in part.entries["file_path"].to_pylist()}


def _conversion_work(state: TableState, group: EqualityDeleteGroup) -> PlannedWork:
    size, deletes = group.size, len(group.equality_deletes)
    # All deletion vectors are in one Puffin file; of position delete files there is one for each data file that loses rows.
    scoped = state.metadata.format_version < 3 and DELETE_GRANULARITY.read(state.metadata.properties) == "file"
    added = min(len(group), sum(file.record_count for file in group.equality_deletes)) if scoped else 1
    keys = min(1.0, len(group.key_ids) / max(1, len(state.metadata.schema().fields)))
    return PlannedWork(
        action=MaintenanceAction.CONVERT_EQUALITY_DELETES,
        what=f"{count_text(deletes, 'equality delete file')} of {count_text(len(group), 'data file')}, {size_text(size)}",
        files=deletes,
        files_less=max(0, deletes - added),
        bytes_less=int(EQUALITY_SHARE * size),
        cost_bytes=int(keys * size),
        payload=group,
    )


class RewritePositionDeleteFilesAction(SlicedAction[RewritePositionDeleteFilesResult]):
    """The action that rewrites position delete files and deletion vectors."""

    name = MaintenanceAction.REWRITE_POSITION_DELETE_FILES

    def plan(self, state: TableState) -> ActionPlan:
        """Return the groups of position delete files and deletion vectors whose rewrite pays, and those that are left.

        They are planned after data files, because a rewritten data file does not need its deletes any more. Partitions in which young commits deleted rows by
        position, or replaced files, are left, because their writers replace vectors too.
        """
        kinds = state.measures.delete_files
        if not kinds["position"] and not kinds["vector"]:
            return ActionPlan()
        plan = state.position_deletes
        work = [_delete_group_work(group) for group in plan.groups if group.tasks]  # dangling deletes have an action of their own
        left = [self.leave(piece.what, _not_worth(piece)) for piece in work if piece.worth < 1]
        if plan.busy_files:
            reason = _young(state, [change for change in state.recent.partitions.values() if change.changed_rows])
            left.append(self.leave(count_text(plan.busy_files, "delete file"), reason))
        if plan.left_files:
            left.append(self.leave(count_text(plan.left_files, "delete file"), "too few together to pay"))
        return ActionPlan(tuple(piece for piece in work if piece.worth >= 1), tuple(left))

    def rewrite(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[PositionDeleteRewrite, Any, Sequence[Any]]:
        rewrite = PositionDeleteRewrite(
            run.table,
            None,
            position_delete_options({"partial-progress.enabled": True}, state.metadata),
            branch=run.settings.branch,
            engine=run.settings.engine,
            snapshot_properties=run.summary(self.name, work),
        )
        return rewrite, state.position_deletes, [piece.payload for piece in work]

    def outcome(self, slices: SlicesDone[RewritePositionDeleteFilesResult]) -> tuple[str, int, int | None]:
        files, rewritten, added = slices.totals("rewritten_files", "rewritten_bytes", "added_files")
        detail = f"{count_text(files, 'delete file')}, {size_text(rewritten)}, became {added:,}" if files else ""
        return detail, files, rewritten


def _delete_group_work(group: DeleteGroup) -> PlannedWork:
    return PlannedWork(
        action=MaintenanceAction.REWRITE_POSITION_DELETE_FILES,
        what=f"{count_text(len(group), 'delete file')}, {size_text(group.size)}, to {group.added_stored_files:,}",
        files=len(group),
        files_less=max(0, group.stored_files - group.added_stored_files),
        cost_bytes=group.size,
        payload=group,
    )


class RewriteManifestsAction(WholeAction):
    """The action that merges the manifests of partition specs that have too many of them."""

    name = MaintenanceAction.REWRITE_MANIFESTS

    def plan(self, state: TableState) -> ActionPlan:
        """Return the partition specs with too many data manifests or delete manifests. Both kinds of a spec are rewritten together."""
        by_spec: dict[int, list[ManifestMeasures]] = {}
        for manifest in state.measures.manifests:
            by_spec.setdefault(manifest.spec_id, []).append(manifest)
        unmergeable = merge_rules(state.metadata).unmergeable_specs
        work = []
        for spec_id, ones in by_spec.items():
            if spec_id in unmergeable or not any(has_too_many_manifests(manifest.manifests, manifest.best_manifests) for manifest in ones):
                continue
            rewritten = _rewritten_manifests(state.files.manifests, spec_id)
            contents = {manifest.content for manifest in rewritten}
            best = sum(manifest.best_manifests for manifest in ones if manifest.content in contents)
            work.append(
                PlannedWork(
                    action=self.name,
                    what=f"{count_text(len(rewritten), 'manifest')} of spec {spec_id}, at best {best:,}",
                    files=len(rewritten),
                    files_less=sum(manifest.manifests - manifest.best_manifests for manifest in ones),
                    cost_bytes=sum(manifest.manifest_length for manifest in rewritten),
                    payload=spec_id,
                )
            )
        return ActionPlan(tuple(work))

    def run(self, run: ActionRun, state: TableState, work: Sequence[PlannedWork]) -> tuple[str, tuple[int, ...]]:
        results = [
            rewrite_manifests(
                run.table,
                piece.payload if isinstance(piece.payload, int) else None,
                snapshot_properties=run.summary(self.name, [piece]),
                branch=run.settings.branch,
            )
            for piece in work
        ]
        before, after = sum(result.rewritten_manifests for result in results), sum(result.added_manifests for result in results)
        ids = tuple(result.snapshot_id for result in results if result.snapshot_id is not None)
        return f"{count_text(before, 'manifest')} became {after:,}", ids


def _rewritten_manifests(manifests: Sequence[ManifestFile], spec_id: int) -> list[ManifestFile]:
    """Return the manifests of a spec to rewrite: all unencrypted ones of each content, unless that is a single manifest without removed entries."""
    rewritten: list[ManifestFile] = []
    for content in ManifestContent:
        ones = [
            manifest
            for manifest in manifests
            if manifest.content is content and manifest.partition_spec_id == spec_id and manifest.key_metadata is None
        ]
        rewritten += ones if len(ones) > 1 or any(manifest.deleted_files_count != 0 for manifest in ones) else ()
    return rewritten


def _young(state: TableState, changes: Sequence[PartitionChange]) -> str:
    """Return the reason why a partition with these changes is left to its writers: the age of its newest commit, and the property that sets the limit."""
    minutes = max(0, state.now_ms - max(change.timestamp_ms for change in changes)) // MINUTE_MS
    return f"a commit {count_text(minutes, 'minute')} ago changed the partition (maintenance.min-age-minutes)"


def _not_worth(work: PlannedWork) -> str:
    return f"not worth it: {work.files_less:,} files and {size_text(work.bytes_less)} less for each scan"
