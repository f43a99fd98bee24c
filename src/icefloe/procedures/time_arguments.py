"""Parsing of times in the arguments of procedures and commands: texts in ISO 8601, ages such as `7d`, and milliseconds."""

import re
from datetime import UTC, datetime, timedelta

from icefloe.errors import InvalidInputError

_AGE = re.compile(r"(\d+)\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def utc_time_of(text: str) -> datetime:
    """Parse a time in ISO 8601. A time without an offset is in UTC, like all printed times.

    Raises:
        ValueError: The text is not a time in ISO 8601.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def older_than_time(text: str) -> datetime:
    """Parse the value of `--older-than` as a time.

    Raises:
        InvalidInputError: The text is not a time in ISO 8601.
    """
    try:
        return utc_time_of(text)
    except ValueError as error:
        raise InvalidInputError(f"--older-than is {text!r}", next_step="write a time such as 2026-01-31 or 2026-01-31T12:00:00") from error


def older_than_age_or_time(text: str, now: datetime | None = None) -> datetime:
    """Parse the value of `--older-than`: a time, or an age such as `7d`, `12h` or `30m`. An age is converted to the time that long before `now`.

    `now` is the present time by default.

    Raises:
        InvalidInputError: The text is neither a time nor an age.
    """
    age = _AGE.fullmatch(text.strip())
    try:
        if age is not None:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return utc_time_of(text)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"--older-than {text!r} is neither an age nor a time",
            next_step="give an age such as 7d, 12h or 30m, or a time such as 2024-05-01T12:00",
        ) from error


def milliseconds(time: datetime | int) -> int:
    """Convert a time to milliseconds since 1970-01-01 UTC. An int is returned unchanged, because it is in milliseconds already.

    Raises:
        InvalidInputError: The time has no time zone.
    """
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise InvalidInputError(f"the time {time} has no time zone", next_step="give it one, such as datetime.timezone.utc")
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
