"""What a write did, as a value the caller can print or check.

Spec: Snapshots (summary).
"""

from dataclasses import dataclass

METADATA_ONLY = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """The outcome of append, delete, overwrite or upsert. `snapshot_id` is None where there was nothing to do and no snapshot was made."""

    operation: str  # append, delete, overwrite, upsert
    engine: str  # which engine moved the rows; "metadata" where none had to move
    snapshot_id: int | None
    attempts: int  # tries the commit took; more than 1 where other writers won a race
    added_files: int = 0
    added_records: int = 0
    removed_files: int = 0
    rewritten_files: int = 0  # of the removed files, those whose other rows were copied
    deleted_records: int | None = 0  # rows that were there before and are not now; None where that is not known
    deleted_keys: int = 0  # of a delete by keys: how many were given
    added_delete_files: int = 0  # of positions or keys; each deletion vector counts
    removed_delete_files: int = 0
    rows_updated: int = 0  # of an upsert: rows of the table that have other values now
    rows_inserted: int = 0  # of an upsert: rows that had no match
    rows_unchanged: int = 0  # of an upsert: rows that had a match which was left as it is

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"{self.operation}: nothing to do"
        if self.operation == "upsert":
            done = (
                f"{_counted(self.rows_updated, 'row')} updated, {self.rows_inserted:,} inserted, {self.rows_unchanged:,} left as they were"
            )
            return f"upsert by {self.engine}: {done} (snapshot {self.snapshot_id})"
        parts = [f"added {_counted(self.added_records, 'row')} in {_counted(self.added_files, 'file')}"] if self.added_files else []
        if self.deleted_records is None and self.deleted_keys:
            parts.append(f"deleted {_counted(self.deleted_keys, 'key')} by {_counted(self.added_delete_files, 'delete file')}")
        elif self.removed_files or self.added_delete_files:
            whole = self.removed_files - self.rewritten_files
            marked = f", {_counted(self.added_delete_files, 'delete file')} added" if self.added_delete_files else ""
            rows = "rows" if self.deleted_records is None else _counted(self.deleted_records, "row")
            parts.append(f"deleted {rows}, {_counted(whole, 'file')} dropped whole, {self.rewritten_files:,} rewritten{marked}")
        return f"{self.operation} by {self.engine}: {'; '.join(parts) or 'no rows'} (snapshot {self.snapshot_id})"


UpsertResult = WriteResult  # the name of PyIceberg


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
