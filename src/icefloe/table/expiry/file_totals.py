"""`FileTotal`: how many files of a kind went, or would go, and how many bytes they were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icefloe.errors import Problem
from icefloe.table.expiry.file_kinds import FILES, FileKind

# Files outside the table's location that a report's text names; its table `outside` has all of them.
SHOWN_OUTSIDE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotal:
    """How many files, and how many bytes they are together, as far as that is known."""

    files: int = 0
    size_in_bytes: int = 0


def no_files() -> Any:
    """A report's table of files, without any."""
    return reported(FILES.empty_table())


def reported(files: Any) -> Any:
    """A table of `FILES` as reports have it: the columns `kind`, `path` and `size_in_bytes`."""
    return files.drop_columns("key")


def totals(files: Any, undeleted: Sequence[Problem]) -> Mapping[FileKind, FileTotal]:
    """A report's files by their kind, in the order of deletion, without those that could not be deleted."""
    failed = pa.array([problem.where for problem in undeleted], pa.string())
    found = {}
    for kind in FileKind:
        part = files.filter(pc.equal(files["kind"], kind.value))
        if len(failed):
            part = part.filter(pc.invert(pc.is_in(part["path"], value_set=failed)))
        if len(part):
            found[kind] = FileTotal(files=len(part), size_in_bytes=pc.sum(part["size_in_bytes"]).as_py() or 0)
    return found


def outside_lines(outside: Any) -> list[str]:
    """Return the lines that name files which were kept because they are outside the table's location."""
    if not len(outside):
        return []
    shown = outside["path"].slice(0, SHOWN_OUTSIDE).to_pylist()
    left = len(outside) - len(shown)
    return [
        f"{len(outside):,} {'file is' if len(outside) == 1 else 'files are'} outside the table's location and not deleted; to delete what lies in a folder"
        " of your own, name it in allow_outside or in the catalog property io.delete-outside:",
        *(f"  {path}" for path in shown),
        *([f"  and {left:,} more"] if left else []),
    ]


def total_lines(found: Mapping[FileKind, FileTotal], verb: str) -> list[str]:
    """`2 data files deleted, 858 bytes`, one line a kind."""
    return [
        f"{total.files:,} {kind.value.removesuffix('s') if total.files == 1 else kind.value} {verb}, {total.size_in_bytes:,} bytes"
        for kind, total in found.items()
    ]
