"""Child process that commits the epochs of `streams.py`, and prints the seconds of a commit late and early in a stream.

streams_child.py icefloe FOLDER EPOCHS ROUNDS
"""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

import pyarrow as pa

from icefloe import SqlCatalog
from icefloe.commit.stream_epoch import StreamEpoch, is_committed, last_epoch
from icefloe.table import Table
from icefloe.table.epoch_changes import EpochChanges, OutputMode

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
# Those that docs/expiring.md names for many small commits.
PROPERTIES = {
    "write.metadata.compression-codec": "gzip",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
EARLY, YOUNG = 10, 4  # the epochs before the measured ones of a stream that begins, and how many of it are measured


def commit_next(table: Table, query_id: str) -> tuple[float, float]:
    """Commit the next epoch of a stream as Spark's sink does, and return the seconds of the clock and of the processor."""
    last = last_epoch(table.metadata.properties, query_id)
    number = 0 if last is None else last.epoch + 1
    row = pa.table({"id": [number], "name": [f"row {number}"], "amount": [number / 2]}, schema=SCHEMA)
    begin = time.perf_counter(), time.process_time()
    epoch = StreamEpoch(query_id=query_id, epoch=number, branch="main")
    if is_committed(table.refresh().metadata, epoch, searches_history=False):
        raise SystemExit(f"epoch {number} is committed already")
    changes = EpochChanges(table, epoch, OutputMode.APPEND)
    changes.append(row, epoch.summary)
    if not changes.is_committed:
        raise SystemExit(f"epoch {number} was not committed")
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def opened(catalog: SqlCatalog, name: str) -> Table:
    """Return the table of a stream, which is created if it does not exist."""
    if not catalog.table_exists(name):
        catalog.create_table(name, schema=SCHEMA, properties=PROPERTIES)
    return catalog.load_table(name)


def main(_engine: str, folder: str, epochs: str, rounds: str) -> None:
    """Commit the epochs of the long stream that are missing, then measure."""
    catalog = SqlCatalog("bench", uri=f"sqlite:///{Path(folder) / 'catalog.db'}", warehouse=f"file://{Path(folder) / 'warehouse'}")
    catalog.create_namespace_if_not_exists("bench")
    long = opened(catalog, "bench.long")
    while (last := last_epoch(long.metadata.properties, "long")) is None or last.epoch < int(epochs):
        commit_next(long, "long")
    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(int(rounds)):
        if catalog.table_exists("bench.young"):
            catalog.purge_table("bench.young")
        young = opened(catalog, "bench.young")
        for _ in range(EARLY):
            commit_next(young, "young")
        for _ in range(YOUNG):
            taken["late"].append(commit_next(long, "long"))
            taken["early"].append(commit_next(young, "young"))
    figures = {
        side: {
            "wall": median(wall for wall, _ in commits),
            "cpu": median(cpu for _, cpu in commits),
            "cpu_mean": mean(cpu for _, cpu in commits),
        }
        for side, commits in taken.items()
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
