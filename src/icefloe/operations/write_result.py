"""`WriteResult`: the outcome of a write, which callers can print or check.

Spec: Snapshots (summary).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from icefloe.display.html import html_of
from icefloe.display.report import Facts, Report
from icefloe.formatting import count_text

METADATA_ONLY = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WriteResult:
    """The outcome of an append, delete, overwrite, upsert, UPDATE or MERGE. `snapshot_id` is None if nothing had to change, so that no snapshot was created."""

    operation: str  # append, delete, overwrite, upsert, update or merge
    engine: str  # the name of the engine that read or wrote rows; "metadata" if no rows had to be read or written
    snapshot_id: int | None
    attempts: int  # attempts of the commit; more than 1 if other writers committed first
    added_files: int = 0
    added_records: int = 0
    removed_files: int = 0
    rewritten_files: int = 0  # removed files whose remaining rows were copied to added files
    deleted_records: int | None = 0  # rows that were deleted; None if unknown
    deleted_keys: int = 0  # keys that were passed to a delete by keys
    added_delete_files: int = 0  # position and equality delete files, and deletion vectors, each of which counts as one file
    removed_delete_files: int = 0
    rows_updated: int = 0  # rows of the table whose values an upsert, UPDATE or MERGE changed
    rows_inserted: int = 0  # rows that an upsert or MERGE inserted
    rows_unchanged: int = 0  # source rows of an upsert whose matching row of the table was not changed
    added_bytes: int = 0  # of the added data files and delete files
    # Milliseconds of all attempts of the commit, including the rows that an attempt itself reads and copies.
    commit_ms: int = field(default=0, compare=False)

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
        """The number of rows that are new in the table: all rows of an append or overwrite, or the rows that an upsert, MERGE or UPDATE inserted."""
        return self.added_records if self.operation in ("append", "overwrite") else self.rows_inserted

    def _row_counts(self) -> Iterator[tuple[str, str]]:
        """Yield pairs such as `("inserted", "2 rows")` of what happened to rows and how many."""
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
        """Yield pairs such as `("added", "1 file")` of what happened to files and how many."""
        if self.added_files:
            yield "added", count_text(self.added_files, "file")
        if self.removed_files:
            rewritten = f" ({self.rewritten_files:,} of them rewritten)" if self.rewritten_files else ""
            yield f"removed{rewritten}", count_text(self.removed_files, "file")
        if self.added_delete_files:
            yield "added", count_text(self.added_delete_files, "delete file")
        if self.removed_delete_files:
            yield "removed", count_text(self.removed_delete_files, "delete file")


UpsertResult = WriteResult  # PyIceberg's name
