"""`OrphanOptions`: the checked arguments of `TableMaintenance.remove_orphan_files`, and the options with which `maintain` removes orphan files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from icefloe.errors import InvalidInputError
from icefloe.io.bulk_delete import THREADS
from icefloe.maintenance.orphan_report import OrphanMode
from icefloe.operations.orphans.path_keys import PathKeys, PrefixMismatch

DAY_MS = 24 * 60 * 60 * 1000
# Java's default of `older_than`, and its minimum.
DEFAULT_AGE_MS, LEAST_AGE_MS = 3 * DAY_MS, DAY_MS
PURGE_DELAY = timedelta(days=7)
# The maximum of paths in the result; if results are streamed, as many as Java returns.
SAMPLE, MOST_PATHS = 20_000, 1_000_000

E = TypeVar("E", OrphanMode, PrefixMismatch)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanOptions:
    """The checked arguments of `TableMaintenance.remove_orphan_files`."""

    mode: OrphanMode
    older_than_ms: int
    location: str | None
    dry_run: bool
    threads: int
    most_paths: int
    view: Any
    engine: str | None
    keys: PathKeys
    mismatch: PrefixMismatch
    purge_delay_ms: int
    lists_none: bool = False  # whether a search without orphan files writes an empty list, as a record of the search


def orphan_options(
    now_ms: int,
    *,
    mode: str,
    older_than: datetime | int | None,
    location: str | None,
    dry_run: bool,
    max_concurrent_deletes: int | None,
    stream_results: bool,
    file_list_view: Any,
    equal_schemes: Mapping[str, str] | None,
    equal_authorities: Mapping[str, str] | None,
    prefix_mismatch_mode: str,
    purge_delay: timedelta,
    force: bool,
    engine: str | None,
) -> OrphanOptions:
    """Check the arguments, and return them as options. Raises `InvalidInputError` as `TableMaintenance.remove_orphan_files`."""
    if max_concurrent_deletes is not None and max_concurrent_deletes < 1:
        raise InvalidInputError(f"max_concurrent_deletes is {max_concurrent_deletes}; it counts threads, so it is 1 or more")
    older_than_ms = _milliseconds(older_than, now_ms)
    if older_than_ms > now_ms - LEAST_AGE_MS and not force:
        raise InvalidInputError(
            "Cannot remove orphan files with an interval less than 24 hours: files of a commit that is not finished look like orphans",
            next_step="give an earlier time; or pass force, if no other program writes to this table now",
        )
    delay_ms = int(purge_delay.total_seconds() * 1000)
    if delay_ms < (0 if force else DAY_MS):
        raise InvalidInputError(
            f"the delay of the purge is {purge_delay}: without force it is at least one day", next_step="give a longer one"
        )
    chosen = _member(OrphanMode, mode.lower(), "mode")
    if chosen in (OrphanMode.PURGE, OrphanMode.UNDO) and (location is not None or file_list_view is not None):
        raise InvalidInputError(
            f"the mode {chosen} works on lists, and takes no location and no file_list_view", next_step="leave these arguments out"
        )
    return OrphanOptions(
        mode=chosen,
        older_than_ms=older_than_ms,
        location=location,
        dry_run=dry_run,
        threads=max_concurrent_deletes or THREADS,
        most_paths=SAMPLE if stream_results else MOST_PATHS,
        view=file_list_view,
        engine=engine,
        keys=PathKeys.of(equal_schemes or {}, equal_authorities or {}),
        mismatch=_member(PrefixMismatch, prefix_mismatch_mode.upper(), "prefix_mismatch_mode"),
        purge_delay_ms=delay_ms,
    )


def two_step_options(now_ms: int, mode: OrphanMode) -> OrphanOptions:
    """Return the options by which `maintain` lists orphan files or purges lists.

    They are the defaults, except that results have fewer paths, and that a list is written even without orphan files.
    """
    return OrphanOptions(
        mode=mode,
        older_than_ms=now_ms - DEFAULT_AGE_MS,
        location=None,
        dry_run=False,
        threads=THREADS,
        most_paths=SAMPLE,
        view=None,
        engine=None,
        keys=PathKeys.of({}, {}),
        mismatch=PrefixMismatch.ERROR,
        purge_delay_ms=PURGE_DELAY // timedelta(milliseconds=1),
        lists_none=True,
    )


def _member(kind: type[E], text: str, argument: str) -> E:
    try:
        return kind(text)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise InvalidInputError(f"{argument} is {text!r}", next_step=f"there are: {names}") from None


def _milliseconds(older_than: datetime | int | None, now_ms: int) -> int:
    if older_than is None:
        return now_ms - DEFAULT_AGE_MS
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise InvalidInputError(
                f"older_than is {older_than.isoformat()}, which has no time zone",
                next_step="give a time with a time zone, such as datetime.now(UTC) - timedelta(days=3)",
            )
        return int(older_than.timestamp() * 1000)
    return older_than
