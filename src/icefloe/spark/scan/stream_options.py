"""Options of streaming reads: where a stream begins, how much a batch reads, and what follows if a snapshot is not an append or is missing.

Other options of a stream are those of reads, in `read_options.py`. Spec: Snapshots (`operation`).
"""

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from icefloe.errors import InvalidInputError
from icefloe.option import Option
from icefloe.scan.micro_batches import ON_MISSING, READ_OVERWRITES, SKIP_DELETES, SKIP_OVERWRITES, OnMissing, ReadLimits, StreamRules
from icefloe.spark.scan.read_options import FROM_TIMESTAMP, MAX_BYTES, MAX_FILES, MAX_ROWS
from icefloe.spark.scan.table_selector import RANGE_OPTIONS, TableSelection, timestamp_ms, with_options
from icefloe.spec.metadata.snapshot import count_of

T = TypeVar("T")
_ON_MISSING = ("fail", "oldest", "newest")
# Options that select one state of a table, which a stream does not have.
_OF_ONE_STATE = ("snapshot-id", "tag", "as-of-timestamp", "versionasof", "timestampasof", *RANGE_OPTIONS)

STREAM_OPTIONS = (
    Option(
        FROM_TIMESTAMP,
        "Begin with the first snapshot from this time on, instead of with the rows of the table: milliseconds, or a time with its zone.",
    ),
    Option(MAX_FILES, "The most data files of a batch.", "all"),
    Option(MAX_ROWS, "The most rows of a batch, before deletes; a batch has at least one file.", "all"),
    Option(MAX_BYTES, "The most bytes of data files of a batch; a batch has at least one file.", "all", java=False),
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


def stream_selection(selected: TableSelection, options: Mapping[str, str]) -> TableSelection:
    """Return the table and branch that a stream reads.

    Raises:
        InvalidInputError: The name or an option selects a snapshot, a tag, a time or a range.
    """
    refused = sorted(name.lower() for name in options if name.lower() in _OF_ONE_STATE)
    if refused or selected.is_past:
        name = selected.table.full_name
        what = f"the option {refused[0]}" if refused else "a snapshot, tag or time in its name"
        raise InvalidInputError(
            f"the stream of {name} is read with {what}, and a stream has no single state",
            table=name,
            next_step=f"leave it out; {FROM_TIMESTAMP} begins with the snapshots of a time, and branch reads a branch",
        )
    return with_options(selected, options)


def stream_rules(options: Mapping[str, str]) -> StreamRules:
    """Parse the options that select the snapshots of a stream.

    Raises:
        InvalidInputError: A value is not valid, or options contradict each other.
    """
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


def read_limits(options: Mapping[str, str]) -> ReadLimits:
    """Parse the limits of a batch. Raises `InvalidInputError` if a value is not a whole number of at least 1."""
    files, rows, size = (_parse(options, name, _count, None) for name in (MAX_FILES, MAX_ROWS, MAX_BYTES))
    return ReadLimits(files=files, rows=rows, bytes=size)


def _parse(options: Mapping[str, str], name: str, parse: Callable[[str, str], T], default: T) -> T:
    text = next((value for key, value in options.items() if key.lower() == name), None)
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
    return InvalidInputError(f"the read option {name} is {text!r}, which is not {allowed}", next_step=f"give it {allowed}")
