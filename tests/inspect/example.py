"""One small table with a history: two appends and a delete, partitioned by month and type, for tests that look inside."""

import datetime as dt
from pathlib import Path

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.table import Table

TYPES = ("c8y_Alarm", "c8y_Event", "c8y_Measurement")
WHERE = "type = 'c8y_Event' AND time > '2024-01-01'"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("type", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("value", pa.float64()),
        ("place", pa.struct([("lat", pa.float32()), ("tags", pa.list_(pa.string()))])),
    ]
)


def event_rows(first_id: int, begin: dt.datetime, count: int = 300) -> pa.Table:
    """Rows every seven hours; every fifth value is null."""
    return pa.table(
        {
            "id": range(first_id, first_id + count),
            "type": [TYPES[number % len(TYPES)] for number in range(count)],
            "time": [begin + dt.timedelta(hours=7 * number) for number in range(count)],
            "value": [float(number) if number % 5 else None for number in range(count)],
            "place": [{"lat": 51.0, "tags": ["a", "b"]} for _ in range(count)],
        },
        schema=SCHEMA,
    )


def make_lake(folder: Path) -> tuple[SqlCatalog, Table]:
    """A catalog in `folder/catalog.db` with the table `demo.events`: 600 rows of which the 200 measurements are deleted."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    catalog.create_namespace("demo", {"owner": "tests"})
    table = catalog.create_table("demo.events", SCHEMA, partition_spec=["month(time)", "type"])
    table.append(event_rows(0, dt.datetime(2023, 9, 1, tzinfo=dt.UTC)))
    table.append(event_rows(300, dt.datetime(2023, 12, 1, tzinfo=dt.UTC)))
    table.delete("type = 'c8y_Measurement'")
    return catalog, table
