"""Days and microseconds since 1970 against text and Python's date and time classes.

The type each number belongs to is chosen in `values.py`; partition transforms of time are `partitioning/transforms.py`. Everything here is exact integer
arithmetic on the proleptic Gregorian calendar, before 1970 too. Floor: kernel, beside types. Spec: Primitive Types; Appendix D, JSON single-value
serialization.
"""

import re
from datetime import UTC, date, datetime, time, timedelta

import numpy as np

MICROS_PER_SECOND = 1_000_000
MICROS_PER_HOUR = 3_600 * MICROS_PER_SECOND
MICROS_PER_DAY = 24 * MICROS_PER_HOUR

_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the spec's `timestamp` has no zone
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)

_DATE = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIME_TEXT = re.compile(_CLOCK, re.ASCII)
_TIMESTAMP_TEXT = re.compile(rf"({_DATE})(?:[T ]{_CLOCK}(?: ?(Z|UTC|[+-]\d{{2}}:?\d{{2}}))?)?", re.ASCII)


def days_of(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_ORDINAL


def date_of(days: int) -> date:
    """The date of a number of days. Raises `OverflowError` or `ValueError` outside the years 1 to 9999."""
    return date.fromordinal(days + _EPOCH_ORDINAL)


def micros_of_time(value: time) -> int:
    """Microseconds since midnight; a zone is not looked at."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * MICROS_PER_SECOND + value.microsecond


def time_of(micros: int) -> time:
    """The time of day of microseconds since midnight. Raises `ValueError` outside one day."""
    seconds, micro = divmod(micros, MICROS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micro)


def micros_of(value: datetime) -> int:
    """Microseconds since 1970-01-01T00:00:00; of an aware datetime, since that instant in UTC."""
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICRO


def datetime_of(micros: int, *, utc: bool) -> datetime:
    """The datetime of microseconds since 1970: naive, or aware in UTC. Raises `OverflowError` outside the years 1 to 9999."""
    return (_EPOCH_UTC if utc else _EPOCH) + micros * _MICRO


def parse_date(text: str) -> int:
    """Days of `2024-01-31`. Raises `ValueError`."""
    if not _DATE_TEXT.fullmatch(text):
        raise ValueError("expected a date such as 2024-01-31")
    return days_of(date.fromisoformat(text))


def parse_time(text: str) -> int:
    """Microseconds since midnight of `22:31`, `22:31:08` or `22:31:08.123456`. Raises `ValueError`."""
    found = _TIME_TEXT.fullmatch(text)
    if not found:
        raise ValueError("expected a time such as 22:31:08.123456")
    hour, minute, second, fraction = found.groups()
    return micros_of_time(time(int(hour), int(minute), int(second or 0), _micros_of_fraction(fraction)))


def parse_timestamp(text: str, *, utc: bool) -> int:
    """Microseconds since 1970 of `2024-01-31`, `2024-01-31T22:31:08.123456` or, with `utc`, the same with a zone such as `+01:00`.

    Without a time it is midnight; with `utc` and without a zone it is UTC.

    Raises:
        ValueError: the text has another form, a digit finer than a microsecond, or a zone although `utc` is false.
    """
    found = _TIMESTAMP_TEXT.fullmatch(text)
    if not found:
        raise ValueError("expected a timestamp such as 2024-01-31T22:31:08.123456" + ("+00:00" if utc else ""))
    day, hour, minute, second, fraction, zone = found.groups()
    if zone and not utc:
        raise ValueError(f"the column is without time zone, so the zone {zone} cannot be used")
    of_day = micros_of_time(time(int(hour or 0), int(minute or 0), int(second or 0), _micros_of_fraction(fraction)))
    return days_of(date.fromisoformat(day)) * MICROS_PER_DAY + of_day - _offset_micros(zone)


def format_date(days: int) -> str:
    """ISO 8601, such as `2017-11-16`; years outside 1 to 9999 as numpy prints them."""
    return str(np.datetime_as_string(np.datetime64(days, "D")))


def format_time(micros: int) -> str:
    """ISO 8601 with as many fraction digits as needed, such as `22:31:08` or `22:31:08.1`."""
    return format_timestamp(micros, utc=False).partition("T")[2]


def format_timestamp(micros: int, *, utc: bool) -> str:
    """ISO 8601 with as many fraction digits as needed; `utc` adds `+00:00`, the only offset the spec lets be written."""
    second, _, fraction = str(np.datetime_as_string(np.datetime64(micros, "us"))).partition(".")
    fraction = fraction.rstrip("0")
    return second + (f".{fraction}" if fraction else "") + ("+00:00" if utc else "")


def _micros_of_fraction(fraction: str | None) -> int:
    if not fraction:
        return 0
    if fraction[6:].strip("0"):
        raise ValueError("the finest unit is the microsecond")
    return int(fraction[:6].ljust(6, "0"))


def _offset_micros(zone: str | None) -> int:
    if not zone or zone in ("Z", "UTC"):
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 18 or minutes > 59:
        raise ValueError(f"{zone} is not a time zone offset")
    return (hours * 60 + minutes) * 60 * MICROS_PER_SECOND * (-1 if zone[0] == "-" else 1)
