"""`ReplacePartitions`: the action that replaces all files of the partitions of its data files (dynamic partition overwrite). JAVA: ReplacePartitions.

Spec: Snapshots (operation overwrite); Commit Conflict Resolution and Retry; Partitioning.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.file_changes import Partition, file_changes
from icefloe.commit.merging_snapshot_producer import FilteredManifests, MergingSnapshotProducer
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.commit.newer_snapshots import PLAN_AGAIN
from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.manifest.data_file import DataFile
from icefloe.spec.metadata.table_metadata import TableMetadata

# Set in the snapshot summary, as Java does, to distinguish this from other overwrites.
REPLACE_PARTITIONS = "replace-partitions"


class ReplacePartitions:
    """The commit action that replaces all files of the partitions that its new files are in. Files of other partition specs are kept.

    If the spec is unpartitioned, the added files replace all files of the table.
    """

    def __init__(
        self,
        *,
        added: Sequence[DataFile],
        context: CommitContext,
        numbers: ManifestNumbers,
        rules: ConflictRules | None = None,
        append_only: bool = False,
    ) -> None:
        """Create the action.

        Args:
            added: data files to add, of one partition spec; at least one.
            context: the ids and the branch of the commit.
            numbers: the counter for names of manifests, over all attempts of the commit.
            rules: the conflict rules for newer snapshots; the replaced partitions are used instead of their filter.
            append_only: whether to refuse the commit if a partition is not empty (validateAppendOnly).

        Raises:
            InvalidInputError: there are no files, or files of several partition specs; or see `file_changes`.
        """
        changes = file_changes(added=added)
        if len({file.spec_id for file in changes.added}) != 1:
            spec_ids = sorted({file.spec_id for file in changes.added})
            what = f"the files are of the specs {spec_ids}" if spec_ids else "there is none"
            raise InvalidInputError(f"replacing partitions requires data files of exactly one partition spec; {what}")
        self._added = changes.added
        self._partitions: frozenset[Partition] = frozenset((file.spec_id, file.partition) for file in self._added)
        self._context = replace(context, snapshot_properties={**context.snapshot_properties, REPLACE_PARTITIONS: "true"})
        self._numbers = numbers
        self._rules = rules
        self._append_only = append_only
        self._producer: MergingSnapshotProducer | None = None

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`.

        Raises:
            CommitInvalidatedError: a newer snapshot violated a rule; or a partition is not empty (`append_only`).
        """
        self._producer = self._producer or self._new_producer(base)
        return self._producer.attempt(
            base,
            operation=lambda _: "overwrite",
            number=number,
            now_ms=now_ms,
            read=read,
            check=self._check_empty if self._append_only else None,
        )

    def _new_producer(self, base: TableMetadata) -> MergingSnapshotProducer:
        (spec_id,) = {file.spec_id for file in self._added}
        is_unpartitioned = base.spec_by_id(spec_id).is_unpartitioned()
        changes = file_changes(added=self._added)
        changes = replace(changes, row_filter=AlwaysTrue()) if is_unpartitioned else replace(changes, dropped_partitions=self._partitions)
        rules = self._rules and replace(self._rules, row_filter=AlwaysTrue(), partitions=None if is_unpartitioned else self._partitions)
        return MergingSnapshotProducer(changes, self._context, self._numbers, rules)

    def _check_empty(self, _: TableMetadata, filtered: FilteredManifests) -> None:
        if filtered.removed_entries:
            entry = filtered.removed_entries[0]
            raise CommitInvalidatedError(
                f"a partition that must be empty has files already: {entry.data_file.file_path}",
                path=entry.data_file.file_path,
                snapshot_id=entry.snapshot_id,
                problems=(
                    Problem(where="expected", what="no live files in the partitions of the added files (validate_append_only)"),
                    Problem(where="found", what=f"{entry.data_file.file_path}, added by snapshot {entry.snapshot_id}"),
                ),
                next_step=PLAN_AGAIN,
            )
