"""Conversion of days, microseconds and nanoseconds since 1970 to text and to Python's date and time classes, both ways.

`values.py` defines which unit each type has; `partitioning/transforms.py` has the partition transforms of time. All arithmetic is exact, on integers in the
proleptic Gregorian calendar, before 1970 too. Spec: Primitive Types; Appendix D, JSON single-value serialization.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

MICROS_PER_SECOND = 1_000_000
MICROS_PER_HOUR = 3_600 * MICROS_PER_SECOND
MICROS_PER_DAY = 24 * MICROS_PER_HOUR
NANOS_PER_MICRO = 1_000
NANOS_PER_DAY = NANOS_PER_MICRO * MICROS_PER_DAY

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - `timestamp` of the spec has no zone
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
# The calendar repeats after this many years. Years that Python's dates do not support are shifted by it.
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097

# Years beyond 9999 and below 0 have a sign, as ISO 8601 requires and Java writes.
_DATE = r"(?:\d{4}|[+-]\d{4,9})-\d{2}-\d{2}"
_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIME_TEXT = re.compile(_CLOCK, re.ASCII)
_TIMESTAMP_TEXT = re.compile(rf"({_DATE})(?:[T ]{_CLOCK}(?: ?(Z|UTC|[+-]\d{{2}}:?\d{{2}}))?)?", re.ASCII)


def days_of(value: date) -> int:
    """Return the days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def date_of(days: int) -> date:
    """Return the date of a number of days.

    Raises:
        OverflowError, ValueError: The year is not from 1 to 9999.
    """
    return date.fromordinal(days + _EPOCH_ORDINAL)


def micros_of_time(value: time) -> int:
    """Return the microseconds since midnight; a time zone is ignored."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * MICROS_PER_SECOND + value.microsecond


def time_of(micros: int) -> time:
    """Return the time of day of microseconds since midnight.

    Raises:
        ValueError: The microseconds are outside of one day.
    """
    seconds, micro = divmod(micros, MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micro)


def micros_of(value: datetime) -> int:
    """Return the microseconds since 1970-01-01T00:00:00, for a datetime with a time zone since that time in UTC."""
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICRO


def datetime_of(micros: int, *, utc: bool) -> datetime:
    """Return the datetime of microseconds since 1970: naive, or aware in UTC.

    Raises:
        OverflowError: The year is not from 1 to 9999.
    """
    return (_EPOCH_UTC if utc else _EPOCH) + micros * _MICRO


def parse_date(text: str) -> int:
    """Parse a date such as `2024-01-31`, `-0044-03-15` or `+12345-01-01` to days.

    Raises:
        ValueError: The text has another form.
    """
    if not _DATE_TEXT.fullmatch(text):
        raise ValueError("expected a date such as 2024-01-31")
    year_text, month, day = text.rsplit("-", 2)
    year = int(year_text)
    cycles, within = divmod(year - 1, _CYCLE_YEARS)
    return days_of(date(within + 1, int(month), int(day))) + cycles * _CYCLE_DAYS


def parse_time(text: str) -> int:
    """Parse a time such as `22:31`, `22:31:08` or `22:31:08.123456` to microseconds since midnight.

    Raises:
        ValueError: The text has another form.
    """
    match = _TIME_TEXT.fullmatch(text)
    if not match:
        raise ValueError("expected a time such as 22:31:08.123456")
    return _parse_clock(match.groups(), nanos=False)


def parse_timestamp(text: str, *, utc: bool, nanos: bool = False) -> int:
    """Parse a timestamp such as `2024-01-31` or `2024-01-31T22:31:08.123456`; without a time it is midnight.

    Args:
        text: The timestamp.
        utc: Whether a zone such as `+01:00` is allowed; without one the time is UTC.
        nanos: Whether to return nanoseconds instead of microseconds since 1970.

    Raises:
        ValueError: The text has another form, more fraction digits than the unit has, or a zone although `utc` is False.
    """
    match = _TIMESTAMP_TEXT.fullmatch(text)
    if not match:
        raise ValueError("expected a timestamp such as 2024-01-31T22:31:08.123456" + ("+00:00" if utc else ""))
    day, *clock, zone = match.groups()
    if zone and not utc:
        raise ValueError(f"the column has no time zone, so the zone {zone} cannot be used")
    scale = NANOS_PER_MICRO if nanos else 1
    return parse_date(day) * MICROS_PER_DAY * scale + _parse_clock(clock, nanos=nanos) - _offset_micros(zone) * scale


def format_date(days: int) -> str:
    """Return a date such as `2017-11-16`. Years above 9999 have no plus sign, as in Java's texts for people."""
    return str(np.datetime_as_string(np.datetime64(days, "D")))


def format_iso_date(days: int) -> str:
    """Return a date in ISO 8601, such as `2017-11-16`, `-0044-03-15` or `+12345-01-01`."""
    cycles, within = divmod(days, _CYCLE_DAYS)
    near = date_of(within)
    year = near.year + cycles * _CYCLE_YEARS
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{near.month:02d}-{near.day:02d}"


def format_time(micros: int) -> str:
    """Return a time in ISO 8601 with as many fraction digits as needed, such as `22:31:08` or `22:31:08.1`."""
    seconds, fraction = divmod(micros, MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def format_timestamp(count: int, *, utc: bool, nanos: bool = False) -> str:
    """Return a timestamp in ISO 8601 with as many fraction digits as needed.

    Args:
        count: Microseconds, or with `nanos` nanoseconds, since 1970.
        utc: Whether to add `+00:00`, the only offset that the spec allows writing.
        nanos: Whether `count` is in nanoseconds.
    """
    micros, rest = divmod(count, NANOS_PER_MICRO) if nanos else (count, 0)
    days, of_day = divmod(micros, MICROS_PER_DAY)
    second, _, fraction = format_time(of_day).partition(".")
    if rest:
        fraction = f"{fraction.ljust(6, '0')}{rest:03d}".rstrip("0")
    return f"{format_iso_date(days)}T{second}" + (f".{fraction}" if fraction else "") + ("+00:00" if utc else "")


def _parse_clock(groups: Sequence[str | None], *, nanos: bool) -> int:
    """Return the microseconds since midnight, or with `nanos` nanoseconds, of a time of day. `groups` are its hour, minute, second and fraction as text."""
    hour, minute, second, fraction = groups
    whole = micros_of_time(time(int(hour or 0), int(minute or 0), int(second or 0)))
    digits = 9 if nanos else 6
    if fraction and fraction[digits:].strip("0"):
        raise ValueError("the finest unit is the nanosecond" if nanos else "the finest unit is the microsecond")
    return whole * (NANOS_PER_MICRO if nanos else 1) + int((fraction or "")[:digits].ljust(digits, "0"))


def _offset_micros(zone: str | None) -> int:
    if not zone or zone in ("Z", "UTC"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 18 or minutes > 59:
        raise ValueError(f"{zone} is not a time zone offset")
    return (hours * 60 + minutes) * 60 * MICROS_PER_SECOND * (-1 if zone[0] == "-" else 1)
