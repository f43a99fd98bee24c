"""Options of streaming reads: what a stream has, where it begins, how much a batch reads, and what follows if a snapshot is no append or is missing.

Other options of a stream are those of reads, in `read_options.py`. Spec: Snapshots (`operation`).
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from icefloe.errors import InvalidInputError
from icefloe.formatting import short_text
from icefloe.operations.change_feed.change_scan import DeduplicationMode, deduplication_named
from icefloe.operations.change_feed.snapshot_range import Bound
from icefloe.option import Option
from icefloe.scan.stream_rules import ON_MISSING, READ_OVERWRITES, SKIP_DELETES, SKIP_OVERWRITES, OnMissing, ReadLimits, StreamRules
from icefloe.spark.scan.read_options import (
    CHANGES_MODE,
    COMPUTE_UPDATES,
    DEDUPLICATION,
    FROM_TIMESTAMP,
    MAX_BYTES,
    MAX_FILES,
    MAX_ROWS,
    OPTIONS_OF_CLAUSE,
    POLLING,
    READ_MODE,
    read_mode,
)
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, TableSelection, snapshot_id_of, timestamp_ms, with_options
from icefloe.spec.metadata.snapshot import count_of

T = TypeVar("T")
_ON_MISSING = ("fail", "oldest", "newest")
# Options that select one state of a table, which a stream does not have.
_OF_ONE_STATE = ("snapshot-id", "tag", "as-of-timestamp", "versionasof", "timestampasof", *RANGE_OPTIONS)
_START = "start-snapshot-id"
# Options of streams of appended rows, which streams of changes do not have: deletes and overwrites are changes as others.
_OF_APPENDS = (SKIP_DELETES, SKIP_OVERWRITES, READ_OVERWRITES)
# Limits of other sources of streams, by which users may mean those of Iceberg.
_LIMITS_ELSEWHERE = {"maxfilespertrigger": MAX_FILES, "maxrowspertrigger": MAX_ROWS, "maxbytespertrigger": MAX_BYTES}

STREAM_OPTIONS = (
    Option(
        FROM_TIMESTAMP,
        "Begin with the first snapshot from this time on, instead of with the rows of the table: milliseconds, or a time with its zone.",
    ),
    Option(
        READ_MODE,
        '`changes`, with `format("iceberg")`: all rows as inserts, then those that snapshots inserted, deleted and updated. `rows`: appended rows.',
        "`rows`",
        java=False,
    ),
    Option(
        DEDUPLICATION,
        "Of a stream of changes: `dropCarryovers` leaves out rows that a snapshot only copied to another file; `none` leaves out nothing.",
        "`dropCarryovers`",
        java=False,
    ),
    Option(
        COMPUTE_UPDATES,
        "`true`, of a stream of changes: a deleted and an inserted row with the same identity become the two images of an update.",
        "`false`",
        java=False,
    ),
    Option(MAX_FILES, "The most data files of a batch; of changes, as far as whole snapshots have no more. At least one snapshot.", "all"),
    Option(MAX_ROWS, "The most rows of a batch, before deletes; a batch has at least one file.", "all"),
    Option(MAX_BYTES, "The most bytes of data files of a batch; a batch has at least one file.", "all", java=False),
    Option(POLLING, "The least milliseconds between two loads of the table to look for new snapshots.", "as often as Spark looks"),
    Option(SKIP_DELETES, "`true`: snapshots that only delete rows are skipped, and the stream continues after a rollback.", "`false`"),
    Option(SKIP_OVERWRITES, "`true`: snapshots that replace rows are skipped.", "`false`"),
    Option(READ_OVERWRITES, "`true`: the files that snapshots that replace rows have added are read.", "`false`", java=False),
    Option(
        ON_MISSING,
        "If snapshots that the stream has not read were expired: `fail`; `oldest` continues with the oldest that remains, `newest` with the next commit.",
        "`fail`",
        java=False,
    ),
)


def stream_selection(selected: TableSelection, options: Mapping[str, str], *, takes_start: bool = False) -> TableSelection:
    """Return the table and branch that a stream reads.

    Args:
        selected: The selection by the name.
        options: The options of the read.
        takes_start: Whether the stream is one of changes, which may begin after a snapshot.

    Raises:
        InvalidInputError: The name or an option selects a snapshot, a tag, a time or a range.
    """
    refused = sorted(name.lower() for name in options if name.lower() in _OF_ONE_STATE and not (takes_start and name.lower() == _START))
    if refused or selected.is_past:
        name = selected.table.full_name
        what = f"the option {refused[0]}" if refused else "a snapshot, tag or time in its name"
        raise InvalidInputError(
            f"the stream of {name} is read with {what}, and a stream has no single state",
            table=name,
            next_step=f"leave it out; {FROM_TIMESTAMP} begins with the snapshots of a time, and branch reads a branch",
        )
    return with_options(selected, options, takes_range=takes_start)


def stream_rules(options: Mapping[str, str]) -> StreamRules:
    """Parse the options that select the snapshots of a stream of appended rows.

    Raises:
        InvalidInputError: A value is not valid, options contradict each other, or an option is for streams of changes.
    """
    for name in (DEDUPLICATION, COMPUTE_UPDATES):
        if _text(options, name) is not None:
            raise InvalidInputError(
                f"a stream of rows is read with {name}, an option of streams of changes",
                next_step=f'leave it out; or read changes: format("iceberg") with the option {READ_MODE}={CHANGES_MODE}',
            )
    rules = StreamRules(
        skips_deletes=_parse(options, SKIP_DELETES, _flag, False),
        skips_overwrites=_parse(options, SKIP_OVERWRITES, _flag, False),
        reads_overwrites=_parse(options, READ_OVERWRITES, _flag, False),
        from_timestamp_ms=_parse(options, FROM_TIMESTAMP, lambda _, text: timestamp_ms(text), None),
        on_missing=_parse(options, ON_MISSING, _choice, "fail"),
    )
    if rules.skips_overwrites and rules.reads_overwrites:
        raise InvalidInputError(f"a stream is read with {SKIP_OVERWRITES} and {READ_OVERWRITES}", next_step="give one of them")
    return rules


def change_stream_rules(options: Mapping[str, str], *, has_start: bool) -> StreamRules:
    """Parse the options that select the snapshots of a stream of changes.

    Args:
        options: The options of the read.
        has_start: Whether a snapshot with which the changes begin was selected by other means than a time in the options.

    Raises:
        InvalidInputError: A value is not valid, or an option is for other streams.
    """
    given = {name.lower() for name in options}
    refused = [name for name in _OF_APPENDS if name in given]
    if refused:
        raise InvalidInputError(
            f"a stream of changes is read with {refused[0]}, an option of streams of appended rows",
            next_step="leave it out: deletes and overwrites are changes as others",
        )
    if _text(options, READ_MODE) is not None and read_mode(options) != CHANGES_MODE:
        raise InvalidInputError(f"CHANGES is read with the option {READ_MODE}={read_mode(options)}", next_step="leave the option out")
    if has_start and FROM_TIMESTAMP in given:
        raise InvalidInputError(f"a stream of changes is read with {FROM_TIMESTAMP} and with another start", next_step="give one of them")
    return StreamRules(
        from_timestamp_ms=_parse(options, FROM_TIMESTAMP, lambda _, text: timestamp_ms(text), None),
        on_missing=_parse(options, ON_MISSING, _choice, "fail"),
    )


def deduplication_of(options: Mapping[str, str]) -> DeduplicationMode:
    """Return which changes a stream leaves out. Raises `InvalidInputError` if the option has another value, or for `netChanges`."""
    return stream_deduplication(
        _parse(options, DEDUPLICATION, lambda _, text: deduplication_named(text), DeduplicationMode.DROP_CARRYOVERS)
    )


def stream_deduplication(mode: DeduplicationMode) -> DeduplicationMode:
    """Return a mode unchanged. Raises `InvalidInputError` for `netChanges`, whose result in a stream would depend on the limits of batches."""
    if mode is DeduplicationMode.NET_CHANGES:
        raise InvalidInputError(
            f"a stream of changes is read with {DEDUPLICATION} {mode}: which changes undo each other would depend on which snapshots are in a batch",
            next_step=f"leave {DEDUPLICATION} out, and keep the last change of each key in foreachBatch; or read the changes of a range without a stream",
        )
    return mode


def updates_are_computed(options: Mapping[str, str]) -> bool:
    """Return whether a stream has the two images of updates. Raises `InvalidInputError` if the option has another value than true or false."""
    return _parse(options, COMPUTE_UPDATES, _flag, False)


def first_snapshot_of(options: Mapping[str, str]) -> int | None:
    """Return the id of the snapshot after which a stream of changes begins; None if no option selects it.

    Raises:
        InvalidInputError: The value is not a number, or an option is one of Spark's clause CHANGES.
    """
    of_clause = sorted(name for name in options if name.lower() in OPTIONS_OF_CLAUSE)
    if of_clause:
        raise InvalidInputError(
            f"a stream is read with {READ_MODE}={CHANGES_MODE} and {of_clause[0]}, an option of readStream.changes of Spark 4.2 and later",
            next_step=f"give {_START}, after which the changes begin, or {FROM_TIMESTAMP}",
        )
    text = _text(options, _START)
    return None if text is None else snapshot_id_of(_START, text)


def first_snapshot_of_clause(options: Mapping[str, str], start: Bound | None) -> Bound | None:
    """Return the bound with which a stream of CHANGES begins: that of the clause, or of an option. Raises `InvalidInputError` if both are given."""
    text = _text(options, _START)
    if text is not None and start is not None:
        raise InvalidInputError(f"a stream of changes is read with {_START} and with another start", next_step="give one of them")
    return start if text is None else snapshot_id_of(_START, text)


def read_limits(options: Mapping[str, str]) -> ReadLimits:
    """Parse the limits of a batch. Raises `InvalidInputError` if a value is not a whole number of at least 1, or an option is that of another source."""
    for name in options:
        if name.lower() in _LIMITS_ELSEWHERE:
            raise InvalidInputError(f"there is no read option {name!r}", next_step=f"write {_LIMITS_ELSEWHERE[name.lower()]!r}")
    files, rows, size = (_parse(options, name, _count, None) for name in (MAX_FILES, MAX_ROWS, MAX_BYTES))
    return ReadLimits(files=files, rows=rows, bytes=size)


def polling_interval_s(options: Mapping[str, str]) -> float:
    """Return the least seconds between two loads of the table to look for new snapshots. Raises `InvalidInputError` if it is no whole number of at least 1."""
    return (_parse(options, POLLING, _count, None) or 0) / 1000


def _text(options: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _parse(options: Mapping[str, str], name: str, parse: Callable[[str, str], T], default: T) -> T:
    text = _text(options, name)
    return default if text is None else parse(name, text.strip())


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _invalid(name, text, "true or false")
    return text.lower() == "true"


def _count(name: str, text: str) -> int | None:
    count = count_of(text)
    if count is None or not 0 < count < 2**63:
        raise _invalid(name, text, "a whole number of at least 1")
    return count


def _choice(name: str, text: str) -> OnMissing:
    if text.lower() not in _ON_MISSING:
        raise _invalid(name, text, f"one of {', '.join(_ON_MISSING)}")
    return cast(OnMissing, text.lower())


def _invalid(name: str, text: str, allowed: str) -> InvalidInputError:
    return InvalidInputError(f"the read option {name} is {short_text(text)!r}, which is not {allowed}", next_step=f"give it {allowed}")
