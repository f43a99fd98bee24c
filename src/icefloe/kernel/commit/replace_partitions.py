"""`ReplacePartitions`: a snapshot whose data files take the place of everything in their partitions: dynamic partition overwrite.

Spec: Snapshots (operation overwrite); Commit Conflict Resolution and Retry; Partitioning.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.errors import CommitInvalidatedError, InvalidInputError, Problem
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.conflicts import ConflictRules
from icefloe.kernel.commit.file_changes import Partition, file_changes
from icefloe.kernel.commit.merging_snapshot_producer import Found, MergingSnapshotProducer
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.commit.newer_snapshots import PLAN_AGAIN
from icefloe.kernel.expressions.predicate import AlwaysTrue
from icefloe.kernel.manifest.data_file import DataFile
from icefloe.kernel.metadata.table_metadata import TableMetadata

# Set in the summary, as Java's does: a reader of the history can tell it from other overwrites.
REPLACE_PARTITIONS = "replace-partitions"


class ReplacePartitions:
    """Removes every file of the partitions that `added` lie in, and adds these. Files of other partition specs stay.

    The files are of one partition spec. Where it is unpartitioned they take the place of all files of the table. `rules` are about the replaced partitions:
    what they say of a filter is set here. With `append_only` the partitions must be empty.
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
        """Raises `InvalidInputError` as `file_changes` does, and where there are no files, or files of several partition specs."""
        changes = file_changes(added=added)
        if len({file.spec_id for file in changes.added}) != 1:
            found = sorted({file.spec_id for file in changes.added})
            what = f"these are of the specs {found}" if found else "there is none"
            raise InvalidInputError(f"which partitions are replaced is told by data files of one partition spec, and {what}")
        self._added = changes.added
        self._partitions: frozenset[Partition] = frozenset((file.spec_id, file.partition) for file in self._added)
        self._context = replace(context, snapshot_properties={**context.snapshot_properties, REPLACE_PARTITIONS: "true"})
        self._numbers = numbers
        self._rules = rules
        self._append_only = append_only
        self._work: MergingSnapshotProducer | None = None

    def new_data_files(self) -> Sequence[str]:
        return [file.file_path for file in self._added]

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`.

        Raises:
            CommitInvalidatedError: a snapshot broke a rule; or the partitions were to be empty, and are not.
        """
        self._work = self._work or self._prepared(base)
        return self._work.attempt(
            base,
            operation=lambda _: "overwrite",
            number=number,
            now_ms=now_ms,
            read=read,
            check=self._check_empty if self._append_only else None,
        )

    def _prepared(self, base: TableMetadata) -> MergingSnapshotProducer:
        (spec_id,) = {file.spec_id for file in self._added}
        is_flat = base.spec_by_id(spec_id).is_unpartitioned
        changes = file_changes(added=self._added)
        changes = replace(changes, row_filter=AlwaysTrue()) if is_flat else replace(changes, dropped_partitions=self._partitions)
        rules = self._rules and replace(self._rules, row_filter=AlwaysTrue(), partitions=None if is_flat else self._partitions)
        return MergingSnapshotProducer(changes, self._context, self._numbers, rules)

    def _check_empty(self, _: TableMetadata, found: Found) -> None:
        if found.gone:
            entry = found.gone[0]
            raise CommitInvalidatedError(
                f"a partition that was to be new has files already: {entry.data_file.file_path}",
                path=entry.data_file.file_path,
                snapshot_id=entry.snapshot_id,
                problems=(
                    Problem(where="expected", what="no live files in the partitions of the added files (validate_append_only)"),
                    Problem(where="found", what=f"{entry.data_file.file_path}, added by snapshot {entry.snapshot_id}"),
                ),
                next_step=PLAN_AGAIN,
            )
