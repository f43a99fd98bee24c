"""Upsert a CSV file of orders into a table: one commit, safe to repeat, with an exit code for a scheduler.

    python daily_upsert.py inbox/2024-05-01.csv

Lines that cannot be read are written beside the file, with the reason. Exit codes: 0 done, 1 failed and nothing was written to the table,
2 try again later, 3 look at the table before you run it again.
"""

import datetime as dt
import logging
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from icefloe import Catalog, CommitConflictError, CommitUnknownError, IcefloeError, Table, load_catalog
from icefloe.errors import StorageUnavailableError

LOG = logging.getLogger("daily_upsert")
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("customer", pa.string()), ("amount", pa.float64()), ("changed_at", pa.timestamp("us"))]
)
ATTEMPTS = 3
KEEP_DAYS = 30


def open_table(catalog: Catalog) -> Table:
    """Load the table of orders, created at the first run."""
    catalog.create_namespace_if_not_exists("shop")
    return catalog.create_table_if_not_exists("shop.orders", SCHEMA, partition_spec=["month(changed_at)"])


def read_orders(path: Path) -> pa.Table:
    """Read the file; lines with another number of values than the header go to `<file>.bad`. Of several rows with one id the last is kept."""
    bad: list[str] = []

    def set_aside(row: csv.InvalidRow) -> str:
        bad.append(f"{path.name}: {row.actual_columns} values instead of {row.expected_columns}: {row.text}")
        return "skip"

    orders = csv.read_csv(
        path,
        parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=set_aside),
        convert_options=csv.ConvertOptions(column_types=SCHEMA, include_columns=SCHEMA.names),
    )
    if bad:
        path.with_suffix(path.suffix + ".bad").write_text("\n".join(bad) + "\n", encoding="utf-8")
        LOG.warning("%d lines of %s were set aside", len(bad), path)
    numbered = orders.append_column("row", pa.array(range(orders.num_rows), pa.int64()))
    return orders.take(numbered.group_by("id").aggregate([("row", "max")]).sort_by("row_max")["row_max"])


def run(catalog: Catalog, path: Path) -> int:
    """Upsert one file, and return the exit code."""
    table = open_table(catalog)
    orders = read_orders(path)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            result = table.upsert(orders, ["id"], snapshot_properties={"source-file": path.name})
            break
        except (CommitConflictError, StorageUnavailableError) as error:  # nothing was committed: later it may succeed
            LOG.warning("attempt %d of %d: %s", attempt, ATTEMPTS, error)
            if attempt == ATTEMPTS:
                return 2
            time.sleep(attempt)
            table.refresh()
    LOG.info("%s: %d updated, %d inserted, %d unchanged", path.name, result.rows_updated, result.rows_inserted, result.rows_unchanged)
    report = table.expire_snapshots(older_than=dt.datetime.now(dt.UTC) - dt.timedelta(days=KEEP_DAYS))
    LOG.info("expired %d snapshots, deleted %d files", len(report.snapshot_ids), report.deleted_files)
    return 0


def main() -> int:
    """Run the job for the file that the command line names."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return run(load_catalog("lake", uri="lake.db", warehouse="lake"), Path(sys.argv[1]))
    except CommitUnknownError as error:  # the reply was lost: the next step in the message shows how to look
        LOG.error("%s", error)
        return 3
    except (IcefloeError, OSError, pa.ArrowInvalid) as error:
        LOG.error("%s", error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
