"""Reading 10 million rows in this process with a deletion vector of 1 million positions, compared with the same read without it."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks import measure
from benchmarks.measure import Comparison, interleaved, median, say, seconds
from icefloe.datafile.data_file_reader import read_task
from icefloe.datafile.data_file_writer import write_batches
from icefloe.datafile.deletes.delete_file_output import RowsToDelete, write_vectors
from icefloe.datafile.deletes.delete_loader import DeleteLoader
from icefloe.datafile.write_target import WriteTarget
from icefloe.io.local_file_io import LocalFileIO
from icefloe.scan.file_scan_task import FileScanTask
from icefloe.spec.expressions.predicate import AlwaysTrue
from icefloe.spec.partitioning.partition_spec import UNPARTITIONED_SPEC
from icefloe.spec.schema.schema import Schema
from icefloe.spec.types import DoubleType, LongType, NestedField, StringType

REPEATS = 5
ROWS = 10_000_000
DELETED_ROWS = 1_000_000
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "type", StringType()), NestedField(3, "value", DoubleType()))
IO = LocalFileIO()


def run() -> list[Comparison]:
    """Measure reads of all columns and of one column of numbers; each read loads the deletion vector again."""
    say(f"deletes: a file of {ROWS:,} rows and a vector of {DELETED_ROWS:,} scattered positions")
    folder = measure.BUILD / "deletes"
    whole = _made(folder)
    lines = []
    for title, projection in (("three columns", SCHEMA), ("one column", SCHEMA.select("id"))):
        sides = {"with": partial(_read, whole, projection), "without": partial(_read, replace(whole, delete_files=()), projection)}
        taken = interleaved(REPEATS, sides)
        if {rows for _, rows in taken["with"]} != {ROWS - DELETED_ROWS} or {rows for _, rows in taken["without"]} != {ROWS}:
            raise SystemExit("a read gave another number of rows than there are")
        ours, plain = (median([one[0] for one in taken[side]]) for side in ("with", "without"))
        lines.append(
            Comparison(
                f"deletion vector over {title}: time, beside the read without", seconds(ours), seconds(plain), ours / plain, "<= 1.15"
            )
        )
    return lines


def _made(folder: Path) -> FileScanTask:
    for old in folder.glob("data/*"):
        old.unlink()
    target = WriteTarget(table_name="b.t", schema=SCHEMA, data_location=f"{folder}/data", io=IO, operation_uuid="bench")
    random = np.random.default_rng(7)
    types = pa.array(["c8y_LocationUpdate", "c8y_Event", "c8y_Alarm", "c8y_Measurement"])
    batches = (
        pa.record_batch(
            {
                "id": np.arange(start, start + 500_000),
                "type": types.take(pa.array(random.integers(0, 4, 500_000))),
                "value": random.random(500_000),
            }
        )
        for start in range(0, ROWS, 500_000)
    )
    (file,) = write_batches(target, batches, partition_id=0, task_id=0)
    positions = np.sort(random.choice(ROWS, DELETED_ROWS, replace=False))
    marked = RowsToDelete(file=file, positions=positions)
    written = write_vectors(target, [marked], deletes=DeleteLoader(IO), partition_id=0, task_id=1)
    return FileScanTask(file=file, residual=AlwaysTrue(), length=file.file_size_in_bytes, sequence_number=1, delete_files=written.added)


def _read(task: FileScanTask, projection: Schema) -> tuple[float, int]:
    started = time.perf_counter()
    batches = read_task(IO, task, schema=SCHEMA, projection=projection, specs={0: UNPARTITIONED_SPEC}, deletes=DeleteLoader(IO))
    rows = sum(batch.num_rows for batch in batches)
    return time.perf_counter() - started, rows
