"""`LocalDays`: the instants at which days begin in a time zone, by the rules of the JVM that Spark computes with.

Python's own rules may be of another year, and know fewer of the zone names that Spark takes.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from icefloe.spark.bridge.gateway import jvm_of

DAY_S = 24 * 60 * 60
MICROS = 1_000_000
# Seconds. No zone is farther from UTC; twice that, as an instant that far from a local midnight may have the other sign's offset.
_FARTHEST = 2 * 18 * 60 * 60


class LocalDays:
    """The days of one time zone, named as Spark names it."""

    def __init__(self, spark: SparkSession, zone: str) -> None:
        self._spark = spark
        self._zone = zone

    def start(self, day: int) -> int | None:
        """The instant (microseconds since 1970) from which on the local date is this day (counted from 1970-01-01) or a later one, and never before.

        None where there is no such instant: clocks were put back over midnight.
        """
        midnight = day * DAY_S
        found = None
        for begin, end, offset in self._stretches(midnight - _FARTHEST, midnight + _FARTHEST):
            first = min(max(midnight - offset, begin), end)  # of the stretch that is not before midnight
            if found is None and first < end:
                found = first
            elif found is not None and first > begin:
                return None
        return None if found is None else found * MICROS

    def _stretches(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """The time between two instants as stretches of one offset: their ends and the offset, in seconds."""
        instant = jvm_of(self._spark).java.time.Instant
        offset = self._rules.getOffset(instant.ofEpochSecond(begin)).getTotalSeconds()
        while begin < end:
            change = self._rules.nextTransition(instant.ofEpochSecond(begin))
            until = end if change is None else min(end, change.toEpochSecond())
            yield begin, until, offset
            if change is not None:
                offset = change.getOffsetAfter().getTotalSeconds()
            begin = until

    @cached_property
    def _rules(self) -> Any:
        return jvm_of(self._spark).org.apache.spark.sql.catalyst.util.DateTimeUtils.getZoneId(self._zone).getRules()
