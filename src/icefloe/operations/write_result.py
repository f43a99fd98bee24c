"""What a write did, as a value the caller can print or check.

Spec: Snapshots (summary).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from icefloe.display.html import html_of
from icefloe.display.report import Facts, Report
from icefloe.formatting import count_text

METADATA_ONLY = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteResult:
    """The outcome of append, delete, overwrite, upsert, UPDATE or MERGE. `snapshot_id` is None where there was nothing to do and no snapshot was made."""

    operation: str  # append, delete, overwrite, upsert, update, merge
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
        rows = ", ".join(f"{text} {what}" for what, text in self._row_counts()) or "no rows"
        files = ", ".join(f"{text} {what}" for what, text in self._file_counts())
        return f"{self.operation} by {self.engine}: {rows}{f'; {files}' if files else ''} (snapshot {self.snapshot_id})"

    def __repr__(self) -> str:
        return f"WriteResult({self})"

    def _repr_html_(self) -> str:
        counts = tuple((what, text) for what, text in (*self._row_counts(), *self._file_counts()))
        facts = (("engine", self.engine), *counts, ("snapshot", str(self.snapshot_id or "none: nothing to do")))
        return html_of(Report(self.operation, (Facts(facts),)))

    @property
    def inserted_records(self) -> int:
        """Rows that are new in the table: those of an append or overwrite, or those that an upsert, MERGE or UPDATE inserted."""
        return self.added_records if self.operation in ("append", "overwrite") else self.rows_inserted

    def _row_counts(self) -> Iterator[tuple[str, str]]:
        """Yield what happened to rows, each with a number of rows."""
        if self.inserted_records:
            yield "inserted", count_text(self.inserted_records, "row")
        if self.rows_updated:
            yield "updated", count_text(self.rows_updated, "row")
        if self.deleted_keys:
            yield "deleted", f"rows of {count_text(self.deleted_keys, 'key')}"
        elif self.deleted_records is None:
            yield "deleted", "an unknown number of rows"
        elif self.deleted_records:
            yield "deleted", count_text(self.deleted_records, "row")
        if self.rows_unchanged:
            yield "unchanged", count_text(self.rows_unchanged, "row")

    def _file_counts(self) -> Iterator[tuple[str, str]]:
        """Yield what happened to files, each with a number of files."""
        if self.added_files:
            yield "added", count_text(self.added_files, "file")
        if self.removed_files:
            rewritten = f" ({self.rewritten_files:,} of them rewritten)" if self.rewritten_files else ""
            yield f"removed{rewritten}", count_text(self.removed_files, "file")
        if self.added_delete_files:
            yield "added", count_text(self.added_delete_files, "delete file")
        if self.removed_delete_files:
            yield "removed", count_text(self.removed_delete_files, "delete file")


UpsertResult = WriteResult  # the name of PyIceberg
