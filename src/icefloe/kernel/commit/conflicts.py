"""`ConflictRules`: what must not have happened to a branch since a change of it was planned, and the check of every snapshot since.

The history is walked by `newer_snapshots.py`; that files are still live is checked where they are found (`merging_snapshot_producer.py`).
The rules are those of the Java implementation's validations, so that writers of both keep each other's guarantees.
Spec: Commit Conflict Resolution and Retry; Optimistic Concurrency.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import CommitInvalidatedError, InvalidFilterError, InvalidInputError, Problem
from icefloe.kernel.arrow_values import mask_array, scalar_of
from icefloe.kernel.commit.added_deletes import AddedDeletes, partition_key
from icefloe.kernel.commit.file_changes import FileChanges, Partition
from icefloe.kernel.commit.live_entries import is_among, may_hold, partitions_of
from icefloe.kernel.commit.newer_snapshots import (
    ADDS_DATA,
    ADDS_DELETES,
    ADDS_VECTORS,
    PLAN_AGAIN,
    REMOVES_DATA,
    REPLACES_DATA,
    Changed,
    NewerSnapshots,
)
from icefloe.kernel.expressions.bind import bind, predicates
from icefloe.kernel.expressions.metrics_evaluator import Mask
from icefloe.kernel.expressions.predicate import AlwaysTrue, BooleanExpression
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.manifest.entry import ManifestEntryStatus
from icefloe.kernel.manifest.manifest_columns import ManifestColumns, Statistic, every_statistic
from icefloe.kernel.manifest_list.manifest_file import ManifestContent, ManifestFile
from icefloe.kernel.metadata.snapshot import Snapshot
from icefloe.kernel.metadata.table_metadata import TableMetadata
from icefloe.kernel.scan.delete_file_index import PATH_BOUNDS
from icefloe.kernel.scan.live_deletes import equality_tests
from icefloe.kernel.scan.prune_files import FileMetricsEvaluator, required_statistics
from icefloe.kernel.scan.prune_manifests import manifest_mask
from icefloe.kernel.scan.scan_context import ScanContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRules:
    """What others must not have done on the branch since snapshot `since`, which the maker of a change read; None: since the branch's first snapshot.

    `no_added_data`: added data files that may hold rows of the filter; `no_removed_data`: removed such files; `no_added_deletes`: added deletes that may
    apply to such rows; `no_newer_deletes`: added deletes that may apply to a data file which the commit removes. Deletes that may apply to one of
    `files_without_newer_deletes` (paths and partitions) were not added. `required_files` (paths) were not removed; with `skip_deletes` it does no harm where a
    snapshot of the operation `delete` did it. A data file that gets a deletion vector has got no position deletes meanwhile: that is always looked at.
    `partitions` takes the place of `row_filter` where it is given: files of one of these match.
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

    def looks_at_history(self, changes: FileChanges) -> bool:
        """Whether anything that others did since can break a rule."""
        asked = self.no_added_data or self.no_added_deletes or self.no_removed_data or bool(self.required_files)
        asked = asked or bool(self.files_without_newer_deletes)
        return asked or (self.no_newer_deletes and bool(changes.removed)) or bool(changes.vector_targets)

    @property
    def matching(self) -> str:
        """Which rows the rules are about, in words."""
        if self.partitions is None:
            return "any rows" if isinstance(self.row_filter, AlwaysTrue) else f"rows that match {self.row_filter}"
        return f"rows of {len(self.partitions)} replaced partition{'s' if len(self.partitions) > 1 else ''}"


# What actions take: several where checks are made with several filters, none where nothing is checked.
Rules = ConflictRules | Sequence[ConflictRules] | None


def each_rule(rules: Rules) -> tuple[ConflictRules, ...]:
    """The rules one by one."""
    return (rules,) if isinstance(rules, ConflictRules) else tuple(rules or ())


def planned_on(snapshot_id: int | None) -> ConflictRules:
    """The rules of a change that copies or marks rows as a snapshot had them: no newer deletes of its files."""
    return ConflictRules(since=snapshot_id, no_newer_deletes=True)


def isolation_rules(level: str | None, since: int | None) -> ConflictRules | None:
    """What an isolation level forbids others to have done since a snapshot, whatever rows it is about; None where there is no level.

    `snapshot`: that they deleted rows; `serializable`: also that they added some. Raises `InvalidInputError`.
    """
    if level is None:
        return None
    if level not in ("serializable", "snapshot"):
        raise InvalidInputError(f"{level!r} is no isolation level", next_step="pass serializable, snapshot or None")
    return ConflictRules(since=since, no_added_data=level == "serializable", no_added_deletes=True, no_removed_data=True)


def check_conflicts(
    rules: ConflictRules, base: TableMetadata, newer: NewerSnapshots, changes: FileChanges, removed: Iterable[DataFile]
) -> None:
    """Looks at every newer snapshot. `removed` are the data files that the commit removes.

    Raises:
        CommitInvalidatedError: a snapshot broke a rule; the error names it, the file and the rule.
    """
    if not newer.snapshots:
        return
    checks = _Checks(rules, newer, _Matching(rules, base), base)
    checks.required_files()
    if rules.no_added_data:
        checks.added_data()
    if rules.no_removed_data:
        checks.removed_data()
    alone = [(file.file_path, (file.spec_id, file.partition)) for file in removed] if rules.no_newer_deletes else []
    alone += sorted(rules.files_without_newer_deletes - set(alone), key=lambda file: file[0])
    if alone:
        checks.deletes_of(alone, ignore_equality=changes.sequence_number is not None)
    if rules.no_added_deletes:
        checks.added_deletes()
    if changes.vector_targets:
        checks.deletes_beside_vectors(changes)


class _Matching:
    """Which manifests and entries may hold rows that the rules are about."""

    def __init__(self, rules: ConflictRules, base: TableMetadata) -> None:
        self._rules = rules
        self._base = base

    @cached_property
    def question(self) -> ScanContext:
        """The filter as a scan of the table would ask it."""
        schema, rules = self._base.schema(), self._rules
        try:
            bound = bind(rules.row_filter, schema, rules.case_sensitive)
        except InvalidFilterError as error:
            raise CommitInvalidatedError(
                f"the filter that conflicts are looked for with does not fit the table any longer: {error.message}",
                problems=(
                    Problem(where="expected", what=f"a filter of the table's columns: {rules.row_filter}"),
                    Problem(where="found", what=f"schema {schema.schema_id}: {error.message}"),
                ),
                next_step="a retry will fail again: the schema was changed meanwhile; write the filter for the schema as it is now",
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
        """Those that may hold a match."""
        if self._rules.partitions is not None:
            return [one for one in manifests if may_hold(self._base, one, self._rules.partitions)]
        asked = self.question
        if asked.is_unfiltered:
            return manifests
        keep = manifest_mask(manifests, asked.bound, asked.specs, asked.schema)
        return [one for one, kept in zip(manifests, keep.tolist(), strict=True) if kept]

    def data_statistics(self, spec_id: int) -> Collection[Statistic]:
        """The slot columns that `data` needs."""
        asked = self.question
        return () if self._rules.partitions is not None else required_statistics(asked.bound, asked.specs[spec_id], asked.schema)

    def delete_statistics(self, _: int) -> Collection[Statistic]:
        """The slot columns that `deletes` needs."""
        if self._rules.partitions is not None:
            return PATH_BOUNDS
        return {*PATH_BOUNDS, *every_statistic({leaf.field.field_id for leaf in predicates(self.question.bound)})}

    def data(self, manifest: ManifestFile, entries: Any) -> Any:
        """The data files that may match."""
        if self._rules.partitions is not None:
            return entries.filter(mask_array(self._in_partitions(manifest, entries)))
        return entries if self.question.is_unfiltered else entries.filter(mask_array(self._test(manifest, entries).may_match))

    def deletes(self, manifest: ManifestFile, entries: Any) -> Any:
        """The delete files that may apply to matching rows. Of position deletes the partition alone tells, of equality deletes their keys too."""
        if self._rules.partitions is not None:
            is_flat = self._base.spec_by_id(manifest.partition_spec_id).is_unpartitioned
            everywhere = pc.equal(entries["content"], scalar_of(int(FileContent.EQUALITY_DELETES), pa.int32())) if is_flat else False
            return entries.filter(pc.or_(mask_array(self._in_partitions(manifest, entries)), everywhere))
        if self.question.is_unfiltered:
            return entries
        mask = self._test(manifest, entries).partition_may_match.copy()
        for rows, test in equality_tests(self.question, entries).values():
            mask[rows] &= test.may_match
        return entries.filter(mask_array(mask))

    def _test(self, manifest: ManifestFile, entries: Any) -> FileMetricsEvaluator:
        asked = self.question
        return FileMetricsEvaluator(ManifestColumns(entries), asked.bound, asked.specs[manifest.partition_spec_id], asked.schema)

    def _in_partitions(self, manifest: ManifestFile, entries: Any) -> Mask:
        spec_id = manifest.partition_spec_id
        wanted = {partition_key(partition) for partition in self._rules.partitions or ()}
        found = partitions_of(entries, self.question.partition_types[spec_id])
        return np.array([partition_key((spec_id, values)) in wanted for values in found], dtype=bool)


@dataclass(frozen=True, slots=True)
class _Checks:
    rules: ConflictRules
    newer: NewerSnapshots
    matching: _Matching
    base: TableMetadata

    def required_files(self) -> None:
        wanted = self.rules.required_files
        if not wanted:
            return
        operations = REPLACES_DATA if self.rules.skip_deletes else REMOVES_DATA
        for one in self._data(ManifestEntryStatus.DELETED, operations):
            for path in one.entries["file_path"].filter(is_among(one.entries["file_path"], wanted)).to_pylist():
                raise self._conflict(one.snapshot, path, "removed", "the data files that this commit relies on are still there")

    def added_data(self) -> None:
        for one in self._data(ManifestEntryStatus.ADDED, ADDS_DATA):
            path = one.entries["file_path"][0].as_py()
            raise self._conflict(one.snapshot, path, "added", f"no added data files that may hold {self.rules.matching}")

    def removed_data(self) -> None:
        for one in self._data(ManifestEntryStatus.DELETED, REMOVES_DATA):
            path = one.entries["file_path"][0].as_py()
            raise self._conflict(one.snapshot, path, "removed", f"no removed data files that may hold {self.rules.matching}")

    def added_deletes(self) -> None:
        for one in self._deletes(ADDS_DELETES, self.matching.deletes):
            path = one.entries["file_path"][0].as_py()
            raise self._conflict(one.snapshot, path, "added", f"no added deletes that may apply to {self.rules.matching}")

    def deletes_of(self, removed: Iterable[tuple[str, Partition]], *, ignore_equality: bool) -> None:
        """Equality deletes go on applying to rows that keep their older sequence number."""
        added = AddedDeletes(self.base, self._deletes(ADDS_DELETES, self.matching.deletes))
        for path, partition in removed:
            for delete in added.about(path, partition):
                if not (ignore_equality and delete.content == FileContent.EQUALITY_DELETES):
                    rule = f"no added deletes that may apply to {path}, which this commit read without them"
                    raise self._conflict(delete.snapshot, delete.key[0], "added", rule)

    def deletes_beside_vectors(self, changes: FileChanges) -> None:
        """A deletion vector takes the place of all position deletes of its data file, so that none may have come meanwhile."""
        added = AddedDeletes(self.base, self._deletes(ADDS_VECTORS, lambda _, entries: entries))
        partitions = {file.referenced_data_file: (file.spec_id, file.partition) for file in changes.added_deletes}
        for path in sorted(changes.vector_targets):
            for delete in added.about(path, partitions[path]):
                is_rewritten = delete.snapshot.operation == "replace" and not delete.is_vector
                if delete.content == FileContent.POSITION_DELETES and delete.key not in changes.removed_deletes and not is_rewritten:
                    rule = f"no added position deletes or deletion vector of {path}, which this commit gives a deletion vector"
                    raise self._conflict(delete.snapshot, delete.key[0], "added", rule)

    def _data(self, status: ManifestEntryStatus, operations: Collection[str]) -> Iterator[Changed]:
        matching = self.matching
        found = self.newer.changed(ManifestContent.DATA, status, operations, choose=matching.manifests, statistics=matching.data_statistics)
        yield from _chosen(found, matching.data)

    def _deletes(self, operations: Collection[str], choose: Callable[[ManifestFile, Any], Any]) -> Iterator[Changed]:
        found = self.newer.changed(
            ManifestContent.DELETES, ManifestEntryStatus.ADDED, operations, statistics=self.matching.delete_statistics
        )
        yield from _chosen(found, choose)

    def _conflict(self, snapshot: Snapshot, path: str, did: str, rule: str) -> CommitInvalidatedError:
        since = "the branch began" if self.rules.since is None else f"snapshot {self.rules.since}, which this commit was planned on"
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


def _chosen(changed: Iterable[Changed], choose: Callable[[ManifestFile, Any], Any]) -> Iterator[Changed]:
    for one in changed:
        entries = choose(one.manifest, one.entries)
        if entries.num_rows:
            yield Changed(one.snapshot, one.manifest, entries)
