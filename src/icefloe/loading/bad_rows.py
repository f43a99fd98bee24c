"""Rows of input files that cannot be loaded. They are counted; and they are listed in an error, skipped, or written to a file beside the input.

The file of bad rows is CSV as in RFC 4180, with the columns file, line, column, reason and text.
"""

import csv
import io
import os
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from icefloe.errors import FileAlreadyExistsError, InvalidInputError, Problem, in_one_line
from icefloe.io.local_file_io import publish, unlink_if_there
from icefloe.io.locations import local_path, scheme_of
from icefloe.io.storage_errors import storage_error
from icefloe.loading.input_files import BAD_ROWS_ENDING

# The most bad rows that an error or a result lists. All bad rows are counted.
LISTED = 5
_SHOWN_CHARACTERS = 80
_HEADER = ("file", "line", "column", "reason", "text")


class BadRows(StrEnum):
    """What a load does with rows that it cannot read or convert: fail, skip them, or write them to a file and load the other rows (quarantine)."""

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that cannot be loaded.

    Attributes:
        file: The location of the row's file.
        line: The number of the line on which the row begins, from 1; in a Parquet file the number of the row, from 1.
        column: The name of the column that is wrong; None if the whole row is wrong.
        reason: What is wrong, without a subject, such as "is not a long".
        text: The text of the row in the file; bytes that are not UTF-8 are replaced. For Parquet, the values of the row as text.
    """

    file: str
    line: int
    column: str | None
    reason: str
    text: str

    def problem(self) -> Problem:
        """Return the row as a `Problem`, for the list of problems in an error."""
        column = f", column {self.column!r}" if self.column is not None else ""
        shown = in_one_line(self.text[:_SHOWN_CHARACTERS]) + ("…" if len(self.text) > _SHOWN_CHARACTERS else "")
        return Problem(where=f"{self.file} line {self.line}{column}", what=f"{self.reason}: {shown}" if shown else self.reason)


class BadRowCollector:
    """Collects the bad rows of one load.

    With the policy `quarantine`, each row is written to a temporary file at once; `publish` renames the file to its final name, and `discard` deletes it.
    """

    def __init__(self, policy: BadRows, path: str | None = None) -> None:
        """Create a collector without rows.

        Args:
            policy: What the load does with bad rows.
            path: The local path of the file of bad rows, which must not exist. It is used only with the policy `quarantine`.

        Raises:
            FileAlreadyExistsError: The file exists.
        """
        self.policy = policy
        self.count = 0
        self.files: set[str] = set()
        self.first: list[BadRow] = []
        self.path = path if policy is BadRows.QUARANTINE else None
        self._output: io.TextIOWrapper | None = None
        self._temporary = ""
        self._is_published = False
        if self.path is not None and os.path.lexists(self.path):
            raise FileAlreadyExistsError(
                f"{self.path} exists, and bad rows are not written over a file", path=self.path, next_step="move it, or name another file"
            )

    @property
    def has_failed(self) -> bool:
        """Whether the load must fail: a row is bad, and the policy is `fail`."""
        return self.policy is BadRows.FAIL and self.count > 0

    def add(self, row: BadRow) -> None:
        """Count a bad row, and keep it in `first` if it is one of the first `LISTED` rows. With the policy `quarantine`, write it to the file.

        Raises:
            StorageError: The row cannot be written to the file.
        """
        self.count += 1
        self.files.add(row.file)
        if len(self.first) < LISTED:
            self.first.append(row)
        if self.path is None:
            return
        try:
            if self._output is None:
                self._temporary = f"{self.path}.{os.getpid()}.tmp"
                self._output = open(self._temporary, "x", encoding="utf-8", errors="replace", newline="")  # noqa: SIM115
                csv.writer(self._output).writerow(_HEADER)
            csv.writer(self._output).writerow((row.file, row.line, row.column or "", row.reason, row.text))
        except OSError as error:
            raise storage_error(error, self.path) from error

    def error(self, rows: int) -> InvalidInputError:
        """Return the error of a load that fails because of its bad rows.

        Args:
            rows: The number of rows that are not bad.
        """
        files = next(iter(self.files)) if len(self.files) == 1 else f"{len(self.files)} files"
        problems = [row.problem() for row in self.first]
        if self.count > len(problems):
            problems.append(Problem(where="", what=f"and {self.count - len(problems):,} more"))
        every = self.policy is not BadRows.FAIL
        return InvalidInputError(
            f"{self.count:,} of {self.count + rows:,} rows of {files} cannot be loaded{', so nothing would be' if every else ''}",
            problems=problems,
            next_step="check the separator, the quotes and the columns"
            if every
            else "correct them, or pass --bad-rows skip, or --bad-rows quarantine to write them to a file; nothing was loaded",
        )

    def publish(self) -> None:
        """Rename the file of bad rows to its final name; do nothing if there is no such file. Call this before the good rows are committed.

        Raises:
            FileAlreadyExistsError: Another process has created a file with the final name in the meantime.
            StorageError: The file cannot be written.
        """
        if self._output is None or self.path is None or self._is_published:
            return
        try:
            self._output.flush()
            os.fsync(self._output.fileno())
            self._output.close()
            publish(self._temporary, self.path)
            self._is_published = True
            unlink_if_there(self._temporary)
        except OSError as error:
            raise storage_error(error, self.path) from error

    def discard(self, *, keeps_published: bool = False) -> None:
        """Delete the file of bad rows after a load that was not committed.

        Args:
            keeps_published: Whether to keep a file that `publish` has renamed, because the commit may have happened.
        """
        if self._output is None or self.path is None or (self._is_published and keeps_published):
            return
        with suppress(OSError):
            self._output.close()
        with suppress(OSError):
            os.unlink(self.path if self._is_published else self._temporary)


def bad_rows_path(first_input: str) -> str:
    """Return the path of a file for bad rows that does not exist: beside the first input file, or in the working directory if that is in an object store.

    The name begins with an underscore, so that the file is not loaded if its folder is loaded again.
    """
    if scheme_of(first_input) == "file":
        folder, name = os.path.split(local_path(first_input))
    else:
        folder, name = os.getcwd(), first_input.rstrip("/").rsplit("/", 1)[-1]
    names = (f"_{name}{'' if number == 1 else f'.{number}'}{BAD_ROWS_ENDING}" for number in count(1))
    return next(path for path in (os.path.join(folder, candidate) for candidate in names) if not os.path.lexists(path))
