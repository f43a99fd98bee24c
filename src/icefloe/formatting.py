"""Conversion of numbers, times and paths to text for readers.

`decoded.py` converts values of a table's own types.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The most characters of a displayed text, such as a column's comment.
LONGEST_TEXT = 200
# The most columns or rows of a displayed value.
MOST_SHOWN = 20
# Units of ages in milliseconds.
_AGES = (
    ("year", 31_536_000_000),
    ("month", 2_592_000_000),
    ("day", 86_400_000),
    ("hour", 3_600_000),
    ("minute", 60_000),
    ("second", 1_000),
)
# Units of sizes, each 1024 times the previous one, as storage tools show them.
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(size: int | None) -> str:
    """Return a size as `1.5 MiB`, at most three digits before the unit; `unknown` for None."""
    if size is None:
        return "unknown"
    if size < 1024:
        return f"{size:,} B"
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}" if amount < 1000 else f"{amount:,.0f} {_UNITS[unit]}"


def count_text(count: int | None, singular: str = "", many: str = "") -> str:
    """Return a count as `1,234`, `1 file` or `2 files`; `unknown` for None."""
    number = "unknown" if count is None else f"{count:,}"
    word = singular if count == 1 else many or (f"{singular}s" if singular else "")
    return f"{number} {word}".rstrip()


def share_text(part: int, whole: int) -> str:
    """Return a share as `12.3 %`; `-` if the whole is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def time_text(timestamp_ms: int | None) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond; `never` for None."""
    if timestamp_ms is None:
        return "never"
    try:
        return f"{(_EPOCH + timedelta(milliseconds=timestamp_ms)).replace(tzinfo=None).isoformat(sep=' ', timespec='milliseconds')} UTC"
    except OverflowError:
        return f"{timestamp_ms} ms since 1970"


def age_text(milliseconds: int) -> str:
    """Return an age as `3 days`, in the largest unit of which there is at least one; `0 seconds` for a time in the future."""
    for unit, size in _AGES:
        if milliseconds >= size:
            return count_text(milliseconds // size, unit)
    return "0 seconds"


def within(path: str, location: str) -> str:
    """Return a path relative to the table's folder; a path outside of it unchanged, and `not named` for a path that a catalog's server left out."""
    if not location:
        return path
    return path.removeprefix(location.rstrip("/") + "/") or "not named"


def short_text(text: str) -> str:
    """Shorten a text to at most `LONGEST_TEXT` characters. Any writer of the table may have made the text long."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def snapshots_text(snapshot_ids: Sequence[int | None], *, dry_run: bool) -> str:
    """Return the ids of the snapshots that an operation committed as text, or the reason why there is none."""
    return ", ".join(str(snapshot_id) for snapshot_id in snapshot_ids if snapshot_id is not None) or (
        "none: nothing was changed" if dry_run else "none: there was nothing to do"
    )


def file_name(path: str) -> str:
    """Return the part of a path after its last slash; `not named` for a path that a catalog's server left out."""
    return path.rpartition("/")[2] if path else "not named"
