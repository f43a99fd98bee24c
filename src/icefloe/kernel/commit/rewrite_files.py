"""`RewriteFiles`: a snapshot that holds the same rows in other files (the spec's `replace`), as compaction makes it.

Spec: Snapshots (operation replace); Sequence Numbers; Row Lineage.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.errors import InvalidInputError
from icefloe.kernel.commit.attempt import Attempt, CommitContext, Read
from icefloe.kernel.commit.conflicts import ConflictRules
from icefloe.kernel.commit.file_changes import file_changes
from icefloe.kernel.commit.merging_snapshot_producer import Found, MergingSnapshotProducer
from icefloe.kernel.commit.new_manifest import ManifestNumbers
from icefloe.kernel.manifest.data_file import DataFile, FileContent
from icefloe.kernel.metadata.table_metadata import TableMetadata


class RewriteFiles:
    """Puts `added` in the place of `removed`, which hold the same rows, less those that deletes in the snapshot that was read had taken away.

    `rules` name that snapshot (`since`); newer deletes of the removed files are always looked for. `sequence_number` keeps the rows' age, so that equality
    deletes which others add meanwhile still apply to them; it is at least that of every removed file and at most that of the snapshot read. None makes the
    rows as young as this commit, which is refused where such deletes were added. `removed_deletes` are delete files that no data file needs any longer;
    `added_deletes` take the place of some of them.
    """

    def __init__(
        self,
        *,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        rules: ConflictRules,
        context: CommitContext,
        numbers: ManifestNumbers,
        sequence_number: int | None = None,
        added_deletes: Sequence[DataFile] = (),
        removed_deletes: Sequence[DataFile] = (),
    ) -> None:
        """Raises `InvalidInputError` as `file_changes` does, and where rows would appear: more are added than removed."""
        self._changes = file_changes(
            added=added,
            added_deletes=added_deletes,
            removed=removed,
            removed_deletes=removed_deletes,
            sequence_number=sequence_number,
        )
        before, after = (sum(file.record_count for file in files) for files in (removed, added))
        if after > before:
            raise InvalidInputError(f"a rewrite keeps the rows as they are, and this one puts {after} in the place of {before}")
        self._since = rules.since
        self._work = MergingSnapshotProducer(self._changes, context, numbers, replace(rules, no_newer_deletes=True))

    def new_data_files(self) -> Sequence[str]:
        return list(dict.fromkeys(file.file_path for file in (*self._changes.added, *self._changes.added_deletes)))

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """See `Action.attempt`; None where nothing changes.

        Raises:
            CommitInvalidatedError: a removed file is no longer live, or has newer deletes, or another snapshot broke a rule.
            InvalidInputError: `sequence_number` would make deletes apply that did not, or not apply that did.
        """
        return self._work.attempt(base, operation=lambda _: "replace", number=number, now_ms=now_ms, read=read, check=self._check_age)

    def _check_age(self, base: TableMetadata, found: Found) -> None:
        number = self._changes.sequence_number
        if number is None or base.format_version == 1:
            return
        read = None if self._since is None else base.snapshot_by_id(self._since)
        if read is not None and number > read.sequence_number:
            raise InvalidInputError(
                f"rows of snapshot {read.snapshot_id} are at most as young as its sequence number {read.sequence_number}, not {number}"
            )
        for entry in found.gone:
            if entry.data_file.content == FileContent.DATA and entry.sequence_number is not None and entry.sequence_number > number:
                path = entry.data_file.file_path
                raise InvalidInputError(
                    f"{path} has data sequence number {entry.sequence_number}: with {number}, deletes from before it would apply to its rows",
                    path=path,
                )
