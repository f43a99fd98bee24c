"""Child process that creates the tables of `micro_batches.py`, and plans a micro-batch for each line of its input.

    micro_batches_child.py icefloe FOLDER TABLE [SNAPSHOTS]

With SNAPSHOTS it creates the table, unless it exists. The data files do not exist: only metadata is read.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.history_child import with_older_snapshots
from icefloe import SqlCatalog
from icefloe.io.manifest_cache import cached_manifests
from icefloe.operations.metadata_cache import METADATA_FILES
from icefloe.scan.micro_batches import MicroBatchPlanner
from icefloe.scan.stream_rules import StreamRules
from icefloe.spec.manifest.data_file import DataFile, FileFormat
from icefloe.spec.metadata.metadata_writer import write_table_metadata
from icefloe.table import Table

COMMITS, FILES = 100, 1_000
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "2",
    "commit.manifest-merge.enabled": "false",
}


def file(table: Table, number: int) -> DataFile:
    """Return a data file that does not exist."""
    path = f"{table.location()}/data/{number:08}.parquet"
    return DataFile(file_path=path, file_format=FileFormat.PARQUET, partition=(), record_count=1000, file_size_in_bytes=10**6, spec_id=0)


def append(table: Table, first: int, count: int) -> None:
    """Append files in one commit."""
    with table.update_snapshot().fast_append() as change:
        for number in range(first, first + count):
            change.append_file(file(table, number))
    table.refresh()


def create(catalog: SqlCatalog, folder: Path, name: str, snapshots: int) -> None:
    """Create the table with that many snapshots, unless it exists."""
    if catalog.table_exists(name):
        return
    table = catalog.create_table(name, schema=SCHEMA, properties=PROPERTIES)
    for number in range(COMMITS):
        append(table, number * FILES, FILES)
    longer = with_older_snapshots(table.metadata, snapshots - COMMITS, 1)
    path = folder / f"{name}.metadata.json"
    path.write_bytes(write_table_metadata(longer))
    catalog.drop_table(name)
    catalog.register_table(name, f"file://{path}")


def plan_on_request(catalog: SqlCatalog, name: str) -> None:
    """For each line of the input append one file, then load the table and plan the batch of the file; print the times."""
    table = catalog.load_table(name)

    def planner() -> MicroBatchPlanner:
        return MicroBatchPlanner(
            table_name=name,
            metadata=table.metadata,
            head=table.metadata.current_snapshot(),
            rules=StreamRules(),
            read=table.io.read,
            cache=cached_manifests(table.io),
        )

    offset: Any = planner().latest_offset()
    for number, _ in enumerate(sys.stdin):
        append(catalog.load_table(name), 10**7 + number, 1)
        METADATA_FILES.clear()
        begin = clocks()
        table.refresh()
        loaded = clocks()
        plans = planner()
        end = plans.next_offset(offset)
        plan = plans.plan(offset, end, table.schema())
        planned = clocks()
        assert plan.files_kept == 1
        offset = end
        del plans, plan  # their metadata is freed by the next load, as in a stream
        times = {
            "load": loaded[0] - begin[0],
            "load_cpu": loaded[1] - begin[1],
            "plan": planned[0] - loaded[0],
            "plan_cpu": planned[1] - loaded[1],
        }
        print(json.dumps(times), flush=True)


def clocks() -> tuple[float, float]:
    """Return the wall-clock and the CPU time."""
    return time.perf_counter(), time.process_time()


def main(_: str, folder: str, name: str, snapshots: str = "") -> None:
    """Create the table, or plan for each line of the input."""
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace_if_not_exists("bench")
    if snapshots:
        create(catalog, Path(folder), name, int(snapshots))
        print("{}")
    else:
        plan_on_request(catalog, name)


if __name__ == "__main__":
    main(*sys.argv[1:])
