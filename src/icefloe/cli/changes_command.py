"""`icefloe changes`: the rows that snapshots changed, as lines of JSON or as a file for each snapshot, once or as a service that follows the table."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pyarrow as pa
import typer

from icefloe.cli.catalog_choice import CatalogChoice, open_table
from icefloe.cli.failure_output import state_after_interrupt
from icefloe.cli.row_view import rows_of_arrow
from icefloe.cli.screen import print_message
from icefloe.cli.shared_options import TableName, complete_ref
from icefloe.cli.table_command import with_catalog_options
from icefloe.errors import FileAlreadyExistsError, InvalidInputError, ReadOnlyTableError, StorageError, visible
from icefloe.formatting import count_text
from icefloe.io.local_file_io import LocalFileIO
from icefloe.io.whole_output import whole_output
from icefloe.lazy_imports import lazy_module
from icefloe.operations.change_feed.snapshot_range import Bound, time_bound
from icefloe.operations.change_follower import ChangeFollower, CommittedChanges, FeedPosition, decode_position
from icefloe.spec.dates_and_times import parse_timestamp
from icefloe.spec.metadata.snapshot import count_of
from icefloe.spec.metadata.snapshot_ref import MAIN
from icefloe.table.table import Table

if TYPE_CHECKING:
    from pyarrow import parquet
else:
    parquet = lazy_module("pyarrow.parquet")

# The name does not end with that of a data file, and begins so that Spark and others that read the folder ignore it.
POSITION_NAME = "_position.json"
_LOCAL = LocalFileIO()
_MOST_POSITION_BYTES = 1 << 16
_BEGINNING, _NOW, _ROWS = "beginning", "now", "rows"


class OutputFormat(StrEnum):
    """The format of files of changes."""

    JSON = "json"
    PARQUET = "parquet"


Start = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="START",
        help="Where to begin, if there is no stored position: after a snapshot id, a branch, a tag or a time such as 2026-01-31T12:00Z; at the beginning; now; "
        "or with all current rows.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="END", help="The last snapshot: its id, a branch, a tag or a time; by default the current one."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for further snapshots until Ctrl-C.")]
Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="With --follow: the time between two looks for new snapshots.")
]
Branch = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch whose changes are read.", autocompletion=complete_ref)]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="DIR", help="Write a file for each snapshot into this folder, instead of lines to standard output."),
]
Kind = Annotated[OutputFormat, typer.Option("--format", help="The format of the files in --folder.")]
Position = Annotated[
    Path | None,
    typer.Option(
        "--position",
        metavar="FILE",
        help=f"Store the position in this file after each snapshot, and continue at it; with --folder it is {POSITION_NAME} in there by default.",
    ),
]
Columns = Annotated[
    list[str] | None, typer.Option("--columns", metavar="NAMES", help="Only these columns, separated by commas; may be repeated.")
]
Where = Annotated[str | None, typer.Option("--where", metavar="FILTER", help="Only rows that match, such as \"type = 'a' AND id < 10\".")]
Updates = Annotated[bool, typer.Option("--updates", help="Find updates: a deleted and an inserted row with the same identity.")]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key", metavar="NAMES", help="With --updates: the columns that identify a row; by default row ids or the identifier fields."
    ),
]
Mode = Annotated[
    str,
    typer.Option(
        "--mode", metavar="MODE", help="dropCarryovers leaves out rows that were only copied to another file; none leaves out nothing."
    ),
]


@with_catalog_options
def changes(
    *,
    table: TableName,
    start: Start = _BEGINNING,
    until: Until = None,
    follow: Follow = False,
    interval: Interval = 5.0,
    branch: Branch = MAIN,
    folder: Folder = None,
    kind: Kind = OutputFormat.JSON,
    position: Position = None,
    columns: Columns = None,
    where: Where = None,
    updates: Updates = False,
    keys: Keys = None,
    mode: Mode = "dropCarryovers",
    choice: CatalogChoice,
) -> None:
    """Write the rows that snapshots inserted, deleted and updated, as lines of JSON or as files; with --follow also those of snapshots to come."""
    if follow and until is not None:
        raise InvalidInputError("both --follow and --until are given", next_step="omit one of them")
    if mode.lower() == "netchanges":
        raise InvalidInputError(
            "changes are written snapshot by snapshot, and netChanges compares several",
            next_step="omit --mode, or use table.changes in Python",
        )
    opened = open_table(table, choice)
    followed = opened if follow and isinstance(opened, Table) else None
    if follow and followed is None:
        raise ReadOnlyTableError(
            "a table named by its metadata file has no further snapshots",
            path=table,
            next_step="name it as namespace.table, or omit --follow",
        )
    names = _names(columns)
    scan = opened.changes(
        opened.metadata.current_snapshot_id,  # the follower chooses the snapshots; those of the whole history are not looked up
        row_filter=where,
        selected_fields=(*(names or ["*"]), "_change_type", "_commit_snapshot_id", "_commit_timestamp"),
        deduplication_mode=mode,
        compute_updates=updates,
        identifier_columns=_names(keys) or None,
    )
    scan.columns_to_read()  # raises an error for unknown columns, and for updates without an identity
    sink = _Lines() if folder is None else _Files(folder, kind)
    stored = _StoredPosition(position or (None if folder is None else folder / POSITION_NAME))
    follower = ChangeFollower(table=opened, scan=scan)
    with state_after_interrupt(stored.state()):
        run = _begin(follower, sink, stored, start, branch)
        run.write_new(None if until in (None, _NOW) else follower.position_at(_range_bound(until), branch))
        while followed is not None:
            sleep(interval)
            followed.refresh()
            run.write_new()


def _begin(follower: ChangeFollower, sink: "_Lines | _Files", stored: "_StoredPosition", start: str, branch: str) -> "_Delivery":
    """Return a delivery that continues at the stored position or, if there is none, begins at `start`. All current rows are written, if `start` is `rows`."""
    position = stored.read()
    if position is not None and position.branch != branch:
        raise InvalidInputError(
            f"the position in {stored.path} is one of the branch {position.branch!r}, and --branch is {branch!r}",
            next_step="name another file by --position, or the same branch",
        )
    if position is None:
        position = follower.head(branch) if start in (_NOW, _ROWS) else follower.position_at(_range_bound(start), branch)
        if start == _ROWS and position.snapshot_id is not None:
            position = msgspec.structs.replace(position, lacks_rows=True)
        stored.write(position)  # so that the next start begins at the same snapshot, whatever is committed before it
    run = _Delivery(follower=follower, sink=sink, stored=stored, position=position)
    if position.lacks_rows:
        run.write(follower.rows_at(position))
    return run


@dataclass(kw_only=True)
class _Delivery:
    """The delivery of the changes after a position.

    Attributes:
        follower: The reader of changes.
        sink: Where they are written.
        stored: The file of the position.
        position: The position after what was written.
    """

    follower: ChangeFollower
    sink: "_Lines | _Files"
    stored: "_StoredPosition"
    position: FeedPosition

    def write_new(self, last: FeedPosition | None = None) -> None:
        """Write the changes after the position, up to another one or the newest."""
        for committed in self.follower.changes_after(self.position, last):
            self.write(committed)

    def write(self, committed: CommittedChanges) -> None:
        """Write the changes of one snapshot, and then the position after it."""
        self.sink.write(committed)
        self.stored.write(committed.position)
        self.position = committed.position


class _Lines:
    """Changes as lines of JSON on standard output."""

    def write(self, committed: CommittedChanges) -> None:
        for line in _json_lines(committed):
            sys.stdout.write(line)
        sys.stdout.flush()  # before the position is stored


@dataclass(frozen=True, slots=True)
class _Files:
    """Changes as one file for each snapshot that has some, named by the time and the id of the snapshot.

    A file that is there was written by an earlier start, which ended before it stored its position: it is complete, and is kept.
    """

    folder: Path
    kind: OutputFormat

    def write(self, committed: CommittedChanges) -> None:
        snapshot = committed.snapshot
        batches = (batch for batch in committed.rows if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return
        rows = pa.RecordBatchReader.from_batches(committed.rows.schema, chain((first,), batches))
        suffix = "jsonl" if self.kind is OutputFormat.JSON else "parquet"
        path = self.folder / f"{snapshot.timestamp_ms:013d}-{snapshot.snapshot_id}.{suffix}"
        with suppress(FileAlreadyExistsError):
            with whole_output(_LOCAL, str(path.absolute())) as output:
                count = self._write_rows(output, replace(committed, rows=rows))
            print_message(f"{count_text(count, 'change')} of snapshot {snapshot.snapshot_id} in {path}")

    def _write_rows(self, output: Any, committed: CommittedChanges) -> int:
        count = 0
        if self.kind is OutputFormat.PARQUET:
            with parquet.ParquetWriter(output, committed.rows.schema, compression="zstd") as writer:
                for batch in committed.rows:
                    writer.write_batch(batch)
                    count += batch.num_rows
        else:
            for line in _json_lines(committed):
                output.write(line.encode())
                count += 1
        return count


@dataclass(frozen=True, slots=True)
class _StoredPosition:
    """A position in a file, which is replaced as a whole. Without a path nothing is stored."""

    path: Path | None

    def read(self) -> FeedPosition | None:
        if self.path is None:
            return None
        try:
            with self.path.open("rb") as file:
                return decode_position(file.read(_MOST_POSITION_BYTES), str(self.path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"the position cannot be read: {error.strerror}", path=str(self.path)) from error

    def write(self, position: FeedPosition) -> None:
        if self.path is not None:
            _LOCAL.write(str(self.path.absolute()), position.encode(), overwrite=True)

    def state(self) -> str:
        """Return what an interrupted command leaves."""
        if self.path is None:
            return "no position was stored"
        return f"the same command continues at the position in {self.path}"


def _json_lines(committed: CommittedChanges) -> Iterator[str]:
    """Yield each row as a line of JSON."""
    batches = rows_of_arrow(committed.rows, committed.columns, "arrow")
    for row in batches.rows():
        yield visible(json.dumps(dict(zip(batches.names, row, strict=True)), ensure_ascii=False, separators=(",", ":"))) + "\n"


def _range_bound(text: str) -> Bound | None:
    """Return the bound that an option names: a snapshot id, a time, or else a branch or tag."""
    if text in (_BEGINNING, _ROWS, _NOW):
        return None
    if (snapshot_id := count_of(text)) is not None:
        return snapshot_id
    try:
        return time_bound(parse_timestamp(text, utc=True))
    except (ValueError, OverflowError):
        return text


def _names(texts: list[str] | None) -> list[str]:
    return [name.strip() for text in texts or () for name in text.split(",") if name.strip()]
