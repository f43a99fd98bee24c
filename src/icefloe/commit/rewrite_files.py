"""`RewriteFiles`: the action that replaces files by others with the same rows (operation `replace`), for example for compaction. JAVA: RewriteFiles.

Spec: Snapshots (operation replace); Sequence Numbers; Row Lineage.
"""

from collections.abc import Sequence
from dataclasses import replace

from icefloe.commit.attempt import Attempt, CommitContext, Read
from icefloe.commit.conflicts import ConflictRules
from icefloe.commit.file_changes import file_changes
from icefloe.commit.merging_snapshot_producer import FilteredManifests, MergingSnapshotProducer
from icefloe.commit.new_manifest import ManifestNumbers
from icefloe.errors import InvalidInputError
from icefloe.spec.manifest.data_file import DataFile, FileContent
from icefloe.spec.metadata.table_metadata import TableMetadata


class RewriteFiles:
    """The commit action that replaces data files by files with the same rows, without the rows that were deleted in the snapshot that was read."""

    def __init__(
        self,
        *,
        added: Sequence[DataFile],
        removed: Sequence[DataFile],
        rules: ConflictRules,
        context: CommitContext,
        numbers: ManifestNumbers,
        sequence_number: int | None = None,
        delete_sequence_number: int | None = None,
        added_deletes: Sequence[DataFile] = (),
        removed_deletes: Sequence[DataFile] = (),
    ) -> None:
        """Create the action.

        Args:
            added: data files to add.
            removed: live data files to remove.
            rules: `since` is the snapshot that was read. Newer deletes of the removed files are always refused.
            context: the ids and the branch of the commit.
            numbers: the counter for names of manifests, over all attempts of the commit.
            sequence_number: the data sequence number of the added files. It must be at least that of every removed file, and at most that of the snapshot that
                was read; then equality deletes that other writers add meanwhile still apply to the rows. None inherits that of the commit, which is then
                refused if such deletes were added.
            delete_sequence_number: the data sequence number of the added deletes. It must be at least that of every removed position delete file, and at most
                that of the snapshot that was read; then the added deletes do not apply to newer data files. None inherits that of the commit.
            added_deletes: delete files that replace some of `removed_deletes`.
            removed_deletes: delete files that no longer apply to any data file.

        Raises:
            InvalidInputError: `added` has more rows than `removed`; or see `file_changes`.
        """
        self._changes = file_changes(
            added=added,
            added_deletes=added_deletes,
            removed=removed,
            removed_deletes=removed_deletes,
            sequence_number=sequence_number,
            delete_sequence_number=delete_sequence_number,
        )
        removed_rows, added_rows = (sum(file.record_count for file in files) for files in (removed, added))
        if added_rows > removed_rows:
            raise InvalidInputError(f"a rewrite cannot add rows: the added files have {added_rows} rows, the removed files {removed_rows}")
        self._since = rules.since
        self._producer = MergingSnapshotProducer(self._changes, context, numbers, replace(rules, no_newer_deletes=True))

    def new_data_files(self) -> Sequence[str]:
        return list(dict.fromkeys(file.file_path for file in (*self._changes.added, *self._changes.added_deletes)))

    def attempt(self, base: TableMetadata, *, number: int, now_ms: int, read: Read) -> Attempt | None:
        """Return the attempt on a base, see `Action.attempt`; None if nothing changes.

        Raises:
            CommitInvalidatedError: a removed file is no longer live or has newer deletes, or a newer snapshot violated a rule.
            InvalidInputError: `sequence_number` would change which deletes apply to the rows.
        """
        return self._producer.attempt(
            base, operation=lambda _: "replace", number=number, now_ms=now_ms, read=read, check=self._check_sequence_number
        )

    def _check_sequence_number(self, base: TableMetadata, filtered: FilteredManifests) -> None:
        if base.format_version == 1:
            return
        changes = self._changes
        numbers = {
            FileContent.DATA: (changes.sequence_number, "deletes from before it would apply to its rows"),
            FileContent.POSITION_DELETES: (changes.delete_sequence_number, "its deletes would not apply to the newest of its data files"),
        }
        read = None if self._since is None else base.snapshot_by_id(self._since)
        for number, _ in numbers.values():
            if number is not None and read is not None and number > read.sequence_number:
                raise InvalidInputError(
                    f"the sequence number {number} is newer than that of snapshot {read.snapshot_id}, which was read: {read.sequence_number}"
                )
        for entry in filtered.removed_entries:
            number, effect = numbers.get(entry.data_file.content, (None, ""))
            if number is not None and entry.sequence_number is not None and entry.sequence_number > number:
                path = entry.data_file.file_path
                raise InvalidInputError(f"{path} has data sequence number {entry.sequence_number}: with {number}, {effect}", path=path)
