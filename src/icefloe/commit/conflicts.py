"""`ConflictRules`: which changes by other writers are conflicts with a commit; and the check of all snapshots since the one that the commit was planned on.

`newer_snapshots.py` reads the history. `merging_snapshot_producer.py` checks that the files of a commit are still live, since it reads the manifests.
The rules are those of Java's validations (MergingSnapshotProducer.validateAddedDataFiles, validateNoNewDeletesForDataFiles, validateDataFilesExist and others),
so that writers of both implementations keep each other's guarantees.
Spec: Commit Conflict Resolution and Retry; Optimistic Concurrency.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.commit.added_deletes import AddedDeletes, partition_key
from icefloe.commit.file_changes import FileChanges, Partition
from icefloe.commit.live_entries import is_among, may_contain_partitions, partitions_of
from icefloe.commit.newer_snapshots import (
    ADDS_DATA,
    ADDS_DELETES,
    ADDS_VECTORS,
    PLAN_AGAIN,
    REMOVES_DATA,
    REPLACES_DATA,
    ChangedEntries,
    NewerSnapshots,
)
from icefloe.errors import CommitInvalidatedError, InvalidFilterError, InvalidInputError, Problem
from icefloe.scan.delete_file_index import PATH_BOUNDS
from icefloe.scan.live_deletes import equality_tests
from icefloe.scan.pruning import FileMetricsEvaluator, ScanContext, manifest_mask, required_statistics
from icefloe.spec.arrow_values import mask_array, scalar_of
from icefloe.spec.expressions.bind import bind, predicates
from icefloe.spec.expressions.metrics_evaluator import Mask
from icefloe.spec.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.manifest.entry import ManifestEntryStatus
from icefloe.spec.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic
from icefloe.spec.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.spec.metadata.snapshot import Snapshot
from icefloe.spec.metadata.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRules:
    """The changes by newer snapshots of the branch that a commit treats as conflicts.

    One rule always applies: a data file that gets a deletion vector must have no newer position deletes.

    Attributes:
        since: the snapshot that the change was planned on (validateFromSnapshot); None checks all snapshots of the branch.
        row_filter: the filter that selects matching rows for the rules below (conflictDetectionFilter).
        case_sensitive: whether names in `row_filter` are case-sensitive.
        partitions: if not None, used instead of `row_filter`: matching rows are those of these partitions.
        no_added_data: refuse added data files that may contain matching rows.
        no_added_deletes: refuse added delete files that may apply to matching rows.
        no_removed_data: refuse removed data files that may contain matching rows.
        no_newer_deletes: refuse added delete files that may apply to a data file which this commit removes.
        files_without_newer_deletes: paths and partitions of further data files for which added delete files are refused.
        required_files: paths of data files that must not have been removed (validateDataFilesExist).
        skip_deletes: allow snapshots of the operation `delete` to remove `required_files`.
    """

    since: int | None = None
    row_filter: BooleanExpression = AlwaysTrue()  # noqa: RUF009  a frozen value
    case_sensitive: bool = True
    partitions: frozenset[Partition] | None = None
    no_added_data: bool = False
    no_added_deletes: bool = False
    no_removed_data: bool = False
    no_newer_deletes: bool = False
    files_without_newer_deletes: frozenset[tuple[str, Partition]] = frozenset()
    required_files: frozenset[str] = frozenset()
    skip_deletes: bool = False

    def requires_history(self, changes: FileChanges) -> bool:
        """Return True if a newer snapshot can violate a rule, so that the history must be read."""
        has_rules = self.no_added_data or self.no_added_deletes or self.no_removed_data or bool(self.required_files)
        has_rules = has_rules or bool(self.files_without_newer_deletes)
        return has_rules or (self.no_newer_deletes and bool(changes.removed)) or bool(changes.vector_targets)

    def checks(self, changes: FileChanges) -> tuple[str, ...]:
        """Return the changes of newer snapshots that the rules refuse, by short names."""
        named = (
            ("added-data", self.no_added_data),
            ("removed-data", self.no_removed_data),
            ("added-deletes", self.no_added_deletes),
            ("deletes-of-changed-files", (self.no_newer_deletes and bool(changes.removed)) or bool(self.files_without_newer_deletes)),
            ("removed-files", bool(self.required_files)),
            ("deletes-beside-vectors", bool(changes.vector_targets)),
        )
        return tuple(name for name, is_checked in named if is_checked)

    @property
    def matching(self) -> str:
        """The matching rows, in words for error messages."""
        if self.partitions is None:
            return "any rows" if isinstance(self.row_filter, AlwaysTrue) else f"rows that match {self.row_filter}"
        return f"rows of {len(self.partitions)} replaced partition{'s' if len(self.partitions) > 1 else ''}"


# The conflict rules of an action: several if they have different filters, None if nothing is checked.
Rules = ConflictRules | Sequence[ConflictRules] | None


def each_rule(rules: Rules) -> tuple[ConflictRules, ...]:
    """Return the rules as a tuple."""
    return (rules,) if isinstance(rules, ConflictRules) else tuple(rules or ())


def planned_on(snapshot_id: int | None) -> ConflictRules:
    """Return the rules of a change that rewrites or deletes rows that it read from a snapshot: their data files must have no newer deletes."""
    return ConflictRules(since=snapshot_id, no_newer_deletes=True)


def isolation_rules(level: str | None, since: int | None) -> ConflictRules | None:
    """Return the rules of an isolation level for a change that may depend on any row of the table; None if the level is None.

    Args:
        level: with `snapshot`, a newer commit that deleted rows is a conflict; with `serializable`, also one that added rows; None checks nothing.
        since: the snapshot that the change was planned on; None checks all snapshots of the branch.

    Raises:
        InvalidInputError: there is no such isolation level.
    """
    if level is None:
        return None
    if level not in ("serializable", "snapshot"):
        raise InvalidInputError(f"{level!r} is not an isolation level", next_step="pass serializable, snapshot or None")
    return ConflictRules(since=since, no_added_data=level == "serializable", no_added_deletes=True, no_removed_data=True)


def check_conflicts(
    rules: ConflictRules, base: TableMetadata, newer: NewerSnapshots, changes: FileChanges, removed: Iterable[DataFile]
) -> None:
    """Check that the newer snapshots of a branch do not conflict with a commit.

    Args:
        rules: the rules to check.
        base: the current metadata of the table.
        newer: the snapshots since the one that the commit was planned on.
        changes: the files that the commit adds and removes.
        removed: the data files that the commit removes.

    Raises:
        CommitInvalidatedError: a snapshot violated a rule; the error names the snapshot, the file and the rule.
    """
    if not newer.snapshots:
        return
    validation = _Validation(rules, newer, _ConflictFilter(rules, base), base)
    validation.required_files_exist()
    if rules.no_added_data:
        validation.no_added_data()
    if rules.no_removed_data:
        validation.no_removed_data()
    data_files = [(file.file_path, (file.spec_id, file.partition)) for file in removed] if rules.no_newer_deletes else []
    data_files += sorted(rules.files_without_newer_deletes - set(data_files), key=lambda file: file[0])
    if data_files:
        validation.no_new_deletes_for(data_files, ignore_equality=changes.sequence_number is not None)
    if rules.no_added_deletes:
        validation.no_added_deletes()
    if changes.vector_targets:
        validation.no_deletes_beside_vectors(changes)


class _ConflictFilter:
    """The filter or the partitions of conflict rules, applied to manifests and their entries."""

    def __init__(self, rules: ConflictRules, base: TableMetadata) -> None:
        self._rules = rules
        self._base = base

    @cached_property
    def scan_context(self) -> ScanContext:
        """The row filter, bound to the current schema."""
        schema, rules = self._base.schema(), self._rules
        try:
            bound = bind(rules.row_filter, schema, rules.case_sensitive)
        except InvalidFilterError as error:
            raise CommitInvalidatedError(
                f"the conflict detection filter is not valid for the current schema of the table: {error.message}",
                problems=(
                    Problem(where="expected", what=f"a filter of the table's columns: {rules.row_filter}"),
                    Problem(where="found", what=f"schema {schema.schema_id}: {error.message}"),
                ),
                next_step="a retry will fail again: the schema was changed by another commit; write the filter for the current schema",
            ) from error
        return ScanContext(
            metadata=self._base,
            schema=schema,
            bound=bound,
            explain=False,
            include_statistics=False,
            find_covered=False,
            every_delete=False,
        )

    def manifests(self, manifests: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        """Return the manifests that may contain a matching file."""
        if self._rules.partitions is not None:
            return [manifest for manifest in manifests if may_contain_partitions(self._base, manifest, self._rules.partitions)]
        context = self.scan_context
        if context.is_unfiltered:
            return manifests
        mask = manifest_mask(manifests, context.bound, context.specs, context.schema)
        return [manifest for manifest, may_match in zip(manifests, mask.tolist(), strict=True) if may_match]

    def data_statistics(self, spec_id: int) -> Collection[Statistic]:
        """Return the statistics columns that `data_files` needs."""
        context = self.scan_context
        return () if self._rules.partitions is not None else required_statistics(context.bound, context.specs[spec_id], context.schema)

    def delete_statistics(self, _: int) -> Collection[Statistic]:
        """Return the statistics columns that `delete_files` needs."""
        if self._rules.partitions is not None:
            return PATH_BOUNDS
        return {*PATH_BOUNDS, *every_statistic({leaf.field.field_id for leaf in predicates(self.scan_context.bound)})}

    def data_files(self, manifest: ManifestFile, entries: Any) -> Any:
        """Return the entries of data files that may contain matching rows."""
        if self._rules.partitions is not None:
            return entries.filter(mask_array(self._in_partitions(manifest, entries)))
        return entries if self.scan_context.is_unfiltered else entries.filter(mask_array(self._evaluator(manifest, entries).may_match))

    def delete_files(self, manifest: ManifestFile, entries: Any) -> Any:
        """Return the entries of delete files that may apply to matching rows: by their partition, and equality deletes also by the bounds of their keys."""
        if self._rules.partitions is not None:
            is_unpartitioned = self._base.spec_by_id(manifest.partition_spec_id).is_unpartitioned()
            is_global = (
                pc.equal(entries["content"], scalar_of(int(FileContent.EQUALITY_DELETES), pa.int32())) if is_unpartitioned else False
            )
            return entries.filter(pc.or_(mask_array(self._in_partitions(manifest, entries)), is_global))
        if self.scan_context.is_unfiltered:
            return entries
        mask = self._evaluator(manifest, entries).partition_may_match.copy()
        for rows, evaluator in equality_tests(self.scan_context, entries).values():
            mask[rows] &= evaluator.may_match
        return entries.filter(mask_array(mask))

    def _evaluator(self, manifest: ManifestFile, entries: Any) -> FileMetricsEvaluator:
        context = self.scan_context
        return FileMetricsEvaluator(ManifestColumns(entries), context.bound, context.specs[manifest.partition_spec_id], context.schema)

    def _in_partitions(self, manifest: ManifestFile, entries: Any) -> Mask:
        spec_id = manifest.partition_spec_id
        rule_partitions = {partition_key(partition) for partition in self._rules.partitions or ()}
        entry_partitions = partitions_of(entries, self.scan_context.partition_types[spec_id])
        return np.array([partition_key((spec_id, values)) in rule_partitions for values in entry_partitions], dtype=bool)


@dataclass(frozen=True, slots=True)
class _Validation:
    """The rules as checks of the newer snapshots. Each check raises `CommitInvalidatedError` for the first violation."""

    rules: ConflictRules
    newer: NewerSnapshots
    conflict_filter: _ConflictFilter
    base: TableMetadata

    def required_files_exist(self) -> None:
        """Refuse removed data files that this commit requires. JAVA: validateDataFilesExist."""
        required = self.rules.required_files
        if not required:
            return
        operations = REPLACES_DATA if self.rules.skip_deletes else REMOVES_DATA
        for changed in self._data_files(ManifestEntryStatus.DELETED, operations):
            for path in changed.entries["file_path"].filter(is_among(changed.entries["file_path"], required)).to_pylist():
                raise self._conflict(changed.snapshot, path, "removed", "the data files that this commit relies on are still in the table")

    def no_added_data(self) -> None:
        """Refuse added data files with matching rows. JAVA: validateAddedDataFiles."""
        for changed in self._data_files(ManifestEntryStatus.ADDED, ADDS_DATA):
            path = changed.entries["file_path"][0].as_py()
            raise self._conflict(changed.snapshot, path, "added", f"no added data files that may hold {self.rules.matching}")

    def no_removed_data(self) -> None:
        """Refuse removed data files with matching rows. JAVA: validateDeletedDataFiles."""
        for changed in self._data_files(ManifestEntryStatus.DELETED, REMOVES_DATA):
            path = changed.entries["file_path"][0].as_py()
            raise self._conflict(changed.snapshot, path, "removed", f"no removed data files that may hold {self.rules.matching}")

    def no_added_deletes(self) -> None:
        """Refuse added delete files that may apply to matching rows. JAVA: validateNoNewDeleteFiles."""
        for changed in self._added_delete_files(ADDS_DELETES, self.conflict_filter.delete_files):
            path = changed.entries["file_path"][0].as_py()
            raise self._conflict(changed.snapshot, path, "added", f"no added deletes that may apply to {self.rules.matching}")

    def no_new_deletes_for(self, data_files: Iterable[tuple[str, Partition]], *, ignore_equality: bool) -> None:
        """Refuse added delete files that may apply to these data files. JAVA: validateNoNewDeletesForDataFiles.

        Equality deletes are ignored if the rewritten rows keep their older sequence number, because they still apply then.
        """
        added = AddedDeletes(self.base, self._added_delete_files(ADDS_DELETES, self.conflict_filter.delete_files))
        for path, partition in data_files:
            for delete in added.for_data_file(path, partition):
                if not (ignore_equality and delete.content == FileContent.EQUALITY_DELETES):
                    rule = f"no added deletes that may apply to {path}, which this commit read without them"
                    raise self._conflict(delete.snapshot, delete.key[0], "added", rule)

    def no_deletes_beside_vectors(self, changes: FileChanges) -> None:
        """Refuse added position deletes for data files that get a deletion vector, because a deletion vector replaces all position deletes.

        Deletes that this commit removes are allowed, and position delete files of a `replace`, which delete no additional rows. JAVA: validateAddedDVs.
        """
        added = AddedDeletes(self.base, self._added_delete_files(ADDS_VECTORS, lambda _, entries: entries))
        partitions = {file.referenced_data_file: (file.spec_id, file.partition) for file in changes.added_deletes}
        for path in sorted(changes.vector_targets):
            for delete in added.for_data_file(path, partitions[path]):
                is_rewritten = delete.snapshot.operation == "replace" and not delete.is_vector
                if delete.content == FileContent.POSITION_DELETES and delete.key not in changes.removed_deletes and not is_rewritten:
                    rule = f"no added position deletes or deletion vector of {path}, which this commit gives a deletion vector"
                    raise self._conflict(delete.snapshot, delete.key[0], "added", rule)

    def _data_files(self, status: ManifestEntryStatus, operations: Collection[str]) -> Iterator[ChangedEntries]:
        conflicts = self.conflict_filter
        changed = self.newer.changed_entries(
            ManifestContent.DATA, status, operations, select=conflicts.manifests, statistics=conflicts.data_statistics
        )
        yield from _filter_entries(changed, conflicts.data_files)

    def _added_delete_files(self, operations: Collection[str], select: Callable[[ManifestFile, Any], Any]) -> Iterator[ChangedEntries]:
        changed = self.newer.changed_entries(
            ManifestContent.DELETES, ManifestEntryStatus.ADDED, operations, statistics=self.conflict_filter.delete_statistics
        )
        yield from _filter_entries(changed, select)

    def _conflict(self, snapshot: Snapshot, path: str, did: str, rule: str) -> CommitInvalidatedError:
        since = (
            "the first snapshot of the branch"
            if self.rules.since is None
            else f"snapshot {self.rules.since}, which this commit was planned on"
        )
        operation = snapshot.operation or "of an unknown operation"
        return CommitInvalidatedError(
            f"snapshot {snapshot.snapshot_id} ({operation}) conflicts with this commit: it {did} {path} after it was planned",
            path=path,
            snapshot_id=snapshot.snapshot_id,
            problems=(
                Problem(where="expected", what=f"{rule}, since {since}"),
                Problem(where="found", what=f"{path}, {did} by snapshot {snapshot.snapshot_id} ({operation})"),
            ),
            next_step=PLAN_AGAIN,
        )


def _filter_entries(changed_entries: Iterable[ChangedEntries], select: Callable[[ManifestFile, Any], Any]) -> Iterator[ChangedEntries]:
    for changed in changed_entries:
        entries = select(changed.manifest, changed.entries)
        if entries.num_rows:
            yield ChangedEntries(changed.snapshot, changed.manifest, entries)
